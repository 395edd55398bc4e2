"""Table 4: one model on all tasks jointly. Joint band coverage, width and resolved rate of model families.

Setting as in `table3_single_task.py` at n = 32,000; every trial certifies all 50 model families. The paper's own procedure
(Algorithm 1, uniform law, max-t) runs on the same data. Errors are clustered by trial. `--data FILE` takes a table of true scores
instead.

    python examples/studies/table4_simultaneous.py --trials 5
"""

from __future__ import annotations

from typing import Any

import click
import numpy as np
from _board import Board
from _runner import study_options
from table3_single_task import ALPHA, FITS, TOP_K, run_per_theta

import lrgittins as lg
from lrgittins.simulate import simulate_comparisons

N_VOTES = 32_000
METHODS = ("max-t", "step-down")  # order-statistic thresholds take 6 s a data set here; table 3 has them
PAPER = "paper: width 31.3, resolved .315"
PAPER_BOARD = Board(votes=(N_VOTES,))


def one_trial(rng: np.random.Generator, *, theta: int, trial: int, board: Board = PAPER_BOARD) -> list[dict[str, Any]]:
    truth = board.truth(theta)
    votes = simulate_comparisons(truth, board.n_votes, random_state=rng)
    seed = int(rng.integers(2**31))
    scores = truth.to_numpy()
    true_rank = truth.rank(axis=1, ascending=False).to_numpy()
    top_k = board.top_k(TOP_K)
    rows = []
    for label, (make, options, methods) in FITS.items():
        inference = lg.infer_gaps(votes, make(board.rank), random_state=seed, **options)
        boards = {
            method: inference.certify(top_k, family="model", alpha=ALPHA, method=method, random_state=seed)
            for method in METHODS
            if method in methods
        }
        # The bands of every method are the max-t ones: estimate -/+ critical value x standard error.
        gaps = inference.gaps()
        task, first = truth.index.get_indexer(gaps.task), truth.columns.get_indexer(gaps.model)
        second = truth.columns.get_indexer(gaps.versus)
        error = (gaps.estimate - (scores[task, first] - scores[task, second])).abs() / gaps.std_error
        largest = np.zeros(len(truth.columns))
        for side in (first, second):
            np.maximum.at(largest, side, error.to_numpy())
        covered = float((largest <= boards["max-t"].critical_value.loc[truth.columns].to_numpy()).mean())
        for method, found in boards.items():
            frame = found.to_frame()
            rank = true_rank[truth.index.get_indexer(frame.task), truth.columns.get_indexer(frame.model)]
            ranked = (frame.rank_low <= rank) & (rank <= frame.rank_high)
            right = frame.certificate == np.where(rank <= top_k, "top-k", "not-top-k")
            rows.append(
                {
                    "theta": theta,
                    "trial": trial,
                    "method": f"{label}, {method}",
                    "bands": covered,
                    "ranks": float(ranked.groupby(frame.model).all().mean()),
                    "width": float((frame.rank_high - frame.rank_low).mean()),
                    "certified": float(right.mean()),
                    "wrong": float(((frame.certificate != "unresolved") & ~right).mean()),
                }
            )
    return rows


@click.command(help=__doc__)
@study_options(trials=5, votes=(N_VOTES,))
def main(**options: Any) -> None:
    run_per_theta(one_trial, "table4_simultaneous", f"all {options['board'].shape[1]} model families", PAPER, **options)


if __name__ == "__main__":
    main()
