"""Penalised maximum likelihood over rank-r matrices by Riemannian Fisher scoring."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ._kernels.logistic import log_likelihood, logistic_terms
from ._outcomes import Cells
from .tangent import Arrowhead, TangentSpace

FloatArray = NDArray[np.float64]

BEND_SHARES = (1.0, 0.8, 0.6, 0.4, 0.2)  # of the manifold's curvature, tried in turn until the operator is positive definite
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
    """Maximise loglik(Theta) - nu |Theta|_* over centred matrices of rank at most r, nu held fixed within each of three rounds.

    Where the data do not pay for a factor, the penalty removes it and the result has fewer (none left: equal scores).
    """
    factors = start
    n_iter = 0
    result: Polish | None = None
    for _ in range(N_ROUNDS):
        penalty = penalty_weight(factors)
        if not math.isfinite(penalty) or float(factors.singular_values[0]) < 1e-8:
            # Nothing to shrink towards: equal scores stay equal.
            return _equal_scores(cells, n_iter)
        result = _score_round(cells, factors, penalty, tol, max_iter)
        n_iter += result.n_iter
        factors = result.factors
        if factors.rank == 0:
            return _equal_scores(cells, n_iter)
    assert result is not None
    return Polish(factors, result.converged, n_iter, result.gradient_norm, result.objective, result.penalty)


@dataclass(frozen=True, eq=False)
class PolishStart:
    """A factorisation and its Fisher operator on some cells: what every polish that starts here, with the same counts, has in common."""

    factors: Factorisation
    operator: Arrowhead

    @classmethod
    def at(cls, cells: Cells, factors: Factorisation) -> PolishStart:
        return cls(factors, _operator(cells, _evaluate(cells, factors, 0.0)))


def polish_steps(cells: Cells, start: PolishStart, *, n_steps: int, tol: float) -> Factorisation:
    """At most `n_steps` steps of `polish_scores` from a start near the maximum, nu re-evaluated at each; fewer where `tol` is met.

    `cells` are those of the start, with other wins.
    """
    state = _evaluate(cells, start.factors, 0.0)
    operator = start.operator
    for step_number in range(n_steps):
        penalty = penalty_weight(state.factors)
        if not math.isfinite(penalty) or float(state.factors.singular_values[0]) < 1e-8:
            break
        state = state.penalised(penalty)
        space = operator.space if step_number == 0 else TangentSpace(state.factors.left, state.factors.right)
        slope = space.coords(state.gradient - penalty * (state.factors.left @ state.factors.right.T))
        if float(np.linalg.norm(slope)) <= tol * cells.total:
            break
        if step_number > 0:
            operator = _operator(cells, state, space)
        step = _ascent_step(operator, state, penalty, slope)
        better = _line_search(cells, state, space, step, float(slope @ step), penalty)
        if better is None:
            break
        state = better
    return state.factors


def _equal_scores(cells: Cells, n_iter: int) -> Polish:
    """All scores equal: no factor pays at any penalty this small a matrix would have."""
    empty = factorise(np.zeros((cells.n_tasks, cells.n_models)), 1)
    value = log_likelihood(cells.task, cells.low, cells.high, cells.count, cells.wins, empty.scores)
    return Polish(empty, True, n_iter, 0.0, float(value), 0.0)


def _score_round(cells: Cells, factors: Factorisation, penalty: float, tol: float, max_iter: int) -> Polish:
    """Ascend to the maximum at a fixed penalty, over matrices of at most the rank of the start.

    Steps solve the restricted Fisher operator plus the curvature of the penalty and of the manifold, where that sum is
    positive definite (Newton: a handful of steps), and the Fisher operator alone elsewhere (scoring: always an ascent).
    A singular value that is on its way to 0 is removed at once; one is added again where that pays.
    """
    most = factors.rank
    state = _evaluate(cells, factors, penalty)
    converged = False
    n_iter = 0
    norm = math.inf
    while True:
        space = TangentSpace(state.factors.left, state.factors.right)
        slope = space.coords(state.gradient - penalty * (state.factors.left @ state.factors.right.T))
        norm = float(np.linalg.norm(slope)) / cells.total
        if norm <= tol:
            grown = _add_factor(cells, state, penalty) if state.factors.rank < most else None
            if grown is None:
                converged = True
                break
            state = grown
            n_iter += 1
            continue
        if n_iter >= max_iter:
            break
        operator = _operator(cells, state, space)
        better = _drop_factor(cells, state, operator, penalty)
        if better is None:
            step = _ascent_step(operator, state, penalty, slope)
            better = _line_search(cells, state, space, step, float(slope @ step), penalty)
        if better is None:
            break
        state = better
        n_iter += 1
    return Polish(_sorted(state.factors), converged, n_iter, norm, state.value, penalty)


@dataclass(frozen=True, eq=False)
class _State:
    """A point of the ascent: log-likelihood, its gradient (n_tasks, n_models) and information per cell, and the penalty in force."""

    factors: Factorisation
    likelihood: float
    gradient: FloatArray
    information: FloatArray
    penalty: float

    @property
    def value(self) -> float:
        return self.likelihood - self.penalty * float(self.factors.singular_values.sum())

    def penalised(self, penalty: float) -> _State:
        return replace(self, penalty=penalty)


def _evaluate(cells: Cells, factors: Factorisation, penalty: float) -> _State:
    gradient = np.empty((cells.n_tasks, cells.n_models))
    information = np.empty(len(cells.task))
    value = logistic_terms(cells.task, cells.low, cells.high, cells.count, cells.wins, factors.scores, gradient, information)
    return _State(factors, float(value), gradient, information, penalty)


def _operator(cells: Cells, state: _State, space: TangentSpace | None = None) -> Arrowhead:
    """The Fisher operator at a state."""
    if space is None:
        space = TangentSpace(state.factors.left, state.factors.right)
    return Arrowhead.from_cells(space, cells.task, cells.low, cells.high, state.information)


def _line_search(cells: Cells, state: _State, space: TangentSpace, step: FloatArray, gain: float, penalty: float) -> _State | None:
    """Backtrack along the retraction; the objective may fall by rounding error only."""
    shrink = 1.0
    while shrink > 1e-9:
        trial = _evaluate(cells, _retract(state.factors, space, shrink * step), penalty)
        if trial.value >= state.value + 1e-4 * shrink * gain - 1e-14 * abs(state.value):
            return trial
        shrink *= 0.5
    return None


def _ascent_step(operator: Arrowhead, state: _State, penalty: float, slope: FloatArray) -> FloatArray:
    """Newton's step where the curved operator is positive definite, else the scoring step.

    The penalty's second derivative is nu / sigma_c across each factor c, on D and X alike, except inside U M V', where it is
    (M_ij - M_ji)^2 nu / (sigma_i + sigma_j) over i < j. The first form keeps the arrowhead; the difference has rank r^2 at
    most and is put right by Woodbury's identity.
    """
    space, rank = operator.space, operator.space.rank
    singular = np.maximum(state.factors.singular_values, 1e-6 * state.factors.singular_values.max())
    ridge = penalty / singular
    normal = state.gradient @ space.right_perp
    normal -= space.left @ (space.left.T @ normal)
    bend = -normal[:, None, :] / singular[None, :, None]
    for share in BEND_SHARES:
        try:
            factor = operator.factor(ridge, bend=share * bend)
            break
        except np.linalg.LinAlgError:
            continue
    else:
        return operator.factor(ridge).solve(slope)
    inside = np.zeros((space.n_tasks, rank, rank, rank))  # D of the unit matrix M = e_i e_c', for every (i, c)
    for c in range(rank):
        inside[:, c, :, c] = space.left
    columns = np.zeros((space.dimension, rank * rank))
    columns[: space.n_tasks * rank] = inside.reshape(space.n_tasks * rank, -1)
    pairwise = penalty / np.add.outer(singular, singular) * (1.0 - np.eye(rank))
    excess = np.diag(np.tile(ridge, rank) - pairwise.ravel())
    i, j = np.indices((rank, rank))
    excess[(i * rank + j).ravel(), (j * rank + i).ravel()] += pairwise.ravel()
    solved = factor.solve(np.column_stack([slope, columns]))
    step = solved[:, 0]
    mended = np.linalg.solve(np.eye(rank * rank) - excess @ (columns.T @ solved[:, 1:]), excess @ (columns.T @ step))
    newton = step + solved[:, 1:] @ mended
    return newton if float(slope @ newton) > 0.0 else step


def _drop_factor(cells: Cells, state: _State, operator: Arrowhead, penalty: float) -> _State | None:
    """The state without its smallest singular value, where Newton on that value alone ends below 0 and nothing is lost."""
    factors = state.factors
    last = int(np.argmin(factors.singular_values))
    u, v = factors.left[:, last], factors.right[:, last]
    pull = float(u @ state.gradient @ v) - penalty
    curvature = float(u**2 @ operator.blocks[:, last, last])
    if factors.singular_values[last] * curvature + pull > 0.0:
        return None
    keep = np.arange(factors.rank) != last
    fewer = _evaluate(cells, Factorisation(factors.left[:, keep], factors.singular_values[keep], factors.right[:, keep]), penalty)
    return fewer if fewer.value >= state.value else None


def _add_factor(cells: Cells, state: _State, penalty: float) -> _State | None:
    """One more factor, along the steepest direction across the present ones, where the gradient there exceeds the penalty."""
    factors = state.factors
    across = state.gradient - factors.left @ (factors.left.T @ state.gradient)
    across -= (across @ factors.right) @ factors.right.T
    left, singular, right_t = np.linalg.svd(across, full_matrices=False)
    surplus = float(singular[0]) - penalty
    if surplus <= 1e-9 * penalty:
        return None
    u, v = left[:, :1], right_t[:1].T
    moved = u[cells.task, 0] * (v[cells.low, 0] - v[cells.high, 0])
    size = surplus / float(state.information @ moved**2)
    while size > 1e-12:
        more = Factorisation(np.hstack([factors.left, u]), np.append(factors.singular_values, size), np.hstack([factors.right, v]))
        trial = _evaluate(cells, more, penalty)
        if trial.value > state.value:
            return trial
        size *= 0.5
    return None


def _sorted(factors: Factorisation) -> Factorisation:
    order = np.argsort(-factors.singular_values, kind="stable")
    return Factorisation(factors.left[:, order], factors.singular_values[order], factors.right[:, order])
