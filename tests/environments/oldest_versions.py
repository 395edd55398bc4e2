"""The oldest versions that pyproject.toml allows, together, in a fresh virtual environment: ``oldest_versions.py [FOLDER]``.

Needs a package index, so the test suite leaves it out and `.ci/run` calls it. The newest versions that numba allows are what every
other environment of CI has.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

import _common as common

SCRIPTS = ("readonly_install.py", "no_pyfftw.py", "fork_and_threads.py", "warnings_as_errors.py")


def oldest() -> list[str]:
    """The dependencies of the project with every lower bound turned into a pin."""
    project = tomllib.loads((common.ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    pins = []
    for requirement in [*project["dependencies"], *project["optional-dependencies"]["arrow"]]:
        name, bound, marker = re.fullmatch(r"([\w-]+)>=([\d.]+)(\s*;.*)?", requirement).groups()  # type: ignore[union-attr]
        pins.append(f"{name}=={bound}{marker or ''}")
    return pins


def main(folder: Path) -> None:
    # The oldest numpy has wheels up to Python 3.12, the oldest scipy up to 3.12; the oldest numba from 3.10 on.
    if sys.version_info[:2] != (3, 11):
        raise common.Skip("the oldest versions are tried on the oldest Python, 3.11")
    subprocess.run([sys.executable, "-m", "venv", str(folder)], check=True)
    python = str(folder / "bin" / "python")
    quiet = ["-m", "pip", "install", "-q", "--disable-pip-version-check"]
    subprocess.run([python, *quiet, *oldest()], check=True)
    subprocess.run([python, *quiet, "--no-deps", str(common.ROOT)], check=True)
    os.environ["LRGITTINS_PYTHON"] = python
    print(common.run(["-m", "pip", "list", "--disable-pip-version-check"]).stdout)
    common.run([str(common.HERE / "smoke.py")])
    for name in SCRIPTS:
        done = subprocess.run([sys.executable, str(common.HERE / name)], capture_output=True, text=True, timeout=900, check=False)
        print(f"{name}: {done.stdout.strip()}")
        assert done.returncode in (0, common.SKIPPED), done.stderr


if __name__ == "__main__":
    if len(sys.argv) > 1:
        common.finish(lambda: main(Path(sys.argv[1])))
    with tempfile.TemporaryDirectory() as temporary:
        common.finish(lambda: main(Path(temporary)))
