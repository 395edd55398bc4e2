"""The evaluation store alone: what it keeps, whom it lets in, and what it says about files that are not right."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

import lrgittins as lg
from lrgittins.policies.protocol import Pull
from lrgittins.store import SCHEMA, Intent, Result, Store

FINGERPRINT = {"policy": "GittinsPolicy", "arms": "a1", "cost": "c1", "order": "o1"}
START = {"counters": {"told": 0}, "cells": []}
ROOT = Path(__file__).resolve().parents[1]


def opened(path: Path, **changes: str) -> Store:
    return Store.open(path, {**FINGERPRINT, **changes}, START)


def pull(serial: int = 0, arm: Any = "a", examples: tuple[Any, ...] = (3, 5), cost: float = 2.0) -> Pull:
    return Pull(f"run-{serial}-ff", arm, examples, cost)


def sql(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path)
    for statement in statements:
        connection.execute(statement)
    connection.commit()
    connection.close()


def test_events_come_back_in_order_and_exact(tmp_path: Path) -> None:
    score = 0.1 + 0.2  # not a short decimal
    with opened(tmp_path / "run.db") as store:
        store.record_intent(pull(0), 1, 0)
        store.record_intent(pull(1, "b"), 1, 1)
        store.record_result(pull(1, "b"), 1, "timeout", cost=2.5, message="late")
        store.record_result(pull(0), 1, "ok", cost=1 / 3, scores=[score, 1.0])
        store.record_release(pull(2))
    with opened(tmp_path / "run.db") as store:
        assert store.events() == [
            Intent(1, "run-0-ff", 1, "a", (3, 5), 2.0, 0),
            Intent(2, "run-1-ff", 1, "b", (3, 5), 2.0, 1),
            Result(3, "run-1-ff", 1, "timeout", None, 2.5),
            Result(4, "run-0-ff", 1, "ok", [score, 1.0], 1 / 3),
            Intent(5, "run-2-ff", 1, "a", (3, 5), 2.0, 0),
            Result(6, "run-2-ff", 1, "released", None, 0.0),
        ]
        assert store.start_state == START


def test_labels_are_bound_and_never_parsed_as_sql(tmp_path: Path) -> None:
    nasty = "x'); DROP TABLE results; --"
    batch = pull(0, nasty, ('"quoted"', "naïve ☃", "%s ? :a"))
    with opened(tmp_path / "run.db") as store:
        store.record_intent(batch, 1, 0)
        store.record_result(batch, 1, "ok", cost=0.0, scores=[0.0, 0.5, 1.0])
    frame = lg.read_store(tmp_path / "run.db")
    assert frame["arm"].tolist() == [nasty] * 3
    assert frame["example"].tolist() == list(batch.examples)
    assert frame["score"].tolist() == [0.0, 0.5, 1.0]


def test_commits_are_durable_by_setting_and_readable_while_the_run_goes_on(tmp_path: Path) -> None:
    with opened(tmp_path / "run.db") as store:
        assert store._connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"
        assert store._connection.execute("PRAGMA synchronous").fetchone()[0] == 2  # FULL
        store.record_intent(pull(), 1, 0)
        store.record_result(pull(), 1, "ok", cost=3.0, scores=[0.25, 0.75])
        frame = lg.read_store(tmp_path / "run.db")
        assert frame["cost"].tolist() == [1.5, 1.5]
    with opened(tmp_path / "run.db") as store:  # an old store too
        assert store._connection.execute("PRAGMA synchronous").fetchone()[0] == 2


def test_a_failed_write_leaves_the_log_as_it_was(tmp_path: Path) -> None:
    with opened(tmp_path / "run.db") as store:
        store.record_intent(pull(), 1, 0)
        with pytest.raises(lg.StoreError, match="UNIQUE"):
            store.record_intent(pull(), 1, 0)
        pages = store._connection.execute("PRAGMA page_count").fetchone()[0]
        store._connection.execute(f"PRAGMA max_page_count = {pages}")  # a full disk
        with pytest.raises(lg.StoreError, match="full"):
            store.record_result(pull(), 1, "error", cost=1.0, message="x" * 100_000)
        store._connection.execute("PRAGMA max_page_count = 100000")
        store.record_result(pull(), 1, "ok", cost=1.0, scores=[0.0, 1.0])
        assert [event.seq for event in store.events()] == [1, 2]


# -- one run a store -------------------------------------------------------------------------------------------------


def test_second_opening_in_one_process_is_refused(tmp_path: Path) -> None:
    (tmp_path / "link.db").symlink_to(tmp_path / "run.db")
    with opened(tmp_path / "run.db"):
        for name in ("run.db", "link.db"):
            with pytest.raises(lg.StoreError, match="in use by another evaluate"):
                opened(tmp_path / name)
    opened(tmp_path / "link.db").close()


HOLD = """
import sys, time, os
from lrgittins.store import Store
store = Store.open(sys.argv[1], {fingerprint!r}, {start!r})
child = os.fork() if sys.argv[2] == "fork" else 0
if sys.argv[2] == "fork" and child == 0:
    time.sleep(60)
    os._exit(0)
