"""Root schedules: for every stage of an arm, how far its posterior mean must lie above the alternative to be worth a batch."""

from __future__ import annotations

import numbers
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from ._off_schedule import shortened_root
from ._root_chains import solve_chains, transition_std
from ._root_methods import allowed_error
from ._validation import check_choice, check_float, check_int
from .batch_schedule import batch_sizes
from .errors import ParameterError

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

METHODS = ("auto", "panel", "banded", "fft", "paper")


@dataclass(frozen=True, eq=False)
class RootSchedule:
    """Roots of the centred index equation for every distinct arm and stage. Read-only.

    Attributes
    ----------
    roots : ndarray of float64, shape (n_distinct, H)
        r_n by stage n (batches already done); the index of an arm at stage n is M - r_n. -inf for cost 0. NaN beyond an
        arm's own horizon.
    index_of_arm : ndarray of int64, shape (n_arms,)
        Row of `roots` of each arm: arms with equal cost, prior, noise and schedule share one.
    horizon : ndarray of int64, shape (n_distinct,)
        Number of batches until complete.
    cost : ndarray of float64, shape (n_distinct,)
        Cost per example as it enters the recursion: ``cost_scale`` times the price given.
    prior_variance, noise_variance : ndarray of float64, shape (n_distinct,)
    n_examples : ndarray of int64, shape (n_distinct,)
    sizes, stds : ndarray, shape (n_distinct, H)
        Batch sizes (0 beyond the horizon) and transition deviations (NaN beyond it).
    method : str
        How the roots were computed; never "auto".
    tol : float
    target : str
    """

    roots: FloatArray
    index_of_arm: IntArray
    horizon: IntArray
    cost: FloatArray
    prior_variance: FloatArray
    noise_variance: FloatArray
    n_examples: IntArray
    sizes: IntArray
    stds: FloatArray
    method: str
    tol: float
    target: str
    _bound: float = field(repr=False)

    @property
    def n_arms(self) -> int:
        return len(self.index_of_arm)

    @property
    def n_distinct(self) -> int:
        return len(self.roots)

    @property
    def batch_sizes(self) -> IntArray:
        """Batch sizes: shape (H,) where all arms share them, else (n_distinct, H), 0 beyond an arm's horizon."""
        return self.sizes[0] if np.all(self.sizes == self.sizes[0]) else self.sizes

    @property
    def transition_std(self) -> FloatArray:
        """Transition deviations: shape (H,) where all arms share them, else (n_distinct, H), NaN beyond an arm's horizon."""
        return self.stds[0] if np.array_equal(self.stds, np.broadcast_to(self.stds[0], self.stds.shape), equal_nan=True) else self.stds

    @cached_property
    def seen(self) -> IntArray:
        """Examples seen at each boundary, shape (n_distinct, H + 1); constant beyond an arm's horizon."""
        seen = np.zeros((self.n_distinct, self.sizes.shape[1] + 1), dtype=np.int64)
        np.cumsum(self.sizes, axis=1, out=seen[:, 1:])
        seen.flags.writeable = False
        return seen

    @cached_property
    def error_bound(self) -> float:
        """Largest absolute error of a root.

        The change between two resolutions, an upper bound of the finer one's error, plus rounding. For "paper", whose
        rule has no such pair, the distance from the panel method's roots, computed on first use.
        """
        if not np.isnan(self._bound):
            return self._bound
        worst = 0.0
        for row, h in enumerate(self.horizon):
            if self.cost[row] == 0.0:
                continue
            exact, bound = self._exact_row(row)
            worst = max(worst, float(np.abs(self.roots[row, :h] - exact).max()) + bound)
        return worst

    def _exact_row(self, row: int) -> tuple[FloatArray, float]:
        h = int(self.horizon[row])
        solved, bounds = solve_chains(self.cost[row : row + 1], self.sizes[row, :h], self.stds[row, :h], "panel", 1e-8, None, 1)
        return solved[0], float(bounds[0])

    def off_schedule_root(self, arm: int, seen: int, batch: int, next_stage: int) -> float:
        """Root of an arm between two boundaries: one backward step from the stored W of the boundary ahead.

        Parameters
        ----------
        arm : int
            Position of the arm.
        seen : int
            Examples counted so far; need not be a boundary.
        batch : int
            Size of the shortened batch: ``seen + batch`` is the boundary of `next_stage`.
        next_stage : int
            Stage reached by that batch, 1 to the arm's horizon.

        Raises
        ------
        ParameterError
            The batch does not end at that boundary.

        Notes
        -----
        The W of an arm's stages is computed and kept as node values on panels once it is asked for, at most 64 MB in a
        process, the least recently used dropped. The schedules of all methods step from panels that meet `tol`.
        """
        if not 0 <= arm < self.n_arms:
            raise ParameterError(f"arm must be between 0 and {self.n_arms - 1}, got {arm}")
        row = int(self.index_of_arm[arm])
        h = int(self.horizon[row])
        if not 1 <= next_stage <= h:
            raise ParameterError(f"next_stage must be between 1 and the arm's horizon {h}, got {next_stage}")
        boundary = int(self.seen[row, next_stage])
        if batch < 1 or seen < 0 or seen + batch != boundary:
            raise ParameterError(
                f"a batch of {batch} after {seen} examples does not end at the boundary of stage {next_stage}, which is {boundary} examples"
            )
        if self.cost[row] == 0.0:
            return -np.inf
        if seen == self.seen[row, next_stage - 1]:
            return float(self.roots[row, next_stage - 1])
        return shortened_root(
            float(self.cost[row]),
            self.sizes[row, :h],
            self.stds[row, :h],
            seen,
            next_stage,
            n_examples=int(self.n_examples[row]),
            prior_variance=float(self.prior_variance[row]),
            noise_variance=float(self.noise_variance[row]),
            target=self.target,
            tol=self.tol,
        )

    def to_frame(self) -> pd.DataFrame:
        """One row per distinct arm and stage: schedule, stage, seen, batch_size, cost (of the batch), transition_std, root."""
        import pandas as pd

        row, stage = np.nonzero(self.sizes)
        return pd.DataFrame(
            {
                "schedule": row,
                "stage": stage,
                "seen": self.seen[row, stage],
                "batch_size": self.sizes[row, stage],
                "cost": self.cost[row] * self.sizes[row, stage],
                "transition_std": self.stds[row, stage],
                "root": self.roots[row, stage],
            }
        )


