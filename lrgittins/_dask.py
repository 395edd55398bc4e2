"""Counting the blocks of a dask DataFrame on the workers that hold them; counts come back, votes do not."""

from __future__ import annotations

import re
import uuid
from collections.abc import Mapping, Sequence
from typing import Any

import pandas as pd

from ._counting import CountedBlock, Options, VoteCounter
from ._intake import check_columns, frame_columns, slices
from ._optional import import_optional
from .errors import ComparisonError, WorkerError

_FAN_IN = 8  # blocks merged at once: what one worker or this process holds beside its own counts
_KEY = "lrgittins-count"


def count_blocks(ddf: Any, names: Mapping[str, str | None], options: Options) -> VoteCounter:
    """A counter that has taken in every row of `ddf`, in the order of its blocks."""
    dask = import_optional("dask", extra="scale", purpose="Comparisons.from_dask")
    frames = import_optional("dask.dataframe", extra="scale", purpose="Comparisons.from_dask")
    if not isinstance(ddf, frames.DataFrame):
        raise ComparisonError(f"from_dask takes a dask.dataframe.DataFrame, got {type(ddf).__name__}; for tables in memory use from_frame")
    if names.get("id") is not None:
        raise ComparisonError(
            f"id={names['id']!r}: copies of a vote can be found among single votes only, and from_dask brings back counts; drop copies on "
            f"the cluster first (ddf.drop_duplicates), and where one vote is filed under several tasks pass cluster={names['id']!r}"
        )
    wanted = {role: name for role, name in names.items() if name is not None}
    found = list(ddf.columns)
    check_columns(wanted, found)
    for name in wanted.values():
        if found.count(name) > 1:
            raise ComparisonError(f"column {name!r} appears {found.count(name)} times; keep one column of that name")
    token = uuid.uuid4().hex[:12]
    blocks = ddf[list(dict.fromkeys(wanted.values()))].to_delayed()
    count, merge = dask.delayed(_count_block), dask.delayed(_merge_blocks)
    level = [count(block, names, options, dask_key_name=f"{_KEY}-{token}-{number}") for number, block in enumerate(blocks)]
    depth = 0
    while len(level) > _FAN_IN:
        groups = [level[start : start + _FAN_IN] for start in range(0, len(level), _FAN_IN)]
        level = [merge(group, names, options, dask_key_name=f"{_KEY}-merge-{token}-{depth}-{i}") for i, group in enumerate(groups)]
        depth += 1
    counter = VoteCounter(options, names)
    for block in _compute(dask, level, len(blocks)):
        counter.absorb(block)
    return counter


def _count_block(frame: pd.DataFrame, names: Mapping[str, str | None], options: Options) -> CountedBlock:
    counter = VoteCounter(options, names)
    for batch in slices(frame_columns(frame, names)):
        counter.add(batch)
    return counter.block()


def _merge_blocks(blocks: Sequence[CountedBlock], names: Mapping[str, str | None], options: Options) -> CountedBlock:
    counter = VoteCounter(options, names)
    for block in blocks:
        counter.absorb(block)
    return counter.block()


def _compute(dask: Any, tasks: Sequence[Any], n_blocks: int) -> Sequence[CountedBlock]:
    try:
        counted: Sequence[CountedBlock] = dask.compute(*tasks)
    except Exception as error:
        if not is_killed_worker(error):
            raise
        key = getattr(error, "task", None)
        raise WorkerError(
            f"workers were lost again and again on {_block_name(key, n_blocks)} (task {key!r}); look at the workers' logs (memory?), make "
            "the blocks smaller with ddf.repartition(), or raise distributed.scheduler.allowed-failures"
        ) from error
    return counted


def is_killed_worker(error: BaseException) -> bool:
    """Whether distributed has given up on a task whose workers died one after the other (without importing distributed)."""
    return any(kind.__name__ == "KilledWorker" and kind.__module__.startswith("distributed") for kind in type(error).__mro__)


def _block_name(key: Any, n_blocks: int) -> str:
    number = key[-1] if isinstance(key, tuple) and isinstance(key[-1], int) else None
    match = re.fullmatch(rf"{_KEY}-[0-9a-f]+-(\d+)", key) if isinstance(key, str) else None
    if match is not None:
        number = int(match.group(1))
    return "one of the blocks" if number is None else f"block {number} (of {n_blocks}, counted from 0)"
