"""Installs and processes that are hostile: no writable cache, no compiler, archives, forks, threads (cases A16, A17)."""

from __future__ import annotations

import shutil
import sys
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons

from .processes import PACKAGE, TWO_MODELS, TWO_MODELS_ANSWER, environment, run, run_python


def copy_package(folder: Path) -> Path:
    """The package alone, without caches, in `folder`."""
    shutil.copytree(PACKAGE, folder / "lrgittins", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "lrgittins"


SCRIPTS = sorted(path.name for path in (Path(__file__).parent / "environments").glob("*.py"))
NOT_CHECKS = {"_common.py", "smoke.py"}
NEEDS_AN_INDEX = {"oldest_versions.py"}


@pytest.mark.parametrize("name", sorted(set(SCRIPTS) - NOT_CHECKS - NEEDS_AN_INDEX))
def test_script(name: str, tmp_path: Path) -> None:
    """Each is also run alone; what it checks stands in its first line."""
    result = run([sys.executable, str(Path(__file__).parent / "environments" / name)], cwd=tmp_path, timeout=900)
    if result.returncode == 77:
        pytest.skip(result.stdout.strip().removeprefix("skipped: "))
    assert result.returncode == 0, result.stderr
    assert result.stdout.strip() == "ok"


def test_every_script_has_its_line_in_the_docs() -> None:
    page = Path(__file__).resolve().parents[1] / "docs" / "environments.md"
    text = page.read_text(encoding="utf-8")
    assert len(SCRIPTS) >= 9
    assert [name for name in SCRIPTS if name != "_common.py" and name not in text] == []


# A kernel that compiles in a second; prints ln(1/2), then how often it came from the cache and how often it was compiled.
ONE_KERNEL = """
import numpy as np
from lrgittins._kernels.logistic import log_likelihood
zero, one = np.zeros(1, dtype=np.int64), np.ones(1, dtype=np.int64)
print(f"{log_likelihood(zero, zero, one, np.ones(1), np.ones(1), np.zeros((1, 2))):.6f}", end=" ")
print(sum(log_likelihood.stats.cache_hits.values()), sum(log_likelihood.stats.cache_misses.values()))
"""


def test_switch_of_the_cache(tmp_path: Path) -> None:
    package = copy_package(tmp_path)
    env = environment(path=tmp_path, NUMBA_CACHE_DIR=None, LRGITTINS_NUMBA_CACHE="0")
    result = run_python(ONE_KERNEL, cwd=tmp_path, env=env)
    assert (result.returncode, result.stdout.split()[:1], result.stderr) == (0, ["-0.693147"], "")
    assert not list(package.rglob("*.nbi"))


def test_cache_is_kept_and_shared_by_cold_processes(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    env = environment(NUMBA_CACHE_DIR=str(cache), LRGITTINS_NUMBA_CACHE=None)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: run_python(ONE_KERNEL, cwd=tmp_path, env=env), range(2)))
    assert [result.stdout.split()[:1] for result in results] == [["-0.693147"]] * 2, [result.stderr for result in results]
    assert list(cache.rglob("*.nbi"))
    warm = run_python(ONE_KERNEL, cwd=tmp_path, env=env)
    assert warm.stdout.split() == ["-0.693147", "1", "0"], warm.stderr


def test_from_a_zip_archive(tmp_path: Path) -> None:
    archive = tmp_path / "bundle.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in PACKAGE.rglob("*"):
            if path.is_file() and "__pycache__" not in path.parts:
                file.write(path, Path("lrgittins") / path.relative_to(PACKAGE))
    code = f"""{TWO_MODELS}
import lrgittins.datasets
print(len(lrgittins.datasets.load_llmfao_frame()), "bundle.zip" in lg.__file__)
"""
    result = run_python(code, cwd=tmp_path, env=environment(path=archive, NUMBA_CACHE_DIR=None, HOME=str(tmp_path)))
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == [TWO_MODELS_ANSWER, "8931 True"]
    assert result.stderr.count("Warning") <= 1


