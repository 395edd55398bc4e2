"""Cells to be evaluated in a sequence fixed beforehand, handed out one arm at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .ledger import FREE, PENDING, IntArray


class CellPlan:
    """A sequence of (arm, position) cells, each at most once.

    The next batch belongs to the arm of the first free cell of the sequence. What became of the cells is the ledger's to
    know; `refresh` reads it.

    Parameters
    ----------
    arms, positions : ndarray of int64, shape (n,)
        The cells in sequence.
    """

    def __init__(self, arms: IntArray, positions: IntArray, n_arms: int) -> None:
        self.arms, self.positions = arms, positions
        self._places = np.argsort(arms, kind="stable")  # of each arm's cells, in sequence
        self._start = np.searchsorted(arms[self._places], np.arange(n_arms + 1))
        self._unsettled = np.diff(self._start)
        self._next = np.full(n_arms, len(arms), dtype=np.int64)
        planned = np.flatnonzero(self._unsettled)
        self._next[planned] = self._places[self._start[planned]]

    def __len__(self) -> int:
        return len(self.arms)

    def _of(self, arm: int) -> IntArray:
        return self._places[self._start[arm] : self._start[arm + 1]]

    def refresh(self, arm: int, state: NDArray[np.uint8]) -> None:
        """Read the cell states of an arm, (N,) by position."""
        places = self._of(arm)
        now = state[self.positions[places]]
        free = now == FREE
        self._next[arm] = places[int(free.argmax())] if free.any() else len(self.arms)
        self._unsettled[arm] = int((free | (now == PENDING)).sum())

    @property
    def settled(self) -> bool:
        """Whether every cell was observed, or turned out to be missing."""
        return not self._unsettled.any()

    def next_arm(self) -> int | None:
        """The arm of the first free cell; None when there is none."""
        place = int(self._next.min())
        return int(self.arms[place]) if place < len(self.arms) else None

    def cells(self, arm: int, state: NDArray[np.uint8], size: int) -> IntArray:
        """Positions (ascending) of the first `size` free cells of an arm."""
        positions = self.positions[self._of(arm)]
        return np.sort(positions[state[positions] == FREE][:size])
