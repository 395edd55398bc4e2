"""An ensemble of rank-1 factorisations of a partly observed matrix, and the row means it imputes.

All members are fitted at once, by alternating least squares over the observed cells only. The member is the innermost
axis, so that every loop runs over contiguous memory; work is O(iterations x observed cells x members).
"""

from __future__ import annotations

import math

import numpy as np

from lrgittins._numba import kernel

from .cells import ABSENT, SEEN, UNSEEN, ByteArray, FloatArray, IntArray


@kernel
def fit_ensemble(
    row_start: IntArray,
    column_start: IntArray,
    lists: IntArray,
    values: FloatArray,
    keep: ByteArray,
    ridge: float,
    iterations: int,
    row_factor: FloatArray,
    column_factor: FloatArray,
) -> None:
    """Alternating least squares over the cells of `index_cells`, the column factor first.

    `keep` (n, M) says which cells each of the M members sees (1) or drops (0). `row_factor` (K, M) comes in as the start and
    is overwritten; `column_factor` (N, M) is filled. A row or column without a cell gets 0, by the ridge.
    """
    n_rows, n_members = row_factor.shape
    top, bottom = np.empty(n_members), np.empty(n_members)
    # The inner loops are written out twice: behind a call they do not vectorise (a factor of 2).
    for _ in range(iterations):
        for j in range(len(column_factor)):
            top[:] = 0.0
            bottom[:] = ridge
            for p in range(column_start[j], column_start[j + 1]):
                i, cell = lists[1, p], lists[2, p]
                y = values[cell]
                for m in range(n_members):
                    part = keep[cell, m] * row_factor[i, m]
                    bottom[m] += part * row_factor[i, m]
                    top[m] += part * y
            for m in range(n_members):
                column_factor[j, m] = top[m] / bottom[m]
        for i in range(n_rows):
            top[:] = 0.0
            bottom[:] = ridge
            for cell in range(row_start[i], row_start[i + 1]):
                j = lists[0, cell]
                y = values[cell]
                for m in range(n_members):
                    part = keep[cell, m] * column_factor[j, m]
                    bottom[m] += part * column_factor[j, m]
                    top[m] += part * y
            for m in range(n_members):
                row_factor[i, m] = top[m] / bottom[m]


@kernel
def impute_rows(
    rows: IntArray,
    kind: ByteArray,
    scores: FloatArray,
    row_factor: FloatArray,
    by_member: FloatArray,
    bonus: float,
    imputed: FloatArray,
    upper: FloatArray,
    std: FloatArray,
) -> None:
    """Row means of some rows: a seen cell counts as it is, any other as its mean over the members.

    `by_member` (M, N) is the transposed column factor. Fills ``imputed[rows]`` and ``upper[rows]``; the latter adds `bonus`
    standard deviations over the members (divisor M - 1) to every unseen cell, not to a pending one. `std` (N,) is left with
    the deviations of the last row. A row without any cell gets NaN.
    """
    n_members, n_columns = by_member.shape
    first, mean = np.empty(n_columns), np.empty(n_columns)
    for i in rows:
        # Both moments are taken about the first member: where all members agree the deviation is exactly 0.
        for j in range(n_columns):
            first[j] = row_factor[i, 0] * by_member[0, j]
            mean[j] = 0.0
            std[j] = 0.0
        for m in range(1, n_members):
            factor = row_factor[i, m]
            for j in range(n_columns):
                gap = factor * by_member[m, j] - first[j]
                mean[j] += gap
                std[j] += gap * gap
        for j in range(n_columns):
            about = mean[j] / n_members
            mean[j] = first[j] + about
            std[j] = math.sqrt(max(std[j] - n_members * about * about, 0.0) / (n_members - 1))
        total, extra, cells = 0.0, 0.0, 0
        for j in range(n_columns):
            if kind[i, j] == ABSENT:
                continue
            cells += 1
            if kind[i, j] == SEEN:
                total += scores[i, j]
            else:
                total += mean[j]
                if kind[i, j] == UNSEEN:
                    extra += std[j]
        imputed[i] = total / cells if cells else math.nan
        upper[i] = (total + bonus * extra) / cells if cells else math.nan
