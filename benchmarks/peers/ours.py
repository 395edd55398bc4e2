"""Our side of every comparison, from the user's frame to the answer, and the differences of answers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

import lrgittins as lg

POINT = "from_frame + PerTaskBradleyTerry().fit"
ERRORS = "from_frame + infer_gaps + all gaps with standard errors"
BOARD = "from_frame + infer_gaps + certify: simultaneous rank intervals and certificates, 2,000 draws"


def point_fit(frame: pd.DataFrame, ridge: float = 0.0) -> pd.Series:
    """Maximum-likelihood (or ridged) scores of one task."""
    votes = lg.Comparisons.from_frame(frame, task=None)
    return lg.PerTaskBradleyTerry(ridge=ridge).fit(votes).scores_.iloc[0]


def fit_with_errors(frame: pd.DataFrame) -> tuple[pd.Series, pd.DataFrame]:
    """Scores, and every gap with its standard error."""
    inference = lg.infer_gaps(lg.Comparisons.from_frame(frame, task=None), lg.PerTaskBradleyTerry())
    return inference.scores.iloc[0], inference.gaps()


def fit_board(frame: pd.DataFrame) -> pd.DataFrame:
    """The board as a frame."""
    inference = lg.infer_gaps(lg.Comparisons.from_frame(frame, task=None), lg.PerTaskBradleyTerry())
    return inference.certify(max(1, len(inference.models) // 10)).to_frame()


def per_task(frame: pd.DataFrame, ridge: float = 0.0) -> pd.DataFrame:
    """Scores of every task."""
    return lg.PerTaskBradleyTerry(ridge=ridge).fit(lg.Comparisons.from_frame(frame)).scores_


def errors_of_scores(gaps: pd.DataFrame, models: pd.Index) -> pd.Series:
    """Standard errors of the centred scores, from those of the gaps: sum_j var(i - j) = M var(i) + sum_j var(j)."""
    code = pd.Series(np.arange(len(models)), index=models)
    variance = np.zeros((len(models), len(models)))
    low, high = code[gaps["model"]].to_numpy(), code[gaps["versus"]].to_numpy()
    variance[low, high] = variance[high, low] = gaps["std_error"].to_numpy() ** 2
    trace = variance.sum() / (2 * len(models))
    return pd.Series(np.sqrt((variance.sum(axis=1) - trace) / len(models)), index=models)


def score_difference(theirs: Mapping[Any, float] | pd.Series, ours: pd.Series) -> float:
    """Largest difference of centred scores, natural-log units; both sides must have the same models."""
    other = pd.Series(theirs, dtype=float)
    if set(other.index) != set(ours.index):
        raise ValueError(f"the two sides scored different models: {sorted(set(other.index) ^ set(ours.index))}")
    other = other.reindex(ours.index)
    return float(((other - other.mean()) - (ours - ours.mean())).abs().max())


def task_difference(theirs: Mapping[Any, Mapping[Any, float]], ours: pd.DataFrame) -> float:
    """Largest `score_difference` of any task."""
    if set(theirs) != set(ours.index):
        raise ValueError(f"the two sides fitted different tasks: {sorted(set(theirs) ^ set(ours.index))}")
    return max(score_difference(theirs[task], ours.loc[task]) for task in ours.index)


def error_difference(theirs: Mapping[Any, float] | pd.Series, ours: pd.Series) -> float:
    """Largest relative difference of standard errors."""
    other = pd.Series(theirs, dtype=float).reindex(ours.index)
    return float((other / ours - 1.0).abs().max())


def board_errors(board: pd.DataFrame) -> pd.Series:
    """Standard errors of the scores on a board."""
    return board.set_index("model")["std_error"]
