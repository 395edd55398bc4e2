"""Table 2 and figure 3: joint asymptotic normality of the one-step estimator.

Setting of the paper's section 6.1 with one fixed score matrix (seed 0): 50 tasks x 50 models, rank 5, n = 16,000. Every trial is a
new data set; 240 fixed gaps are estimated on it, in 120 pairs: 60 of one task that share a model, 60 of the same two models on two
tasks. Printed: mean plug-in variance over the empirical variance of the estimates (1 is right), both over the efficient variance
(that of the true scores and the true law), coverage of marginal 95 % intervals and of the pairs' 95 % ellipses. The paper's own
procedure (Algorithm 1, uniform law) runs on the same data. `--data FILE` takes a table of true scores instead.

    python examples/studies/table2_joint_normality.py --trials 300 --picture figure3.png
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
from lrgittins._outcomes import OutcomeTable
from lrgittins.one_step import information, law_cells
from lrgittins.polish import factorise
from lrgittins.simulate import simulate_comparisons
from lrgittins.tangent import Arrowhead, TangentSpace

N_VOTES = 16_000
N_PAIRS = 120  # of gaps; half inside one task, half across two
THETA_SEED = 0
CONTRAST_SEED = 2  # the gaps are fixed: they depend on nothing but the board's shape
CHI2_95 = 5.991464547107979  # 95 % point with two degrees of freedom
Z_95 = 1.959963984540054
PAPER = "paper: mean plug-in over empirical variance 1.08 to 1.24"
PAPER_BOARD = Board(votes=(N_VOTES,))
FITS: dict[str, tuple[Callable[[int | str], Any], dict[str, Any]]] = {  # label -> (estimator, given the rank; options of infer_gaps)
    "default, cross-fit": (lambda rank: lg.LowRankBradleyTerry(rank=rank), {"calibration": "cross-fit"}),
    "default, parametric": (lambda rank: lg.LowRankBradleyTerry(rank=rank), {"calibration": "parametric"}),
    "paper's procedure": (lambda rank: lg.LowRankBradleyTerry(rank=rank, polish=False), {"design": "uniform", "calibration": "cross-fit"}),
}
Codes = tuple[int, int, int]


def choose_gaps(n_tasks: int, n_models: int, n_pairs: int = N_PAIRS) -> list[Codes]:
    """Pairs of gaps (task, a, b), one after the other: the first half of one task with a shared model, the rest across two tasks.

    With one task or two models, a kind of pair that does not exist is left to the other.
    """
    rng = np.random.default_rng(CONTRAST_SEED)
    gaps: list[Codes] = []
    for pair in range(n_pairs):
        inside = (pair < n_pairs // 2 and n_models > 2) or n_tasks == 1
        tasks = rng.choice(n_tasks, 1 if inside else 2, replace=False).tolist()
        models = rng.choice(n_models, min(3, n_models), replace=False).tolist()
        if inside and n_models > 2:
            gaps += [(tasks[0], models[0], models[1]), (tasks[0], models[0], models[2])]
        else:
            gaps += [(tasks[0], models[0], models[1]), (tasks[-1], models[0], models[1])]
    return gaps


def matrix_rank(truth: np.ndarray, rank: int | str) -> int:
    """`rank`, or that of the scores themselves where the fits choose it."""
    largest = min(truth.shape[0], truth.shape[1] - 1)
    return min(int(np.linalg.matrix_rank(truth)) if isinstance(rank, str) else rank, largest)


def efficient_variance(truth: np.ndarray, gaps: list[Codes], n: int, rank: int) -> np.ndarray:
    """Smallest variance a regular estimator of each gap can have: g' A^{-1} g / n, A the Fisher operator at the true scores.

    The tangent space is that of the nearest matrix of rank `rank`, the law that of the simulation (uniform).
    """
    nearest = factorise(truth, rank)
    space = TangentSpace(np.ascontiguousarray(nearest.left), np.ascontiguousarray(nearest.right))
    none = np.zeros(0, dtype=np.int64)
    votes = OutcomeTable(*truth.shape, none, none, none, np.zeros(0), none)  # the uniform law asks for the shape only
    law = law_cells(votes, votes.cells(), "uniform")
    factor = Arrowhead.from_cells(space, law.task, law.low, law.high, information(law, truth)).factor()
    matrices = np.zeros((len(gaps), *truth.shape))
    for index, (t, a, b) in enumerate(gaps):
        matrices[index, t, a], matrices[index, t, b] = 1.0, -1.0
    coords = space.coords(matrices)
    return np.einsum("jp,pj->j", coords, factor.solve(np.ascontiguousarray(coords.T))) / n


def one_trial(rng: np.random.Generator, *, trial: int, board: Board = PAPER_BOARD) -> list[dict[str, Any]]:
    """Estimates and variances of the fixed gaps, and the covariance inside each pair, by both procedures on one data set."""
    truth = board.truth(THETA_SEED)
    votes = simulate_comparisons(truth, board.n_votes, random_state=rng)
    seed = int(rng.integers(2**31))
    gaps = choose_gaps(*truth.shape)
    named = [(truth.index[t], truth.columns[a], truth.columns[b]) for t, a, b in gaps]
    task, first, second = np.array(gaps).T
    rows = []
    for method, (make, options) in FITS.items():
        inference = lg.infer_gaps(votes, make(board.rank), random_state=seed, **options)
        scores = inference.scores.to_numpy()
        covariance = inference.covariance(named)
        # An undetermined gap (unbounded variance) is missing in the file, not infinite: strict JSON has no infinity.
        finite = np.isfinite(np.diag(covariance))
        estimate = np.where(finite, scores[task, first] - scores[task, second], np.nan)
        rows.append(
            {
                "trial": trial,
                "method": method,
                "estimate": _listed(estimate),
                "variance": _listed(np.where(finite, np.diag(covariance), np.nan)),
                "pair": _listed(covariance[np.arange(0, len(gaps), 2), np.arange(1, len(gaps), 2)]),
            }
        )
    return rows


def _listed(values: np.ndarray) -> list[float | None]:
    return [None if np.isnan(value) else value for value in values.tolist()]


def stack(rows: pd.DataFrame, column: str) -> np.ndarray:
    """Trials x gaps (or pairs), NaN where a gap was undetermined."""
    return np.array(rows[column].tolist(), dtype=np.float64)


def variance_ratio(estimate: np.ndarray, variance: np.ndarray) -> np.ndarray:
    """Per gap: mean plug-in variance over the empirical variance of the estimates.

    With T trials of normal estimates 1 / (empirical variance) is too large by (T - 1) / (T - 3) on average, which is taken out.
    """
    n_trials = len(estimate)
    shrink = (n_trials - 3) / (n_trials - 1) if n_trials > 3 else np.nan
    return shrink * variance.mean(axis=0) / estimate.var(axis=0, ddof=1)


def jackknife(statistic: Callable[[np.ndarray], float], n_trials: int) -> tuple[float, float]:
    """The statistic of all trials, and its standard error over trials left out one at a time."""
    everything = np.arange(n_trials)
    left_out = np.array([statistic(np.delete(everything, trial)) for trial in everything])
    return statistic(everything), float(np.sqrt((n_trials - 1) / n_trials * ((left_out - left_out.mean()) ** 2).sum()))


def ellipse_covered(error: np.ndarray, variance: np.ndarray, pair: np.ndarray) -> np.ndarray:
    """Trials x pairs: is the pair of true gaps inside the estimate's 95 % ellipse?"""
    e1, e2, v1, v2 = error[:, 0::2], error[:, 1::2], variance[:, 0::2], variance[:, 1::2]
    distance = (v2 * e1**2 - 2.0 * pair * e1 * e2 + v1 * e2**2) / (v1 * v2 - pair**2)
    return distance <= CHI2_95


