"""The closed vocabulary of the winner column: what a verdict says about model_a, or why it says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._labels import MISSING, LabelIndex, factorize, to_numbers
from ._outcomes import FloatArray, IntArray

DECISIVE, TIE, BOTH_BAD = 0, 1, 2
OK, WINNER_MISSING, WINNER_UNKNOWN, WINNER_AMBIGUOUS, WINNER_RANGE = 0, 1, 2, 3, 4

_KEYWORDS: dict[str, tuple[float, int]] = {
    **dict.fromkeys(("model_a", "a", "left"), (1.0, DECISIVE)),
    **dict.fromkeys(("model_b", "b", "right"), (0.0, DECISIVE)),
    "tie": (0.5, TIE),
    **dict.fromkeys(("tie (bothbad)", "both_bad", "bothbad"), (0.5, BOTH_BAD)),
}
ACCEPTED = (
    "model_a, a, left, 1, True; model_b, b, right, 0, False; tie, 0.5; tie (bothbad), both_bad, bothbad; "
    "a number in [0, 1]; or the winning model's own name"
)
# Graded outcomes live on a grid on which 1 - y is exact, so that swapping the sides changes no bit (moves y by at most 1.2e-16).
_GRID = 2.0**52


@dataclass(frozen=True)
class Verdicts:
    """Outcome seen from model_a (NaN where there is none), its kind and what is wrong with it, each of shape (n,)."""

    outcome: FloatArray
    kind: NDArray[np.int8]
    fault: NDArray[np.int8]


def keyword(value: str) -> tuple[float, int] | None:
    return _KEYWORDS.get(value.strip().casefold())


def decode_winners(
    column: Any, name: str, model_a: IntArray, model_b: IntArray, models: LabelIndex, *, numbers_may_name: bool = True
) -> Verdicts:
    """Read a winner column given the codes of both models of each row.

    Where models are named by integers, an integer column may hold the winner's own name (`numbers_may_name`); a float is
    always an outcome.
    """
    numbers = to_numbers(column, name)
    if numbers is not None:
        is_integer = _holds_integers(column)
        return _decode_numbers(numbers, model_a, model_b, models, may_name=numbers_may_name and is_integer)
    codes, values = factorize(column, name)
    outcome_of = np.full(len(values) + 1, np.nan)
    kind_of = np.zeros(len(values) + 1, dtype=np.int8)
    fault_of = np.full(len(values) + 1, WINNER_UNKNOWN, dtype=np.int8)
    named = np.full(len(values) + 1, MISSING, dtype=np.int64)
    fault_of[-1] = WINNER_MISSING
    for slot, value in enumerate(values):
        if isinstance(value, str):
            text = str.__str__(value)
            if not text.strip():
                fault_of[slot] = WINNER_MISSING
            elif text.strip() not in {"0", "1"}:
                found = keyword(text)
                if found is not None:
                    outcome_of[slot], kind_of[slot] = found
                    fault_of[slot] = OK
                if models.kind != "int":
                    named[slot] = models.lookup(text)
        elif isinstance(value, (bool, int, float, np.number, np.bool_)):
            one = _decode_number(float(value), models)
            outcome_of[slot], kind_of[slot], fault_of[slot], named[slot] = one
        elif value is None:
            fault_of[slot] = WINNER_MISSING
    return _settle(outcome_of[codes], kind_of[codes], fault_of[codes], named[codes], model_a, model_b)


def _holds_integers(column: Any) -> bool:
    """Whether whole numbers in the column were integers to begin with (a list of ints is an object array by now)."""
    kind = getattr(getattr(column, "dtype", None), "kind", "")
    if kind == "O":
        return pd.api.types.infer_dtype(column, skipna=True) == "integer"
    return kind in "iu" if kind else "int" in str(getattr(column, "type", ""))


def decode_text_numbers(column: Any, name: str, model_a: IntArray, model_b: IntArray, models: LabelIndex) -> Verdicts | None:
    """Read a winner column of a text file whose every field is a number (or true / false), else None.

    A text file has no types: a column written as numbers is read as numbers, as pandas would. Whoever mixes them with words gets
    the rule for strings, under which "0" and "1" are errors.
    """
    codes, values = factorize(column, name)
    numbers = np.full(len(values) + 1, np.nan)
    named = np.full(len(values) + 1, MISSING, dtype=np.int64)
    for slot, value in enumerate(values):
        text = value.strip() if isinstance(value, str) else ""
        if not text:
            continue
        lowered = text.casefold()
        if lowered in {"true", "false"}:
            numbers[slot] = float(lowered == "true")
        else:
            try:
                numbers[slot] = float(text)
            except ValueError:
                return None
            if "_" in text or not np.isfinite(numbers[slot]):
                return None
        named[slot] = models.lookup(text)
    outcome, kind, fault = _grade(numbers)
    return _settle(outcome[codes], kind[codes], fault[codes], named[codes], model_a, model_b)


def _grade(numbers: FloatArray) -> tuple[FloatArray, NDArray[np.int8], NDArray[np.int8]]:
    """Outcome, kind and fault of plain numbers."""
    fault = np.zeros(len(numbers), dtype=np.int8)
    fault[~((numbers >= 0.0) & (numbers <= 1.0))] = WINNER_RANGE
    fault[np.isnan(numbers)] = WINNER_MISSING
    outcome = np.where(fault == OK, np.rint(numbers * _GRID) / _GRID + 0.0, np.nan)
    return outcome, (outcome == 0.5).astype(np.int8) * np.int8(TIE), fault


def _decode_number(number: float, models: LabelIndex) -> tuple[float, int, int, int]:
    outcome, kind, fault = _grade(np.array([number]))
    named = models.lookup(str(int(number))) if models.kind == "int" and number.is_integer() else MISSING
    return float(outcome[0]), int(kind[0]), int(fault[0]), named


def _decode_numbers(numbers: FloatArray, model_a: IntArray, model_b: IntArray, models: LabelIndex, *, may_name: bool) -> Verdicts:
    outcome, kind, fault = _grade(numbers)
    if models.kind != "int" or not may_name:
        return Verdicts(outcome, kind, fault)
    # Models named by integers: a whole number may be the winner's own name.
    named = np.full(len(numbers), MISSING, dtype=np.int64)
    whole = np.flatnonzero(np.isfinite(numbers) & (numbers == np.floor(numbers)))
    distinct, inverse = np.unique(numbers[whole], return_inverse=True)
    named[whole] = np.array([models.lookup(str(int(x))) for x in distinct], dtype=np.int64)[inverse]
    return _settle(outcome, kind, fault, named, model_a, model_b)


def _settle(
    outcome: FloatArray, kind: NDArray[np.int8], fault: NDArray[np.int8], named: IntArray, model_a: IntArray, model_b: IntArray
) -> Verdicts:
    """Join the reading as a keyword with the reading as one of the row's models; both at once is ambiguous."""
    if not (named >= 0).any():
        return Verdicts(outcome, kind, fault)
    is_a = (named >= 0) & (named == model_a)
    is_b = (named >= 0) & (named == model_b)
    own = is_a | is_b
    ambiguous = own & (fault == OK)
    by_name = own & ~ambiguous
    outcome = np.where(by_name, is_a.astype(np.float64), outcome)
    kind = np.where(by_name, np.int8(DECISIVE), kind)
    fault = np.where(by_name, np.int8(OK), fault)
    fault = np.where(ambiguous, np.int8(WINNER_AMBIGUOUS), fault)
    return Verdicts(outcome, kind, fault)
