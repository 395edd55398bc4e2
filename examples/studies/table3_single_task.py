"""Table 3: one model on one task. Band coverage, rank-interval width and certificates of cell families.

Setting of the paper's section 6.1 with fixed score matrices (seeds 0 to 3): 50 tasks x 50 models, rank 5, n = 16,000, K = 10.
Rank coverage near 1 proves little (an interval is missed only if false declarations outnumber undeclared true ones), so the
coverage of the bands stands beside it. Errors are clustered by trial.

    python examples/studies/table3_single_task.py --trials 5      # 5 trials for each of 4 score matrices: 20 data sets
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from _runner import mean_and_error, run_trials, study_options

import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons

N_VOTES = 16_000
TOP_K = 10
ALPHA = 0.05
THETA_SEEDS = (0, 1, 2, 3)
FITS: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {  # label -> (estimator, options of infer_gaps, methods)
    "default, cross-fit": (lambda: lg.LowRankBradleyTerry(rank=5), {}, ("max-t", "step-down")),
    "Algorithm 1, uniform law": (lambda: lg.LowRankBradleyTerry(rank=5, polish=False), {"design": "uniform"}, ("max-t",)),
    "per-task": (lambda: lg.PerTaskBradleyTerry(ridge=1e-6), {}, ("max-t",)),
}
PAPER = "paper: width 36.7, correctly certified .289 (low rank); 44.6, .081 (per-task)"
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
        bands = inference.bands("cell", alpha=ALPHA, method="max-t", random_state=seed).to_frame()
        task = truth.index.get_indexer(bands.task)
        gap = scores[task, truth.columns.get_indexer(bands.model)] - scores[task, truth.columns.get_indexer(bands.versus)]
        inside = (bands.low <= gap) & (gap <= bands.high)
        covered = inside.to_numpy().reshape(scores.size, -1).all(axis=1).mean()  # bands come claim by claim
        for method in methods:
            board = inference.certify(TOP_K, family="cell", alpha=ALPHA, method=method, random_state=seed).to_frame()
            rank = true_rank[truth.index.get_indexer(board.task), truth.columns.get_indexer(board.model)]
            is_top = rank <= TOP_K
            right = ((board.certificate == "top-k") & is_top) | ((board.certificate == "not-top-k") & ~is_top)
            wrong = (board.certificate != "unresolved") & ~right
            rows.append(
                {
                    "theta": theta,
                    "trial": trial,
                    "method": f"{label}, {method}",
                    "bands": float(covered),
                    "ranks": float(((board.rank_low <= rank) & (rank <= board.rank_high)).mean()),
                    "width": float((board.rank_high - board.rank_low).mean()),
                    "certified": float(right.mean()),
                    "wrong": float(wrong.mean()),
                }
            )
    return rows


@click.command(help=__doc__)
@study_options(trials=5)
def main(trials: int, jobs: int, seed: int, out: Path | None) -> None:
    settings = [{"theta": theta, "trial": trial} for trial in range(trials) for theta in THETA_SEEDS]
    frame = pd.DataFrame(run_trials(one_trial, settings, name="table3_single_task", seed=seed, jobs=jobs, out=out))
    click.echo(
        f"\nn = {N_VOTES:,}, K = {TOP_K}, alpha = {ALPHA}, {trials} trials for each of {len(THETA_SEEDS)} score matrices, seed {seed}"
    )
    click.echo(PAPER)
    click.echo(f"{'mean (Monte Carlo error)':>38} " + " ".join(f"{name:>14}" for name in MEASURES))
    for method in frame.method.unique():
        rows = frame[frame.method == method]
        cells = [mean_and_error(rows[name].to_numpy()) for name in MEASURES]
        click.echo(f"{method:>38} " + " ".join(f"{f'{mean:.3f} ({error:.3f})':>14}" for mean, error in cells))
    click.echo("\nBand coverage per score matrix")
    for method in frame.method.unique():
        cells = [mean_and_error(frame[(frame.method == method) & (frame.theta == theta)].bands.to_numpy()) for theta in THETA_SEEDS]
        click.echo(f"{method:>38} " + " ".join(f"{f'{mean:.3f} ({error:.3f})':>14}" for mean, error in cells))


if __name__ == "__main__":
    main()
