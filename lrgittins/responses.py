"""Response matrices: the scores of arms on examples, with prices, joined by value and checked once."""

from __future__ import annotations

import warnings
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from ._tables import naming_file, numbers, read_table, to_pandas
from ._validation import check_choice
from .errors import ParameterError, ResponseError
from .policies.inputs import check_costs, check_labels, check_score_range, range_problem, shown

FloatArray = NDArray[np.float64]
_MAX_CELLS = 2 * 10**8  # 1.6 GB of scores; a long frame beyond it almost always has ids that arms do not share


@dataclass(frozen=True, eq=False)
class ResponseMatrix:
    """Scores of K arms on N examples; NaN marks a cell that was not evaluated.

    Build one with `from_frame`, `from_array` or `read`. Arrays are read-only.

    Attributes
    ----------
    scores : ndarray of float64, shape (K, N)
        On the unit scale: where a `score_range` was given, scores are rescaled to [0, 1].
    arms, examples : tuple of labels
        In sorted order from long frames (so that the order of rows never matters), as given otherwise.
    cost : ndarray, shape (K,) or (K, N), or None
        Price per example of each arm, or of each cell (0 at missing cells); None means every example costs 1.
    """

    scores: FloatArray
    arms: tuple[Any, ...]
    examples: tuple[Any, ...]
    cost: FloatArray | None = None

    @classmethod
    def from_array(
        cls, scores: Any, *, arms: Iterable[Any] | None = None, examples: Iterable[Any] | None = None, cost: Any = None,
        score_range: tuple[float, float] = (0.0, 1.0),
    ) -> ResponseMatrix:  # fmt: skip
        """A matrix from an array of shape (K, N); NaN is a missing cell.

        Parameters
        ----------
        arms, examples : labels, optional
            0, 1, 2, ... by default.
        cost : float, (K,), mapping or Series by arm, or (K, N)
        score_range : (float, float)
            Lowest and highest possible score; anything outside is refused.

        Raises
        ------
        ResponseError
            Wrong shape, values out of range (percent and sentinels are named), an arm without a single score, bad prices.
        """
        values = np.asarray(scores)
        if values.ndim != 2 or 0 in values.shape:
            raise ResponseError(f"scores must have shape (arms, examples) with at least one of each, got {values.shape}")
        if values.dtype.kind not in "biuf":
            values = numbers(values.ravel(), "scores").reshape(values.shape)
        matrix = np.array(values, dtype=np.float64)
        names = _labels(range(matrix.shape[0]) if arms is None else arms, "arms", matrix.shape[0])
        ids = _labels(range(matrix.shape[1]) if examples is None else examples, "examples", matrix.shape[1])
        return _build(matrix, names, ids, cost, score_range)

    @classmethod
    def from_frame(
        cls, df: Any, *, arm: str = "arm", example: str = "example", score: str = "score", cost: Any = None,
        score_range: tuple[float, float] = (0.0, 1.0), layout: str = "auto",
    ) -> ResponseMatrix:  # fmt: skip
        """A matrix from a long frame (one row per arm and example) or a wide one (one row per arm).

        Parameters
        ----------
        df : pandas, polars or Arrow table, or a dict of columns
        arm, example, score : str
            Columns of a long frame. Ids are joined by value, never by position. A wide frame has a numeric column per
            example; its arms are the column `arm`, else the only column that is not numeric, else the index.
        cost : str, or as in `from_array`
            The name of a column with the cost of each cell (long frames), or prices by arm.
        score_range : (float, float)
        layout : {"auto", "long", "wide"}
            "auto": long when the frame has the columns `example` and `score`, wide when it has neither.

        Raises
        ------
        ResponseError
            Missing columns or names, duplicate (arm, example) rows, and everything `from_array` refuses.
        """
        check_choice(layout, "layout", ("auto", "long", "wide"))
        frame = to_pandas(df, "a response matrix")
        if len(frame) == 0:
            raise ResponseError("there are no rows; if a filter was applied, it left nothing")
        present = [name for name in (example, score) if name in frame.columns]
        if layout == "long" or (layout == "auto" and present):
            return _from_long(frame, arm, example, score, cost, score_range)
        return _from_wide(frame, arm, example, score, cost, score_range)

    @classmethod
    def read(cls, path: str | Path, *, arm: str = "arm", example: str = "example", score: str = "score", **options: Any) -> ResponseMatrix:
        """`from_frame` of a .parquet, .csv, .csv.gz, .jsonl or .jsonl.gz file; errors name the file."""
        frame = read_table(path, (arm, example))
        try:
            return cls.from_frame(frame, arm=arm, example=example, score=score, **options)
        except ResponseError as error:
            raise naming_file(path, error) from error.__cause__

    @property
    def n_arms(self) -> int:
        return len(self.arms)

    @property
    def n_examples(self) -> int:
        """Number of columns, N; an arm may have fewer cells (`n_cells`)."""
        return len(self.examples)

    @cached_property
    def missing(self) -> NDArray[np.bool_]:
        """Cells without a score, shape (K, N)."""
        return np.isnan(self.scores)

    @cached_property
    def n_cells(self) -> NDArray[np.int64]:
        """Scores per arm, shape (K,)."""
        return (~self.missing).sum(axis=1)

    @property
    def n_missing(self) -> int:
        return int(self.missing.sum())

    @cached_property
    def row_means(self) -> FloatArray:
        """Mean score of each arm over its observed cells, shape (K,): the truth that regret is measured against."""
        return np.nansum(self.scores, axis=1) / self.n_cells

    @property
    def best_arm(self) -> Any:
        """The arm with the largest row mean (the first of several)."""
        return self.arms[int(self.row_means.argmax())]

    @cached_property
    def arm_cost(self) -> FloatArray:
        """Price per example a policy plans with, shape (K,): the mean over the arm's cells where costs differ by cell."""
        if self.cost is None:
            return np.ones(self.n_arms)
        return self.cost if self.cost.ndim == 1 else self.cost.sum(axis=1) / self.n_cells

    def cell_cost(self) -> FloatArray:
        """True cost of every cell, shape (K, N), 0 where missing."""
        if self.cost is not None and self.cost.ndim == 2:
            return self.cost
        return np.where(self.missing, 0.0, self.arm_cost[:, None])

    @cached_property
    def total_cost(self) -> float:
        """Cost of evaluating every cell once: what budget fractions refer to."""
        if self.cost is not None and self.cost.ndim == 2:
            return float(self.cost.sum())
        return float((self.arm_cost * self.n_cells).sum())

    def policy_arguments(self) -> dict[str, Any]:
        """arms, n_examples, examples, missing and cost for a policy's constructor."""
        return {
            "arms": list(self.arms),
            "n_examples": self.n_examples,
            "examples": list(self.examples),
            "missing": self.missing if self.n_missing else None,
            "cost": self.arm_cost,
        }

    def to_frame(self) -> pd.DataFrame:
        """Long form: arm, example, score, cost; observed cells only."""
        row, column = np.nonzero(~self.missing)
        return pd.DataFrame(
            {
                "arm": [self.arms[k] for k in row],
                "example": [self.examples[j] for j in column],
                "score": self.scores[row, column],
                "cost": self.cell_cost()[row, column],
            }
        )

    def summary(self) -> pd.DataFrame:
        """One row per arm: arm, n, n_missing, mean, cost (planned price per example)."""
        return pd.DataFrame(
            {
                "arm": list(self.arms),
                "n": self.n_cells,
                "n_missing": self.n_examples - self.n_cells,
                "mean": self.row_means,
                "cost": self.arm_cost,
            }
        )

    def __repr__(self) -> str:
        kind = "unit" if self.cost is None else "per arm" if self.cost.ndim == 1 else "per cell"
        return f"ResponseMatrix({self.n_arms} arms x {self.n_examples} examples, {self.n_missing} missing, cost {kind})"


