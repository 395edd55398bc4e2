"""Table 4: one model on all tasks jointly. Joint band coverage, width and resolved rate of model families.

Setting as in `table3_single_task.py` at n = 32,000; every trial certifies all 50 model families. The paper's own procedure
(Algorithm 1, uniform law, max-t) runs on the same data. Errors are clustered by trial.

    python examples/studies/table4_simultaneous.py --trials 5
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from _runner import report_by_theta, report_measures, run_trials, study_options
from table3_single_task import ALPHA, FITS, THETA_SEEDS, TOP_K

import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons

N_VOTES = 32_000
METHODS = ("max-t", "step-down", "order-statistic")
PAPER = "paper: width 31.3, resolved .315"
BASELINE = "paper's procedure, max-t"
MEASURES = ("bands", "ranks", "width", "certified", "wrong")


def one_trial(rng: np.random.Generator, *, theta: int, trial: int) -> list[dict[str, Any]]:
    truth = low_rank_scores(50, 50, 5, random_state=theta)
    votes = simulate_comparisons(truth, N_VOTES, random_state=rng)
    seed = int(rng.integers(2**31))
    scores = truth.to_numpy()
    true_rank = truth.rank(axis=1, ascending=False).to_numpy()
    rows = []
    for label, (make, options, methods) in FITS.items():
        inference = lg.infer_gaps(votes, make(), random_state=seed, **options)
        bands = inference.bands("model", alpha=ALPHA, method="max-t", random_state=seed).to_frame()
        task, model = truth.index.get_indexer(bands.task), truth.columns.get_indexer(bands.model)
        gap = scores[task, model] - scores[task, truth.columns.get_indexer(bands.versus)]
        inside = pd.Series((bands.low <= gap) & (gap <= bands.high)).groupby(model).all()
        for method in [name for name in METHODS if name in methods]:
            board = inference.certify(TOP_K, family="model", alpha=ALPHA, method=method, random_state=seed).to_frame()
            rank = true_rank[truth.index.get_indexer(board.task), truth.columns.get_indexer(board.model)]
            ranked = (board.rank_low <= rank) & (rank <= board.rank_high)
            right = board.certificate == np.where(rank <= TOP_K, "top-k", "not-top-k")
            rows.append(
                {
                    "theta": theta,
                    "trial": trial,
                    "method": f"{label}, {method}",
                    "bands": float(inside.mean()),
                    "ranks": float(ranked.groupby(board.model).all().mean()),
                    "width": float((board.rank_high - board.rank_low).mean()),
                    "certified": float(right.mean()),
                    "wrong": float(((board.certificate != "unresolved") & ~right).mean()),
                }
            )
    return rows


@click.command(help=__doc__)
@study_options(trials=5)
def main(trials: int, jobs: int, seed: int, out: Path | None) -> None:
    settings = [{"theta": theta, "trial": trial} for trial in range(trials) for theta in THETA_SEEDS]
    frame = pd.DataFrame(run_trials(one_trial, settings, name="table4_simultaneous", seed=seed, jobs=jobs, out=out))
    click.echo(
        f"\nn = {N_VOTES:,}, K = {TOP_K}, alpha = {ALPHA}, {trials} trials for each of {len(THETA_SEEDS)} score matrices, "
        f"all 50 model families each, seed {seed}"
    )
    click.echo(PAPER)
    report_measures(frame, MEASURES, BASELINE)
    report_by_theta(frame, "bands")


if __name__ == "__main__":
    main()
