"""Rank intervals from order-statistic thresholds: how many gaps can exceed c_k, rather than which (specification, section 5)."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._kernels.order_statistics import fill_order_statistics
from ._outcomes import FloatArray, IntArray
from .errors import ParameterError

MAX_KEPT = 5 * 10**7  # upper order statistics held at once (400 MB)


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


def common_quantile_thresholds(subjects: list[Subject], draws_of: dict[int, FloatArray], alpha: float) -> list[FloatArray]:
    """Thresholds c_1 >= c_2 >= ... of every subject, all at one shared quantile level.

    The level is the smallest at which, in a share of at least 1 - alpha of the draws, every subject's k-th largest
    studentised gap error (both tails) is at most its c_k for all k. Below 0 a threshold is raised to 0.

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
    total = sum(len(subject.others) for subject in subjects) * kept
    if total > MAX_KEPT:
        raise ParameterError(
            f"method='order-statistic' for {len(subjects)} (task, model) rows would hold {total} upper order statistics, more than "
            f"{MAX_KEPT}; use a narrower family such as ('task', task) or ('cell', task, model), fewer n_draws, or method='step-down'"
        )
    # A draw's place: the least level index j (1 to n_draws) at which all its order statistics are within the j-th smallest
    # of theirs. Only the `kept` largest of each can ask for more than `needed`, so only those are sorted.
    place = np.full(n_draws, needed, dtype=np.int64)
    upper: list[FloatArray] = []
    for subject in subjects:
        values = np.empty((len(subject.others), n_draws))
        fill_order_statistics(draws_of[subject.task], subject.model, subject.others, subject.inverse_se, values)
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
    return [np.maximum(top[:, level - needed], 0.0) for top in upper]
