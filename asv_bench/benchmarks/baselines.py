"""The policies that model the whole matrix: one step of UCB-E-LRF with a tenth of the cells observed, one phase of PromptEval."""

from __future__ import annotations

import numpy as np

import lrgittins as lg
from lrgittins._kernels.cells import SEEN
from lrgittins.policies.rasch import fit_rasch

SIZES = ["20x200", "122x1000", "500x1500"]
SHARE = 0.1


def rasch_matrix(size: str) -> np.ndarray:
    n_arms, n_examples = (int(part) for part in size.split("x"))
    rng = np.random.default_rng(0)
    eta = rng.normal(0, 1, (n_arms, 1)) + rng.normal(0, 1, n_examples)
    return (rng.random((n_arms, n_examples)) < 1 / (1 + np.exp(-eta))).astype(float)


class LowRankStep:
    """Ten steps (divide by ten for one): ask, with its fit, and tell. The target at 122 x 1000 is 0.03 s a step."""

    params = SIZES
    param_names = ["arms_x_examples"]
    number = 1
    repeat = 5
    warmup_time = 0.0

    def setup(self, size: str) -> None:
        self.scores = rasch_matrix(size)
        # The warm-up takes all cells up to the share at which the steps are timed.
        self.policy = lg.LowRankUCBE(*self.scores.shape, warmup=SHARE)
        while self.policy.warming_up:
            self.step()
        self.step()

    def step(self) -> None:
        pull = self.policy.ask()
        self.policy.tell(pull, self.scores[pull.arm, list(pull.examples)])

    def time_ten_steps(self, size: str) -> None:
        for _ in range(10):
            self.step()

    def peakmem_ten_steps(self, size: str) -> None:
        self.time_ten_steps(size)


class PromptEvalRun:
    params = SIZES
    param_names = ["arms_x_examples"]
    number = 1
    repeat = 3
    warmup_time = 0.0

    def setup(self, size: str) -> None:
        self.responses = lg.ResponseMatrix.from_array(rasch_matrix(size))
        rng = np.random.default_rng(1)
        self.kind = np.where(rng.random(self.responses.scores.shape) < SHARE, SEEN, 0).astype(np.uint8)
        self.time_fit(size)
        lg.replay(self.responses, "prompteval", budget=0.01)

    def time_replay(self, size: str) -> None:
        lg.replay(self.responses, "prompteval", budget=SHARE)

    def time_fit(self, size: str) -> None:
        fit_rasch(self.kind, self.responses.scores, anchor=self.kind.shape[1] - 1)
