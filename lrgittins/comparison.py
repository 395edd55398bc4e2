"""What many replays show together: regret at budgets and along them, where policies stop, with standard errors."""

from __future__ import annotations

import math
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._validation import check_choice, check_float, check_int
from .curve_rules import HELD, LINEAR, PLAIN, CurveRule, drawn_values, mean_start
from .errors import ParameterError
from .trace import FloatArray, Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes

DEFAULT_FRACTIONS = (0.01, 0.02, 0.05, 0.10)
ALL = "all"  # the row of aggregates over several matrices
_ROUNDING = 1e-12  # of fractions, as of budgets


@dataclass(frozen=True, eq=False)
class MatrixFacts:
    """What a comparison keeps of a matrix."""

    arms: tuple[Any, ...]
    row_means: FloatArray
    total_cost: float


@dataclass(frozen=True, eq=False)
class RunRecord:
    """What a comparison keeps of a trace: 12 bytes a step (`replay` with the run's seed gives the whole trace back)."""

    matrix: str
    policy: str
    run: int
    seed: int
    cumulative_cost: FloatArray
    recommended: NDArray[np.int32]
    initial: int
    first_stop: int  # step of the stop signal, 0 without one
    stop: dict[str, Any] = field(repr=False)
    stop_reason: str
    rule: CurveRule = PLAIN  # of the paper's figures


def record_run(trace: Trace, matrix: str, policy: str, run: int, seed: int, rule: CurveRule = PLAIN) -> RunRecord:
    """The part of a trace that a comparison keeps."""
    stop = trace.stop
    return RunRecord(
        matrix=matrix,
        policy=policy,
        run=run,
        seed=seed,
        cumulative_cost=trace.cumulative_cost.copy(),  # not a view of what else the trace holds
        recommended=trace.recommended.astype(np.int32),
        initial=trace.initial,
        first_stop=int(trace.should_stop.argmax()) + 1 if trace.should_stop.any() else 0,
        stop={
            "step": stop.step,
            "cost_fraction": stop.cost_fraction,
            "regret": stop.regret,
            "completed_regret": stop.completed_regret,
            "net_utility": trace.net_utility,
            "reason": stop.reason,
        },
        stop_reason=trace.stop_reason,
        rule=rule,
    )


