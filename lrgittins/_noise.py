"""Sampling noise of estimated scores: covariances, joint draws and influence functions, by tangent coordinates or per task.

Both kinds of noise answer the same four questions (`ScoreNoise`); boards never ask which one they have.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from ._outcomes import FloatArray, IntArray, OutcomeTable
from ._roots import apply_root, semidefinite_root, symmetric_root
from .sandwich import ScoreSums, joint_covariance
from .tangent import ArrowheadFactor

CHUNK = 250  # draws made at once; fixed, so that results never depend on memory, and not a power of two (cache aliasing)


@dataclass(frozen=True, eq=False)
class FoldInfluence:
    """Influence of every (group) of one fold on q contrasts: `count` (n_rows,), `group` (n_rows,), `values` (n_rows, q)."""

    fold: int
    group: IntArray
    count: IntArray
    values: FloatArray
    split: int = 0


class ScoreNoise(Protocol):
    """The law of (estimated - true) scores, as far as gaps are concerned; all in units of the scores."""

    @property
    def task_covariance(self) -> FloatArray:
        """Covariance of the scores inside every task, shape (n_tasks, n_models, n_models)."""

    def joint_draws(self, rng: np.random.Generator, n_draws: int) -> Iterator[FloatArray]:
        """Noise of all entries at once, in chunks of shape (n_tasks, n_models, at most CHUNK)."""

    def contrast_covariance(self, task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Covariance (q, q) of the estimates of score[task, first] - score[task, second]."""

    def influence(self, task: IntArray, first: IntArray, second: IntArray) -> list[FoldInfluence]:
        """Influence functions phi, scaled so that the estimate's error is the mean of phi over all comparisons."""


# ---------------------------------------------------------------------------------------------------- low rank


