"""The evaluation store: an SQLite file with every batch that was started and every result, written before anything else happens.

The file is a log. Intents (a batch is about to run) and results share one sequence, the order in which the policy was
asked and told; running through it with a policy that is set up alike repeats the run exactly.
"""

from __future__ import annotations

import json
import os
import sqlite3
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from . import __version__
from ._store_lock import StoreLock
from .errors import ParameterError, StateError, StoreError

if TYPE_CHECKING:
    import pandas as pd

    from .policies.protocol import Pull

APPLICATION_ID = 0x6C726769  # "lrgi"
SCHEMA = 1
RESULT_STATUSES = ("ok", "error", "timeout", "refused", "released")
_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE intents (
    seq INTEGER PRIMARY KEY,
    token TEXT NOT NULL,
    attempt INTEGER NOT NULL CHECK (attempt >= 1),
    arm TEXT NOT NULL,
    examples TEXT NOT NULL,
    cost REAL NOT NULL,
    worker INTEGER NOT NULL,
    started REAL NOT NULL,
    UNIQUE (token, attempt)
);
CREATE TABLE results (
    seq INTEGER PRIMARY KEY,
    token TEXT NOT NULL,
    attempt INTEGER NOT NULL,
    status TEXT NOT NULL CHECK (status IN ('ok', 'error', 'timeout', 'refused', 'released')),
    scores TEXT,
    cost REAL NOT NULL,
    message TEXT,
    finished REAL NOT NULL,
    UNIQUE (token, attempt),
    FOREIGN KEY (token, attempt) REFERENCES intents (token, attempt),
    CHECK ((status = 'ok') = (scores IS NOT NULL))
);
"""
_EVENTS = """
SELECT seq, 'intent', token, attempt, arm, examples, cost, worker, NULL, NULL FROM intents
UNION ALL SELECT seq, 'result', token, attempt, NULL, NULL, cost, NULL, status, scores FROM results ORDER BY 1
"""


@dataclass(frozen=True)
class Intent:
    """A batch that was about to run: recorded before the evaluator was called. `attempt` 2 and more are repeats."""

    seq: int
    token: str
    attempt: int
    arm: Any
    examples: tuple[Any, ...]
    cost: float
    worker: int


@dataclass(frozen=True)
class Result:
    """What became of an attempt.

    "ok", "error" and "timeout" were told to the policy. "refused": it failed under ``on_error="raise"`` and the pull
    stayed pending. "released": it never ran, as it would have crossed a strict budget, or another arm had to be tried first.
    """

    seq: int
    token: str
    attempt: int
    status: str
    scores: list[float] | None
    cost: float


class Store:
    """An open store, locked for this process. Build one with `Store.open`; close it, or use it as a context manager.

    Commits are durable (WAL, synchronous FULL) when `record_intent` and `record_result` return. Not thread-safe: one
    thread of a run writes.
    """

    def __init__(self, path: str, connection: sqlite3.Connection, lock: StoreLock) -> None:
        self.path = path
        self._connection = connection
        self._lock = lock
        self._seq = 0

    @classmethod
    def open(cls, path: str | Path, fingerprint: dict[str, str], start: dict[str, Any]) -> Store:
        """Open or create the store of one run.

        Parameters
        ----------
        path : path
        fingerprint : dict
            Hash per field of the policy's set-up (`BasePolicy.fingerprint`).
        start : dict
            State of the policy before the run, JSON types; kept in a new store only (`start_state`).

        Raises
        ------
        StoreError
            In use by another process, not an lrgittins store, newer, damaged, or not writable.
        StateError
            The store of another policy, matrix or prices; names the field.
        """
        if os.fspath(path) in ("", ":memory:"):
            raise ParameterError(f"store must be the path of a file, got {os.fspath(path)!r}; leave it out to run without one")
        name = os.path.realpath(path)  # one lock, whatever link leads here
        if os.path.isdir(name):
            raise StoreError(f"store {name!r} is a folder; give the path of a file")
        if not os.path.isdir(os.path.dirname(name)):
            raise StoreError(f"store {name!r}: the folder {os.path.dirname(name)!r} does not exist; create it first")
        lock = StoreLock(name)
        lock.acquire()
        connection = None
        try:
            with _translated(name):
                connection = _connect(name)
                store = cls(name, connection, lock)
                store._prepare(fingerprint, start)
            return store
        except BaseException:
            if connection is not None:
                connection.close()
            lock.release()
            raise

    def _prepare(self, fingerprint: dict[str, str], start: dict[str, Any]) -> None:
        """Create the tables of a new store, check an old one."""
        run = self._connection.execute
        if not _is_ours(self._connection, self.path):
            run("PRAGMA journal_mode = WAL")
            run("PRAGMA synchronous = FULL")
            # One transaction: after a kill there is a whole store or an empty file, which is a new store again.
            with self._transaction():
                for statement in _TABLES.strip().split(";\n"):
                    run(statement)
                run(f"PRAGMA application_id = {APPLICATION_ID}")
                run(f"PRAGMA user_version = {SCHEMA}")
                meta = {"version": __version__, "created": time.time(), "fingerprint": fingerprint, "start": start}
                for key, value in meta.items():
                    run("INSERT INTO meta (key, value) VALUES (?, ?)", (key, json.dumps(value, allow_nan=False)))
            return
        run("PRAGMA journal_mode = WAL")
        run("PRAGMA synchronous = FULL")
        problem = run("PRAGMA quick_check(1)").fetchone()[0]
        if problem != "ok":
            raise StoreError(f"store {self.path!r} is damaged ({problem}); restore a copy, or start a new store")
        known = self._meta("fingerprint")
        for field in sorted({*known, *fingerprint}):
            if known.get(field) != fingerprint.get(field):
                raise StateError(
                    f"store {self.path!r}, field {field!r}: it differs from the run this store was started with; resume with the same "
                    f"policy, data, prices and random_state, or give this run a store of its own{_HINTS.get(field, '')}"
                )
        self._seq = max(run(f"SELECT COALESCE(MAX(seq), 0) FROM {table}").fetchone()[0] for table in ("intents", "results"))

    def _meta(self, key: str) -> Any:
        row = self._connection.execute("SELECT value FROM meta WHERE key = ?", (key,)).fetchone()
        try:
            return json.loads(row[0])
        except (TypeError, ValueError):
            raise StoreError(f"store {self.path!r}, field {key!r} is missing or broken; restore a copy, or start a new store") from None

    @property
    def start_state(self) -> dict[str, Any]:
        """The policy's state when the store was created."""
        with _translated(self.path):
            return self._meta("start")

    def events(self) -> list[Intent | Result]:
        """Everything recorded, in order; a gap or an entry that makes no sense is a `StoreError`."""
        with _translated(self.path):
            rows = self._connection.execute(_EVENTS).fetchall()
        return [_event(self.path, place, row) for place, row in enumerate(rows, start=1)]

    def record_intent(self, pull: Pull, attempt: int, worker: int) -> None:
        """A batch is about to run; durable on return."""
        with _translated(self.path), self._transaction():
            self._insert_intent(pull, attempt, worker)

    def record_result(
        self, pull: Pull, attempt: int, status: str, *, cost: float, scores: list[float] | None = None, message: str | None = None
    ) -> None:  # fmt: skip
        """What became of an attempt; durable on return."""
        with _translated(self.path), self._transaction():
            self._insert_result(pull, attempt, status, scores, cost, message)

    def record_release(self, pull: Pull) -> None:
        """A batch that was asked and given back without running, both or neither; durable on return."""
        with _translated(self.path), self._transaction():
            self._insert_intent(pull, 1, 0)
            self._insert_result(pull, 1, "released", None, 0.0, None)

    def _insert_intent(self, pull: Pull, attempt: int, worker: int) -> None:
        row = (self._next(), pull.token, attempt, _label(pull.arm), _label(list(pull.examples)), pull.cost, worker, time.time())
        self._connection.execute(
            "INSERT INTO intents (seq, token, attempt, arm, examples, cost, worker, started) VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row
        )

    def _insert_result(
        self, pull: Pull, attempt: int, status: str, scores: list[float] | None, cost: float, message: str | None
    ) -> None:  # fmt: skip
        text = None if scores is None else json.dumps(scores, allow_nan=False)
        self._connection.execute(
            "INSERT INTO results (seq, token, attempt, status, scores, cost, message, finished) VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            (self._next(), pull.token, attempt, status, text, cost, message, time.time()),
        )

    def _next(self) -> int:
        self._seq += 1
        return self._seq

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        seq = self._seq
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            self._seq = seq
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise

    def close(self) -> None:
        """Close the file, then give the lock back; closing twice is fine."""
        try:
            self._connection.close()
        finally:
            self._lock.release()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