def root_schedule(
    cost: Any,
    *,
    n_examples: Any,
    batch_size: int = 8,
    batch_schedule: Any = "constant",
    prior_variance: Any = 0.04,
    noise_variance: Any = 0.25,
    cost_scale: float = 1e-4,
    target: str = "empirical",
    method: str = "auto",
    grid_points: int | None = None,
    tol: float = 1e-6,
    n_jobs: int = 1,
) -> RootSchedule:
    """Roots of the Gittins index equation of Gaussian arms, for every stage.

    An arm's N examples are evaluated in predetermined batches; a batch of b examples costs ``cost_scale * cost * b``. The
    root r_n of stage n is the amount by which the alternative may exceed the arm's posterior mean before going on stops
    being worth it (it is negative where uncertainty pays for the batch): the index is the posterior mean minus r_n.

    Parameters
    ----------
    cost : float or array_like of float, shape (n_arms,)
        Price per example as it enters (not divided by a mean), finite and not negative. 0 gives the root -inf.
    n_examples : int or array_like of int, shape (n_arms,)
        N, at least 1.
    batch_size, batch_schedule
        See `lrgittins.batch_schedule.batch_sizes`. An array must sum to every arm's `n_examples`.
    prior_variance : float or array_like, shape (n_arms,)
        Variance of an arm's mean before any example, at least 0.
    noise_variance : float or array_like, shape (n_arms,)
        Variance of one example's score around the mean, above 0.
    cost_scale : float
        Utility of one unit of cost, at least 0.
    target : "empirical" or "latent"
        Whether the mean over the N examples is wanted (no uncertainty is left when they are all seen) or that of the
        population they come from.
    method : "auto", "panel", "banded", "fft" or "paper"
        "panel": Gauss-Legendre panels, the fastest at every size measured, which "auto" takes. "banded" and "fft": a uniform
        grid, doubled until `tol` is met. "paper": 1025 points and the first with q >= 0, whose error is about 2e-3;
        `tol` does not apply.
    grid_points : int, optional
        Points of the grid of "banded", "fft" (the finest of the three compared; no doubling then) and "paper"; odd, at least 65.
    tol : float
        Largest absolute error of a root (but not below the rounding of an arm's total cost).
    n_jobs : int
        Threads over distinct costs; the result does not depend on it.

    Returns
    -------
    RootSchedule

    Raises
    ------
    ParameterError
        An argument out of range (the message names the arm), or `tol` cannot be met (the message states the error reached).

    Notes
    -----
    Solved chains are kept within the process (32 MB, least recently used dropped), so equal arms and repeated calls cost
    nothing. O(H^1.5) time per distinct arm for "panel".

    References
    ----------
    .. [1] Efficient Cost-Aware LLM Evaluation via Bayesian Bandit Gittins Indices, arXiv 2609.25645: the recursion and the "paper" grid.
    """
    target = check_choice(target, "target", ("empirical", "latent"))
    method = check_choice(method, "method", METHODS)
    tol = check_float(tol, "tol", low=0.0, low_open=True)
    cost_scale = check_float(cost_scale, "cost_scale", low=0.0)
    n_jobs = check_int(n_jobs, "n_jobs", low=1)
    if method == "auto":
        method = "panel"
    if grid_points is not None:
        grid_points = check_int(grid_points, "grid_points", low=65, high=1_048_577)
        if grid_points % 2 == 0:
            raise ParameterError(f"grid_points must be odd (every second point makes the coarser grid), got {grid_points}")
        if method == "panel":
            raise ParameterError("grid_points has no meaning for method='panel' and 'auto'; use 'banded', 'fft' or 'paper'")
    costs = _per_arm(cost, "cost", low=0.0)
    examples = _per_arm(n_examples, "n_examples", low=1.0, whole=True)
    priors = _per_arm(prior_variance, "prior_variance", low=0.0)
    noises = _per_arm(noise_variance, "noise_variance", low=0.0, low_open=True)
    n_arms = _common_length(cost=costs, n_examples=examples, prior_variance=priors, noise_variance=noises)
    table = np.column_stack([np.broadcast_to(a, (n_arms,)) for a in (cost_scale * costs + 0.0, examples, priors, noises)])
    distinct, index_of_arm = _distinct_rows(table)

    n_distinct = len(distinct)
    sizes_of = {n: batch_sizes(n, batch_size, batch_schedule) for n in np.unique(distinct[:, 1]).astype(int).tolist()}
    horizon = np.array([len(sizes_of[int(n)]) for n in distinct[:, 1]], dtype=np.int64)
    width = int(horizon.max())
    roots, stds = np.full((n_distinct, width), np.nan), np.full((n_distinct, width), np.nan)
    sizes = np.zeros((n_distinct, width), dtype=np.int64)
    bound = 0.0
    groups, group_of = _distinct_rows(distinct[:, 1:])
    for group, (n, v0, t) in enumerate(groups):
        rows = np.flatnonzero(group_of == group)
        batches = sizes_of[int(n)]
        seen = np.cumsum(batches) - batches
        std = transition_std(batches, seen, n_examples=int(n), prior_variance=v0, noise_variance=t, target=target)
        found, bounds = solve_chains(distinct[rows, 0], batches, std, method, tol, grid_points, n_jobs)
        h = len(batches)
        roots[rows, :h], sizes[rows, :h], stds[rows, :h] = found, batches, std
        bound = max(bound, float(bounds.max())) if not np.isnan(bounds).any() else np.nan
        over = bounds - allowed_error(tol, distinct[rows, 0], batches.astype(np.float64))
        if method != "paper" and not over.max() <= 0.0:
            worst = int(rows[np.argmax(over)])
            reached = float(bounds[np.argmax(over)])
            raise ParameterError(
                f"method={method!r} cannot meet tol={tol:g} for arm {int(np.argmax(index_of_arm == worst))} (cost_scale * cost = "
                f"{distinct[worst, 0]:g}, n_examples={int(n)}): the error reached is {reached:.2g}; raise tol"
                + ("" if method == "panel" else ", or use method='panel'")
            )
    for array in (roots, sizes, stds, index_of_arm, horizon):
        array.flags.writeable = False
    columns = [_read_only(distinct[:, i]) for i in range(4)]
    return RootSchedule(
        roots=roots,
        index_of_arm=index_of_arm,
        horizon=horizon,
        cost=columns[0],
        prior_variance=columns[2],
        noise_variance=columns[3],
        n_examples=_read_only(distinct[:, 1].astype(np.int64)),
        sizes=sizes,
        stds=stds,
        method=method,
        tol=tol,
        target=target,
        _bound=bound,
    )


