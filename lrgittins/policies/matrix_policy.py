"""What policies share that model the whole arms x examples matrix and pick their cells themselves."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrgittins._kernels.cells import ABSENT, PENDING, SEEN, UNSEEN
from lrgittins.errors import ParameterError

from .base import BasePolicy
from .ledger import FloatArray, IntArray

# Cells come to be equal, or not, through sums that depend on the order of addition: differences below this are none, so
# that ties are decided by the tie order (arms) and the example order (examples), not by rounding.
DECIMALS = 9
# By the ledger's FREE, PENDING, TOLD, ATTACHED, MISSING.
_KIND = np.array([UNSEEN, PENDING, SEEN, SEEN, ABSENT], dtype=np.uint8)


def ordered(values: NDArray[Any]) -> NDArray[Any]:
    """Values to be compared."""
    return np.round(values, DECIMALS)


class MatrixPolicy(BasePolicy):
    """A policy with one example order for all arms, so that a position is the same example in every row.

    `_kind` and `_scores` (K, N) are the matrix by position: what each cell is (`_kernels.cells`) and its score, 0 where
    there is none.
    """

    def __init__(self, arms: Any, n_examples: Any, **options: Any) -> None:
        super().__init__(arms, n_examples, **options)
        if self.ledger.order.ndim != 1:
            raise ParameterError(
                f"example_order of {type(self).__name__} must be 'common' or an array of shape ({self.ledger.width},): its model needs "
                f"the examples in one order for all arms, got {options['example_order']!r:.60}"
            )
        self._kind = np.zeros((self.n_arms, self.ledger.width), dtype=np.uint8)
        self._scores = np.zeros((self.n_arms, self.ledger.width))
        for k in range(self.n_arms):
            self._read(k)

    def _read(self, arm: int) -> None:
        """Bring a row of the matrix up to date with the ledger."""
        if self.ledger.touched(arm):
            self._kind[arm] = _KIND[self.ledger.state_of(arm)]
        if self.ledger.n_seen[arm]:
            self._scores[arm] = self.ledger.scores_of(arm)

    @abstractmethod
    def _pick_cells(self, arm: int, size: int) -> IntArray: ...

    def _means(self) -> FloatArray:
        """Observed means, NaN for arms without data."""
        seen = self.ledger.n_seen
        return np.divide(self.ledger.total, seen, out=np.full(self.n_arms, np.nan), where=seen > 0)

    def _first_largest(self, values: FloatArray) -> int | None:
        """The arm with the largest value, the first such in the tie order; None when all are NaN or -inf."""
        ranked = ordered(np.where(np.isnan(values), -np.inf, values))[self.tie_order]
        place = int(ranked.argmax())
        return None if ranked[place] == -np.inf else int(self.tie_order[place])

    def _complete(self) -> NDArray[np.bool_]:
        return (self.ledger.n_seen == self.ledger.n_cells) & (self.ledger.n_cells > 0)
