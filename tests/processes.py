"""Child processes for tests of what only a new process shows; they import the same package as the test does."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import lrgittins

PACKAGE = Path(lrgittins.__file__).resolve().parent

TWO_MODELS = """
import lrgittins as lg
votes = lg.Comparisons.from_arrays(None, ["A"] * 10, ["B"] * 10, [1] * 7 + [0] * 3)
gap = lg.infer_gaps(votes, lg.PerTaskBradleyTerry()).gap("all", "A", "B")
print(f"{gap.estimate:.6f} {gap.std_error:.6f}")
"""
TWO_MODELS_ANSWER = "0.847298 0.690066"  # ln(7/3) and sqrt(1/7 + 1/3)


def environment(*, path: Path | None = None, **changes: str | None) -> dict[str, str]:
    """This process's environment with the package at `path` first on the import path; None removes a variable."""
    out = {**os.environ, "PYTHONPATH": str(PACKAGE.parent if path is None else path), "PYTHONDONTWRITEBYTECODE": "1"}
    for name, value in changes.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = value
    return out


def run(
    arguments: list[str], *, cwd: Path, env: dict[str, str] | None = None, stdin: str | None = None, timeout: float = 300
) -> subprocess.CompletedProcess[str]:
    """Run a command to its end; output as text."""
    return subprocess.run(
        arguments,
        cwd=cwd,
        env=environment() if env is None else env,
        input=stdin,
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )


def run_python(
    code: str, *, cwd: Path, env: dict[str, str] | None = None, prefix: list[str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run `code` in a new interpreter, optionally through a command `prefix`."""
    return run([*(prefix or []), sys.executable, "-c", code], cwd=cwd, env=env)
