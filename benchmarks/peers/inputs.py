"""Seeded inputs as a user holds them: data frames of names and verdicts, score matrices. Needs numpy and pandas only."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd


@dataclass(frozen=True)
class Size:
    """How large the inputs are: votes and models of the single fits, (tasks, models, votes) of the per-task ones, arms and examples."""

    votes: int
    resampled_votes: int  # for peers whose intervals come from resampling every vote
    models: int
    resamples: int
    tasks: tuple[tuple[int, int, int], ...]
    matrix: tuple[int, int]
    steps: int


SIZES = {
    "full": Size(1_000_000, 100_000, 100, 100, ((10, 30, 81_150), (50, 50, 32_000)), (122, 1000), 20),
    "small": Size(20_000, 5_000, 20, 20, ((3, 8, 3_000),), (12, 400), 5),
    "tiny": Size(2_000, 1_000, 6, 10, ((2, 4, 600),), (5, 60), 2),  # for tests
}


def simulated_votes(n_votes: int, n_models: int, n_tasks: int = 1, *, seed: int = 0) -> pd.DataFrame:
    """Bradley-Terry votes without ties: columns task, model_a, model_b, winner ("model_a" or "model_b").

    The seed moves on until every task's maximum-likelihood scores exist: peers differ in what they do where none exist.
    """
    while True:
        rng = np.random.default_rng(seed)
        strength = 0.7 * rng.standard_normal((n_tasks, n_models))
        task = np.sort(rng.integers(n_tasks, size=n_votes))
        first = rng.integers(n_models, size=n_votes)
        second = (first + rng.integers(1, n_models, size=n_votes)) % n_models
        won = rng.random(n_votes) < 1.0 / (1.0 + np.exp(strength[task, second] - strength[task, first]))
        if all(_is_strongly_connected(first[task == t], second[task == t], won[task == t], n_models) for t in range(n_tasks)):
            break
        seed += 1
    names = np.array([f"model-{i:03d}" for i in range(n_models)], dtype=object)
    tasks = np.array([f"task-{t:02d}" for t in range(n_tasks)], dtype=object)
    winner = np.array(["model_b", "model_a"], dtype=object)[won.astype(np.int64)]  # few objects many times, as readers of files make them
    order = rng.permutation(n_votes)
    return (
        pd.DataFrame({"task": tasks[task], "model_a": names[first], "model_b": names[second], "winner": winner})
        .iloc[order]
        .reset_index(drop=True)
    )


def _is_strongly_connected(first: np.ndarray, second: np.ndarray, won: np.ndarray, n_models: int) -> bool:
    reach = np.eye(n_models, dtype=bool)
    reach[np.where(won, first, second), np.where(won, second, first)] = True
    for _ in range(max(1, int(np.ceil(np.log2(n_models))))):
        reach = (reach.astype(float) @ reach) > 0
    return bool(reach.all())


def observed_matrix(n_arms: int, n_examples: int, share: float, *, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """A full 0/1 score matrix of the Rasch kind, and the same with all but a random `share` of cells NaN."""
    rng = np.random.default_rng(seed)
    logits = rng.normal(0, 1, (n_arms, 1)) + rng.normal(0, 1, n_examples)
    scores = (rng.random((n_arms, n_examples)) < 1.0 / (1.0 + np.exp(-logits))).astype(np.float64)
    seen = np.where(rng.random(scores.shape) < share, scores, np.nan)
    return scores, seen


def win_matrix(frame: pd.DataFrame) -> tuple[np.ndarray, list[Any]]:
    """What users of matrix interfaces write themselves: names to codes, then wins of row over column, in three library calls."""
    codes, names = pd.factorize(pd.concat([frame["model_a"], frame["model_b"]]), sort=True)
    first, second = codes[: len(frame)], codes[len(frame) :]
    won = (frame["winner"] == "model_a").to_numpy()
    n = len(names)
    key = np.where(won, first * n + second, second * n + first)
    return np.bincount(key, minlength=n * n).reshape(n, n).astype(float), list(names)


def resample_wins(wins: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A bootstrap sample of the votes behind a win matrix."""
    total = wins.sum()
    return rng.multinomial(int(total), wins.ravel() / total).reshape(wins.shape).astype(float)
