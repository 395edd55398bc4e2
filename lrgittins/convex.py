"""Nuclear-norm initializer: step 2 of Algorithm 1."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ._kernels.logistic import log_likelihood, logistic_terms
from ._outcomes import Cells

FloatArray = NDArray[np.float64]

MEAN_RESIDUAL_VARIANCE = 0.2  # specification: a constant, not re-estimated


def reference_penalty(n: float, n_tasks: int, n_models: int) -> float:
    """lam0 = (sqrt(2 n / d_t pI) + sqrt(2 n / d_m pI)) / n, the spectral norm to expect of pure noise."""
    return (math.sqrt(2.0 * n / n_tasks * MEAN_RESIDUAL_VARIANCE) + math.sqrt(2.0 * n / n_models * MEAN_RESIDUAL_VARIANCE)) / n


@dataclass(frozen=True, eq=False)
class NuclearNormFit:
    """Minimiser of the mean logistic loss + penalty * nuclear norm over rows that sum to 0."""

    scores: FloatArray
    singular_values: FloatArray
    converged: bool
    n_iter: int
    gradient_norm: float

    @property
    def rank(self) -> int:
        return int((self.singular_values > 0.0).sum())


def shrink_singular_values(matrix: FloatArray, threshold: float) -> tuple[FloatArray, FloatArray]:
    """Proximal map of threshold * nuclear norm; returns it and its positive singular values, largest first.

    Works on the smaller Gram matrix, truncated: only directions above the threshold are computed, and for those squaring costs
    no accuracy that matters (relative error near eps * (largest / threshold)).
    """
    wide = matrix.shape[0] <= matrix.shape[1]
    gram = matrix @ matrix.T if wide else matrix.T @ matrix
    values, basis = scipy.linalg.eigh(gram, check_finite=False, driver="evr", subset_by_value=(threshold * threshold, np.inf))
    if not len(values):
        return np.zeros_like(matrix), np.zeros(0)
    singular = np.sqrt(values)
    scaled = basis * (1.0 - threshold / singular)
    shrunk = scaled @ (basis.T @ matrix) if wide else (matrix @ scaled) @ basis.T
    return shrunk, (singular - threshold)[::-1]


def _project(matrix: FloatArray, threshold: float, bound: float | None) -> tuple[FloatArray, FloatArray]:
    """Proximal map of the penalty restricted to |entries| <= bound, by Dykstra's alternation where the box binds."""
    shrunk, singular = shrink_singular_values(matrix, threshold)
    if bound is None or np.max(np.abs(shrunk), initial=0.0) <= bound:
        return shrunk, singular
    correction_shrink = np.zeros_like(matrix)
    correction_box = np.zeros_like(matrix)
    current = matrix
    for _ in range(2000):
        shrunk, singular = shrink_singular_values(current + correction_shrink, threshold)
        correction_shrink = current + correction_shrink - shrunk
        clipped = clip_centred(shrunk + correction_box, bound)
        correction_box = shrunk + correction_box - clipped
        change = float(np.max(np.abs(clipped - shrunk)))
        current = clipped
        if change <= 1e-10 * bound:
            break
    return current, singular


def clip_centred(matrix: FloatArray, bound: float) -> FloatArray:
    """Projection of every row onto {|entries| <= bound, sum 0}: shift, then clip, the shift found by bisection."""
    low = matrix.min(axis=1) - bound
    high = matrix.max(axis=1) + bound
    for _ in range(80):
        middle = 0.5 * (low + high)
        total = np.clip(matrix - middle[:, None], -bound, bound).sum(axis=1)
        low = np.where(total > 0.0, middle, low)
        high = np.where(total > 0.0, high, middle)
    return np.clip(matrix - (0.5 * (low + high))[:, None], -bound, bound)


def fit_nuclear_norm(
    cells: Cells, penalty: float, *, start: FloatArray | None = None, bound: float | None = None, tol: float = 1e-8, max_iter: int = 2000
) -> NuclearNormFit:
    """Accelerated proximal gradient with backtracking and restart.

    `penalty` belongs to the *mean* loss. Stops when the proximal gradient's norm is at most `tol`. Centring is free:
    gradient rows sum to 0 and singular-value thresholding keeps the null vector.
    """
    n = cells.total
    arguments = (cells.task, cells.low, cells.high, cells.count, cells.wins)
    degree = np.zeros((cells.n_tasks, cells.n_models))
    np.add.at(degree, (cells.task, cells.low), cells.count)
    np.add.at(degree, (cells.task, cells.high), cells.count)
    largest_curvature = 2.0 * float(degree.max()) / (4.0 * n)  # Gershgorin on the Laplacians, I <= 1/4
    curvature = largest_curvature / 4.0
    scores = np.zeros((cells.n_tasks, cells.n_models)) if start is None else np.ascontiguousarray(start, dtype=np.float64)
    point = scores
    momentum = 1.0
    gradient = np.empty_like(scores)
    information = np.empty(len(cells.task))
    singular = np.zeros(0)
    norm = np.inf
    converged = False
    n_iter = 0
    while n_iter < max_iter:
        n_iter += 1
        loss = -logistic_terms(*arguments, point, gradient, information) / n
        descent = gradient / n
        while True:
            candidate, singular = _project(point + descent / curvature, penalty / curvature, bound)
            change = candidate - point
            squared = float(np.vdot(change, change))
            candidate_loss = -log_likelihood(*arguments, np.ascontiguousarray(candidate)) / n
            bound_loss = loss - float(np.vdot(descent, change)) + 0.5 * curvature * squared
            if candidate_loss <= bound_loss + 1e-14 * abs(loss) or curvature >= 4.0 * largest_curvature:
                break
            curvature *= 1.6
        norm = curvature * math.sqrt(squared)
        if norm <= tol:
            scores = candidate
            converged = True
            break
        if float(np.vdot(point - candidate, candidate - scores)) > 0.0:
            momentum = 1.0  # the direction has turned against the gradient: restart
        next_momentum = 0.5 * (1.0 + math.sqrt(1.0 + 4.0 * momentum * momentum))
        point = np.ascontiguousarray(candidate + ((momentum - 1.0) / next_momentum) * (candidate - scores))
        scores, momentum = candidate, next_momentum
        curvature *= 0.95
    return NuclearNormFit(scores, singular, converged, n_iter, norm)
