"""From declared signs of gaps to rank intervals, three-way top-k certificates and point ranks."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

TIE_TOLERANCE = 1e-9


def count_signs(
    task: IntArray, first: IntArray, second: IntArray, sign: NDArray[Any], above: IntArray, below: IntArray, *, one_model: bool
) -> None:
    """Add to `above` and `below` (n_tasks, n_models) how many models are declared above and below each.

    `sign` is that of score[first] - score[second]. With `one_model` a gap speaks for `first` only (the claim is about it).
    """
    up, down = sign > 0, sign < 0
    np.add.at(below, (task[up], first[up]), 1)
    np.add.at(above, (task[down], first[down]), 1)
    if not one_model:
        np.add.at(above, (task[up], second[up]), 1)
        np.add.at(below, (task[down], second[down]), 1)


def rank_intervals(above: IntArray, below: IntArray, n_models: int) -> tuple[IntArray, IntArray]:
    """[1 + A, n_models - B] with A models declared above and B declared below (section 5)."""
    return 1 + above, n_models - below


def certify_ranks(rank_low: IntArray, rank_high: IntArray, top_k: int) -> NDArray[np.object_]:
    """ "top-k" where even the worst rank is within `top_k`, "not-top-k" where even the best is not, else "unresolved"."""
    out = np.full(rank_low.shape, "unresolved", dtype=object)
    out[rank_high <= top_k] = "top-k"
    out[rank_low > top_k] = "not-top-k"
    return out


def point_ranks(scores: FloatArray) -> IntArray:
    """Ranks of each row's scores, best 1; scores equal to 1e-9 (of the row's largest, at least 1) share the better rank.

    A NaN score ranks behind all others. The paper breaks exact ties by a fixed order; a shared rank depends on nothing
    but the scores.
    """
    scores = np.atleast_2d(scores)
    known = np.where(np.isnan(scores), -np.inf, scores)
    scale = np.maximum(1.0, np.max(np.abs(np.where(np.isnan(scores), 0.0, scores)), axis=1))
    out = np.empty(scores.shape, dtype=np.int64)
    for row, (values, tolerance) in enumerate(zip(known, TIE_TOLERANCE * scale, strict=True)):
        ascending = np.sort(values)
        out[row] = 1 + len(values) - np.searchsorted(ascending, values + tolerance, side="right")
    return out


def intervals_from_bounds(low: FloatArray, high: FloatArray) -> tuple[IntArray, IntArray]:
    """Rank intervals from simultaneous bounds on all gaps of one task.

    Parameters
    ----------
    low, high : ndarray of float64, shape (n_models, n_models)
        Bounds of score[row] - score[column]; the diagonal is not read. A bound that touches 0 declares nothing.
    """
    off = ~np.eye(len(low), dtype=bool)
    below = ((low > 0.0) & off).sum(axis=1)
    above = ((high < 0.0) & off).sum(axis=1)
    return rank_intervals(above, below, len(low))
