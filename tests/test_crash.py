"""kill -9 at random moments: `evaluate` runs in child processes that are killed and started again on the same store.

A small server process imports everything and builds the policy once, then forks a child for each start; a start costs
milliseconds, so that dozens of kills fit into a test. What the children did is read from a log that the evaluator
writes before it answers, and from the store.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sqlite3
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and SIGKILL")
ROOT = Path(__file__).resolve().parents[1]
K, N, SEED = 6, 30, 11
COST = [1.0, 0.5, 2.0, 0.25, 1.0, 3.0]

# What runs in the children: the tests import the same functions for the unbroken run.
CHILD = """
import json, os, sys, tempfile, time
import numpy as np
import lrgittins as lg

K, N, SEED, COST = @CONSTANTS@
SCORES = np.random.default_rng(SEED).beta(2.0, 2.0, (K, N))

def make_policy():
    return lg.GittinsPolicy(K, N, cost=COST, cost_scale=1e-3, batch_size=3, random_state=SEED, max_retries=3)

def make_evaluator(log, pause):
    handle = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    def evaluator(arm, examples, *, token):
        os.write(handle, (json.dumps([os.getpid(), token, arm, list(examples)]) + "\\n").encode())  # one write: whole lines
        time.sleep(pause)
        if sum(examples) % 7 == arm and len(examples) == 3:  # some batches always fail, whichever process runs them
            raise RuntimeError("a failure that comes again")
        return SCORES[arm, list(examples)], COST[arm] * len(examples) * 1.25
    return evaluator

def run(folder, pause, workers):
    policy = make_policy()
    trace = lg.evaluate(policy, make_evaluator(folder + "/calls.jsonl", pause), budget=0.9, until="budget", store=folder + "/run.db",
                        n_workers=workers, progress=False)
    return policy, trace

def serve():
    with tempfile.TemporaryDirectory() as folder:  # imported, compiled and cached before the first fork
        run(folder, 0.0, 1)
        run(folder, 0.0, 1)
    for line in sys.stdin:
        folder, pause, workers = json.loads(line)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                run(folder, pause, workers)
                status = 0
            except BaseException as error:
                open(folder + "/error.txt", "a").write(repr(error))
            finally:
                os._exit(status)
        print(child, flush=True)
        os.waitid(os.P_PID, child, os.WEXITED | os.WNOWAIT)  # its number stays taken until we are told to let it go
        print("over", flush=True)
        sys.stdin.readline()
        print(os.waitpid(child, 0)[1], flush=True)
