"""One comparison: the same work by a peer and by us, run in turn, with the difference of the answers."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

SLOW = 45.0  # seconds that a peer's timed runs may take together; what is slower is run fewer times, never less than twice


@dataclass(frozen=True)
class Case:
    """One row of the table.

    Attributes
    ----------
    kind : str
        "point", "intervals", "tasks", "step" or "roots".
    work : str
        What is done on which input, as the table says it.
    theirs, ours : callable
        The whole work from the user's input to the answer, conversions included.
    compare : callable
        Largest difference of the two answers; `unit` says in what.
    wanted : float
        Ratio of the times (theirs over ours) the project asks of itself.
    their_way, our_way : str
        What either side does, and where the problems differ.
    """

    kind: str
    work: str
    their_way: str
    our_way: str
    theirs: Callable[[], Any]
    ours: Callable[[], Any]
    compare: Callable[[Any, Any], float]
    unit: str
    wanted: float = 1.0


def interleave(case: Case, repeats: int) -> dict[str, Any]:
    """Run both sides in turn after one untimed run each; the ratio is the median of the rounds' ratios.

    Times are CPU seconds of the process (both sides run on one thread): what others do on the machine counts for neither side.
    """
    start = time.perf_counter()
    their_answer = case.theirs()
    cold = time.perf_counter() - start
    our_answer = case.ours()
    difference = float(case.compare(their_answer, our_answer))
    rounds = max(2, min(repeats, int(SLOW / max(cold, 1e-9))))
    theirs, ours = [], []
    for _ in range(rounds):
        for run, times in ((case.theirs, theirs), (case.ours, ours)):
            start = time.process_time()
            run()
            times.append(time.process_time() - start)
    return {
        "kind": case.kind,
        "work": case.work,
        "their_way": case.their_way,
        "our_way": case.our_way,
        "theirs": statistics.median(theirs),
        "ours": statistics.median(ours),
        "ratio": statistics.median(t / o for t, o in zip(theirs, ours, strict=True)),
        "lowest_ratio": min(t / o for t, o in zip(theirs, ours, strict=True)),
        "rounds": rounds,
        "wanted": case.wanted,
        "difference": difference,
        "unit": case.unit,
    }
