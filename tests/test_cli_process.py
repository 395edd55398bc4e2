"""The command line as a process among others: pipes, signals, terminals, permissions; and what its help promises."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import click
import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from lrgittins import cli

from .processes import environment, run

COMMAND = [sys.executable, "-m", "lrgittins"]


@pytest.fixture(scope="module")
def scores_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    values = np.random.default_rng(0).integers(0, 2, (4, 30))
    frame = pd.DataFrame(values, index=["größer", "模型", "c", "d"]).rename_axis("arm").stack().rename("score").reset_index()
    path = tmp_path_factory.mktemp("scores") / "scores.csv"
    frame.set_axis(["arm", "example", "score"], axis=1).to_csv(path, index=False)
    return path


@pytest.fixture(scope="module")
def votes_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("votes") / "votes.csv"
    path.write_text("task,model_a,model_b,winner\n" + "t,größer,模型,model_a\nt,größer,模型,tie\n" * 30, encoding="utf-8")
    return path


# ---------------------------------------------------------------------------------------------------------- help


def examples_of(command: click.Command) -> list[str]:
    """The lines under "Examples:" in a command's help."""
    text = CliRunner().invoke(command, ["--help"]).stdout
    return [line.strip() for line in text.partition("Examples:\n")[2].splitlines() if line.strip()]


@pytest.mark.parametrize("name", [None, *cli.COMMANDS])
def test_every_example_in_the_help_can_be_typed(name: str | None) -> None:
    group = cli.cli
    command = group if name is None else group.get_command(click.Context(group), name)
    assert command is not None
    lines = examples_of(command)
    assert len(lines) >= 2
    for line in lines:
        words = [word for word in shlex.split(line.partition(" >")[0], comments=True) if "=" not in word or word.startswith("-")]
        assert words[0] == "lrgittins" and (name is None or words[1] == name)
        target = group.get_command(click.Context(group), words[1])
        assert target is not None
        if "--help" not in words:
            target.make_context(words[1], words[2:])  # parses and checks every option


@pytest.mark.parametrize("name", list(cli.COMMANDS))
def test_every_command_has_the_common_options(name: str) -> None:
    command = cli.cli.get_command(click.Context(cli.cli), name)
    assert command is not None
    options = {option for parameter in command.params for option in parameter.opts}
    assert {"--json", "--quiet", "--seed", "--debug"} <= options
    undocumented = [p.name for p in command.params if isinstance(p, click.Option) and not p.help and not isinstance(p.type, click.Choice)]
    assert undocumented == []


# ------------------------------------------------------------------------------------------------ pipes and signals


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX pipes")
def test_a_reader_that_has_seen_enough(votes_file: Path, tmp_path: Path) -> None:
    arguments = [*COMMAND, "check", str(votes_file), "--json", "-q"]
    process = subprocess.Popen(arguments, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    assert process.stdout is not None and process.stderr is not None
    assert process.stdout.read(1) == b"{"
    process.stdout.close()
    assert (process.wait(240), process.stderr.read()) == (0, b"")
    process.stderr.close()


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX signals")
def test_ctrl_c_ends_with_130_and_one_line(scores_file: Path, tmp_path: Path) -> None:
    arguments = [*COMMAND, "select", str(scores_file), "--runs", "1000000", "--policy", "ucb-e"]
    process = subprocess.Popen(arguments, cwd=tmp_path, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stderr is not None
    said = ""
    while "all of them cost" not in said:  # the line before the work
        said += process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, rest = process.communicate(timeout=240)
    assert (process.returncode, out) == (130, "")
    assert "Traceback" not in rest and rest.rstrip().splitlines()[-1].endswith("lrgittins: interrupted")


# ------------------------------------------------------------------------------------------------------- terminals


# An old code page without most of what we print. (To a stream that claims ASCII, click writes UTF-8: it takes it for misconfigured.)
OLD = environment(PYTHONIOENCODING="cp866", PYTHONUTF8="0", LC_ALL="C")


def test_a_terminal_without_utf_8(scores_file: Path, tmp_path: Path) -> None:
    arguments = [*COMMAND, "select", str(scores_file), "--runs", "2", "--policy", "ucb-e", "-q"]
    result = run(arguments, cwd=tmp_path, env=OLD)
    assert result.returncode == 0, result.stderr
    assert result.stdout.isascii() and "+-" in result.stdout
    shown = run(arguments, cwd=tmp_path, env=environment(PYTHONIOENCODING="utf-8"))
    assert shown.stdout.replace("±", "+-").count("+-") == result.stdout.count("+-") > 0
    # JSON says the same in any encoding.
    plain = run([*arguments, "--json"], cwd=tmp_path, env=OLD)
    assert plain.stdout.isascii() and json.loads(plain.stdout)["matrices"]


def test_errors_on_a_terminal_without_utf_8(tmp_path: Path) -> None:
    result = run([*COMMAND, "check", "größer.csv", "-q"], cwd=tmp_path, env=OLD)
    assert result.returncode == 2 and result.stderr.isascii() and "Traceback" not in result.stderr
    assert re.match(r"lrgittins: error: gr.+er\.csv: there is no such file", result.stderr)


# ----------------------------------------------------------------------------------------------------- permissions


def invoke(*arguments: str | Path) -> tuple[int, str]:
    result = CliRunner().invoke(cli.cli, [str(argument) for argument in arguments])
    assert result.stdout == "" and "Traceback" not in result.stderr
    return result.exit_code, result.stderr


@pytest.mark.parametrize("command", ["check", "rank", "select"])
def test_folders_are_refused_in_words(tmp_path: Path, command: str) -> None:
    for name in ("folder", "folder.csv", "folder.parquet"):
        (tmp_path / name).mkdir(exist_ok=True)
        code, said = invoke(command, tmp_path / name, "-q")
        assert code == 2 and said.startswith("lrgittins: error: ") and name in said and said.count("\n") == 1
        assert "folder" in said if "." not in name else "is a folder" in said


def test_output_into_a_folder_without_permission(votes_file: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda *_, **__: False)  # root may write anywhere
    code, said = invoke("rank", votes_file, "--out", tmp_path / "board.csv")
    assert code == 2 and said.startswith("lrgittins: error: --out ") and "no permission to write into" in said  # before any work


@pytest.mark.skipif(not hasattr(os, "geteuid"), reason="POSIX permissions")
@pytest.mark.parametrize("command", ["check", "select"])
def test_a_file_that_may_not_be_read(tmp_path: Path, command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "secret.csv"
    path.write_text("task,model_a,model_b,winner\nt,A,B,A\n", encoding="utf-8")
    path.chmod(0o000)
    try:
        if os.geteuid() == 0:
            if shutil.which("setpriv") is None:
                pytest.skip("root may read every file, and setpriv is not installed")
            # Without the two rights that make root read what it may not.
            prefix = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
            result = run([*prefix, *COMMAND, command, str(path), "-q"], cwd=tmp_path)
            code, said = result.returncode, result.stderr
        else:
            code, said = invoke(command, path, "-q")
    finally:
        path.chmod(0o600)
    assert code == 2 and said.startswith("lrgittins: error: ") and "Permission denied" in said and "Traceback" not in said
