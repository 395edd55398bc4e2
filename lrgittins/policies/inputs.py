"""Boundary checks of what a policy is built from: arms, examples, prices, orders. Used once, in constructors."""

from __future__ import annotations

import numbers
from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrgittins._validation import check_int
from lrgittins.errors import LRGittinsError, ParameterError, ResponseError

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]
ORDERS = ("common", "per-arm")


def shown(labels: Iterable[Any], limit: int = 5) -> str:
    """The first few labels for a message."""
    listed = list(labels)
    text = ", ".join(repr(label) for label in listed[:limit])
    return text if len(listed) <= limit else f"{text} and {len(listed) - limit} more"


def check_labels(labels: Any, name: str) -> list[Hashable]:
    """Unique, present, hashable labels as plain Python objects."""
    if isinstance(labels, (str, bytes)) or not isinstance(labels, Iterable):
        raise ParameterError(f"{name} must be an int or a sequence of names, got {labels!r}")
    values = [label.item() if isinstance(label, np.generic) else label for label in labels]
    if not values:
        raise ParameterError(f"{name} is empty; at least one is needed")
    for position, label in enumerate(values):
        if not isinstance(label, Hashable):
            raise ParameterError(f"{name}[{position}] is not hashable: {label!r}")
        if label is None or (isinstance(label, float) and label != label) or type(label).__name__ in ("NAType", "NaTType"):
            raise ParameterError(f"{name}[{position}] is missing ({label!r}); every one needs a name")
    seen: set[Hashable] = set()
    repeated: list[Hashable] = []
    for label in values:
        if label in seen:
            repeated.append(label)
        seen.add(label)
    if repeated:
        raise ParameterError(f"{name} must be unique; repeated: {shown(dict.fromkeys(repeated))}")
    return values


def check_arms(arms: Any) -> list[Hashable]:
    """Arm names; an int K means 0..K-1."""
    if isinstance(arms, numbers.Integral) and not isinstance(arms, bool):
        return list(range(check_int(arms, "arms", low=1)))
    return check_labels(arms, "arms")


def by_arm(value: Any, name: str, arms: Sequence[Hashable], error: type[LRGittinsError]) -> list[Any]:
    """One entry per arm from a scalar, a sequence in arm order, or a mapping / Series joined by arm name."""
    if isinstance(value, Mapping) or (hasattr(value, "index") and hasattr(value, "to_dict") and not isinstance(value, (list, tuple))):
        if not isinstance(value, Mapping):
            labels = list(value.index)
            if len(set(labels)) != len(labels):
                raise error(f"{name} names an arm more than once: {shown(dict.fromkeys(x for x in labels if labels.count(x) > 1))}")
        table: Mapping[Any, Any] = value if isinstance(value, Mapping) else value.to_dict()
        absent = [arm for arm in arms if arm not in table]
        if absent:
            raise error(f"{name} has no entry for {len(absent)} of {len(arms)} arms: {shown(absent)}")
        return [table[arm] for arm in arms]
    if isinstance(value, (str, bytes)) or not isinstance(value, Iterable) or (isinstance(value, np.ndarray) and value.ndim == 0):
        return [value] * len(arms)
    entries = list(value)
    if len(entries) != len(arms):
        raise error(f"{name} must be a scalar or have one entry per arm ({len(arms)}), got {len(entries)} entries")
    return entries


def check_by_arm(
    value: Any,
    name: str,
    arms: Sequence[Hashable],
    *,
    low: float | None = None,
    low_open: bool = False,
    error: type[LRGittinsError] = ParameterError,
) -> FloatArray:
    """`by_arm` with every entry a finite number at least (or above) `low`; the message names the first bad arm."""
    out = np.empty(len(arms))
    for position, (arm, entry) in enumerate(zip(arms, by_arm(value, name, arms, error), strict=True)):
        number = entry.item() if isinstance(entry, np.generic) or (isinstance(entry, np.ndarray) and entry.ndim == 0) else entry
        if isinstance(number, bool) or not isinstance(number, numbers.Real):
            raise error(f"{name} of arm {arm!r} must be a number, got {entry!r}")
        out[position] = float(number)
        if not np.isfinite(out[position]):
            raise error(f"{name} of arm {arm!r} must be finite, got {number!r}")
        if low is not None and (out[position] < low or (low_open and out[position] == low)):
            raise error(f"{name} of arm {arm!r} must be {'above' if low_open else 'at least'} {low:g}, got {number!r}")
    return out


def check_costs(cost: Any, arms: Sequence[Hashable]) -> FloatArray:
    """Raw price per example of every arm: finite, not negative; zero is a price."""
    return check_by_arm(cost, "cost", arms, low=0.0, error=ResponseError)


def check_examples(n_examples: Any, examples: Any, arms: Sequence[Hashable]) -> tuple[IntArray, list[Hashable] | None]:
    """Examples per arm (the first ``n_examples[k]`` columns are arm k's) and their ids, None for positions."""
    counts = np.array([check_int(n, f"n_examples of arm {arm!r}", low=1) for arm, n in zip(arms, by_arm(
        n_examples, "n_examples", arms, ParameterError), strict=True)], dtype=np.int64)  # fmt: skip
    if examples is None:
        return counts, None
    ids = check_labels(examples, "examples")
    if len(ids) != counts.max():
        raise ParameterError(f"examples has {len(ids)} ids, but n_examples is {counts.max()}")
    return counts, ids


