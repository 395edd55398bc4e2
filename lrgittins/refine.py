"""Row-wise refinement: steps 4 to 8 of Algorithm 1."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ._kernels.newton import MAX_ITERATIONS, solve_factor_rows
from ._outcomes import Cells

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]


@dataclass(frozen=True, eq=False)
class Refinement:
    """Scores = task_factors model_factors', exactly centred and of rank at most r."""

    scores: FloatArray
    task_factors: FloatArray
    model_factors: FloatArray
    uncentred_models: FloatArray
    converged: bool
    n_iter: int


def constrain_rows(basis: FloatArray, limit: float, *, max_iter: int = 200) -> FloatArray:
    """Step 4: alternate row clipping at `limit` and the polar factor until rows of an orthonormal basis are at most `limit`."""
    current = basis
    for _ in range(max_iter):
        norms = np.linalg.norm(current, axis=1)
        if norms.max() <= limit * (1.0 + 1e-10):
            break
        clipped = current * np.minimum(1.0, limit / np.maximum(norms, 1e-300))[:, None]
        left, _, right = np.linalg.svd(clipped, full_matrices=False)
        current = left @ right
    return current


def refine_rows(
    model_cells: Cells,
    task_cells: Cells,
    basis: FloatArray,
    initial: FloatArray,
    *,
    ridge: float | tuple[float, float],
    tol: float,
    max_iter: int,
) -> Refinement:
    """Steps 5 to 8: model rows on `model_cells` (D2), centring, task rows on `task_cells` (D3).

    Parameters
    ----------
    basis : ndarray, shape (n_tasks, r)
        A, orthonormal columns.
    initial : ndarray, shape (n_tasks, n_models)
        The untruncated initializer Theta0; opponents' scores are read from it.
    ridge : float or (float, float)
        Of the row-wise solves; a pair gives model rows and task rows one each.
    """
    model_ridge, task_ridge = ridge if isinstance(ridge, tuple) else (ridge, ridge)
    rank = basis.shape[1]
    indptr, entry, flipped = _entries_by_model(model_cells)
    task = model_cells.task[entry]
    opponent = np.where(flipped, model_cells.low[entry], model_cells.high[entry])
    count = model_cells.count[entry]
    wins = np.where(flipped, count - model_cells.wins[entry], model_cells.wins[entry])
    models = np.zeros((model_cells.n_models, rank))
    model_status = np.empty(model_cells.n_models, dtype=np.int64)
    model_iterations = np.empty(model_cells.n_models, dtype=np.int64)
    solve_factor_rows(
        indptr,
        task,
        np.full(len(entry), -1, dtype=np.int64),
        np.ascontiguousarray(basis),
        np.ascontiguousarray(initial[task, opponent]),
        count,
        wins,
        model_ridge,
        tol,
        max_iter,
        models,
        model_status,
        model_iterations,
    )
    centred = models - models.mean(axis=0)

    tasks = np.zeros((task_cells.n_tasks, rank))
    task_status = np.empty(task_cells.n_tasks, dtype=np.int64)
    task_iterations = np.empty(task_cells.n_tasks, dtype=np.int64)
    solve_factor_rows(
        np.searchsorted(task_cells.task, np.arange(task_cells.n_tasks + 1)).astype(np.int64),
        task_cells.low,
        task_cells.high,
        np.ascontiguousarray(centred),
        np.zeros(len(task_cells.task)),
        task_cells.count,
        task_cells.wins,
        task_ridge,
        tol,
        max_iter,
        tasks,
        task_status,
        task_iterations,
    )
    failed = (model_status == MAX_ITERATIONS).any() or (task_status == MAX_ITERATIONS).any()
    n_iter = int(max(model_iterations.max(initial=0), task_iterations.max(initial=0)))
    return Refinement(tasks @ centred.T, tasks, centred, models, not bool(failed), n_iter)


def _entries_by_model(cells: Cells) -> tuple[IntArray, IntArray, NDArray[np.bool_]]:
    """Every cell twice, once for each of its models: row bounds, cell of each entry, and whether the row's model is `high`."""
    n_cells = len(cells.task)
    owner = np.concatenate([cells.low, cells.high])
    order = np.argsort(owner, kind="stable")
    indptr = np.searchsorted(owner[order], np.arange(cells.n_models + 1)).astype(np.int64)
    return indptr, np.ascontiguousarray(order % n_cells), order >= n_cells
