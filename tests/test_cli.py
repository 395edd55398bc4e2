"""The command line: what it prints where, what it writes, and that bad input ends in one message and exit code 2."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import lrgittins as lg
from lrgittins import _cli_demo, cli
from lrgittins._cli_common import WIDTH, in_cli_words, number, shorten, table
from lrgittins.simulate import low_rank_scores

from .processes import environment, run


def vote_frame(n: int = 1500, seed: int = 0) -> pd.DataFrame:
    """Votes on 3 tasks and 8 models with clear differences."""
    rng = np.random.default_rng(seed)
    scores = low_rank_scores(3, 8, 2, sup_norm=3.0, random_state=1)
    task = rng.integers(3, size=n)
    first = rng.integers(8, size=n)
    second = (first + 1 + rng.integers(7, size=n)) % 8
    gap = scores.to_numpy()[task, first] - scores.to_numpy()[task, second]
    won = rng.random(n) < 1.0 / (1.0 + np.exp(-gap))
    return pd.DataFrame(
        {
            "task": scores.index.to_numpy()[task],
            "model_a": scores.columns.to_numpy()[first],
            "model_b": scores.columns.to_numpy()[second],
            "winner": np.where(won, "model_a", "model_b"),
        }
    )


@pytest.fixture(scope="module")
def votes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("votes") / "votes.csv"
    vote_frame().to_csv(path, index=False)
    return path


def call(*arguments: str | Path) -> Result:
    return CliRunner().invoke(cli.cli, [str(argument) for argument in arguments])


def rank(path: Path, *arguments: str | Path) -> Result:
    return call("rank", path, "--rank", "2", "--n-draws", "500", *arguments)


def assert_refused(result: Result, *fragments: str) -> None:
    """Exit code 2, nothing on stdout, one message on stderr that holds all `fragments`, no traceback."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    errors = [line for line in result.stderr.splitlines() if "error:" in line.lower()]
    assert len(errors) == 1, result.stderr
    for fragment in fragments:
        assert fragment in errors[0]


# ---------------------------------------------------------------------------------------------------------- rank


def test_rank_prints_the_board_of_the_python_call(votes_file: Path) -> None:
    result = rank(votes_file, "--top-k", "3", "--json", "--seed", "5")
    assert result.exit_code == 0, result.stderr
    votes = lg.Comparisons.read(votes_file)
    inference = lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2, random_state=5), random_state=5)
    expected = inference.certify(3, n_draws=500, random_state=5).to_dict()
    assert json.loads(result.stdout) == expected


def test_rank_tables_fit_the_terminal(votes_file: Path) -> None:
    result = rank(votes_file, "--show", "4")
    assert result.exit_code == 0, result.stderr
    lines = result.stdout.splitlines()
    assert max(map(len, lines)) <= WIDTH
    assert "Top 4 of 8 models, 95 % simultaneous (family task, step-down, parametric)" in lines
    assert sum(line.startswith("rank ") for line in lines) == 3  # one table a task
    assert sum("... 4 more" in line for line in lines) == 3
    assert any(line.startswith("checks: ") for line in lines)
    whole = rank(votes_file, "--show", "all").stdout
    assert "more" not in whole and whole.count("model_0") == 24


def test_progress_is_on_stderr_and_quiet_silences_it(votes_file: Path) -> None:
    loud, quiet = rank(votes_file), rank(votes_file, "--quiet")
    assert "fitting" in loud.stderr and "1,500 votes, 3 tasks, 8 models" in loud.stderr
    assert quiet.stderr == ""
    assert loud.stdout == quiet.stdout


@pytest.mark.parametrize("suffix", [".csv", ".csv.gz", ".json", ".parquet"])
def test_out_by_suffix(votes_file: Path, tmp_path: Path, suffix: str) -> None:
    target = tmp_path / f"board{suffix}"
    result = rank(votes_file, "--out", target)
    assert result.exit_code == 0, result.stderr
    assert result.stdout == ""
    expected = pd.DataFrame(json.loads(rank(votes_file, "--json").stdout)["rows"])
    if suffix in (".json", ".parquet"):
        found = lg.Leaderboard.read(target).to_frame()
    else:
        found = pd.read_csv(target)
        assert found.pop("schema_version").eq(1).all()
    pd.testing.assert_frame_equal(found, expected, check_dtype=False)


def test_gzip_output_is_reproducible(votes_file: Path, tmp_path: Path) -> None:
    for name in ("one.csv.gz", "two.csv.gz"):
        rank(votes_file, "--out", tmp_path / name)
    assert (tmp_path / "one.csv.gz").read_bytes() == (tmp_path / "two.csv.gz").read_bytes()
    assert gzip.decompress((tmp_path / "one.csv.gz").read_bytes()).startswith(b"task,model,score,")


