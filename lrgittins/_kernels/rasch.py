"""Pieces of a Newton step for ridge-penalised logistic regression on a row effect plus a column effect."""

from __future__ import annotations

import math

from lrgittins._numba import kernel

from .cells import FloatArray, IntArray


@kernel
def evaluate_rasch(
    row_start: IntArray,
    columns: IntArray,
    outcomes: FloatArray,
    penalty: float,
    anchor: int,
    row_effect: FloatArray,
    column_effect: FloatArray,
    row_gradient: FloatArray,
    column_gradient: FloatArray,
    row_curvature: FloatArray,
    column_curvature: FloatArray,
    cross: FloatArray,
) -> float:
    """The objective ``(|rows|^2 + |columns|^2) / 2 + penalty x (log loss)``; fills both gradients and the Hessian.

    The Hessian is diagonal within rows and within columns; `cross` (n,) holds its entry between the row and the column of
    every cell. The effect of column `anchor` is fixed: its gradient and `cross` are 0 and its curvature is 1.
    """
    value = 0.0
    for i in range(len(row_effect)):
        value += 0.5 * row_effect[i] * row_effect[i]
        row_gradient[i] = row_effect[i]
        row_curvature[i] = 1.0
    for j in range(len(column_effect)):
        value += 0.5 * column_effect[j] * column_effect[j]
        column_gradient[j] = column_effect[j]
        column_curvature[j] = 1.0
    for i in range(len(row_effect)):
        for cell in range(row_start[i], row_start[i + 1]):
            j = columns[cell]
            eta = row_effect[i] + column_effect[j]
            small = math.exp(-abs(eta))
            share = 1.0 / (1.0 + small)
            probability = share if eta >= 0.0 else small * share
            value += penalty * (max(eta, 0.0) + math.log1p(small) - outcomes[cell] * eta)
            slope = penalty * (probability - outcomes[cell])
            bend = penalty * small * share * share
            row_gradient[i] += slope
            row_curvature[i] += bend
            cross[cell] = 0.0
            if j != anchor:
                column_gradient[j] += slope
                column_curvature[j] += bend
                cross[cell] = bend
    return value


@kernel
def eliminate_side(
    start: IntArray,
    partner: IntArray,
    cells: IntArray,
    cross: FloatArray,
    gradient: FloatArray,
    curvature: FloatArray,
    kept: FloatArray,
    target: FloatArray,
) -> None:
    """Eliminate one side of the step's equations: subtracts its part from `kept` (m, m) and `target` (m,).

    Unit a of the eliminated side has the cells ``cells[start[a]:start[a + 1]]``, shared with the units `partner` of the other.
    """
    for a in range(len(gradient)):
        for p in range(start[a], start[a + 1]):
            share = cross[cells[p]] / curvature[a]
            target[partner[p]] -= share * gradient[a]
            for q in range(start[a], start[a + 1]):
                kept[partner[p], partner[q]] -= share * cross[cells[q]]


@kernel
def substitute_side(
    start: IntArray,
    partner: IntArray,
    cells: IntArray,
    cross: FloatArray,
    gradient: FloatArray,
    curvature: FloatArray,
    other: FloatArray,
    out: FloatArray,
) -> None:
    """The eliminated side's part of the step, given the `other` side's."""
    for a in range(len(gradient)):
        rest = gradient[a]
        for p in range(start[a], start[a + 1]):
            rest -= cross[cells[p]] * other[partner[p]]
        out[a] = rest / curvature[a]
