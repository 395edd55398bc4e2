"""Check what a wheel and an sdist contain: python .ci/check_dist.py FOLDER."""

from __future__ import annotations

import sys
import tarfile
import zipfile
from pathlib import Path

PACKAGE = Path(__file__).resolve().parents[1] / "lrgittins"


def expected_files() -> set[str]:
    """The package as it must arrive: every module, every bundled data set and template, the marker for type checkers."""
    patterns = ("*.py", "*.csv.gz", "templates/*")
    found = {path.relative_to(PACKAGE.parent).as_posix() for pattern in patterns for path in PACKAGE.rglob(pattern)}
    return found | {"lrgittins/py.typed"}


def missing_files(folder: Path) -> list[str]:
    """What a wheel or sdist in `folder` lacks; one of each is expected."""
    (wheel,), (sdist,) = folder.glob("*.whl"), folder.glob("*.tar.gz")
    expected = expected_files()
    with zipfile.ZipFile(wheel) as archive:
        in_wheel = set(archive.namelist())
    with tarfile.open(sdist) as archive:
        in_sdist = {name.split("/", 1)[1] for name in archive.getnames() if "/" in name}
    licences = {"LICENSE", "NOTICE"}
    missing = [f"wheel: {name}" for name in sorted(expected - in_wheel)]
    missing += [f"wheel: {name}" for name in sorted(licences) if not any(path.endswith(f"/{name}") for path in in_wheel)]
    missing += [f"sdist: {name}" for name in sorted((expected | licences | {"README.md", "pyproject.toml"}) - in_sdist)]
    unwanted = [name for name in in_wheel | in_sdist if name.endswith((".nbi", ".nbc", ".pyc", ".pkl"))]
    return missing + [f"not wanted: {name}" for name in sorted(unwanted)]


if __name__ == "__main__":
    problems = missing_files(Path(sys.argv[1]))
    print("\n".join(problems) or f"wheel and sdist hold all {len(expected_files())} files of the package")
    sys.exit(1 if problems else 0)
