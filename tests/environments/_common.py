"""What the scripts of this folder share: the interpreter under test, the package it imports, children, and the way a script ends.

Every script runs alone, ``python tests/environments/no_home.py``, and ends with 0 (fine), 1 (a fault, said on stderr) or 77
(cannot be tried here, said on stdout). ``LRGITTINS_PYTHON`` names another interpreter to test, such as that of a virtual
environment with an installed lrgittins; without it, this interpreter and the checkout are tested.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]
SKIPPED = 77
CACHES = ("NUMBA_CACHE_DIR", "LRGITTINS_NUMBA_CACHE", "NUMBA_DISABLE_JIT")


class Skip(Exception):
    """This machine cannot show it; the message says why."""


def finish(main: Callable[[], None]) -> NoReturn:
    """Run a script's check and leave with its exit code."""
    try:
        main()
    except Skip as reason:
        print(f"skipped: {reason}")
        sys.exit(SKIPPED)
    except AssertionError:
        traceback.print_exc()
        sys.exit(1)
    print("ok")
    sys.exit(0)


def interpreter() -> str:
    """The interpreter under test."""
    return os.environ.get("LRGITTINS_PYTHON") or sys.executable


def environment(**changes: str | None) -> dict[str, str]:
    """This environment for a child: no compiled-code settings, one thread, the checkout first where no other interpreter is given."""
    out = {name: value for name, value in os.environ.items() if name not in CACHES and name != "PYTHONPATH"}
    out.update(PYTHONDONTWRITEBYTECODE="1", OPENBLAS_NUM_THREADS="1", OMP_NUM_THREADS="1", NUMBA_NUM_THREADS="1")
    if "LRGITTINS_PYTHON" not in os.environ:
        out["PYTHONPATH"] = str(ROOT)
    for name, value in changes.items():
        if value is None:
            out.pop(name, None)
        else:
            out[name] = value
    return out


def run(
    arguments: list[str], *, env: dict[str, str] | None = None, prefix: list[str] | None = None, cwd: Path | None = None, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """The interpreter under test with `arguments`; a failure is shown whole."""
    command = [*(prefix or []), interpreter(), *arguments]
    result = subprocess.run(
        command, env=environment() if env is None else env, cwd=cwd or HERE, capture_output=True, text=True, timeout=600, check=False
    )
    assert not check or result.returncode == 0, f"{command} ended with {result.returncode}\n{result.stdout}\n{result.stderr}"
    return result


@contextmanager
def folder_for_everyone() -> Iterator[Path]:
    """A temporary folder that other users may enter."""
    folder = Path(tempfile.mkdtemp(prefix="lrgittins-env-"))
    folder.chmod(0o755)
    try:
        yield folder
    finally:
        for path in [folder, *folder.rglob("*")]:
            if path.is_dir() and not path.is_symlink():
                path.chmod(0o755)
        shutil.rmtree(folder)


def copy_package(folder: Path) -> Path:
    """The package under test, without its caches, in `folder`."""
    where = run(["-c", "import lrgittins; print(lrgittins.__file__)"]).stdout.strip()
    shutil.copytree(Path(where).parent, folder / "lrgittins", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "lrgittins"


def make_read_only(folder: Path) -> None:
    for path in [*folder.rglob("*"), folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)


def as_nobody() -> list[str]:
    """A command prefix that becomes a user without a home; it may still read the interpreter, wherever that is kept."""
    if not hasattr(os, "geteuid") or os.geteuid() != 0:
        raise Skip("only root can become another user")
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise Skip("setpriv (util-linux) is not installed")
    return [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]
