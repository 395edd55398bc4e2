"""Inference written from the formulas: dense p x p Fisher inverse, literal n x q multiplier bootstrap, slow ranks."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]
Gap = tuple[int, int, int]


def expit(x: FloatArray) -> FloatArray:
    return 1.0 / (1.0 + np.exp(-x))


def tangent_basis(scores: FloatArray, rank: int) -> FloatArray:
    """Orthonormal basis of the tangent space as (p, T * M) rows, from the projector itself (no coordinates of ours)."""
    n_tasks, n_models = scores.shape
    left, _, right_t = np.linalg.svd(scores)
    pu = left[:, :rank] @ left[:, :rank].T
    pv = right_t[:rank].T @ right_t[:rank]
    centre = np.eye(n_models) - 1.0 / n_models
    # P_T G = P_U G R + (I - P_U) G P_V, as a matrix on row-major vec(G)
    projector = np.kron(pu, centre) + np.kron(np.eye(n_tasks) - pu, pv)
    values, vectors = np.linalg.eigh(0.5 * (projector + projector.T))
    return vectors[:, values > 0.5].T


def design_rows(basis: FloatArray, shape: tuple[int, int], task: NDArray, first: NDArray, second: NDArray) -> FloatArray:
    """Coordinates (n, p) of e_task (e_first - e_second)'."""
    out = np.zeros((len(task), *shape))
    index = np.arange(len(task))
    out[index, task, first] += 1.0
    out[index, task, second] -= 1.0
    return out.reshape(len(task), -1) @ basis.T


def fisher(scores: FloatArray, rank: int, task: NDArray, first: NDArray, second: NDArray, law: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Basis (p, T M) and A = sum law x I(gap) x z z', dense."""
    basis = tangent_basis(scores, rank)
    rows = design_rows(basis, scores.shape, task, first, second)
    probability = expit(scores[task, first] - scores[task, second])
    return basis, (rows * (law * probability * (1 - probability))[:, None]).T @ rows


def influence_matrix(
    scores_of_fold: list[FloatArray],
    rank: int,
    fold: NDArray,
    task: NDArray,
    first: NDArray,
    second: NDArray,
    outcome: FloatArray,
    gaps: list[Gap],
    design: str,
) -> tuple[FloatArray, FloatArray]:
    """One-step estimates of `gaps` (q,) and the influence phi of every single comparison (n, q): Algorithm 2, term by term."""
    n, q = len(task), len(gaps)
    phi = np.zeros((n, q))
    estimate = np.zeros(q)
    gap_index = tuple(np.array(column) for column in zip(*gaps, strict=True))
    for k, scores in enumerate(scores_of_fold):
        inside = fold == k
        if design == "uniform":
            n_tasks, n_models = scores.shape
            low, high = np.triu_indices(n_models, 1)
            law_at = np.repeat(np.arange(n_tasks), len(low)), np.tile(low, n_tasks), np.tile(high, n_tasks)
            law = np.full(len(law_at[0]), 1.0 / len(law_at[0]))
        else:
            law_at = task[~inside], first[~inside], second[~inside]
            law = np.full((~inside).sum(), 1.0 / (~inside).sum())
        basis, matrix = fisher(scores, rank, *law_at, law)
        inverse = np.linalg.inv(matrix)
        contrasts = design_rows(basis, scores.shape, *gap_index)
        residual = outcome[inside] - expit(scores[task[inside], first[inside]] - scores[task[inside], second[inside]])
        rows = design_rows(basis, scores.shape, task[inside], first[inside], second[inside])
        phi[inside] = residual[:, None] * (rows @ inverse @ contrasts.T)
        plug_in = scores[gap_index[0], gap_index[1]] - scores[gap_index[0], gap_index[2]]
        estimate += inside.sum() / n * (plug_in + phi[inside].mean(axis=0))
    return estimate, phi


def covariance(phi: FloatArray, cluster: NDArray | None = None) -> FloatArray:
    """Covariance of the estimates, with score sums within clusters."""
    n = len(phi)
    centred = phi - phi.mean(axis=0)
    if cluster is not None:
        labels = np.unique(cluster)
        centred = np.array([centred[cluster == label].sum(axis=0) for label in labels])
    return centred.T @ centred / n**2


def multiplier_bootstrap(phi: FloatArray, n_draws: int, rng: np.random.Generator, cluster: NDArray | None = None) -> FloatArray:
    """Draws (n_draws, q) of |n^{-1/2} sum_i xi_i (phi_i - phibar)| / sigma: the n x q matrix in full (Algorithm 3)."""
    n = len(phi)
    centred = phi - phi.mean(axis=0)
    if cluster is None:
        multipliers = rng.standard_normal((n_draws, n))
    else:
        labels, code = np.unique(cluster, return_inverse=True)
        multipliers = rng.standard_normal((n_draws, len(labels)))[:, code]
    sigma = np.sqrt(n * np.diag(covariance(phi, cluster)))
    return np.abs(multipliers @ centred) / np.sqrt(n) / sigma


def step_down(statistic: FloatArray, draws: FloatArray, alpha: float) -> NDArray[np.bool_]:
    """Romano-Wolf on given studentised draws (n_draws, q): reject |T| > c, recompute c over the rest, repeat."""
    active = np.ones(len(statistic), dtype=bool)
    while active.any():
        critical = np.quantile(np.abs(draws[:, active]).max(axis=1), 1 - alpha)
        rejected = active & (np.abs(statistic) > critical)
        if not rejected.any():
            break
        active &= ~rejected
    return ~active


def rank_interval(low: FloatArray, high: FloatArray) -> tuple[int, int]:
    """Of one model from bounds on the gaps (other minus it): 1 + #(low > 0), d_m - #(high < 0)."""
    return 1 + int((low > 0).sum()), len(low) + 1 - int((high < 0).sum())
