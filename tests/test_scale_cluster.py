"""A real dask.distributed cluster of two worker processes: the same numbers as here, and workers that are killed on the way."""

from __future__ import annotations

import functools
import importlib
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg
from lrgittins import _dask, _parallel
from lrgittins.simulate import low_rank_scores, simulate_comparisons

pytest.importorskip("pyarrow")
distributed = pytest.importorskip("distributed")
dd = pytest.importorskip("dask.dataframe")

pytestmark = [
    # Third parties: sockets and event loops that distributed leaves to the garbage collector when a worker is killed.
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:Sending large graph:UserWarning"),
]


@pytest.fixture(scope="module")
def client() -> Iterator[Any]:
    """Two processes of one thread each, dashboard on any free port; they restart when they die."""
    import dask

    root = str(Path(lg.__file__).resolve().parents[1])
    settings = {
        "distributed.scheduler.allowed-failures": 2,
        "distributed.nanny.pre-spawn-environ.PYTHONPATH": os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])]),
        "distributed.nanny.pre-spawn-environ.OPENBLAS_NUM_THREADS": "1",
        "distributed.comm.timeouts.connect": "60s",
    }
    with (
        dask.config.set(settings),
        distributed.LocalCluster(
            n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0", memory_limit=0, silence_logs="CRITICAL"
        ) as cluster,
        distributed.Client(cluster) as client,
    ):
        client.wait_for_workers(2, timeout=120)
        yield client


def make_votes(rows: int = 3000) -> pd.DataFrame:
    rng = np.random.default_rng(1)
    return pd.DataFrame(
        {
            "task": rng.choice(["x", "y", "z"], rows),
            "model_a": rng.choice(list("pqrs"), rows),
            "model_b": rng.choice(list("tuvw"), rows),
            "winner": rng.choice(["model_a", "model_b", "tie", "tie (bothbad)"], rows),
            "n": rng.integers(0, 4, rows),
            "judge": rng.integers(0, 40, rows),
        }
    )


def assert_same(one: lg.Comparisons, two: lg.Comparisons) -> None:
    pd.testing.assert_frame_equal(one.counts, two.counts)
    pd.testing.assert_frame_equal(one.summary(), two.summary())
    assert one.summary().attrs == two.summary().attrs
    for name in ("task", "low", "high", "outcome", "count", "cluster"):
        assert np.array_equal(getattr(one._table, name), getattr(two._table, name)), name


# Functions that workers run must travel by value: a worker cannot import the tests.


def die_once(marker: str, spared: int) -> None:
    """Kill -9 this process, if it is the first to come here; never the process `spared`, the tests' own."""
    if os.getpid() == spared:
        return
    try:
        os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
    except FileExistsError:
        return
    os.kill(os.getpid(), signal.SIGKILL)


def deadly_block(frame: pd.DataFrame, marker: str, spared: int, partition_info: dict[str, int] | None = None) -> pd.DataFrame:
    import os
    import signal

    if partition_info is not None and partition_info["number"] == 3 and os.getpid() != spared:
        if marker == "always":
            os.kill(os.getpid(), signal.SIGKILL)
        try:
            os.close(os.open(marker, os.O_CREAT | os.O_EXCL))
        except FileExistsError:
            return frame
        os.kill(os.getpid(), signal.SIGKILL)
    return frame


def by_value(function: Any) -> Any:
    """The function as cloudpickle sends what was typed at a prompt: with its code."""
    import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    return function


# ------------------------------------------------------------------------------------------------------ from_dask


@pytest.mark.parametrize(
    "options", [{}, {"ties": "drop", "count": "n"}, {"cluster": "judge", "task": None}, {"both_bad": "drop", "models": list("pqrstuvwz")}]
)
def test_counts_of_a_cluster_are_those_of_one_process(client: Any, options: dict[str, Any]) -> None:
    frame = make_votes()
    blocks = dd.from_pandas(frame, npartitions=11)  # more than are merged at once
    assert_same(lg.Comparisons.from_dask(blocks, **options), lg.Comparisons.from_frame(frame, **options))


