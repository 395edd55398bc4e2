"""How an arm's examples are cut into batches: predetermined, so that the stage of an arm is all a policy needs to know."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ._validation import check_int
from .errors import ParameterError

IntArray = NDArray[np.int64]

# Small first batches: an arm that is clearly bad costs one example, not eight.
RAMP = (1, 1, 1, 1, 2, 2, 4)


def batch_sizes(n_examples: int, batch_size: int = 8, schedule: Any = "constant") -> IntArray:
    """Sizes of an arm's batches, shape (H,), summing to `n_examples`.

    Parameters
    ----------
    n_examples : int
        Examples of the arm, at least 1.
    batch_size : int
        B, at least 1. Not used where `schedule` is an array.
    schedule : "constant", "ramp" or array of int, shape (H,)
        Batches of B; or 1, 1, 1, 1, 2, 2, 4 and then B, each cut to min(B, what is left); or the sizes themselves, which
        must be positive and sum to `n_examples`.

    Raises
    ------
    ParameterError
        An unknown schedule, a size below 1, or sizes that do not sum to `n_examples`.
    """
    n_examples = check_int(n_examples, "n_examples", low=1)
    if isinstance(schedule, str):
        batch_size = check_int(batch_size, "batch_size", low=1)
        if schedule not in ("constant", "ramp"):
            raise ParameterError(f"batch_schedule must be 'constant', 'ramp' or an array of batch sizes, got {schedule!r}")
        first: list[int] = []
        left = n_examples
        for size in RAMP if schedule == "ramp" else ():
            if left == 0:
                break
            first.append(min(size, batch_size, left))
            left -= first[-1]
        rest = np.full(-(-left // batch_size), batch_size, dtype=np.int64)
        if len(rest):
            rest[-1] = left - batch_size * (len(rest) - 1)
        return np.concatenate([np.array(first, dtype=np.int64), rest])
    try:
        given = np.asarray(schedule)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"batch_schedule must be 'constant', 'ramp' or an array of batch sizes, got {schedule!r}") from error
    if given.ndim != 1 or len(given) == 0 or given.dtype.kind not in "iuf":
        raise ParameterError(
            f"batch_schedule must be 'constant', 'ramp' or a one-dimensional array of batch sizes, got {type(schedule).__name__} "
            f"of shape {given.shape} and dtype {given.dtype}"
        )
    sizes = given.astype(np.int64) if np.all(np.isfinite(given)) else np.zeros(len(given), dtype=np.int64)
    wrong = np.flatnonzero((sizes != given) | (sizes < 1))
    if len(wrong):
        raise ParameterError(f"batch_schedule[{wrong[0]}] must be a whole number of at least 1, got {given[wrong[0]]!r}")
    if sizes.sum() != n_examples:
        raise ParameterError(f"batch_schedule sums to {sizes.sum()}, but there are n_examples={n_examples} examples; the two must be equal")
    return sizes


def cut_batches(sizes: IntArray, n_examples: int) -> IntArray:
    """The batches of an arm that has lost examples: the same boundaries as far as they go, the last batch cut."""
    ends = np.minimum(np.cumsum(sizes), n_examples)
    cut = np.diff(ends, prepend=0)
    return cut[cut > 0]
