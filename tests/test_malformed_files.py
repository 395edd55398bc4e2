"""200 damaged files of votes and of scores: each is read whole, or refused with one `LRGittinsError`; never a wrong answer."""

from __future__ import annotations

import gzip
import math
import sys
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

from lrgittins import Comparisons, LRGittinsError, ResponseMatrix
from lrgittins.cli import cli

from .malformed import ALL, COMMON, CSV, JSONL, PARQUET, Damage, cases, rows_of, to_bytes
from .processes import environment, run


def _cell(column: str, value: Any, rows: int = 1) -> Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]:
    def change(frame: pd.DataFrame, rng: np.random.Generator) -> pd.DataFrame:
        frame = frame.astype({column: object}) if column in frame else frame.assign(**{column: pd.Series([1] * len(frame), dtype=object)})
        for place in rng.choice(len(frame), rows, replace=False).tolist():
            frame.iat[place, list(frame.columns).index(column)] = value
        return frame

    return change


def _named(*names: str) -> Callable[[pd.DataFrame, np.random.Generator], pd.DataFrame]:
    return lambda frame, rng: frame.replace(
        {"model_a": dict(zip(MODELS, names, strict=True)), "model_b": dict(zip(MODELS, names, strict=True))}
    )


MODELS = ("gpt", "llama", "qwen", "gemma")
TEXTS = (".csv", ".jsonl.gz")
VOTES = (
    *COMMON,
    Damage("latin-1", (".csv",), "refuse", frame=_named("gpté", "llama", "qwen", "gemma"), encoding="latin-1"),
    Damage("odd names", ALL, "answer", frame=_named("<b>gpt</b>", "ll\nama", 'q"wen, x', "\u202egemma")),
    Damage("numeric names", TEXTS, "answer", frame=_named("17", "2.50", "1e5", "-3")),
    Damage("names NA and null", TEXTS, "answer", frame=_named("NA", "null", "nan", "None")),
    Damage("a name with a blank", TEXTS, "either", frame=_cell("model_a", "gpt ")),
    Damage("missing column", ALL, "refuse", frame=lambda frame, rng: frame.drop(columns="winner")),
    Damage("missing winner", TEXTS, "refuse", frame=_cell("winner", "")),
    Damage("missing model", TEXTS, "refuse", frame=_cell("model_b", "")),
    Damage("null winner", (".jsonl", ".parquet"), "refuse", frame=_cell("winner", None)),
    Damage("date as winner", TEXTS, "refuse", frame=_cell("winner", "2026-11-30")),
    Damage("dates as winners", PARQUET, "refuse", frame=lambda f, rng: f.assign(winner=pd.Timestamp("2026-11-30"))),
    Damage("winner of another row", TEXTS, "refuse", frame=_cell("winner", "claude")),
    Damage("winner inf", TEXTS, "refuse", frame=_cell("winner", "inf")),
    Damage("winner 1 as text", TEXTS, "refuse", frame=_cell("winner", "1")),
    Damage("winner 7", JSONL, "refuse", frame=_cell("winner", 7)),
    Damage("winner a list", JSONL, "refuse", frame=_cell("winner", ["model_a"])),
    Damage("list column", PARQUET, "refuse", frame=lambda f, rng: f.assign(winner=[["model_a"]] * len(f))),
    Damage("negative count", (*TEXTS, ".parquet"), "refuse", frame=_cell("count", -2)),
    Damage("half a vote", TEXTS, "refuse", frame=_cell("count", 1.5)),
    Damage("count beyond 64 bits", TEXTS, "refuse", frame=_cell("count", 10**30)),
    Damage("count as text", TEXTS, "refuse", frame=_cell("count", "many")),
    Damage("self-comparison", TEXTS, "refuse", frame=lambda f, rng: f.assign(model_b=f["model_a"].where(f.index == 3, f["model_b"]))),
)
SCORES = (
    *(damage for damage in COMMON if damage.name not in ("huge field", "nested objects", "short row")),
    Damage("short row", CSV, "either", text=next(damage.text for damage in COMMON if damage.name == "short row")),
    Damage("latin-1", (".csv",), "refuse", frame=lambda f, rng: f.replace("gpt", "gpté"), encoding="latin-1"),
    Damage("percent", TEXTS, "refuse", frame=_cell("score", 87)),
    Damage("negative score", TEXTS, "refuse", frame=_cell("score", -1)),
    Damage("infinite score", (".csv",), "refuse", frame=_cell("score", "inf")),
    Damage("words for scores", (*TEXTS, ".parquet"), "refuse", frame=lambda f, rng: f.assign(score="good")),
    Damage("one word for a score", TEXTS, "refuse", frame=_cell("score", "high")),
    Damage("decimal comma", TEXTS, "refuse", frame=_cell("score", "0,5")),
    Damage("date as score", TEXTS, "refuse", frame=_cell("score", "2026-11-30")),
    Damage("missing score", TEXTS, "either", frame=_cell("score", None)),
    Damage("missing arm", TEXTS, "refuse", frame=_cell("arm", None)),
    Damage("missing column", ALL, "refuse", frame=lambda frame, rng: frame.drop(columns="score")),
    Damage("row twice", (*TEXTS, ".parquet"), "refuse", frame=lambda f, rng: pd.concat([f, f.iloc[5:6]])),
    Damage("nested score", JSONL, "refuse", frame=_cell("score", {"value": 1})),
    Damage("nested arm", JSONL, "refuse", frame=_cell("arm", {"name": "x"})),
    Damage("leading zeros", (".csv",), "answer", frame=lambda f, rng: f.assign(example=[f"{i % 12:03d}" for i in range(len(f))])),
)
VOTE_CASES, SCORE_CASES = list(cases(VOTES)), list(cases(SCORES))


