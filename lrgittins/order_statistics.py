"""Rank intervals from order-statistic thresholds: how many gaps can exceed c_k, rather than which (specification, section 5)."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._kernels.order_statistics import fill_order_statistics
from ._outcomes import FloatArray, IntArray
from .errors import ParameterError

MAX_KEPT = 5 * 10**7  # upper order statistics held at once (400 MB)
MAX_ORDER = 8  # thresholds: a ninth costs level and earns little (at 50 models, cells: mean width 35.7 with 8, 37.2 with all 49)
MIN_BEYOND = 20  # draws beyond a quantile from which it is worth its name


@dataclass(frozen=True, eq=False)
class Subject:
    """One (task, model) whose rank is bounded: its usable opponents and 1 / SE of their gaps."""

    task: int
    model: int
    others: IntArray
    inverse_se: FloatArray


def count_bound(statistic: FloatArray, thresholds: FloatArray) -> int:
    """A = max over k of max(0, #{statistic > c_k} - (k - 1)): at least that many of the gaps are positive."""
    if len(statistic) == 0 or len(thresholds) == 0:
        return 0
    ordered = np.sort(statistic)
    exceeding = len(ordered) - np.searchsorted(ordered, thresholds, side="right")
    return max(0, int((exceeding - np.arange(len(thresholds))).max()))


def rank_counts(statistic: FloatArray, thresholds: FloatArray) -> tuple[int, int]:
    """Models declared above and below, from studentised gaps (other minus model) and their thresholds c_1 >= c_2 >= ..."""
    return count_bound(statistic, thresholds), count_bound(-statistic, thresholds)


def order_thresholds(subjects: list[Subject], draws_of: dict[int, FloatArray], alpha: float) -> list[FloatArray]:
    """Thresholds c_1 >= c_2 >= ... of every subject, calibrated together.

    They are such that in a share of at least 1 - alpha of the draws, every subject's k-th largest studentised gap error (of
    both tails, cut at 0) is at most its c_k, for all k up to `MAX_ORDER`.

    Each c_k is the quantile of its order statistic at one level shared by all, the smallest that will do. Where that level
    leaves fewer than `MIN_BEYOND` draws (many subjects: every draw is then extreme somewhere, and a level of 1 would fit the
    draws and cover nothing else), c_k is the mean plus lambda standard deviations of its order statistic instead, lambda the
    (1 - alpha) quantile of the largest standardised order statistic of a draw.

    Parameters
    ----------
    subjects : list of Subject
    draws_of : dict of task -> ndarray, shape (n_models, n_draws)
        Score noise; of one joint law where several tasks are concerned.
    alpha : float

    Raises
    ------
    ParameterError
        More upper order statistics than fit in memory; the message has the arithmetic.
    """
    n_draws = next(iter(draws_of.values())).shape[1]
    needed = int(np.ceil((1.0 - alpha) * n_draws - 1e-9))
    kept = n_draws - needed + 1
    n_orders = [min(MAX_ORDER, len(subject.others)) for subject in subjects]
    if sum(n_orders) * kept > MAX_KEPT:
        raise ParameterError(
            f"method='order-statistic' for {len(subjects)} (task, model) rows would hold {sum(n_orders) * kept} upper order statistics, "
            f"more than {MAX_KEPT}; use a narrower family such as ('task', task) or ('cell', task, model), fewer n_draws, or "
            "method='step-down'"
        )
    # A draw's place: the least level index j (1 to n_draws) at which all its order statistics are within the j-th smallest
    # of theirs. Only the `kept` largest of each can ask for more than `needed`, so only those are sorted.
    place = np.full(n_draws, needed, dtype=np.int64)
    largest = np.zeros(n_draws)
    upper: list[FloatArray] = []
    moments: list[tuple[FloatArray, FloatArray]] = []
    for subject, orders in zip(subjects, n_orders, strict=True):
        values = np.empty((orders, n_draws))
        fill_order_statistics(draws_of[subject.task], subject.model, subject.others, subject.inverse_se, values)
        mean, spread = values.mean(axis=1), values.std(axis=1)
        scale = np.where(spread > 0.0, spread, np.inf)
        np.maximum(largest, ((values - mean[:, None]) / scale[:, None]).max(axis=0), out=largest)
        moments.append((mean, spread))
        if kept < n_draws:
            index = np.argpartition(values, n_draws - kept, axis=1)[:, n_draws - kept :]
        else:
            index = np.broadcast_to(np.arange(n_draws), values.shape)
        top = np.take_along_axis(values, index, axis=1)
        order = np.argsort(top, axis=1, kind="stable")
        top = np.take_along_axis(top, order, axis=1)
        index = np.take_along_axis(index, order, axis=1)
        # Equal values share the lowest place that covers them.
        first = np.maximum.accumulate(np.where(np.diff(top, axis=1, prepend=-np.inf) > 0.0, np.arange(kept), 0), axis=1)
        np.maximum.at(place, index.ravel(), (needed + first).ravel())
        upper.append(top)
    level = int(np.partition(place, needed - 1)[needed - 1])
    if n_draws - level >= MIN_BEYOND:
        return [top[:, level - needed].copy() for top in upper]
    factor = float(np.partition(largest, needed - 1)[needed - 1])
    return [np.maximum(mean + factor * spread, 0.0) for mean, spread in moments]


@dataclass(frozen=True, eq=False)
class RankCounts:
    """Per (task, model): at least `above` models are better and at least `below` are worse."""

    task: IntArray
    model: IntArray
    above: IntArray
    below: IntArray


def order_counts(
    chunks: Iterable[FloatArray],
    inside_task: bool,
    task: IntArray,
    first: IntArray,
    second: IntArray,
    statistic: FloatArray,
    inverse_se: FloatArray,
    alpha: float,
    *,
    one_model: bool,
) -> tuple[RankCounts, NDArray[np.bool_]]:
    """Rank counts of every (task, model) a claim is about, and which gaps exceed the c_1 of all concerned.

    Parameters
    ----------
    chunks : iterable of ndarray, shape (n_tasks or 1, n_models, size)
        Draws of the noise; one task's own where `inside_task`.
    task, first, second, statistic, inverse_se : ndarray, shape (n_gaps,)
        The usable gaps, first minus second, studentised.
    one_model : bool
        The claim is about `first` only; else about both models of a gap.
    """
    gap = np.arange(len(task))
    key = [task] if one_model else [task, task]
    models = [first] if one_model else [first, second]
    others = [second] if one_model else [second, first]
    # Seen from a subject, the statistic is that of the other minus it.
    signed = [-statistic] if one_model else [-statistic, statistic]
    all_task, all_model, all_other = np.concatenate(key), np.concatenate(models), np.concatenate(others)
    all_gap, all_signed = np.tile(gap, len(key)), np.concatenate(signed)
    order = np.lexsort((all_other, all_model, all_task))
    new = np.flatnonzero((np.diff(all_task[order], prepend=-1) != 0) | (np.diff(all_model[order], prepend=-1) != 0))
    parts = np.split(order, new[1:])
    subjects = [Subject(int(all_task[p[0]]), int(all_model[p[0]]), all_other[p], inverse_se[all_gap[p]]) for p in parts]
    wanted = np.unique(task)
    pieces: dict[int, list[FloatArray]] = {int(t): [] for t in wanted}
    for chunk in chunks:
        for t in wanted:
            pieces[int(t)].append(chunk[0 if inside_task else t])
    draws_of = {t: np.ascontiguousarray(np.concatenate(list_of, axis=1)) for t, list_of in pieces.items()}
    thresholds = order_thresholds(subjects, draws_of, alpha)
    counts = np.array([rank_counts(all_signed[p], c) for p, c in zip(parts, thresholds, strict=True)], dtype=np.int64)
    exceeds = np.ones(len(task), dtype=bool)
    for p, c in zip(parts, thresholds, strict=True):
        exceeds[all_gap[p]] &= np.abs(all_signed[p]) > c[0]
    subject_task = np.array([s.task for s in subjects], dtype=np.int64)
    subject_model = np.array([s.model for s in subjects], dtype=np.int64)
    return RankCounts(subject_task, subject_model, counts[:, 0], counts[:, 1]), exceeds