def test_faults_of_a_cluster_are_those_of_one_process(client: Any) -> None:
    frame = make_votes()
    frame.loc[[3, 77, 2900], "winner"] = "huh"
    frame.loc[900, "task"] = None
    blocks = dd.from_pandas(frame, npartitions=11)
    with pytest.raises(lg.ComparisonError) as here:
        lg.Comparisons.from_frame(frame)
    with pytest.raises(lg.ComparisonError) as there:
        lg.Comparisons.from_dask(blocks)
    assert str(there.value) == str(here.value)
    options: dict[str, Any] = {"on_invalid": "drop"}
    assert_same(lg.Comparisons.from_dask(blocks, **options), lg.Comparisons.from_frame(frame, **options))


def test_labels_of_two_kinds_in_two_blocks() -> None:
    words, numbers = (pd.DataFrame({"model_a": a, "model_b": b, "winner": [1.0]}) for a, b in ((["p"], ["q"]), ([4], [5])))
    counters = []
    names = {"model_a": "model_a", "model_b": "model_b", "winner": "winner", "task": None}
    from lrgittins._counting import Options, VoteCounter

    options = Options.checked("half", "tie", "error", None, None, None)
    for frame in (words, numbers):
        counters.append(_dask._count_block(frame, names, options))
    whole = VoteCounter(options, names)
    whole.absorb(counters[0])
    with pytest.raises(lg.ComparisonError, match="model names mix int and str: 'p' in column 'model_a', 4 in column 'model_a'"):
        whole.absorb(counters[1])


