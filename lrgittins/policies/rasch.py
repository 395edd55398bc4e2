"""The Rasch model of PromptEval: ridge-penalised logistic regression on one effect per arm and one per example."""

from __future__ import annotations

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np

from lrgittins._kernels.cells import SEEN, index_cells
from lrgittins._kernels.rasch import eliminate_side, evaluate_rasch, substitute_side
from lrgittins.errors import ConvergenceWarning

from .ledger import FloatArray

# The parameters are within this of the optimum, as every curvature is at least 1.
_TOLERANCE = 1e-8
_MAX_ITERATIONS = 100
_MAX_HALVINGS = 40


@dataclass(frozen=True, eq=False)
class RaschFit:
    """Effects of arms (K,) and examples (N,), 0 for those without a cell; the largest entry of the gradient left."""

    arm_effect: FloatArray
    example_effect: FloatArray
    gradient: float
    n_iterations: int

    def probabilities(self, arms: Any = slice(None)) -> FloatArray:
        """Chance of success per cell of some arms."""
        from scipy.special import expit

        return expit(self.arm_effect[arms, None] + self.example_effect[None, :])


def fit_rasch(kind: np.ndarray, scores: FloatArray, *, anchor: int, penalty: float = 100.0) -> RaschFit:
    """Minimise ``(|arm effects|^2 + |example effects|^2) / 2 + penalty x (sum of log losses)`` over the seen cells.

    Parameters
    ----------
    kind : ndarray of uint8, shape (K, N)
        What each cell is (`_kernels.cells`).
    scores : ndarray of float64, shape (K, N)
        0 or 1 where a cell is seen.
    anchor : int
        The example whose effect is fixed at 0: the column that a one-hot design leaves out.
    penalty : float
        C of scikit-learn's `LogisticRegression` without an intercept.

    Notes
    -----
    Newton's method with halving. Each step eliminates the longer of the two diagonal blocks (arms or examples) and
    factorises what is left for the shorter: O(sum of squared cells per long-side unit + shorter^3) a step. The objective is
    strictly convex, so data with a single outcome or separable examples need no special case.
    """
    from scipy.linalg import cho_factor, cho_solve

    n_arms, width = kind.shape
    n_seen = int((kind == SEEN).sum())
    row_start, column_start = np.empty(n_arms + 1, dtype=np.int64), np.empty(width + 1, dtype=np.int64)
    lists, outcomes = np.empty((3, n_seen), dtype=np.int64), np.empty(n_seen)
    index_cells(kind, scores, row_start, column_start, lists, outcomes)
    arms_are_fewer = n_arms <= width
    short_side, long_side = (0, 1) if arms_are_fewer else (1, 0)
    # Cells of each unit of the longer side: where they start, their unit on the shorter side, their number.
    start, partner, cells = (column_start, lists[1], lists[2]) if arms_are_fewer else (row_start, lists[0], np.arange(n_seen))

    effects = (np.zeros(n_arms), np.zeros(width))
    gradients, curvatures, cross = (np.empty(n_arms), np.empty(width)), (np.empty(n_arms), np.empty(width)), np.empty(n_seen)

    def evaluate(point: tuple[FloatArray, FloatArray]) -> float:
        return float(evaluate_rasch(row_start, lists[0], outcomes, penalty, anchor, *point, *gradients, *curvatures, cross))

    value = evaluate(effects)
    n_iterations = 0
    while (left := max(float(np.abs(g).max()) for g in gradients)) > _TOLERANCE and n_iterations < _MAX_ITERATIONS:
        n_iterations += 1
        kept, target = np.diag(curvatures[short_side]), gradients[short_side].copy()
        eliminate_side(start, partner, cells, cross, gradients[long_side], curvatures[long_side], kept, target)
        steps = (np.empty(n_arms), np.empty(width))
        steps[short_side][:] = cho_solve(cho_factor(kept, lower=True, overwrite_a=True, check_finite=False), target, check_finite=False)
        substitute_side(start, partner, cells, cross, gradients[long_side], curvatures[long_side], steps[short_side], steps[long_side])
        gain = sum(float(g @ s) for g, s in zip(gradients, steps, strict=True))
        # Below the rounding of the objective a decrease cannot be seen, and a full Newton step is right.
        must_see = gain > 1e-10 * (1.0 + abs(value))
        size = 1.0
        for _ in range(_MAX_HALVINGS):
            trial = (effects[0] - size * steps[0], effects[1] - size * steps[1])
            new_value = evaluate(trial)
            if not must_see or new_value <= value - 1e-4 * size * gain:
                break
            size *= 0.5
        effects, value = trial, new_value
    if left > _TOLERANCE:
        warnings.warn(
            f"the Rasch fit stopped after {n_iterations} Newton steps with a gradient of {left:.2g} (wanted {_TOLERANCE:g})",
            ConvergenceWarning,
            stacklevel=2,
        )
    return RaschFit(effects[0], effects[1], left, n_iterations)
