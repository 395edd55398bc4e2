"""Tables 5 to 7: what subsamples of an arena-sized vote file recover of the whole file's leaderboard.

The paper's Arena votes are not public in this form, so they are simulated in their shape: 10 tasks of uneven size, 30 models of
uneven popularity, 81,150 votes, scores of rank 3 (a shared ability, two task-specific traits) plus a small full-rank remainder; a new
truth and file in every trial. The paper's procedure (Algorithm 1, max-t) assumes a uniform law as in its simulations, which is wrong
for such a file, so it runs with the empirical law too. Subsamples are drawn without replacement, and each procedure's own answer on
the whole file is its reference, as in the paper; as the truth is known here, it stands beside it. `--data FILE` takes a real vote
file, for which there is no truth. The fractions (.05, .1, .2, .5) and which claim stands in which table are ours: we could not find
the paper's.

Table 5: top-K recovery (Hamming loss). Table 6: one model on one task. Table 7: one model on all tasks jointly. Of all (task, model)
certificates: agreeing with the whole file's, contradicting it, and new (unresolved on the whole file); correct, wrong and band
coverage against the truth. `--rank auto` lets the low-rank fits choose.

    python examples/studies/tables5_7_arena_shape.py --trials 10
    python examples/studies/tables5_7_arena_shape.py --trials 10 --data votes.parquet
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
from table1_recovery import hamming_loss

import lrgittins as lg
from lrgittins.errors import ParameterError
from lrgittins.simulate import simulate_comparisons

N_TASKS, N_MODELS, N_VOTES = 10, 30, 81_150
FRACTIONS = (0.05, 0.1, 0.2, 0.5)
RECOVERY_K = (5, 10)
TOP_K = 10
ALPHA = 0.05
PAPER_BOARD = Board(votes=(N_VOTES,), rank=3)
# label -> (estimator, given the rank; options of infer_gaps; method)
FITS: dict[str, tuple[Callable[[int | str], Any], dict[str, Any], str]] = {
    "default": (lambda rank: lg.LowRankBradleyTerry(rank=rank, disconnected="allow"), {}, "step-down"),
    "default, cross-fit": (lambda rank: lg.LowRankBradleyTerry(rank=rank, disconnected="allow"), {"calibration": "cross-fit"}, "step-down"),
    "paper's procedure": (
        lambda rank: lg.LowRankBradleyTerry(rank=rank, polish=False, disconnected="allow"),
        {"design": "uniform", "calibration": "cross-fit"},
        "max-t",
    ),
    "same, empirical law": (
        lambda rank: lg.LowRankBradleyTerry(rank=rank, polish=False, disconnected="allow"),
        {"calibration": "cross-fit"},
        "max-t",
    ),
    "per-task": (lambda rank: lg.PerTaskBradleyTerry(ridge=1e-6, disconnected="allow"), {}, "max-t"),
}
FAMILIES = ("cell", "model")
Answer = dict[str, np.ndarray]


def arena_scores(rng: np.random.Generator) -> pd.DataFrame:
    """Abilities of standard deviation .7 (natural-log units), task traits of .2, a remainder of .05; rows centred."""
    ability = np.outer(1.0 + 0.15 * rng.standard_normal(N_TASKS), 0.7 * rng.standard_normal(N_MODELS))
    traits = 0.2 * rng.standard_normal((N_TASKS, 2)) @ rng.standard_normal((2, N_MODELS))
    scores = ability + traits / np.sqrt(2.0) + 0.05 * rng.standard_normal((N_TASKS, N_MODELS))
    scores -= scores.mean(axis=1, keepdims=True)
    return pd.DataFrame(scores, index=[f"task_{i}" for i in range(N_TASKS)], columns=[f"model_{i:02d}" for i in range(N_MODELS)])


def simulate_arena(rng: np.random.Generator, n: int) -> tuple[pd.DataFrame, lg.Comparisons]:
    """A truth and a vote file: sizes of tasks and popularity of models log-normal (sd .9 and .7 on the log scale)."""
    truth = arena_scores(rng)
    tasks, models = np.exp(0.9 * rng.standard_normal(N_TASKS)), np.exp(0.7 * rng.standard_normal(N_MODELS))
    return truth, simulate_comparisons(truth, n, task_weights=tasks, model_weights=models, random_state=rng)


def subsample(votes: lg.Comparisons, fraction: float, rng: np.random.Generator) -> lg.Comparisons:
    """A share of the votes, drawn without replacement (clusters are not kept); the labels stay."""
    table = votes._table
    size = max(1, round(fraction * int(table.count.sum())))
    kept = rng.multivariate_hypergeometric(table.count, size, method="marginals")
    tasks, models = votes.tasks.to_numpy(), votes.models.to_numpy()
    # The labels have been checked on the whole file; outcomes are the preference for the first.
    return lg.Comparisons.from_arrays(
        tasks[table.task], models[table.low], models[table.high], table.outcome, kept, tasks=list(tasks), models=list(models)
    )


def answer(votes: lg.Comparisons, method: str, rank: int | str, top_k: int, seed: int) -> tuple[Answer, Any]:
    """Point scores, and of every family the certificates and rank bounds, tasks x models; the inference for its bands."""
    make, options, band_method = FITS[method]
    inference = lg.infer_gaps(votes, make(rank), random_state=seed, **options)
    out = {"scores": make(rank).fit(votes).scores_.to_numpy()}
    for family in FAMILIES:
        board = inference.certify(top_k, family=family, alpha=ALPHA, method=band_method, random_state=seed).to_frame()
        place = votes.tasks.get_indexer(board.task), votes.models.get_indexer(board.model)
        certificate = np.zeros((len(votes.tasks), len(votes.models)), dtype=np.int64)
        certificate[place] = board.certificate.map({"top-k": 1, "not-top-k": -1, "unresolved": 0}).to_numpy()
        width = np.zeros(certificate.shape)
        width[place] = (board.rank_high - board.rank_low).to_numpy(dtype=np.float64)
        out[family], out[f"{family} width"] = certificate, width
    return out, inference


def band_coverage(inference: Any, truth: pd.DataFrame, family: str, seed: int) -> float:
    """Share of the claims whose max-t band holds every true gap of the claim."""
    bands = inference.bands(family, alpha=ALPHA, method="max-t", random_state=seed).to_frame()
    task, model = truth.index.get_indexer(bands.task), truth.columns.get_indexer(bands.model)
    scores = truth.to_numpy()
    gap = scores[task, model] - scores[task, truth.columns.get_indexer(bands.versus)]
    inside = pd.Series((bands.low <= gap) & (gap <= bands.high))
    claim = model if family == "model" else task * truth.shape[1] + model
    return float(inside.groupby(claim).all().mean())


def compare_certificates(own: np.ndarray, reference: np.ndarray) -> dict[str, float]:
    """Shares of all (task, model): resolved = agree + contradict + new."""
    return {
        "resolved": float((own != 0).mean()),
        "agree": float(((own != 0) & (own == reference)).mean()),
        "contradict": float((own * reference < 0).mean()),
        "new": float(((own != 0) & (reference == 0)).mean()),
    }


def one_trial(
    rng: np.random.Generator,
    *,
    trial: int,
    board: Board = PAPER_BOARD,
    votes: lg.Comparisons | None = None,
    fractions: tuple[float, ...] = FRACTIONS,
) -> list[dict[str, Any]]:
    """Every procedure on the whole file and on a subsample of each size; `votes` is a real file, without a truth."""
    truth = None
    if votes is None:
        truth, votes = simulate_arena(rng, board.n_votes)
    seed = int(rng.integers(2**31))
    samples = {1.0: votes, **{fraction: subsample(votes, fraction, rng) for fraction in sorted(fractions)}}
    n_models = len(votes.models)
    top_k = min(TOP_K, max(1, n_models // 2))
    is_top = None if truth is None else np.where(truth.rank(axis=1, ascending=False).to_numpy() <= top_k, 1, -1)
    rows = []
    for method in FITS:
        reference: Answer = {}
        for fraction, sample in samples.items():
            found, inference = answer(sample, method, board.rank, top_k, seed)
            reference = reference or found
            row: dict[str, Any] = {"trial": trial, "method": method, "fraction": fraction}
            for k in wanted_k(n_models):
                scores = np.nan_to_num(found["scores"], nan=-np.inf)  # a model nobody voted on comes last
                row[f"hamming {k} full"] = hamming_loss(scores, np.nan_to_num(reference["scores"], nan=-np.inf), k)
                if truth is not None:
                    row[f"hamming {k} truth"] = hamming_loss(scores, truth.to_numpy(), k)
            for family in FAMILIES:
                row[f"{family} width"] = float(found[f"{family} width"].mean())
                row |= {f"{family} {name}": value for name, value in compare_certificates(found[family], reference[family]).items()}
                if truth is not None and is_top is not None:
                    row[f"{family} correct"] = float((found[family] == is_top).mean())
                    row[f"{family} wrong"] = float((found[family] == -is_top).mean())
                    row[f"{family} bands"] = band_coverage(inference, truth, family, seed)
            rows.append(row)
    return rows


def wanted_k(n_models: int) -> list[int]:
    return sorted({min(k, max(1, n_models // 2)) for k in RECOVERY_K})


def show(frame: pd.DataFrame, title: str, columns: dict[str, str]) -> None:
    """One line per procedure and fraction; `columns` maps a printed name to a column of the frame."""
    columns = {shown: name for shown, name in columns.items() if name in frame}
    click.echo(f"\n{title}")
    click.echo(f"{'':>20}{'fraction':>10} " + " ".join(f"{shown:>15}" for shown in columns))
    for method in FITS:
        for fraction in sorted(frame.fraction.unique()):
            rows = frame[(frame.method == method) & (frame.fraction == fraction)]
            cells = ["{:.3f} ({:.3f})".format(*mean_and_error(rows[name].to_numpy(dtype=np.float64))) for name in columns.values()]
            click.echo(f"{method:>20}{fraction:>10g} " + " ".join(f"{cell:>15}" for cell in cells))


@click.command(help=__doc__)
@click.option(
    "--fraction", "fractions", multiple=True, type=click.FloatRange(0.0, 1.0, min_open=True, max_open=True), help="Subsample (repeatable)."
)
@study_options(trials=10, votes=(N_VOTES,), rank=3, data="votes")
def main(trials: int, jobs: int, seed: int, out: Path | None, board: Board, data: Path | None, fractions: tuple[float, ...]) -> None:
    if data is not None and "votes" in board.header:
        raise ParameterError("--votes is the size of simulated vote files; a file given with --data is used whole")
    votes = None if data is None else lg.Comparisons.read(data)
    wanted = tuple(sorted(set(fractions))) or FRACTIONS
    settings = [{"trial": trial} for trial in range(trials)]
    worker = functools.partial(one_trial, board=board, votes=votes, fractions=wanted)
    header = board.header if wanted == FRACTIONS else {**board.header, "fractions": list(wanted)}
    rows = run_trials(worker, settings, name="tables5_7_arena_shape", seed=seed, jobs=jobs, out=out, header=header)
    frame = pd.DataFrame(rows)
    n_tasks, n_models, n = (N_TASKS, N_MODELS, board.n_votes) if votes is None else (len(votes.tasks), len(votes.models), votes.n)
    top_k = min(TOP_K, max(1, n_models // 2))
    source = "simulated" if votes is None else data
    click.echo(
        f"\n{n_tasks} tasks, {n_models} models, {n:,} votes ({source}), fits of rank {board.rank}; {trials} trials, seed {seed}; "
        "mean (Monte Carlo error)"
    )
    recovery = {f"K={k}, {name}": f"hamming {k} {name}" for name in ("full", "truth") for k in wanted_k(n_models)}
    show(frame, "Table 5: Hamming loss of the top K, against the procedure's own on the whole file, and against the truth", recovery)
    for number, family, claim in ((6, "cell", "one model on one task"), (7, "model", "one model on all tasks")):
        names = ("width", "resolved", "agree", "contradict", "new", "correct", "wrong", "bands")
        show(frame, f"Table {number}: {claim}, K = {top_k}, alpha = {ALPHA}", {name: f"{family} {name}" for name in names})


if __name__ == "__main__":
    main()
