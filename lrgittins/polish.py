"""Penalised maximum likelihood over rank-r matrices by Riemannian Fisher scoring."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._kernels.logistic import log_likelihood, logistic_terms
from ._outcomes import Cells
from .tangent import Arrowhead, TangentSpace

FloatArray = NDArray[np.float64]

N_ROUNDS = 3  # the penalty is re-evaluated this often, the first time from Algorithm 1's result


@dataclass(frozen=True, eq=False)
class Factorisation:
    """A centred matrix left diag(singular_values) right' with orthonormal factors, singular values largest first."""

    left: FloatArray
    singular_values: FloatArray
    right: FloatArray

    @property
    def scores(self) -> FloatArray:
        return (self.left * self.singular_values) @ self.right.T

    @property
    def rank(self) -> int:
        return len(self.singular_values)


@dataclass(frozen=True, eq=False)
class Polish:
    """Where the polish ended; `gradient_norm` is the tangent norm over the total count, `n_iter` counts all rounds."""

    factors: Factorisation
    converged: bool
    n_iter: int
    gradient_norm: float
    objective: float
    penalty: float


def factorise(scores: FloatArray, rank: int) -> Factorisation:
    """Leading `rank` singular triples of a matrix with centred rows; right factors stay orthogonal to the constant
    vector, also where singular values vanish. Signs are fixed (largest entry of a right vector positive)."""
    n_models = scores.shape[1]
    left, singular, right_t = np.linalg.svd(scores, full_matrices=False)
    left, singular, right = left[:, :rank], singular[:rank].copy(), right_t[:rank].T
    tiny = singular <= 1e-13 * max(float(singular[0]), 1e-300)
    if tiny.any():
        singular[tiny] = 0.0
        kept = int((~tiny).sum())
        left = _complete(left[:, :kept], rank)
        right = _complete(np.hstack([np.full((n_models, 1), n_models**-0.5), right[:, :kept]]), rank + 1)[:, 1:]
    signs = np.sign(right[np.argmax(np.abs(right) > 0.999999 * np.abs(right).max(axis=0), axis=0), np.arange(rank)])
    signs[signs == 0.0] = 1.0
    return Factorisation(np.ascontiguousarray(left * signs), singular, np.ascontiguousarray(right * signs))


def _complete(basis: FloatArray, columns: int) -> FloatArray:
    """Orthonormal columns `basis`, completed to `columns` of them."""
    if basis.shape[1] == 0:
        return np.eye(basis.shape[0])[:, :columns]
    full, _ = np.linalg.qr(basis, mode="complete")
    return np.hstack([basis, full[:, basis.shape[1] : columns]])


def _retract(factors: Factorisation, space: TangentSpace, coords: FloatArray) -> Factorisation:
    """Rank-r SVD of the matrix plus a tangent vector, in O((n_tasks + n_models) r^2)."""
    rank = factors.rank
    tasks_part, models_part = space.split(coords)
    along = factors.right * factors.singular_values + space.right_perp @ models_part.T
    left_basis, left_small = np.linalg.qr(np.hstack([factors.left, tasks_part]))
    right_basis, right_small = np.linalg.qr(np.hstack([along, factors.right]))
    core_left, singular, core_right = np.linalg.svd(left_small @ right_small.T)
    return Factorisation(left_basis @ core_left[:, :rank], singular[:rank], right_basis @ core_right[:rank].T)


def penalty_weight(factors: Factorisation) -> float:
    """nu = sqrt(r d_t d_m) / |Theta|_F: an empirical-Bayes Gaussian prior on the factors."""
    size = factors.rank * factors.left.shape[0] * factors.right.shape[0]
    norm = float(np.linalg.norm(factors.singular_values))
    return math.sqrt(size) / norm if norm > 0.0 else math.inf


def polish_scores(cells: Cells, start: Factorisation, *, tol: float, max_iter: int) -> Polish:
    """Maximise loglik(Theta) - nu |Theta|_* over centred rank-r matrices, nu held fixed within each of three rounds."""
    factors = start
    n_iter = 0
    result: Polish | None = None
    for _ in range(N_ROUNDS):
        penalty = penalty_weight(factors)
        if not math.isfinite(penalty) or float(factors.singular_values[0]) < 1e-8:
            # Nothing to shrink towards: equal scores stay equal.
            value = log_likelihood(cells.task, cells.low, cells.high, cells.count, cells.wins, np.zeros_like(factors.scores))
            return Polish(factors, True, n_iter, 0.0, value, 0.0)
        result = _score_round(cells, factors, penalty, tol, max_iter)
        n_iter += result.n_iter
        factors = result.factors
    assert result is not None
    return Polish(factors, result.converged, n_iter, result.gradient_norm, result.objective, result.penalty)


def _score_round(cells: Cells, factors: Factorisation, penalty: float, tol: float, max_iter: int) -> Polish:
    """Ascend to a stationary point at a fixed penalty.

    Steps solve the restricted Fisher operator plus the curvature of the penalty and of the manifold, where that sum is
    positive definite (Newton: a handful of steps), and the Fisher operator alone elsewhere (scoring: always an ascent).
    """
    arguments = (cells.task, cells.low, cells.high, cells.count, cells.wins)
    total = cells.total
    gradient = np.empty((cells.n_tasks, cells.n_models))
    information = np.empty(len(cells.task))
    next_gradient, next_information = np.empty_like(gradient), np.empty_like(information)
    converged = False
    value = logistic_terms(*arguments, factors.scores, gradient, information) - penalty * float(factors.singular_values.sum())
    n_iter = 0
    while True:
        space = TangentSpace(factors.left, factors.right)
        slope = space.coords(gradient - penalty * (factors.left @ factors.right.T))
        norm = float(np.linalg.norm(slope)) / total
        if norm <= tol:
            converged = True
            break
        if n_iter >= max_iter:
            break
        step = _ascent_step(cells, space, factors.singular_values, gradient, information, penalty, slope)
        gain = float(slope @ step)
        shrink = 1.0
        accepted = False
        while shrink > 1e-9:
            candidate = _retract(factors, space, shrink * step)
            trial = logistic_terms(*arguments, candidate.scores, next_gradient, next_information)
            trial -= penalty * float(candidate.singular_values.sum())
            if trial >= value + 1e-4 * shrink * gain - 1e-14 * abs(value):
                accepted = True
                break
            shrink *= 0.5
        if not accepted:
            break
        n_iter += 1
        factors, value = candidate, trial
        gradient, next_gradient = next_gradient, gradient
        information, next_information = next_information, information
    return Polish(factors, converged, n_iter, norm, value, penalty)


def _ascent_step(
    cells: Cells,
    space: TangentSpace,
    singular: FloatArray,
    gradient: FloatArray,
    information: FloatArray,
    penalty: float,
    slope: FloatArray,
) -> FloatArray:
    operator = Arrowhead.from_cells(space, cells.task, cells.low, cells.high, information)
    ridge = penalty / np.maximum(singular, 1e-6 * singular[0])  # second derivative of the penalty across each factor
    normal = gradient @ space.right_perp
    normal -= space.left @ (space.left.T @ normal)
    try:
        factor = operator.factor(ridge, bend=-normal[:, None, :] / np.maximum(singular, 1e-6 * singular[0])[None, :, None])
        step = factor.solve(slope)
        if float(slope @ step) > 0.0:
            return step
    except np.linalg.LinAlgError:
        pass
    return operator.factor(ridge).solve(slope)
