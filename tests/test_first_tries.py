"""What people get who try the library on their own files, each with one thing wrong: an answer, or words that say what to do."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result

import lrgittins as lg
from lrgittins.cli import cli

VOTES = "task,model_a,model_b,winner\nt,A,B,model_a\nt,B,A,tie\nt,A,B,model_b\n"
SCORES = "arm,example,score\nA,q1,1\nA,q2,0.5\nB,q1,0\nB,q2,1\n"
PRICES = "arm,cost\nA,1\nB,2\n"


def call(*arguments: object) -> Result:
    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def refused(result: Result) -> str:
    """The one message of a refusal."""
    assert result.exit_code == 2 and result.stdout == "" and "Traceback" not in result.output, result.output
    return result.stderr.partition("lrgittins: error: ")[2]


@pytest.fixture
def put(tmp_path: Path) -> Callable[[str, str | bytes], Path]:
    def write(name: str, content: str | bytes) -> Path:
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write


# ----------------------------------------------------------------------------------------------------------- votes


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("votes.csv", VOTES.splitlines()[0] + "\n", "there are no comparisons"),
        ("votes.csv", VOTES.replace(",tie", ",draw"), "column 'winner': 1 row has an unknown label - 'draw' (1 row)"),
        ("votes.csv", VOTES.replace("t,B,A", "t,A,A"), "column 'model_b': 1 row compares a model with itself"),
        ("votes.csv", VOTES.replace("tie", "2").replace("model_b\n", "1\n").replace("model_a\n", "2\n"), "recode 1 and 2, or 1 and -1"),
        ("votes.csv", "Votes of November\n" + VOTES, "the first line must be the header"),
        ("votes.csv", VOTES.split("\n", 1)[1], "the first line must be the header"),
        (
            "votes.csv",
            b"PK\x03\x04" + bytes(26) + b"[Content_Types].xml" + bytes(90),
            "an Excel workbook; save it as CSV from the spreadsheet",
        ),
        ("votes.csv", b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(600), "an Excel workbook; save it as CSV"),
        ("votes.xlsx", b"PK\x03\x04", "save a sheet as CSV"),
        ("votes.json", "[]", "belongs in a .jsonl file"),
        ("votes.tsv", VOTES.replace(",", "\t"), 'pandas.read_csv(path, sep="\\t", dtype=str)'),
        ("votes.csv", VOTES.replace("A", "é").encode("latin-1"), "save it as UTF-8"),
    ],
)
def test_one_fault_in_a_file_of_votes(put: Any, name: str, content: str | bytes, said: str) -> None:
    path = put(name, content)
    message = refused(call("check", path))
    assert said in message and str(path) in message
    with pytest.raises(lg.ComparisonError, match=re.escape(said)) as caught:
        lg.Comparisons.read(path)
    assert str(caught.value).count(str(path)) == 1


def test_folders_are_called_folders(tmp_path: Path) -> None:
    assert "is a folder" in refused(call("check", tmp_path))
    assert "is a folder" in refused(call("select", tmp_path))
    assert "no such file" in refused(call("check", tmp_path / "votes"))


def test_read_takes_a_path(tmp_path: Path) -> None:
    with pytest.raises(lg.ComparisonError, match="path of a file, got DataFrame; tables in memory go to from_frame"):
        lg.Comparisons.read(pd.DataFrame())  # type: ignore[arg-type]
    with pytest.raises(lg.ResponseError, match="path of a file, got DataFrame; tables in memory go to from_frame"):
        lg.ResponseMatrix.read(pd.DataFrame())  # type: ignore[arg-type]


def test_what_cannot_be_written_is_named_as_it_was_given(tmp_path: Path, put: Any) -> None:
    votes = lg.Comparisons.read(put("votes.csv", VOTES))
    with pytest.raises(FileNotFoundError) as caught:
        lg.leaderboard(votes, top_k=1, n_draws=0).to_json(tmp_path / "no" / "board.json")
    assert caught.value.filename == str(tmp_path / "no" / "board.json")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--top-k", "3"], "--top-k must be between 1 and 2, the number of models in"),
        (["--family", "tasks"], "use cell:TASK:MODEL, 'cell', model:MODEL, 'model', task:TASK, 'task' or 'all'"),
        (["--method", "one-sided"], "--family cell or cell:TASK:MODEL"),
        (["--alpha", "95"], "--alpha must lie strictly between 0 and 1"),
        (["--n-draws", "-1"], "--n-draws must be between"),
    ],
)
def test_options_of_rank_are_called_what_they_are_on_the_command_line(put: Any, options: list[str], said: str) -> None:
    assert said in refused(call("rank", put("votes.csv", VOTES), *options))


# ---------------------------------------------------------------------------------------------------------- scores


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (
            SCORES.replace("example", "exampel"),
            "missing columns 'example' (--example); the columns are 'arm', 'exampel', 'score'; name them with",
        ),
        (
            SCORES.replace("arm,example,score", "model,item,acc"),
            "(columns 'arm', 'example' and 'score'; name yours with --arm, --example, --score)",
        ),
        (SCORES.splitlines()[0] + "\n", "there are no rows"),
        (SCORES.replace("A,q1,1", "A,q1,good"), "column 'score' must be numbers; 1 value is not: 'good' (row 0)"),
        (SCORES.replace("A,q1,1", "A,q1,95"), "--score-range 0 100"),
        (SCORES + "C,q1,\n", "1 arm has no score at all: 'C'"),
        (SCORES + "A,q1,0\n", "1 duplicate (arm, example) rows, first ('A', 'q1') (the first two differ in 'score')"),
        (SCORES + "A,q3,1,1,1\n", "not valid CSV (Error tokenizing data"),
        (SCORES.replace("A", "é").encode("latin-1"), "save it as UTF-8"),
        ("example,A,B\nq1,0,1\nq2,1,1\n", "transpose the table"),
    ],
)
def test_one_fault_in_a_file_of_scores(put: Any, content: str | bytes, said: str) -> None:
    path = put("scores.csv", content)
    message = refused(call("select", path))
    assert said in message and str(path) in message
    assert "arm=" not in message and "score=" not in message


def test_what_is_harmless_in_a_file_of_scores_is_read(put: Any) -> None:
    plain = lg.ResponseMatrix.read(put("scores.csv", SCORES))
    spaced = lg.ResponseMatrix.read(put("spaces.csv", SCORES.replace("arm,example,score", "arm, example , score")))
    dos = lg.ResponseMatrix.read(put("my scores.csv", b"\xef\xbb\xbf" + SCORES.replace("\n", "\r\n").encode()))
    for other in (spaced, dos):
        assert other.to_frame().equals(plain.to_frame())


@pytest.mark.parametrize("names", [("A", "B"), ("0", "1")])
def test_the_index_that_pandas_writes_is_no_column_of_scores(put: Any, names: tuple[str, str]) -> None:
    """Two arms: row numbers 0 and 1 would pass for scores."""
    wide = pd.DataFrame({"arm": names, "q1": [1.0, 0.0], "q2": [0.5, 1.0]})
    expected = {"q1": [1.0, 0.0], "q2": [0.5, 1.0]}
    for table in (wide, wide.set_index("arm").rename_axis(None)):
        found = lg.ResponseMatrix.read(put("wide.csv", table.to_csv()))
        assert list(map(str, found.arms)) == list(names) and found.examples == ("q1", "q2")
        assert dict(zip(found.examples, found.scores.T.tolist(), strict=True)) == expected


def test_ids_that_no_two_arms_share_are_told(put: Any) -> None:
    path = put("scores.csv", SCORES.replace("B,q1", "B,q3").replace("B,q2", "B,q4"))
    with pytest.warns(UserWarning, match="no value of 'example' is shared by two arms"):
        lg.ResponseMatrix.read(path)
    assert "warning: no value of 'example' is shared" in call("select", path, "--policy", "ucb-e", "--runs", "1", "--budget", "1").stderr


@pytest.mark.parametrize(
    ("content", "options", "said"),
    [
        ("arm,cost\nA,1\n", [], "has no price for 1 of 2 arms: 'B'; it has prices for 'A'"),
        ("arm,cost\na,1\nb,2\n", [], "has no price for 2 of 2 arms: 'A', 'B'; it has prices for 'a', 'b'"),
        ("arm,cost\n", [], "has no price for 2 of 2 arms: 'A', 'B'; it has no rows"),
        ("arm,cost\nA,\nB,2\n", [], "column 'cost': 'A' (nan) without a usable price"),
        ("arm,cost\nA,-1\nB,2\n", [], "column 'cost': 'A' (-1) without a usable price"),
        ("arm,cost\nA,$1\nB,2\n", [], "column 'cost' must be numbers; 1 value is not: '$1' (row 0)"),
        ("arm,cost\nA,1\nB,2\nB,3\n", [], "1 arm has more than one row, first 'B'"),
        ("model,input,output\nA,1,2\nB,2,2\n", [], "name it with --price"),
        (PRICES, ["--price", "usd"], "no column of prices 'usd' (--price)"),
    ],
)
def test_one_fault_in_a_table_of_prices(put: Any, content: str, options: list[str], said: str) -> None:
    prices = put("prices.csv", content)
    message = refused(call("select", put("scores.csv", SCORES), "--costs", prices, *options))
    assert said in message and str(prices) in message


def test_the_price_column_may_have_any_name(put: Any) -> None:
    scores = put("scores.csv", SCORES)
    table = put("prices.csv", "model,vendor,usd_per_example\nA,x,1\nB,y,2\n")
    unnamed = put("index.csv", pd.DataFrame({"cost": [1.0, 2.0]}, index=["A", "B"]).to_csv())
    run = ["--policy", "ucb-e", "--runs", "1", "--budget", "1", "--json", "-q"]
    for options in (["--costs", table, "--price", "usd_per_example"], ["--costs", unnamed]):
        assert json.loads(call("select", scores, *options, *run).stdout)["matrices"]["responses"]["total_cost"] == 6.0
    assert "--price names a column" in refused(call("select", scores, "--price", "cost"))


def test_policies_are_named_once(put: Any) -> None:
    scores = put("scores.csv", SCORES)
    assert "--policy names 'ucb-e' 2 times" in refused(call("select", scores, "--policy", "ucb-e,ucb-e"))
    assert "factory" not in refused(call("select", scores, "--policy", "gitins"))
    assert "--budget is a fraction" in refused(call("select", scores, "--budget", "10"))


def test_a_price_is_found_beside_a_column_of_text() -> None:
    table = pd.DataFrame({"model": ["A"], "prompt": ["direct"], "input_usd_per_1m": [2.0], "output_usd_per_1m": [4.0]})
    assert lg.arm_costs(table, input_tokens=1e6, output_tokens=1e6).tolist() == [6.0]


# --------------------------------------------------------------------------------------------------- sample logs


def write_log(folder: Path, model: str, task: str, scores: list[float]) -> None:
    (folder / model).mkdir(parents=True, exist_ok=True)
    lines = [json.dumps({"doc_id": doc, "filter": "none", "metrics": ["acc"], "acc": score}) for doc, score in enumerate(scores)]
    (folder / model / f"samples_{task}_2026-11-01T10-00-00.000000.jsonl").write_text("\n".join(lines) + "\n")


def test_tasks_of_sample_logs_are_chosen_on_the_command_line(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    for model in ("big", "small"):
        for task in ("gsm8k", "mmlu", "arc"):
            write_log(tmp_path / "logs", model, task, rng.integers(0, 2, 20).astype(float).tolist())
    run = ["--format", "lm-eval", "--policy", "ucb-e", "--runs", "1", "--json", "-q"]

    def cells(*options: str) -> float:
        return json.loads(call("select", tmp_path / "logs", *options, *run).stdout)["matrices"]["responses"]["total_cost"]

    assert (cells(), cells("--tasks", "gsm8k"), cells("--tasks", "gsm8k, arc")) == (120.0, 40.0, 80.0)
    message = refused(call("select", tmp_path / "logs", "--tasks", "gsm8k,mmlu_pro", *run))
    assert "no samples of the tasks 'mmlu_pro'; the logs have 'arc', 'gsm8k', 'mmlu'" in message
    assert "--tasks is empty" in refused(call("select", tmp_path / "logs", "--tasks", ",", *run))
    assert "--tasks is for --format lm-eval" in refused(call("select", tmp_path / "logs", "--tasks", "gsm8k"))
    with pytest.raises(lg.ResponseError, match="no samples of the tasks 'x'"):
        lg.adapters.from_lm_eval_samples(tmp_path / "logs", tasks=["mmlu", "x"])
    file = next((tmp_path / "logs" / "big").iterdir())
    assert "reads a folder that has one subfolder of sample logs per model" in refused(call("select", file, *run))
    assert "move them into a subfolder" in refused(call("select", tmp_path / "logs" / "big", *run))
