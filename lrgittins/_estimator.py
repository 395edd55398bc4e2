"""What the three score estimators share: parameters, fitted frames, predictions, diagnostics."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, Self

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._outcomes import OutcomeTable
from ._validation import check_float, check_int, code_of
from .errors import NotIdentifiableError, ParameterError
from .graph import find_separation, pieces, pieces_by_task

if TYPE_CHECKING:
    from .comparisons import Comparisons

FloatArray = NDArray[np.float64]

_SHOWN = 6  # names of a piece that an error lists before it says how many more there are


def diagnostic(status: str, value: float | int | None = None, detail: str = "") -> dict[str, Any]:
    """One entry of a diagnostics dict: status "ok", "failed" or "not_checked", a plain number, and a sentence."""
    number: float | int | None
    if value is None or isinstance(value, int):
        number = value
    else:
        number = float(value) if np.isfinite(value) else None
    return {"status": status, "value": number, "detail": detail}


class ScoreEstimator:
    """Base of the estimators: scikit-learn's shape, scores per (task, model)."""

    scores_: pd.DataFrame
    separated_: pd.DataFrame
    diagnostics_: dict[str, dict[str, Any]]

    def get_params(self, deep: bool = True) -> dict[str, Any]:
        """The constructor's arguments and their values (`deep` is accepted for scikit-learn's sake)."""
        return {name: getattr(self, name) for name in inspect.signature(type(self).__init__).parameters if name != "self"}

    def set_params(self, **params: Any) -> Self:
        """Set constructor arguments by name; returns self."""
        known = self.get_params()
        for name, value in params.items():
            if name not in known:
                raise ParameterError(f"{type(self).__name__} has no parameter {name!r}; it has {', '.join(known)}")
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        inside = ", ".join(f"{name}={value!r}" for name, value in self.get_params().items())
        return f"{type(self).__name__}({inside})"

    def _fitted(self) -> pd.DataFrame:
        scores = getattr(self, "scores_", None)
        if scores is None:
            raise ParameterError(f"this {type(self).__name__} is not fitted yet; call fit(comparisons) first")
        return scores

    def predict_proba(self, task: str, a: str, b: str) -> float:
        """Probability that `a` beats `b` on `task` under the fitted scores (NaN where they share no scale).

        Raises
        ------
        ParameterError
            Unknown task or model, or not fitted.
        """
        scores = self._fitted()
        row = scores.to_numpy()[code_of(task, scores.index, "task")]
        gap = float(row[code_of(a, scores.columns, "model")]) - float(row[code_of(b, scores.columns, "model")])
        return float(1.0 / (1.0 + np.exp(-gap))) if gap >= 0 else float(np.exp(gap) / (1.0 + np.exp(gap)))

    def top_k(self, k: int) -> pd.DataFrame:
        """Which models are among the `k` best of each task: DataFrame of bool, tasks x models.

        Scores equal to rounding at the cut are all in (equal scores share the better rank); NaN scores are out.
        """
        scores = self._fitted()
        k = check_int(k, "k", low=1, high=scores.shape[1])
        values = scores.to_numpy()
        ordered = -np.sort(-np.where(np.isnan(values), -np.inf, values), axis=1)
        cut = ordered[:, k - 1 : k]
        slack = 1e-9 * np.maximum(np.nanmax(np.abs(values), axis=1, keepdims=True), 1e-300)
        return pd.DataFrame(values >= cut - slack, index=scores.index, columns=scores.columns)

    def boundary(self, k: int, *, within: float = 0.5) -> pd.DataFrame:
        """How hard the cut after place `k` is, per task.

        Returns
        -------
        DataFrame
            Columns task, k_gap (score of place k less that of place k + 1; NaN when k is the number of
            models) and n_within (models whose score is within `within`, in natural-log units, of the middle of the cut).
        """
        scores = self._fitted()
        k = check_int(k, "k", low=1, high=scores.shape[1])
        within = check_float(within, "within", low=0.0)
        values = scores.to_numpy()
        ordered = -np.sort(-np.where(np.isnan(values), -np.inf, values), axis=1)
        if k == values.shape[1]:
            gap, middle = np.full(len(values), np.nan), ordered[:, k - 1]
        else:
            with np.errstate(invalid="ignore"):
                gap, middle = ordered[:, k - 1] - ordered[:, k], 0.5 * (ordered[:, k - 1] + ordered[:, k])
        close = (np.abs(values - middle[:, None]) <= within).sum(axis=1)
        return pd.DataFrame({"task": scores.index, "k_gap": gap, "n_within": close})


def separated_frame(table: OutcomeTable, comparisons: Comparisons, *, pooled: bool = False) -> pd.DataFrame:
    """Separated models as a frame: task, model, side."""
    found = find_separation(table, pooled=pooled)
    tasks = ["(all tasks)"] * len(found) if pooled else comparisons.tasks[found.task]
    return pd.DataFrame({"task": tasks, "model": comparisons.models[found.model], "side": list(found.side)}, dtype=object)


def refuse_disconnected(table: OutcomeTable, comparisons: Comparisons, *, pooled: bool) -> None:
    """Raise `NotIdentifiableError` naming the pieces where the graph (pooled, or of a single task) falls apart."""
    labels = pieces(table)[None, :] if pooled else pieces_by_task(table)
    broken = [t for t in range(len(labels)) if labels[t].max(initial=-1) > 0]
    if not broken:
        return
    where = "the comparisons fall apart" if pooled else f"the comparisons of task {comparisons.tasks[broken[0]]!r} fall apart"
    more = f" (and {len(broken) - 1} more tasks)" if len(broken) > 1 else ""
    raise NotIdentifiableError(
        f"{where} into {labels[broken[0]].max() + 1} pieces that never meet{more}: {_name_pieces(labels[broken[0]], comparisons)}. "
        'Scores of different pieces have no common scale: add comparisons between them, or pass disconnected="allow" '
        "(separate pieces, no certificate across)"
    )


def _name_pieces(labels: NDArray[np.int64], comparisons: Comparisons) -> str:
    parts = []
    for piece in range(min(int(labels.max()) + 1, _SHOWN)):
        members = [str(name) for name in comparisons.models[labels == piece]]
        rest = f", ... {len(members) - _SHOWN} more" if len(members) > _SHOWN else ""
        parts.append("{" + ", ".join(members[:_SHOWN]) + rest + "}")
    n_more = int(labels.max()) + 1 - _SHOWN
    return ", ".join(parts) + (f", ... {n_more} more pieces" if n_more > 0 else "")