def test_import_is_light_and_compiles_nothing(tmp_path: Path) -> None:
    code = """
import sys
import lrgittins
heavy = ["numba", "pandas", "matplotlib", "torch", "sklearn", "scipy.stats", "scipy", "numpy", "click", "pyfftw", "pyarrow"]
print([name for name in heavy if name in sys.modules])
import importlib, pkgutil
for found in pkgutil.walk_packages(lrgittins.__path__, "lrgittins."):
    if found.name != "lrgittins.__main__":
        importlib.import_module(found.name)
kernels = [
    value for name, module in list(sys.modules.items()) if name.startswith("lrgittins._kernels.")
    for value in vars(module).values() if hasattr(value, "signatures")
]
print(len(kernels) > 5, sum(len(kernel.signatures) for kernel in kernels))
print([name for name in ["matplotlib", "torch", "sklearn", "scipy.stats", "pyfftw"] if name in sys.modules])
"""
    result = run_python(code, cwd=tmp_path)
    assert result.returncode == 0, result.stderr
    assert result.stdout.splitlines() == ["[]", "True 0", "[]"]


# ------------------------------------------------------------------------------------------- threads, processes


BOARD = """
import hashlib
import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons
votes = simulate_comparisons(low_rank_scores(5, 50, 2), 20_000)
board = lg.leaderboard(votes, rank=2, family="all", n_draws=500)
frame = board.to_frame()
scores, ranks = frame[["score", "std_error"]].to_numpy(dtype=float), frame[["rank", "rank_low", "rank_high"]].to_numpy(dtype=int)
print(board.critical_value.hex(), hashlib.sha256(scores.tobytes() + ranks.tobytes()).hexdigest())
"""


def test_thread_counts_change_no_bit(tmp_path: Path) -> None:
    answers = set()
    for threads in ("1", "2", "8"):
        limits = dict.fromkeys(["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"], threads)
        result = run_python(BOARD, cwd=tmp_path, env=environment(**limits))
        assert result.returncode == 0, result.stderr
        answers.add(result.stdout.strip())
    assert len(answers) == 1, answers


@pytest.fixture(scope="module")
def votes() -> lg.Comparisons:
    return simulate_comparisons(low_rank_scores(4, 12, 2), 3_000)


def fitted(votes: lg.Comparisons) -> bytes:
    return lg.LowRankBradleyTerry(rank=2).fit(votes).scores_.to_numpy().tobytes()


def test_fits_in_a_thread_pool(votes: lg.Comparisons) -> None:
    from threadpoolctl import threadpool_info

    def blas_threads() -> list[int]:
        return [library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"]

    alone, before = fitted(votes), blas_threads()
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(lambda _: fitted(votes), range(12)))
    assert set(together) == {alone}
    assert blas_threads() == before


def test_blas_limit_is_restored_after_overlapping_calls(tmp_path: Path) -> None:
    # Two calls that overlap must not restore each other's limit: a fresh process with two BLAS threads shows it.
    code = """
import threading
from threadpoolctl import threadpool_info
from lrgittins._threads import one_blas_thread
import scipy.linalg
def seen(): return {library["num_threads"] for library in threadpool_info() if library["user_api"] == "blas"}
first_in, second_in, first_out = threading.Event(), threading.Event(), threading.Event()
inside = []
@one_blas_thread
def first():
    first_in.set(); second_in.wait(60)
@one_blas_thread
def second():
    second_in.set(); first_out.wait(60); inside.append(seen())
before = seen()
one, two = threading.Thread(target=first), threading.Thread(target=second)
one.start(); first_in.wait(60); two.start(); one.join(60); first_out.set(); two.join(60)
print(before, inside, seen())
"""
    result = run_python(code, cwd=tmp_path, env=environment(OPENBLAS_NUM_THREADS="2", OMP_NUM_THREADS="2", MKL_NUM_THREADS="2"))
    assert result.stdout.strip() == "{2} [{1}] {2}", result.stderr