def off_schedule_root(
    cost: float,
    seen: int,
    *,
    n_examples: int,
    batch_size: int = 8,
    batch_schedule: Any = "constant",
    prior_variance: float = 0.04,
    noise_variance: float = 0.25,
    cost_scale: float = 1e-4,
    target: str = "empirical",
    method: str = "auto",
    tol: float = 1e-6,
) -> float:
    """Root of one arm with `seen` examples, on a boundary or not: the next batch reaches the next boundary of the schedule.

    Arguments as in `root_schedule`, one arm's. See `RootSchedule.off_schedule_root`.
    """
    schedule = root_schedule(
        cost,
        n_examples=n_examples,
        batch_size=batch_size,
        batch_schedule=batch_schedule,
        prior_variance=prior_variance,
        noise_variance=noise_variance,
        cost_scale=cost_scale,
        target=target,
        method=method,
        tol=tol,
    )
    seen = check_int(seen, "seen", low=0, high=int(schedule.n_examples[0]) - 1)
    next_stage = int(np.searchsorted(schedule.seen[0], seen, side="right"))
    return schedule.off_schedule_root(0, seen, int(schedule.seen[0, next_stage]) - seen, next_stage)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    array = np.ascontiguousarray(array)
    array.flags.writeable = False
    return array


def _distinct_rows(table: FloatArray) -> tuple[FloatArray, IntArray]:
    """Distinct rows in order of first appearance, and the row of each input row."""
    _, first, inverse = np.unique(table, axis=0, return_index=True, return_inverse=True)
    order = np.argsort(first)
    place = np.empty(len(order), dtype=np.int64)
    place[order] = np.arange(len(order))
    return table[first[order]], place[inverse.reshape(-1)]


