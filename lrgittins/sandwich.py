"""Covariances A^{-1} M A^{-1} of tangent coordinates, in the blocks that single tasks need, or whole.

A and M are arrowheads: tasks meet only through the models' part. Blockwise elimination then costs a few products of the
size of that part, where a dense root of M, p solves and a product of the result with itself cost p^3 each.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import scipy.linalg

from ._outcomes import FloatArray
from ._roots import semidefinite_root
from .tangent import Arrowhead, ArrowheadFactor, couple

_ENTRIES_AT_ONCE = 1 << 19  # of task covariances (4 MB); fixed, so that sums never depend on the machine


@dataclass(frozen=True, eq=False)
class ScoreSums:
    """Second moments of a fold's (sum xi s z, sum xi).

    Attributes
    ----------
    squares : Arrowhead or ndarray of float64, shape (p, p)
        Of the first part; dense where votes come in clusters, which tie tasks together, or where A is nearly singular: blockwise
        differences would lose a null direction's huge variance to rounding, a product of a root with itself does not.
    cross : ndarray of float64, shape (p,)
        Between the two.
    size : float
        Of the second.
    """

    squares: Arrowhead | FloatArray
    cross: FloatArray
    size: float


@dataclass(frozen=True, eq=False)
class CoordinateBlocks:
    """The blocks of a (p, p) covariance of tangent coordinates that no two tasks share.

    Attributes
    ----------
    own : ndarray of float64, shape (n_tasks, r, r)
        Of every D_t.
    coupling : ndarray of float64, shape (n_tasks, r, r q)
        Of every D_t with X.
    models : ndarray of float64, shape (r q, r q)
        Of X.
    """

    own: FloatArray
    coupling: FloatArray
    models: FloatArray

    @classmethod
    def from_dense(cls, matrix: FloatArray, n_tasks: int, rank: int) -> CoordinateBlocks:
        """The blocks of `matrix` (p, p)."""
        cut, index = n_tasks * rank, np.arange(n_tasks)
        own = matrix[:cut, :cut].reshape(n_tasks, rank, n_tasks, rank)[index, :, index, :]
        return cls(own, matrix[:cut, cut:].reshape(n_tasks, rank, -1), matrix[cut:, cut:])

    def task_covariances(self, left: FloatArray, right: FloatArray, right_perp: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Covariance of the scores inside tasks, (n_models, n_models) each, some tasks at a time; the frame as in `TangentSpace`.

        A task's scores are right D_t + right_perp X' u_t. The part of X costs most: it is made once per pair of factor columns, and
        a task then takes a weighted sum, instead of a product with n_models^3 operations each.
        """
        n_tasks, rank = left.shape
        n_models, q = right_perp.shape
        crossed = (left[:, None, None, :] @ self.coupling.reshape(n_tasks, rank, rank, q))[:, :, 0, :]
        half = 0.5 * self.own @ right.T + crossed @ right_perp.T  # right half + its transpose is all that involves D_t
        rows, columns = np.tril_indices(rank)
        models = self.models.reshape(rank, q, rank, q)
        pairs = np.empty((len(rows), n_models, n_models))
        for place, (a, b) in enumerate(zip(rows, columns, strict=True)):
            block = right_perp @ models[a, :, b, :] @ right_perp.T
            pairs[place] = 0.5 * (block + block.T) if a == b else block + block.T
        weights = left[:, rows] * left[:, columns]
        flat = pairs.reshape(len(rows), n_models * n_models)
        step = max(1, _ENTRIES_AT_ONCE // (n_models * n_models))
        for start in range(0, n_tasks, step):
            some = slice(start, min(start + step, n_tasks))
            blocks = (weights[some] @ flat).reshape(-1, n_models, n_models)
            along = right @ half[some]
            blocks += along
            blocks += along.transpose(0, 2, 1)
            yield some, 0.5 * (blocks + blocks.transpose(0, 2, 1))


def inverse_blocks(factor: ArrowheadFactor) -> CoordinateBlocks:
    """The blocks of A^{-1}."""
    n_tasks, rank = factor.inverse_roots.shape[:2]
    roots = factor.inverse_roots
    whitened = factor.coupling.reshape(n_tasks, rank, -1)
    carried = (factor.coupling @ factor.schur_inverse).reshape(whitened.shape)
    inner = np.eye(rank) + carried @ whitened.transpose(0, 2, 1)
    transposed = roots.transpose(0, 2, 1)
    return CoordinateBlocks(transposed @ inner @ roots, -transposed @ carried, factor.schur_inverse)


def sandwich_blocks(factor: ArrowheadFactor, sums: ScoreSums) -> CoordinateBlocks:
    """The blocks of A^{-1} M A^{-1}, M = `sums.squares`."""
    squares = sums.squares
    if isinstance(squares, np.ndarray):
        return CoordinateBlocks.from_dense(_gram(_solved_root(factor, squares, sums)[:-1]), *factor.inverse_roots.shape[:2])
    roots = factor.inverse_roots
    own, carried, coupling, models = _eliminate(factor, squares)
    n_tasks, rank = roots.shape[:2]
    whitened = factor.coupling.reshape(n_tasks, rank, -1)
    mixed = carried.reshape(whitened.shape) @ whitened.transpose(0, 2, 1)
    inner = own - mixed - mixed.transpose(0, 2, 1)
    transposed = roots.transpose(0, 2, 1)
    return CoordinateBlocks(transposed @ inner @ roots, transposed @ coupling.reshape(whitened.shape), models)


def joint_covariance(factor: ArrowheadFactor, sums: ScoreSums) -> FloatArray:
    """Covariance of (A^{-1} sum xi s z, sum xi), shape (p + 1, p + 1)."""
    squares = sums.squares
    if isinstance(squares, np.ndarray):
        return _gram(_solved_root(factor, squares, sums))
    p = len(sums.cross)
    joint = np.empty((p + 1, p + 1))
    joint[:p, p] = joint[p, :p] = factor.solve(sums.cross)
    joint[p, p] = sums.size
    roots = factor.inverse_roots
    n_tasks, rank = roots.shape[:2]
    cut = n_tasks * rank
    own, carried, coupling, models = _eliminate(factor, squares)
    inner = -carried @ factor.coupling.T
    inner += inner.T.copy()
    index = np.arange(n_tasks)
    inner.reshape(n_tasks, rank, n_tasks, rank)[index, :, index, :] += own
    transposed = roots.transpose(0, 2, 1)
    half = (transposed @ inner.reshape(n_tasks, rank, cut)).reshape(cut, n_tasks, rank)
    joint[:cut, :cut] = (transposed @ half.transpose(1, 2, 0)).reshape(cut, cut)
    outer = (transposed @ coupling.reshape(n_tasks, rank, -1)).reshape(cut, -1)
    joint[:cut, cut:p] = outer
    joint[cut:p, :cut] = outer.T
    joint[cut:p, cut:p] = models
    return joint


def _eliminate(factor: ArrowheadFactor, squares: Arrowhead) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """What blocks and whole share, in tasks' coordinates whitened by their blocks' Cholesky roots.

    In order: M_tt; Q, with Q C' + C Q' to be taken from it (C the factor's coupling); the coupling with X; the models' block.
    """
    roots, coupling, inverse = factor.inverse_roots, factor.coupling, factor.schur_inverse
    n_tasks, rank = roots.shape[:2]
    own = roots @ squares.blocks @ roots.transpose(0, 2, 1)
    half = 0.5 * (own @ coupling.reshape(n_tasks, rank, -1)).reshape(coupling.shape)
    rest = couple(squares.space.left, roots @ squares.cross) - half
    crossed = coupling.T @ rest
    models = inverse @ (squares.models_block - crossed - crossed.T) @ inverse
    models = 0.5 * (models + models.T)
    rest -= half
    reached, carried = rest @ inverse, coupling @ models
    return own, reached - 0.5 * carried, reached - carried, models


def _solved_root(factor: ArrowheadFactor, squares: FloatArray, sums: ScoreSums) -> FloatArray:
    """A root, (p + 1, p + 1), of the covariance of (A^{-1} sum xi s z, sum xi), from one of its middle."""
    p = len(sums.cross)
    middle = np.empty((p + 1, p + 1))
    middle[:p, :p] = squares
    middle[:p, p] = middle[p, :p] = sums.cross
    middle[p, p] = sums.size
    root = semidefinite_root(middle)
    root[:p] = factor.solve(root[:p])
    return root


def _gram(root: FloatArray) -> FloatArray:
    """root root'."""
    half = scipy.linalg.blas.dsyrk(1.0, root, lower=1)
    return half + np.tril(half, -1).T