def report(frame: pd.DataFrame, truth: pd.DataFrame, board: Board) -> None:
    gaps = choose_gaps(*truth.shape)
    scores = truth.to_numpy()
    task, first, second = np.array(gaps).T
    true_gap = scores[task, first] - scores[task, second]
    inside = task[0::2] == task[1::2]
    efficient = efficient_variance(scores, gaps, board.n_votes, matrix_rank(scores, board.rank))
    click.echo(f"\n{'':>44}" + "".join(f"{method:>26}" for method in FITS))
    lines: dict[str, list[str]] = {}
    for method in FITS:
        rows = frame[frame.method == method]
        estimate, variance, pair = stack(rows, "estimate"), stack(rows, "variance"), stack(rows, "pair")
        kept = np.isfinite(estimate).all(axis=0)
        both = kept[0::2] & kept[1::2]
        estimate, variance, bound = estimate[:, kept], variance[:, kept], efficient[kept]
        error = estimate - true_gap[kept]
        lines.setdefault("gaps left out (undetermined in some trial)", []).append(f"{int((~kept).sum())} of {len(kept)}")
        ratios = {
            "mean plug-in / empirical variance": lambda i, e=estimate, v=variance: float(variance_ratio(e[i], v[i]).mean()),
            "plug-in / efficient variance": lambda i, v=variance, b=bound: float((v[i].mean(axis=0) / b).mean()),
            "empirical / efficient variance": lambda i, e=estimate, b=bound: float((e[i].var(axis=0, ddof=1) / b).mean()),
        }
        for label, statistic in ratios.items():
            mean, spread = jackknife(statistic, len(rows)) if len(rows) > 4 else (np.nan, np.nan)
            lines.setdefault(label, []).append(f"{mean:.3f} ({spread:.3f})")
            if label.startswith("mean plug-in"):
                quantiles = np.quantile(variance_ratio(estimate, variance), [0.1, 0.5, 0.9]) if len(rows) > 4 else [np.nan] * 3
                lines.setdefault("  its 10, 50 and 90 % points over gaps", []).append(" ".join(f"{value:.2f}" for value in quantiles))
        biases = np.sqrt(len(rows)) * error.mean(axis=0) / estimate.std(axis=0, ddof=1) if len(rows) > 1 else error[0]
        lines.setdefault("mean squared studentised bias (1: none)", []).append(f"{float((biases**2).mean()):.2f}")
        covered = np.abs(error) <= Z_95 * np.sqrt(variance)
        lines.setdefault("coverage of marginal 95 % intervals", []).append("{:.3f} ({:.3f})".format(*mean_and_error(covered.mean(axis=1))))
        wide = np.repeat(both, 2)[kept]
        ellipse = ellipse_covered(error[:, wide], variance[:, wide], pair[:, both])
        for label, chosen in (("same task", inside[both]), ("two tasks", ~inside[both])):
            if chosen.any():
                shown = "{:.3f} ({:.3f})".format(*mean_and_error(ellipse[:, chosen].mean(axis=1)))
                lines.setdefault(f"coverage of 95 % ellipses, {label}", []).append(shown)
    for label, cells in lines.items():
        click.echo(f"{label:>44}" + "".join(f"{cell:>26}" for cell in cells))