_HINTS = {"order": " (a policy with random_state=None draws new orders each time: use a seed, or save() and load() it)"}


def read_store(path: str | Path) -> pd.DataFrame:
    """The scores in a store, one row per example, also while a run is writing to it.

    Parameters
    ----------
    path : str or Path

    Returns
    -------
    DataFrame
        arm, example, score, cost (the batch's true cost over its examples), token, attempt, finished (seconds since the
        epoch), in the order of the results. Failed evaluations have no row.

    Raises
    ------
    StoreError
        No such file, not an lrgittins store, newer, or damaged.
    """
    import pandas as pd

    name = os.path.realpath(path)
    if not os.path.isfile(name):
        raise StoreError(f"there is no store at {name!r}")
    rows: dict[str, list[Any]] = {column: [] for column in ("arm", "example", "score", "cost", "token", "attempt", "finished")}
    with _translated(name):
        connection = _connect(name)
        try:
            if not _is_ours(connection, name):
                raise StoreError(f"store {name!r} is empty: no run was started on it")
            found = connection.execute(
                "SELECT arm, examples, scores, r.cost, token, attempt, finished FROM results r JOIN intents i USING (token, attempt) "
                "WHERE status = 'ok' ORDER BY r.seq"
            ).fetchall()
        finally:
            connection.close()
    for arm, examples, scores, cost, token, attempt, finished in found:
        ids, values = _parsed(name, examples), _parsed(name, scores)
        rows["arm"] += [_parsed(name, arm)] * len(ids)
        rows["example"] += ids
        rows["score"] += values
        for column, value in (("cost", cost / len(ids)), ("token", token), ("attempt", attempt), ("finished", finished)):
            rows[column] += [value] * len(ids)
    return pd.DataFrame(rows)


