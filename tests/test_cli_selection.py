"""The commands `select` and `roots`, and the selection half of the demo."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import lrgittins as lg

commands = pytest.importorskip("lrgittins._cli_selection", reason="the command line is not in this tree")


def scores(seed: int = 0) -> pd.DataFrame:
    rng = np.random.default_rng(seed)
    values = (rng.random((5, 40)) < rng.uniform(0.2, 0.8, (5, 1))).astype(int)
    frame = pd.DataFrame(values, index=[f"arm {k}" for k in range(5)], columns=[f"ex {j}" for j in range(40)])
    return frame.stack().rename("score").rename_axis(["arm", "example"]).reset_index()


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scores") / "scores.csv"
    scores().to_csv(path, index=False)
    return path


@pytest.fixture
def costs(tmp_path: Path) -> Path:
    path = tmp_path / "prices.csv"
    pd.DataFrame({"arm": [f"arm {k}" for k in range(6)], "cost": [1.0, 2.0, 0.5, 3.0, 1.0, 9.0]}).to_csv(path, index=False)
    return path


def select(*arguments: object) -> Result:
    return CliRunner().invoke(commands.select, [str(argument) for argument in arguments])


def refused(result: Result, *fragments: str) -> None:
    assert result.exit_code == 2 and result.stdout == ""
    assert "Traceback" not in result.stderr
    for fragment in fragments:
        assert fragment in result.stderr


def test_select_prints_what_compare_finds(file: Path, costs: Path) -> None:
    result = select(file, "--costs", costs, "--policy", "gittins, gittins-s,ucb-e", "--runs", 3, "--budget", 0.5, "--seed", 7)
    assert result.exit_code == 0, result.stderr
    matrix = lg.ResponseMatrix.read(file, cost={f"arm {k}": p for k, p in enumerate([1.0, 2.0, 0.5, 3.0, 1.0])})
    wanted = lg.compare(matrix, ["gittins", "gittins-s", "ucb-e"], n_runs=3, budget=0.5, random_state=7, progress=False)
    table = wanted.at()
    for row in table.itertuples():
        assert f"{row.regret:.4f}±{row.std_error:.4f}" in result.stdout
    assert "gittins-s (hindsight)" in result.stdout and matrix.best_arm in result.stdout
    assert "5 arms x 40 examples, 200 scores; all of them cost 300" in result.stderr
    assert max(map(len, result.stdout.splitlines())) <= 100
    quiet = select(file, "--runs", 1, "--quiet")
    assert quiet.exit_code == 0 and quiet.stderr == ""


def test_select_writes_every_format(file: Path, tmp_path: Path) -> None:
    frame = lg.compare(lg.ResponseMatrix.read(file), ["ucb-e"], n_runs=2, progress=False).to_frame()
    for name in ("out.csv", "out.csv.gz", "out.parquet"):
        result = select(file, "--policy", "ucb-e", "--runs", 2, "--out", tmp_path / name)
        assert result.exit_code == 0 and result.stdout == "", result.stderr
        read = pd.read_parquet(tmp_path / name) if name.endswith("parquet") else pd.read_csv(tmp_path / name)
        pd.testing.assert_frame_equal(read, frame, check_dtype=False)
    assert select(file, "--runs", 2, "--policy", "ucb-e", "--out", tmp_path / "out.json").exit_code == 0
    shown = select(file, "--runs", 2, "--policy", "ucb-e", "--json")
    assert json.loads(shown.stdout) == json.loads((tmp_path / "out.json").read_text())
    pytest.importorskip("matplotlib")
    assert select(file, "--runs", 2, "--out", tmp_path / "out.png").exit_code == 0
    assert (tmp_path / "out.png").read_bytes()[:4] == b"\x89PNG"


def test_cell_costs_come_from_a_column(tmp_path: Path) -> None:
    frame = scores().assign(seconds=lambda f: np.arange(len(f)) % 7)
    frame.to_csv(tmp_path / "cells.csv", index=False)
    result = select(tmp_path / "cells.csv", "--cost", "seconds", "--runs", 1, "--json", "-q")
    assert json.loads(result.stdout)["matrices"]["responses"]["total_cost"] == frame["seconds"].sum()


def test_select_refuses_bad_input_with_one_message(file: Path, costs: Path, tmp_path: Path) -> None:
    refused(select(file, "--policy", "gitins"), "unknown policy 'gitins'", "did you mean 'gittins'")
    refused(select(file, "--policy", ","), "--policy is empty")
    refused(select(file, "--budget", 10), "budget")
    refused(select(file, "--out", tmp_path / "x.foo"), ".csv")
    refused(select(file, "--out", tmp_path / "no" / "x.csv"), "does not exist")
    refused(select(file, "--costs", costs, "--cost", "score"), "exclude each other")
    refused(select(tmp_path / "none.csv"), "none.csv")
    refused(select(file, "--score", "points"), "'points'")
    pd.read_csv(costs).iloc[:3].to_csv(tmp_path / "few.csv", index=False)
    refused(select(file, "--costs", tmp_path / "few.csv"), "2 of 5 arms", "'arm 3'")
    pd.concat([pd.read_csv(costs)] * 2).to_csv(tmp_path / "twice.csv", index=False)
    refused(select(file, "--costs", tmp_path / "twice.csv"), "more than one row")
    pd.read_csv(costs).assign(other=1, cost=1).drop(columns="cost").assign(third=2).to_csv(tmp_path / "odd.csv", index=False)
    refused(select(file, "--costs", tmp_path / "odd.csv"), "a column 'cost'", "'other'")


def test_roots_prints_the_schedule(tmp_path: Path) -> None:
    arguments = ["--n-examples", "20", "--batch-size", "8", "--cost", "1", "--cost", "0", "--cost-scale", "1e-3"]
    result = CliRunner().invoke(commands.roots, arguments)
    assert result.exit_code == 0, result.stderr
    for root in (-0.29388442, -0.11979710, -0.05778205):  # golden spot values; the default tolerance is 1e-6
        assert f"{root:.6f}"[:-1] in result.stdout
    assert "-inf" in result.stdout
    data = json.loads(CliRunner().invoke(commands.roots, [*arguments, "--json"]).stdout)
    wanted = lg.root_schedule([1.0, 0.0], n_examples=20, batch_size=8, cost_scale=1e-3)
    assert [row["root"] for row in data["roots"]] == [*wanted.roots[0].tolist(), None, None, None]
    out = tmp_path / "roots.csv"
    assert CliRunner().invoke(commands.roots, [*arguments, "--out", str(out)]).exit_code == 0
    np.testing.assert_array_equal(pd.read_csv(out)["root"], wanted.to_frame()["root"])
    refused(CliRunner().invoke(commands.roots, ["--n-examples", "20", "--cost", "-1"]), "cost of arm 0")
    assert CliRunner().invoke(commands.roots, ["--n-examples", "0"]).exit_code == 2


def test_demo(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("matplotlib")
    messages: list[str] = []
    shown = commands.selection_demo(tmp_path, report=messages.append, runs=2)
    printed = capsys.readouterr().out
    assert shown == {} and messages and (tmp_path / "lrgittins_demo_selection.png").stat().st_size > 1000
    assert "Apache-2.0" in printed and "Unit cost" in printed and "Priced" in printed
    assert max(len(line) for line in printed.splitlines() if str(tmp_path) not in line) <= 105
    data = commands.selection_demo(tmp_path, report=messages.append, runs=2, as_json=True)
    assert capsys.readouterr().out == ""
    json.dumps(data, allow_nan=False)
    assert {"picture", "unit cost", "priced"} == set(data)
