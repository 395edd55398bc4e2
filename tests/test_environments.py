"""Installs and processes that are hostile: no writable cache, no compiler, archives, forks, threads (cases A16, A17)."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons

from .processes import PACKAGE, TWO_MODELS, TWO_MODELS_ANSWER, environment, run_python


def copy_package(folder: Path) -> Path:
    """The package alone, without caches, in `folder`."""
    shutil.copytree(PACKAGE, folder / "lrgittins", ignore=shutil.ignore_patterns("__pycache__"))
    return folder / "lrgittins"


@pytest.fixture
def readable_folder() -> Iterator[Path]:
    """A folder that other users can enter, unlike `tmp_path`."""
    folder = Path(tempfile.mkdtemp(prefix="lrgittins-test-"))
    folder.chmod(0o755)
    yield folder
    for path in [folder, *folder.rglob("*")]:
        if path.is_dir():
            path.chmod(0o755)
    shutil.rmtree(folder)


def without_privileges() -> list[str]:
    """A command prefix that gives up root's right to write anywhere (but not to read the interpreter, wherever it lives)."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("running as root without setpriv: cannot become an ordinary user")
    return [setpriv, "--reuid=65534", "--regid=65534", "--clear-groups", "--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"]


@pytest.mark.skipif(sys.platform == "win32", reason="POSIX permissions")
def test_read_only_install_without_home(readable_folder: Path) -> None:
    package = copy_package(readable_folder)
    for path in [*package.rglob("*"), package, readable_folder]:
        path.chmod(0o555 if path.is_dir() else 0o444)
    env = environment(
        path=readable_folder, HOME=None, XDG_CACHE_HOME=None, NUMBA_CACHE_DIR=None, LRGITTINS_NUMBA_CACHE=None, IPYTHONDIR=None
    )
    if os.geteuid() != 0:  # the home of the password file may be writable: point the user's cache at a read-only place
        env["XDG_CACHE_HOME"] = str(readable_folder)
    code = f"import lrgittins; print(lrgittins.__file__)\n{TWO_MODELS}"
    result = run_python(code, cwd=readable_folder, env=env, prefix=without_privileges())
    assert result.returncode == 0, result.stderr
    where, answer = result.stdout.splitlines()
    assert Path(where).parent == package
    assert answer == TWO_MODELS_ANSWER
    assert result.stderr.count("Warning") == 1
    assert "NUMBA_CACHE_DIR" in result.stderr and "LRGITTINS_NUMBA_CACHE=0" in result.stderr
    assert not [path for path in package.rglob("*") if path.suffix in {".nbi", ".nbc"}]


def test_without_a_compiler(tmp_path: Path) -> None:
    result = run_python(TWO_MODELS, cwd=tmp_path, env=environment(NUMBA_DISABLE_JIT="1"))
    assert (result.returncode, result.stdout.strip(), result.stderr) == (0, TWO_MODELS_ANSWER, "")


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


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_after_a_fit(votes: lg.Comparisons, tmp_path: Path) -> None:
    # In a process of its own, so that no thread of the test runner is forked.
    code = """
import multiprocessing, hashlib
import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons
votes = simulate_comparisons(low_rank_scores(4, 12, 2), 3_000)
def fitted(_=None):
    return hashlib.sha256(lg.LowRankBradleyTerry(rank=2).fit(votes).scores_.to_numpy().tobytes()).hexdigest()
before = fitted()
with multiprocessing.get_context("fork").Pool(2) as pool:
    print({before, *pool.map_async(fitted, range(4)).get(120), fitted()} == {before})
"""
    result = run_python(code, cwd=tmp_path)
    assert result.stdout.strip() == "True", result.stderr
