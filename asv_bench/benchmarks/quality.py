"""How good the answers are, on fixed seeds, beside what they cost: a figure here that moves is a change of results, not of speed."""

from __future__ import annotations

import functools

import numpy as np

import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons

from .common import N_VOTES, RANK, SHAPES, Sized, parse_shape, seconds, top_k_loss
from .replay import SIZES, make

SEEDS = range(3)
GRID_METHODS = ["panel", "banded", "fft"]


@functools.lru_cache(maxsize=4)
def sample(shape: str, seed: int) -> tuple[lg.Comparisons, np.ndarray]:
    """Votes and the scores they come from; the seed decides both."""
    truth = low_rank_scores(*parse_shape(shape), RANK, random_state=seed)
    return simulate_comparisons(truth, N_VOTES, random_state=seed), truth.to_numpy()


def samples(shape: str) -> list[tuple[lg.Comparisons, np.ndarray]]:
    """Every seed's votes and truth."""
    return [sample(shape, seed) for seed in SEEDS]


class Hamming(Sized):
    """Top-5 loss of the default estimator (automatic rank), mean of three seeds."""

    timeout = 600

    def setup(self, shape: str) -> None:
        lg.LowRankBradleyTerry().fit(sample("20x20", 0)[0])

    def loss(self, shape: str) -> float:
        return float(
            np.mean([top_k_loss(lg.LowRankBradleyTerry().fit(votes).scores_.to_numpy(), truth) for votes, truth in samples(shape)])
        )

    def track_top_5_loss(self, shape: str) -> float:
        return self.loss(shape)

    def track_fit_seconds(self, shape: str) -> float:
        votes, _ = sample(shape, 0)
        return min(seconds(lg.LowRankBradleyTerry().fit, votes) for _ in range(3))

    track_fit_seconds.unit = "s"  # type: ignore[attr-defined]


class Coverage:
    """95 % max-t bands of one seed: the share of tasks whose band covers all of that task's gaps, and the bands' width."""

    params = [SHAPES, ["cross-fit", "parametric"]]
    param_names = ["shape", "calibration"]
    timeout = 600

    def setup(self, shape: str, calibration: str) -> None:
        votes, self.truth = sample(shape, 0)
        inference = lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=RANK), calibration=calibration)
        self.bands = inference.bands("task", method="max-t").to_frame()

    def track_covered_tasks(self, shape: str, calibration: str) -> float:
        first, second = np.triu_indices(self.truth.shape[1], 1)
        gaps = (self.truth[:, first] - self.truth[:, second]).ravel()  # the order of `bands`: tasks, then pairs
        inside = (self.bands["low"].to_numpy() <= gaps) & (gaps <= self.bands["high"].to_numpy())
        return float(inside.reshape(len(self.truth), -1).all(axis=1).mean())

    def track_median_width(self, shape: str, calibration: str) -> float:
        return float((self.bands["high"] - self.bands["low"]).median())


class Roots:
    """Error of `root_schedule` against the panel method at 1e-10, over its tolerance: at most 1."""

    params = [GRID_METHODS, ["100x8", "1000x8", "1534x2"]]
    param_names = ["method", "n_examples_x_batch"]
    timeout = 300

    def setup(self, method: str, size: str) -> None:
        n_examples, batch = (int(part) for part in size.split("x"))
        self.options = {"n_examples": n_examples, "batch_size": batch}
        self.tol = 1e-6 if method == "panel" else 1e-5  # as in induction.OneSchedule

    def track_error_over_tolerance(self, method: str, size: str) -> float:
        exact = lg.root_schedule(1.0, **self.options, method="panel", tol=1e-10).roots
        return float(np.abs(lg.root_schedule(1.0, **self.options, method=method, tol=self.tol).roots - exact).max() / self.tol)


class Regret:
    """The default policy on fixed matrices: mean simple regret after a fiftieth and a tenth of the cost."""

    params = SIZES
    param_names = ["arms_x_examples_x_batch"]
    timeout = 300

    def setup(self, size: str) -> None:
        responses, batch = make(size)
        self.comparison = lg.compare(responses, "gittins", budget=0.1, n_runs=5, batch_size=batch, progress=False)

    def track_regret(self, size: str) -> float:
        return float(self.comparison.at(0.1)["regret"].iloc[0])

    def track_regret_at_a_fiftieth(self, size: str) -> float:
        return float(self.comparison.at(0.02)["regret"].iloc[0])
