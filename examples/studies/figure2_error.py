"""Figure 2: estimation error against the number of votes.

Setting of the paper's section 6.1: 50 tasks x 50 models, rank 5, largest absolute score 5, tasks and pairs uniform, a fresh score
matrix per trial. Compared on the same data: the nuclear-norm initializer (step 2 of Algorithm 1), Algorithm 1 with all data in every
stage, the default, and per-task Bradley-Terry, nearly unpenalised (ridge 1e-6, the paper's baseline) and with a sensible ridge.
Errors: Frobenius norm, the same over that of the truth, and sup norm (largest absolute error); below, the slope of log error on
log n, fitted in every trial (theory: -1/2). `--data FILE` takes a table of true scores instead.

    python examples/studies/figure2_error.py --trials 20 --picture figure2.png
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from _board import Board
from _runner import mean_and_error, run_trials, study_options

import lrgittins as lg
from lrgittins.simulate import simulate_comparisons

SIZES = (4_000, 8_000, 16_000, 32_000, 64_000)
PAPER_BOARD = Board(votes=SIZES)


def initializer(votes: lg.Comparisons, rank: int | str) -> np.ndarray:
    """Step 2 of Algorithm 1 as the estimator starts from it, before any truncation to the rank."""
    table = votes._table
    cap = min(table.n_tasks, table.n_models - 1)
    return lg.LowRankBradleyTerry()._initialise(table.cells(), 1 if isinstance(rank, str) else min(rank, cap), None)[0].scores


def scores_of(estimator: Any) -> Callable[[lg.Comparisons], np.ndarray]:
    return lambda votes: estimator.fit(votes).scores_.to_numpy()


METHODS: dict[str, Callable[[lg.Comparisons, int | str], np.ndarray]] = {  # label -> (votes, rank) -> scores
    "initializer": initializer,
    "algorithm 1": lambda votes, rank: scores_of(lg.LowRankBradleyTerry(rank=rank, polish=False))(votes),
    "default": lambda votes, rank: scores_of(lg.LowRankBradleyTerry(rank=rank))(votes),
    "per-task, ridge 1e-6": lambda votes, rank: scores_of(lg.PerTaskBradleyTerry(ridge=1e-6))(votes),
    "per-task, ridge 0.3": lambda votes, rank: scores_of(lg.PerTaskBradleyTerry(ridge=0.3))(votes),
}
MEASURES = {"frobenius": "Frobenius error", "relative": "relative Frobenius error", "sup": "sup-norm error"}
STYLES = (("o", "-"), ("s", "--"), ("D", "-"), ("^", ":"), ("v", "-."))  # read in grey too


def one_trial(rng: np.random.Generator, *, n: int, trial: int, board: Board = PAPER_BOARD) -> list[dict[str, Any]]:
    truth = board.truth(rng)
    votes = simulate_comparisons(truth, n, random_state=rng)
    size = float(np.linalg.norm(truth.to_numpy()))
    rows = []
    for method, estimate in METHODS.items():
        # A model nobody voted on has no score: it is left at 0, the centre.
        error = np.nan_to_num(estimate(votes, board.rank)) - truth.to_numpy()
        norm = float(np.linalg.norm(error))
        measures = {"frobenius": norm, "relative": norm / size if size > 0.0 else None, "sup": float(np.abs(error).max())}
        rows.append({"n": n, "trial": trial, "method": method, **measures})
    return rows


def slopes(table: pd.DataFrame, sizes: tuple[int, ...]) -> np.ndarray:
    """Slope of log error on log n of every trial; `table` has a row per trial and a column per n."""
    x = np.log(np.array(sizes, dtype=np.float64))
    x -= x.mean()
    return np.log(table[list(sizes)].to_numpy(dtype=np.float64)) @ x / (x @ x)


def report(frame: pd.DataFrame, measure: str, sizes: tuple[int, ...]) -> None:
    click.echo(f"\n{MEASURES[measure]}: mean (Monte Carlo error)")
    click.echo(f"{'':>22} " + " ".join(f"{f'n = {n:,}':>17}" for n in sizes) + f"{'log-log slope':>19}")
    for method in METHODS:
        table = frame[frame.method == method].pivot(index="trial", columns="n", values=measure)
        cells = [mean_and_error(table[n].to_numpy(dtype=np.float64)) for n in sizes]
        line = f"{method:>22} " + " ".join(f"{f'{mean:.3f} ({error:.3f})':>17}" for mean, error in cells)
        if len(sizes) > 1:
            mean, error = mean_and_error(slopes(table, sizes))
            line += f"{f'{mean:.3f} ({error:.3f})':>19}"
        click.echo(line)


def draw(frame: pd.DataFrame, sizes: tuple[int, ...], path: Path) -> None:
    """Error against n on two logarithmic axes, one panel per norm, error bars of two Monte Carlo errors."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(1, 2, figsize=(10.0, 4.4), layout="constrained")
    for ax, measure in zip(axes, ("frobenius", "sup"), strict=True):
        for index, (method, (marker, line)) in enumerate(zip(METHODS, STYLES, strict=True)):
            table = frame[frame.method == method].pivot(index="trial", columns="n", values=measure)
            cells = np.array([mean_and_error(table[n].to_numpy(dtype=np.float64)) for n in sizes])
            spread = 2.0 * np.nan_to_num(cells[:, 1])
            ax.errorbar(sizes, cells[:, 0], yerr=spread, marker=marker, linestyle=line, color=f"C{index}", markersize=4.5, label=method)
            if method == "default":
                half = cells[0, 0] * np.sqrt(sizes[0] / np.array(sizes, dtype=np.float64))
                ax.plot(sizes, half, color="#7a7a7a", linewidth=0.8, label="slope -1/2")
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_xticks(sizes, [f"{n:,}" for n in sizes], fontsize=8)
        ax.minorticks_off()
        ax.set_xlabel("votes")
        ax.set_ylabel(MEASURES[measure])
        ax.grid(linewidth=0.3)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower center", ncols=6, fontsize=8)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


@click.command(help=__doc__)
@study_options(trials=20, votes=SIZES, picture=True)
def main(trials: int, jobs: int, seed: int, out: Path | None, board: Board, picture: Path | None) -> None:
    sizes = board.votes
    settings = [{"n": n, "trial": trial} for trial in range(trials) for n in sizes]
    worker = functools.partial(one_trial, board=board)
    frame = pd.DataFrame(run_trials(worker, settings, name="figure2_error", seed=seed, jobs=jobs, out=out, header=board.header))
    click.echo(f"\n{board.describe()}; {trials} trials, seed {seed}")
    for measure in MEASURES:
        if frame[measure].notna().all():
            report(frame, measure, sizes)
    if picture is not None:
        draw(frame, sizes, picture)


if __name__ == "__main__":
    main()