def _labels(labels: Iterable[Any], name: str, n: int) -> tuple[Any, ...]:
    try:
        checked = check_labels(labels, name)
    except ParameterError as error:
        raise ResponseError(str(error)) from None
    if len(checked) != n:
        raise ResponseError(f"{name} has {len(checked)} labels for {n} {'rows' if name == 'arms' else 'columns'} of scores")
    return tuple(checked)


def _build(scores: FloatArray, arms: tuple[Any, ...], examples: tuple[Any, ...], cost: Any, score_range: Any) -> ResponseMatrix:
    """Check ranges, empty arms and prices; the one place where a matrix comes into being. Owns `scores`."""
    low, high = check_score_range(score_range)
    missing = np.isnan(scores)
    outside = ~missing & ~((scores >= low) & (scores <= high))
    if outside.any():
        k, j = (int(i) for i in np.argwhere(outside)[0])
        raise ResponseError(
            f"{int(outside.sum())} scores {range_problem(scores[outside], low, high)} (first: arm {arms[k]!r}, example {examples[j]!r})"
        )
    empty = np.flatnonzero(missing.all(axis=1))
    if len(empty):
        have = "1 arm has" if len(empty) == 1 else f"{len(empty)} arms have"
        raise ResponseError(f"{have} no score at all: {shown(arms[int(k)] for k in empty)}; leave them out")
    if (low, high) != (0.0, 1.0):
        scores = (scores - low) / (high - low)
    prices = None if cost is None else _costs(cost, arms, missing)
    for array in (scores, prices):
        if array is not None:
            array.flags.writeable = False
    return ResponseMatrix(scores, arms, examples, prices)


