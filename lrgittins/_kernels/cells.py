"""A partly observed matrix as the kernels see it: what each cell is, and the seen cells by row and by column."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from lrgittins._numba import kernel

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]
ByteArray = NDArray[np.uint8]

UNSEEN, PENDING, SEEN, ABSENT = 0, 1, 2, 3


@kernel
def index_cells(
    kind: ByteArray, scores: FloatArray, row_start: IntArray, column_start: IntArray, lists: IntArray, values: FloatArray
) -> None:
    """List the seen cells by row and by column.

    Cells are numbered row by row. Fills `row_start` (K + 1,), `column_start` (N + 1,), `values` (n,) and `lists` (3, n): the
    column of each cell; and, column by column, the row and the number of each cell.
    """
    n_rows, n_columns = kind.shape
    column_start[:] = 0
    cell = 0
    for i in range(n_rows):
        row_start[i] = cell
        for j in range(n_columns):
            if kind[i, j] == SEEN:
                lists[0, cell] = j
                values[cell] = scores[i, j]
                column_start[j + 1] += 1
                cell += 1
    row_start[n_rows] = cell
    for j in range(n_columns):
        column_start[j + 1] += column_start[j]
    place = column_start[:-1].copy()
    for i in range(n_rows):
        for cell in range(row_start[i], row_start[i + 1]):
            j = lists[0, cell]
            lists[1, place[j]] = i
            lists[2, place[j]] = cell
            place[j] += 1


@kernel
def draw_even_cells(kind: ByteArray, active: ByteArray, draws: FloatArray, out: IntArray) -> int:
    """Draw cells one by one: a random active row with the fewest cells, then a random one of its unseen columns seen least.

    Rows that have no unseen cell left are passed over. ``draws[t] = (u, v)`` in [0, 1) settles the t-th cell: of n candidates
    in ascending order the ``floor(u n)``-th is taken. A drawn cell counts as seen from then on. Fills ``out[t] = (row,
    column)`` and returns the number of cells, less than ``len(draws)`` when the active rows run out of cells.
    """
    n_rows, n_columns = kind.shape
    taken = kind.copy()
    by_row, free, by_column = np.zeros(n_rows, np.int64), np.zeros(n_rows, np.int64), np.zeros(n_columns, np.int64)
    for i in range(n_rows):
        for j in range(n_columns):
            if kind[i, j] == SEEN:
                by_row[i] += 1
                by_column[j] += 1
            elif kind[i, j] == UNSEEN and active[i]:
                free[i] += 1
    for t in range(len(draws)):
        fewest, ties = -1, 0
        for i in range(n_rows):
            if free[i] and (ties == 0 or by_row[i] < fewest):
                fewest, ties = by_row[i], 1
            elif free[i] and by_row[i] == fewest:
                ties += 1
        if ties == 0:
            return t
        wanted = int(draws[t, 0] * ties)
        row = -1
        while wanted >= 0:
            row += 1
            if free[row] and by_row[row] == fewest:
                wanted -= 1
        least, ties = -1, 0
        for j in range(n_columns):
            if taken[row, j] == UNSEEN and (ties == 0 or by_column[j] < least):
                least, ties = by_column[j], 1
            elif taken[row, j] == UNSEEN and by_column[j] == least:
                ties += 1
        wanted = int(draws[t, 1] * ties)
        column = -1
        while wanted >= 0:
            column += 1
            if taken[row, column] == UNSEEN and by_column[column] == least:
                wanted -= 1
        taken[row, column] = SEEN
        by_row[row] += 1
        by_column[column] += 1
        free[row] -= 1
        out[t, 0], out[t, 1] = row, column
    return len(draws)
