"""One step of every baseline: those that pick a batch, those that model the whole matrix, those that buy whole rows (extra `bo`)."""

from __future__ import annotations

import functools
from typing import Any

import numpy as np

import lrgittins as lg
from lrgittins._kernels.cells import SEEN
from lrgittins.policies.rasch import fit_rasch
from lrgittins.policy_names import build_policy

SIZES = ["20x200", "122x1000", "500x1500"]
SHARE = 0.1
N_STEPS, N_ROWS = 10, 3


@functools.lru_cache(maxsize=1)
def rasch_matrix(size: str) -> np.ndarray:
    """Binary scores whose log-odds are an arm's ability plus an example's ease."""
    n_arms, n_examples = (int(part) for part in size.split("x"))
    rng = np.random.default_rng(0)
    eta = rng.normal(0, 1, (n_arms, 1)) + rng.normal(0, 1, n_examples)
    scores = (rng.random((n_arms, n_examples)) < 1 / (1 + np.exp(-eta))).astype(float)
    scores.flags.writeable = False
    return scores


def take_step(policy: Any, scores: np.ndarray) -> None:
    """Ask and tell."""
    pull = policy.ask()
    policy.tell(pull, scores[pull.arm, list(pull.examples)])


class Step:
    """Ten steps (divide by ten for one) from a fresh policy's eleventh on; "prompteval" without its fits, which end a phase."""

    params = [["ucb-e", "sysrs", "prompteval"], SIZES]
    param_names = ["policy", "arms_x_examples"]
    number = 1
    warmup_time = 0.0

    def setup(self, policy: str, size: str) -> None:
        self.scores = rasch_matrix(size)
        self.policy = build_policy(policy, lg.ResponseMatrix.from_array(self.scores), budget=SHARE)
        self.time_ten_steps(policy, size)

    def time_ten_steps(self, policy: str, size: str) -> None:
        for _ in range(N_STEPS):
            take_step(self.policy, self.scores)

    def peakmem_ten_steps(self, policy: str, size: str) -> None:
        self.time_ten_steps(policy, size)


class LowRankStep:
    """Ten steps of "ucb-e-lrf" (divide by ten for one): ask, with its fit, and tell. The target at 122 x 1000 is 0.03 s a step."""

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
            take_step(self.policy, self.scores)
        take_step(self.policy, self.scores)

    def time_ten_steps(self, size: str) -> None:
        for _ in range(N_STEPS):
            take_step(self.policy, self.scores)

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


class RowStep:
    """Three rows of the Bayesian-optimisation policies (divide by three for one): the fit of the process over arms, and the row."""

    params = [["pbgi", "logei", "logeipc"], SIZES]
    param_names = ["policy", "arms_x_examples"]
    number = 1
    repeat = 3
    warmup_time = 0.0
    timeout = 300

    def setup(self, policy: str, size: str) -> None:
        self.scores = rasch_matrix(size)
        try:
            self.policy = build_policy(policy, lg.ResponseMatrix.from_array(self.scores), budget=0.5)
        except lg.MissingExtraError as error:
            raise NotImplementedError(str(error)) from error  # asv's way to skip
        for _ in range(self.policy.n_start + 1):
            take_step(self.policy, self.scores)

    def time_three_rows(self, policy: str, size: str) -> None:
        for _ in range(N_ROWS):
            take_step(self.policy, self.scores)
