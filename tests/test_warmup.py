"""`warmup`: nothing is left to compile after it, in this process and, with a cache, in later ones."""

from __future__ import annotations

import ast
import json
import sys
from pathlib import Path

import pytest

import lrgittins as lg

from .processes import PACKAGE, environment, run, run_python

# What a job would run after the warm-up, on data of other sizes; prints how many specialisations that added.
AFTER = """
import json, sys
import lrgittins as lg
from lrgittins import _numba
done = lg.warmup()
def count(): return {(k.__module__, k.__name__): len(k.signatures) for k in _numba.kernels()}
before = count()
from lrgittins.datasets import load_wildbench_frame
from lrgittins.simulate import low_rank_scores, simulate_comparisons
votes = simulate_comparisons(low_rank_scores(5, 15, 2), 4_000)
lg.leaderboard(votes, rank=2, n_draws=200)
lg.infer_gaps(votes, lg.PerTaskBradleyTerry(disconnected="allow")).certify(3, method="order-statistic", n_draws=400)
frame = load_wildbench_frame()
responses = lg.ResponseMatrix.from_frame(frame[frame["item"].isin(sorted(set(frame["item"]))[:60])], arm="model", example="item")
lg.compare(responses, ["gittins", "gittins-g", "ucb-e", "sysrs"], n_runs=2, progress=False)
policy = lg.GittinsPolicy(**responses.policy_arguments())
policy.attach(responses.arms[0], responses.examples[0], 0.5)
lg.evaluate(policy, lambda arm, examples: [0.5] * len(examples), max_evaluations=60, progress=False)
late = {name: n - before.get(name, 0) for name, n in count().items() if n != before.get(name, 0)}
print(json.dumps({"report": done.to_dict(), "late": [str(name) for name in late],
                  "signatures": [[module, name, n] for (module, name), n in before.items()]}))
"""


def imported_kernels() -> set[tuple[str, str]]:
    """(module, function) of every kernel that Python code calls: what the modules outside `_kernels` import from it."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        if path.parent.name == "_kernels":
            continue
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom) and node.module and "_kernels." in node.module:
                found |= {(f"lrgittins._kernels.{node.module.split('.')[-1]}", alias.name) for alias in node.names}
    return {(module, name) for module, name in found if not name.isupper()}


def test_nothing_is_left_to_compile(tmp_path: Path) -> None:
    result = run_python(AFTER, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert found["late"] == []
    ready = {(module, name) for module, name, n in found["signatures"] if n}
    missed = {kernel for kernel in imported_kernels() if kernel not in ready}
    assert not missed, f"add calls that reach these to lrgittins/_warmup.py: {sorted(missed)}"
    assert len(ready) > 15
    # One specialisation of each: a second one would be a call site that passes other types.
    assert [entry for entry in found["signatures"] if entry[2] > 1 and (entry[0], entry[1]) in imported_kernels()] == []
    report = found["report"]
    assert report["n_compiled"] + report["n_loaded"] >= len(ready)
    assert report["seconds"] >= report["ranking_seconds"] + report["selection_seconds"] > 0
    assert report["cached"] and Path(report["cache_folder"]).is_dir()


def test_without_a_compiler_there_is_nothing_to_do(tmp_path: Path) -> None:
    env = environment(NUMBA_DISABLE_JIT="1")
    result = run([sys.executable, "-m", "lrgittins", "warmup", "--only", "selection", "--json"], cwd=tmp_path, env=env)
    assert result.returncode == 0, result.stderr
    found = json.loads(result.stdout)
    assert (found["n_compiled"], found["n_loaded"], found["cached"], found["ranking_seconds"]) == (0, 0, False, 0.0)
    assert "warmup" in result.stderr  # the progress bar


def test_half_a_warmup_and_none() -> None:
    done = lg.warmup(ranking=False)
    assert done.ranking_seconds == 0.0 < done.selection_seconds <= done.seconds
    with pytest.raises(lg.ParameterError, match="nothing to do"):
        lg.warmup(ranking=False, selection=False)