def _costs(cost: Any, arms: Sequence[Hashable], missing: NDArray[np.bool_]) -> FloatArray:
    """Prices by arm, or by cell with 0 at missing cells; by arm too where an arm's cells all cost the same."""
    cells = cost if isinstance(cost, np.ndarray) else np.asarray(cost) if isinstance(cost, list) and cost and np.ndim(cost[0]) else None
    if cells is None or cells.ndim != 2:
        return check_costs(cost, arms)
    if cells.shape != missing.shape:
        raise ResponseError(f"cost of every cell must have the shape of the scores {missing.shape}, got {cells.shape}")
    values = numbers(cells.ravel(), "cost").reshape(cells.shape) if cells.dtype.kind not in "biuf" else cells.astype(np.float64)
    bad = ~missing & ~(np.isfinite(values) & (values >= 0.0))
    if bad.any():
        k = int(np.argwhere(bad)[0][0])
        raise ResponseError(
            f"cost of arm {arms[k]!r} is missing, negative or not finite in {int(bad[k].sum())} of its cells "
            f"(first value {float(values[k][bad[k]][0])!r}; {int(bad.sum())} in all); every scored cell needs a cost of at least 0"
        )
    first = values[np.arange(len(values)), (~missing).argmax(axis=1)]
    if (missing | (values == first[:, None])).all():
        return first
    return np.where(missing, 0.0, values)


def _from_long(frame: pd.DataFrame, arm: str, example: str, score: str, cost: Any, score_range: Any) -> ResponseMatrix:
    cost_column = cost if isinstance(cost, str) else None
    wanted = {"arm": arm, "example": example, "score": score, **({"cost": cost_column} if cost_column is not None else {})}
    absent = [f"{name!r} ({role}=)" for role, name in wanted.items() if name not in frame.columns]
    if absent:
        options = ", ".join(f"{role}=" for role, name in wanted.items() if name not in frame.columns)
        others = [column for column in frame.columns if column != example]
        turned = score not in others and len(others) > 1 and all(pd.api.types.is_numeric_dtype(frame[column].dtype) for column in others)
        hint = " (if each column is an arm, transpose the table: a row per arm)" if turned and example in frame.columns else ""
        raise ResponseError(
            f"missing columns {', '.join(absent)}; the columns are {shown(frame.columns, 30)}; name them with {options}{hint}"
        )
    for name in wanted.values():
        if list(frame.columns).count(name) > 1:
            raise ResponseError(f"column {name!r} appears more than once; keep one of that name")
    row, arms = _codes(frame[arm], arm)
    column, examples = _codes(frame[example], example)
    shape = (len(arms), len(examples))
    if shape[0] * shape[1] > _MAX_CELLS:
        raise ResponseError(
            f"{shape[0]} arms x {shape[1]} examples are {shape[0] * shape[1]:.3g} cells for {len(frame)} rows; "
            f"is {example!r} an id that arms share?"
        )
    key = row * shape[1] + column
    order = np.argsort(key, kind="stable")
    again = np.flatnonzero(np.diff(key[order]) == 0)
    if len(again):
        pairs = dict.fromkeys((arms[int(row[i])], examples[int(column[i])]) for i in order[again])
        twice = frame.iloc[[order[again[0]], order[again[0] + 1]]]
        differ = [name for name in frame.columns if list(frame.columns).count(name) == 1 and twice[name].astype(str).nunique() > 1]
        told = f" (the first two differ in {shown(differ)})" if differ else ""
        raise ResponseError(
            f"{len(again)} duplicate (arm, example) rows, first {shown(pairs, 3)}{told}; one row per pair is needed: logs with several "
            f"filters, metrics or repeats per example must be filtered to one of them (or averaged) first"
        )
    if shape[0] > 1 and len(key) > shape[0] and np.bincount(column).max() == 1:
        warnings.warn(
            f"no value of {example!r} is shared by two arms, so arms are compared on different examples: is it an id of the example, "
            "or of the row?",
            UserWarning,
            stacklevel=3,
        )
    scores = np.full(shape, np.nan)
    scores[row, column] = numbers(frame[score], f"column {score!r}")
    if cost_column is not None:
        cost = np.full(shape, np.nan)
        cost[row, column] = numbers(frame[cost_column], f"column {cost_column!r}")
    return _build(scores, tuple(arms), tuple(examples), cost, score_range)


