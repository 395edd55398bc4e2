"""Independent blocks of work on joblib's workers: serial, processes of this machine, or a cluster under ``joblib.parallel_config``."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from concurrent.futures.process import BrokenProcessPool
from typing import Any

from ._dask import is_killed_worker
from ._validation import check_int
from .errors import ParameterError, WorkerError

RETRIES = 2  # new pools in a row that may break before a single further block is done


def check_jobs(n_jobs: Any) -> int:
    """`n_jobs` as joblib takes it: not 0."""
    if check_int(n_jobs, "n_jobs") == 0:
        raise ParameterError("n_jobs must not be 0; 1 runs in this process, -1 uses all cores")
    return int(n_jobs)


def run_blocks(
    function: Callable[..., Any],
    blocks: Sequence[tuple[Any, ...]],
    n_jobs: int,
    names: Sequence[str],
    *,
    done: Callable[[], object] | None = None,
) -> list[Any]:
    """``function(*block)`` of every block, in order, whatever order and place they were run in; `done` is called after each.

    A worker process that dies (killed, out of memory) costs its blocks' time: what was not finished is run again on new workers.

    Raises
    ------
    WorkerError
        Workers died again and again without finishing anything; names the blocks that were in hand.
    """
    if n_jobs == 1 and "joblib" not in sys.modules:  # so no backend of joblib's can have been chosen: its import would buy nothing
        in_turn = []
        for block in blocks:
            in_turn.append(function(*block))
            if done is not None:
                done()
        return in_turn
    import joblib

    results: dict[int, Any] = {}
    losses = 0
    while len(results) < len(blocks):
        left = [number for number in range(len(blocks)) if number not in results]
        n_before = len(results)
        calls = (joblib.delayed(_numbered)(number, function, blocks[number]) for number in left)
        try:
            for number, result in joblib.Parallel(n_jobs=n_jobs, return_as="generator_unordered")(calls):
                results[number] = result
                if done is not None:
                    done()
        except Exception as error:
            given_up = is_killed_worker(error)  # distributed has tried again by itself
            if not given_up and not isinstance(error, BrokenProcessPool):
                raise
            losses = losses + 1 if len(results) == n_before else 1
            if given_up or losses > RETRIES:
                raise WorkerError(_describe(names, [number for number in left if number not in results])) from error
    return [results[number] for number in range(len(blocks))]


def _numbered(number: int, function: Callable[..., Any], block: tuple[Any, ...]) -> tuple[int, Any]:
    return number, function(*block)


def _describe(names: Sequence[str], left: Sequence[int]) -> str:
    shown = ", ".join(names[number] for number in left[:4])
    more = f" and {len(left) - 4} more" if len(left) > 4 else ""
    one = len(left) == 1
    return (
        f"worker processes died again and again (killed, or out of memory?) with {'one block' if one else f'{len(left)} blocks'} of "
        f"{len(names)} unfinished: {shown}{more}; use fewer workers (n_jobs), or n_jobs=1 to see the fault in this process"
    )
