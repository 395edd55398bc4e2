"""Every kernel compiled, or loaded from its cache, ahead of time: tiny problems through the public functions."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Any

from .errors import ParameterError


@dataclass(frozen=True)
class WarmupReport:
    """What `warmup` did.

    Attributes
    ----------
    seconds : float
        Wall time of all of it, imports included.
    ranking_seconds, selection_seconds : float
        Its halves; 0 for one that was left out.
    n_compiled, n_loaded : int
        Kernel specialisations that were compiled here, and that came from the cache on disk.
    cached : bool
        Whether later processes find them on disk: false with ``LRGITTINS_NUMBA_CACHE=0``, ``NUMBA_DISABLE_JIT=1``, or
        where no cache folder is writable.
    cache_folder : str or None
        Where they are kept.
    """

    seconds: float
    ranking_seconds: float
    selection_seconds: float
    n_compiled: int
    n_loaded: int
    cached: bool
    cache_folder: str | None

    def to_dict(self) -> dict[str, Any]:
        """Plain Python types, for JSON."""
        return asdict(self)


def warmup(*, ranking: bool = True, selection: bool = True, progress: bool = False) -> WarmupReport:
    """Compile every kernel now, or load it from the cache, so that no later call waits for it.

    Meant for the build of a container image, for the start of a server, and for the first lines of a nightly job.

    Parameters
    ----------
    ranking : bool
        Fits, inference, bands and certificates.
    selection : bool
        Root schedules, replays and policies.
    progress : bool
        A progress bar on stderr.

    Returns
    -------
    WarmupReport
        Seconds, how many kernels were compiled and how many came from the cache, and where that is.

    Raises
    ------
    ParameterError
        Both halves are left out.

    Notes
    -----
    Kernels are compiled on tiny inputs through the public functions, so for the very types that later calls use. A minute
    or two on a cold cache, a few seconds on a warm one. Compiled code is kept per Python version, numba version and
    processor: warm up on the kind of machine that will run it, as the user who will run it, with the same ``NUMBA_CACHE_DIR``.
    """
    if not (ranking or selection):
        raise ParameterError("warmup(ranking=False, selection=False) has nothing to do; leave at least one of them on")
    started = time.perf_counter()
    from tqdm import tqdm

    from . import _kernels, _numba

    for found in pkgutil.iter_modules(_kernels.__path__):
        importlib.import_module(f"{_kernels.__name__}.{found.name}")
    before = _count_specialisations(_numba.kernels())
    seconds = {}
    steps = {"ranking": list(_ranking_steps()) if ranking else [], "selection": list(_selection_steps()) if selection else []}
    with (
        tqdm(total=sum(map(len, steps.values())), desc="warmup", unit=" step", disable=not progress, file=sys.stderr) as bar,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore")  # problems this small are at the edge of what can be fitted; their results go nowhere
        for half, calls in steps.items():
            begun = time.perf_counter()
            for call in calls:
                call()
                bar.update()
            seconds[half] = time.perf_counter() - begun if calls else 0.0
    compiled, loaded = (now - then for now, then in zip(_count_specialisations(_numba.kernels()), before, strict=True))
    folder = _cache_folder(_numba.kernels())
    return WarmupReport(
        seconds=time.perf_counter() - started,
        ranking_seconds=seconds["ranking"],
        selection_seconds=seconds["selection"],
        n_compiled=compiled,
        n_loaded=loaded,
        cached=folder is not None,
        cache_folder=folder,
    )


def _count_specialisations(kernels: list[Any]) -> tuple[int, int]:
    """Specialisations compiled in this process, and loaded from the cache."""
    loaded = sum(sum(kernel.stats.cache_hits.values()) for kernel in kernels if hasattr(kernel, "stats"))
    return sum(len(kernel.signatures) for kernel in kernels if hasattr(kernel, "signatures")) - loaded, loaded


def _cache_folder(kernels: list[Any]) -> str | None:
    paths = {str(kernel.stats.cache_path) for kernel in kernels if hasattr(kernel, "stats") and kernel.stats.cache_path}
    return min(paths, default=None)


# ------------------------------------------------------------------------------------------------------- ranking


def _ranking_steps() -> Iterator[Callable[[], object]]:
    """Calls that together reach every ranking kernel."""
    import numpy as np

    from ._intake import FIRST_ROWS
    from ._shared_objects import code_objects
    from .board import leaderboard
    from .bradley_terry import PerTaskBradleyTerry, PooledBradleyTerry
    from .comparisons import Comparisons
    from .infer import infer_gaps
    from .low_rank import LowRankBradleyTerry
    from .simulate import low_rank_scores, simulate_comparisons

    scores = low_rank_scores(3, 6, 2, sup_norm=1.5)
    votes = simulate_comparisons(scores, 900)
    one_task = simulate_comparisons(low_rank_scores(1, 4, 1, sup_norm=1.0), 200)
    low_rank = LowRankBradleyTerry(rank=2)

    counts = votes.counts
    rows = counts.loc[counts.index.repeat(2), ["task", "model_a", "model_b"]].assign(winner=["model_a", "model_b"] * len(counts))

    def clustered() -> object:
        judged = Comparisons.from_frame(rows.assign(judge=[i % 7 for i in range(len(rows))]), cluster="judge")
        return leaderboard(judged, rank=1, n_draws=100)

    yield lambda: Comparisons.from_frame(rows.astype("category"), tasks=list(scores.index), models=list(scores.columns))
    many = rows.iloc[[i % len(rows) for i in range(2 * FIRST_ROWS)]].astype("category")
    yield lambda: Comparisons.from_frame(many)  # a first batch teaches the labels, a second one is counted by its codes
    yield lambda: code_objects(np.full(8, "A", dtype=object))  # used for long columns only
    yield lambda: PooledBradleyTerry().fit(votes)
    yield lambda: infer_gaps(votes, PerTaskBradleyTerry()).certify(2, n_draws=100)
    yield lambda: leaderboard(one_task, n_draws=100)
    yield lambda: leaderboard(votes, n_draws=100)
    yield lambda: leaderboard(votes, rank=2, family="all", method="max-t", n_draws=100)
    yield lambda: infer_gaps(votes, low_rank).certify(2, method="order-statistic", n_draws=400)
    yield lambda: infer_gaps(votes, low_rank).certify(2, family="cell", method="one-sided", n_draws=100)
    yield lambda: infer_gaps(votes, LowRankBradleyTerry(rank=2, polish=False, splits=3)).certify(2, family="model", n_draws=100)
    yield lambda: infer_gaps(votes, low_rank, calibration="parametric").certify(2, n_draws=100)
    yield clustered


# ----------------------------------------------------------------------------------------------------- selection


def _selection_steps() -> Iterator[Callable[[], object]]:
    """Calls that together reach every selection kernel."""
    import numpy as np

    from ._kernels.normal import inverse_expected_improvement, log_expected_improvement
    from .replay import replay
    from .responses import ResponseMatrix
    from .root_schedule import METHODS, root_schedule

    responses = ResponseMatrix.from_array((np.arange(4 * 24).reshape(4, 24) * 7 % 5 < 2).astype(np.float64))

    def roots(method: str) -> Callable[[], object]:
        return lambda: root_schedule([1.0, 2.0], n_examples=24, batch_size=8, cost_scale=1e-3, method=method, tol=1e-4)

    def replayed(policy: str) -> Callable[[], object]:
        return lambda: replay(responses, policy, budget=0.9)

    def off_schedule() -> object:
        """A batch cut short by results that were there before."""
        schedule = root_schedule(1.0, n_examples=24, batch_size=8, cost_scale=1e-3, tol=1e-4)
        return schedule.off_schedule_root(0, 3, 5, 1)

    for method in METHODS:
        yield roots(method)
    for name in ("gittins", "gittins-g", "ucb-e", "sysrs", "prompteval", "ucb-e-lrf"):
        yield replayed(name)
    yield off_schedule
    yield lambda: (log_expected_improvement(-0.5), inverse_expected_improvement(0.1, 0.5))  # the BoTorch policies', without torch