""".replace("@CONSTANTS@", repr((K, N, SEED, COST)))
names: dict[str, Any] = {}
exec(CHILD, names)  # one text for both sides, so that they cannot differ


class Server:
    """Starts children of a warm process, one at a time, and tells how they ended."""

    def __init__(self) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", CHILD + "\nserve()"], cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0
        )
        assert self.process.stdin is not None and self.process.stdout is not None
        self.stdin: IO[bytes] = self.process.stdin
        self.stdout: IO[bytes] = self.process.stdout

    def _send(self, message: Any) -> None:
        self.stdin.write(json.dumps(message).encode() + b"\n")

    def start(self, folder: Path, pause: float, workers: int) -> int:
        """Process id of a new child."""
        self._send([str(folder), pause, workers])
        return int(self.stdout.readline())

    def over(self, seconds: float) -> bool:
        """Wait so long for the child to end; whether it has."""
        return bool(select.select([self.stdout], [], [], seconds)[0])

    def kill(self, child: int) -> int:
        """Kill it, or what is left of it if it has ended; its wait status."""
        os.kill(child, signal.SIGKILL)
        assert self.stdout.readline() == b"over\n"
        self._send("reap")
        return int(self.stdout.readline())

    def close(self) -> None:
        self.stdin.close()
        self.process.wait(20)
        self.stdout.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.close()


@dataclass
class Broken:
    """A run that was killed until it got through."""

    folder: Path
    workers: int
    kills: int

    @property
    def calls(self) -> list[tuple[int, str, int, tuple[int, ...]]]:
        lines = (self.folder / "calls.jsonl").read_text().splitlines()
        return [(pid, token, arm, tuple(examples)) for pid, token, arm, examples in map(json.loads, lines)]

    def rows(self, query: str) -> list[Any]:
        connection = sqlite3.connect(self.folder / "run.db")
        try:
            return connection.execute(query).fetchall()
        finally:
            connection.close()


def run_and_kill(server: Server, folder: Path, generator: np.random.Generator, *, workers: int, pause: float) -> Broken:
    """Kill after a random number of calls and a random time (or soon after the start) until a child gets to the end.

    Counting calls, not seconds alone, makes progress certain on a machine of any speed.
    """
    folder.mkdir()
    log = folder / "calls.jsonl"
    for kills in range(400):
        before = n_calls(log)
        child = server.start(folder, pause, workers)
        if generator.random() < 0.2:
            server.over(generator.uniform(0.0, 0.1))  # while it opens the store or runs through the log
        else:
            wanted = before + generator.integers(1, 5 * workers + 1)
            while n_calls(log) < wanted and not server.over(0.001):
                pass
            server.over(generator.uniform(0.0, 0.03))
        status = server.kill(child)
        assert not (folder / "error.txt").exists(), (folder / "error.txt").read_text()
        if not os.WIFSIGNALED(status):
            assert os.WEXITSTATUS(status) == 0
            return Broken(folder, workers, kills)
    raise AssertionError("no end after 400 kills")


def n_calls(log: Path) -> int:
    return log.read_bytes().count(b"\n") if log.exists() else 0


def check_books(run: Broken, policy: Any, trace: lg.Trace) -> None:
    """What must hold for any number of workers; `policy` and `trace` come from reading the finished store."""
    calls = run.calls
    batch_of: dict[str, tuple[int, tuple[int, ...]]] = {}
    for _, token, arm, examples in calls:
        assert batch_of.setdefault(token, (arm, examples)) == (arm, examples), "a repeat is the same batch under the same token"
    times = Counter(token for _, token, _, _ in calls)
    assert all(len({pid for pid, token, *_ in calls if token == again}) == n for again, n in times.items() if n > 1), (
        "no process evaluates a batch twice"
    )
    repeated = sum(times.values()) - len(times)
    assert repeated <= trace.n_repeated <= run.workers * run.kills
    starts = run.rows("SELECT COUNT(*), SUM(attempt > 1) FROM intents")[0]
    results = run.rows("SELECT COUNT(*) FROM results")[0][0]
    assert starts == (len(times) + trace.n_repeated, trace.n_repeated), "every repeat is counted"
    assert results == len(times) == trace.n_steps, "one result a batch"
    # A batch whose result is recorded is never evaluated again: the last call of a token is the one that was recorded.
    finished = dict(run.rows("SELECT token, attempt FROM results"))
    assert finished == dict(run.rows("SELECT token, MAX(attempt) FROM intents GROUP BY token"))
    scores = lg.read_store(run.folder / "run.db")
    assert not scores.duplicated(["arm", "example"]).any()
    np.testing.assert_array_equal(scores["score"], names["SCORES"][scores["arm"], scores["example"]])
    assert policy.cells()["told"] == len(scores) and policy.n_pending == 0
    assert policy.spent == pytest.approx(sum(cost for (cost,) in run.rows("SELECT cost FROM results")), rel=1e-12)


def read_back(run: Broken) -> tuple[Any, lg.Trace]:
    """The finished run from its store; nothing may be evaluated for it."""
    before = len(run.calls)
    policy, trace = names["run"](str(run.folder), 0.0, 1)
    assert len(run.calls) == before
    return policy, trace


def crash_with_one_worker(server: Server, tmp_path: Path, *, at_least: int, seed: int) -> None:
    whole = tmp_path / "whole"
    whole.mkdir()
    unbroken, unbroken_trace = names["run"](str(whole), 0.0, 1)
    expected = [(token, arm, examples) for _, token, arm, examples in Broken(whole, 1, 0).calls]
    assert unbroken.posterior()["n_errors"].sum() > 0, "the run has failures in it"
    generator, kills = np.random.default_rng(seed), 0
    for number in range(100):
        run = run_and_kill(server, tmp_path / f"run-{number}", generator, workers=1, pause=0.002)
        policy, trace = read_back(run)
        check_books(run, policy, trace)
        decisions = list(dict.fromkeys((token, arm, examples) for _, token, arm, examples in run.calls))
        assert decisions == expected
        pd.testing.assert_frame_equal(trace.to_frame(), unbroken_trace.to_frame(), check_exact=True)
        pd.testing.assert_frame_equal(policy.posterior(), unbroken.posterior(), check_exact=True)
        assert (policy.spent, policy.cells(), policy.recommend()) == (unbroken.spent, unbroken.cells(), unbroken.recommend())
        assert trace.stop_reason == unbroken_trace.stop_reason
        kills += run.kills
        if kills >= at_least:
            return
    pytest.fail(f"only {kills} kills in 100 runs")


def crash_with_workers(server: Server, tmp_path: Path, *, at_least: int, seed: int, workers: int = 4) -> None:
    generator, kills = np.random.default_rng(seed), 0
    for number in range(100):
        run = run_and_kill(server, tmp_path / f"run-{number}", generator, workers=workers, pause=0.004)
        policy, trace = read_back(run)
        check_books(run, policy, trace)
        again, trace_again = read_back(run)  # the log decides, not the clock
        pd.testing.assert_frame_equal(trace.to_frame(), trace_again.to_frame(), check_exact=True)
        pd.testing.assert_frame_equal(policy.posterior(), again.posterior(), check_exact=True)
        kills += run.kills
        if kills >= at_least:
            return
    pytest.fail(f"only {kills} kills in 100 runs")


def test_killed_with_one_worker(server: Server, tmp_path: Path) -> None:
    crash_with_one_worker(server, tmp_path, at_least=40, seed=1)


def test_killed_with_four_workers(server: Server, tmp_path: Path) -> None:
    crash_with_workers(server, tmp_path, at_least=20, seed=2)


@pytest.mark.slow
def test_killed_many_more_times(server: Server, tmp_path: Path) -> None:
    for name in ("one", "four"):
        (tmp_path / name).mkdir()
    crash_with_one_worker(server, tmp_path / "one", at_least=300, seed=3)
    crash_with_workers(server, tmp_path / "four", at_least=300, seed=4)


def test_two_processes_on_one_store(server: Server, tmp_path: Path) -> None:
    child = server.start(tmp_path, 0.5, 1)
    try:
        while not n_calls(tmp_path / "calls.jsonl"):
            assert not server.over(0.005), "the child ended early"
        with pytest.raises(lg.StoreError, match=f"in use by another process .*{child}"):
            names["run"](str(tmp_path), 0.0, 1)
        assert len(lg.read_store(tmp_path / "run.db").columns) == 7  # reading is not refused
    finally:
        status = server.kill(child)
    assert os.WIFSIGNALED(status)
    _, trace = names["run"](str(tmp_path), 0.0, 1)  # the lock went with its process
    assert trace.n_repeated == 1
