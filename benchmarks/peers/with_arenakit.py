"""arenakit: validated battle records, minorisation-maximisation fits, bootstrap with a simultaneous test of neighbours."""

from __future__ import annotations

from collections.abc import Iterator

import pandas as pd
from arenakit import Arena, BootstrapResult, bootstrap, fit_bt, separation
from arenakit.schema import battles_from_records

from . import rows
from .inputs import Size, simulated_votes
from .timing import Case

RESAMPLES = 50  # its default is 2,000


def arena(frame: pd.DataFrame) -> Arena:
    return Arena(battles_from_records(frame[["model_a", "model_b", "winner"]].to_dict("records")))


def point_fit(frame: pd.DataFrame) -> pd.Series:
    board = arena(frame)
    return pd.Series(fit_bt(board.counts(), prior=0.0).scores, index=board.models)


def resampled(board: Arena) -> BootstrapResult:
    return bootstrap(board, fit=lambda counts: fit_bt(counts, prior=0.0), n_resamples=RESAMPLES)


def standard_errors(result: BootstrapResult, board: Arena) -> pd.Series:
    return pd.Series(result.scores.std(axis=0, ddof=1), index=board.models)


def with_errors(frame: pd.DataFrame) -> pd.Series:
    board = arena(frame)
    return standard_errors(resampled(board), board)


def with_board(frame: pd.DataFrame) -> pd.Series:
    """What its audit says of ranks: intervals of resampled ranks, neighbours tested together."""
    board = arena(frame)
    result = resampled(board)
    result.rank_ci()
    separation(result, board.models)
    return standard_errors(result, board)


def cases(size: Size) -> Iterator[Case]:
    yield rows.point(simulated_votes(size.votes, size.models), point_fit, "battles_from_records, Arena, fit_bt(prior=0)")
    part = simulated_votes(size.resampled_votes, size.models)
    way = f"bootstrap of fit_bt(prior=0), {RESAMPLES} resamples (its default: 2,000)"
    yield rows.errors(part, with_errors, way)
    yield rows.board(part, with_board, f"{way}, rank_ci and separation (neighbours only, simultaneous)")
    yield from rows.tasks(size, point_fit, "groupby, the point fit of each task")
