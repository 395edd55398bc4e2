"""The selection studies as commands: they run, go on where they were stopped, and refuse what they cannot do."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import lrgittins as lg

ROOT = Path(__file__).resolve().parents[1]
STUDIES = ROOT / "examples/studies"
TINY = {
    "regret_curves": ["--policies", "gittins,gittins-g,gittins-s,ucb-e,sysrs,ucb-e-lrf,prompteval", "--slow-trials", "1"],
    "ablations": ["--groups", "cost,recommendation,design"],
}
HAS_MATPLOTLIB = find_spec("matplotlib") is not None

pytestmark = pytest.mark.skipif(not STUDIES.is_dir(), reason="the studies are not beside the tests")


@pytest.fixture(scope="module")
def commands() -> dict[str, Any]:
    """The click command of each study; studies import their helpers from their own folder."""
    sys.path.insert(0, str(STUDIES))
    try:
        import ablations
        import overhead
        import regret_curves
    finally:
        sys.path.remove(str(STUDIES))
    return {"regret_curves": regret_curves.main, "ablations": ablations.main, "overhead": overhead.main}


def run(command: Any, *arguments: object) -> Result:
    result = CliRunner().invoke(command, [str(a) for a in arguments])
    assert result.exit_code == 0, (result.output, result.exception)
    return result


def refusal(command: Any, *arguments: object) -> str:
    result = CliRunner().invoke(command, [str(a) for a in arguments])
    assert result.exit_code == 2 and isinstance(result.exception, SystemExit), (result.output, result.exception)
    return " ".join(result.output.split())


@pytest.fixture(scope="module")
def matrix(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """6 arms x 40 examples of binary scores, in long form."""
    rng = np.random.default_rng(0)
    rows = [(f"m{k}", f"q{j}", float(rng.random() < 0.2 + 0.1 * k)) for k in range(6) for j in range(40)]
    path = tmp_path_factory.mktemp("matrix") / "tiny.csv"
    pd.DataFrame(rows, columns=["arm", "example", "score"]).to_csv(path, index=False)
    return path


@pytest.mark.parametrize("study", TINY)
def test_a_study_runs_and_goes_on_identically(study: str, commands: dict[str, Any], matrix: Path, tmp_path: Path) -> None:
    out, pictures = tmp_path / "rows.jsonl", tmp_path / "pictures"
    common = ["--matrix", matrix, "--trials", 1, *TINY[study], "--out", out]
    whole = run(commands[study], *common)
    lines = out.read_text().splitlines()
    # Stopped after its first trial, in the middle of writing the second.
    out.write_text("\n".join([*lines[:2], lines[2][: len(lines[2]) // 2]]))
    again = run(commands[study], *common, *(["--pictures", pictures] if HAS_MATPLOTLIB else []))
    assert "".join(line for line in again.stdout.splitlines(keepends=True) if not line.startswith("wrote ")) == whole.stdout
    rows = [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}")]
    assert {r["position"]: r for r in rows[1:]} == {r["position"]: r for r in map(json.loads, lines[1:])}
    assert len(rows) == len(lines), "a finished trial was run again"
    if HAS_MATPLOTLIB:
        assert [path.suffix for path in pictures.iterdir()] == [".png"] * (1 if study == "regret_curves" else 3)


def test_a_study_is_one_command(matrix: Path) -> None:
    options = ["--matrix", str(matrix), "--trials", "1", "--policies", "ucb-e"]
    command = [sys.executable, str(STUDIES / "regret_curves.py"), *options]
    done = subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, env={**os.environ, "PYTHONPATH": str(ROOT)}, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "UCB-E" in done.stdout and "regret_curves" in done.stderr


def test_the_regret_table_says_how_many_runs_and_who_refuses(commands: dict[str, Any], tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    rows = [(f"m{k}", f"q{j}", round(float(rng.random()), 3)) for k in range(4) for j in range(30)]
    path = tmp_path / "graded.csv"
    pd.DataFrame(rows, columns=["arm", "example", "score"]).to_csv(path, index=False)
    policies = ["--policies", "ucb-e,ucb-e-lrf,prompteval"]
    done = run(commands["regret_curves"], "--matrix", path, "--trials", 2, "--slow-trials", 1, *policies)
    table = {line.split()[0]: line.split() for line in done.stdout.splitlines() if line.split()}
    assert table["UCB-E"][1] == "2" and table["UCB-E-LRF"][1] == "1"
    assert table["PromptEval"][1:6] == ["refuses:", "PromptEval", "needs", "binary", "scores"]


def test_overhead_prints_times_of_steps_runs_and_schedules(commands: dict[str, Any], tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    common = ["--size", "6x40", "--policies", "gittins,ucb-e,prompteval", "--trials", 1, "--out", out]
    first, again = run(commands["overhead"], *common), run(commands["overhead"], *common)
    assert first.stdout == again.stdout, "times that were measured are kept"
    assert "6x40 (arms x examples), wall time" in first.stdout and first.stdout.count("roots, ") == 4
    rows = [row for line in out.read_text().splitlines()[1:] for row in json.loads(line)["rows"]]
    timed = {row["policy"]: row for row in rows if row["policy"] != "roots"}
    assert set(timed) == {"gittins", "ucb-e", "prompteval"}
    for row in timed.values():
        assert 0.0 < row["step"] <= row["longest"] <= row["run"] and 0.0 < row["setup"] < row["run"]


# What is refused is refused before anything runs.


@pytest.mark.parametrize("study", ["regret_curves", "ablations", "overhead"])
def test_zero_trials_are_refused(study: str, commands: dict[str, Any]) -> None:
    assert "'--trials'" in refusal(commands[study], "--trials", 0)


@pytest.mark.parametrize("study", ["regret_curves", "overhead"])
def test_an_unknown_policy_is_refused_with_the_known_ones(study: str, commands: dict[str, Any]) -> None:
    told = refusal(commands[study], "--policies", "gittins,ucbe")
    assert "'ucbe'" in told and "'ucb-e'" in told
    for name in ("gittins", "gittins-g", "gittins-s", "ucb-e-lrf", "sysrs", "prompteval", "pbgi", "logei", "logeipc"):
        assert name in told
    assert "names no policy" in refusal(commands[study], "--policies", ",")


@pytest.mark.parametrize("study", ["regret_curves", "overhead"])
def test_a_missing_extra_is_named(study: str, commands: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    import _policies

    def absent(purpose: str) -> None:
        raise lg.MissingExtraError(f'{purpose} needs torch, which is not installed; install it with: pip install "lrgittins[bo]"')

    monkeypatch.setattr(_policies, "require_model", absent)
    assert "lrgittins[bo]" in refusal(commands[study], "--policies", "pbgi")
    assert _policies.chosen_policies(()) == [name for name in _policies.LABELS if name not in _policies.WHOLE_ROWS]


def test_other_refusals(commands: dict[str, Any], tmp_path: Path) -> None:
    assert "unknown group 'priors'" in refusal(commands["ablations"], "--groups", "priors")
    assert "no matrix has a name that starts with 'mmlu'" in refusal(commands["regret_curves"], "--only", "mmlu")
    assert "'56' is not a size" in refusal(commands["overhead"], "--size", "56")
    assert "--jobs 1" in refusal(commands["overhead"], "--jobs", 2)
    assert "does not exist" in refusal(commands["ablations"], "--matrix", tmp_path / "none.csv")


def test_slow_policies_neither_move_nor_change_the_trials_of_the_cheap_ones(commands: dict[str, Any]) -> None:
    import regret_curves

    names, every = [("wildbench", 8), ("bandit-eval/0", 8)], list(regret_curves.LABELS)
    cheap = regret_curves.settings_of(names, list(regret_curves.CHEAP), False, None, 3, 5)
    both = regret_curves.settings_of(names, every, False, None, 3, 2)
    more = regret_curves.settings_of(names, every, False, None, 3, 4)
    assert both[: len(cheap)] == cheap and more[: len(both)] == both
    # The settings of files written before there was a choice of policies.
    assert set(cheap[0]) == {"matrix", "prices", "batch", "data", "trial"}


@pytest.mark.oracle
def test_budget_weighted_regret_by_hand(commands: dict[str, Any]) -> None:
    """Regret .4 from cost 2 to 5, .1 from 5 to 9, 0 from 9 on: (3 x .4 + 4 x .1) / 8 up to 10."""
    from ablations import weighted_regret

    cost, regret = np.array([2.0, 5.0, 9.0, 12.0]), np.array([0.4, 0.1, 0.0, 0.7])
    assert weighted_regret(cost, regret, 10.0) == pytest.approx(1.6 / 8.0)


@pytest.mark.oracle
def test_thinned_curves_are_the_whole_curves(commands: dict[str, Any]) -> None:
    from _regret_picture import rebuild, thinned

    rng = np.random.default_rng(2)
    responses = lg.ResponseMatrix.from_array((rng.random((8, 60)) < rng.uniform(0.3, 0.7, (8, 1))).astype(float))
    runs = lg.compare({"m": responses}, ["gittins", "ucb-e-lrf", "prompteval"], budget=0.4, n_runs=3, progress=False)
    kept = [json.loads(json.dumps(thinned(record))) for record in runs.runs]
    place = {"matrix": "m", "prices": "unit"}
    rows = pd.DataFrame([{**place, "policy": r.policy, "trial": r.run, "curve": c} for r, c in zip(runs.runs, kept, strict=True)])
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("_regret_picture.load", lambda *_: responses)
        again = rebuild(rows, None)
    for how in ("paper", "linear", "step"):
        wanted, got = (c.curve(grid=np.linspace(0.0, 0.1, 41), how=how)["regret"].to_numpy() for c in (runs, again))
        np.testing.assert_allclose(got, wanted, atol=1e-14)