@pytest.mark.parametrize("estimator", ["per-task", "pooled"])
def test_other_estimators(votes_file: Path, estimator: str) -> None:
    result = call("rank", votes_file, "--estimator", estimator, "--n-draws", "500", "--json", "--method", "max-t", "--alpha", "0.1")
    data = json.loads(result.stdout)
    assert (result.exit_code, data["calibration"], data["method"], data["alpha"]) == (0, "wald", "max-t", 0.1)


@pytest.mark.parametrize(
    ("family", "parsed", "rows"),
    [
        ("all", "all", 24),
        ("task:task_01", ["task", "task_01"], 8),
        ("model:a:b", ["model", "a:b"], 3),
        ("cell:task_02:a:b", ["cell", "task_02", "a:b"], 1),
    ],
)
def test_families(tmp_path: Path, family: str, parsed: Any, rows: int) -> None:
    path = tmp_path / "votes.csv"
    vote_frame().replace("model_00", "a:b").to_csv(path, index=False)
    data = json.loads(rank(path, "--family", family, "--json").stdout)
    assert (data["family"], len(data["rows"])) == (parsed, rows)


def test_column_names_and_intake_options(tmp_path: Path) -> None:
    frame = vote_frame()
    frame["judge"] = [f"judge {i % 40}" for i in range(len(frame))]
    frame["times"] = 2
    frame.loc[0, "winner"] = None
    frame.loc[1, "winner"] = "tie"
    frame.loc[2, "winner"] = "tie (bothbad)"
    frame.columns = ["category", "left", "right", "verdict", "judge", "times"]
    path = tmp_path / "votes.csv"
    frame.to_csv(path, index=False)
    names = [
        "--task",
        "category",
        "--model-a",
        "left",
        "--model-b",
        "right",
        "--winner",
        "verdict",
        "--cluster",
        "judge",
        "--count",
        "times",
    ]
    options = ["--on-invalid", "drop", "--ties", "drop", "--both-bad", "drop", "--alias", "model_07=model_06b"]
    data = json.loads(call("check", path, *names, *options, "--json").stdout)
    assert (data["n"], data["n_rows"], data["n_clusters"], data["ties"]) == (2 * (len(frame) - 3), len(frame), 40, "drop")
    assert data["dropped"] == {"both bad": 1, "missing winner": 1, "tie": 1}
    assert "model_06b" in data["pooled_pieces"][0] and "model_07" not in data["pooled_pieces"][0]
    assert rank(path, *names, *options, "--json").exit_code == 0


def test_long_and_hostile_names_are_shortened_only_in_display(tmp_path: Path) -> None:
    long = "a very long name of a model that " * 5 + "ends here"
    path = tmp_path / "votes.csv"
    vote_frame().replace({"model_00": long, "model_01": "<b>two\nlines\x1b[31m</b>"}).to_csv(path, index=False)
    result = rank(path, "--show", "all")
    assert max(map(len, result.stdout.splitlines())) <= WIDTH
    assert "\x1b" not in result.stdout and "ends here" in result.stdout
    assert long in {row["model"] for row in json.loads(rank(path, "--json").stdout)["rows"]}


def test_warnings_are_lines_on_stderr(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    vote_frame().replace("model_00", "MODEL_01").to_csv(path, index=False)
    result = rank(path, "--quiet")
    assert result.exit_code == 0
    lines = result.stderr.splitlines()
    assert lines and all(line.startswith("warning: ") for line in lines)
    assert "MODEL_01" in lines[0]


# --------------------------------------------------------------------------------------------------------- check


def test_check_reports_pieces_and_drops(tmp_path: Path) -> None:
    path = tmp_path / "votes.csv"
    path.write_text("model_a,model_b,winner\nX,Y,X\nV,W,tie\nX,X,X\n", encoding="utf-8")
    result = call("check", path, "--single-task", "--on-invalid", "drop")
    assert result.exit_code == 0, result.stderr
    assert "1 row dropped: self-comparison 1" in result.stdout
    assert "2 pieces that never meet" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= WIDTH
    assert_refused(call("rank", path, "--single-task", "--on-invalid", "drop", "--estimator", "per-task"), "V", "X", "--disconnected allow")


# -------------------------------------------------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "fragments"),
    [
        (["--alpha", "95"], ["alpha", "95", "0.05"]),
        (["--top-k", "9"], ["--top-k", "9", "8"]),
        (["--top-k", "0"], ["--top-k", "0"]),
        (["--rank", "none"], ["--rank", "none"]),
        (["--rank", "0"], ["--rank", "0"]),
        (["--folds", "1"], ["--folds", "1"]),
        (["--n-draws", "-1"], ["--n-draws", "-1"]),
        (["--family", "everything"], ["everything", "cell:TASK:MODEL, 'cell', model:MODEL"]),
        (["--family", "model:model_99"], ["model_99", "did you mean"]),
        (["--family", "cell:task_00"], ["cell:TASK:MODEL"]),
        (["--show", "few"], ["--show", "few"]),
        (["--alias", "x"], ["OLD=NEW"]),
        (["--task", "topic"], ["'topic' (--task)", "--single-task"]),
        (["--estimator", "pooled", "--rank", "3"], ["--rank", "low-rank"]),
        (["--out", "board.xlsx"], [".json", ".parquet"]),
        (["--out", "board"], [".csv"]),
        (["--out", "no/such/folder/board.csv"], ["does not exist"]),
        (["--method", "bonferroni"], ["bonferroni", "step-down"]),
        (["--frobnicate"], ["--frobnicate"]),
        (["--seed", "-1"], ["-1"]),
    ],
)
def test_bad_arguments(votes_file: Path, arguments: list[str], fragments: list[str]) -> None:
    options = [] if "--rank" in arguments else ["--rank", "2"]
    assert_refused_lines(call("rank", votes_file, *options, *arguments), fragments)


