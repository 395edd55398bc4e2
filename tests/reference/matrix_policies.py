"""The policies that model the whole matrix, straight from their formulas: dicts, loops, one cell and one member at a time.

Everything is by position (columns in the policy's example order). Random draws are given.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

Cell = tuple[int, int]
Step = tuple[int, tuple[int, ...]]
Matrix = NDArray[np.float64]


def take_in_sequence(sequence: Sequence[Cell], batch: int, limit: int) -> Iterator[Step]:
    """The cells of a sequence, batched: always the arm of the first one left, with its next cells."""
    left = list(sequence)[:]
    taken = 0
    while left and taken < limit:
        arm = left[0][0]
        cells = [cell for cell in left if cell[0] == arm][: min(batch, limit - taken)]
        left = [cell for cell in left if cell not in cells]
        taken += len(cells)
        yield arm, tuple(sorted(position for _, position in cells))


def fit_member(
    seen: dict[Cell, float], start: Sequence[float], n_columns: int, ridge: float, iterations: int
) -> tuple[list[float], list[float]]:
    """Rank-1 alternating least squares of one member on the cells it keeps."""
    u, v = list(start), [0.0] * n_columns
    for _ in range(iterations):
        for j in range(n_columns):
            mine = [(u[i], y) for (i, jj), y in seen.items() if jj == j]
            v[j] = sum(x * y for x, y in mine) / (ridge + sum(x * x for x, _ in mine))
        for i in range(len(u)):
            mine = [(v[j], y) for (ii, j), y in seen.items() if ii == i]
            u[i] = sum(x * y for x, y in mine) / (ridge + sum(x * x for x, _ in mine))
    return u, v


def impute(
    seen: dict[Cell, float], shape: tuple[int, int], start: Matrix, keep: NDArray[np.uint8], ridge: float, iterations: int
) -> tuple[Matrix, Matrix]:
    """Mean and standard deviation of every cell over the members; `keep` has one row per seen cell, row by row."""
    members = []
    cells = sorted(seen)
    for m in range(start.shape[1]):
        kept = {cell: seen[cell] for cell, flags in zip(cells, keep, strict=True) if flags[m]}
        u, v = fit_member(kept, start[:, m].tolist(), shape[1], ridge, iterations)
        members.append(np.outer(u, v))
    return np.mean(members, axis=0), np.std(members, axis=0, ddof=1)


def slow_low_rank_ucb_e(
    scores: Matrix,
    exists: NDArray[np.bool_],
    warmup: Sequence[Cell],
    ties: Sequence[int],
    draw: Callable[[int], tuple[Matrix, NDArray[np.uint8]]],
    *,
    batch: int,
    bonus: float = 5.0,
    ridge: float = 0.1,
    iterations: int = 10,
) -> tuple[list[Step], list[int], list[int]]:
    """Every pull until all cells are seen; after each, the best imputed (in the warm-up: observed) and the best observed mean."""
    n_arms, n_columns = scores.shape
    seen: dict[Cell, float] = {}
    steps: list[Step] = []
    imputed_best, observed_best = [], []
    row = [[j for j in range(n_columns) if exists[k, j]] for k in range(n_arms)]

    def best(values: Sequence[float]) -> int:
        return max(ties, key=lambda k: round(values[k], 9))

    def model() -> tuple[Matrix, Matrix]:
        return impute(seen, scores.shape, *draw(len(seen)), ridge, iterations)

    def record(arm: int, positions: tuple[int, ...]) -> None:
        seen.update({(arm, j): float(scores[arm, j]) for j in positions})
        steps.append((arm, positions))
        observed = [[seen[k, j] for j in row[k] if (k, j) in seen] for k in range(n_arms)]
        means = [sum(s) / len(s) if s else -math.inf for s in observed]
        observed_best.append(best(means))
        if len(seen) < len(warmup):
            imputed_best.append(best(means))
        else:
            mean = model()[0]
            imputed_best.append(best([sum(seen.get((k, j), mean[k, j]) for j in row[k]) / len(row[k]) for k in range(n_arms)]))

    for arm, positions in take_in_sequence(warmup, batch, len(warmup)):
        record(arm, positions)
    while len(seen) < sum(map(len, row)):
        mean, std = model()
        values = []
        for k in range(n_arms):
            mine = [j for j in row[k] if (k, j) in seen]
            if len(mine) == len(row[k]):
                values.append(-math.inf)
            elif not mine:
                values.append(math.inf)
            else:
                values.append(sum(seen.get((k, j), mean[k, j] + bonus * std[k, j]) for j in row[k]) / len(row[k]))
        arm = best(values)
        free = [j for j in row[arm] if (arm, j) not in seen]
        chosen = sorted(free, key=lambda j: (-round(std[arm, j], 9), j))[:batch]
        record(arm, tuple(sorted(chosen)))
    return steps, imputed_best, observed_best


def fit_rasch_dense(seen: dict[Cell, float], shape: tuple[int, int], anchor: int, penalty: float) -> Matrix:
    """Probabilities of all cells: logistic regression on the one-hot design without the anchor's column, by dense Newton steps."""
    n_arms, n_columns = shape

    def features(cell: Cell) -> list[float]:
        effects = [float(k == cell[0]) for k in range(n_arms)]
        return effects + [float(j == cell[1]) for j in range(n_columns) if j != anchor]

    design = np.array([features(cell) for cell in seen]).reshape(len(seen), n_arms + n_columns - 1)
    outcome = np.array(list(seen.values()))
    weights = np.zeros(design.shape[1])

    def loss(w: Matrix) -> float:
        eta = design @ w
        return float(0.5 * w @ w + penalty * (np.logaddexp(0.0, eta) - outcome * eta).sum())

    for _ in range(200):
        chance = 1.0 / (1.0 + np.exp(-(design @ weights)))
        gradient = weights + penalty * design.T @ (chance - outcome)
        if np.abs(gradient).max() < 1e-9:
            break
        hessian = np.eye(len(weights)) + penalty * (design.T * (chance * (1 - chance))) @ design
        step = np.linalg.solve(hessian, gradient)
        size = 1.0
        while size > 1e-3 and loss(weights - size * step) > loss(weights) + 1e-9:
            size /= 2
        weights = weights - size * step
    every = np.array([features((k, j)) for k in range(n_arms) for j in range(n_columns)])
    return (1.0 / (1.0 + np.exp(-(every @ weights)))).reshape(shape)


