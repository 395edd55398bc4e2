"""One Python-level ask + tell, saving, and the memory of a policy, at three sizes."""

from __future__ import annotations

import json

import numpy as np

import lrgittins as lg

STEPS = 1000


class AskTell:
    """A thousand ask + tell pairs (divide by a thousand for one), scores drawn beforehand, schedules built in `setup`."""

    params = [["gittins", "ucb-e"], ["122x1000x8", "1500x1534x2", "5000x1000x8"]]
    param_names = ["policy", "arms_x_examples_x_batch"]
    number = 1
    repeat = 5
    warmup_time = 0.0

    def setup(self, policy: str, size: str) -> None:
        n_arms, n_examples, batch = (int(part) for part in size.split("x"))
        kind = {"gittins": lg.GittinsPolicy, "ucb-e": lg.UCBE}[policy]
        self.policy = kind(n_arms, n_examples, batch_size=batch)
        rng = np.random.default_rng(0)
        quality = rng.uniform(0.2, 0.8, n_arms)
        self.scores = (rng.random((n_arms, 512)) < quality[:, None]).astype(float)
        self.batch = batch
        self.run(20)

    def run(self, steps: int) -> None:
        for _ in range(steps):
            pull = self.policy.ask()
            n = len(pull.examples)
            self.policy.tell(pull, self.scores[pull.arm, :n])

    def time_thousand_steps(self, policy: str, size: str) -> None:
        self.run(STEPS)

    def peakmem_policy(self, policy: str, size: str) -> None:
        self.run(STEPS)


class SaveLoad:
    params = [[122, 1500, 5000]]
    param_names = ["n_arms"]

    def setup(self, n_arms: int) -> None:
        self.policy = lg.GittinsPolicy(n_arms, 1000)
        rng = np.random.default_rng(0)
        for _ in range(2000):
            pull = self.policy.ask()
            self.policy.tell(pull, rng.integers(0, 2, len(pull.examples)))
        self.state = self.policy.to_state()

    def time_to_state(self, n_arms: int) -> None:
        self.policy.to_state()

    def time_from_state(self, n_arms: int) -> None:
        lg.GittinsPolicy.from_state(self.state)

    def track_state_bytes(self, n_arms: int) -> int:
        return len(json.dumps(self.state, separators=(",", ":")))

    track_state_bytes.unit = "bytes"  # type: ignore[attr-defined]
