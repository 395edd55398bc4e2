"""The benchmarks run at their smallest sizes, and the comparison of their results lists what got worse."""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import json
import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from click.testing import CliRunner

FOLDER = Path(__file__).resolve().parents[1] / "asv_bench"
SCRIPT = FOLDER / "compare.py"
PACKAGE = "asv_benchmarks_under_test"  # `benchmarks` is also the name of a folder at the project's root
MODULES = [
    "bands",
    "baselines",
    "boards",
    "imports",
    "induction",
    "inference",
    "intake",
    "logistic",
    "low_rank",
    "policies",
    "quality",
    "replay",
]
# Parameters that are sizes: their first value is the smallest. Every value of the others is tried.
SIZES = {
    "arms_x_examples",
    "arms_x_examples_x_batch",
    "n",
    "n_arms",
    "n_examples_x_batch",
    "n_prices",
    "rows",
    "shape",
    "size",
}
KINDS = ("time_", "timeraw_", "peakmem_", "track_")
# They start fresh processes, some of which compile every kernel.
FRESH_PROCESSES = {"FirstCall", "FirstCallSeconds"}
# Variants of what is run here, at seconds each: left to the slow test.
SECONDS_EACH = {"BoardFromCounts", "ParametricBoard", "RepeatedCrossFit"}


@pytest.fixture
def own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """asv's working folder, and only the smallest of the files that are written there."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LRGITTINS_BENCH_MAX_ROWS", "100000")


def load_benchmarks() -> ModuleType:
    """The package under a name of its own, without the environment variables that it sets."""
    if PACKAGE not in sys.modules:
        init = FOLDER / "benchmarks" / "__init__.py"
        spec = importlib.util.spec_from_file_location(PACKAGE, init, submodule_search_locations=[str(init.parent)])
        assert spec is not None and spec.loader is not None
        sys.modules[PACKAGE] = importlib.util.module_from_spec(spec)
        before = dict(os.environ)
        spec.loader.exec_module(sys.modules[PACKAGE])
        os.environ.clear()
        os.environ.update(before)
    return sys.modules[PACKAGE]


def load_module(name: str) -> ModuleType:
    load_benchmarks()
    return importlib.import_module(f"{PACKAGE}.{name}")


def benchmark_methods(kind: type) -> list[str]:
    return [name for name in dir(kind) if name.startswith(KINDS)]


def benchmark_classes(name: str) -> list[type]:
    """Classes of a module that asv measures; bases without a benchmark of their own are none."""
    module = load_module(name)
    found = [kind for _, kind in inspect.getmembers(module, inspect.isclass) if kind.__module__ == module.__name__]
    return [kind for kind in found if benchmark_methods(kind)]


def parameters_of(kind: type) -> tuple[list[str], list[list[Any]]]:
    """Names and values, where asv also allows one plain list."""
    values = list(getattr(kind, "params", []))
    names = list(getattr(kind, "param_names", []))
    return names, [list(axis) for axis in values] if values and isinstance(values[0], (list, tuple)) else [values] if values else []


def smallest_set(kind: type) -> tuple[Any, ...]:
    return tuple(axis[0] for axis in parameters_of(kind)[1])


def all_kinds(kind: type) -> Iterator[tuple[Any, ...]]:
    """Every value of what is no size, at the smallest sizes."""
    names, values = parameters_of(kind)
    return itertools.product(*(axis[:1] if name in SIZES else axis for name, axis in zip(names, values, strict=True)))


def run_all(kind: type, parameters: tuple[Any, ...], *, memory: bool) -> dict[str, Any]:
    """Every benchmark of a class once; what they returned. Without `memory`, none that repeats the work of a timed one."""
    benchmark, names = kind(), benchmark_methods(kind)
    if hasattr(benchmark, "setup_cache"):
        benchmark.setup_cache()  # writes to the working folder
    if not memory:
        names = [name for name in names if name.replace("peakmem_", "time_", 1) not in names or not name.startswith("peakmem_")]
    if hasattr(benchmark, "setup"):
        benchmark.setup(*parameters)
    try:
        return {name: getattr(benchmark, name)(*parameters) for name in names}
    finally:
        if hasattr(benchmark, "teardown"):
            benchmark.teardown(*parameters)


def check_results(results: dict[str, Any]) -> None:
    """Tracked numbers are finite; the code of fresh processes compiles."""
    for name, value in results.items():
        if name.startswith("track_"):
            assert math.isfinite(value), name
        elif name.startswith("timeraw_"):
            compile(value, name, "exec")
        else:
            assert value is None, f"{name} returns something: asv throws it away"


def test_every_module_is_listed() -> None:
    found = {path.stem for path in (FOLDER / "benchmarks").glob("*.py")} - {"__init__", "common"}
    assert found == set(MODULES)


@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("module", MODULES)
def test_every_class_runs_at_its_smallest_size(module: str) -> None:
    classes = benchmark_classes(module)
    assert classes
    for kind in classes:
        names, values = parameters_of(kind)
        assert len(names) == len(values), kind.__name__
        if kind.__name__ in FRESH_PROCESSES | SECONDS_EACH:
            continue
        try:
            check_results(run_all(kind, smallest_set(kind), memory=False))
        except NotImplementedError as skipped:  # as asv skips
            assert "which is not installed" in str(skipped), kind.__name__


@pytest.mark.parametrize("module", MODULES)
def test_sizes_grow_and_are_three(module: str) -> None:
    for kind in benchmark_classes(module):
        for name, axis in zip(*parameters_of(kind), strict=True):
            if name in SIZES:
                assert len(axis) == 3, f"{kind.__name__}: {name}"
                sizes = [[int(number) for number in re.findall(r"\d+", str(size))] for size in axis]
                assert sizes[0] < sizes[1] < sizes[2], f"{kind.__name__}: {name}"


def test_large_intakes_are_left_out_when_asked(monkeypatch: pytest.MonkeyPatch) -> None:
    intake = load_module("intake")
    monkeypatch.setenv("LRGITTINS_BENCH_MAX_ROWS", "1000000")
    for kind, other in ((intake.Frame, "object"), (intake.File, "csv")):
        with pytest.raises(NotImplementedError, match="LRGITTINS_BENCH_MAX_ROWS=1000000"):
            kind().setup(10**7, other)
    intake.skip_large(10**6)


@pytest.mark.slow
@pytest.mark.usefixtures("own_folder")
@pytest.mark.parametrize("module", MODULES)
def test_every_class_runs_with_every_method(module: str) -> None:
    """Families, methods, policies, formats; memory; and the benchmarks that are plain functions."""
    for kind in benchmark_classes(module):
        for parameters in all_kinds(kind):
            try:
                check_results(run_all(kind, parameters, memory=True))
            except NotImplementedError as skipped:
                assert "which is not installed" in str(skipped), kind.__name__
    for name, function in inspect.getmembers(load_module(module), inspect.isfunction):
        if name.startswith("track_") and function.__module__ == load_module(module).__name__:
            assert math.isfinite(function())


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