def _codes(column: pd.Series, name: str) -> tuple[NDArray[np.int64], list[Any]]:
    """Codes into sorted unique labels; encoded by value, so index, categories and row order play no part."""
    try:
        codes, uniques = pd.factorize(column.astype(object))
    except TypeError:  # lists and objects of nested JSON
        odd = next(value for value in column if isinstance(value, (list, dict, set, np.ndarray)))
        raise ResponseError(f"column {name!r} must hold names or numbers, got {type(odd).__name__} {str(odd)[:60]}") from None
    if (codes < 0).any():
        rows = np.flatnonzero(codes < 0)
        raise ResponseError(f"column {name!r} is missing in {len(rows)} rows (first: {shown(rows.tolist())}); every score needs its ids")
    labels = [label.item() if isinstance(label, np.generic) else label for label in uniques]
    kinds = {type(label) for label in labels}
    if len(kinds) > 1 and len({str(label) for label in labels}) < len(labels):
        raise ResponseError(f"column {name!r} mixes types whose text is equal (such as 4 and '4'); convert it to one type first")
    try:
        order = sorted(range(len(labels)), key=lambda i: labels[i])
    except TypeError:
        order = sorted(range(len(labels)), key=lambda i: (type(labels[i]).__name__, str(labels[i])))
    place = np.empty(len(labels), dtype=np.int64)
    place[order] = np.arange(len(labels))
    return place[codes], [labels[i] for i in order]


def _from_wide(frame: pd.DataFrame, arm: str, example: str, score: str, cost: Any, score_range: Any) -> ResponseMatrix:
    if isinstance(cost, str):
        raise ResponseError(f"cost={cost!r} names a column of a long frame; this one is wide: give prices by arm, or an array by cell")
    text = [name for name in frame.columns if not pd.api.types.is_numeric_dtype(frame[name].dtype)] if frame.columns.is_unique else []
    if arm in frame.columns:
        names: Any = frame[arm]
        frame = frame.drop(columns=[arm])
    elif len(text) == 1 and text[0] == frame.columns[0] and isinstance(frame.index, pd.RangeIndex):
        names = frame[text[0]]
        frame = frame.drop(columns=text)
    else:
        names = frame.index
    odd = [name for name in text if name in frame.columns]
    if odd:
        raise ResponseError(
            f"the table is neither long (columns {arm!r}, {example!r} and {score!r}; name yours with arm=, example=, score=) nor wide "
            f"(a row per arm, numbers only): columns {shown(odd)} are not numeric; its columns are {shown(frame.columns, 10)}"
        )
    if frame.shape[1] == 0:
        raise ResponseError("the wide frame has no column of scores")
    if isinstance(cost, pd.DataFrame):
        cost = cost.reindex(index=list(names), columns=list(frame.columns)).to_numpy()
    elif isinstance(cost, Mapping):
        cost = dict(cost)
    values = np.column_stack([numbers(frame.iloc[:, j], f"column {frame.columns[j]!r}") for j in range(frame.shape[1])])
    arms = _labels(list(names), "arms", values.shape[0])
    return _build(values, arms, _labels(list(frame.columns), "examples", values.shape[1]), cost, score_range)
