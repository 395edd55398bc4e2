"""Simulated votes with a known truth: the settings of the paper's section 6.1, for studies, tests and benchmarks."""

from __future__ import annotations

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import expit

from ._random import RandomState, as_generator
from ._validation import check_float, check_int
from .comparisons import Comparisons
from .errors import ParameterError

FloatArray = NDArray[np.float64]


def low_rank_scores(n_tasks: int, n_models: int, rank: int, *, sup_norm: float = 5.0, random_state: RandomState = 0) -> pd.DataFrame:
    """A score matrix of given rank: standard normal factors, rows centred, then scaled to a largest absolute score.

    Parameters
    ----------
    n_tasks, n_models, rank : int
    sup_norm : float, default 5.0
        Largest absolute score, natural-log units.
    random_state : int, Generator or None, default 0

    Returns
    -------
    DataFrame, shape (n_tasks, n_models)
        Labels "task_00", "model_00", ... whose sorted order is their number.

    References
    ----------
    .. [1] arXiv 2605.29395, section 6.1.
    """
    check_int(rank, "rank", low=1, high=min(check_int(n_tasks, "n_tasks", low=1), check_int(n_models, "n_models", low=2) - 1))
    check_float(sup_norm, "sup_norm", low=0.0, low_open=True)
    rng = as_generator(random_state)
    scores = rng.standard_normal((n_tasks, rank)) @ rng.standard_normal((n_models, rank)).T
    scores -= scores.mean(axis=1, keepdims=True)
    scores *= sup_norm / np.abs(scores).max()
    return pd.DataFrame(scores, index=_labels("task", n_tasks), columns=_labels("model", n_models))


def simulate_comparisons(
    scores: pd.DataFrame,
    n: int,
    *,
    task_weights: FloatArray | None = None,
    model_weights: FloatArray | None = None,
    random_state: RandomState = 0,
) -> Comparisons:
    """Draw `n` Bradley-Terry votes; cost depends on the number of (task, pair) cells, not on `n`.

    Parameters
    ----------
    scores : DataFrame, shape (n_tasks, n_models)
        True scores.
    n : int
        Votes in all, spread over cells multinomially.
    task_weights : ndarray, shape (n_tasks,), optional
        Relative frequency of tasks (uniform).
    model_weights : ndarray, shape (n_models,), optional
        A pair's relative frequency is the product of its models' weights (uniform).
    random_state : int, Generator or None, default 0

    Returns
    -------
    Comparisons
        All tasks and models of `scores` are in its universe, seen or not.
    """
    check_int(n, "n", low=1)
    rng = as_generator(random_state)
    values = scores.to_numpy(dtype=np.float64)
    n_tasks, n_models = values.shape
    low, high = np.triu_indices(n_models, 1)
    pair_law = _weights(model_weights, n_models, "model_weights")
    pair_law = pair_law[low] * pair_law[high]
    law = np.outer(_weights(task_weights, n_tasks, "task_weights"), pair_law / pair_law.sum()).ravel()
    count = rng.multinomial(n, law / law.sum())
    cell = np.flatnonzero(count)
    task, pair = np.divmod(cell, len(low))
    wins = rng.binomial(count[cell], expit(values[task, low[pair]] - values[task, high[pair]]))
    task_names, model_names = scores.index.to_numpy(dtype=object), scores.columns.to_numpy(dtype=object)
    twice = np.concatenate([np.arange(len(cell)), np.arange(len(cell))])
    return Comparisons.from_arrays(
        task_names[task[twice]],
        model_names[low[pair[twice]]],
        model_names[high[pair[twice]]],
        np.repeat([1.0, 0.0], len(cell)),
        np.concatenate([wins, count[cell] - wins]),
        tasks=list(scores.index),
        models=list(scores.columns),
    )


def _labels(word: str, n: int) -> list[str]:
    width = max(2, len(str(n - 1)))
    return [f"{word}_{i:0{width}d}" for i in range(n)]


def _weights(weights: FloatArray | None, n: int, name: str) -> FloatArray:
    if weights is None:
        return np.full(n, 1.0 / n)
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (n,) or not np.isfinite(values).all() or (values <= 0.0).any():
        raise ParameterError(f"{name} must be {n} positive numbers, got {values!r}")
    return values / values.sum()
