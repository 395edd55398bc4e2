"""The two live examples from end to end: stopped, killed with SIGKILL, started again, run twice."""

from __future__ import annotations

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg

from .processes import environment, run

EXAMPLES = Path(__file__).resolve().parents[1] / "examples"


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, EXAMPLES / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def call(module: ModuleType, monkeypatch: pytest.MonkeyPatch, *arguments: object) -> int:
    """The example's `main` in this process."""
    monkeypatch.setattr(sys, "argv", [f"{module.__name__}.py", *map(str, arguments)])
    return int(module.main())


def kill_when(command: list[str], cwd: Path, ready: Callable[[], bool]) -> int:
    """Start a process and SIGKILL it as soon as `ready`; returns its exit code."""
    process = subprocess.Popen(command, cwd=cwd, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    deadline = time.monotonic() + 240
    while process.poll() is None and not ready() and time.monotonic() < deadline:
        time.sleep(0.002)
    process.kill()
    _, errors = process.communicate(timeout=60)
    assert b"Traceback" not in errors, errors.decode()
    return process.returncode


# ------------------------------------------------------------------------------------------------ live evaluation


def log_of(path: Path) -> list[tuple[str, str, tuple[str, ...]]]:
    """What the service evaluated; a last line cut off by the kill is no evaluation that was answered."""
    lines = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    return [(token, arm, tuple(examples)) for token, arm, examples in map(json.loads, filter(None, lines[:-1]))]


def live_command(folder: Path, *arguments: object) -> list[str]:
    """Command of a run in `folder`, small enough for a test."""
    options = ["--store", folder / "run.sqlite", "--log", folder / "log.jsonl", "--budget", 0.012, "--latency", 0.002, "--quiet"]
    return [sys.executable, str(EXAMPLES / "live_evaluation.py"), *map(str, [*options, *arguments])]


needs_kill = pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="needs SIGKILL")


