"""The board: scores, ranks, simultaneous rank intervals and top-k certificates per (task, model)."""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ._estimator import diagnostic
from ._files import write_atomically
from ._random import RandomState
from ._threads import one_blas_thread
from ._validation import check_comparisons, check_int
from .bands import NoiseDraws, check_band_arguments, check_claim, collect_critical_values, evaluate_claims
from .board_io import SCHEMA_VERSION, board_fields, board_to_dict, make_frame, read_parquet, write_parquet
from .certificates import certify_ranks, count_signs, point_ranks, rank_intervals
from .errors import ParameterError, StateError
from .one_sided import certify_cell
from .scales import rescale_board

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .comparisons import Comparisons
    from .inference import GapInference


@dataclass(frozen=True, eq=False)
class Leaderboard:
    """Certified leaderboard of every task.

    Attributes
    ----------
    top_k : int
    alpha : float
        Error rate of every claim of the family.
    family : str or tuple of str
        What the intervals and certificates hold for jointly; see `GapInference.bands`.
    method, calibration, design : str
    n_draws, n_folds : int
        Without draws (0) there are no intervals and nothing is certified.
    critical_value : float, or Series with one value per claim
        Of the simultaneous max-t band; NaN without draws or without any usable gap.
    n_models : int
        Models ranked on every task, also where the board shows fewer rows.
    diagnostics : dict
        Each entry has "status" ("ok", "failed", "not_checked"), "value" and "detail".
    notes : tuple of str
        What was changed or flagged on the way.
    random_state : int or None
        Seed of the draws; None for fresh randomness or a Generator.
    n_splits : int
        Random splits into folds that the scores and covariances are means of; see `infer_gaps`.
    """

    top_k: int
    alpha: float
    family: str | tuple[str, ...]
    method: str
    calibration: str
    design: str
    n_draws: int
    n_folds: int
    critical_value: float | pd.Series
    n_models: int
    diagnostics: dict[str, dict[str, Any]]
    notes: tuple[str, ...]
    random_state: int | None
    _frame: pd.DataFrame = field(repr=False)
    n_splits: int = 1

    def to_frame(self, *, scale: str = "natural", anchor: Any = None) -> pd.DataFrame:
        """One row per (task, model) the family covers, sorted by task, rank, model.

        Columns: task, model, score, std_error (inf where unbounded), rank, rank_low, rank_high (missing without draws),
        certificate ("top-k", "not-top-k", "unresolved"), n (votes of the model on the task). A standard error is that of the
        score less the mean of all models whose gaps to it are bounded: of all models of the task, as a rule.

        Parameters
        ----------
        scale : {"natural", "elo"}
            Units of `score` and `std_error`: log-odds with mean 0, or the Elo-like scale (400 / ln 10 points a unit, mean 1000).
            Ranks and certificates never depend on it.
        anchor : str or (str, float), optional
            A model whose score on every task shall be the scale's centre, or the number given with it. Changes scores only:
            standard errors stay those of the centred scores.

        Raises
        ------
        ParameterError
            An unknown scale, or a task on which the anchor has no score.
        """
        return rescale_board(self._frame, scale, anchor)

    def __len__(self) -> int:
        return len(self._frame)

    def _sets(self, column: str) -> dict[str, list[str]]:
        """Per task, models in display order whose `column` (a rank) is within top_k; the trivial bound where it is missing."""
        out: dict[str, list[str]] = {str(task): [] for task in self._frame["task"].unique()}
        trivial = 1 if column == "rank_low" else self.n_models
        inside = self._frame[column].fillna(trivial) <= self.top_k
        for task, model in zip(self._frame["task"][inside], self._frame["model"][inside], strict=True):
            out[str(task)].append(str(model))
        return out

    def inner_sets(self) -> dict[str, list[str]]:
        """Per task, the models certified to be among the top_k. Over all tasks at once with ``family="all"``."""
        return self._sets("rank_high")

    def outer_sets(self) -> dict[str, list[str]]:
        """Per task, the models that may be among the top_k: none of the others is. Over all tasks at once with ``family="all"``."""
        return self._sets("rank_low")

    def plot(self, task: str | None = None, ax: Axes | None = None) -> Any:
        """Draw the rank intervals of one task, or of all tasks in a grid (needs the extra ``plot``).

        Returns
        -------
        Axes or ndarray of Axes
            What was drawn on; an array without `task`, where there is more than one.
        """
        from .plotting import plot_ranks

        return plot_ranks(self, task=task, ax=ax)

    def to_dict(self, *, scale: str = "natural", anchor: Any = None) -> dict[str, Any]:
        """Everything as strict JSON types: plain Python scalars, unbounded and missing numbers as None.

        `scale` and `anchor` as in `to_frame`; what is not on the natural scale says so, and `from_dict` does not read it.
        """
        return board_to_dict(self, scale, anchor)

    def to_json(self, path: str | os.PathLike[str]) -> None:
        """Write `to_dict` as JSON, atomically (a reader never sees half a file)."""
        write_atomically(path, (json.dumps(self.to_dict(), allow_nan=False, indent=1, ensure_ascii=False) + "\n").encode())

    def csv_text(self, *, scale: str = "natural", anchor: Any = None) -> str:
        """The rows of `to_frame` as CSV, with a last column `schema_version`."""
        rows = self.to_frame(scale=scale, anchor=anchor)
        return rows.assign(schema_version=SCHEMA_VERSION).to_csv(index=False, lineterminator="\n")

    def to_csv(self, path: str | os.PathLike[str], *, scale: str = "natural", anchor: Any = None) -> None:
        """Write `csv_text` (rows only: JSON and Parquet also keep how the board was made)."""
        write_atomically(path, self.csv_text(scale=scale, anchor=anchor).encode())

    def to_html(self, path: str | os.PathLike[str], *, title: str | None = None, scale: str = "natural", anchor: Any = None) -> None:
        """Write the board as one HTML file that needs nothing else: tables, pictures, the claim in words (extra ``report``).

        Parameters
        ----------
        path : path of the file
            Written atomically.
        title : str, optional
            Heading of the page.
        scale, anchor : see `to_frame`

        Raises
        ------
        MissingExtraError
            jinja2 is not installed.
        """
        from .report import board_html

        write_atomically(path, board_html(self, title=title, scale=scale, anchor=anchor).encode())

    def plot_heatmap(self, ax: Axes | None = None, *, max_models: int | None = None) -> Any:
        """Ranks of all models on all tasks as colours, unresolved cells hatched (needs the extra ``plot``); see `plots.heatmap`."""
        from .plots.heatmap import plot_heatmap

        return plot_heatmap(self, ax, max_models=max_models)

    def to_parquet(self, path: str | os.PathLike[str]) -> None:
        """Write the rows as Parquet, with the rest of `to_dict` in the file's metadata (needs the extra ``arrow``)."""
        write_parquet(self, path)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Leaderboard:
        """The board `to_dict` was called on.

        Raises
        ------
        StateError
            Not a board, of a newer version, or broken; names the field.
        """
        return cls(**board_fields(data))

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> Leaderboard:
        """Read a board written by `to_json` or `to_parquet`.

        Raises
        ------
        StateError
            Not such a file, of a newer version, or broken.
        ParameterError
            The file's suffix is neither .json nor .parquet.
        """
        suffix = Path(path).suffix.lower()
        if suffix == ".parquet":
            return cls.from_dict(read_parquet(path))
        if suffix == ".json":
            return cls.from_json(path)
        raise ParameterError(f"cannot read a board from {os.fspath(path)!r}: use a .json or .parquet file (a .csv holds rows only)")

    @classmethod
    def from_json(cls, path: str | os.PathLike[str]) -> Leaderboard:
        """Read a board written by `to_json`; raises `StateError` as `read`."""
        try:
            data = json.loads(Path(path).read_text(encoding="utf-8"))
        except ValueError as error:
            raise StateError(f"{os.fspath(path)} is not a JSON file: {error}") from error
        return cls.from_dict(data)


