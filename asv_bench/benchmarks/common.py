"""Seeded inputs of three sizes; nothing is downloaded, and every input is kept for the process that made it."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any

import numpy as np

import lrgittins as lg
from lrgittins._outcomes import Cells
from lrgittins.simulate import low_rank_scores, simulate_comparisons

RANK = 5
N_VOTES = 32_000
SHAPES = ["20x20", "50x50", "50x100"]  # tasks x models; the middle one is the paper's setting (section 6.1)


def parse_shape(shape: str) -> tuple[int, int]:
    """(n_tasks, n_models) of a label."""
    n_tasks, n_models = shape.split("x")
    return int(n_tasks), int(n_models)


@functools.lru_cache(maxsize=4)
def votes(shape: str, n: int = N_VOTES) -> lg.Comparisons:
    """`n` simulated votes with true rank 5."""
    return simulate_comparisons(low_rank_scores(*parse_shape(shape), RANK), n)


def cells(shape: str, n: int = N_VOTES) -> Cells:
    """Their sufficient statistics."""
    return votes(shape, n)._table.cells()


def true_scores(shape: str) -> np.ndarray:
    """The score matrix the votes come from."""
    return low_rank_scores(*parse_shape(shape), RANK).to_numpy()


@functools.lru_cache(maxsize=2)
def infer(shape: str) -> lg.GapInference:
    """A cross-fit of these votes: asv sets up before every timed call, so what bands and boards start from is kept,
    with that of the smallest shape, which warms the kernels."""
    return lg.infer_gaps(votes(shape), lg.LowRankBradleyTerry(rank=RANK), calibration="cross-fit")


def top_k_loss(estimate: np.ndarray, truth: np.ndarray, k: int = 5) -> float:
    """Normalised Hamming loss: mean over tasks of the symmetric difference of the top-k sets over 2 k."""
    best, wanted = (np.argsort(-scores, axis=1)[:, :k] for scores in (estimate, truth))
    return 1.0 - float(np.mean([len(set(a) & set(b)) / k for a, b in zip(best, wanted, strict=True)]))


def seconds(function: Callable[..., Any], *arguments: Any) -> float:
    """CPU time of one call, for ratios inside one benchmark."""
    start = time.process_time()
    function(*arguments)
    return time.process_time() - start


class Sized:
    """Base of the benchmarks at the three shapes."""

    params: list[Any] = SHAPES
    param_names = ["shape"]
