"""One-sided certificates of one model on one task: each side at the full alpha, by step-down over signed draws.

At most one of "among the top K" and "not among the top K" can be false, so neither test pays for the other.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from ._kernels.order_statistics import signed_maximum
from ._outcomes import FloatArray, IntArray
from .bands import ClaimResult, NoiseDraws, upper_quantile


def step_down_above(
    draws: FloatArray, model: int, others: IntArray, statistic: FloatArray, inverse_se: FloatArray, alpha: float, *, turned: bool
) -> NDArray[np.bool_]:
    """Which opponents are declared above `model` (`turned`: below it), with a familywise error of at most alpha.

    Parameters
    ----------
    draws : ndarray, shape (n_models, n_draws)
        Noise of the task's scores.
    statistic : ndarray, shape (n_others,)
        Studentised gaps, other minus model.
    """
    sign = -1.0 if turned else 1.0
    signed = sign * statistic
    active = np.ones(len(others), dtype=bool)
    largest = np.empty(draws.shape[1])
    critical = np.inf
    while active.any():
        signed_maximum(draws, model, others[active], sign * inverse_se[active], largest)
        critical = upper_quantile(largest, alpha)
        remaining = active & (signed <= critical)
        if np.array_equal(remaining, active):
            break
        active = remaining
    return ~active


def certify_cell(result: ClaimResult, draws: NoiseDraws, alpha: float, top_k: int) -> str:
    """ "top-k" when at least n_models - K opponents are declared below, "not-top-k" when at least K are declared above.

    Opponents whose gap has no finite, positive standard error are never declared.
    """
    task, model = result.claim
    usable = np.isfinite(result.estimate) & np.isfinite(result.std_error) & (result.std_error > 0.0)
    noise = np.concatenate([chunk[0] for chunk in draws.of_task(task)], axis=1)
    n_models = len(noise)
    others, inverse = result.second[usable], 1.0 / result.std_error[usable]
    statistic = -result.estimate[usable] * inverse  # a claim's gaps are model minus other
    if int(step_down_above(noise, model, others, statistic, inverse, alpha, turned=False).sum()) >= top_k:
        return "not-top-k"
    if int(step_down_above(noise, model, others, statistic, inverse, alpha, turned=True).sum()) >= n_models - top_k:
        return "top-k"
    return "unresolved"
