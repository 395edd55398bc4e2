"""PromptEval for best-arm identification: successive halving on the row means of a Rasch model, binary scores."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from lrgittins._kernels.cells import ABSENT, SEEN, draw_even_cells
from lrgittins._random import RandomState
from lrgittins._validation import check_float, check_int
from lrgittins.errors import ResponseError

from . import state
from .cell_plan import CellPlan
from .ledger import FloatArray, IntArray
from .matrix_policy import MatrixPolicy, ordered
from .rasch import fit_rasch


def halving_phases(n_arms: int, budget: int) -> list[int]:
    """Cells of each phase: ``ceil(log2 K)`` phases of ``floor(T / phases)``, the remainder in the first."""
    n_phases = (n_arms - 1).bit_length()
    if n_phases == 0:
        return []
    share, rest = divmod(budget, n_phases)
    return [share + rest] + [share] * (n_phases - 1)


def non_binary(values: FloatArray) -> NDArray[np.bool_]:
    """Which values are neither 0 nor 1 (nor missing)."""
    return ~(np.isnan(values) | (values == 0.0) | (values == 1.0))


class PromptEvalBAI(MatrixPolicy):
    """PromptEval-BAI with one-hot features: phases of evenly spread cells, each followed by a fit that drops the worse half.

    A phase draws its cells one by one: a random surviving arm with the fewest cells, and a random unseen example among those
    seen least (by all arms). Then ``P = expit(theta_arm + beta_example)`` is fitted to all observed cells; an arm's
    estimate is the mean over its cells, observed or else predicted; the ``ceil(n / 2)`` worst of n survivors are dropped, never
    the last one. All phases are run: the cells of those that find a single survivor go to it, as published.

    Scores must be binary: one of the two ends of `score_range`. Ignores prices when it chooses (they are charged and
    reported), needs its budget in advance and has no stop signal. In `posterior`, `mean` is the observed mean, `index` the
    estimate of the latest fit (NaN before the first, -inf for a dropped arm) and `std` NaN.

    Parameters
    ----------
    arms, n_examples, examples, missing, cost, tie_break, score_range, on_error, max_retries, random_state
        As for `GittinsPolicy`. Estimates that tie are dropped in the tie order, last place first.
    budget : int
        T, the number of cells that may be evaluated. Attached results of planned cells count; others are extra.
    batch_size : int
        Most cells of a pull; the phase's cells of one arm are asked together. Changes no decision.
    penalty : float
        C, the weight of the log loss against the squared effects, above 0.
    example_order : "common" or ndarray, shape (N,)
        Numbers the examples for the random draws. The last example in the caller's order is the one without an effect.

    Raises
    ------
    ResponseError
        `tell` or `attach` of a score that is neither the lowest nor the highest; nothing is changed.

    References
    ----------
    .. [1] Polo et al. (2024), Efficient multi-prompt evaluation of LLMs, arXiv 2405.17202.
    """

    rules: ClassVar[tuple[str, ...]] = ("survivor",)

    def __init__(
        self,
        arms: Any,
        n_examples: Any,
        *,
        budget: int,
        examples: Any = None,
        missing: Any = None,
        cost: Any = 1.0,
        batch_size: int = 8,
        penalty: float = 100.0,
        example_order: Any = "common",
        tie_break: str = "random",
        score_range: Any = (0, 1),
        on_error: str = "drop",
        max_retries: int = 2,
        random_state: RandomState = 0,
    ) -> None:
        super().__init__(
            arms, n_examples, examples=examples, missing=missing, cost=cost, batch_size=batch_size, example_order=example_order,
            tie_break=tie_break, score_range=score_range, on_error=on_error, max_retries=max_retries, random_state=random_state,
        )  # fmt: skip
        self.budget = check_int(budget, "budget", low=1)
        self.penalty = check_float(penalty, "penalty", low=0.0, low_open=True)
        self.phases = halving_phases(self.n_arms, self.budget)
        self._phase = 0
        self._alive = np.ones(self.n_arms, dtype=bool)
        self._dropped_after = np.full(self.n_arms, np.inf)
        self._estimate = np.full(self.n_arms, np.nan)  # of the latest fit
        self._plan = self._draw_phase()
        self._advance()

    # -- phases -----------------------------------------------------------------------------------------------------

    def _draw_phase(self) -> CellPlan:
        """The cells of the phase that begins, from the policy's generator; none when all phases are over."""
        n_cells = 0 if self._phase >= len(self.phases) else min(self.phases[self._phase], int(self.ledger.n_cells.sum()))
        draws, cells = self._generator.random((n_cells, 2)), np.empty((n_cells, 2), dtype=np.int64)
        n_drawn = draw_even_cells(self._kind, self._alive.view(np.uint8), draws, cells) if n_cells else 0
        return CellPlan(cells[:n_drawn, 0].copy(), cells[:n_drawn, 1].copy(), self.n_arms)

    def _advance(self) -> None:
        """Close phases as long as every planned cell is settled (later ones may find nothing left to evaluate)."""
        while self._phase < len(self.phases) and self._plan.settled:
            self._estimate = self._estimate_rows()
            ranked = ordered(np.where(self._alive, self._estimate, np.inf))[self.tie_order]
            n_alive = int(self._alive.sum())
            n_dropped = (n_alive + 1) // 2
            self._phase += 1
            if n_alive > n_dropped:
                # Worst first; among equals the last place in the tie order.
                worst = self.n_arms - 1 - np.argsort(ranked[::-1], kind="stable")[:n_dropped]
                dropped = self.tie_order[worst]
                self._alive[dropped] = False
                self._dropped_after[dropped] = self._phase
            self._plan = self._draw_phase()

    def _estimate_rows(self) -> FloatArray:
        """Row means of the survivors over observed and predicted cells; NaN for others and arms without any cell."""
        anchor = self.ledger.position_of(0, self.ledger.width - 1)
        fit = fit_rasch(self._kind, self._scores, anchor=anchor, penalty=self.penalty)
        arms = np.flatnonzero(self._alive)
        kind = self._kind[arms]
        value = np.where(kind == SEEN, self._scores[arms], np.where(kind == ABSENT, 0.0, fit.probabilities(arms)))
        cells = self.ledger.n_cells[arms]
        estimate = np.full(self.n_arms, np.nan)
        # A survivor that lost every cell to failures is worst.
        estimate[arms] = np.divide(value.sum(axis=1), cells, out=np.full(len(arms), -np.inf), where=cells > 0)
        return estimate

    # -- the policy -------------------------------------------------------------------------------------------------

    def _check_values(self, values: FloatArray, where: str) -> None:
        bad = non_binary(values)
        if bad.any():
            raise ResponseError(
                f"scores of {where} are not binary, which PromptEval's logistic model needs: got {self._scored(float(values[bad][0])):g} "
                f"at position {int(bad.argmax())}, expected {self.score_range[0]:g} or {self.score_range[1]:g}; use another policy"
            )

    def check_responses(self, responses: Any) -> None:
        """Refuse a `ResponseMatrix` with scores other than 0 and 1 before a replay spends anything."""
        check_binary(responses)

    def _refresh(self, arm: int) -> None:
        self._read(arm)
        self._plan.refresh(arm, self.ledger.state_of(arm))

    def _after_data(self, arm: int) -> None:
        self._advance()

    def _choose(self) -> tuple[int, int] | None:
        arm = self._plan.next_arm()
        return None if arm is None else (arm, self.batch_size)

    def _pick_cells(self, arm: int, size: int) -> IntArray:
        return self._plan.cells(arm, self.ledger.state_of(arm), size)

    def _recommend(self, rule: str | None) -> tuple[int, float, str]:
        fitted = bool(self._phase)
        values = np.where(self._alive, self._estimate if fitted else self._means(), -np.inf)
        arm = self._first_largest(values)
        if arm is None:
            alive = self.tie_order[self._alive[self.tie_order]]
            return int(alive[0]), math.nan, "survivor"
        return arm, float(values[arm]), "survivor"

    def _columns(self) -> dict[str, Any]:
        return {
            "mean": self._means(),
            "std": np.full(self.n_arms, np.nan),
            "index": np.where(self._alive, self._estimate, -np.inf),
            "complete": self._complete(),
        }

    def _notes(self) -> list[str]:
        return ["" if np.isinf(phase) else f"dropped after phase {int(phase)}" for phase in self._dropped_after]

    def _options(self) -> dict[str, Any]:
        return {"budget": self.budget, "penalty": self.penalty}

    def _own_state(self) -> dict[str, Any]:
        return {
            "phase": self._phase,
            "dropped_after": [None if np.isinf(phase) else int(phase) for phase in self._dropped_after],
            "estimate": [float(value) if np.isfinite(value) else None for value in self._estimate],
            "plan": {"arms": state.pack(self._plan.arms), "positions": state.pack(self._plan.positions)},
        }

    def _restore_own(self, saved: dict[str, Any]) -> None:
        self._phase = check_int(saved["phase"], "phase", low=0, high=len(self.phases))
        dropped = [np.inf if phase is None else float(phase) for phase in saved["dropped_after"]]
        estimate = [math.nan if value is None else float(value) for value in saved["estimate"]]
        if len(dropped) != self.n_arms or len(estimate) != self.n_arms:
            raise ValueError(f"dropped_after and estimate need one entry for each of the {self.n_arms} arms")
        self._dropped_after, self._estimate = np.array(dropped), np.array(estimate)
        self._alive = np.isinf(self._dropped_after)
        if not self._alive.any():
            raise ValueError("dropped_after leaves no survivor")
        arms, positions = (state.unpack(saved["plan"][name], "plan") for name in ("arms", "positions"))
        cells = arms * self.ledger.width + positions
        if len(arms) != len(positions) or (len(arms) and (arms.max() >= self.n_arms or positions.max() >= self.ledger.width)):
            raise ValueError("plan names cells that do not exist")
        if len(np.unique(cells)) != len(cells):
            raise ValueError("plan names a cell twice")
        self._plan = CellPlan(arms, positions, self.n_arms)
        for k in range(self.n_arms):
            if self.ledger.touched(k):
                self._refresh(k)
        self._check_values(self._scores[self._kind == SEEN], "the saved cells")


def check_binary(responses: Any) -> None:
    """Refuse a `ResponseMatrix` whose scores are not all 0 or 1."""
    bad = non_binary(responses.scores)
    if bad.any():
        row, column = (int(at) for at in np.argwhere(bad)[0])
        raise ResponseError(
            f"PromptEval needs binary scores (its model is a logistic regression), but {int(bad.sum())} of "
            f"{int(responses.n_cells.sum())} scores are neither 0 nor 1: the first is {responses.scores[row, column]:g}, arm "
            f"{responses.arms[row]!r}, example {responses.examples[column]!r}; leave 'prompteval' out, or binarise the scores"
        )
