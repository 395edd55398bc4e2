"""From batches of raw columns to a `VoteLog`: every row is judged before any is counted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from . import _winners
from ._coded import CodedCounter
from ._faults import FAULT_CODE, FAULT_NAMES, FAULTS, SHOWN, Finding
from ._labels import MISSING, LabelIndex, check_aliases, check_universe, to_numbers, value_at
from ._outcomes import FloatArray, IntArray
from ._validation import check_choice
from ._votes import MAX_COUNT, MAX_TOTAL, Tally, VoteLog, Votes, concat_votes, dropped_by_policy, group_votes
from .errors import ComparisonError

_COMPACT_FROM = 1 << 20  # groups held before they are added up again


@dataclass(frozen=True)
class Options:
    """The options shared by every way in, checked."""

    ties: str
    both_bad: str
    on_invalid: str
    aliases: dict[str, str]
    tasks: list[str] | None
    models: list[str] | None

    @classmethod
    def checked(cls, ties: Any, both_bad: Any, on_invalid: Any, aliases: Any, tasks: Any, models: Any) -> Options:
        alias = check_aliases(aliases)
        declared = check_universe(models, "models", "model")
        if declared is not None:
            declared = list(dict.fromkeys(alias.get(name, name) for name in declared))
        return cls(
            check_choice(ties, "ties", _winners.TIE_POLICIES),
            check_choice(both_bad, "both_bad", _winners.BOTH_BAD_POLICIES),
            check_choice(on_invalid, "on_invalid", ("error", "drop")),
            alias,
            check_universe(tasks, "tasks", "task"),
            declared,
        )


class WordsAmongNumbers(Exception):
    """A winner column of a text file read as numbers so far holds a word: its rows are to be read again, all of them as words."""


@dataclass(frozen=True)
class CountedBlock:
    """What a counter has taken in, without its own code: to be sent to another process and absorbed there by another counter."""

    n_rows: int
    total: float
    votes: Votes | None
    labels: dict[str, tuple[list[str], str | None, tuple[Any, str]]]  # role -> labels by code, their kind, where it was seen
    findings: dict[str, Finding]
    dropped: Tally


class VoteCounter:
    """Takes batches of columns, adds up equal votes, and ends in a `VoteLog` or one error that tells everything found.

    Memory follows the distinct votes, not the rows; only ids are kept row by row.
    """

    def __init__(
        self,
        options: Options,
        columns: Mapping[str, str | None],
        *,
        from_text: bool = False,
        numbers_may_name: bool = True,
        winner_is_words: bool = False,
    ) -> None:
        self._options = options
        self._numbers_may_name = numbers_may_name
        self._column = dict(columns)
        self._from_text = from_text
        self._winner_is_number: bool | None = False if winner_is_words else None
        self._tasks = LabelIndex("task")
        self._models = LabelIndex("model", options.aliases)
        self._clusters = LabelIndex("cluster") if columns.get("cluster") is not None else None
        self._ids = LabelIndex("id") if columns.get("id") is not None else None
        if columns.get("task") is None:
            self._tasks.add("all")
        for name in options.tasks or ():
            self._tasks.add(name)
        for name in options.models or ():
            self._models.add(name)
        self._coded = self._quick_way()
        self._parts: list[Votes] = []
        self._pending = 0
        self._compact_at = _COMPACT_FROM
        self._findings: dict[str, Finding] = {}
        self._dropped: Tally = Counter()
        self._total = 0.0
        self.n_rows = 0

    def add(self, batch: Mapping[str, Any]) -> None:
        """Judge and count one batch: a mapping from role (task, model_a, model_b, winner, count, id, cluster) to a column."""
        n = len(batch["model_a"])
        if n == 0:
            return
        start, self.n_rows = self.n_rows, self.n_rows + n
        if self._coded is not None:
            if self._coded.must_grow:
                self._take_coded()
            if self._coded.add(batch, n):
                return
        fault = np.zeros(n, dtype=np.int8)

        def mark(mask: NDArray[np.bool_], name: str) -> None:
            if mask.any():
                fault[mask & (fault == 0)] = FAULT_CODE[name]

        name = self._column
        if name.get("task") is None:
            task = np.zeros(n, dtype=np.int64)
        else:
            task = self._tasks.encode(batch["task"], str(name["task"]))
            mark(task < 0, "missing task")
        model_a = self._models.encode(batch["model_a"], str(name["model_a"]))
        model_b = self._models.encode(batch["model_b"], str(name["model_b"]))
        mark(model_a < 0, "missing model_a")
        mark(model_b < 0, "missing model_b")
        if self._options.tasks is not None:
            mark(task >= len(self._options.tasks) + (name.get("task") is None), "undeclared task")
        if self._options.models is not None:
            mark(model_a >= len(self._options.models), "undeclared model_a")
            mark(model_b >= len(self._options.models), "undeclared model_b")
        mark((model_a == model_b) & (model_a >= 0), "self-comparison")
        verdicts = self._read_winners(batch["winner"], model_a, model_b)
        if verdicts.fault.any():
            mark(verdicts.fault == _winners.WINNER_MISSING, "missing winner")
            mark(verdicts.fault == _winners.WINNER_UNKNOWN, "unknown winner")
            mark(verdicts.fault == _winners.WINNER_AMBIGUOUS, "ambiguous winner")
            mark(verdicts.fault == _winners.WINNER_RANGE, "winner out of range")
        count = self._read_counts(batch, mark)
        cluster = self._encode_optional(self._clusters, batch, "cluster", mark)
        vote_id = self._encode_optional(self._ids, batch, "id", mark)
        self._mark_policies(verdicts.kind, mark)
        keep: NDArray[Any] | slice = slice(None)
        if fault.any():
            self._note(fault, batch, start, task)
            keep = fault == 0
        votes = Votes(
            task,
            model_a,
            model_b,
            verdicts.outcome,
            verdicts.kind,
            np.ones(n, dtype=np.int64) if count is None else count,
            cluster,
            vote_id,
        )
        if not isinstance(keep, slice):
            votes = votes.take(keep)
        if count is not None and (votes.count == 0).any():
            self._dropped.update({("zero count", None): int((votes.count == 0).sum())})
            votes = votes.take(votes.count > 0)
        if self._must_raise() or len(votes) == 0:
            return
        self._keep(votes, unit_counts=count is None)

    def block(self) -> CountedBlock:
        """The state so far: counts, labels, and what was found wrong with which rows. Votes with ids do not travel."""
        self._take_coded()
        votes = group_votes(concat_votes(self._parts)) if self._parts and not self._must_raise() else None
        labels = {index.what: (index.labels, index.kind, index.kind_seen) for index in self._indices()}
        return CountedBlock(self.n_rows, self._total, votes, labels, self._findings, self._dropped)

    def absorb(self, block: CountedBlock) -> None:
        """Go on as if the rows of `block` had been added to this counter: they follow those it has."""
        new_code = {}
        for index in self._indices():
            labels, kind, seen = block.labels[index.what]
            index.check_kind(kind, seen)
            new_code[index.what] = np.array([index.add(label) for label in labels], dtype=np.int64)
        for name, theirs in block.findings.items():
            mine = self._findings.setdefault(name, Finding())
            mine.rows += theirs.rows
            mine.first += [(self.n_rows + row, shown) for row, shown in theirs.first[: SHOWN - len(mine.first)]]
            mine.values.update(theirs.values)
        self._dropped.update(block.dropped)
        self._add_total(block.total)
        self.n_rows += block.n_rows
        if block.votes is not None and not self._must_raise():
            self._hold(block.votes.recoded(new_code["task"], new_code["model"], new_code.get("cluster")))

    def _indices(self) -> list[LabelIndex]:
        return [index for index in (self._tasks, self._models, self._clusters) if index is not None]

    def finish(self) -> VoteLog:
        """The log in sorted label order; raises what was found, or when nothing usable is left."""
        if self._must_raise():
            raise ComparisonError(self._report())
        self._take_coded()
        self._refuse_empty()
        votes = concat_votes(self._parts)
        tasks, task_code = _sorted_universe(self._tasks.labels, votes.task, self._options.tasks)
        models, model_code = _sorted_universe(self._models.labels, np.concatenate([votes.model_a, votes.model_b]), self._options.models)
        if len(models) < 2:
            raise ComparisonError(f"there is only one model, {models[0]!r}: a comparison needs two ({self._what_was_dropped()})")
        clusters, cluster_code = self._finish_optional(self._clusters, votes.cluster)
        ids, id_code = self._finish_optional(self._ids, votes.vote_id)
        votes = votes.recoded(task_code, model_code, cluster_code, id_code)
        log = VoteLog(tasks, models, None, None, clusters, ids, self.n_rows, self._dropped)
        if self._ids is not None:
            return replace(log, single=votes)
        return replace(log, counted=votes if len(self._parts) == 1 else group_votes(votes))  # one part is distinct already

    def _quick_way(self) -> CodedCounter | None:
        """For votes without counts, ids and clusters; not of text files, where what a winner means may hang on rows to come."""
        if self._from_text or any(self._column.get(role) is not None for role in ("count", "id", "cluster")):
            return None
        options = self._options
        refused = [_winners.BOTH_BAD] if options.both_bad == "error" else []
        if options.ties == "error":
            refused += [_winners.TIE] + ([_winners.BOTH_BAD] if options.both_bad == "tie" else [])
        return CodedCounter(
            self._tasks,
            self._models,
            refused=tuple(refused),
            tasks_declared=None if options.tasks is None else len(options.tasks),
            models_declared=None if options.models is None else len(options.models),
        )

    def _take_coded(self) -> None:
        votes = None if self._coded is None else self._coded.take()
        if votes is not None:
            self._keep(votes, unit_counts=False, rows=votes.count)

    def _read_winners(self, column: Any, model_a: IntArray, model_b: IntArray) -> _winners.Verdicts:
        name = str(self._column["winner"])
        if not self._from_text:
            return _winners.decode_winners(column, name, model_a, model_b, self._models, numbers_may_name=self._numbers_may_name)
        verdicts = None
        if self._winner_is_number is not False:
            verdicts = _winners.decode_text_numbers(column, name, model_a, model_b, self._models)
        is_number = verdicts is not None
        if verdicts is not None and (verdicts.fault == _winners.WINNER_MISSING).all():
            return verdicts  # a batch of empty fields decides nothing
        if self._winner_is_number is None:
            self._winner_is_number = is_number
        elif self._winner_is_number != is_number:
            raise WordsAmongNumbers
        return verdicts if verdicts is not None else _winners.decode_winners(column, name, model_a, model_b, self._models)

    def _read_counts(self, batch: Mapping[str, Any], mark: Any) -> IntArray | None:
        if self._column.get("count") is None:
            return None
        numbers = to_numbers(batch["count"], str(self._column["count"]))
        if numbers is None and self._from_text:
            numbers = _parse_numbers(batch["count"])
        if numbers is None:
            raise ComparisonError(f"column {self._column['count']!r} (count) must hold integers, got {self._odd_count(batch)}")
        valid = (numbers >= 0) & (numbers <= MAX_COUNT) & (numbers == np.floor(numbers))
        mark(~valid, "invalid count")
        count = np.where(valid, numbers, 0.0)
        self._add_total(float(count.sum()))
        return count.astype(np.int64)

    def _add_total(self, count: float) -> None:
        self._total += count
        if self._total > MAX_TOTAL:
            raise ComparisonError(f"column {self._column['count']!r} adds up to more than 2**62 comparisons; rescale the counts")

    def _odd_count(self, batch: Mapping[str, Any]) -> str:
        column = batch["count"]
        odd = [v for v in (value_at(column, row) for row in range(len(column))) if not isinstance(v, (int, float)) and v is not None]
        return repr(odd[0]) if odd else f"of dtype {getattr(column, 'dtype', type(column).__name__)}"

    def _encode_optional(self, index: LabelIndex | None, batch: Mapping[str, Any], role: str, mark: Any) -> IntArray | None:
        if index is None:
            return None
        codes = index.encode(batch[role], str(self._column[role]))
        mark(codes < 0, f"missing {role}")
        return codes

    def _finish_optional(self, index: LabelIndex | None, codes: IntArray | None) -> tuple[list[str] | None, IntArray | None]:
        if index is None or codes is None:
            return None, None
        return _sorted_universe(index.labels, codes, None)

    def _mark_policies(self, kind: NDArray[np.int8], mark: Any) -> None:
        options = self._options
        if options.both_bad == "error":
            mark(kind == _winners.BOTH_BAD, "both bad")
        if options.ties == "error":
            mark((kind == _winners.TIE) | ((kind == _winners.BOTH_BAD) & (options.both_bad == "tie")), "tie")

    def _keep(self, votes: Votes, *, unit_counts: bool, rows: IntArray | None = None) -> None:
        """Group and hold votes; `rows` tells how many rows each stands for (one)."""
        if votes.vote_id is not None:  # policies and grouping wait until copies are known
            self._parts.append(votes)
            return
        tied, bad = dropped_by_policy(votes.kind, self._options.ties, self._options.both_bad)
        for mask, reason in ((tied, "tie"), (bad, "both bad")):
            if mask.any():
                self._tally(reason, votes.task[mask], None if rows is None else rows[mask])
        if tied.any() or bad.any():
            votes = votes.take(~(tied | bad))
        if len(votes) == 0:
            return
        self._hold(group_votes(votes, unit_counts=unit_counts))

    def _hold(self, grouped: Votes) -> None:
        self._parts.append(grouped)
        self._pending += len(grouped)
        if self._pending > self._compact_at:
            self._parts = [group_votes(concat_votes(self._parts))]
            self._pending = len(self._parts[0])
            self._compact_at = max(_COMPACT_FROM, 2 * self._pending)

    def _tally(self, reason: str, task: IntArray, rows: IntArray | None = None) -> None:
        codes, place, number = np.unique(task, return_inverse=True, return_counts=True)
        if rows is not None:
            number = np.zeros(len(codes), dtype=np.int64)
            np.add.at(number, place, rows)
        for code, n in zip(codes.tolist(), number.tolist(), strict=True):
            self._dropped[(reason, None if code == MISSING else self._tasks.labels[code])] += n

    def _note(self, fault: NDArray[np.int8], batch: Mapping[str, Any], start: int, task: IntArray) -> None:
        """Keep counts, first rows and values of every kind of fault in this batch."""
        for code in np.unique(fault[fault > 0]).tolist():
            name = FAULT_NAMES[code - 1]
            role = FAULTS[name].role
            rows = np.flatnonzero(fault == code)
            finding = self._findings.setdefault(name, Finding())
            finding.rows += len(rows)
            self._tally(name, task[rows])
            column = batch.get(role)
            for row in rows[: SHOWN - len(finding.first)].tolist() if len(finding.first) < SHOWN else ():
                shown = "" if column is None or name.startswith("missing") else f" ({value_at(column, row)!r})"
                finding.first.append((start + row, shown))
            if name == "unknown winner" and column is not None:
                for row in rows[:10_000].tolist():
                    finding.values[repr(value_at(column, row))] += 1

    def _must_raise(self) -> bool:
        if self._options.on_invalid == "error":
            return bool(self._findings)
        return any(FAULTS[name].always for name in self._findings)

    def _report(self) -> str:
        lines = []
        for name, fault in FAULTS.items():  # in one order, however the rows were cut into batches
            finding = self._findings.get(name)
            if finding is None:
                continue
            if self._options.on_invalid == "drop" and not fault.always:
                continue
            column = self._column.get(fault.role) or fault.role
            more = ", ..." if finding.rows > len(finding.first) else ""
            what = ""
            if finding.values:
                common = finding.values.most_common(SHOWN)
                what = " - " + ", ".join(f"{value} ({n} rows)" if n != 1 else f"{value} (1 row)" for value, n in common)
            first = ", ".join(f"{row}{shown}" for row, shown in finding.first)
            said = fault.said_of(finding.rows)
            lines.append(f"column {column!r}: {said}{what}; first at (rows from 0) {first}{more}; {fault.remedy}")
        return lines[0] if len(lines) == 1 else f"{len(lines)} problems in {self.n_rows} rows:\n" + "\n".join(f"- {line}" for line in lines)

    def _what_was_dropped(self) -> str:
        reasons: Counter[str] = Counter()
        for (reason, _), n in self._dropped.items():
            reasons[reason] += n
        listed = ", ".join(f"{reason}: {n}" for reason, n in sorted(reasons.items()))
        return f"{self.n_rows} rows read, {sum(reasons.values())} dropped" + (f" ({listed})" if listed else "")

    def _refuse_empty(self) -> None:
        if self._parts:
            return
        if self.n_rows == 0:
            raise ComparisonError("there are no comparisons: the input has zero rows")
        raise ComparisonError(f"no comparisons are left: {self._what_was_dropped()}")


def _sorted_universe(labels: Sequence[str], used: IntArray, declared: Sequence[str] | None) -> tuple[list[str], IntArray]:
    """Labels in use (or declared) in sorted order, and the map from old codes to new."""
    present = np.zeros(len(labels), dtype=bool)
    present[used] = True
    if declared is not None:
        known = set(declared)
        present |= np.fromiter((label in known for label in labels), dtype=bool, count=len(labels))
    chosen = sorted((label, code) for code, label in enumerate(labels) if present[code])
    recode = np.full(len(labels), MISSING, dtype=np.int64)
    recode[[code for _, code in chosen]] = np.arange(len(chosen))
    return [label for label, _ in chosen], recode


def _parse_numbers(column: Any) -> FloatArray | None:
    """Numbers written as text; empty fields become NaN."""
    numbers = np.full(len(column), np.nan)
    for row, value in enumerate(column.tolist()):
        text = value.strip() if isinstance(value, str) else ""
        if text:
            try:
                numbers[row] = float(text)
            except ValueError:
                return None
    return numbers