def draw(frame: pd.DataFrame, truth: pd.DataFrame, path: Path) -> None:
    """Figure 3: estimates of one pair of each kind with their ellipse, and all standardised estimates against the normal law."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    gaps = choose_gaps(*truth.shape)
    scores = truth.to_numpy()
    true_gap = np.array([scores[t, a] - scores[t, b] for t, a, b in gaps])
    own = frame[frame.method == next(iter(FITS))]
    estimate, variance, pair = stack(own, "estimate"), stack(own, "variance"), stack(own, "pair")
    figure, axes = pyplot.subplots(1, 3, figsize=(12.0, 4.2), layout="constrained")
    for ax, index in zip(axes, dict.fromkeys((0, len(pair[0]) - 1)), strict=False):
        x, y = 2 * index, 2 * index + 1
        mean = np.nanmean(variance[:, [x, y]], axis=0)
        cross = np.nanmean(pair[:, index])
        root = np.linalg.cholesky(np.array([[mean[0], cross], [cross, mean[1]]]))
        angle = np.linspace(0.0, 2.0 * np.pi, 200)
        curve = np.sqrt(CHI2_95) * root @ np.array([np.cos(angle), np.sin(angle)])
        ax.plot(estimate[:, x], estimate[:, y], ".", color="#7a7a7a", markersize=3, label="estimates")
        ax.plot(true_gap[x] + curve[0], true_gap[y] + curve[1], color="#0b5d3b", label="95 % ellipse, mean plug-in covariance")
        ax.plot(true_gap[x], true_gap[y], "+", color="#b03a00", markersize=10, label="truth")
        names = [f"{truth.columns[a]} - {truth.columns[b]}, {truth.index[t]}" for t, a, b in (gaps[x], gaps[y])]
        ax.set_xlabel(names[0].replace("$", r"\$"), fontsize=8)
        ax.set_ylabel(names[1].replace("$", r"\$"), fontsize=8)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside lower left", ncols=3, fontsize=8)
    grid = np.linspace(-4.0, 4.0, 200)
    styles = {"color": "#0b5d3b"}, {"color": "#4a78b5", "linestyle": ":"}, {"color": "#d9822b", "linestyle": "--"}
    for method, style in zip(FITS, styles, strict=True):
        rows = frame[frame.method == method]
        values = (stack(rows, "estimate") - true_gap) / np.sqrt(stack(rows, "variance"))
        values = values[np.isfinite(values)]
        axes[2].hist(values, bins=np.linspace(-4.0, 4.0, 41).tolist(), density=True, histtype="step", label=method, **style)
    axes[2].plot(grid, np.exp(-0.5 * grid**2) / np.sqrt(2.0 * np.pi), color="black", linewidth=0.9, label="standard normal")
    axes[2].set_xlabel("(estimate - truth) / standard error, all gaps and trials", fontsize=8)
    figure.legend(*axes[2].get_legend_handles_labels(), loc="outside lower right", ncols=3, fontsize=8)
    figure.savefig(path, dpi=90)
    pyplot.close(figure)


@click.command(help=__doc__)
@study_options(trials=300, votes=(N_VOTES,), picture=True)
def main(trials: int, jobs: int, seed: int, out: Path | None, board: Board, picture: Path | None) -> None:
    settings = [{"trial": trial} for trial in range(trials)]
    worker = functools.partial(one_trial, board=board)
    frame = pd.DataFrame(run_trials(worker, settings, name="table2_joint_normality", seed=seed, jobs=jobs, out=out, header=board.header))
    truth = board.truth(THETA_SEED)
    click.echo(f"\n{board.describe()}\nn = {board.n_votes:,}, {2 * N_PAIRS} gaps in {N_PAIRS} pairs, {trials} trials, seed {seed}")
    if board.is_paper:
        click.echo(PAPER)
    report(frame, truth, board)
    if picture is not None:
        draw(frame, truth, picture)


if __name__ == "__main__":
    main()
