"""Whole replays of a 10 % budget, schedules cached and kernels compiled in `setup`; comparisons of several runs."""

from __future__ import annotations

import numpy as np

import lrgittins as lg

SIZES = ["56x805x8", "122x1000x8", "1500x1534x2"]


def make(size: str) -> tuple[lg.ResponseMatrix, int]:
    """Binary cells, fifteen prices; the batch size."""
    n_arms, n_examples, batch = (int(part) for part in size.split("x"))
    rng = np.random.default_rng(0)
    quality = rng.uniform(0.2, 0.8, n_arms)
    scores = (rng.random((n_arms, n_examples)) < quality[:, None]).astype(float)
    prices = rng.uniform(0.2, 3.0, 15)[np.arange(n_arms) % 15]
    return lg.ResponseMatrix.from_array(scores, cost=prices), batch


class Replay:
    """`replay` of a policy that was built outside the timing (a fresh one each time: `number` is 1)."""

    params = [["gittins", "gittins-g", "ucb-e", "sysrs"], SIZES]
    param_names = ["policy", "arms_x_examples_x_batch"]
    number = 1
    repeat = 10
    warmup_time = 0.0
    budget = 0.1

    def setup(self, policy: str, size: str) -> None:
        self.responses, self.batch = make(size)
        lg.replay(self.responses, self.build(policy), budget=self.budget)
        self.policy = self.build(policy)

    def build(self, policy: str) -> lg.Policy:
        arguments = {**self.responses.policy_arguments(), "batch_size": self.batch}
        if policy == "gittins":
            return lg.GittinsPolicy(**arguments)
        if policy == "gittins-g":
            return lg.GittinsPolicy.paper(**arguments)
        if policy == "ucb-e":
            return lg.UCBE(**arguments)
        return lg.SySRs(**arguments, budget=int(self.budget * self.responses.n_cells.sum()))

    def time_replay(self, policy: str, size: str) -> None:
        lg.replay(self.responses, self.policy, budget=self.budget)

    def peakmem_replay(self, policy: str, size: str) -> None:
        lg.replay(self.responses, self.policy, budget=self.budget)

    def track_batches(self, policy: str, size: str) -> int:
        return lg.replay(self.responses, self.policy, budget=self.budget).n_steps


class Compare:
    """Five runs of all policies, construction included, in this process."""

    params = SIZES
    param_names = ["arms_x_examples_x_batch"]
    number = 1
    repeat = 3
    timeout = 300.0

    def setup(self, size: str) -> None:
        self.responses, self.batch = make(size)
        self.run(1)

    def run(self, n_runs: int) -> lg.PolicyComparison:
        names = ["gittins", "gittins-g", "gittins-s", "ucb-e", "sysrs"]
        return lg.compare(self.responses, names, n_runs=n_runs, batch_size=self.batch, progress=False)

    def time_five_runs(self, size: str) -> None:
        self.run(5)

    def peakmem_five_runs(self, size: str) -> None:
        self.run(5)

    def track_sum_of_regret(self, size: str) -> float:
        table = self.run(5).at()
        return float(table.loc[table["policy"] == "gittins", "regret"].sum())
