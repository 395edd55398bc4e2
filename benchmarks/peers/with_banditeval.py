"""banditeval: a step (choose a batch, take its scores) of UCB-E, plain and with low-rank factorisation, from the same observed cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import torch
from banditeval.bandits import upper_confidence_bound_exploration, upper_confidence_bound_exploration_low_rank_factorization

import lrgittins as lg

from .inputs import Size, observed_matrix
from .timing import Case

BATCH, SHARE = 32, 0.1


def start(policy: Any, seen: np.ndarray) -> Any:
    """Give a policy the cells that are observed already."""
    for arm, example in zip(*np.nonzero(~np.isnan(seen)), strict=True):
        policy.attach(policy.arms[arm], int(example), float(seen[arm, example]))
    return policy


def our_steps(policy: Any, scores: np.ndarray, n_steps: int) -> None:
    for _ in range(n_steps):
        pull = policy.ask()
        policy.tell(pull, scores[policy.arms.index(pull.arm), list(pull.examples)])


def their_steps(step: Callable[..., Any], observed: torch.Tensor, truth: torch.Tensor, n_steps: int) -> None:
    """What `BanditEval.__call__` does with what a step returns."""
    for _ in range(n_steps):
        rows, columns = step(observed, batch_size=BATCH)
        observed[rows, columns] = truth[rows, columns]


def cases(size: Size) -> Iterator[Case]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    n_arms, n_examples = size.matrix
    scores, seen = observed_matrix(n_arms, n_examples, SHARE)
    truth = torch.tensor(scores, dtype=torch.float32)
    arguments = {"batch_size": BATCH, "random_state": 0}
    sides: list[tuple[str, str, Callable[..., Any], Any, int, str]] = [
        ("UCB-E", "row means", upper_confidence_bound_exploration, lg.UCBE(n_arms, n_examples, **arguments), size.steps, ""),
        (
            "UCB-E-LRF", "row means (64 random factorisations a side)", upper_confidence_bound_exploration_low_rank_factorization,
            lg.LowRankUCBE(n_arms, n_examples, **arguments), max(1, size.steps // 10), ", 64 factorisations",
        ),
    ]  # fmt: skip
    for name, unit, step, policy, n_steps, what in sides:
        observed = torch.tensor(seen, dtype=torch.float32)
        start(policy, seen)
        # Both sides move on from run to run; their answers are compared here, where they have seen the same cells.
        _, means = step(observed.clone(), batch_size=BATCH, return_mus=True)
        ours = policy.posterior().set_index("arm")["mean"].reindex(policy.arms).to_numpy()
        difference = float(np.nanmax(np.abs(means.numpy() - ours)))
        yield Case(
            "step", f"{n_steps} {'step' if n_steps == 1 else 'steps'} of {name}, {n_arms} arms x {n_examples} examples, a tenth observed",
            f"one call and one assignment a step{what}", "ask and tell",
            lambda step=step, observed=observed, n_steps=n_steps: their_steps(step, observed, truth, n_steps),
            lambda policy=policy, n_steps=n_steps: our_steps(policy, scores, n_steps),
            lambda theirs, ours, difference=difference: difference, unit,
        )  # fmt: skip
