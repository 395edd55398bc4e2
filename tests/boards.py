"""Small inputs shared by the tests of inference, bands, certificates and boards."""

from __future__ import annotations

import numpy as np

import lrgittins as lg


def votes(cells: dict[str, tuple[float, float]], *, task: str = "all", **options) -> lg.Comparisons:
    """Comparisons from {"A:B": (wins of A, wins of B)}; a third number counts ties."""
    rows = []
    for pair, numbers in cells.items():
        a, b = pair.split(":")
        for outcome, count in zip((1.0, 0.0, 0.5), numbers, strict=False):
            rows.append((task, a, b, outcome, int(count)))
    columns = list(zip(*rows, strict=True))
    return lg.Comparisons.from_arrays(
        np.array(columns[0]), np.array(columns[1]), np.array(columns[2]), np.array(columns[3]), np.array(columns[4]), **options
    )


def simulate(n_tasks: int = 6, n_models: int = 7, rank: int = 2, n: int = 1500, seed: int = 0, ties: float = 0.1):
    """True scores and (task, a, b, outcome) codes of votes from a low-rank truth."""
    rng = np.random.default_rng(seed)
    scores = rng.standard_normal((n_tasks, rank)) @ rng.standard_normal((n_models, rank)).T
    scores -= scores.mean(axis=1, keepdims=True)
    scores *= 2.0 / np.abs(scores).max()
    task = rng.integers(n_tasks, size=n)
    a = rng.integers(n_models, size=n)
    b = (a + rng.integers(1, n_models, size=n)) % n_models
    outcome = (rng.random(n) < 1 / (1 + np.exp(-(scores[task, a] - scores[task, b])))).astype(float)
    outcome[rng.random(n) < ties] = 0.5
    return scores, task, a, b, outcome


def names(prefix: str, count: int) -> np.ndarray:
    return np.array([f"{prefix}{i:02d}" for i in range(count)])


def simulated(*, count=None, cluster=None, **options):
    """True scores and Comparisons of `simulate`."""
    scores, task, a, b, outcome = simulate(**options)
    tasks, models = names("t", scores.shape[0]), names("m", scores.shape[1])
    return scores, lg.Comparisons.from_arrays(tasks[task], models[a], models[b], outcome, count, cluster=cluster)


THREE = {"A:B": (8, 2), "A:C": (9, 1), "B:C": (7, 3)}
CYCLE = {"A:B": (1, 0), "B:C": (1, 0), "C:A": (1, 0)}
TREE = {"A:B": (3, 1), "B:C": (3, 1)}
ISLANDS = {"A:B": (3, 1), "C:D": (3, 1)}
WINLESS = {"A:B": (3, 1), "A:C": (2, 0), "B:C": (2, 0)}
