"""Failures in a row: is it the evaluator that is down, or one arm that is broken?"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from dataclasses import dataclass, field

from .store import Intent, Result


@dataclass
class Streaks:
    """Tells a dead evaluator from a broken arm by what was evaluated, and nothing else, so that a log gives the same answer.

    When `limit` batches in a row failed, all of one arm, that arm is suspect: another one goes first. If that fails as well the
    evaluator is down. If it works the suspect gets one more try, and is broken when that fails too: an outage that is over by
    then costs no arm its place.
    """

    limit: int | None
    n: int = 0  # failures in a row, and the arms they were of
    arms: set[Hashable] = field(default_factory=set)
    on_trial: set[Hashable] = field(default_factory=set)
    broken: set[Hashable] = field(default_factory=set)
    n_skipped: int = 0  # examples of broken arms that were put down as failed without being asked

    def suspect(self, arm: Hashable) -> bool:
        """Whether another arm has to be tried before this one is asked again."""
        return self.limit is not None and self.n >= self.limit and self.arms == {arm}

    def add(self, arm: Hashable, *, ok: bool) -> bool:
        """Count an evaluation; true where the evaluator has to be taken for dead."""
        if ok:
            self.on_trial = {other for other in self.on_trial | self.arms if self.suspect(other) or other in self.on_trial} - {arm}
            self.broken.discard(arm)
            self.n, self.arms = 0, set()
            return False
        if arm in self.on_trial:
            self.on_trial.discard(arm)
            self.broken.add(arm)
        self.n += 1
        self.arms.add(arm)
        return self.limit is not None and self.n >= self.limit and len(self.arms) > 1

    def end(self) -> None:
        """The run ends for its failures: the next one starts to count anew."""
        self.n, self.arms, self.on_trial = 0, set(), set()

    def repeat(self, events: Iterable[Intent | Result]) -> None:
        """Count what a log holds, as the run that wrote it did."""
        asked: dict[str, tuple[Hashable, int, bool]] = {}
        for event in events:
            if isinstance(event, Intent):
                asked[event.token] = event.arm, len(event.examples), event.arm in self.broken
                continue
            arm, n, given_up = asked[event.token]
            if given_up and event.status == "error" and event.cost == 0.0:
                self.n_skipped += n
            elif event.status != "released" and self.add(arm, ok=event.status == "ok"):
                self.end()
