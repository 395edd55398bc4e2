"""Sums of scores within clusters, split into those that stay inside one (task, pair) cell and those that do not."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ._outcomes import FloatArray, IntArray


@dataclass(frozen=True, eq=False)
class ClusterSums:
    """Squares of score sums per cell, and what is left for clusters that touch several cells.

    Attributes
    ----------
    squares : ndarray of float64, shape (n_cells,)
        Over comparisons that are independent, or over clusters inside the cell: sum of (sum of s)^2.
    cluster, cell : ndarray of int64, shape (n_entries,)
        The distinct (cluster, cell) of clusters with several cells, clusters numbered from 0.
    total : ndarray of float64, shape (n_entries,)
        Their sums of s.
    n_clusters : int
        Number of clusters with several cells.
    """

    squares: FloatArray
    cluster: IntArray
    cell: IntArray
    total: FloatArray
    n_clusters: int


def sum_clusters(cluster: IntArray | None, cell: IntArray, n_cells: int, count: FloatArray, residual: FloatArray) -> ClusterSums:
    """Group the scores count * residual by cluster; without clusters every comparison stands alone."""
    nothing = np.zeros(0, dtype=np.int64)
    if cluster is None:
        return ClusterSums(np.bincount(cell, count * residual**2, n_cells).astype(np.float64, copy=False), nothing, nothing, np.zeros(0), 0)
    used = np.flatnonzero(count > 0)
    key, member = np.unique(cluster[used] * n_cells + cell[used], return_inverse=True)
    total = np.bincount(member, (count * residual)[used], len(key))
    label, cell_of_key = np.divmod(key, n_cells)
    _, compact, n_keys = np.unique(label, return_inverse=True, return_counts=True)
    alone = n_keys[compact] == 1
    squares = np.bincount(cell_of_key[alone], total[alone] ** 2, n_cells).astype(np.float64, copy=False)
    names, number = np.unique(compact[~alone], return_inverse=True)
    return ClusterSums(squares, number.astype(np.int64), cell_of_key[~alone].astype(np.int64), total[~alone], len(names))
