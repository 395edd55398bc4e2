"""Table 1: top-K recovery (mean Hamming loss) of the low-rank default, Algorithm 1 and per-task Bradley-Terry.

Setting of the paper's section 6.1: 50 tasks x 50 models, rank 5, largest absolute score 5, tasks and pairs uniform, a fresh
score matrix per trial. `--data FILE` takes a table of true scores instead.

    python examples/studies/table1_recovery.py --trials 40
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

SIZES = (4_000, 8_000, 16_000, 32_000)
TOP_K = (5, 10)
PAPER = {  # mean Hamming loss printed by the paper: method -> K -> n = 4k, 8k, 16k, 32k
    "low-rank": {5: (0.482, 0.339, 0.237, 0.167), 10: (0.388, 0.257, 0.181, 0.129)},
    "per-task": {5: (0.730, 0.617, 0.479, 0.360), 10: (0.596, 0.489, 0.366, 0.269)},
}
METHODS: dict[str, Callable[[int | str], Any]] = {  # label -> estimator, given the rank
    "default": lambda rank: lg.LowRankBradleyTerry(rank=rank),
    "algorithm 1": lambda rank: lg.LowRankBradleyTerry(rank=rank, polish=False),
    "per-task, ridge 1e-6": lambda rank: lg.PerTaskBradleyTerry(ridge=1e-6),
    "per-task, ridge 0.3": lambda rank: lg.PerTaskBradleyTerry(ridge=0.3),
}
BASELINE = "per-task, ridge 1e-6"
PAPER_BOARD = Board(votes=SIZES)


def hamming_loss(estimate: np.ndarray, truth: np.ndarray, k: int) -> float:
    """Mean over tasks of |estimated top-K symmetric-difference true top-K| / (2K)."""
    chosen = np.argsort(-estimate, axis=1, kind="stable")[:, :k]
    true = np.argsort(-truth, axis=1, kind="stable")[:, :k]
    shared = [len(np.intersect1d(a, b)) for a, b in zip(chosen, true, strict=True)]
    return float(np.mean([1.0 - s / k for s in shared]))


def one_trial(rng: np.random.Generator, *, n: int, trial: int, board: Board = PAPER_BOARD) -> list[dict[str, Any]]:
    truth = board.truth(rng)
    votes = simulate_comparisons(truth, n, random_state=rng)
    rows = []
    for method, make in METHODS.items():
        scores = make(board.rank).fit(votes).scores_.to_numpy()
        for k in wanted_k(board):
            rows.append({"n": n, "trial": trial, "method": method, "k": k, "loss": hamming_loss(scores, truth.to_numpy(), k)})
    return rows


def wanted_k(board: Board) -> list[int]:
    """The paper's two K, less on a small board."""
    return sorted({board.top_k(k) for k in TOP_K})


@click.command(help=__doc__)
@study_options(trials=40, votes=SIZES)
def main(trials: int, jobs: int, seed: int, out: Path | None, board: Board) -> None:
    sizes = board.votes
    settings = [{"n": n, "trial": trial} for trial in range(trials) for n in sizes]
    worker = functools.partial(one_trial, board=board)
    frame = pd.DataFrame(run_trials(worker, settings, name="table1_recovery", seed=seed, jobs=jobs, out=out, header=board.header))
    if not board.is_paper:
        click.echo(f"\n{board.describe()}")
    for k in wanted_k(board):
        click.echo(f"\nMean Hamming loss at K = {k} (Monte Carlo error), {trials} trials, seed {seed}")
        click.echo(f"{'':>22} " + " ".join(f"{f'n = {n:,}':>15}" for n in sizes))
        table = frame[frame.k == k].pivot(index=["n", "trial"], columns="method", values="loss")
        for method in METHODS:
            cells = [mean_and_error(table.loc[n, method].to_numpy()) for n in sizes]
            click.echo(f"{method:>22} " + " ".join(f"{f'{mean:.3f} ({error:.3f})':>15}" for mean, error in cells))
        if board.is_paper:
            for method, values in PAPER.items():
                click.echo(f"{f'paper, {method}':>22} " + " ".join(f"{value:>15.3f}" for value in values[k]))
        ratios = [table.loc[n, "default"].mean() / table.loc[n, BASELINE].mean() for n in sizes]
        click.echo(f"{'default / per-task':>22} " + " ".join(f"{ratio:>15.3f}" for ratio in ratios))
        if board.is_paper:
            pairs_of_paper = zip(PAPER["low-rank"][k], PAPER["per-task"][k], strict=True)
            click.echo(f"{'paper, same ratio':>22} " + " ".join(f"{a / b:>15.3f}" for a, b in pairs_of_paper))
        pairs = [mean_and_error((table.loc[n, "default"] - table.loc[n, "algorithm 1"]).to_numpy()) for n in sizes]
        click.echo(f"{'default - algorithm 1':>22} " + " ".join(f"{f'{mean:+.4f} ({error:.4f})':>15}" for mean, error in pairs))


if __name__ == "__main__":
    main()
