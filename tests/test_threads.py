"""Threads and jobs change no bit, and neither forks, thread pools nor the workqueue layer disturb an answer.

`test_environments.py` has read-only installs, cold caches, forks of fits and BLAS limits; here are jobs, replays and boards in pools.
"""

from __future__ import annotations

import hashlib
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons

from .processes import environment, run_python


@pytest.fixture(scope="module")
def votes() -> lg.Comparisons:
    return simulate_comparisons(low_rank_scores(3, 6, 1), 2000)


@pytest.fixture(scope="module")
def responses() -> lg.ResponseMatrix:
    return lg.ResponseMatrix.from_array(np.random.default_rng(0).random((5, 24)))


def digest(inference: lg.GapInference) -> str:
    return hashlib.sha256(inference.scores.to_numpy().tobytes() + inference._noise.task_covariance.tobytes()).hexdigest()


def test_jobs_change_no_bit(votes: lg.Comparisons, responses: lg.ResponseMatrix) -> None:
    # Two processes, and eight threads of this one; more processes only take longer to start.
    import joblib

    estimator = lg.LowRankBradleyTerry(rank=1)
    answers = set()
    for n_jobs, backend in ((1, "loky"), (2, "loky"), (8, "threading")):
        with joblib.parallel_config(backend=backend):
            answers.add(
                (
                    digest(lg.infer_gaps(votes, estimator, n_folds=3, n_jobs=n_jobs)),
                    digest(lg.infer_gaps(votes, estimator, calibration="parametric", n_refits=5, n_jobs=n_jobs)),
                    lg.leaderboard(votes, rank=1, n_draws=400, n_jobs=n_jobs).to_frame().to_json(),
                    lg.compare(responses, ["gittins", "ucb-e"], budget=0.5, n_runs=3, n_jobs=n_jobs, progress=False).to_frame().to_json(),
                )
            )
    assert len(answers) == 1


@pytest.mark.parametrize("n_jobs", [0, 1.5, "all"])
def test_jobs_that_mean_nothing(votes: lg.Comparisons, n_jobs: object) -> None:
    with pytest.raises(lg.ParameterError, match="n_jobs"):
        lg.infer_gaps(votes, n_jobs=n_jobs)


def test_boards_and_replays_in_a_thread_pool(votes: lg.Comparisons, responses: lg.ResponseMatrix) -> None:
    def both(_: int) -> tuple[str, str]:
        board = lg.leaderboard(votes, rank=1, n_draws=400)
        trace = lg.replay(responses, lg.GittinsPolicy(**responses.policy_arguments()), budget=0.5)
        return board.to_frame().to_json(), trace.to_frame().to_json()

    alone = both(0)
    with ThreadPoolExecutor(8) as pool:
        assert set(pool.map(both, range(16))) == {alone}


# Everything compiled that a board, a replay and a count of coded columns use; prints one digest of the answers.
WORK = """
import hashlib
import numpy as np
import pandas as pd
import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons
votes = simulate_comparisons(low_rank_scores(3, 6, 1), 2000)
responses = lg.ResponseMatrix.from_array(np.random.default_rng(0).random((5, 24)))
columns = {"task": ["t"] * 60, "model_a": list("abc") * 20, "model_b": list("de") * 30, "winner": "left tie right right".split() * 15}
def work(_=None):
    board = lg.leaderboard(votes, rank=1, n_draws=400).to_frame().to_json()
    trace = lg.replay(responses, lg.GittinsPolicy(**responses.policy_arguments()), budget=0.5).to_frame().to_json()
    frame = pd.concat([pd.DataFrame(columns).astype("category")] * 2)
    counts = lg.Comparisons.from_frame(frame).counts.to_json()
    return hashlib.sha256((board + trace + counts).encode()).hexdigest()
"""


def test_threading_layers_and_thread_counts_change_no_bit(tmp_path: Path) -> None:
    code = f"{WORK}\nprint(work())"
    answers = set()
    for layer, threads in (("workqueue", "2"), ("workqueue", "8"), ("default", "1")):
        limits = dict.fromkeys(["OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"], threads)
        result = run_python(code, cwd=tmp_path, env=environment(NUMBA_THREADING_LAYER=layer, **limits))
        assert result.returncode == 0, result.stderr
        answers.add(result.stdout.strip())
    assert len(answers) == 1, answers


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_fork_after_kernels_were_used(tmp_path: Path) -> None:
    # By hand and by multiprocessing, under the layer that forks suit least; then threads, in the same process.
    code = f"""{WORK}
import multiprocessing, os, warnings
from concurrent.futures import ThreadPoolExecutor
before = work()
reader, writer = os.pipe()
child = os.fork()
if child == 0:
    os.write(writer, work().encode())
    os._exit(0)
os.waitpid(child, 0)
print(os.read(reader, 100).decode() == before, end=" ")
with multiprocessing.get_context("fork").Pool(2) as pool:
    print(set(pool.map_async(work, range(4)).get(120)) == {{before}}, end=" ")
with ThreadPoolExecutor(8) as threads:
    print(set(threads.map(work, range(8))) == {{before}})
"""
    result = run_python(code, cwd=tmp_path, env=environment(NUMBA_THREADING_LAYER="workqueue", NUMBA_NUM_THREADS="2"))
    assert result.stdout.split() == ["True"] * 3, result.stderr


def test_two_cold_processes_compile_the_whole_board_on_one_cache(tmp_path: Path) -> None:
    cache = tmp_path / "cache"
    code = """
import lrgittins as lg
votes = lg.Comparisons.from_frame({"model_a": list("abc") * 4, "model_b": list("bca") * 4, "winner": ["left", "right"] * 6}, task=None)
print(lg.PerTaskBradleyTerry().fit(votes).scores_.to_numpy().tobytes().hex())
"""
    env = environment(NUMBA_CACHE_DIR=str(cache), LRGITTINS_NUMBA_CACHE=None)
    with ThreadPoolExecutor(2) as pool:
        results = list(pool.map(lambda _: run_python(code, cwd=tmp_path, env=env), range(2)))
    assert [result.returncode for result in results] == [0, 0], [result.stderr for result in results]
    assert len({result.stdout for result in results}) == 1
    assert list(cache.rglob("*.nbi"))
