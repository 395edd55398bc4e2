"""Tangent space of the centred rank-r matrices, and the Fisher operator restricted to it (an arrowhead)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import scipy.linalg
from numpy.typing import NDArray

from ._kernels.factors import accumulate_weights

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

_WEIGHT_ENTRIES = 4_000_000  # of dense weight matrices held at once (32 MB); fixed, so that sums never depend on the machine
_DEFICIENT = 1e-9  # a task block whose smallest eigenvalue is below this share of its largest leaves directions undetermined


@dataclass(frozen=True, eq=False)
class TangentSpace:
    """Tangent space at U S V' of the rank-r matrices with rows that sum to 0.

    Every tangent matrix is D V' + U X Vp' with D (n_tasks, r) and X (r, q): orthonormal coordinates
    of length p = r (n_tasks + n_models - 1 - r), D row by row, then X row by row.

    Parameters
    ----------
    left : ndarray of float64, shape (n_tasks, r)
        Orthonormal task factors U.
    right : ndarray of float64, shape (n_models, r)
        Orthonormal model factors V; every column sums to 0.
    """

    left: FloatArray
    right: FloatArray

    @property
    def n_tasks(self) -> int:
        return self.left.shape[0]

    @property
    def n_models(self) -> int:
        return self.right.shape[0]

    @property
    def rank(self) -> int:
        return self.left.shape[1]

    @property
    def dimension(self) -> int:
        return self.rank * (self.n_tasks + self.n_models - 1 - self.rank)

    @cached_property
    def right_perp(self) -> FloatArray:
        """Orthonormal complement of [1, V], shape (n_models, q)."""
        ones = np.full((self.n_models, 1), self.n_models**-0.5)
        basis, _ = np.linalg.qr(np.hstack([ones, self.right]), mode="complete")
        return np.ascontiguousarray(basis[:, self.rank + 1 :])

    def coords(self, matrix: FloatArray) -> FloatArray:
        """Coordinates of the projection of `matrix` (..., n_tasks, n_models), shape (..., p)."""
        batch = matrix.shape[:-2]
        tasks_part = matrix @ self.right
        models_part = (self.left.T @ matrix) @ self.right_perp
        return np.concatenate([tasks_part.reshape(*batch, -1), models_part.reshape(*batch, -1)], axis=-1)

    def split(self, coords: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The parts D (..., n_tasks, r) and X (..., r, q) of `coords` (..., p)."""
        batch = coords.shape[:-1]
        cut = self.n_tasks * self.rank
        return coords[..., :cut].reshape(*batch, self.n_tasks, self.rank), coords[..., cut:].reshape(*batch, self.rank, -1)

    def matrix(self, coords: FloatArray) -> FloatArray:
        """The tangent matrix D V' + U X Vp' of `coords` (..., p), shape (..., n_tasks, n_models)."""
        tasks_part, models_part = self.split(coords)
        return tasks_part @ self.right.T + self.left @ (models_part @ self.right_perp.T)


