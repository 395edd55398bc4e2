"""Wald noise of maximum-likelihood Bradley-Terry scores: sandwich covariance on all data, one estimate a row."""

from __future__ import annotations

import numpy as np

from ._clusters import sum_clusters
from ._kernels.influence import accumulate_influence
from ._noise import WaldNoise
from ._outcomes import FloatArray, IntArray, OutcomeTable


def wald_noise(table: OutcomeTable, scores: FloatArray, component: IntArray, row_of_task: IntArray) -> WaldNoise:
    """Influence functions B s (e_low - e_high), B the pseudo-inverse of each row's information from data only.

    Parameters
    ----------
    scores : ndarray of float64, shape (n_rows, n_models)
        Estimates, finite where a model is seen.
    component : ndarray of int64, shape (n_rows, n_models)
        Strong components of every row's win graph, -1 where unseen. A gap inside a component is estimated from the
        component's own comparisons: others only push components apart.
    row_of_task : ndarray of int64, shape (n_tasks,)
        Estimated row of every task; all 0 for a pooled fit.
    """
    n_rows, n_models = scores.shape
    row = row_of_task[table.task]
    inside = component[row, table.low] == component[row, table.high]
    weight = np.where(inside, table.count, 0).astype(np.float64)
    residual = np.empty(table.n_groups)
    finite = np.where(component >= 0, scores, 0.0)
    accumulate_influence(row, table.low, table.high, table.outcome, weight, finite, residual, np.zeros_like(finite))
    residual[~inside] = 0.0

    key, cell = np.unique((row * n_models + table.low) * n_models + table.high, return_inverse=True)
    cell_row, pair = np.divmod(key, n_models * n_models)
    low, high = np.divmod(pair, n_models)
    count = np.bincount(cell, weight, len(key))
    small = np.exp(-np.abs(finite[cell_row, low] - finite[cell_row, high]))
    bread = _pseudo_inverse(_laplacian(cell_row, low, high, count * small / (1.0 + small) ** 2, n_rows, n_models), component)

    sums = sum_clusters(table.cluster, cell.astype(np.int64), len(key), weight, residual)
    meat = _laplacian(cell_row, low, high, sums.squares, n_rows, n_models)
    spanning = None
    if sums.n_clusters:
        from scipy.sparse import csr_array

        entry_row = cell_row[sums.cell]
        lowest, highest = np.full(sums.n_clusters, n_rows), np.full(sums.n_clusters, -1)
        np.minimum.at(lowest, sums.cluster, entry_row)
        np.maximum.at(highest, sums.cluster, entry_row)
        columns = np.concatenate([entry_row * n_models + low[sums.cell], entry_row * n_models + high[sums.cell]])
        values = np.concatenate([sums.total, -sums.total])
        rows = np.concatenate([sums.cluster, sums.cluster])
        matrix = csr_array((values, (rows, columns)), shape=(sums.n_clusters, n_rows * n_models))
        within = matrix[np.flatnonzero(lowest == highest)].tocsc()
        for r in range(n_rows):
            part = within[:, r * n_models : (r + 1) * n_models]
            if part.nnz:
                meat[r] += (part.T @ part).toarray()
        across = np.flatnonzero(lowest != highest)
        if len(across):
            spanning = matrix[across]
    return WaldNoise(table, row_of_task, bread, meat, spanning, residual)


def _laplacian(row: IntArray, low: IntArray, high: IntArray, weight: FloatArray, n_rows: int, n_models: int) -> FloatArray:
    """Weighted Laplacians (n_rows, n_models, n_models) of cells that occur once each."""
    out = np.zeros((n_rows, n_models, n_models))
    out[row, low, high] = out[row, high, low] = -weight
    index = np.arange(n_models)
    out[:, index, index] = -out.sum(axis=2)
    return out


def _pseudo_inverse(laplacian: FloatArray, component: IntArray) -> FloatArray:
    """Pseudo-inverse of Laplacians that fall into the given components (n_rows, n_models); 0 where unseen."""
    n_models = laplacian.shape[1]
    seen = component >= 0
    same = (component[:, :, None] == component[:, None, :]) & seen[:, :, None]
    size = np.maximum(same.sum(axis=2), 1)
    projector = same / size[:, :, None]
    trace = np.einsum("rmm->r", laplacian)
    scale = np.where(trace > 0.0, trace / np.maximum(seen.sum(axis=1), 1), 1.0)[:, None, None]
    filled = laplacian + scale * projector
    diagonal = np.arange(n_models)
    filled[:, diagonal, diagonal] += scale[:, :, 0] * ~seen
    inverse = np.linalg.inv(filled) - projector / scale
    inverse[:, diagonal, diagonal] -= ~seen / scale[:, :, 0]
    # Centred once more per component: the subtraction above leaves rounding in the constant direction.
    centred = inverse - projector @ inverse
    centred -= centred @ projector
    return centred