@one_blas_thread
def make_board(
    inference: GapInference, top_k: Any, *, family: Any, alpha: Any, method: Any, n_draws: Any, random_state: RandomState
) -> Leaderboard:
    """See `GapInference.certify`."""
    n_tasks, n_models = len(inference.tasks), len(inference.models)
    top_k = check_int(top_k, "top_k", low=1, high=n_models)
    parsed, alpha, method, n_draws = check_band_arguments(inference, family, alpha, method, n_draws)
    if parsed.kind == "all":
        from .inference import check_rows

        check_rows(n_tasks, n_models * (n_models - 1) // 2, "the family 'all'", "family='task' or ('model', model)")
    draws = NoiseDraws(inference._noise, n_draws, random_state)
    one_model = parsed.kind in ("cell", "model")
    above, below = np.zeros((n_tasks, n_models), dtype=np.int64), np.zeros((n_tasks, n_models), dtype=np.int64)
    covered = np.zeros((n_tasks, n_models), dtype=bool)
    one_sided = np.full((n_tasks, n_models), "unresolved", dtype=object)
    critical_values = []
    for result in evaluate_claims(inference, parsed, draws, alpha, method):
        rows = slice(None) if parsed.kind in ("model", "all") else slice(result.claim[0], result.claim[0] + 1)
        columns = slice(result.claim[-1], result.claim[-1] + 1) if one_model else slice(None)
        covered[rows, columns] = True
        if result.counts is not None:
            at_counts = result.counts.task, result.counts.model
            above[at_counts], below[at_counts] = result.counts.above, result.counts.below
        else:
            declared = result.sign != 0
            index = result.task[declared], result.first[declared], result.second[declared]
            count_signs(*index, result.sign[declared], above, below, one_model=one_model)
        if method == "one-sided" and n_draws:
            one_sided[result.claim] = certify_cell(result, draws, alpha, top_k)
        critical_values.append(result.critical_value)
    low, high = rank_intervals(above, below, n_models)
    scores, votes = inference._scores, inference.votes.to_numpy()
    ranks = point_ranks(scores)
    certificate = one_sided if method == "one-sided" else certify_ranks(low, high, top_k)
    task, model = np.nonzero(covered)
    order = np.lexsort((model, ranks[task, model], task))  # labels are sorted, so codes sort like names
    task, model = task[order], model[order]
    at = task, model
    frame = make_frame(
        inference.tasks.take(task),
        inference.models.take(model),
        scores[at],
        inference._score_errors[at],
        ranks[at],
        low[at].tolist() if n_draws else [None] * len(task),
        high[at].tolist() if n_draws else [None] * len(task),
        certificate[at] if n_draws else np.full(len(task), "unresolved", dtype=object),
        votes[at],
    )
    diagnostics = dict(inference.diagnostics)
    enough = "not_checked" if n_draws == 0 else "ok" if n_draws * alpha >= 20 else "failed"
    diagnostics["draws"] = diagnostic(enough, n_draws * alpha, "expected draws beyond the critical value; 20 or more are wanted")
    diagnostics["top_k_gap"] = _top_k_gap(inference, top_k)
    return Leaderboard(
        top_k,
        alpha,
        parsed.name,
        method,
        inference.calibration,
        inference.design,
        n_draws,
        inference.n_folds,
        collect_critical_values(critical_values, parsed, inference.tasks, inference.models),
        n_models,
        diagnostics,
        inference.notes,
        int(random_state) if isinstance(random_state, (int, np.integer)) else None,
        frame,
        inference.n_splits,
    )


def _top_k_gap(inference: GapInference, top_k: int) -> dict[str, Any]:
    """Smallest distance over the tasks between places K and K + 1: how hard the cut is."""
    scores = inference._scores
    if top_k == scores.shape[1]:
        return diagnostic("not_checked", None, "every model is within top_k")
    ordered = -np.sort(-np.where(np.isnan(scores), -np.inf, scores), axis=1)
    with np.errstate(invalid="ignore"):
        gaps = ordered[:, top_k - 1] - ordered[:, top_k]
    finite = np.flatnonzero(np.isfinite(gaps))
    if len(finite) == 0:
        return diagnostic("not_checked", None, "no task has scores on both sides of the cut")
    worst = int(finite[np.argmin(gaps[finite])])
    smallest = float(gaps[worst])
    status = "ok" if smallest > 1e-9 else "failed"
    return diagnostic(status, smallest, f"smallest gap between places {top_k} and {top_k + 1}, on task {str(inference.tasks[worst])!r}")


def leaderboard(
    comparisons: Comparisons,
    *,
    rank: int | str = "auto",
    top_k: int | None = None,
    alpha: float = 0.05,
    family: Any = "task",
    method: str = "step-down",
    calibration: str = "auto",
    n_draws: int = 2000,
    disconnected: str = "error",
    n_jobs: int = 1,
    random_state: RandomState = 0,
) -> Leaderboard:
    """Votes in, certified leaderboard out: low-rank fit, debiased gaps, simultaneous certificates.

    Parameters
    ----------
    comparisons : Comparisons
    rank : int or "auto", default "auto"
        Rank of the low-rank model.
    top_k : int, optional
        Default min(10, number of models // 2), at least 1.
    alpha, family, method, n_draws : see `GapInference.bands`
    calibration : see `infer_gaps`
    disconnected : {"error", "allow"}, default "error"
        Comparisons that fall apart into pieces: raise, or rank without any certificate across pieces.
    n_jobs : int, default 1
        Worker processes of the refits or training sets; see `infer_gaps`.
    random_state : int, Generator, SeedSequence or None, default 0
        Of the folds or simulated votes, and of the draws.

    Raises
    ------
    ParameterError
        An argument outside its meaning, checked before anything is fitted.
    NotIdentifiableError
        The pooled comparisons fall apart.

    References
    ----------
    .. [1] "Low Rank for Rank", arXiv 2605.29395.
    """
    from .infer import infer_gaps
    from .low_rank import LowRankBradleyTerry

    check_comparisons(comparisons)
    n_models = len(comparisons.models)
    top_k = max(1, min(10, n_models // 2)) if top_k is None else check_int(top_k, "top_k", low=1, high=n_models)
    check_claim(comparisons.tasks, comparisons.models, family, alpha, method, n_draws)
    inference = infer_gaps(
        comparisons,
        LowRankBradleyTerry(rank=rank, disconnected=disconnected),
        calibration=calibration,
        n_jobs=n_jobs,
        random_state=random_state,
    )
    return inference.certify(top_k, family=family, alpha=alpha, method=method, n_draws=n_draws, random_state=random_state)
