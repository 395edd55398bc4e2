"""Votes as string columns to all gaps with standard errors, against evalica's Bradley-Terry point fit alone.

Makes an environment of its own for evalica (once, in --env) and runs both in turn on the same file, each in a fresh process
after a warm-up call, so that the machine's noise falls on both. Prints the ratio and the largest difference of the gaps.

    python benchmarks/against_evalica.py --rows 1000000 --models 100
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

import click
import numpy as np
import pandas as pd

ONE_THREAD = {"OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1", "NUMBA_NUM_THREADS": "1", "RAYON_NUM_THREADS": "1"}

OURS = """
import json, sys, time
import pandas as pd
import lrgittins as lg
frame = pd.read_pickle(sys.argv[1])
def work():
    votes = lg.Comparisons.from_frame(frame, task=None)
    inference = lg.infer_gaps(votes, lg.PerTaskBradleyTerry())
    return inference, inference.gaps()
work()
times = []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    inference, gaps = work()
    times.append(time.perf_counter() - start)
json.dump({"times": times, "scores": inference.scores.loc["all"].to_dict(), "rows": len(gaps)}, sys.stdout)
"""

THEIRS = """
import json, math, sys, time
import evalica
import pandas as pd
frame = pd.read_pickle(sys.argv[1])
label = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y}
winners = [label[w] for w in frame["winner"]]
def work():
    return evalica.bradley_terry(frame["model_a"], frame["model_b"], winners)
work()
times = []
for _ in range(int(sys.argv[2])):
    start = time.perf_counter()
    result = work()
    times.append(time.perf_counter() - start)
json.dump({"times": times, "scores": {k: math.log(v) for k, v in result.scores.items()}}, sys.stdout)
"""


def simulated_votes(rows: int, models: int, seed: int) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    names = np.array([f"model-{i:03d}" for i in range(models)], dtype=object)
    strength = rng.standard_normal(models)
    first = rng.integers(models, size=rows)
    second = (first + rng.integers(1, models, size=rows)) % models
    won = rng.random(rows) < 1.0 / (1.0 + np.exp(strength[second] - strength[first]))
    return pd.DataFrame({"model_a": names[first], "model_b": names[second], "winner": np.where(won, "model_a", "model_b").astype(object)})


@click.command(help=__doc__)
@click.option("--rows", default=1_000_000, show_default=True)
@click.option("--models", default=100, show_default=True)
@click.option("--rounds", default=5, show_default=True, help="Times each side is run, alternating.")
@click.option("--seed", default=0, show_default=True)
@click.option(
    "--env", type=click.Path(path_type=Path), help="Folder of evalica's environment; made where it is absent (default: a temporary one)."
)
def main(rows: int, models: int, rounds: int, seed: int, env: Path | None) -> None:
    with tempfile.TemporaryDirectory() as scratch:
        folder = env or Path(scratch) / "evalica"
        python = folder / "bin" / "python"
        if not python.exists():
            venv.create(folder, with_pip=True)
            subprocess.run([python, "-m", "pip", "install", "-q", "evalica", "pandas"], check=True)
        file = Path(scratch) / "votes.pkl"
        simulated_votes(rows, models, seed).to_pickle(file)
        environment = {**os.environ, **ONE_THREAD}
        times: dict[str, list[float]] = {"ours": [], "evalica": []}
        scores = {}
        for _ in range(rounds):
            for name, interpreter, script in (("ours", sys.executable, OURS), ("evalica", str(python), THEIRS)):
                done = subprocess.run([interpreter, "-c", script, file, "1"], env=environment, check=True, capture_output=True, text=True)
                answer = json.loads(done.stdout)
                times[name] += answer["times"]
                scores[name] = pd.Series(answer["scores"])
    difference = (scores["ours"] - scores["ours"].mean()) - (scores["evalica"] - scores["evalica"].mean())
    best = {name: min(values) for name, values in times.items()}
    click.echo(f"{rows:,} votes, {models} models, one thread, best of {rounds} alternating runs")
    click.echo(f"ours, intake + fit + all gaps and standard errors: {best['ours'] * 1e3:8.1f} ms")
    click.echo(f"evalica, point fit alone:                          {best['evalica'] * 1e3:8.1f} ms")
    click.echo(
        f"ratio evalica / ours: {best['evalica'] / best['ours']:.2f}; largest difference of the scores: {difference.abs().max():.1e}"
    )


if __name__ == "__main__":
    main()
