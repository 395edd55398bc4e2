"""From votes to gaps with errors: the one-step alone, cross-fitted, repeated, and calibrated parametrically; the per-task baseline."""

from __future__ import annotations

from typing import Any

import numpy as np

import lrgittins as lg
from lrgittins.one_step import full_data_step

from .common import RANK, Sized, infer, votes

N_SPLITS = 3


class OneStep(Sized):
    """One-step scores and their noise at a fit that exists: gradient, Fisher build, factor and solves."""

    def setup(self, shape: str) -> None:
        self.table = votes(shape)._table
        self.fit = lg.LowRankBradleyTerry(rank=RANK)._fit_table(self.table)
        self.step()

    def step(self) -> Any:
        n_models = self.table.n_models
        return full_data_step(self.table, self.fit, "empirical", np.arange(n_models), n_models)

    def time_one_step(self, shape: str) -> None:
        self.step()

    def peakmem_one_step(self, shape: str) -> None:
        self.step()

    def track_largest_correction(self, shape: str) -> float:
        return float(np.abs(self.step().correction).max())


class InferGaps(Sized):
    """Base: a whole `infer_gaps`, with the calibration named."""

    timeout = 300

    def setup(self, shape: str) -> None:
        self.votes = votes(shape)
        self.infer()

    def infer(self) -> lg.GapInference:
        raise NotImplementedError


class CrossFit(InferGaps):
    """The paper's calibration: six training fits, one-steps and Fisher solves."""

    def infer(self) -> lg.GapInference:
        return lg.infer_gaps(self.votes, lg.LowRankBradleyTerry(rank=RANK), calibration="cross-fit")

    def time_infer_gaps(self, shape: str) -> None:
        self.infer()

    def peakmem_infer_gaps(self, shape: str) -> None:
        self.infer()

    def track_fisher_condition(self, shape: str) -> float:
        return float(self.infer().diagnostics["fisher_condition"]["value"])

    def track_median_std_error(self, shape: str) -> float:
        return float(self.infer().gaps()["std_error"].median())


class RepeatedCrossFit(InferGaps):
    """The mean over three independent splits into folds."""

    def infer(self) -> lg.GapInference:
        return lg.infer_gaps(self.votes, lg.LowRankBradleyTerry(rank=RANK), calibration="cross-fit", n_splits=N_SPLITS)

    def time_infer_gaps(self, shape: str) -> None:
        self.infer()

    def peakmem_infer_gaps(self, shape: str) -> None:
        self.infer()

    def track_split_spread(self, shape: str) -> float:
        return float(self.infer().diagnostics["split_spread"]["value"])


class Parametric(InferGaps):
    """One fit of all data and thirty refits of simulated votes (the default for fits that polish)."""

    def infer(self) -> lg.GapInference:
        return lg.infer_gaps(self.votes, lg.LowRankBradleyTerry(rank=RANK), calibration="parametric")

    def time_infer_gaps(self, shape: str) -> None:
        self.infer()

    def peakmem_infer_gaps(self, shape: str) -> None:
        self.infer()

    def track_median_std_error(self, shape: str) -> float:
        return float(self.infer().gaps()["std_error"].median())


class Wald(InferGaps):
    """Per-task baseline through the same function; its inference needs no calibration."""

    def infer(self) -> lg.GapInference:
        return lg.infer_gaps(self.votes, lg.PerTaskBradleyTerry())

    def time_infer_gaps(self, shape: str) -> None:
        self.infer()

    def peakmem_infer_gaps(self, shape: str) -> None:
        self.infer()


class Covariance(Sized):
    """The joint covariance of 500 gaps of a cross-fit."""

    def setup(self, shape: str) -> None:
        self.inference = infer(shape)
        self.contrasts = list(self.inference.gaps()[["task", "model", "versus"]].iloc[:500].itertuples(index=False, name=None))
        self.time_covariance(shape)

    def time_covariance(self, shape: str) -> None:
        self.inference.covariance(self.contrasts)
