"""evalica: its Bradley-Terry fit (Rust) and its bootstrap."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import evalica
import numpy as np
import pandas as pd

from . import rows
from .inputs import Size, simulated_votes
from .timing import Case

LABELS = {"model_a": evalica.Winner.X, "model_b": evalica.Winner.Y}
RESAMPLES = 20  # its default is 1,000 with BCa, whose jackknife refits once per vote
TOLERANCE, LIMIT = 1e-8, 1000  # its own 1e-6 and 100 stop far from the maximum on sparse tasks


def winners(frame: pd.DataFrame) -> list[evalica.Winner]:
    """A list, not an array: its compiled side takes enum members."""
    return [LABELS[verdict] for verdict in frame["winner"]]


def point_fit(frame: pd.DataFrame, **options: float) -> pd.Series:
    result = evalica.bradley_terry(frame["model_a"], frame["model_b"], winners(frame), **options)
    return np.log(result.scores)


def bootstrap(frame: pd.DataFrame, n_resamples: int) -> pd.Series:
    result = evalica.bootstrap(
        evalica.bradley_terry, frame["model_a"], frame["model_b"], winners(frame),
        n_resamples=n_resamples, bootstrap_method="percentile", random_state=0,
    )  # fmt: skip
    logs = np.log(result.distribution)
    return logs.sub(logs.mean(axis=1), axis=0).std()


def cases(size: Size) -> Iterator[Case]:
    yield rows.point(simulated_votes(size.votes, size.models), point_fit, "winners to its enum, bradley_terry")
    part = simulated_votes(size.resampled_votes, size.models)
    way = f"bootstrap(bradley_terry), percentile, {RESAMPLES} resamples (its default: 1,000)"
    fit = partial(bootstrap, n_resamples=RESAMPLES)
    yield rows.errors(part, fit, way)
    yield rows.board(part, fit, way)
    way = f"groupby, bradley_terry of each task (tolerance {TOLERANCE:g}, limit {LIMIT})"
    yield from rows.tasks(size, partial(point_fit, tolerance=TOLERANCE, limit=LIMIT), way)
