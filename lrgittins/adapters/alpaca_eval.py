"""Annotations of alpaca_eval: preferences of a judge between the outputs of two generators."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._tables import numbers
from .._validation import check_choice
from ..comparisons import Comparisons
from ..errors import ComparisonError, ResponseError
from ._source import count_drops, need_columns, read_source, refuse_empty

_WHAT = "alpaca_eval annotations"


def from_alpaca_eval(
    source: Any, *, task: str | None = "auto", cluster: str | None = "auto", on_invalid: str = "drop", **options: Any
) -> Comparisons:
    """The `annotations.json` of one or several runs: graded votes between `generator_1` (usually the baseline) and `generator_2`.

    A preference of 1 is for the first output, 2 for the second, anything between is graded, 1.5 and the older files' 0 are draws. Missing
    preferences are annotations that failed: no verdict, and no tie.

    Parameters
    ----------
    source : path, frame, list of dicts, or list of paths
    task : str or None, default "auto"
        Column of the task; "auto" is `dataset` where there is one, else one task. None: one task.
    cluster : str or None, default "auto"
        Column of what makes votes dependent; "auto" is `instruction` where there is one: all votes on an instruction share the
        baseline's output. None: votes as independent.
    on_invalid : {"drop", "error"}
        Annotations without a preference are dropped and counted, as alpaca_eval does, or refused.
    **options
        count, id, ties, both_bad, aliases, tasks, models of `Comparisons.from_frame`.

    Returns
    -------
    Comparisons
        What was dropped is in `n_dropped` and, by reason, in ``summary().attrs["dropped"]``.

    Raises
    ------
    ComparisonError
        Missing columns, or preferences that are neither 0 nor in [1, 2].
    """
    check_choice(on_invalid, "on_invalid", ("drop", "error"))
    numeric = ["preference", options.get("count")]
    if isinstance(source, Sequence) and not isinstance(source, str) and source and isinstance(source[0], (str, os.PathLike)):
        frame = pd.concat([read_source(path, ComparisonError, _WHAT, numeric=numeric) for path in source], ignore_index=True)
    else:
        frame = read_source(source, ComparisonError, _WHAT, numeric=numeric)
    need_columns(frame, ["generator_1", "generator_2", "preference"], _WHAT, ComparisonError)
    try:
        preference = numbers(frame["preference"], "column 'preference'")
    except ResponseError as error:
        raise ComparisonError(str(error)) from None
    preference = np.where(preference == 0.0, 1.5, preference)
    missing = np.isnan(preference)
    wrong = np.flatnonzero(~missing & ~((preference >= 1.0) & (preference <= 2.0)))
    if len(wrong):
        listed = ", ".join(f"{preference[row]:g} (row {row})" for row in wrong[:3])
        raise ComparisonError(
            f"{len(wrong)} preferences are not in [1, 2] (nor 0, a draw): {listed}; 1 is for generator_1, 2 for generator_2"
        )
    drops: Counter[str] = Counter()
    if missing.any():
        if on_invalid == "error":
            first = ", ".join(map(str, np.flatnonzero(missing)[:5]))
            raise ComparisonError(
                f"{int(missing.sum())} annotations have no preference (first rows: {first}); on_invalid='drop' drops them"
            )
        drops["no preference"] = int(missing.sum())
        refuse_empty(int((~missing).sum()), len(frame), drops)
    kept = frame[~missing].assign(preference=2.0 - preference[~missing])
    columns = {"model_a": "generator_1", "model_b": "generator_2", "winner": "preference"}
    task = ("dataset" if "dataset" in kept.columns else None) if task == "auto" else task
    cluster = ("instruction" if "instruction" in kept.columns else None) if cluster == "auto" else cluster
    votes = Comparisons.from_frame(kept, task=task, cluster=cluster, on_invalid=on_invalid, **columns, **options)  # type: ignore[arg-type]
    return count_drops(votes, drops)
