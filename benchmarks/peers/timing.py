"""One comparison: the same work by a peer and by us, run in turn within a budget of time, with the difference of the answers."""

from __future__ import annotations

import contextlib
import math
import signal
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

TICK, AGAIN = 0.2, 15.0  # seconds between looks at what a run has used; the same once it has been told to stop


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
    smaller : callable or None
        Makes the same comparison on less input, for a peer that is too slow for this one.
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
    smaller: Callable[[], Case] | None = None

    def describe(self) -> dict[str, Any]:
        """The part of a row that is known before anything runs."""
        return {name: getattr(self, name) for name in ("kind", "work", "their_way", "our_way", "unit")}


class OverBudget(BaseException):
    """The peer's time for a row is used up. Not an Exception: resampling peers catch those of single refits and go on."""


@contextlib.contextmanager
def deadline(seconds: float) -> Iterator[None]:
    """Raise `OverBudget` in the block after so much CPU time; where the system has no interval timers, at the block's end.

    The timer counts the clock's time and looks at the CPU time at every tick: one of CPU time makes `time.process_time` coarse. It goes on
    after it has raised, for callbacks of C code lose exceptions, but slowly: freeing what a stopped run held may take seconds.
    """
    end = time.process_time() + seconds
    if math.isinf(seconds) or not hasattr(signal, "setitimer"):
        yield
    else:

        def look(*_: object) -> None:
            if time.process_time() > end:
                signal.setitimer(signal.ITIMER_REAL, AGAIN, AGAIN)
                raise OverBudget

        previous = signal.signal(signal.SIGALRM, look)
        signal.setitimer(signal.ITIMER_REAL, TICK, TICK)
        try:
            yield
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0.0)
            signal.signal(signal.SIGALRM, previous)
    if time.process_time() > end:
        raise OverBudget


def interleave(case: Case, repeats: int, budget: float = math.inf) -> dict[str, Any]:
    """Run both sides in turn after one untimed run each; the ratio is the median of the rounds' ratios.

    Times are CPU seconds of the process (both sides run on one thread): what others do on the machine counts for neither side. So is
    `budget`, of all the peer's runs together: rounds that do not fit are left out, and where not even the untimed run and one round fit,
    `OverBudget` is raised.
    """
    start = time.process_time()
    with deadline(budget):
        their_answer = case.theirs()
    left = budget - (time.process_time() - start)
    our_answer = case.ours()
    difference = float(case.compare(their_answer, our_answer))
    theirs: list[float] = []
    ours: list[float] = []
    while len(ours) < repeats and max(theirs, default=0.0) <= left:
        try:
            with deadline(left):
                took = cpu_seconds(case.theirs)
        except OverBudget:
            if not ours:
                raise
            break
        left -= took
        theirs.append(took)
        ours.append(cpu_seconds(case.ours))
    ratios = [t / o for t, o in zip(theirs, ours, strict=True)]
    return {
        **case.describe(),
        "theirs": statistics.median(theirs),
        "ours": statistics.median(ours),
        "ratio": statistics.median(ratios),
        "lowest_ratio": min(ratios),
        "rounds": len(ratios),
        "wanted": case.wanted,
        "difference": difference,
    }


def cpu_seconds(run: Callable[[], Any]) -> float:
    """CPU time that one run takes."""
    start = time.process_time()
    run()
    return time.process_time() - start


def measured(case: Case, repeats: int, budget: float = math.inf) -> Iterator[dict[str, Any]]:
    """The row of a case; where the peer is over budget, the row of the largest smaller case that is not, and a line that says so."""
    tried: Case | None = case
    while tried is not None:
        try:
            row = interleave(tried, repeats, budget)
        except OverBudget:
            tried = tried.smaller() if tried.smaller else None
            continue
        yield row if tried is case else {**row, "instead_of": case.work}
        break
    if tried is not case:
        yield {**case.describe(), "over_budget": budget, "finished": tried.work if tried else None}