def _connect(name: str) -> sqlite3.Connection:
    connection = sqlite3.connect(name, isolation_level=None, timeout=30.0)
    try:
        connection.execute("PRAGMA foreign_keys = ON")
    except BaseException:
        connection.close()
        raise
    return connection


def _is_ours(connection: sqlite3.Connection, name: str) -> bool:
    """True for a store of ours, False for an empty file, `StoreError` for anything else."""
    application = connection.execute("PRAGMA application_id").fetchone()[0]
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    tables = {row[0] for row in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    if application != APPLICATION_ID:
        if tables or application or version:
            raise StoreError(f"store {name!r} is an SQLite file of something else; choose another path")
        return False
    if version > SCHEMA:
        raise StoreError(
            f"store {name!r}, field 'schema': version {version} was written by a newer lrgittins; this one reads {SCHEMA}: upgrade"
        )
    if version < 1 or not {"meta", "intents", "results"} <= tables:
        raise StoreError(f"store {name!r} is damaged: tables or the schema version are missing; restore a copy, or start a new store")
    return True


@contextmanager
def _translated(name: str) -> Iterator[None]:
    """SQLite's errors as `StoreError`."""
    try:
        yield
    except sqlite3.DatabaseError as error:
        text = str(error)
        if "not a database" in text:
            raise StoreError(f"store {name!r} is not an SQLite file; choose another path") from error
        if "malformed" in text:
            raise StoreError(f"store {name!r} is damaged ({text}); restore a copy, or start a new store") from error
        raise StoreError(f"store {name!r} cannot be used: {text}") from error


def _label(value: Any) -> str:
    return json.dumps(value, allow_nan=False)


def _parsed(name: str, text: Any) -> Any:
    try:
        return json.loads(text)
    except (TypeError, ValueError) as error:
        raise StoreError(f"store {name!r} is damaged: an entry is not JSON ({error}); restore a copy, or start a new store") from None


def _event(name: str, place: int, row: tuple[Any, ...]) -> Intent | Result:
    seq, kind, token, attempt, arm, examples, cost, worker, status, scores = row
    if seq != place:
        raise StoreError(f"store {name!r} is damaged: entry {place} is missing; restore a copy, or start a new store")
    if kind == "intent":
        return Intent(seq, token, attempt, _parsed(name, arm), tuple(_parsed(name, examples)), cost, worker)
    if status not in RESULT_STATUSES:
        raise StoreError(f"store {name!r} is damaged: entry {place} has the status {status!r}; restore a copy, or start a new store")
    return Result(seq, token, attempt, status, None if scores is None else _parsed(name, scores), cost)
