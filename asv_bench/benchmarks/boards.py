"""Whole boards, votes in and certificates out, with each calibration; and what the number of votes costs."""

from __future__ import annotations

import lrgittins as lg

from .bands import resolved_share
from .common import N_VOTES, RANK, Sized, seconds, votes

BOARD_TARGET = "50x50"


def make_board(shape: str, n: int, calibration: str = "cross-fit") -> lg.Leaderboard:
    """The board of the speed target: everything at once, 2000 draws."""
    return lg.leaderboard(votes(shape, n), rank=RANK, family="all", n_draws=2000, calibration=calibration)


class CrossFitBoard(Sized):
    """`leaderboard(rank=5, family="all", n_draws=2000, calibration="cross-fit")` at n = 32,000."""

    timeout = 600

    def setup(self, shape: str) -> None:
        make_board(shape, N_VOTES)

    def time_leaderboard(self, shape: str) -> None:
        make_board(shape, N_VOTES)

    def peakmem_leaderboard(self, shape: str) -> None:
        make_board(shape, N_VOTES)

    def track_resolved_share(self, shape: str) -> float:
        return resolved_share(make_board(shape, N_VOTES))


class ParametricBoard(Sized):
    """The same with calibration="parametric"."""

    timeout = 600

    def setup(self, shape: str) -> None:
        make_board(shape, N_VOTES, "parametric")

    def time_leaderboard(self, shape: str) -> None:
        make_board(shape, N_VOTES, "parametric")

    def peakmem_leaderboard(self, shape: str) -> None:
        make_board(shape, N_VOTES, "parametric")

    def track_resolved_share(self, shape: str) -> float:
        return resolved_share(make_board(shape, N_VOTES, "parametric"))


class BoardFromCounts:
    """A cross-fitted board from counts: ten thousand times the votes cost no more."""

    params = [[10**4, 10**6, 10**8]]
    param_names = ["n"]

    def setup(self, n: int) -> None:
        make_board(BOARD_TARGET, n)

    def time_leaderboard(self, n: int) -> None:
        make_board(BOARD_TARGET, n)

    def peakmem_leaderboard(self, n: int) -> None:
        make_board(BOARD_TARGET, n)


def track_cost_of_a_hundred_times_the_votes() -> float:
    """CPU time at n = 10^8 over that at n = 10^6, both from counts."""
    for n in (10**6, 10**8):
        make_board(BOARD_TARGET, n)
    few, many = (min(seconds(make_board, BOARD_TARGET, n) for _ in range(3)) for n in (10**6, 10**8))
    return many / few