def check_missing(missing: Any, counts: IntArray, arms: Sequence[Hashable]) -> NDArray[np.bool_] | None:
    """Cells that do not exist, (K, N) of bool; None when there are none. Every arm keeps at least one cell."""
    width = int(counts.max())
    ragged = bool((counts != width).any())
    if missing is None and not ragged:
        return None
    mask = np.arange(width)[None, :] >= counts[:, None]
    if missing is not None:
        given = np.asarray(missing)
        if given.dtype != np.bool_ or given.shape != mask.shape:
            raise ParameterError(f"missing must be a bool array of shape {mask.shape}, got {given.dtype} of shape {given.shape}")
        mask |= given
    empty = np.flatnonzero(mask.all(axis=1))
    if len(empty):
        raise ParameterError(f"{len(empty)} arms have no cell at all: {shown(arms[int(k)] for k in empty)}; leave them out")
    return mask if mask.any() else None


def check_order(order: Any, n_arms: int, width: int, generator: np.random.Generator) -> tuple[str, IntArray]:
    """The example order: one row for all arms (N,) or one per arm (K, N); drawn here unless it is given."""
    if isinstance(order, str):
        if order == "common":
            return order, generator.permutation(width).astype(np.int64)
        if order == "per-arm":
            rows = np.tile(np.arange(width, dtype=np.int64), (n_arms, 1))
            return order, generator.permuted(rows, axis=1, out=rows)
        raise ParameterError(f"example_order must be one of {', '.join(map(repr, ORDERS))} or an array, got {order!r}")
    rows = np.asarray(order)
    if rows.dtype.kind not in "iu" or rows.shape not in ((width,), (n_arms, width)):
        raise ParameterError(
            f"example_order must hold integer positions with shape ({width},) or ({n_arms}, {width}), "
            f"got {rows.dtype} of shape {rows.shape}"
        )
    if not (np.sort(rows, axis=-1) == np.arange(width)).all():
        raise ParameterError(f"example_order must be a permutation of 0..{width - 1} in every row")
    return "array", np.ascontiguousarray(rows, dtype=np.int64)


def check_score_range(score_range: Any) -> tuple[float, float]:
    """(lowest, highest) score, finite and ordered."""
    try:
        low, high = (float(end) for end in score_range)
    except (TypeError, ValueError):
        raise ParameterError(f"score_range must be (lowest, highest), got {score_range!r}") from None
    if not (np.isfinite(low) and np.isfinite(high) and low < high):
        raise ParameterError(f"score_range must be finite with lowest < highest, got {score_range!r}")
    return low, high


def check_scores(scores: Any, n: int, score_range: tuple[float, float], where: str, *, allow_nan: bool = False) -> FloatArray:
    """`n` scores rescaled to [0, 1]; anything else is a `ResponseError` that says what and where."""
    values = np.asarray(scores)
    if values.dtype.kind not in "biuf" and (values.dtype != object or any(not isinstance(s, numbers.Real) for s in values.ravel())):
        raise ResponseError(f"scores of {where} must be numbers, got {scores!r}")
    values = values.astype(np.float64)
    if values.shape != (n,):
        raise ResponseError(f"scores of {where} must have shape ({n},), one per example asked, got shape {values.shape}")
    low, high = score_range
    # A loop beats two reductions on a batch, and is false for NaN too.
    if not all(low <= score <= high for score in values.tolist()):
        missing = np.isnan(values)
        if missing.any() and not allow_nan:
            raise ResponseError(
                f"scores of {where} hold {int(missing.sum())} NaN, first at position {int(missing.argmax())}; "
                "report a failed evaluation with status='error', never as a score"
            )
        outside = ~missing & ~((values >= low) & (values <= high))
        if outside.any():
            raise ResponseError(f"scores of {where} {range_problem(values[outside], low, high)}")
    return values if (low, high) == (0.0, 1.0) else (values - low) / (high - low)


def range_problem(bad: FloatArray, low: float, high: float) -> str:
    """What out-of-range scores most likely are: percent, a sentinel, or another range."""
    text = f"lie outside [{low:g}, {high:g}]: {shown(float(x) for x in bad)}"
    if not np.isfinite(bad).all():
        return f"{text}; scores must be finite"
    if (low, high) == (0.0, 1.0) and bad.min() > 1.0 and bad.max() <= 100.0:
        return f"{text}; these look like percent: divide by 100, or give score_range=(0, 100)"
    if bad.max() < low and len(np.unique(bad)) == 1 and bad[0] in (-1.0, -9.0, -99.0, -999.0, -9999.0):
        return f"{text}; {bad[0]:g} looks like a sentinel for 'not run': make such cells NaN (missing), they are not scores"
    return f"{text}; rescale them, or give score_range=(lowest, highest)"
