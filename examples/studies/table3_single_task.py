"""Table 3: one model on one task. Band coverage, rank-interval width and certificates of cell families.

Setting of the paper's section 6.1 with fixed score matrices (seeds 0 to 3): 50 tasks x 50 models, rank 5, n = 16,000, K = 10.
Rank coverage near 1 proves little (an interval is missed only if false declarations outnumber undeclared true ones), so the
coverage of the bands stands beside it. Every trial looks at `CELLS` random (task, model) cells; errors are clustered by trial.
The paper's own procedure (Algorithm 1, uniform law, max-t) runs on the same data. `--data FILE` takes a table of true scores instead.

    python examples/studies/table3_single_task.py --trials 5      # 5 trials for each of 4 score matrices: 20 data sets
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
from _runner import report_by_theta, report_measures, run_trials, study_options

import lrgittins as lg
from lrgittins.simulate import simulate_comparisons

N_VOTES = 16_000
TOP_K = 10
ALPHA = 0.05
THETA_SEEDS = (0, 1, 2, 3)
CELLS = 50
# label -> (estimator, given the rank; options of infer_gaps; methods)
FITS: dict[str, tuple[Callable[[int | str], Any], dict[str, Any], tuple[str, ...]]] = {
    "default, cross-fit": (
        lambda rank: lg.LowRankBradleyTerry(rank=rank),
        {"calibration": "cross-fit"},
        ("max-t", "step-down", "order-statistic", "one-sided"),
    ),
    "default, parametric": (
        lambda rank: lg.LowRankBradleyTerry(rank=rank),
        {"calibration": "parametric"},
        ("max-t", "step-down", "order-statistic", "one-sided"),
    ),
    "paper's procedure": (
        lambda rank: lg.LowRankBradleyTerry(rank=rank, polish=False),
        {"design": "uniform", "calibration": "cross-fit"},
        ("max-t",),
    ),
    "per-task": (lambda rank: lg.PerTaskBradleyTerry(ridge=1e-6), {}, ("max-t",)),
}
PAPER = "paper: width 36.7, correctly certified .289 (low rank); 44.6, .081 (per-task)"
BASELINE = "paper's procedure, max-t"
PAPER_BOARD = Board(votes=(N_VOTES,))
MEASURES = ("bands", "ranks", "width", "certified", "wrong")


def one_trial(rng: np.random.Generator, *, theta: int, trial: int, board: Board = PAPER_BOARD) -> list[dict[str, Any]]:
    truth = board.truth(theta)
    votes = simulate_comparisons(truth, board.n_votes, random_state=rng)
    seed = int(rng.integers(2**31))
    scores = truth.to_numpy()
    true_rank = truth.rank(axis=1, ascending=False).to_numpy()
    top_k = board.top_k(TOP_K)
    n_cells = min(CELLS, scores.size)
    cells = [divmod(int(cell), scores.shape[1]) for cell in rng.choice(scores.size, n_cells, replace=False)]
    rows = []
    for label, (make, options, methods) in FITS.items():
        inference = lg.infer_gaps(votes, make(board.rank), random_state=seed, **options)
        covered = np.empty(n_cells)
        found = {method: np.empty((n_cells, 4)) for method in methods}
        for index, (t, m) in enumerate(cells):
            family = ("cell", truth.index[t], truth.columns[m])
            bands = inference.bands(family, alpha=ALPHA, method="max-t", random_state=seed).to_frame()
            gap = scores[t, m] - scores[t, truth.columns.get_indexer(bands.versus)]
            covered[index] = ((bands.low <= gap) & (gap <= bands.high)).all()
            is_top = true_rank[t, m] <= top_k
            for method in methods:
                row = inference.certify(top_k, family=family, alpha=ALPHA, method=method, random_state=seed).to_frame().iloc[0]
                inside = row.rank_low <= true_rank[t, m] <= row.rank_high
                right = row.certificate == ("top-k" if is_top else "not-top-k")
                wrong = row.certificate == ("not-top-k" if is_top else "top-k")
                found[method][index] = inside, row.rank_high - row.rank_low, right, wrong
        for method in methods:
            ranks, width, certified, wrong = found[method].mean(axis=0).tolist()
            measures = {"bands": float(covered.mean()), "ranks": ranks, "width": width, "certified": certified, "wrong": wrong}
            rows.append({"theta": theta, "trial": trial, "method": f"{label}, {method}", **measures})
    return rows


def run_per_theta(
    worker: Callable[..., list[dict[str, Any]]],
    name: str,
    looked_at: str,
    paper: str,
    *,
    trials: int,
    jobs: int,
    seed: int,
    out: Path | None,
    board: Board,
) -> None:
    """Run `worker` for every score matrix and trial, and print all measures, then band coverage per matrix (tables 3 and 4)."""
    thetas = board.thetas(THETA_SEEDS)
    settings = [{"theta": theta, "trial": trial} for trial in range(trials) for theta in thetas]
    worker = functools.partial(worker, board=board)
    frame = pd.DataFrame(run_trials(worker, settings, name=name, seed=seed, jobs=jobs, out=out, header=board.header))
    if not board.is_paper:
        click.echo(f"\n{board.describe()}")
    click.echo(
        f"\nn = {board.n_votes:,}, K = {board.top_k(TOP_K)}, alpha = {ALPHA}, {trials} trials for each of {len(thetas)} score matrices, "
        f"{looked_at} each, seed {seed}"
    )
    if board.is_paper:
        click.echo(paper)
    report_measures(frame, MEASURES, BASELINE)
    report_by_theta(frame, "bands")


@click.command(help=__doc__)
@study_options(trials=5, votes=(N_VOTES,))
def main(**options: Any) -> None:
    run_per_theta(one_trial, "table3_single_task", f"{CELLS} cells", PAPER, **options)


if __name__ == "__main__":
    main()
