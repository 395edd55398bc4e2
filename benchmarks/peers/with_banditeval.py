"""banditeval: a step (choose a batch, take its scores) of UCB-E, plain and with low-rank factorisation, from the same observed cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
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


@dataclass(frozen=True)
class Rule:
    """One rule on both sides. Each side moves on from run to run; `difference` compares their answers at the start, on the same cells."""

    name: str
    step: Callable[..., Any]
    policy: Any
    scores: np.ndarray
    observed: torch.Tensor
    difference: float
    unit: str
    note: str = ""


def begin(name: str, step: Callable[..., Any], policy: Any, scores: np.ndarray, seen: np.ndarray, unit: str, note: str = "") -> Rule:
    """Both sides, from the same observed cells."""
    observed = torch.tensor(seen, dtype=torch.float32)
    start(policy, seen)
    _, means = step(observed.clone(), batch_size=BATCH, return_mus=True)
    ours = policy.posterior().set_index("arm")["mean"].reindex(policy.arms).to_numpy()
    return Rule(name, step, policy, scores, observed, float(np.nanmax(np.abs(means.numpy() - ours))), unit, note)


def our_steps(rule: Rule, n_steps: int) -> None:
    for _ in range(n_steps):
        pull = rule.policy.ask()
        rule.policy.tell(pull, rule.scores[rule.policy.arms.index(pull.arm), list(pull.examples)])


def their_steps(rule: Rule, truth: torch.Tensor, n_steps: int) -> None:
    """What `BanditEval.__call__` does with what a step returns."""
    for _ in range(n_steps):
        rows, columns = rule.step(rule.observed, batch_size=BATCH)
        rule.observed[rows, columns] = truth[rows, columns]


def steps(rule: Rule, n_steps: int) -> Case:
    """So many steps; over budget, half as many."""
    n_arms, n_examples = rule.scores.shape
    truth = torch.tensor(rule.scores, dtype=torch.float32)
    count = f"{n_steps} {'step' if n_steps == 1 else 'steps'}"
    return Case(
        "step", f"{count} of {rule.name}, {n_arms} arms x {n_examples} examples, a tenth observed",
        f"one call and one assignment a step{rule.note}", "ask and tell",
        lambda: their_steps(rule, truth, n_steps), lambda: our_steps(rule, n_steps), lambda theirs, ours: rule.difference, rule.unit,
        smaller=(lambda: steps(rule, n_steps // 2)) if n_steps > 1 else None,
    )  # fmt: skip


def cases(size: Size) -> Iterator[Case]:
    torch.manual_seed(0)
    torch.set_num_threads(1)
    shape = size.matrix
    scores, seen = observed_matrix(*shape, SHARE)
    plain = lg.UCBE(*shape, batch_size=BATCH, random_state=0)
    yield steps(begin("UCB-E", upper_confidence_bound_exploration, plain, scores, seen, "row means"), size.steps)
    low_rank = lg.LowRankUCBE(*shape, batch_size=BATCH, random_state=0)
    rule = begin(
        "UCB-E-LRF", upper_confidence_bound_exploration_low_rank_factorization, low_rank, scores, seen,
        "row means (64 random factorisations a side)", ", 64 factorisations",
    )  # fmt: skip
    yield steps(rule, max(1, size.steps // 10))