def assert_refused_lines(result: Result, fragments: list[str]) -> None:
    """As `assert_refused`, after the progress lines."""
    assert (result.exit_code, result.stdout) == (2, "")
    message = result.stderr[result.stderr.lower().index("error:") :]
    assert "Traceback" not in message and message.lower().count("error:") == 1
    for fragment in fragments:
        assert fragment in message, message


@pytest.mark.parametrize(
    ("name", "content", "fragments"),
    [
        ("absent.csv", None, ["absent.csv", "no such file"]),
        ("empty.csv", b"", ["empty.csv", "empty"]),
        ("votes.xlsx", b"PK\x03\x04", ["votes.xlsx", ".csv"]),
        ("page.csv", b"<!doctype html><html></html>", ["page.csv", "HTML"]),
        ("semicolons.csv", b"task;model_a;model_b;winner\nt;A;B;A\n", ["semicolons"]),
        ("latin.csv", "task,model_a,model_b,winner\nt,A,B,\xe4\n".encode("latin-1"), ["UTF-8"]),
        ("broken.csv.gz", b"\x1f\x8b\x08\x00", ["broken.csv.gz"]),
        ("broken.parquet", b"PAR1nothing", ["broken.parquet"]),
        ("header.csv", b"task,model_a,model_b,winner\n", ["zero rows"]),
        ("labels.csv", b"task,model_a,model_b,winner\nt,A,B,Model_C\n", ["Model_C", "--on-invalid drop"]),
        ("lines.jsonl", b'{"task": "t"\n', ["lines.jsonl", "line 1"]),
    ],
)
@pytest.mark.parametrize("command", ["check", "rank"])
def test_bad_files(tmp_path: Path, command: str, name: str, content: bytes | None, fragments: list[str]) -> None:
    if content is not None:
        (tmp_path / name).write_bytes(content)
    assert_refused(call(command, tmp_path / name), *fragments)


def test_folder_and_unreadable_target(votes_file: Path, tmp_path: Path) -> None:
    folder = tmp_path / "folder.csv"
    folder.mkdir()
    assert_refused(call("check", folder), "folder.csv")
    assert_refused_lines(rank(votes_file, "--out", folder), ["folder.csv", "folder"])


def test_debug_shows_the_traceback(tmp_path: Path) -> None:
    result = call("check", tmp_path / "absent.csv", "--debug")
    assert isinstance(result.exception, lg.ComparisonError)