def _per_arm(value: Any, name: str, *, low: float, low_open: bool = False, whole: bool = False) -> FloatArray:
    """A number or one per arm, as float64 of shape () or (n_arms,); the message of a refusal names the arm."""
    kind = "whole number" if whole else "finite number"
    limit = f"{'above' if low_open else 'at least'} {low:g}"
    if isinstance(value, (str, bytes)) or value is None or (np.ndim(value) == 0 and not isinstance(value, (numbers.Real, np.ndarray))):
        raise ParameterError(f"{name} must be a {kind} {limit}, or one per arm, got {value!r}")
    given = np.asarray(value)
    if given.ndim > 1 or given.size == 0:
        raise ParameterError(f"{name} must be a number or one number per arm, got shape {given.shape}")
    if given.dtype.kind not in "iuf":  # texts, gaps, mixtures: look at the items as they were given
        given = np.asarray(value, dtype=object)
    for arm, item in enumerate(given.reshape(-1).tolist() if given.dtype.kind == "O" else ()):
        if isinstance(item, bool) or not isinstance(item, numbers.Real):
            raise ParameterError(f"{name}{_of_arm(arm, given)} must be a {kind} {limit}, got {item!r}")
    numbers_ = given.astype(np.float64)
    wrong = ~np.isfinite(numbers_) | ((numbers_ <= low) if low_open else (numbers_ < low))
    if whole:
        wrong |= (numbers_ != np.floor(numbers_)) | (numbers_ > 2**53)
    if wrong.any():
        arm = int(np.argmax(wrong))
        raise ParameterError(f"{name}{_of_arm(arm, given)} must be a {kind} {limit}, got {given.reshape(-1)[arm].item()!r}")
    return numbers_


def _of_arm(arm: int, given: NDArray[Any]) -> str:
    return f" of arm {arm}" if given.ndim else ""


def _common_length(**arrays: FloatArray) -> int:
    lengths = {name: len(a) for name, a in arrays.items() if a.ndim}
    if len(set(lengths.values())) > 1:
        raise ParameterError("one value per arm is needed, but the lengths differ: " + ", ".join(f"{k} {v}" for k, v in lengths.items()))
    return next(iter(lengths.values()), 1)
