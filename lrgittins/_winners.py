"""The closed vocabulary of the winner column: what a verdict says about model_a, or why it says nothing."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._labels import MISSING, LabelIndex, factorize, to_numbers
from ._outcomes import FloatArray, IntArray

DECISIVE, TIE, BOTH_BAD = 0, 1, 2
TIE_POLICIES, BOTH_BAD_POLICIES = ("half", "drop", "error"), ("tie", "drop", "error")
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

    Where models are named by integers, an integer may be the winner's own name (`numbers_may_name`); a float or a bool is always an
    outcome. Every value is judged by itself, so that the answer does not hang on which rows come in one batch.
    """
    by_number = _named_by_integers(column, name, models) if numbers_may_name and models.kind == "int" else None
    numbers = to_numbers(column, name)
    if numbers is not None:
        outcome, kind, fault = _grade(numbers)
        return _settle(outcome, kind, fault, by_number, model_a, model_b)
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
        elif isinstance(value, (bool, int, float, np.integer, np.floating, np.bool_, Decimal)):
            outcome_of[slot], kind_of[slot], fault_of[slot] = _grade_one(value)
        elif value is None:
            fault_of[slot] = WINNER_MISSING
    return _settle(outcome_of[codes], kind_of[codes], fault_of[codes], named[codes] if by_number is None else by_number, model_a, model_b)


def _named_by_integers(column: Any, name: str, models: LabelIndex) -> IntArray | None:
    """Code of the model that each row's integer names, -1 for none; None where the column has no integers."""
    rows: IntArray | slice = slice(None)
    if isinstance(column, np.ndarray) and column.dtype.kind == "O":
        # Equal values share a code whatever their type, so integers must stand alone: 2 and 2.0, 1 and True are not one thing here.
        if pd.api.types.infer_dtype(column, skipna=True) != "integer":
            rows = np.flatnonzero(np.fromiter(map(_is_integer, column), dtype=bool, count=len(column)))
            if len(rows) == 0:
                return None
    elif getattr(getattr(column, "dtype", None), "kind", "") in {"b", "f"}:
        return None
    codes, values = factorize(column[rows] if isinstance(column, np.ndarray) else column, name)
    code_of = np.array([models.lookup(str(int(v))) if _is_integer(v) else MISSING for v in values] + [MISSING], dtype=np.int64)
    named = np.full(len(column), MISSING, dtype=np.int64)
    named[rows] = code_of[codes]
    return named


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


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


def _grade_one(value: Any) -> tuple[float, int, int]:
    try:
        number = float(value)
    except OverflowError:  # an integer beyond float64
        number = np.inf
    outcome, kind, fault = _grade(np.array([number]))
    return float(outcome[0]), int(kind[0]), int(fault[0])


def _settle(
    outcome: FloatArray, kind: NDArray[np.int8], fault: NDArray[np.int8], named: IntArray | None, model_a: IntArray, model_b: IntArray
) -> Verdicts:
    """Join the reading as a keyword with the reading as one of the row's models; both at once is ambiguous."""
    if named is None or not (named >= 0).any():
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
