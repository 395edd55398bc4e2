"""Who has been asked what: the state of every (arm, example) cell, the pending pulls and the money.

Cells are addressed by their *position* in the arm's own example order, so "the next examples of arm k" are its first
free positions and the score sum runs in that order whatever the order of the tells. Rows are allocated when an arm
is first touched: memory is O(arms) plus the rows in use, beyond the example order itself.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lrgittins.policies.protocol import Pull

IntArray = NDArray[np.int64]
FloatArray = NDArray[np.float64]

FREE, PENDING, TOLD, ATTACHED, MISSING = 0, 1, 2, 3, 4


@dataclass(frozen=True, eq=False)
class PendingPull:
    """One batch that was handed out and not yet told."""

    pull: Pull  # as handed out; its cost is what is reserved
    arm: int
    positions: IntArray  # in the arm's example order, ascending
    issued: float  # seconds since the epoch: ages survive a save and a restart


class CellLedger:
    """Cell states, score sums, pending pulls, spend. Not thread-safe by itself: the policy holds the lock.

    Attributes
    ----------
    order : ndarray of int64, shape (N,) or (K, N)
        Example at each position, shared by all arms or one row per arm.
    n_cells, n_seen, n_pending, n_errors : ndarray of int64, shape (K,)
        Cells of the arm that exist; observed (told or attached); pending; failed evaluations so far.
    total : ndarray of float64, shape (K,)
        Sum of the observed scores, added in example order.
    """

    def __init__(self, order: IntArray, n_arms: int, missing: NDArray[np.bool_] | None) -> None:
        self.order = order
        self.n_arms = n_arms
        self.width = int(order.shape[-1])
        self.n_cells = np.full(n_arms, self.width, dtype=np.int64)
        self.n_seen = np.zeros(n_arms, dtype=np.int64)
        self.n_pending = np.zeros(n_arms, dtype=np.int64)
        self.n_errors = np.zeros(n_arms, dtype=np.int64)
        self.n_attached = 0
        self.total = np.zeros(n_arms)
        self.spent = 0.0
        self.pending: dict[str, PendingPull] = {}
        self.failures: dict[tuple[int, int], int] = {}
        self._first_free = [0] * n_arms  # nothing below is free
        self._top = [0] * n_arms  # nothing from here on is observed
        self._state: list[NDArray[np.uint8] | None] = [None] * n_arms
        self._score: list[FloatArray | None] = [None] * n_arms
        if missing is not None:
            for k in np.flatnonzero(missing.any(axis=1)).tolist():
                absent = missing[k][self.order_of(k)]
                self._state[k] = np.where(absent, MISSING, FREE).astype(np.uint8)
                self.n_cells[k] -= int(absent.sum())

    def order_of(self, arm: int) -> IntArray:
        """Examples of the arm in its order, shape (N,)."""
        return self.order if self.order.ndim == 1 else self.order[arm]

    def position_of(self, arm: int, example: int) -> int:
        return int(np.flatnonzero(self.order_of(arm) == example)[0])

    def state_of(self, arm: int) -> NDArray[np.uint8]:
        """Cell states of the arm by position, shape (N,); allocated here on first use."""
        row = self._state[arm]
        if row is None:
            row = self._state[arm] = np.zeros(self.width, dtype=np.uint8)
        return row

    def scores_of(self, arm: int) -> FloatArray:
        """Scores by position, shape (N,), 0 where nothing was observed; allocated here on first use."""
        row = self._score[arm]
        if row is None:
            row = self._score[arm] = np.zeros(self.width)
        return row

    def touched(self, arm: int) -> bool:
        """Whether the arm has a row of its own (something happened to it, or cells are missing)."""
        return self._state[arm] is not None

    @property
    def reserved(self) -> float:
        """Expected cost of the pending pulls; summed anew, so that it is exactly 0 when there are none."""
        return sum(record.pull.cost for record in self.pending.values())

    def next_free(self, arm: int, size: int) -> IntArray:
        """The first `size` (or fewer) free positions of the arm."""
        start = self._first_free[arm]
        row = self._state[arm]
        if row is None or not any(row[start : start + size].tolist()):
            return np.arange(start, min(start + size, self.width), dtype=np.int64)
        return np.flatnonzero(row[start:] == FREE)[:size] + start

    def reserve(self, record: PendingPull) -> None:
        """Hand out free positions of an arm: the first ones (from `next_free`), unless the policy never asks for `next_free`."""
        self.state_of(record.arm)[record.positions] = PENDING
        self.n_pending[record.arm] += len(record.positions)
        self._first_free[record.arm] = int(record.positions[-1]) + 1
        self.pending[record.pull.token] = record

    def release(self, record: PendingPull) -> None:
        """Give the cells of a pending pull back."""
        del self.pending[record.pull.token]
        self.state_of(record.arm)[record.positions] = FREE
        self.n_pending[record.arm] -= len(record.positions)
        self._first_free[record.arm] = min(self._first_free[record.arm], int(record.positions[0]))

    def settle(self, record: PendingPull, scores: FloatArray, cost: float, failed: NDArray[np.bool_] | None, max_retries: int) -> None:
        """Record the outcome of a pending pull; a failed cell is free again, or missing after `max_retries`."""
        arm = record.arm
        del self.pending[record.pull.token]
        self.n_pending[arm] -= len(record.positions)
        self.spent += cost
        if failed is None:
            self._observe(arm, record.positions, scores, TOLD)
        else:
            self._fail(arm, record.positions[failed], max_retries)
            self._observe(arm, record.positions[~failed], scores[~failed], TOLD)

    def attach(self, arm: int, position: int, score: float, cost: float) -> None:
        """Record a result that exists already."""
        self.spent += cost
        self.n_attached += 1
        self._observe(arm, np.array([position], dtype=np.int64), np.array([score]), ATTACHED)

    def _observe(self, arm: int, positions: IntArray, scores: FloatArray, state: int) -> None:
        if len(positions) == 0:
            return
        self.state_of(arm)[positions] = state
        row = self.scores_of(arm)
        row[positions] = scores
        self.n_seen[arm] += len(positions)
        # The sum over the observed cells in example order, strictly left to right: a tell beyond all others continues
        # it, any other repeats it with accumulate (which, unlike sum, adds in order; zeros of unobserved cells change
        # no bit). Either way the order of the tells leaves no trace, and a kernel can repeat it.
        if int(positions[0]) >= self._top[arm]:
            total = float(self.total[arm])
            for score in scores.tolist():
                total += score
            self._top[arm] = int(positions[-1]) + 1
        else:
            self._top[arm] = max(self._top[arm], int(positions[-1]) + 1)
            total = float(np.add.accumulate(row[: self._top[arm]])[-1])
        self.total[arm] = total

    def _fail(self, arm: int, positions: IntArray, max_retries: int) -> None:
        self.n_errors[arm] += len(positions)
        for position in positions.tolist():
            count = self.failures.get((arm, position), 0) + 1
            self.failures[arm, position] = count
            if count > max_retries:
                self.state_of(arm)[position] = MISSING
                self.n_cells[arm] -= 1
            else:
                self.state_of(arm)[position] = FREE
                self._first_free[arm] = min(self._first_free[arm], position)

    def restore_scores(self, arm: int, positions: IntArray, scores: FloatArray, state: int) -> None:
        """Put saved observations back."""
        self._observe(arm, positions, scores, state)
        self.n_attached += len(positions) if state == ATTACHED else 0

    def restore_failures(self, arm: int, position: int, count: int, max_retries: int) -> None:
        """Put a saved failure count back; beyond `max_retries` the cell is missing."""
        self.failures[arm, position] = count
        if count > max_retries:
            if self.state_of(arm)[position] != FREE:
                raise ValueError(f"position {position} of arm {arm} was given up and is something else too")
            self.state_of(arm)[position] = MISSING
            self.n_cells[arm] -= 1

    def reset_first_free(self) -> None:
        """After a restore: look for free cells from the start."""
        self._first_free = [0] * self.n_arms

    def counts(self) -> dict[str, int]:
        """How many cells are free, pending, told, attached, missing; they add up to arms x examples."""
        seen, pending, cells = int(self.n_seen.sum()), int(self.n_pending.sum()), int(self.n_cells.sum())
        return {
            "free": cells - seen - pending,
            "pending": pending,
            "told": seen - self.n_attached,
            "attached": self.n_attached,
            "missing": self.n_arms * self.width - cells,
        }
