"""Running a user's evaluator: in the calling thread or in worker threads, with timeouts, and Ctrl-C only where it does no harm."""

from __future__ import annotations

import logging
import queue
import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from .policies.protocol import Pull

logger = logging.getLogger("lrgittins.evaluate")
_POLL = 0.5  # seconds: where a wait cannot be interrupted (Windows), Ctrl-C is seen this late


@dataclass(frozen=True)
class Outcome:
    """How a call of the evaluator ended: with a value, with an exception, or not in time."""

    pull: Pull
    value: Any = None
    error: BaseException | None = None
    timed_out: bool = False


class InlineWorker:
    """The calling thread itself: tracebacks, debuggers and libraries that dislike threads work as in a plain loop."""

    def __init__(self, call: Callable[[Pull], Any]) -> None:
        self._call = call
        self._pull: Pull | None = None

    def free_slot(self) -> int | None:
        return 0 if self._pull is None else None

    @property
    def busy(self) -> int:
        return int(self._pull is not None)

    def start(self, slot: int, pull: Pull) -> None:
        self._pull = pull

    def wait(self) -> Outcome:
        """Run what was started."""
        pull, self._pull = self._pull, None
        assert pull is not None
        try:
            return Outcome(pull, value=self._call(pull))
        except Exception as error:
            return Outcome(pull, error=error)

    def finished(self) -> list[Outcome]:
        return []

    def close(self) -> None:
        """Nothing to end."""


class _Thread(threading.Thread):
    """One worker: takes pulls from its inbox until None comes. Daemonic, as Python cannot end a call that hangs."""

    def __init__(self, call: Callable[[Pull], Any], slot: int, outbox: queue.SimpleQueue[tuple[_Thread, Outcome]]) -> None:
        super().__init__(name=f"lrgittins-evaluate-{slot}", daemon=True)
        self._call = call
        self._outbox = outbox
        self.inbox: queue.SimpleQueue[Pull | None] = queue.SimpleQueue()

    def run(self) -> None:
        while (pull := self.inbox.get()) is not None:
            try:
                outcome = Outcome(pull, value=self._call(pull))
            except BaseException as error:  # KeyboardInterrupt and SystemExit are for the run to judge
                outcome = Outcome(pull, error=error)
            self._outbox.put((self, outcome))


class ThreadWorkers:
    """`n` worker threads. A call that is not back in time is given up: its thread is replaced, its late result refused."""

    def __init__(self, call: Callable[[Pull], Any], n: int, timeout: float | None) -> None:
        self._call = call
        self._timeout = timeout
        self._outbox: queue.SimpleQueue[tuple[_Thread, Outcome]] = queue.SimpleQueue()
        self._threads: list[_Thread | None] = [None] * n
        self._running: dict[int, tuple[Pull, float]] = {}  # slot -> pull, deadline on the monotonic clock

    def free_slot(self) -> int | None:
        """A worker with nothing to do, None when all are busy."""
        return next((slot for slot in range(len(self._threads)) if slot not in self._running), None)

    @property
    def busy(self) -> int:
        return len(self._running)

    def start(self, slot: int, pull: Pull) -> None:
        thread = self._threads[slot]
        if thread is None:
            thread = self._threads[slot] = _Thread(self._call, slot, self._outbox)
            thread.start()
        self._running[slot] = pull, time.monotonic() + (float("inf") if self._timeout is None else self._timeout)
        thread.inbox.put(pull)

    def wait(self) -> Outcome:
        """The next outcome: one that came back, or a call whose time is over."""
        while True:
            slot, (pull, deadline) = min(self._running.items(), key=lambda item: item[1][1])
            left = deadline - time.monotonic()
            try:
                thread, outcome = self._outbox.get(timeout=min(max(left, 0.0), _POLL))
            except queue.Empty:
                if left > 0.0:
                    continue
                self._abandon(slot)
                return Outcome(pull, timed_out=True)
            if self._accept(thread, outcome):
                return outcome

    def finished(self) -> list[Outcome]:
        """What came back already, without waiting."""
        found: list[Outcome] = []
        while True:
            try:
                thread, outcome = self._outbox.get_nowait()
            except queue.Empty:
                return found
            if self._accept(thread, outcome):
                found.append(outcome)

    def _accept(self, thread: _Thread, outcome: Outcome) -> bool:
        if thread not in self._threads:
            logger.warning("a result of arm %r (pull %s) came after its timeout and is refused", outcome.pull.arm, outcome.pull.token)
            return False
        del self._running[self._threads.index(thread)]
        return True

    def _abandon(self, slot: int) -> None:
        thread = self._threads[slot]
        assert thread is not None
        thread.inbox.put(None)  # it ends after the call it is in, if that ever returns
        self._threads[slot] = None
        del self._running[slot]

    def close(self) -> None:
        """End idle threads; calls still running are left behind, their results go nowhere."""
        for slot, thread in enumerate(self._threads):
            if thread is not None:
                thread.inbox.put(None)
                if slot not in self._running:
                    thread.join()


class DeferredInterrupts:
    """Ctrl-C raises inside `window` only; one that comes during bookkeeping is kept for the next window.

    Without this a KeyboardInterrupt could fall between telling the policy and committing the result, and the two would
    disagree. Only Python's own handler is replaced, for the time of the run; elsewhere (other threads, hosts with
    handlers of their own) nothing changes.
    """

    def __init__(self) -> None:
        self._open = False
        self._waiting = False
        self._installed = False

    def __enter__(self) -> DeferredInterrupts:
        if threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            signal.signal(signal.SIGINT, self._handle)
            self._installed = True
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if self._installed:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        if self._waiting and kind is None:  # it came after the last window; it is not swallowed
            raise KeyboardInterrupt

    def _handle(self, signum: int, frame: Any) -> None:
        if self._open:
            raise KeyboardInterrupt
        self._waiting = True

    @contextmanager
    def window(self) -> Iterator[None]:
        self._open = True
        try:
            if self._waiting:
                self._waiting = False
                raise KeyboardInterrupt
            yield
        finally:
            self._open = False
