"""Scores in other units: the Elo-like scale, win probabilities, and scores anchored at a model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from ._validation import check_choice, check_float
from .errors import ParameterError

ELO_PER_LOG_ODDS = 400.0 / math.log(10.0)
ELO_CENTER = 1000.0


@dataclass(frozen=True)
class Scale:
    """Units that scores are shown in: shown = center + factor * score, and errors and gaps are multiplied by `factor` only."""

    name: str
    factor: float
    center: float
    unit: str
    digits: int

    def score(self, values: Any) -> Any:
        return self.center + self.factor * values

    def gap(self, values: Any) -> Any:
        """Gaps, bounds of gaps and standard errors: no centre."""
        return self.factor * values


SCALES = {
    "natural": Scale("natural", 1.0, 0.0, "log-odds", 3),
    "elo": Scale("elo", ELO_PER_LOG_ODDS, ELO_CENTER, "Elo", 1),
}


def check_scale(scale: Any) -> Scale:
    """The `Scale` of that name."""
    return SCALES[check_choice(scale, "scale", SCALES)]


def elo(scores: Any, *, center: float = ELO_CENTER) -> Any:
    """Scores on the Elo-like scale: 400 / ln 10 points (about 173.7) a unit of log-odds, around `center`.

    Parameters
    ----------
    scores : float, array, Series or DataFrame
        Natural-log units, as everywhere in this package. For gaps and standard errors pass ``center=0``.
    center : float, default 1000
        Where a score of 0, the mean of a task's models, comes to lie.

    Returns
    -------
    float, ndarray, Series or DataFrame
        Of the kind that was given, a new one; sequences become arrays.

    Raises
    ------
    ParameterError
        Not numbers, or a centre that is not finite.

    Notes
    -----
    400 points are odds of 10 to 1, 100 points a win probability of 0.64. The scale says nothing that log-odds do not.
    """
    center = check_float(center, "center")
    if isinstance(scores, (pd.DataFrame, pd.Series)):
        values: Any = scores
    else:
        try:
            values = np.asarray(scores, dtype=np.float64)
        except (TypeError, ValueError):
            raise ParameterError(f"scores must be numbers, got {scores!r:.100}") from None
        if values.ndim == 0:
            values = float(values)
    try:
        return center + ELO_PER_LOG_ODDS * values
    except TypeError:
        raise ParameterError("scores must be numbers in every column") from None


@dataclass(frozen=True)
class WinProbability:
    """The fitted probability that one model is preferred to another on a task, with its marginal 95 % interval.

    Attributes
    ----------
    estimate : float
        1 / (1 + exp(-gap)); a tie counts as half a win. NaN where the two models share no scale.
    ci_low, ci_high : float
        The ends of the gap's marginal 95 % interval, as probabilities (0 and 1 where the data leave the gap unbounded). As that interval,
        it is valid for one pair chosen in advance.
    """

    estimate: float
    ci_low: float
    ci_high: float


def expit(value: float) -> float:
    """1 / (1 + exp(-value)) without overflow."""
    if value >= 0.0:
        return 1.0 / (1.0 + math.exp(-value))
    small = math.exp(value)  # NaN stays NaN
    return small / (1.0 + small)


def parse_anchor(anchor: Any, scale: Scale) -> tuple[str, float] | None:
    """The anchor's name and the score it is to have, in the units of `scale`; a name alone gets the centre."""
    if anchor is None:
        return None
    if isinstance(anchor, str):
        return anchor, scale.center
    if isinstance(anchor, Mapping) and len(anchor) == 1:
        anchor = next(iter(anchor.items()))
    if isinstance(anchor, (tuple, list)) and len(anchor) == 2 and isinstance(anchor[0], str):
        return anchor[0], check_float(anchor[1], "the anchor's score")
    raise ParameterError(f"anchor must be a model's name or (name, score), got {anchor!r:.100}")


def rescale_board(frame: pd.DataFrame, scale: Any = "natural", anchor: Any = None) -> pd.DataFrame:
    """A board's rows with `score` and `std_error` in the units of `scale`; every other column is left as it is.

    With an anchor each task's scores are shifted so that the anchor has its score. Standard errors stay those of the centred scores
    (a shifted score's own error would be that of its gap to the anchor: see `GapInference.gap`).

    Raises
    ------
    ParameterError
        An unknown scale, or a task without a score of the anchor.
    """
    units = check_scale(scale)
    wanted = parse_anchor(anchor, units)
    out = frame.copy()
    out["score"] = units.score(frame["score"].to_numpy())
    out["std_error"] = units.gap(frame["std_error"].to_numpy())
    if wanted is not None:
        name, value = wanted
        own = out.loc[(out["model"] == name) & out["score"].notna()].set_index("task")["score"]
        without = [task for task in dict.fromkeys(out["task"]) if task not in own.index]
        if without:
            raise ParameterError(_no_anchor(name, without, frame))
        out["score"] += value - out["task"].map(own).to_numpy()
    return out


def _no_anchor(name: str, tasks: list[str], frame: pd.DataFrame) -> str:
    models = list(dict.fromkeys(frame["model"]))
    if name not in models:
        import difflib

        close = difflib.get_close_matches(name, models, n=3)
        return f"the board has no model {name!r} to anchor at" + (f"; did you mean {', '.join(map(repr, close))}?" if close else "")
    listed = ", ".join(map(repr, tasks[:5])) + (f" and {len(tasks) - 5} more" if len(tasks) > 5 else "")
    return f"the anchor {name!r} has no score on {len(tasks)} tasks of the board ({listed}); anchor at a model that has one on every task"