def slow_prompteval(
    scores: Matrix,
    exists: NDArray[np.bool_],
    phases: Sequence[int],
    ties: Sequence[int],
    rng: np.random.Generator,
    anchor: int,
    *,
    batch: int,
    penalty: float = 100.0,
) -> tuple[list[Step], list[list[int]], list[dict[int, float]]]:
    """Every pull, the survivors after each phase, and the estimates behind each drop."""
    n_arms, n_columns = scores.shape
    alive = list(range(n_arms))
    seen: dict[Cell, float] = {}
    steps, survivors, estimates = [], [], []
    for size in phases:
        draws = rng.random((min(size, int(exists.sum())), 2))
        drawn: list[Cell] = []
        for u, v in draws:
            known = set(seen) | set(drawn)
            unseen = {k: [j for j in range(n_columns) if exists[k, j] and (k, j) not in known] for k in alive}
            counts = {k: sum(1 for cell in known if cell[0] == k) for k in alive if unseen[k]}
            if not counts:
                break
            rows = [k for k in counts if counts[k] == min(counts.values())]
            arm = rows[math.floor(u * len(rows))]
            uses = {j: sum(1 for cell in known if cell[1] == j) for j in unseen[arm]}
            columns = [j for j in uses if uses[j] == min(uses.values())]
            drawn.append((arm, columns[math.floor(v * len(columns))]))
        steps += list(take_in_sequence(drawn, batch, len(drawn)))
        seen.update({cell: float(scores[cell]) for cell in drawn})
        chance = fit_rasch_dense(seen, scores.shape, anchor, penalty)
        estimate = {}
        for k in alive:
            row = [seen.get((k, j), float(chance[k, j])) for j in range(n_columns) if exists[k, j]]
            estimate[k] = sum(row) / len(row)
        estimates.append(estimate)
        n_dropped = math.ceil(len(alive) / 2)
        if len(alive) - n_dropped > 0:
            ranked = sorted(alive, key=lambda k: (round(estimate[k], 9), -list(ties).index(k)))
            alive = [k for k in alive if k not in ranked[:n_dropped]]
        survivors.append(list(alive))
    return steps, survivors, estimates
