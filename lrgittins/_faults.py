"""What can be wrong with a row of votes, and what is kept of it for the message."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from . import _winners

_SINGULAR = {"have": "has", "compare": "compares", "hold": "holds", "are": "is"}
SHOWN = 5  # offending rows and values named in a message


@dataclass(frozen=True)
class Fault:
    """One way in which a row can be unusable."""

    role: str
    text: str
    remedy: str
    always: bool = False  # an error even under on_invalid="drop"

    def said_of(self, rows: int) -> str:
        """``1 row has no task``, ``2 rows have no task``."""
        if rows != 1:
            return f"{rows} rows {self.text}"
        verb, _, rest = self.text.partition(" ")
        return f"1 row {_SINGULAR[verb]} {rest}"


_DROP = 'mend them, or drop such rows with on_invalid="drop"'
_PREFERENCES = f"numbers are preferences for model_a, from 0 (model_b won) to 1 (model_a won): recode 1 and 2, or 1 and -1; {_DROP}"
FAULTS = {
    "missing task": Fault("task", "have no task", _DROP),
    "missing model_a": Fault("model_a", "have no model name", _DROP),
    "missing model_b": Fault("model_b", "have no model name", _DROP),
    "self-comparison": Fault("model_b", "compare a model with itself", _DROP),
    "missing winner": Fault("winner", "have no verdict (a judge that failed is not a tie)", _DROP),
    "unknown winner": Fault("winner", "have an unknown label", f"accepted are {_winners.ACCEPTED}; {_DROP}"),
    "ambiguous winner": Fault(
        "winner",
        "have a label that is both a keyword and a model of that row",
        "write model_a or model_b, or rename the model (aliases=)",
    ),
    "winner out of range": Fault("winner", "hold a number outside [0, 1]", _PREFERENCES),
    "invalid count": Fault("count", "are not non-negative integers (up to 2**53)", f"counts are frequencies; {_DROP}"),
    "missing id": Fault("id", "have no id", _DROP),
    "missing cluster": Fault("cluster", "have no cluster", _DROP),
    "undeclared task": Fault("task", "have a task outside the tasks= list", "add it to the list, or filter the data first", always=True),
    "undeclared model_a": Fault("model_a", "have a model outside the models= list", "add it, or filter the data first", always=True),
    "undeclared model_b": Fault("model_b", "have a model outside the models= list", "add it, or filter the data first", always=True),
    "tie": Fault("winner", 'are ties, and ties="error"', 'use ties="half" or ties="drop"', always=True),
    "both bad": Fault("winner", 'are "both bad", and both_bad="error"', 'use both_bad="tie" or both_bad="drop"', always=True),
}
FAULT_NAMES = list(FAULTS)
FAULT_CODE = {name: code + 1 for code, name in enumerate(FAULT_NAMES)}


@dataclass
class Finding:
    """What is kept of one kind of fault for the message."""

    rows: int = 0
    first: list[tuple[int, str]] = field(default_factory=list)  # row number, and the value as shown
    values: Counter[str] = field(default_factory=Counter)