@dataclass(frozen=True, eq=False)
class PolicyComparison:
    """Regret of several policies over many runs. Fractions are of exhaustive cost; regret is simple regret.

    Attributes
    ----------
    runs : tuple of RunRecord
        By matrix, policy and run.
    matrices : dict of str to MatrixFacts
    policies : dict of str to str
        Name of each policy -> how it is shown ("gittins-s" is shown as hindsight).
    budget, strict, n_runs, random_state
        As given to `compare`.
    """

    runs: tuple[RunRecord, ...]
    matrices: dict[str, MatrixFacts]
    policies: dict[str, str]
    budget: float
    strict: bool
    n_runs: int
    random_state: Any

    def to_frame(self) -> pd.DataFrame:
        """One row per batch: matrix, policy, run, step, cumulative_cost, cost_fraction, recommended, regret, should_stop."""
        parts = []
        for record in self.runs:
            facts = self.matrices[record.matrix]
            n_steps = len(record.cumulative_cost)
            fraction, regret = self._steps(record)
            step = np.arange(1, n_steps + 1)
            parts.append(
                pd.DataFrame(
                    {
                        "matrix": record.matrix,
                        "policy": record.policy,
                        "run": record.run,
                        "step": step,
                        "cumulative_cost": record.cumulative_cost,
                        "cost_fraction": fraction,
                        "recommended": pd.Series(list(facts.arms)).take(record.recommended).reset_index(drop=True),
                        "regret": regret,
                        "should_stop": step >= record.first_stop if record.first_stop else np.zeros(n_steps, dtype=bool),
                    }
                )
            )
        return pd.concat(parts, ignore_index=True)

    def stops(self) -> pd.DataFrame:
        """One row per run, at its stop signal or, without one, at its end (`reason` says which).

        Columns matrix, policy, run, seed, step, cost_fraction, regret (of the recommended arm), completed_regret (of the best
        completed arm), net_utility (in the policy's own cost unit), reason, stop_reason (why the run ended).
        """
        rows = [
            {"matrix": r.matrix, "policy": r.policy, "run": r.run, "seed": r.seed, **r.stop, "stop_reason": r.stop_reason}
            for r in self.runs
        ]
        return pd.DataFrame(rows)

    def stop_summary(self) -> pd.DataFrame:
        """Means over the runs that gave a stop signal, with standard errors: one row per matrix and policy.

        Columns matrix, policy, stopped (share of the runs), then cost_fraction, regret, completed_regret, net_utility, each
        with its ``*_std_error``; NaN where no run stopped.
        """
        frame = self.stops()
        rows = []
        for (matrix, policy), group in frame.groupby(["matrix", "policy"], sort=False):
            stopped = group[group["reason"] == "stop-signal"]
            row: dict[str, Any] = {"matrix": matrix, "policy": policy, "stopped": len(stopped) / len(group)}
            for name in ("cost_fraction", "regret", "completed_regret", "net_utility"):
                row[name], row[f"{name}_std_error"] = _mean_and_error(stopped[name].to_numpy())
            rows.append(row)
        return pd.DataFrame(rows)

    def at(self, fractions: Sequence[float] | float | None = None) -> pd.DataFrame:
        """Mean regret at budget fractions, by step-hold: the recommendation after the last batch that fits.

        Parameters
        ----------
        fractions : float or sequence of float, optional
            In (0, budget]; by default those of 0.01, 0.02, 0.05, 0.10 that are.

        Returns
        -------
        DataFrame
            matrix, policy, cost_fraction, regret, std_error, std_error_between, n_runs. With several matrices, rows with matrix
            "all" average their means; `std_error` is then that of the runs, for these very matrices, and
            `std_error_between` that of the matrices, as if they were drawn at random.
        """
        if fractions is None:
            wanted = [f for f in DEFAULT_FRACTIONS if f <= self.budget * (1.0 + _ROUNDING)] or [self.budget]
        else:
            wanted = [fractions] if isinstance(fractions, (int, float)) else list(fractions)
        points = np.array([check_float(f, "fraction", low=0.0, low_open=True) for f in wanted])
        if len(points) == 0 or points.max() > self.budget * (1.0 + _ROUNDING):
            raise ParameterError(f"fractions must lie in (0, {self.budget:g}], the budget of this comparison, got {wanted!r}")
        return self._aggregate(points, "step")

    def curve(self, grid: int | Sequence[float] = 350, how: str = "linear") -> pd.DataFrame:
        """Mean regret along the budget, columns as in `at`.

        Parameters
        ----------
        grid : int or sequence of float
            Number of equally spaced fractions from 0 to the budget, or the fractions.
        how : {"linear", "step", "paper"}
            "linear": each run is interpolated between its batches and never extrapolated, so that points before a run's first
            batch and after its last one are NaN (`n_runs` counts what is there). "step" holds the last recommendation, from
            the one before any data on. "paper" is the plotting rule of the selection paper's figures: linear, but the
            whole-row policies ("pbgi", "logei", "logeipc") without their random start, from its mean cost on and held to
            the right of their last row; "ucb-e-lrf" from the end of its warm-up; "prompteval" step by step from the end of its
            first phase.

        Notes
        -----
        Budgets are fractions of each matrix's own exhaustive cost, so the mean over several matrices is of normalised budgets.
        """
        check_choice(how, "how", ("linear", "step", "paper"))
        if isinstance(grid, (int, np.integer)):
            points = np.linspace(0.0, self.budget, check_int(grid, "grid", low=2))
        else:
            points = np.array([check_float(f, "grid", low=0.0, high=1.0) for f in grid])
            if len(points) == 0 or (np.diff(points) < 0).any():
                raise ParameterError("grid must be a number of points, or fractions in ascending order")
        return self._aggregate(points, how)

    def plot(self, ax: Axes | None = None, *, matrix: str | None = None, grid: int = 350, how: str = "step", log: bool = False) -> Any:
        """Mean regret with bands of one standard error, and a circle where a policy says stop (extra `plot`); returns the Axes.

        See `plot_regret` and `mark_stops`.
        """
        from .plots.stop_marks import mark_stops
        from .regret_plot import plot_regret

        axes = plot_regret(self, ax, matrix=matrix, grid=grid, how=how, log=log)
        return mark_stops(self, axes, matrix=matrix)

    def to_html(self, path: str | os.PathLike[str], *, title: str | None = None) -> None:
        """Write the comparison as one HTML file that needs nothing else: curves, tables, how it was made (extra ``report``).

        Parameters
        ----------
        path : path of the file
            Written atomically.
        title : str, optional
            Heading of the page.

        Raises
        ------
        MissingExtraError
            jinja2 is not installed.
        """
        from ._files import write_atomically
        from .report import comparison_html

        write_atomically(path, comparison_html(self, title=title).encode())

    def to_dict(self) -> dict[str, Any]:
        """Settings, `at` and the stops as strict JSON types; what is not finite is None."""
        return {
            "budget": self.budget,
            "strict": self.strict,
            "n_runs": self.n_runs,
            "random_state": int(self.random_state) if isinstance(self.random_state, (int, np.integer)) else None,
            "matrices": {name: {"n_arms": len(m.arms), "total_cost": m.total_cost} for name, m in self.matrices.items()},
            "policies": dict(self.policies),
            "at": json_rows(self.at()),
            "stops": json_rows(self.stops()),
        }

    def __repr__(self) -> str:
        return (
            f"PolicyComparison({len(self.policies)} policies x {len(self.matrices)} matrices x {self.n_runs} runs, budget {self.budget:g})"
        )

    def _steps(self, record: RunRecord) -> tuple[FloatArray, FloatArray]:
        """Cost fraction and regret after each batch of a run."""
        facts = self.matrices[record.matrix]
        fraction = record.cumulative_cost / facts.total_cost if facts.total_cost > 0.0 else np.zeros(len(record.cumulative_cost))
        return fraction, facts.row_means.max() - facts.row_means[record.recommended]

    def _begin(self, records: list[RunRecord]) -> float:
        """Mean cost fraction at which the initial segments of these runs end."""
        ends = [(self._steps(r)[0], r.rule.n_start) for r in records if r.rule.kind == HELD and r.rule.n_start]
        return mean_start([float(fraction[n - 1]) for fraction, n in ends])

    def _values(self, record: RunRecord, points: FloatArray, how: str, begin: float = 0.0) -> FloatArray:
        """Regret of one run at the points; `begin` is where the held curves of its policy begin."""
        fraction, regret = self._steps(record)
        if how == "paper":
            if record.rule.kind != LINEAR:
                return drawn_values(record.rule, fraction, regret, points * (1.0 + _ROUNDING), begin)
            fraction, regret = fraction[record.rule.n_start :], regret[record.rule.n_start :]
        if how == "step":
            means = self.matrices[record.matrix].row_means
            held = np.append(means.max() - means[record.initial], regret)
            return np.asarray(held[np.searchsorted(fraction, points * (1.0 + _ROUNDING), side="right")])
        if len(fraction) == 0:
            return np.full(len(points), np.nan)
        last = fraction[-1]
        inside = np.where((points > last) & (points <= last * (1.0 + _ROUNDING)), last, points)
        return np.interp(inside, fraction, regret, left=np.nan, right=np.nan)

    def _groups(self) -> Iterator[tuple[str, str, list[RunRecord]]]:
        for matrix in self.matrices:
            for policy in self.policies:
                yield matrix, policy, [r for r in self.runs if r.matrix == matrix and r.policy == policy]

    def _aggregate(self, points: FloatArray, how: str) -> pd.DataFrame:
        cells: dict[tuple[str, str], tuple[FloatArray, FloatArray, FloatArray]] = {}
        for matrix, policy, records in self._groups():
            begin = self._begin(records) if how == "paper" else 0.0
            values = np.array([self._values(record, points, how, begin) for record in records])
            there = ~np.isnan(values)
            n = there.sum(axis=0)
            mean = np.divide(np.where(there, values, 0.0).sum(axis=0), n, out=np.full(len(points), np.nan), where=n > 0)
            squares = (np.where(there, values - mean, 0.0) ** 2).sum(axis=0)
            error = np.sqrt(np.divide(squares, n * (n - 1.0), out=np.full(len(points), np.nan), where=n > 1))
            cells[matrix, policy] = mean, error, n
        parts = [
            self._rows(matrix, policy, points, mean, error, np.full(len(points), np.nan), n)
            for (matrix, policy), (mean, error, n) in cells.items()
        ]
        if len(self.matrices) > 1:
            for policy in self.policies:
                means, errors, counts = (np.array([cells[m, policy][i] for m in self.matrices]) for i in range(3))
                n = len(means)
                between = means.std(axis=0, ddof=1) / math.sqrt(n)
                parts.append(
                    self._rows(ALL, policy, points, means.mean(axis=0), np.sqrt((errors**2).sum(axis=0)) / n, between, counts.sum(axis=0))
                )
        return pd.concat(parts, ignore_index=True)

    @staticmethod
    def _rows(matrix: str, policy: str, points: FloatArray, mean: Any, error: Any, between: Any, n: Any) -> pd.DataFrame:
        return pd.DataFrame(
            {
                "matrix": matrix,
                "policy": policy,
                "cost_fraction": points,
                "regret": mean,
                "std_error": error,
                "std_error_between": between,
                "n_runs": n,
            }
        )


def _mean_and_error(values: FloatArray) -> tuple[float, float]:
    n = len(values)
    if n == 0:
        return math.nan, math.nan
    return float(values.mean()), float(values.std(ddof=1) / math.sqrt(n)) if n > 1 else math.nan


def json_rows(frame: pd.DataFrame) -> list[dict[str, Any]]:
    rows = []
    for row in frame.to_dict(orient="records"):
        plain = {str(k): v.item() if isinstance(v, np.generic) else v for k, v in row.items()}
        rows.append({k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in plain.items()})
    return rows
