"""Table 3: one model on one task. Band coverage, rank-interval width and certificates of cell families.

Setting of the paper's section 6.1 with fixed score matrices (seeds 0 to 3): 50 tasks x 50 models, rank 5, n = 16,000, K = 10.
Rank coverage near 1 proves little (an interval is missed only if false declarations outnumber undeclared true ones), so the
coverage of the bands stands beside it. Every trial looks at `CELLS` random (task, model) cells; errors are clustered by trial.
The paper's own procedure (Algorithm 1, uniform law, max-t) runs on the same data.

    python examples/studies/table3_single_task.py --trials 5      # 5 trials for each of 4 score matrices: 20 data sets
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from _runner import report_by_theta, report_measures, run_trials, study_options

import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons

N_VOTES = 16_000
TOP_K = 10
ALPHA = 0.05
THETA_SEEDS = (0, 1, 2, 3)
CELLS = 50
FITS: dict[str, tuple[Any, dict[str, Any], tuple[str, ...]]] = {  # label -> (estimator, options of infer_gaps, methods)
    "default, cross-fit": (lambda: lg.LowRankBradleyTerry(rank=5), {}, ("max-t", "step-down", "order-statistic", "one-sided")),
    "default, parametric": (
        lambda: lg.LowRankBradleyTerry(rank=5),
        {"calibration": "parametric"},
        ("max-t", "step-down", "order-statistic", "one-sided"),
    ),
    "paper's procedure": (lambda: lg.LowRankBradleyTerry(rank=5, polish=False), {"design": "uniform"}, ("max-t",)),
    "per-task": (lambda: lg.PerTaskBradleyTerry(ridge=1e-6), {}, ("max-t",)),
}
PAPER = "paper: width 36.7, correctly certified .289 (low rank); 44.6, .081 (per-task)"
BASELINE = "paper's procedure, max-t"
MEASURES = ("bands", "ranks", "width", "certified", "wrong")


def one_trial(rng: np.random.Generator, *, theta: int, trial: int) -> list[dict[str, Any]]:
    truth = low_rank_scores(50, 50, 5, random_state=theta)
    votes = simulate_comparisons(truth, N_VOTES, random_state=rng)
    seed = int(rng.integers(2**31))
    scores = truth.to_numpy()
    true_rank = truth.rank(axis=1, ascending=False).to_numpy()
    cells = [divmod(int(cell), 50) for cell in rng.choice(scores.size, CELLS, replace=False)]
    rows = []
    for label, (make, options, methods) in FITS.items():
        inference = lg.infer_gaps(votes, make(), random_state=seed, **options)
        covered = np.empty(CELLS)
        found = {method: np.empty((CELLS, 4)) for method in methods}
        for index, (t, m) in enumerate(cells):
            family = ("cell", truth.index[t], truth.columns[m])
            bands = inference.bands(family, alpha=ALPHA, method="max-t", random_state=seed).to_frame()
            gap = scores[t, m] - scores[t, truth.columns.get_indexer(bands.versus)]
            covered[index] = ((bands.low <= gap) & (gap <= bands.high)).all()
            is_top = true_rank[t, m] <= TOP_K
            for method in methods:
                row = inference.certify(TOP_K, family=family, alpha=ALPHA, method=method, random_state=seed).to_frame().iloc[0]
                inside = row.rank_low <= true_rank[t, m] <= row.rank_high
                right = row.certificate == ("top-k" if is_top else "not-top-k")
                wrong = row.certificate == ("not-top-k" if is_top else "top-k")
                found[method][index] = inside, row.rank_high - row.rank_low, right, wrong
        for method in methods:
            ranks, width, certified, wrong = found[method].mean(axis=0).tolist()
            measures = {"bands": float(covered.mean()), "ranks": ranks, "width": width, "certified": certified, "wrong": wrong}
            rows.append({"theta": theta, "trial": trial, "method": f"{label}, {method}", **measures})
    return rows


@click.command(help=__doc__)
@study_options(trials=5)
def main(trials: int, jobs: int, seed: int, out: Path | None) -> None:
    settings = [{"theta": theta, "trial": trial} for trial in range(trials) for theta in THETA_SEEDS]
    frame = pd.DataFrame(run_trials(one_trial, settings, name="table3_single_task", seed=seed, jobs=jobs, out=out))
    click.echo(
        f"\nn = {N_VOTES:,}, K = {TOP_K}, alpha = {ALPHA}, {trials} trials for each of {len(THETA_SEEDS)} score matrices, "
        f"{CELLS} cells each, seed {seed}"
    )
    click.echo(PAPER)
    report_measures(frame, MEASURES, BASELINE)
    report_by_theta(frame, "bands")


if __name__ == "__main__":
    main()
