"""The distribution: what wheel and sdist hold, metadata, and that the README says what the examples do."""

from __future__ import annotations

import importlib.util
import re
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path
from types import ModuleType

import pytest

import lrgittins as lg

from .processes import environment, run

ROOT = Path(__file__).resolve().parents[1]


@pytest.fixture(scope="module")
def check_dist() -> ModuleType:
    path = ROOT / ".ci" / "check_dist.py"
    if not path.exists():
        pytest.skip("an unpacked sdist has no .ci folder")
    spec = importlib.util.spec_from_file_location("check_dist", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def distributions(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", str(folder), str(ROOT)]
    result = run(command, cwd=folder, env=environment(PYTHONPATH=None))
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


def test_wheel_and_sdist_are_complete(check_dist: ModuleType, distributions: Path) -> None:
    assert len(list((ROOT / "lrgittins" / "data").glob("*.csv.gz"))) >= 1
    assert check_dist.missing_files(distributions) == []


def test_a_wheel_without_its_data_is_noticed(check_dist: ModuleType, distributions: Path, tmp_path: Path) -> None:
    (wheel,), (sdist,) = distributions.glob("*.whl"), distributions.glob("*.tar.gz")
    (tmp_path / sdist.name).write_bytes(sdist.read_bytes())
    with zipfile.ZipFile(wheel) as source, zipfile.ZipFile(tmp_path / wheel.name, "w") as target:
        for name in source.namelist():
            if not name.endswith((".csv.gz", "py.typed")):
                target.writestr(name, source.read(name))
    missing = check_dist.missing_files(tmp_path)
    assert "wheel: lrgittins/py.typed" in missing and any(name.endswith(".csv.gz") for name in missing)


def test_version_is_told_once() -> None:
    assert re.fullmatch(r"\d+\.\d+\.\d+(?:[a-z]+\d+)?", lg.__version__)
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert "version" in project["project"]["dynamic"] and project["tool"]["hatch"]["version"]["path"] == "lrgittins/__init__.py"
    assert f"\nversion: {lg.__version__}\n" in (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"## {lg.__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", ["certify_votes.py", "choose_evaluations.py"])
def test_readme_shows_the_example_and_its_output(name: str, tmp_path: Path) -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    file = ROOT / "examples" / name
    example = file.read_text(encoding="utf-8")
    after = readme.index("```python\n" + example + "```")  # line for line
    shown = re.findall(r"```text\n(.*?)```", readme[after:], re.DOTALL)[0]
    result = run([sys.executable, str(file)], cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    # Numbers may differ in the last digit between BLAS builds, so words and table shape are compared exactly, numbers not.
    assert re.sub(r"\d+", "0", " ".join(shown.split())) == re.sub(r"\d+", "0", " ".join(result.stdout.split()))


def test_links_of_the_readme_exist() -> None:
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    targets = re.findall(r"\]\(([^)]+)\)|src=\"([^\"]+)\"", readme)
    local = [target for pair in targets for target in pair if target and "://" not in target]
    assert len(local) >= 5
    assert [target for target in local if not (ROOT / target).exists()] == []


def test_nothing_of_a_machine_is_tracked() -> None:
    listing = subprocess.run(["git", "ls-files", "-z"], cwd=ROOT, capture_output=True, text=True, check=False)
    if listing.returncode != 0:
        pytest.skip("not a git checkout")
    names = [name for name in listing.stdout.split("\0") if name]
    assert not [name for name in names if name.endswith((".pkl", ".pickle", ".nbi", ".nbc", ".pyc"))]
    assert not [name for name in names if (ROOT / name).exists() and (ROOT / name).stat().st_size > 2**20]


def test_architecture_names_every_module() -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    modules = {path.stem for path in (ROOT / "lrgittins").glob("*.py")} | {
        path.stem for path in (ROOT / "lrgittins" / "_kernels").glob("*.py")
    }
    unnamed = [name for name in modules if not name.startswith("__") and not re.search(rf"\b{name}\b", text)]
    assert [name for name in sorted(unnamed) if not name.startswith("_cli_")] == []