def test_what_from_dask_refuses(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = make_votes(20)
    blocks = dd.from_pandas(frame, npartitions=2)
    with pytest.raises(lg.ComparisonError, match="id='judge'.*single votes.*cluster='judge'"):
        lg.Comparisons.from_dask(blocks, id="judge")
    with pytest.raises(lg.ComparisonError, match="takes a dask.dataframe.DataFrame, got DataFrame; for tables in memory use from_frame"):
        lg.Comparisons.from_dask(frame)
    with pytest.raises(lg.ComparisonError, match=r"missing columns 'verdict' \(winner=\); the columns are 'task', 'model_a', 'model_b', "):
        lg.Comparisons.from_dask(blocks, winner="verdict")
    real = importlib.import_module

    def without_dask(name: str, *rest: Any) -> Any:
        if name.split(".")[0] == "dask":
            raise ImportError(f"No module named {name!r}")
        return real(name, *rest)

    monkeypatch.setattr(importlib, "import_module", without_dask)
    with pytest.raises(lg.MissingExtraError, match=r"needs dask.*lrgittins\[scale\]"):
        lg.Comparisons.from_dask(blocks)


def test_a_killed_worker_costs_time_and_nothing_else(client: Any, tmp_path: Path) -> None:
    frame = make_votes()
    marker = tmp_path / "died"
    blocks = dd.from_pandas(frame, npartitions=6).map_partitions(by_value(deadly_block), str(marker), os.getpid(), meta=frame.iloc[:0])
    assert_same(lg.Comparisons.from_dask(blocks), lg.Comparisons.from_frame(frame))
    assert marker.exists()


def test_a_block_that_kills_every_worker_is_named(client: Any) -> None:
    frame = make_votes()
    blocks = dd.from_pandas(frame, npartitions=6).map_partitions(by_value(deadly_block), "always", os.getpid(), meta=frame.iloc[:0])
    scheduler = client.cluster.scheduler
    before, scheduler.allowed_failures = scheduler.allowed_failures, 0
    try:
        # Without any failure allowed, whatever the worker had in hand counts as lost: block 3, or one beside it.
        with pytest.raises(lg.errors.WorkerError, match=r"block [0-5] \(of 6, counted from 0\)"):
            lg.Comparisons.from_dask(blocks)
    finally:
        scheduler.allowed_failures = before
    client.wait_for_workers(1, timeout=120)


# ----------------------------------------------------------------------------------------------- joblib on the cluster


@pytest.fixture(scope="module")
def responses() -> lg.ResponseMatrix:
    return lg.ResponseMatrix.from_array(np.random.default_rng(0).random((5, 24)))


class DeadlyUCBE(lg.UCBE):
    """UCB-E that takes its process with it, the first time one is made."""

    def __init__(self, *arguments: Any, marker: str, spared: int, **options: Any) -> None:
        die_once(marker, spared)
        super().__init__(*arguments, **options)


def test_compare_on_the_cluster(client: Any, responses: lg.ResponseMatrix, tmp_path: Path) -> None:
    import joblib

    there_already, marker = tmp_path / "there already", tmp_path / "died"
    there_already.touch()

    def policies(path: Path) -> dict[str, Any]:
        return {"gittins": "gittins", "deadly": functools.partial(by_value(DeadlyUCBE), marker=str(path), spared=os.getpid())}

    serial = lg.compare(responses, policies(there_already), budget=0.5, n_runs=4, progress=False).to_frame()
    client.wait_for_workers(2, timeout=120)
    with joblib.parallel_config(backend="dask"):
        there = lg.compare(responses, policies(marker), budget=0.5, n_runs=4, progress=False).to_frame()
    pd.testing.assert_frame_equal(there, serial)
    assert marker.exists()  # a worker was killed in the middle


def test_parametric_calibration_and_folds_on_the_cluster(client: Any) -> None:
    import joblib

    votes = simulate_comparisons(low_rank_scores(3, 6, 1), 2000)
    estimator = lg.LowRankBradleyTerry(rank=1)
    for options in ({"calibration": "parametric", "n_refits": 4}, {"n_folds": 3}):
        serial = lg.infer_gaps(votes, estimator, **options)
        with joblib.parallel_config(backend="dask"):
            there = lg.infer_gaps(votes, estimator, n_jobs=2, **options)
        assert there.scores.to_numpy().tobytes() == serial.scores.to_numpy().tobytes()
        assert there._noise.task_covariance.tobytes() == serial._noise.task_covariance.tobytes()


def test_studies_run_on_the_cluster(client: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import joblib

    folder = Path(__file__).resolve().parents[1] / "examples" / "studies"
    monkeypatch.syspath_prepend(str(folder))
    client.run(lambda path: __import__("sys").path.insert(0, path), str(folder))
    runner = importlib.import_module("_runner")
    settings = [{"trial": trial} for trial in range(4)]
    options: dict[str, Any] = {"name": "squares", "seed": 7, "out": None}
    serial = runner.run_trials(by_value(square_trial), settings, jobs=1, **options)
    with joblib.parallel_config(backend="dask"):
        there = runner.run_trials(by_value(square_trial), settings, jobs=2, **options)
    assert there == serial
    assert [row["trial"] for row in serial] == [0, 1, 2, 3]


def square_trial(rng: np.random.Generator, trial: int) -> list[dict[str, Any]]:
    return [{"trial": trial, "square": float(rng.random() ** 2)}]


# ------------------------------------------------------------------------------------------ joblib's own processes


def die_if(number: int, deadly: int, marker: str | None, spared: int) -> int:
    if number == deadly and os.getpid() != spared:
        if marker is None:
            time.sleep(0.5)  # the others finish first
            os.kill(os.getpid(), signal.SIGKILL)
        die_once(marker, spared)
    return number**2


def test_a_lost_process_is_replaced(tmp_path: Path) -> None:
    blocks = [(number, 2, str(tmp_path / "died"), os.getpid()) for number in range(5)]
    assert _parallel.run_blocks(by_value(die_if), blocks, 2, [f"block {i}" for i in range(5)]) == [0, 1, 4, 9, 16]


def test_a_block_that_kills_every_process_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_parallel, "RETRIES", 1)
    blocks = [(number, 2, None, os.getpid()) for number in range(4)]
    with pytest.raises(lg.errors.WorkerError, match="1 block of 4|one block of 4 unfinished: block 2|unfinished: .*block 2"):
        _parallel.run_blocks(by_value(die_if), blocks, 2, [f"block {i}" for i in range(4)])


def test_errors_of_a_block_are_its_own() -> None:
    with pytest.raises(ZeroDivisionError):
        _parallel.run_blocks(divmod, [(1, 1), (1, 0)], 1, ["one", "zero"])