print(child, flush=True)
time.sleep(60)
"""


@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("orphan", [False, True], ids=["alone", "with-an-orphaned-child"])
def test_second_process_is_refused_and_a_killed_holder_blocks_nobody(tmp_path: Path, orphan: bool) -> None:
    script = HOLD.format(fingerprint=FINGERPRINT, start=START)
    command = [sys.executable, "-c", script, str(tmp_path / "run.db"), "fork" if orphan else "plain"]
    holder = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    child = 0
    try:
        assert holder.stdout is not None
        child = int(holder.stdout.readline())
        with pytest.raises(lg.StoreError, match=f"in use by another process .*process {holder.pid} on"):
            opened(tmp_path / "run.db")
        holder.kill()
        holder.wait()
        assert (tmp_path / "run.db.lock").exists()  # left behind, and harmless
        opened(tmp_path / "run.db").close()
    finally:
        holder.kill()
        holder.wait()
        if child:
            os.kill(child, signal.SIGKILL)
        if holder.stdout is not None:
            holder.stdout.close()


def test_a_refused_opening_gives_the_lock_back(tmp_path: Path) -> None:
    opened(tmp_path / "run.db").close()
    with pytest.raises(lg.StateError):
        opened(tmp_path / "run.db", cost="c2")
    opened(tmp_path / "run.db").close()


# -- files that are not right ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("field", ["policy", "arms", "cost", "order"])
def test_another_set_up_is_named_by_field(tmp_path: Path, field: str) -> None:
    opened(tmp_path / "run.db").close()
    with pytest.raises(lg.StateError, match=f"field '{field}'"):
        opened(tmp_path / "run.db", **{field: "other"})


def test_a_newer_schema_is_refused(tmp_path: Path) -> None:
    opened(tmp_path / "run.db").close()
    sql(tmp_path / "run.db", f"PRAGMA user_version = {SCHEMA + 1}")
    for call in (opened, lg.read_store):
        with pytest.raises(lg.StoreError, match="newer"):
            call(tmp_path / "run.db")


def test_files_of_others_are_left_alone(tmp_path: Path) -> None:
    text, database = tmp_path / "notes.txt", tmp_path / "other.db"
    text.write_text("not a database, " * 100)
    sql(database, "CREATE TABLE results (a)", "INSERT INTO results VALUES (1)")
    before = text.read_bytes(), database.read_bytes()
    with pytest.raises(lg.StoreError, match="not an SQLite file"):
        opened(text)
    with pytest.raises(lg.StoreError, match="something else"):
        opened(database)
    with pytest.raises(lg.StoreError, match="something else"):
        lg.read_store(database)
    assert (text.read_bytes(), database.read_bytes()) == before


def test_paths_that_cannot_be_stores(tmp_path: Path) -> None:
    with pytest.raises(lg.StoreError, match="folder"):
        opened(tmp_path)
    with pytest.raises(lg.StoreError, match="does not exist"):
        opened(tmp_path / "absent" / "run.db")
    with pytest.raises(lg.ParameterError, match="path of a file"):
        Store.open(":memory:", FINGERPRINT, START)
    with pytest.raises(lg.StoreError, match="no store"):
        lg.read_store(tmp_path / "absent.db")


def test_an_empty_file_is_a_new_store(tmp_path: Path) -> None:
    (tmp_path / "run.db").touch()
    with pytest.raises(lg.StoreError, match="empty"):
        lg.read_store(tmp_path / "run.db")
    with opened(tmp_path / "run.db") as store:
        assert store.events() == []
    assert lg.read_store(tmp_path / "run.db").empty


def filled(path: Path, n: int = 40) -> Path:
    with opened(path) as store:
        for serial in range(n):
            store.record_intent(pull(serial), 1, 0)
            store.record_result(pull(serial), 1, "ok", cost=1.0, scores=[0.0, 1.0])
    return path


def test_half_a_file_is_refused(tmp_path: Path) -> None:
    whole = filled(tmp_path / "run.db").read_bytes()
    for size in (100, 4096, len(whole) // 2, len(whole) - 4096):
        (tmp_path / "run.db").write_bytes(whole[:size])
        with pytest.raises(lg.StoreError, match="damaged|not an SQLite file"):
            opened(tmp_path / "run.db").events()


def test_overwritten_pages_are_noticed(tmp_path: Path) -> None:
    whole = bytearray(filled(tmp_path / "run.db").read_bytes())
    whole[4096 * 2 : 4096 * 4] = b"\xa5" * 8192
    (tmp_path / "run.db").write_bytes(whole)
    with pytest.raises(lg.StoreError, match="damaged"):
        opened(tmp_path / "run.db").events()


@pytest.mark.parametrize(
    ("statement", "message"),
    [
        ("DELETE FROM results WHERE seq = 4", "entry 4 is missing"),
        ("DROP TABLE intents", "tables"),
        ("DELETE FROM meta WHERE key = 'fingerprint'", "'fingerprint' is missing"),
        ("UPDATE meta SET value = '{' WHERE key = 'fingerprint'", "'fingerprint' is missing or broken"),
        ("UPDATE intents SET examples = '[1,' WHERE seq = 3", "not JSON"),
        ("UPDATE results SET scores = 'x' WHERE seq = 4", "not JSON"),
    ],
)
def test_a_log_that_was_tampered_with(tmp_path: Path, statement: str, message: str) -> None:
    sql(filled(tmp_path / "run.db", 4), statement)
    with pytest.raises(lg.StoreError, match=message), opened(tmp_path / "run.db") as store:
        store.events()