def test_a_fault_of_ours_is_one_line_and_exit_code_1(votes_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("what")

    monkeypatch.setattr(lg.Comparisons, "read", broken)
    result = call("check", votes_file, "--quiet")
    assert result.exit_code == 1
    assert result.stderr.count("\n") == 1 and "ZeroDivisionError: what" in result.stderr


# ---------------------------------------------------------------------------------------------------------- demo


@pytest.fixture
def small_demo(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The demo in an empty folder, on a few of its votes: what the whole one prints is for `.ci/run`."""
    from lrgittins import datasets

    whole = datasets.load_llmfao_frame()
    models = sorted(set(whole["model_a"]))[:8]
    few = whole[whole["model_a"].isin(models) & whole["model_b"].isin(models)]
    monkeypatch.setattr(datasets, "load_llmfao", lambda: lg.Comparisons.from_frame(few))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_demo_prints_and_draws(small_demo: Path) -> None:
    result = call("demo")
    assert result.exit_code == 0, result.stderr
    assert "CC BY 4.0" in result.stdout and "certified not in it" in result.stdout
    assert max(map(len, result.stdout.splitlines())) <= WIDTH
    picture = small_demo / _cli_demo.RANKING_PICTURE
    assert picture.read_bytes().startswith(b"\x89PNG")
    assert f"picture: {picture.name}" in result.stdout


def test_demo_without_matplotlib_names_the_extra(small_demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    result = call("demo")
    assert result.exit_code == 0, result.stderr
    assert 'pip install "lrgittins[plot]"' in result.stdout and "certified not in it" in result.stdout
    assert list(small_demo.iterdir()) == []


def test_demo_as_json(small_demo: Path) -> None:
    data = json.loads(call("demo", "--json", "--quiet").stdout)
    assert data["ranking"]["schema"] == "lrgittins.leaderboard"


# ----------------------------------------------------------------------------------------------------- processes


def test_module_version_and_help(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "lrgittins"]
    version = run([*command, "--version"], cwd=tmp_path)
    assert (version.returncode, version.stdout) == (0, f"lrgittins, version {lg.__version__}\n")
    help_ = run([*command, "-h"], cwd=tmp_path)
    for name in cli.COMMANDS:
        assert f"  {name} " in help_.stdout
    unknown = run([*command, "frobnicate"], cwd=tmp_path)
    assert (unknown.returncode, unknown.stdout) == (2, "") and "frobnicate" in unknown.stderr
    absent = run([*command, "check", "absent.csv", "-q"], cwd=tmp_path)
    assert (absent.returncode, absent.stdout) == (2, "")
    assert absent.stderr == "lrgittins: error: absent.csv: there is no such file\n"


def test_help_loads_no_numerics(tmp_path: Path) -> None:
    code = """
import sys
from lrgittins.cli import run
run(["--help"]), run(["rank", "--help"])
print([name for name in ("numpy", "pandas", "numba") if name in sys.modules])
"""
    result = run([sys.executable, "-c", code], cwd=tmp_path)
    assert result.stdout.splitlines()[-1] == "[]", result.stderr
    for command in cli.COMMANDS:
        assert max(map(len, call(command, "--help").stdout.splitlines())) <= WIDTH


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_a_closed_pipe_is_no_error(votes_file: Path, tmp_path: Path, unbuffered: str) -> None:
    read_end, write_end = os.pipe()
    os.close(read_end)  # the reader is gone before the first byte
    env = environment(PYTHONUNBUFFERED=unbuffered)
    command = [sys.executable, "-m", "lrgittins", "check", str(votes_file), "--json", "-q"]
    result = subprocess.run(command, stdout=write_end, stderr=subprocess.PIPE, cwd=tmp_path, env=env, timeout=120, check=False)
    os.close(write_end)
    assert (result.returncode, result.stderr) == (0, b"")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_is_one_message(votes_file: Path, tmp_path: Path) -> None:
    with open("/dev/full", "w") as full:
        command = [sys.executable, "-m", "lrgittins", "check", str(votes_file), "-q"]
        result = subprocess.run(
            command, stdout=full, stderr=subprocess.PIPE, text=True, cwd=tmp_path, env=environment(), timeout=120, check=False
        )
    assert result.returncode == 2
    assert "Traceback" not in result.stderr and "No space left" in result.stderr


# ------------------------------------------------------------------------------------------------------- display


def test_display_helpers() -> None:
    assert shorten("abcdefghij", 7) == "ab...ij" and shorten("a\nb", 9) == "a b" and shorten("a\x00b", 9) == "a?b"
    assert [number(x) for x in (1.23456, 1234567, float("inf"), float("nan"), None)] == ["1.235", "1,234,567", "inf", "-", "-"]
    text = table(["name", "n"], [["x" * 300, "1"], ["y", "22"]], left=["name"], flexible="name")
    assert [len(line) <= WIDTH for line in text.splitlines()] == [True] * 3
    assert table(["name", "n"], [], left=["name"], flexible="name") == "name      n"


def test_messages_in_the_words_of_the_command_line() -> None:
    assert in_cli_words('use ties="half" or ties="drop"') == "use --ties half or --ties drop"
    assert in_cli_words("name them with model_a=, winner=; with one task only, pass task=None") == (
        "name them with --model-a, --winner; with one task only, pass --single-task"
    )
    assert in_cli_words("use n_draws=400 or more") == "use --n-draws 400 or more"
    assert in_cli_words("x.count=3 and 'count=3'") == "x.count=3 and 'count=3'"
