"""Checks of plain arguments, used once at the boundary; every message names the argument and the value."""

from __future__ import annotations

import numbers
from collections.abc import Iterable
from typing import Any

import numpy as np

from .errors import ParameterError


def check_alpha(alpha: Any) -> float:
    """An error rate strictly between 0 and 1; a percentage is named as the usual mistake."""
    if isinstance(alpha, bool) or not isinstance(alpha, numbers.Real) or not np.isfinite(float(alpha)):
        raise ParameterError(f"alpha must be a number between 0 and 1 (an error rate such as 0.05), got {alpha!r}")
    value = float(alpha)
    if 0.0 < value < 1.0:
        return value
    if 50.0 < value < 100.0:
        hint = f"; alpha is an error rate: for {value:g} % confidence write alpha={1 - value / 100:.6g} (a level of {value / 100:.6g})"
    elif 1.0 <= value <= 50.0:
        hint = f"; alpha is a fraction: for {value:g} % error write alpha={value / 100:.6g}"
    else:
        hint = ""
    raise ParameterError(f"alpha must lie strictly between 0 and 1, got {alpha!r}{hint}")


def check_int(value: Any, name: str, *, low: int | None = None, high: int | None = None) -> int:
    """An integer (numpy's too, never a bool) in [low, high]."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Integral):
        raise ParameterError(f"{name} must be an integer, got {value!r}")
    number = int(value)
    if (low is not None and number < low) or (high is not None and number > high):
        bounds = f"at least {low}" if high is None else f"at most {high}" if low is None else f"between {low} and {high}"
        raise ParameterError(f"{name} must be {bounds}, got {number}")
    return number


def check_float(value: Any, name: str, *, low: float | None = None, high: float | None = None, low_open: bool = False) -> float:
    """A finite real number in [low, high] (or (low, high] with `low_open`)."""
    if isinstance(value, (bool, np.bool_)) or not isinstance(value, numbers.Real) or not np.isfinite(float(value)):
        raise ParameterError(f"{name} must be a finite number, got {value!r}")
    number = float(value)
    if low is not None and (number < low or (low_open and number == low)):
        raise ParameterError(f"{name} must be {'above' if low_open else 'at least'} {low:g}, got {number!r}")
    if high is not None and number > high:
        raise ParameterError(f"{name} must be at most {high:g}, got {number!r}")
    return number


def check_comparisons(value: Any) -> None:
    """Refuse what is not a `Comparisons` (by what makes one, so that this module stays below it)."""
    if not hasattr(value, "_table"):
        raise ParameterError(
            f"comparisons must be a Comparisons, got {type(value).__name__}; make one with Comparisons.from_frame, from_arrays or read"
        )


def check_choice(value: Any, name: str, choices: Iterable[str]) -> str:
    """One of a closed set of words."""
    known = list(choices)
    if not isinstance(value, str) or value not in known:
        raise ParameterError(f"{name} must be one of {', '.join(map(repr, known))}, got {value!r}")
    return value


def code_of(name: Any, labels: Any, what: str) -> int:
    """Position of a label; an unknown one is named with close matches."""
    if isinstance(name, str) and name in labels:
        return int(np.flatnonzero(labels == name)[0])
    import difflib

    close = difflib.get_close_matches(str(name), [str(label) for label in labels], n=3)
    hint = f"; did you mean {', '.join(map(repr, close))}?" if close else f"; there are {len(labels)} {what}s"
    raise ParameterError(f"unknown {what} {name!r}{hint}")
