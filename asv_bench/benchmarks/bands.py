"""Simultaneous bands of every family and method, and certificates."""

from __future__ import annotations

from typing import Any

import lrgittins as lg
from lrgittins.bands import FAMILIES, METHODS

from .common import SHAPES, Sized, infer

BAND_METHODS = [method for method in METHODS if method != "one-sided"]  # one-sided claims need a K: see OneSided
TOP_K = 10
N_DRAWS = 2000


class Bands:
    """`GapInference.bands` from a cross-fit that exists."""

    params = [SHAPES, list(FAMILIES), BAND_METHODS]
    param_names = ["shape", "family", "method"]
    timeout = 300

    def setup(self, shape: str, family: str, method: str) -> None:
        infer(SHAPES[0]).bands(family, method=method, n_draws=N_DRAWS)
        self.inference = infer(shape)

    def bands(self, family: str, method: str) -> lg.GapBands:
        return self.inference.bands(family, method=method, n_draws=N_DRAWS)

    def time_bands(self, shape: str, family: str, method: str) -> None:
        self.bands(family, method)

    def peakmem_bands(self, shape: str, family: str, method: str) -> None:
        self.bands(family, method)

    def track_declared_share(self, shape: str, family: str, method: str) -> float:
        return float((self.bands(family, method).to_frame()["sign"] != 0).mean())


class Certificates:
    """`GapInference.certify`: step-down bands, ranks and certificates of every family."""

    params = [SHAPES, list(FAMILIES)]
    param_names = ["shape", "family"]

    def setup(self, shape: str, family: str) -> None:
        infer(SHAPES[0]).certify(TOP_K, family=family, method="step-down", n_draws=N_DRAWS)
        self.inference = infer(shape)

    def certify(self, family: str) -> lg.Leaderboard:
        return self.inference.certify(TOP_K, family=family, method="step-down", n_draws=N_DRAWS)

    def time_certify(self, shape: str, family: str) -> None:
        self.certify(family)

    def peakmem_certify(self, shape: str, family: str) -> None:
        self.certify(family)

    def track_resolved_share(self, shape: str, family: str) -> float:
        return resolved_share(self.certify(family))


class OneSided(Sized):
    """One-sided certificates of every (task, model)."""

    def setup(self, shape: str) -> None:
        self.inference = infer(shape)
        self.certify()

    def certify(self) -> lg.Leaderboard:
        return self.inference.certify(TOP_K, family="cell", method="one-sided", n_draws=N_DRAWS)

    def time_certify(self, shape: str) -> None:
        self.certify()

    def peakmem_certify(self, shape: str) -> None:
        self.certify()

    def track_resolved_share(self, shape: str) -> float:
        return resolved_share(self.certify())


def resolved_share(board: Any) -> float:
    """Share of a board's rows with a certificate either way."""
    return float((board.to_frame()["certificate"] != "unresolved").mean())