def ids(found: list[tuple[Damage, str]]) -> list[str]:
    return [f"{damage.name}{damage.claimed or ''}{suffix}".replace(" ", "-") for damage, suffix in found]


def vote_frame(rng: np.random.Generator) -> pd.DataFrame:
    n = int(rng.integers(20, 60))
    a = rng.integers(0, 4, n)
    b = (a + rng.integers(1, 4, n)) % 4
    return pd.DataFrame(
        {
            "task": rng.choice(["math", "code"], n),
            "model_a": [MODELS[k] for k in a],
            "model_b": [MODELS[k] for k in b],
            "winner": rng.choice(["model_a", "model_b", "tie"], n),
        },
        dtype=object,
    )


def score_frame(rng: np.random.Generator) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "arm": [MODELS[i // 12] for i in range(48)],
            "example": [f"q{i % 12}" for i in range(48)],
            "score": rng.integers(0, 2, 48).tolist(),
        }
    )


def make_file(folder: Path, frame: pd.DataFrame, damage: Damage, suffix: str, rng: np.random.Generator) -> tuple[Path, bytes]:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    data = to_bytes(frame, suffix, damage, rng)
    path = folder / f"file{damage.claimed or suffix}"
    path.write_bytes(data)
    return path, data


def attempt(read: Callable[[], Any], damage: Damage) -> Any:
    """What was read, or None where it was refused in words; warnings are errors, but for names that nearly agree."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warnings.filterwarnings("ignore", message="names that differ only", category=UserWarning)
        try:
            found = read()
        except LRGittinsError as error:
            assert damage.verdict != "answer", error
            said = str(error)
            assert len(said) > 20 and "Traceback" not in said and len(said) < 2000, said[:2000]
            return None
    return found


def test_there_are_two_hundred() -> None:
    assert len(VOTE_CASES) + len(SCORE_CASES) >= 200
    assert {damage.verdict for damage, _ in VOTE_CASES + SCORE_CASES} == {"answer", "refuse", "either"}


@pytest.mark.parametrize(("damage", "suffix"), VOTE_CASES, ids=ids(VOTE_CASES))
def test_damaged_votes(tmp_path: Path, damage: Damage, suffix: str) -> None:
    rng = np.random.default_rng([2026, len(damage.name), len(suffix)])
    frame = vote_frame(rng)
    path, data = make_file(tmp_path, frame, damage, suffix, rng)
    count = "count" if "count" in damage.name or damage.name == "half a vote" else None
    strict = attempt(lambda: Comparisons.read(path, count=count), damage)
    assert strict is None or damage.verdict != "refuse"
    for on_invalid in ("error", "drop"):
        votes = strict if on_invalid == "error" else attempt(lambda: Comparisons.read(path, count=count, on_invalid="drop"), damage)
        if votes is None:
            continue
        rows = rows_of(data, suffix)
        assert rows is not None, "read, though Python's own readers give up"
        assert votes.n_rows == len(rows)
        assert votes.n + votes.n_dropped == len(rows) or count is not None
        assert on_invalid == "drop" or votes.n_dropped == 0
    if strict is not None:
        assert rows is not None
        same = attempt(lambda: Comparisons.from_frame(pd.DataFrame(rows, dtype=object)), damage)
        assert strict.counts.equals(same.counts)
    if damage.verdict == "answer":
        assert strict.counts.equals(Comparisons.from_frame(damage.frame(frame, rng)).counts)


@pytest.mark.parametrize(("damage", "suffix"), SCORE_CASES, ids=ids(SCORE_CASES))
def test_damaged_scores(tmp_path: Path, damage: Damage, suffix: str) -> None:
    rng = np.random.default_rng([2027, len(damage.name), len(suffix)])
    frame = score_frame(rng)
    path, data = make_file(tmp_path, frame, damage, suffix, rng)
    responses = attempt(lambda: ResponseMatrix.read(path), damage)
    if responses is None:
        return
    assert damage.verdict != "refuse"
    rows = rows_of(data, suffix)
    assert rows is not None, "read, though Python's own readers give up"
    scores = {(str(row["arm"]), str(row["example"])): row.get("score") for row in rows}
    assert len(scores) == len(rows)
    wanted = {key: float(score) for key, score in scores.items() if score not in (None, "")}  # type: ignore[arg-type]
    found = {(str(row.arm), str(row.example)): row.score for row in responses.to_frame().itertuples()}
    assert found == wanted and all(math.isfinite(score) for score in found.values())
    if damage.verdict == "answer":
        assert responses.n_cells.sum() == len(damage.frame(frame, rng))


# --------------------------------------------------------------------------------------------------- command line


@pytest.mark.parametrize(
    ("damage", "suffix"),
    [case for case in VOTE_CASES if case[1] in (".csv", ".parquet")][::6],
    ids=ids([case for case in VOTE_CASES if case[1] in (".csv", ".parquet")][::6]),
)
def test_damaged_votes_on_the_command_line(tmp_path: Path, damage: Damage, suffix: str) -> None:
    rng = np.random.default_rng([2026, len(damage.name), len(suffix)])
    path, _ = make_file(tmp_path, vote_frame(rng), damage, suffix, rng)
    count = ["--count", "count"] if "count" in damage.name or damage.name == "half a vote" else []
    check_output(CliRunner().invoke(cli, ["check", str(path), "--json", "-q", *count]), damage)


@pytest.mark.parametrize(
    ("damage", "suffix"),
    [case for case in SCORE_CASES if case[1] in (".csv", ".jsonl.gz")][::6],
    ids=ids([case for case in SCORE_CASES if case[1] in (".csv", ".jsonl.gz")][::6]),
)
def test_damaged_scores_on_the_command_line(tmp_path: Path, damage: Damage, suffix: str) -> None:
    rng = np.random.default_rng([2027, len(damage.name), len(suffix)])
    path, _ = make_file(tmp_path, score_frame(rng), damage, suffix, rng)
    check_output(CliRunner().invoke(cli, ["select", str(path), "--policy", "ucb-e", "--runs", "1", "--json", "-q"]), damage)


def check_output(result: Any, damage: Damage) -> None:
    assert result.exit_code in {"answer": (0,), "refuse": (2,), "either": (0, 2)}[damage.verdict], result.output
    assert "Traceback" not in result.output and (result.exit_code == 0 or result.stdout == "")
    if result.exit_code == 2:
        (line,) = [line for line in result.stderr.splitlines() if line.startswith("lrgittins: error: ")]
        assert len(line) > 40


def test_a_gzip_bomb_of_one_line_ends(tmp_path: Path) -> None:
    """A field of 50 MB in a small file: an answer or an error, in a process that is given a minute."""
    path = tmp_path / "votes.csv.gz"
    path.write_bytes(gzip.compress(b"task,model_a,model_b,winner\nt,A," + b"B" * 50_000_000 + b",A\n", mtime=0))
    result = run([sys.executable, "-m", "lrgittins", "check", str(path), "-q"], cwd=tmp_path, env=environment(), timeout=240)
    assert result.returncode in (0, 2) and "Traceback" not in result.stderr
    assert len(result.stdout) + len(result.stderr) < 100_000
