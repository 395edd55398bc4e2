"""How a `GapInference` comes about: cross-fitted for the low-rank fit, Wald for the per-task and pooled fits."""

from __future__ import annotations

import warnings
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._estimator import diagnostic
from ._noise import ScoreNoise
from ._outcomes import IntArray
from .bradley_terry import PerTaskBradleyTerry
from .errors import ConvergenceWarning
from .folds import draw_folds
from .graph import pieces, strong_components
from .inference import GapInference
from .low_rank import MAX_CONDITION, MAX_INCOHERENCE_SHARE, MIN_CONTRAST, MIN_SIGNAL_TO_NOISE, relabel
from .one_step import OneStep, cross_fit, full_data_step, keep_offsets
from .parametric import ScaledNoise, default_refits, standard_error_scale
from .repeated import average_splits
from .wald import wald_noise

if TYPE_CHECKING:
    from .comparisons import Comparisons

MAX_SPREAD = 1.0  # standard errors; more than the noise itself between splits is a fit that has not settled


def infer_low_rank(
    comparisons: Comparisons,
    estimator: Any,
    n_folds: int,
    n_splits: int,
    design: str,
    calibration: str,
    n_refits: int | None,
    rng: np.random.Generator,
    seed: int | None,
    n_jobs: int,
) -> GapInference:
    table = comparisons._table
    if table.n_tasks == 1:
        return _infer_single_task(comparisons, estimator, n_splits, seed)
    n_tasks, n_models = table.n_tasks, table.n_models
    occurs = np.zeros(n_models, dtype=bool)
    occurs[table.low] = True
    occurs[table.high] = True
    seen = np.flatnonzero(occurs)
    place = np.cumsum(occurs) - 1
    compact = relabel(table, np.arange(n_tasks), place)
    notes: list[str] = []
    # The whole graph has been judged; a training set that falls apart has its gaps withheld instead.
    lenient = type(estimator)(**{**estimator.get_params(), "disconnected": "allow"})
    noise: ScoreNoise
    if calibration == "parametric":
        n_refits = default_refits(len(seen)) if n_refits is None else n_refits
        fit = lenient._fit_table(compact)
        result = full_data_step(compact, fit, design, seen, n_models)
        scale = standard_error_scale(compact, fit, result, lenient, design, seen, n_refits, rng, n_jobs)
        noise = ScaledNoise(result.noise, scale)
        n_folds = 1
        notes.append(
            f"standard errors scaled by {scale.min():.3f} to {scale.max():.3f} (tasks), from {n_refits} refits of simulated votes; "
            "outside the paper's theory, which is for cross-fitting"
        )
        if table.cluster is not None:
            notes.append("the simulated votes were independent, those of a cluster too; calibration='cross-fit' keeps clusters together")
    else:
        splits = [draw_folds(compact, n_folds, rng) for _ in range(n_splits)]
        steps = [cross_fit(compact, split, lenient, design, seen, n_models, n_jobs) for split in splits]
        n_folds = splits[0].n_folds
        notes += dict.fromkeys(note for split in splits for note in split.notes)
        if n_splits > 1:
            result, spread = average_splits(steps)
        else:
            result = steps[0]
        noise = result.noise
    whole_piece, strong = pieces(table), strong_components(table)
    component = np.where(strong < 0, -1, result.determined * n_models + strong)
    piece = np.repeat(whole_piece[None, :], n_tasks, axis=0)
    scores = np.where(piece >= 0, keep_offsets(result, component), np.nan)
    unseen_models = np.flatnonzero(whole_piece < 0)
    diagnostics = _low_rank_diagnostics(result, n_folds * n_splits, strong, whole_piece, comparisons)
    if n_splits > 1:
        diagnostics["split_spread"] = diagnostic(
            "ok" if spread <= MAX_SPREAD else "failed",
            spread,
            f"root mean square of a gap's distance from its mean over {n_splits} splits, in standard errors, at most {MAX_SPREAD:g}",
        )
    bad = [fact for fact in result.facts if not fact.converged]
    if bad:
        warnings.warn(
            f"{len(bad)} of {n_folds * n_splits} training fits stopped before they met tol={estimator.tol:g}; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    empty = _undetermined_tasks(result.determined)
    if empty.any():
        names = ", ".join(repr(str(name)) for name in comparisons.tasks[empty][:6])
        notes.append(f"{int(empty.sum())} tasks have too little data in some training set for any gap; nothing is certified there: {names}")
    if len(unseen_models):
        names = ", ".join(repr(str(name)) for name in comparisons.models[unseen_models][:6])
        notes.append(f"{len(unseen_models)} declared models have no votes at all; unresolved everywhere: {names}")
    return GapInference(
        comparisons.tasks,
        comparisons.models,
        calibration,
        design,
        n_folds,
        tuple(notes),
        diagnostics,
        seed,
        estimator,
        scores,
        noise,
        table,
        piece,
        component,
        n_splits,
    )


def _infer_single_task(comparisons: Comparisons, estimator: Any, n_splits: int, seed: int | None) -> GapInference:
    """One task has nothing to share: its low-rank fit is a plain Bradley-Terry fit, and so is its inference.

    A one-step from a training fold would be much worse: a fold that takes a model's only loss with it leaves an unbounded
    maximiser, whose information is nearly 0 and whose step therefore lands anywhere (A:B 999-1 came out with B ahead).
    """
    plain = PerTaskBradleyTerry(disconnected="allow", tol=estimator.tol, max_iter=estimator.max_iter)
    wald = infer_wald(comparisons, plain, False, seed)
    note = "one task has nothing to share: a plain Bradley-Terry fit with Wald inference on all data, without folds"
    note += f"; n_splits={n_splits} had nothing to repeat" if n_splits > 1 else ""
    return replace(wald, estimator=estimator, notes=(note, *wald.notes))


def _undetermined_tasks(determined: IntArray) -> NDArray[np.bool_]:
    """Tasks without a single determined gap."""
    ordered = np.sort(determined, axis=1)
    return ~((ordered[:, 1:] == ordered[:, :-1]) & (ordered[:, 1:] >= 0)).any(axis=1)


def _count_undetermined(determined: IntArray) -> int:
    """Gaps between seen models, over all tasks, that some training set leaves undetermined."""
    total = 0
    for row in determined:
        size = np.unique(row[row >= 0], return_counts=True)[1]
        total += int(size.sum() * (size.sum() - 1) - (size * (size - 1)).sum()) // 2
    return total


def _low_rank_diagnostics(
    result: OneStep, n_folds: int, strong: IntArray, piece: IntArray, comparisons: Comparisons
) -> dict[str, dict[str, Any]]:
    facts = result.facts
    n_bad = sum(not fact.converged for fact in facts)
    condition = max(fact.condition for fact in facts)
    ridge = max(fact.ridge for fact in facts)
    incoherence = max(max(fact.task_incoherence, fact.model_incoherence) for fact in facts)
    contrast = min(fact.smallest_contrast for fact in facts)
    signal = min(fact.signal_to_noise for fact in facts)
    worst = max(len(comparisons.tasks), len(comparisons.models)) / max(fact.rank for fact in facts)
    single = len(comparisons.tasks) == 1
    n_pieces, n_strong = int(piece.max(initial=-1)) + 1, int(strong.max(initial=-1)) + 1
    n_undetermined = int(_undetermined_tasks(result.determined).sum())
    n_gaps = _count_undetermined(result.determined)
    n_unseen = int((piece < 0).sum())
    ranks = sorted({fact.rank for fact in facts})
    return {
        "converged": diagnostic("failed" if n_bad else "ok", n_bad, f"training fits of {n_folds} that missed their tolerance"),
        "connected": diagnostic("ok" if n_pieces == 1 else "failed", n_pieces, "pieces of the pooled graph"),
        "separated": diagnostic(
            "ok" if n_strong == n_pieces else "failed", n_strong - n_pieces, "extra strong components of the pooled win graph"
        ),
        "gaps_determined": diagnostic(
            "failed" if n_gaps else "ok", n_gaps, "gaps over all tasks that some training set leaves undetermined; they are withheld"
        ),
        "tasks_determined": diagnostic("failed" if n_undetermined else "ok", n_undetermined, "tasks without any determined gap"),
        "models_seen": diagnostic("failed" if n_unseen else "ok", n_unseen, "declared models without any vote"),
        "fisher_condition": diagnostic(
            "ok" if ridge == 0.0 and condition <= MAX_CONDITION else "failed",
            condition,
            f"condition of the Fisher solve (1-norm), at most {MAX_CONDITION:g}; ridge added {ridge:.3g}",
        ),
        "incoherence": diagnostic(
            "not_checked" if single else "ok" if incoherence <= max(MAX_INCOHERENCE_SHARE * worst, 4.0) else "failed",
            incoherence,
            f"largest squared factor row over its average (1 is even, {worst:.3g} the worst)",
        ),
        "signal_to_noise": diagnostic(
            "not_checked" if single else "ok" if signal >= MIN_SIGNAL_TO_NOISE else "failed",
            signal,
            f"smallest singular value over the noise's norm, at least {MIN_SIGNAL_TO_NOISE:g}",
        ),
        "projected_contrast": diagnostic(
            "ok" if contrast >= MIN_CONTRAST else "failed",
            contrast,
            f"least share of a gap that the tangent space sees (over all gaps), at least {MIN_CONTRAST:g}",
        ),
        "rank": diagnostic("ok" if len(ranks) == 1 else "failed", ranks[-1], f"ranks of the training fits: {', '.join(map(str, ranks))}"),
    }


def infer_wald(comparisons: Comparisons, estimator: Any, pooled: bool, seed: int | None) -> GapInference:
    table = comparisons._table
    fit = estimator._fit_table(table)
    row_of_task = np.zeros(table.n_tasks, dtype=np.int64) if pooled else np.arange(table.n_tasks, dtype=np.int64)
    noise = wald_noise(table, fit.scores, fit.components, row_of_task)
    piece, component = fit.pieces[row_of_task], fit.components[row_of_task]
    scores = np.where(piece >= 0, fit.scores[row_of_task], np.nan)
    missed = ~fit.converged & ~fit.separated & (fit.n_iter >= estimator.max_iter)
    if missed.any():
        warnings.warn(
            f"{int(missed.sum())} of {len(missed)} fits stopped after max_iter={estimator.max_iter} Newton steps; raise max_iter or tol",
            ConvergenceWarning,
            stacklevel=4,
        )
    n_broken = int((fit.pieces.max(axis=1, initial=-1) > 0).sum())
    n_empty = int((fit.pieces.max(axis=1, initial=-1) < 0).sum())
    n_unseen = int((piece < 0).all(axis=0).sum())
    diagnostics = {
        "converged": diagnostic(
            "failed" if missed.any() or fit.separated.any() else "ok",
            float(np.max(fit.gradient_norm, initial=0.0)),
            "largest gradient norm",
        ),
        "connected": diagnostic("failed" if n_broken else "ok", n_broken, "graphs that fall apart into pieces"),
        "separated": diagnostic("failed" if fit.separated.any() else "ok", int(fit.separated.sum()), "graphs with unbounded scores"),
        "tasks_determined": diagnostic("failed" if n_empty else "ok", n_empty, "graphs without any vote"),
        "models_seen": diagnostic("failed" if n_unseen else "ok", n_unseen, "declared models without any vote"),
    }
    notes = []
    if fit.separated.any() and not pooled:
        names = ", ".join(repr(str(name)) for name in comparisons.tasks[fit.separated][:6])
        notes.append(f"{int(fit.separated.sum())} tasks are separated; gaps across their strong components are unbounded: {names}")
    return GapInference(
        comparisons.tasks,
        comparisons.models,
        "wald",
        "empirical",
        1,
        tuple(notes),
        diagnostics,
        seed,
        estimator,
        scores,
        noise,
        table,
        piece,
        component,
    )
