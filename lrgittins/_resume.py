"""Going on where a run ended: the store's log is run through the policy, which then is where the unbroken run would be."""

from __future__ import annotations

import copy
import hashlib
import json
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from .errors import LRGittinsError, StateError, StoreError
from .policies.base import BasePolicy
from .policies.protocol import Pull
from .store import Intent, Result, Store
from .trace import TraceRecorder

_MARKED = ("generator", "tie_order", "cells", "failures", "pending", "closed", "counters", "own")


@dataclass
class Attempts:
    """How often every batch was started, and how many were started again for want of a result."""

    last: dict[str, int] = field(default_factory=dict)
    refused: set[str] = field(default_factory=set)
    n_repeated: int = 0

    def begin(self, token: str, *, inherited: bool) -> int:
        """Number of this start. `inherited`: the pull was pending before the run; somebody may have evaluated it."""
        attempt = self.last[token] = self.last.get(token, 0) + 1
        # An attempt that came back and was refused has a result; starting it once more is a retry.
        if (attempt > 1 or inherited) and token not in self.refused:
            self.n_repeated += 1
        self.refused.discard(token)
        return attempt


@dataclass
class Resumed:
    """Where a run stands when its loop begins."""

    recorder: TraceRecorder
    attempts: Attempts = field(default_factory=Attempts)


def marks(state: dict[str, Any]) -> dict[str, str]:
    """Hash per part of a policy's state; clocks and the reason a driver ended it are left out."""
    parts = {name: state[name] for name in _MARKED}
    parts["pending"] = [{key: value for key, value in entry.items() if key != "issued"} for entry in state["pending"]]
    parts["counters"] = {key: value for key, value in state["counters"].items() if key != "ended"}
    return {name: hashlib.sha256(json.dumps(part, sort_keys=True).encode()).hexdigest() for name, part in parts.items()}


def resume(policy: BasePolicy, book: Store, start: dict[str, Any], make_recorder: Callable[[], TraceRecorder]) -> Resumed:
    """Bring `policy` to the end of the store's log; on any error it is left as it was given.

    Parameters
    ----------
    policy : BasePolicy
        Set up as when the store was created, or as the last run on it left it.
    start : dict
        ``policy.to_state()`` as given.
    make_recorder : callable
        Called when the policy is at the start of the log.
    """
    events, first = book.events(), book.start_state
    given, wanted = marks(start), marks(first)
    if not events and given == wanted:
        return Resumed(make_recorder())
    before = copy.deepcopy(policy)
    try:
        if given != wanted:
            # Either the policy that ran on this store until now, or one with another history: the log tells.
            policy.__setstate__(type(policy).from_state(first).__getstate__())
        resumed = Resumed(make_recorder())
        _run_through(policy, book.path, events, resumed)
        if given != wanted and (reached := marks(policy.to_state())) != given:
            different = next(name for name in _MARKED if reached[name] != given[name])
            raise StateError(
                f"store {book.path!r}, field {different!r}: the policy has a history that is neither the start nor the end of the "
                "recorded run; pass one set up as the first time (same random_state, same attached results), or the one that ran last"
            )
    except BaseException:
        policy.__setstate__(before.__getstate__())
        raise
    return resumed


def _run_through(policy: BasePolicy, path: str, events: list[Intent | Result], resumed: Resumed) -> None:
    attempts = resumed.attempts
    pending: dict[str, Pull] = {pull.token: pull for pull in policy.pending}
    inherited = set(pending)
    for event in events:
        where = f"store {path!r}, entry {event.seq} (pull {event.token})"
        if isinstance(event, Intent):
            if event.token not in pending:
                pull = policy.ask()
                if pull is None or (pull.token, pull.arm, pull.examples) != (event.token, event.arm, event.examples):
                    raise StateError(
                        f"{where}: the run asked for arm {event.arm!r} here and this policy asks for {pull!r}; it was probably recorded by "
                        "another version of lrgittins: go on with that one, or attach the scores (read_store) to a new policy"
                    )
                pending[pull.token] = pull
            if attempts.begin(event.token, inherited=event.token in inherited) != event.attempt:
                raise StoreError(f"{where} is damaged: attempt {event.attempt} without those before it; restore a copy")
            continue
        if event.token not in pending or attempts.last.get(event.token) != event.attempt:
            raise StoreError(f"{where} is damaged: a result without its intent; restore a copy, or start a new store")
        if event.status == "refused":
            attempts.refused.add(event.token)
            continue
        pull = pending.pop(event.token)
        if event.status == "released":
            policy.release(pull)
            continue
        try:
            policy.tell(pull, event.scores, cost=event.cost, status=event.status)
        except LRGittinsError as error:
            raise StateError(f"{where} does not fit this policy: {error}") from error
        resumed.recorder.add(pull.arm, len(pull.examples), event.cost)