@needs_kill
def test_one_worker_stopped_and_killed_ends_as_if_nothing_had_happened(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load("live_evaluation")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    whole.mkdir()
    broken.mkdir()
    assert call(module, monkeypatch, *live_command(whole, "--workers", 1)[2:]) == 0
    wanted = json.loads(capsys.readouterr().out)
    assert wanted["stop_reason"] == "budget" and wanted["n_batches_now"] == len(log_of(whole / "log.jsonl")) > 20

    assert call(module, monkeypatch, *live_command(broken, "--workers", 1, "--stop-after", 6)[2:]) == 0
    stopped = json.loads(capsys.readouterr().out)
    assert (stopped["stop_reason"], stopped["n_batches_now"]) == ("interrupted", 6)
    code = kill_when(live_command(broken, "--workers", 1, "--latency", 0.05), tmp_path, lambda: len(log_of(broken / "log.jsonl")) >= 9)
    assert code == -signal.SIGKILL
    assert call(module, monkeypatch, *live_command(broken, "--workers", 1)[2:]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["n_repeated"] <= 2  # one at the stop, one at the kill
    assert {key: found[key] for key in ("stop_reason", "best", "mean", "n_evaluated")} == {
        key: wanted[key] for key in ("stop_reason", "best", "mean", "n_evaluated")
    }
    columns = ["arm", "example", "score", "token"]
    pd.testing.assert_frame_equal(lg.read_store(broken / "run.sqlite")[columns], lg.read_store(whole / "run.sqlite")[columns])
    seen = Counter(log_of(broken / "log.jsonl"))
    assert set(seen) == set(log_of(whole / "log.jsonl"))
    assert sum(seen.values()) - len(seen) <= 1  # the batch in flight at the kill; the one of the stop was never evaluated


@needs_kill
def test_four_workers_killed_never_evaluate_a_recorded_batch_again(tmp_path: Path) -> None:
    log = tmp_path / "log.jsonl"
    assert kill_when(live_command(tmp_path, "--latency", 0.02), tmp_path, lambda: len(log_of(log)) >= 12) == -signal.SIGKILL
    recorded = set(lg.read_store(tmp_path / "run.sqlite")["token"])
    before = log_of(log)
    assert recorded <= {token for token, _, _ in before} and len(before) - len(recorded) <= 4
    if not log.read_bytes().endswith(b"\n"):
        log.write_bytes(log.read_bytes() + b"\n")
    result = run(live_command(tmp_path), cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["stop_reason"] == "budget" and found["n_repeated"] <= 4
    after = log_of(log)[len(before) :]
    assert recorded.isdisjoint(token for token, _, _ in after)
    cells = lg.read_store(tmp_path / "run.sqlite")[["arm", "example"]]
    assert not cells.duplicated().any() and len(cells) == found["n_evaluated"]


# --------------------------------------------------------------------------------------------------- nightly board


def votes_of_a_day(seed: int, models: int, n: int = 260) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    a = rng.integers(models, size=n)
    b = (a + 1 + rng.integers(models - 1, size=n)) % models
    won = rng.random(n) < 1.0 / (1.0 + np.exp(-0.8 * (b - a)))
    names = np.array([f"model {k}" for k in range(models)])
    return pd.DataFrame(
        {
            "task": rng.choice(["code", "math"], n),
            "model_a": names[a],
            "model_b": names[b],
            "winner": np.where(won, "model_a", "model_b"),
        }
    )


@pytest.fixture
def days(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / "monday.csv", tmp_path / "tuesday.csv"]
    votes_of_a_day(1, 4).to_csv(paths[0], index=False)
    votes_of_a_day(2, 5, 400).to_csv(paths[1], index=False)
    return paths


def contents(folder: Path) -> dict[str, str]:
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


def state_of(folder: Path) -> dict[str, Any]:
    state: dict[str, Any] = json.loads((folder / "state.json").read_text(encoding="utf-8"))
    return state


def test_nightly_board(days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    module, folder = load("nightly_board"), tmp_path / "state"
    options = ["--state", folder, "--top-k", 2, "--rank", 1]
    assert call(module, monkeypatch, days[0], *options) == 0
    assert "monday.csv: 260 votes" in (said := capsys.readouterr().out) and "first board: 8 rows" in said
    yesterday = lg.Leaderboard.read(folder / state_of(folder)["board"]).to_frame()

    assert call(module, monkeypatch, *days, *options) == 0
    said = capsys.readouterr().out
    assert (
        "monday.csv: counted before, left out" in said and "tuesday.csv: 400 votes" in said and "660 votes in all, 400 of them new" in said
    )
    assert "new on the board: code, model 4" in said
    today = lg.Leaderboard.read(folder / state_of(folder)["board"]).to_frame()
    both = today.merge(yesterday, on=["task", "model"], suffixes=("", "_before"))
    flipped = both[both["certificate"] != both["certificate_before"]]
    assert len(flipped) > 0
    assert said.count("certificate flipped") == len(flipped)
    for row in flipped.itertuples():
        assert f"certificate flipped: {row.task}, {row.model}: {row.certificate_before} -> {row.certificate} " in said
    # The board is that of all votes at once.
    together = lg.Comparisons.from_frame(pd.concat([pd.read_csv(day) for day in days]))
    pd.testing.assert_frame_equal(lg.leaderboard(together, rank=1, top_k=2).to_frame(), today)

    before = contents(folder)
    assert call(module, monkeypatch, *days, *options) == 0
    assert "nothing new" in capsys.readouterr().out and contents(folder) == before
    assert len(before) == 4  # lock, state, counts, board: nothing old is left lying about

    days[0].write_text(days[0].read_text(encoding="utf-8") + "math,model 0,model 1,model_a\n", encoding="utf-8")
    assert call(module, monkeypatch, *days, *options) == 2
    assert "counted with other content" in capsys.readouterr().err and contents(folder) == before


def test_nightly_board_with_other_options(
    days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, folder = load("nightly_board"), tmp_path / "state"
    for options in (["--rank", 1, "--top-k", 1], ["--rank", 1, "--top-k", 2], ["--rank", 1], ["--rank", 1, "--seed", 3]):
        assert call(module, monkeypatch, days[0], "--state", folder, *options) == 0
        assert "nothing new" not in capsys.readouterr().out
        found = lg.Leaderboard.read(folder / state_of(folder)["board"]).to_frame()
        top_k, seed = (dict(zip(options[::2], options[1::2], strict=True)).get(name, d) for name, d in (("--top-k", None), ("--seed", 0)))
        wanted = lg.leaderboard(lg.Comparisons.read(days[0]), rank=1, top_k=top_k, random_state=seed)
        pd.testing.assert_frame_equal(found, wanted.to_frame())
        before = contents(folder)
        assert call(module, monkeypatch, days[0], "--state", folder, *options) == 0
        assert "nothing new" in capsys.readouterr().out and contents(folder) == before and len(before) == 4


def test_nightly_board_leaves_other_files_alone(days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module, folder = load("nightly_board"), tmp_path / "state"
    folder.mkdir()
    others = ["package-lock.json", "counts-final.json", "board-1.json.json", "my-board-1.json", "board-1-old.json"]
    for name in others:
        (folder / name).write_text("{}", encoding="utf-8")
    for given in (days[:1], days):
        assert call(module, monkeypatch, *given, "--state", folder, "--rank", 1) == 0
    ours = {"lock", "state.json", state_of(folder)["counts"], state_of(folder)["board"]}
    assert set(contents(folder)) == ours | set(others) and "counts-2.json" in ours


class Crash(BaseException):
    """Stands for the moment a process is killed."""


@pytest.mark.parametrize("moment", ["counts written", "counts committed", "board written"])
def test_nightly_board_survives_a_crash(
    days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], moment: str
) -> None:
    module = load("nightly_board")
    whole, broken = tmp_path / "whole", tmp_path / "broken"
    for folder in (whole, broken):
        assert call(module, monkeypatch, days[0], "--state", folder, "--rank", 1) == 0
    assert call(module, monkeypatch, *days, "--state", whole, "--rank", 1) == 0
    commits = {"counts written": 0, "counts committed": 1, "board written": 1}[moment]
    commit, n_commits = module.State.commit, [0]

    def crashing(self: Any, **changes: Any) -> None:
        if n_commits[0] == commits:
            raise Crash
        n_commits[0] += 1
        commit(self, **changes)

    with monkeypatch.context() as patch:
        if moment == "counts committed":
            patch.setattr(lg, "leaderboard", lambda *_, **__: (_ for _ in ()).throw(Crash()))
        else:
            patch.setattr(module.State, "commit", crashing)
        with pytest.raises(Crash):
            call(module, patch, *days, "--state", broken, "--rank", 1)
    assert lg.Leaderboard.read(broken / state_of(broken)["board"]).n_models == 4  # still a whole state
    capsys.readouterr()
    assert call(module, monkeypatch, *days, "--state", broken, "--rank", 1) == 0
    assert "660 votes in all" in capsys.readouterr().out
    assert contents(broken) == contents(whole)


@needs_kill
def test_nightly_board_killed(
    days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module, folder = load("nightly_board"), tmp_path / "state"
    command = [sys.executable, str(EXAMPLES / "nightly_board.py"), *map(str, days), "--state", str(folder), "--rank", "1"]
    kill_when(command, tmp_path, lambda: any(folder.glob("counts-*.json")) if folder.exists() else False)
    assert call(module, monkeypatch, *days, "--state", folder, "--rank", 1) == 0
    assert state_of(folder)["board_generation"] == state_of(folder)["generation"] == 1
    assert lg.Comparisons.read_counts(folder / state_of(folder)["counts"]).n == 660
    assert "Traceback" not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("damage", "fragment"),
    [
        (lambda folder, day: day.write_text("a,b\n1,2\n", encoding="utf-8"), "missing columns"),
        (lambda folder, day: day.unlink(), "cannot be read"),
        (lambda folder, day: (folder / "state.json").write_text("{", encoding="utf-8"), "damaged"),
        (lambda folder, day: (folder / "state.json").write_text('{"version": 9}', encoding="utf-8"), "version 9"),
    ],
)
def test_nightly_board_refuses_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], damage: Callable[[Path, Path], None], fragment: str
) -> None:
    module, folder, day = load("nightly_board"), tmp_path / "state", tmp_path / "day.csv"
    folder.mkdir()
    votes_of_a_day(3, 3).to_csv(day, index=False)
    damage(folder, day)
    assert call(module, monkeypatch, day, "--state", folder) == 2
    said = capsys.readouterr().err
    assert said.startswith("nightly_board: error: ") and said.count("\n") == 1 and fragment in said


@pytest.mark.skipif(os.name == "nt", reason="flock")
def test_nightly_board_one_at_a_time(
    days: list[Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    module = load("nightly_board")
    held = module.State(tmp_path / "state")
    assert call(module, monkeypatch, days[0], "--state", tmp_path / "state") == 2
    assert "in use by another run" in capsys.readouterr().err
    held.close()
    assert call(module, monkeypatch, days[0], "--state", tmp_path / "state", "--rank", 1) == 0