@dataclass(frozen=True, eq=False)
class FoldNoise:
    """One fold's share of the noise.

    Attributes
    ----------
    left (n_tasks, r), right (n_models, r), right_perp (n_models, q) : ndarray of float64
        Tangent frame at this fold's fit; models without any data have rows of zeros.
    factor : ArrowheadFactor
        The fold's Fisher operator (per comparison), factored.
    sums : ScoreSums
        Second moments of the fold's score sums.
    total : float
        n, the comparisons of all folds.
    count : ndarray of int64, shape (n_groups,)
        The fold's comparisons.
    residual : ndarray of float64, shape (n_groups,)
        s of every group at this fold's fit; 0 where the training set does not determine its gap.
    """

    left: FloatArray
    right: FloatArray
    right_perp: FloatArray
    factor: ArrowheadFactor
    sums: ScoreSums
    total: float
    count: IntArray
    residual: FloatArray

    @cached_property
    def root(self) -> FloatArray:
        """Root of the covariance (p + 1, p + 1) of (A^{-1} sum xi s z, sum xi) / n, the augmented coordinates of section 4.

        Only draws and contrasts of several tasks together need it.
        """
        return semidefinite_root(joint_covariance(self.factor, self.sums)) / self.total

    def contrast_coords(self, task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """Coordinates of the contrasts, shape (p, q_contrasts)."""
        n_tasks, rank = self.left.shape
        n = len(task)
        tasks_part = np.zeros((n, n_tasks, rank))
        tasks_part[np.arange(n), task] = self.right[first] - self.right[second]
        models_part = self.left[task][:, :, None] * (self.right_perp[first] - self.right_perp[second])[:, None, :]
        return np.hstack([tasks_part.reshape(n, -1), models_part.reshape(n, -1)]).T


@dataclass(frozen=True, eq=False)
class LowRankNoise:
    """Noise of cross-fitted one-step scores: a sum of independent fold terms in tangent coordinates."""

    table: OutcomeTable
    folds: tuple[FoldNoise, ...]
    mean_influence: FloatArray  # (n_tasks, n_models): phibar of every entry
    task_covariance: FloatArray

    def joint_draws(self, rng: np.random.Generator, n_draws: int) -> Iterator[FloatArray]:
        n_tasks, n_models = self.mean_influence.shape
        right = np.hstack([fold.right for fold in self.folds])
        left = np.hstack([fold.left for fold in self.folds])
        width = sum(len(fold.root) for fold in self.folds)
        for start in range(0, n_draws, CHUNK):
            size = min(CHUNK, n_draws - start)
            normals = rng.standard_normal((size, width))
            offset = 0
            tasks_parts, models_parts = [], []
            shift = np.zeros(size)
            for fold in self.folds:
                rank, q = fold.left.shape[1], fold.right_perp.shape[1]
                coords = apply_root(fold.root, normals[:, offset : offset + len(fold.root)])
                offset += len(fold.root)
                cut = n_tasks * rank
                tasks_parts.append(coords[:cut].reshape(n_tasks, rank, size))
                models_parts.append(fold.right_perp @ coords[cut:-1].reshape(rank, q, size))
                shift += coords[-1]
            noise = right @ np.concatenate(tasks_parts, axis=1)
            noise += (left @ np.concatenate(models_parts).reshape(left.shape[1], -1)).reshape(noise.shape)
            noise -= self.mean_influence[:, :, None] * shift
            yield noise

    def contrast_covariance(self, task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        out = np.zeros((len(task), len(task)))
        mean = self.mean_influence[task, first] - self.mean_influence[task, second]
        for fold in self.folds:
            augmented = np.vstack([fold.contrast_coords(task, first, second), -mean])
            whitened = fold.root.T @ augmented
            out += whitened.T @ whitened
        return out

    def influence(self, task: IntArray, first: IntArray, second: IntArray) -> list[FoldInfluence]:
        table, out = self.table, []
        for index, fold in enumerate(self.folds):
            group = np.flatnonzero(fold.count)
            values = np.empty((len(group), len(task)))
            for column, (t, a, b) in enumerate(zip(task, first, second, strict=True)):
                coords = fold.factor.solve(fold.contrast_coords(np.array([t]), np.array([a]), np.array([b]))[:, 0])
                cut = fold.left.size
                entries = coords[:cut].reshape(fold.left.shape) @ fold.right.T
                entries += fold.left @ (coords[cut:].reshape(fold.left.shape[1], -1) @ fold.right_perp.T)
                rows = table.task[group]
                values[:, column] = fold.residual[group] * (entries[rows, table.low[group]] - entries[rows, table.high[group]])
            out.append(FoldInfluence(index, group.astype(np.int64), fold.count[group], values))
        return out


# ------------------------------------------------------------------------------------------------------- Wald


@dataclass(frozen=True, eq=False)
class WaldNoise:
    """Noise of maximum-likelihood scores, all data in one estimate per row (a task, or all tasks pooled).

    Attributes
    ----------
    row_of_task : ndarray of int64, shape (n_tasks,)
        Which estimated row a task shows.
    bread : ndarray of float64, shape (n_rows, n_models, n_models)
        Pseudo-inverse of every row's information, strong component by strong component.
    local_meat : ndarray of float64, shape (n_rows, n_models, n_models)
        Sums of outer products of scores that stay within one row.
    spanning : sparse array, shape (n_clusters, n_rows * n_models), or None
        Score sums of the clusters with votes in several rows, which make rows dependent.
    """

    table: OutcomeTable
    row_of_task: IntArray
    bread: FloatArray
    local_meat: FloatArray
    spanning: Any
    residual: FloatArray

    @cached_property
    def _row_covariance(self) -> FloatArray:
        meat = self.local_meat
        if self.spanning is not None:
            n_models = meat.shape[1]
            by_column = self.spanning.tocsc()
            extra = np.empty_like(meat)
            for row in range(len(meat)):
                part = by_column[:, row * n_models : (row + 1) * n_models]
                extra[row] = (part.T @ part).toarray()
            meat = meat + extra
        return _sandwich(self.bread, meat)

    @cached_property
    def task_covariance(self) -> FloatArray:
        return self._row_covariance[self.row_of_task]

    @cached_property
    def _local_root(self) -> FloatArray:
        return symmetric_root(_sandwich(self.bread, self.local_meat))

    def joint_draws(self, rng: np.random.Generator, n_draws: int) -> Iterator[FloatArray]:
        n_rows, n_models, _ = self.bread.shape
        n_clusters = 0 if self.spanning is None else self.spanning.shape[0]
        for start in range(0, n_draws, CHUNK):
            size = min(CHUNK, n_draws - start)
            normals = rng.standard_normal((size, n_rows * n_models + n_clusters)).T
            noise = self._local_root @ normals[: n_rows * n_models].reshape(n_rows, n_models, size)
            if n_clusters:
                scores = self.spanning.T @ normals[n_rows * n_models :]
                noise += self.bread @ scores.reshape(n_rows, n_models, size)
            yield np.ascontiguousarray(noise[self.row_of_task])

    def _weights(self, task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        """B c of every contrast within its row, shape (q, n_models)."""
        row = self.row_of_task[task]
        return self.bread[row, first] - self.bread[row, second]

    def contrast_covariance(self, task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
        n_rows, n_models, _ = self.bread.shape
        row, weights = self.row_of_task[task], self._weights(task, first, second)
        out = np.zeros((len(task), len(task)))
        for r in np.unique(row):
            chosen = np.flatnonzero(row == r)
            out[np.ix_(chosen, chosen)] = weights[chosen] @ self.local_meat[r] @ weights[chosen].T
        if self.spanning is not None:
            from scipy.sparse import csr_array

            columns = (row[:, None] * n_models + np.arange(n_models)).ravel()
            pattern = (weights.ravel(), columns, np.arange(len(task) + 1) * n_models)
            spread = csr_array(pattern, shape=(len(task), n_rows * n_models))
            product = self.spanning @ spread.T
            out += (product.T @ product).toarray()
        return out

    def influence(self, task: IntArray, first: IntArray, second: IntArray) -> list[FoldInfluence]:
        table = self.table
        total = float(table.count.sum())
        rows = self.row_of_task[table.task]
        weights = self._weights(task, first, second)
        values = total * self.residual[:, None] * (weights[:, table.low] - weights[:, table.high]).T
        values *= rows[:, None] == self.row_of_task[task][None, :]
        return [FoldInfluence(0, np.arange(table.n_groups, dtype=np.int64), table.count, values)]


def _sandwich(bread: FloatArray, meat: FloatArray) -> FloatArray:
    product = bread @ meat @ bread
    return 0.5 * (product + product.transpose(0, 2, 1))


def gap_variance(covariance: NDArray[np.float64], task: IntArray, first: IntArray, second: IntArray) -> FloatArray:
    """Variance of gaps from per-task covariances; what cancels to rounding error is 0."""
    own = covariance[task, first, first] + covariance[task, second, second]
    variance = own - 2.0 * covariance[task, first, second]
    return np.where(variance > 1e-13 * own, variance, 0.0)
