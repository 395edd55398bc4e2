"""`Comparisons`: validated pairwise votes, held as counts."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import pandas as pd

from . import _counts_io, _intake
from ._counting import Options, VoteCounter, WordsAmongNumbers
from ._labels import as_column, near_duplicates, warn_of_near_duplicates
from ._settling import merge, settle
from ._validation import check_choice
from ._vote_tables import counts_frame, summary_frame
from ._votes import VoteLog
from .errors import ComparisonError

Labels = Sequence[Any] | None


class Comparisons:
    """Pairwise votes per task, checked once and kept as integer counts.

    Make one with `from_frame`, `from_arrays`, `read` or `read_counts`; `a + b` merges two. Labels are str (integers become their
    decimal text), coded by value in sorted order. Costs downstream follow the number of distinct (task, pair, outcome) groups
    (times clusters, where there are any), not the number of votes.

    Other Parameters
    ----------------
    ties : {"half", "drop", "error"}
        A tie is an outcome of 1/2 (a quasi-likelihood), or is left out, or is refused.
    both_bad : {"tie", "drop", "error"}
        What "both bad" verdicts are; as ties they follow `ties`.
    on_invalid : {"error", "drop"}
        A row without a task, model or verdict, with an unknown label or a model against itself is refused, or dropped and counted.
    count : str or array, optional
        Non-negative integer frequencies: a row with count 3 is three equal rows. Rows with count 0 are ignored.
    id : str or array, optional
        Name of the vote. Copies (same id, task, models and winner) count once and are reported; contradictions raise. An id under
        several tasks is one cluster.
    cluster : str or array, optional
        Judge, prompt or battle: votes of one cluster are not independent. Clusters that share an id are joined.
    aliases : mapping of str to str, optional
        Old model name -> new one, used for the winner column too. Nothing else is ever merged.
    tasks, models : sequence of str, optional
        The whole label universe. Listed labels stay, seen or not; a label outside the list raises.

    Attributes
    ----------
    n : int
        Comparisons kept (the total of the counts).
    n_rows, n_dropped : int
        Rows read, and rows of these that were dropped for whatever reason (see `summary().attrs["dropped"]`).
    tasks, models : pandas.Index of str
        Sorted.
    ties, both_bad : str
        The policies in force.
    """

    ties: str
    both_bad: str

    def __init__(self, log: VoteLog, *, ties: str, both_bad: str, warn: bool = True) -> None:
        """Not for direct use; see `from_frame`, `from_arrays`, `read`."""
        self.ties = ties
        self.both_bad = both_bad
        self._log = log
        self._table, self._kept, self._dropped, self._cluster_labels = settle(log, ties, both_bad)
        if warn:
            warn_of_near_duplicates(log.tasks, log.models, stacklevel=5)  # the caller of from_frame and its like

    @classmethod
    def from_frame(
        cls,
        df: Any,
        *,
        task: str | None = "task",
        model_a: str = "model_a",
        model_b: str = "model_b",
        winner: str = "winner",
        count: str | None = None,
        id: str | None = None,
        cluster: str | None = None,
        ties: Literal["half", "drop", "error"] = "half",
        both_bad: Literal["tie", "drop", "error"] = "tie",
        on_invalid: Literal["error", "drop"] = "error",
        aliases: Mapping[str, str] | None = None,
        tasks: Labels = None,
        models: Labels = None,
    ) -> Comparisons:
        """Read votes from a table, one row each.

        Parameters
        ----------
        df : DataFrame of pandas or polars, Arrow table, structured array or dict of arrays
            Or anything with ``__arrow_c_stream__`` or ``to_pandas()``. Read by position, never changed; the index is ignored. DuckDB
            relations, record batch readers and other Arrow streams are read batch by batch (and are used up by it).
        task, model_a, model_b, winner, count, id, cluster : str
            Column names; ``task=None`` puts all votes under one task named "all".
        ties, both_bad, on_invalid, aliases, tasks, models
            See the class.

        Returns
        -------
        Comparisons

        Raises
        ------
        ComparisonError
            Naming the column, the first offending rows, their number and the remedy.
        """
        names = _names(task, model_a, model_b, winner, count, id, cluster)
        options = Options.checked(ties, both_bad, on_invalid, aliases, tasks, models)
        return cls._count(_intake.frame_batches(df, names), names, options)

    @classmethod
    def from_arrays(
        cls,
        task: Any,
        model_a: Any,
        model_b: Any,
        outcome: Any,
        count: Any = None,
        *,
        id: Any = None,
        cluster: Any = None,
        ties: Literal["half", "drop", "error"] = "half",
        both_bad: Literal["tie", "drop", "error"] = "tie",
        on_invalid: Literal["error", "drop"] = "error",
        aliases: Mapping[str, str] | None = None,
        tasks: Labels = None,
        models: Labels = None,
    ) -> Comparisons:
        """Read votes from equal-length arrays; `task` may be None, and `outcome` is what the winner column may hold, except that a
        number is always an outcome, never a model named by that number. See `from_frame`."""
        given = {"task": task, "model_a": model_a, "model_b": model_b, "winner": outcome, "count": count, "id": id, "cluster": cluster}
        names = {role: "outcome" if role == "winner" else role for role, values in given.items() if values is not None}
        options = Options.checked(ties, both_bad, on_invalid, aliases, tasks, models)
        for role in ("model_a", "model_b", "winner"):
            if given[role] is None:
                raise ComparisonError(f"{'outcome' if role == 'winner' else role} is None; it must be an array, one entry per comparison")
        columns = {role: as_column(given[role], name) for role, name in names.items()}
        _intake.same_length(columns, names)
        return cls._count(_intake.slices(columns), names, options, numbers_may_name=False)

    @classmethod
    def read(
        cls,
        path: str | Path,
        *,
        task: str | None = "task",
        model_a: str = "model_a",
        model_b: str = "model_b",
        winner: str = "winner",
        count: str | None = None,
        id: str | None = None,
        cluster: str | None = None,
        ties: Literal["half", "drop", "error"] = "half",
        both_bad: Literal["tie", "drop", "error"] = "tie",
        on_invalid: Literal["error", "drop"] = "error",
        aliases: Mapping[str, str] | None = None,
        tasks: Labels = None,
        models: Labels = None,
    ) -> Comparisons:
        """Read votes from a .parquet, .csv, .csv.gz, .jsonl or .jsonl.gz file in batches; memory follows the distinct votes.

        Text files must be UTF-8 (with or without a byte order mark). In a CSV file names are taken literally ("NA" and "1" are
        names, an empty field is missing), and a winner column of nothing but numbers, or of true and false, is read as numbers.
        Parquet needs the extra ``arrow``. For parameters and errors see `from_frame`.
        """
        names = _names(task, model_a, model_b, winner, count, id, cluster)
        options = Options.checked(ties, both_bad, on_invalid, aliases, tasks, models)
        file = _intake.as_path(path)
        try:
            if ".csv" in file.name.lower():
                return cls._count_text(lambda: _intake.read_batches(file, names), names, options)
            return cls._count(_intake.read_batches(file, names), names, options)
        except ComparisonError as error:
            raise _intake.naming(file, error) from error.__cause__

    @classmethod
    def from_dask(
        cls,
        ddf: Any,
        *,
        task: str | None = "task",
        model_a: str = "model_a",
        model_b: str = "model_b",
        winner: str = "winner",
        count: str | None = None,
        id: str | None = None,
        cluster: str | None = None,
        ties: Literal["half", "drop", "error"] = "half",
        both_bad: Literal["tie", "drop", "error"] = "tie",
        on_invalid: Literal["error", "drop"] = "error",
        aliases: Mapping[str, str] | None = None,
        tasks: Labels = None,
        models: Labels = None,
    ) -> Comparisons:
        """Count the votes of a dask DataFrame where they lie: every block on its worker, and only counts come back.

        The same answer, and the same errors, as `from_frame` on the whole table. Runs on the active ``dask.distributed`` client, else
        on dask's threads. Needs the extra ``scale``.

        Parameters
        ----------
        ddf : dask.dataframe.DataFrame
        task, model_a, model_b, winner, count, cluster, ties, both_bad, on_invalid, aliases, tasks, models
            See `from_frame`. With `cluster` there is one count per cluster and cell, so what comes back grows with the clusters.
        id : str, optional
            Refused: copies can be found among single votes only, which would all have to come to one machine.

        Raises
        ------
        ComparisonError
            As `from_frame`; not a dask DataFrame; an `id`.
        WorkerError
            Workers were lost again and again on one block; the message names it. (A block of a lost worker is counted anew by another
            worker first, as often as dask's setting ``distributed.scheduler.allowed-failures`` says.)
        MissingExtraError
            dask is not installed.
        """
        from ._dask import count_blocks

        names = _names(task, model_a, model_b, winner, count, id, cluster)
        options = Options.checked(ties, both_bad, on_invalid, aliases, tasks, models)
        return cls(count_blocks(ddf, names, options).finish(), ties=options.ties, both_bad=options.both_bad)

    @classmethod
    def _count(
        cls,
        batches: Iterable[Mapping[str, Any]],
        names: Mapping[str, str | None],
        options: Options,
        *,
        numbers_may_name: bool = True,
    ) -> Comparisons:
        counter = VoteCounter(options, names, numbers_may_name=numbers_may_name)
        for batch in batches:
            counter.add(batch)
        return cls(counter.finish(), ties=options.ties, both_bad=options.both_bad)

    @classmethod
    def _count_text(
        cls, batches: Callable[[], Iterable[Mapping[str, Any]]], names: Mapping[str, str | None], options: Options
    ) -> Comparisons:
        """Count votes of a text file. A winner column is numbers only if all of it is, which the first batches cannot know: where a later
        one holds words, the whole is read again, so that the answer does not hang on the size of the batches."""
        for winner_is_words in (False, True):
            counter = VoteCounter(options, names, from_text=True, winner_is_words=winner_is_words)
            try:
                for batch in batches():
                    counter.add(batch)
            except WordsAmongNumbers:
                continue
            break
        return cls(counter.finish(), ties=options.ties, both_bad=options.both_bad)

    def __add__(self, other: object) -> Comparisons:
        """Merge: labels united, counts added, copies found across both where both carry ids. Exact; the order does not matter."""
        if not isinstance(other, Comparisons):
            return NotImplemented
        for name in ("ties", "both_bad"):
            mine, theirs = getattr(self, name), getattr(other, name)
            if mine != theirs:
                raise ComparisonError(f"cannot merge comparisons with {name}={mine!r} and {name}={theirs!r}; read both with one policy")
        log = merge(self._log, other._log)
        merged = Comparisons(log, ties=self.ties, both_bad=self.both_bad, warn=False)
        known = near_duplicates(self._log.models) + near_duplicates(other._log.models)
        if any(group not in known for group in near_duplicates(log.models)):
            warn_of_near_duplicates([], log.models, stacklevel=3)
        return merged

    @property
    def n(self) -> int:
        return int(self._table.count.sum())

    @property
    def n_rows(self) -> int:
        return self._log.n_rows

    @property
    def n_dropped(self) -> int:
        return sum(n for (reason, _), n in self._dropped.items() if reason != "zero count")

    @property
    def tasks(self) -> pd.Index:
        return pd.Index(self._log.tasks, name="task")

    @property
    def models(self) -> pd.Index:
        return pd.Index(self._log.models, name="model")

    @property
    def counts(self) -> pd.DataFrame:
        """One row per (task, pair): task, model_a, model_b, wins, losses, ties, seen from model_a (the first in sorted order).

        Where there are graded outcomes, `graded` counts them and `graded_sum` adds them up; they are in no other column.
        """
        return counts_frame(self._log, self._table)

    def summary(self) -> pd.DataFrame:
        """What was taken in, per task.

        Returns
        -------
        DataFrame, index `task`
            n (comparisons), n_models (seen), n_pairs, n_pieces (connected pieces among the models seen), n_separated (models whose
            score is unbounded without a penalty), ties, both_bad (comparisons, the latter part of the former), dropped (rows),
            first_share (share of decisive votes won by the model in column model_a; NaN without any). A task that lost all its rows
            is listed with n = 0.
            ``attrs``: ties, both_bad (policies), n, n_rows, n_dropped, dropped (reason -> rows), zero_count_rows, n_clusters (None
            without clusters), first_share.
        """
        frame = summary_frame(self._log, self._table, self._kept, self._dropped)
        frame.attrs = {
            "ties": self.ties,
            "both_bad": self.both_bad,
            "n": self.n,
            "n_rows": self.n_rows,
            "n_dropped": self.n_dropped,
            "dropped": frame.attrs["dropped"],
            "zero_count_rows": frame.attrs["zero_count_rows"],
            "n_clusters": len(self._cluster_labels) if self._table.cluster is not None else None,
            "first_share": frame.attrs["first_share"],
        }
        return frame

    def __repr__(self) -> str:
        dropped = f", {self.n_dropped} rows dropped" if self.n_dropped else ""
        return f"<Comparisons: n={self.n}, {len(self._log.tasks)} tasks, {len(self._log.models)} models, ties={self.ties!r}{dropped}>"

    def write_counts(self, path: str | Path) -> None:
        """Write the counts to .json, .jsonl, .csv (either also with .gz) or .parquet, with a schema version.

        Long form: task, model_a, model_b, outcome, verdict, count and, where there are clusters, cluster. JSON, JSON Lines and Parquet
        keep everything but the ids; CSV keeps counts, labels, clusters and policies, not the report of drops.
        """
        _counts_io.write_counts(Path(path), self._settled_log(), self.ties, self.both_bad)

    @classmethod
    def read_counts(cls, path: str | Path) -> Comparisons:
        """Read what `write_counts` wrote."""
        log, ties, both_bad = _counts_io.read_counts(Path(path))
        return cls(log, ties=check_choice(ties, "ties", ("half", "drop", "error")), both_bad=both_bad)

    def _settled_log(self) -> VoteLog:
        """The log without ids: copies gone, clusters joined, their report in the tally."""
        log = self._log
        clusters = self._cluster_labels if self._table.cluster is not None else None
        return VoteLog(log.tasks, log.models, self._kept, None, clusters, None, log.n_rows, self._dropped)


def _names(
    task: str | None, model_a: str, model_b: str, winner: str, count: str | None, id: str | None, cluster: str | None
) -> dict[str, str | None]:
    names = {"task": task, "model_a": model_a, "model_b": model_b, "winner": winner, "count": count, "id": id, "cluster": cluster}
    for role, name in names.items():
        optional = role not in ("model_a", "model_b", "winner")
        if not (isinstance(name, Hashable) and (optional or name is not None)):
            raise ComparisonError(f"{role}= takes the name of a column{' or None' if optional else ''}, got {name!r}")
    return names
