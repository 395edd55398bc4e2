"""Categorical features of arms, as codes: what a model that learns across arms is told about them."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrgittins.errors import ParameterError

from .inputs import shown

IntArray = NDArray[np.int64]


def check_features(features: Any, arms: Sequence[Hashable]) -> IntArray:
    """Codes of the features of every arm, shape (K, d), d >= 1.

    Parameters
    ----------
    features : DataFrame, mapping, sequence or None
        A pandas DataFrame or a mapping is joined by arm; a sequence, array or polars DataFrame has one row per arm. A row
        is one value, or several in an order common to all arms (or named, as a dict). Values are categories: only whether
        two are equal counts, for numbers too. None: the name of the arm is its only feature.

    Returns
    -------
    codes : ndarray of int64, shape (K, d)
        Per column 0, 1, ... by first appearance. Columns with one value for all arms are left out, and where two arms
        agree in everything the name of the arm is one more column, so that a model can tell them apart.
    """
    n_arms = len(arms)
    names = np.arange(n_arms, dtype=np.int64)[:, None]
    if features is None:
        return names
    rows = [_row(entry, arm) for arm, entry in zip(arms, _by_arm(features, arms), strict=True)]
    keys = rows[0][0]
    for arm, (own, values) in zip(arms, rows, strict=True):
        if set(own) != set(keys) or len(own) != len(keys):
            raise ParameterError(
                f"features of arm {arm!r} are {shown(own)}, those of arm {arms[0]!r} {shown(keys)}; give every arm the same"
            )
        for key in own:
            _check_value(values[key], key, arm)
    columns = []
    for key in keys:
        code: dict[Hashable, int] = {}
        column = [code.setdefault(values[key], len(code)) for _, values in rows]
        if len(code) > 1:
            columns.append(column)
    codes = np.array(columns, dtype=np.int64).reshape(len(columns), n_arms).T
    if len(columns) == 0 or len(np.unique(codes, axis=0)) < n_arms:
        codes = np.hstack([codes, names])
    return np.ascontiguousarray(codes)


def _by_arm(features: Any, arms: Sequence[Hashable]) -> list[Any]:
    """One entry per arm, in the order of `arms`."""
    if hasattr(features, "columns") and hasattr(features, "itertuples"):  # pandas
        labels = list(features.index)
        if len(set(labels)) != len(labels):
            raise ParameterError(f"features names an arm more than once: {shown(dict.fromkeys(x for x in labels if labels.count(x) > 1))}")
        names = [str(name) for name in features.columns]
        records = [dict(zip(names, row, strict=True)) for row in features.itertuples(index=False, name=None)]
        features = dict(zip(labels, records, strict=True))
    elif hasattr(features, "columns") and hasattr(features, "rows"):  # polars
        features = features.rows(named=True)
    if isinstance(features, Mapping):
        absent = [arm for arm in arms if arm not in features]
        if absent:
            raise ParameterError(
                f"features has no entry for {len(absent)} of {len(arms)} arms: {shown(absent)} (a DataFrame needs the arms as its index)"
            )
        return [features[arm] for arm in arms]
    if isinstance(features, (str, bytes)) or not isinstance(features, Iterable):
        raise ParameterError(f"features must be a DataFrame or a mapping by arm, or a sequence with one row per arm, got {features!r:.80}")
    entries = features.tolist() if isinstance(features, np.ndarray) else list(features)
    if len(entries) != len(arms):
        raise ParameterError(f"features must have one row per arm ({len(arms)}), got {len(entries)}")
    return entries


def _row(entry: Any, arm: Hashable) -> tuple[list[Hashable], Mapping[Hashable, Any]]:
    """Names (or positions) of one arm's features, and their values."""
    if isinstance(entry, Mapping):
        return list(entry), entry
    values = list(entry) if isinstance(entry, Iterable) and not isinstance(entry, (str, bytes)) else [entry]
    if not values:
        raise ParameterError(f"features of arm {arm!r} are empty; give at least one, or features=None to know arms by name only")
    return list(range(len(values))), dict(enumerate(values))


def _check_value(value: Any, key: Hashable, arm: Hashable) -> None:
    if not isinstance(value, Hashable):
        raise ParameterError(f"feature {key!r} of arm {arm!r} must be a category (text, number, bool), got {value!r}")
    if value is None or (isinstance(value, (float, np.floating)) and value != value) or type(value).__name__ in ("NAType", "NaTType"):
        raise ParameterError(f"feature {key!r} of arm {arm!r} is missing ({value!r}); write a category such as 'none'")
