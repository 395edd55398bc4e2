"""One-step scores, bands of every method and family, and whole boards."""

from __future__ import annotations

from typing import Any

import numpy as np

import lrgittins as lg
from lrgittins.bands import METHODS

from .common import RANK, SHAPES, Sized, seconds, votes

BAND_METHODS = [method for method in METHODS if method != "one-sided"]  # one-sided claims are made by `certify`
BOARD_TARGET = "50x50"


def infer(shape: str, n: int = 32_000) -> Any:
    return lg.infer_gaps(votes(shape, n), lg.LowRankBradleyTerry(rank=RANK))


def make_board(shape: str, n: int) -> Any:
    """The board of the speed target: everything at once, 2000 draws."""
    return lg.leaderboard(votes(shape, n), rank=RANK, family="all", n_draws=2000, calibration="cross-fit")


class OneStep(Sized):
    """Cross-fitted one-step scores with their noise (six fits and Fisher solves)."""

    def setup(self, shape: str) -> None:
        infer(shape)

    def time_infer_gaps(self, shape: str) -> None:
        infer(shape)

    def peakmem_infer_gaps(self, shape: str) -> None:
        infer(shape)

    def track_fisher_condition(self, shape: str) -> float:
        return float(infer(shape).diagnostics["fisher_condition"]["value"])


class Wald(Sized):
    """Per-task baseline through the same functions."""

    def setup(self, shape: str) -> None:
        self.estimator = lg.PerTaskBradleyTerry()
        self.infer(shape)

    def infer(self, shape: str) -> Any:
        return lg.infer_gaps(votes(shape), self.estimator)

    def time_infer_gaps(self, shape: str) -> None:
        self.infer(shape)

    def peakmem_infer_gaps(self, shape: str) -> None:
        self.infer(shape)


class Bands:
    """Simultaneous bands over all gaps."""

    params = [SHAPES, BAND_METHODS]
    param_names = ["shape", "method"]

    def setup(self, shape: str, method: str) -> None:
        self.inference = infer(shape)
        self.bands(method)

    def bands(self, method: str) -> Any:
        return self.inference.bands("all", method=method, n_draws=2000)

    def time_bands(self, shape: str, method: str) -> None:
        self.bands(method)

    def peakmem_bands(self, shape: str, method: str) -> None:
        self.bands(method)

    def track_declared_share(self, shape: str, method: str) -> float:
        return float(np.mean(self.bands(method).to_frame()["sign"] != 0))


class Families:
    """A board of every family, one claim each."""

    params = [["cell", "model", "task", "all"]]
    param_names = ["family"]

    def setup(self, family: str) -> None:
        self.inference = infer("50x50")
        self.certify(family)

    def certify(self, family: str) -> Any:
        return self.inference.certify(10, family=family, n_draws=2000)

    def time_certify(self, family: str) -> None:
        self.certify(family)

    def peakmem_certify(self, family: str) -> None:
        self.certify(family)


class Board(Sized):
    """`leaderboard(rank=5, family="all", n_draws=2000)` at n = 32,000."""

    timeout = 600

    def setup(self, shape: str) -> None:
        make_board(shape, 32_000)

    def time_leaderboard(self, shape: str) -> None:
        make_board(shape, 32_000)

    def peakmem_leaderboard(self, shape: str) -> None:
        make_board(shape, 32_000)

    def track_resolved_share(self, shape: str) -> float:
        return float((make_board(shape, 32_000).to_frame()["certificate"] != "unresolved").mean())


class BoardFromCounts:
    """The same shape from counts: ten thousand times the votes cost no more."""

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
