"""The benchmark comparison: reads asv's result files and baselines, and lists what got worse."""

from __future__ import annotations

import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest
from click.testing import CliRunner

SCRIPT = Path(__file__).resolve().parents[1] / "asv_bench" / "compare.py"


@pytest.fixture
def compare(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("compare_benchmarks", SCRIPT)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "BASELINE", tmp_path / "baseline.json")
    return module


def write_result(path: Path, seconds: list[float | None], loss: float, *, cpu: str = "one") -> Path:
    """A result file as asv writes it: one timed benchmark at two sizes, one tracked number, one that failed."""
    data = {
        "commit_hash": "abc",
        "params": {"cpu": cpu, "os": "Linux"},
        "result_columns": ["result", "params", "version"],
        "results": {
            "low_rank.Fit.time_fit": [seconds, [["'10x10'", "'20x20'"]], "v"],
            "low_rank.Fit.track_loss": [[loss], [], "v"],
            "low_rank.Fit.time_broken": [None, [["1", "2"]], "v"],
        },
    }
    path.write_text(json.dumps(data), encoding="utf-8")
    return path


def test_only_what_grew_beyond_the_factor_is_listed(compare: ModuleType, tmp_path: Path) -> None:
    old = write_result(tmp_path / "old.json", [1.0, 2.0], 0.2)
    new = write_result(tmp_path / "new.json", [1.4, 3.2], 0.3)
    result = CliRunner().invoke(compare.main, [str(old), str(new)])
    assert result.exit_code == 1
    assert "1.60 x  2 -> 3.2  low_rank.Fit.time_fit(20x20)" in result.stdout
    assert "time_fit(10x10)" not in result.stdout
    assert "0.2 -> 0.3  low_rank.Fit.track_loss" in result.stdout
    assert "3 figures compared, 1 worse by more than 1.5 x" in result.stdout
    assert CliRunner().invoke(compare.main, [str(old), str(new), "--factor", "1.7"]).exit_code == 0


def test_a_baseline_is_written_only_when_asked(compare: ModuleType, tmp_path: Path) -> None:
    old, new = write_result(tmp_path / "old.json", [1.0, None], 0.2), write_result(tmp_path / "new.json", [0.9, 3.2], 0.2, cpu="two")
    result = CliRunner().invoke(compare.main, [])
    assert result.exit_code == 1 and "--write" in result.stderr and not compare.BASELINE.exists()
    assert CliRunner().invoke(compare.main, [str(old), "--write"]).exit_code == 0
    stored = compare.load(compare.BASELINE)
    assert stored["figures"] == {"low_rank.Fit.time_fit(10x10)": 1.0, "low_rank.Fit.track_loss": 0.2}
    result = CliRunner().invoke(compare.main, [str(compare.BASELINE), str(new)])
    assert result.exit_code == 0 and "different machines" in result.stderr


def test_other_files_are_refused(compare: ModuleType, tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_text("{}", encoding="utf-8")
    result = CliRunner().invoke(compare.main, [str(path), str(path)])
    assert result.exit_code == 1 and "neither" in result.stderr