@dataclass(frozen=True, eq=False)
class Arrowhead:
    """Sum over cells of weight * z z', z the coordinates of e_task (e_low - e_high)'.

    Attributes
    ----------
    blocks : ndarray, shape (n_tasks, r, r)
        A_tt = V' L_t V.
    cross : ndarray, shape (n_tasks, r, q)
        B_t = V' L_t Vp; the coupling of D_t[c] with X[a, b] is ``left[t, a] * cross[t, c, b]``.
    models_block : ndarray, shape (r q, r q)
        A_XX = sum_t (u_t u_t') kron (Vp' L_t Vp).
    """

    space: TangentSpace
    blocks: FloatArray
    cross: FloatArray
    models_block: FloatArray

    @classmethod
    def from_cells(cls, space: TangentSpace, task: IntArray, low: IntArray, high: IntArray, weight: FloatArray) -> Arrowhead:
        """Build from cells sorted by task, in O(cells r + n_tasks n_models^2 r^2 + r^2 n_models^3) time."""
        n_tasks, n_models, rank = space.n_tasks, space.n_models, space.rank
        rows, columns = np.tril_indices(rank)
        products = np.ascontiguousarray((space.left[:, rows] * space.left[:, columns]).T)  # (r(r+1)/2, n_tasks)
        combined = np.zeros((len(rows), n_models * n_models))
        along = np.zeros((n_tasks, n_models, rank))  # L_t V
        degree = np.zeros((n_tasks, n_models))
        step = max(1, min(n_tasks, _WEIGHT_ENTRIES // (n_models * n_models)))
        weights = np.empty((step, n_models, n_models))
        right = np.ascontiguousarray(space.right)
        for first in range(0, n_tasks, step):
            last = min(first + step, n_tasks)
            start, stop = np.searchsorted(task, [first, last])
            if start == stop:
                continue
            here = slice(int(task[start]), int(task[stop - 1]) + 1)  # tasks without cells at either end are left out
            weights[:] = 0.0
            accumulate_weights(task, low, high, weight, int(start), int(stop), right, weights, degree, along)
            combined += products[:, here] @ weights[: here.stop - here.start].reshape(here.stop - here.start, -1)
        upper = combined.reshape(-1, n_models, n_models)
        laplacians = -(upper + upper.transpose(0, 2, 1))
        diagonal = np.arange(n_models)
        laplacians[:, diagonal, diagonal] += products @ degree
        perp = space.right_perp
        blocks = space.right.T @ along
        blocks = 0.5 * (blocks + blocks.transpose(0, 2, 1))
        cross = along.transpose(0, 2, 1) @ perp
        inner = perp.T @ (laplacians @ perp)
        q = perp.shape[1]
        models_block = np.empty((rank, q, rank, q))
        for index, (a, b) in enumerate(zip(rows, columns, strict=True)):
            models_block[a, :, b, :] = inner[index]
            models_block[b, :, a, :] = inner[index]
        return cls(space, blocks, cross, models_block.reshape(rank * q, rank * q))

    @cached_property
    def _coupling(self) -> FloatArray:
        """Rows (t, c), columns (a, b): left[t, a] * cross[t, c, b]; shape (n_tasks r, r q)."""
        return couple(self.space.left, self.cross)

    def dense(self) -> FloatArray:
        """The whole operator, shape (p, p)."""
        cut = self.space.n_tasks * self.space.rank
        out = np.zeros((self.space.dimension, self.space.dimension))
        rank = self.space.rank
        for t in range(self.space.n_tasks):
            out[t * rank : (t + 1) * rank, t * rank : (t + 1) * rank] = self.blocks[t]
        out[:cut, cut:] = self._coupling
        out[cut:, :cut] = self._coupling.T
        out[cut:, cut:] = self.models_block
        return out

    def matvec(self, coords: FloatArray) -> FloatArray:
        """The operator applied to one vector (p,)."""
        tasks_part, models_part = self.space.split(coords)
        flat = models_part.reshape(-1)
        top = np.einsum("tab,tb->ta", self.blocks, tasks_part).reshape(-1) + self._coupling @ flat
        return np.concatenate([top, self._coupling.T @ tasks_part.reshape(-1) + self.models_block @ flat])

    @cached_property
    def empty_tasks(self) -> IntArray:
        """Tasks without any weight."""
        return np.flatnonzero(np.einsum("taa->t", self.blocks) <= 0.0).astype(np.int64)

    @cached_property
    def deficient_tasks(self) -> IntArray:
        """Tasks whose cells do not determine their r coordinates (tasks without weight among them)."""
        eigenvalues = np.linalg.eigvalsh(self.blocks)
        return np.flatnonzero(eigenvalues[:, 0] <= _DEFICIENT * np.maximum(eigenvalues[:, -1], 0.0)).astype(np.int64)

    def factor(self, ridge: float | FloatArray = 0.0, *, bend: FloatArray | None = None) -> ArrowheadFactor:
        """Factor A + ridge by the Schur complement on X.

        Parameters
        ----------
        ridge : float or ndarray, shape (r,)
            Added to the diagonal of D_t[c] and of X[c, :], one value per factor column c.
        bend : ndarray, shape (n_tasks, r, q), optional
            Added to the coupling of D_t[c] with X[c, :] (the manifold's own curvature). Then a sum that is not positive
            definite raises LinAlgError.

        Notes
        -----
        The blocks of `deficient_tasks` get their own scale added, so that the rest of the solve is untouched by them.
        Without `bend`, a Schur complement that is not positive definite is ridged in growing steps, said in `.ridge`.
        """
        rank = self.space.rank
        ridges = np.broadcast_to(np.asarray(ridge, dtype=np.float64), (rank,))
        blocks = self.blocks + np.diag(ridges)
        if len(self.deficient_tasks):
            largest = np.linalg.eigvalsh(self.blocks)[:, -1]
            typical = float(largest[largest > 0.0].mean()) if (largest > 0.0).any() else 1.0
            for t in self.deficient_tasks:
                blocks[t] += max(float(largest[t]), typical * 1e-3) * np.eye(rank)
        # Inverses of the small roots: products with them cost a fifth of as many small solves.
        inverse_roots: FloatArray = np.linalg.inv(np.linalg.cholesky(blocks)).astype(np.float64, copy=False)
        reduced = inverse_roots @ self.cross
        coupling = couple(self.space.left, reduced)  # C_t, with C_t' C_t = B_t' A_tt^{-1} B_t
        if bend is not None:
            coupling = coupling + (inverse_roots[:, :, :, None] * bend[:, None, :, :]).reshape(coupling.shape)
        schur = self.models_block - coupling.T @ coupling
        size = schur.shape[0]
        diagonal = np.einsum("ii->i", schur)
        diagonal += np.repeat(ridges, size // rank)
        scale = float(np.mean(np.einsum("ii->i", self.models_block))) if size else 1.0
        added = 0.0
        while True:
            try:
                root = scipy.linalg.cholesky(schur, lower=True, check_finite=False) if size else schur
                if not size or np.min(np.einsum("ii->i", root)) ** 2 > 1e-13 * scale:
                    break
            except np.linalg.LinAlgError:
                pass
            if bend is not None:
                raise np.linalg.LinAlgError("the curved operator is not positive definite")
            step = max(1e-10 * scale, 99.0 * added, 1e-300)
            diagonal += step
            added += step
        return ArrowheadFactor(self, inverse_roots, coupling, root, added)


@dataclass(frozen=True, eq=False)
class ArrowheadFactor:
    """A factored `Arrowhead`; `ridge` is what had to be added to the Schur complement (0 where it was positive definite)."""

    operator: Arrowhead
    inverse_roots: FloatArray  # of the Cholesky roots of the blocks, (n_tasks, r, r)
    coupling: FloatArray
    schur_root: FloatArray
    ridge: float

    def solve(self, rhs: FloatArray) -> FloatArray:
        """A^{-1} rhs for `rhs` of shape (p,) or (p, k)."""
        space = self.operator.space
        n_tasks, rank = space.n_tasks, space.rank
        cut = n_tasks * rank
        columns = rhs.reshape(space.dimension, -1)
        k = columns.shape[1]
        whitened = self.inverse_roots @ columns[:cut].reshape(n_tasks, rank, k)
        models_part = columns[cut:] - self.coupling.T @ whitened.reshape(cut, k)
        if len(models_part):
            models_part = scipy.linalg.cho_solve((self.schur_root, True), models_part, check_finite=False)
        remainder = whitened - (self.coupling @ models_part).reshape(n_tasks, rank, k)
        tasks_part = self.inverse_roots.transpose(0, 2, 1) @ remainder
        return np.concatenate([tasks_part.reshape(cut, k), models_part]).reshape(rhs.shape)

    @cached_property
    def schur_inverse(self) -> FloatArray:
        """The models' block of A^{-1}, shape (r q, r q)."""
        if not len(self.schur_root):
            return self.schur_root
        inverse, _ = scipy.linalg.lapack.dpotri(self.schur_root, lower=1)
        lower = np.tril(inverse, -1)
        return lower + lower.T + np.diag(np.diag(inverse))

    @cached_property
    def condition(self) -> float:
        """Largest over smallest eigenvalue of the operator, tasks without data left out (inf where it is singular)."""
        operator = self.operator
        if len(operator.deficient_tasks) == operator.space.n_tasks:
            return float("inf")
        if operator.space.dimension <= 1500:
            dense = operator.dense()
            keep = np.ones(operator.space.dimension, dtype=bool)
            rank = operator.space.rank
            for t in operator.empty_tasks:
                keep[t * rank : (t + 1) * rank] = False
            eigenvalues = np.linalg.eigvalsh(dense[np.ix_(keep, keep)])
            smallest, largest = float(eigenvalues[0]), float(eigenvalues[-1])
        else:
            largest = _dominant(operator.matvec, operator.space.dimension)
            smallest = 1.0 / _dominant(self.solve, operator.space.dimension)
        return largest / smallest if smallest > 1e-15 * largest else float("inf")


def _dominant(apply: Callable[[FloatArray], FloatArray], dimension: int) -> float:
    """Largest eigenvalue of a positive operator by Lanczos from a fixed start (repeatable)."""
    from scipy.sparse.linalg import LinearOperator, eigsh

    operator = LinearOperator((dimension, dimension), matvec=apply, dtype=np.float64)
    start = np.random.default_rng(0).standard_normal(dimension)
    return float(eigsh(operator, k=1, which="LA", v0=start, tol=1e-4, return_eigenvectors=False)[0])


def couple(left: FloatArray, cross: FloatArray) -> FloatArray:
    """Rows (t, c), columns (a, b): left[t, a] * cross[t, c, b]."""
    n_tasks, rank = left.shape
    return (left[:, None, :, None] * cross[:, :, None, :]).reshape(n_tasks * rank, -1)
