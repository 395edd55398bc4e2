"""The loop of a live run: ask, start, settle what came back, record it, until something ends the run."""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING, Any

import numpy as np

from ._evaluator import read_answer
from ._limit import Limit
from ._resume import Resumed
from ._streaks import Streaks
from ._workers import DeferredInterrupts, InlineWorker, Outcome, ThreadWorkers, logger
from .errors import ParameterError, ResponseError
from .policies.base import BasePolicy
from .policies.inputs import shown
from .policies.protocol import Pull, reason_for_silence
from .store import Store
from .trace import Trace

if TYPE_CHECKING:
    from tqdm import tqdm


class LiveRun:
    """The loop. Everything but the evaluator happens in the calling thread, so policy, store and trace agree at any time."""

    def __init__(
        self, policy: Any, limit: Limit, strict: bool, until: str, streaks: Streaks, book: Store | None, resumed: Resumed,
        workers: InlineWorker | ThreadWorkers, interrupts: DeferredInterrupts, bar: tqdm[Any],
    ) -> None:  # fmt: skip
        self.policy = policy
        self.limit = limit
        self.strict = strict
        self.until = until
        self.streaks = streaks
        self.book = book
        self.recorder = resumed.recorder
        self.attempts = resumed.attempts
        self.workers = workers
        self.interrupts = interrupts
        self.bar = bar
        self.leftover: deque[Pull] = deque(getattr(policy, "pending", ()))
        if len(self.leftover) != policy.n_pending:
            raise ParameterError(f"the policy has {policy.n_pending} pending pulls and does not list them: tell or release them first")
        self.inherited = {pull.token for pull in self.leftover}
        self.running: dict[str, tuple[Pull, int]] = {}  # by token, with the number of the attempt
        self.announced: set[str] = set()  # tokens whose intent is on record before they start
        self.cells_told = _cells_told(policy) - streaks.n_skipped
        self.n_failed = 0
        # Elsewhere failures free of charge may never end, or would teach wrong prices.
        self.can_skip = isinstance(policy, BasePolicy) and policy.cost is not None
        self.fatal: BaseException | None = None
        self.cause: BaseException | None = None

    def drive(self) -> Trace:
        """Run to the end; returns the trace or raises what made the run fail."""
        if self.leftover:
            logger.warning("%d batches were in flight when the policy was last used; they are evaluated again", len(self.leftover))
        self._show()
        reason: str | None = None
        try:
            while True:
                while reason is None and (slot := self.workers.free_slot()) is not None:
                    reason, pull = self._next()
                    if pull is None:
                        break
                    self._start(slot, pull)
                if not self.workers.busy:
                    break
                with self.interrupts.window():
                    outcome = self.workers.wait()
                self._settle(outcome)
                if self.fatal is not None:
                    reason = "failed"
        except KeyboardInterrupt:
            reason = "interrupted"
            for outcome in self.workers.finished():  # came back while the interrupt was on its way
                if not isinstance(outcome.error, KeyboardInterrupt):
                    self._settle(outcome)
            logger.warning("interrupted with %d batches in flight; they stay pending", len(self.running))
        if self.fatal is not None:
            raise self.fatal from self.cause
        assert reason is not None
        if hasattr(self.policy, "end"):
            self.policy.end(reason)
        return self.recorder.finish(
            reason, n_repeated=self.attempts.n_repeated, n_skipped=self.streaks.n_skipped,
            random_state=getattr(self.policy, "random_state", None),
        )  # fmt: skip

    def _next(self) -> tuple[str | None, Pull | None]:
        """The reason to end the run, or the next pull, or neither while results have to be awaited first."""
        reason: str | None
        pull: Pull | None
        while True:
            if self.leftover:
                reason, pull, asked = None, self.leftover.popleft(), False
            else:
                (reason, pull), asked = self._ask(), True
            if pull is None:
                return reason, None
            if pull.arm in self.streaks.broken and self.can_skip:
                self._skip(pull)
                continue
            if self.streaks.suspect(pull.arm):
                reason, pull = self._instead_of(pull)
                if pull is None:
                    return reason, None
            # The policy has reserved its cost by now; its examples are not counted before it runs.
            used = self._used(reserved=True) + (len(pull.examples) if self.limit.kind == "examples" else 0)
            if asked and self.strict and self.limit.crossed(used):
                self._release(pull)
                return (None if self.policy.n_pending else "budget"), None
            return None, pull

    def _ask(self) -> tuple[str | None, Pull | None]:
        policy = self.policy
        if self.until == "stop-signal" and policy.should_stop:
            return "stop-signal", None
        if self.limit.reached(self._used(reserved=True)):
            if policy.n_pending:  # true costs may turn out lower than what is reserved
                return None, None
            return (reason_for_silence(policy) if policy.status == "exhausted" else "budget"), None
        pull = policy.ask()
        if pull is None:
            return (None if policy.n_pending else reason_for_silence(policy)), None
        return None, pull

    def _skip(self, pull: Pull) -> None:
        """Put a batch of a broken arm down as failed, without a call and free of charge."""
        message = "not evaluated: the arm is broken"
        self._record_intent(pull)
        self.policy.tell(pull, None, cost=0.0, status="error")
        if self.book is not None:
            self.book.record_result(pull, self.attempts.last[pull.token], "error", cost=0.0, message=message)
        self.streaks.n_skipped += len(pull.examples)
        self.recorder.add(pull.arm, len(pull.examples), 0.0)

    def _instead_of(self, pull: Pull) -> tuple[str | None, Pull | None]:
        """A pull of an arm that is not suspect: what the policy asks while it cannot ask the suspect, whose cells it then gets back."""
        if self.can_skip:
            held = [pull]
            avoided = {pull.arm, *self.streaks.broken}
            waiting, self.leftover = list(self.leftover), deque()
            for left in waiting:
                (held if left.arm in avoided else self.leftover).append(left)
            self._record_intent(pull)
            other = self.leftover.popleft() if self.leftover else self.policy.ask()
            while other is not None and other.arm in avoided:
                self._record_intent(other)
                held.append(other)
                other = self.policy.ask()
            if other is not None:
                self._record_intent(other)  # it was asked before the others are given back, and so it is repeated
            for one in held:
                self._release(one)
            if other is not None:
                return None, other
            if self.policy.n_pending:
                return None, None  # another arm is being evaluated: its result tells
            if self.n_failed < (self.streaks.limit or 0):
                return None, self.policy.ask()  # resumed, with nothing else to ask: the cause may be mended
        elif self.n_failed < (self.streaks.limit or 0):
            return None, pull
        self._fail(
            ResponseError(
                f"arm {pull.arm!r} failed {self.streaks.n} times in a row (max_consecutive_failures) and no other arm can tell whether the "
                f"evaluator works at all; {self._kept} what was evaluated: mend the arm and call evaluate again, or leave it out of "
                "`arms` of a new policy (with a new store), to which `attach` gives the scores that exist"
            ),
            None,
        )
        return "failed", None

    def _release(self, pull: Pull) -> None:
        """Give a pull back that does not run."""
        self.policy.release(pull)
        if pull.token in self.attempts.last:
            self.announced.discard(pull.token)
            if self.book is not None:
                self.book.record_result(pull, self.attempts.last[pull.token], "released", cost=0.0)
        else:
            self.attempts.last[pull.token] = 1
            if self.book is not None:  # in one step: with the intent alone on record, a resumed run would evaluate it
                self.book.record_release(pull)

    def _record_intent(self, pull: Pull) -> None:
        """Put a pull on record that may not run, once, in the order of the asks."""
        if pull.token not in self.attempts.last:
            self.attempts.last[pull.token] = 1
            self.announced.add(pull.token)
            if self.book is not None:
                self.book.record_intent(pull, 1, 0)

    def _start(self, slot: int, pull: Pull) -> None:
        if pull.token in self.announced:
            self.announced.discard(pull.token)
            attempt = self.attempts.last[pull.token]
        else:
            attempt = self.attempts.begin(pull.token, inherited=pull.token in self.inherited)
            if self.book is not None:
                self.book.record_intent(pull, attempt, slot)
        self.running[pull.token] = pull, attempt
        self.workers.start(slot, pull)

    def _settle(self, outcome: Outcome) -> None:
        """Tell an outcome and record it."""
        pull, error = outcome.pull, outcome.error
        if error is not None and not isinstance(error, Exception):
            raise error  # KeyboardInterrupt, SystemExit: not a failed evaluation; the pull stays pending
        where = f"arm {pull.arm!r}, examples {shown(pull.examples)} (pull {pull.token})"
        status, message, scores, charged = "ok", None, None, pull.cost
        if outcome.timed_out:
            status, message = "timeout", "no result in time"
        elif error is not None:
            status, message = "error", f"{type(error).__name__}: {error}"
        else:
            try:
                scores, cost = read_answer(outcome.value)
                self.policy.tell(pull, scores, cost=cost)
                charged = pull.cost if cost is None else float(cost)
            except ResponseError as problem:
                status, scores, message = "error", None, str(problem)
                self._fail(
                    ResponseError(f"the evaluator's answer for {where} cannot be used and is recorded as an error: {problem}"), problem
                )
        if status != "ok":
            self.n_failed += 1
            logger.warning("%s in the evaluation of %s: %s", status, where, message)
            logger.debug("traceback of the failure", exc_info=error)
            try:
                self.policy.tell(pull, None, cost=charged, status=status)
            except ResponseError as refusal:
                status = "refused"
                self._fail(
                    ResponseError(f"the evaluation of {where} failed ({message}) and the policy has on_error='raise': {refusal}"), error
                )
        self._count_failures(pull.arm, status, where, message, error)
        _, attempt = self.running.pop(pull.token)
        if self.book is not None:
            values = None if scores is None else np.asarray(scores, dtype=np.float64).tolist()
            self.book.record_result(pull, attempt, status, cost=charged, scores=values, message=message)
        if status != "refused":
            self.cells_told += len(pull.examples)
            self.recorder.add(pull.arm, len(pull.examples), charged)
        self._show()

    def _count_failures(self, arm: Any, status: str, where: str, message: str | None, cause: BaseException | None) -> None:
        """Failures in a row, of two arms or more, end the run; those of one arm alone make it broken."""
        was_broken = arm in self.streaks.broken
        dead = self.streaks.add(arm, ok=status == "ok")
        if self.can_skip and arm in self.streaks.broken and not was_broken:
            logger.warning(
                "arm %r failed %d times in a row and again after another arm had worked: it is taken for broken and what is left of it "
                "counts as missing; last for %s: %s", arm, self.streaks.limit, where, message,
            )  # fmt: skip
        if not dead:
            return
        self._fail(
            ResponseError(
                f"the evaluator failed {self.streaks.n} times in a row, which ends the run (max_consecutive_failures); last for "
                f"{where}: {message}; {self._kept} what was evaluated: mend the cause and call evaluate again"
            ),
            cause,
        )
        self.streaks.end()

    @property
    def _kept(self) -> str:
        return "the policy keeps" if self.book is None else "policy and store keep"

    def _fail(self, error: ResponseError, cause: BaseException | None) -> None:
        """The run ends with this error, once what is in flight has come back; the first one is the one raised."""
        if self.fatal is None:
            self.fatal, self.cause = error, cause

    def _used(self, *, reserved: bool) -> float:
        if self.limit.kind == "cost":
            return float(self.policy.spent) + (float(self.policy.reserved) if reserved else 0.0)
        return self.cells_told + (sum(len(pull.examples) for pull, _ in self.running.values()) if reserved else 0)

    def _show(self) -> None:
        if not self.bar.disable:
            self.bar.set_postfix({"best": self.policy.recommend().arm, "failed": self.n_failed}, refresh=False)
            self.bar.update(self._used(reserved=False) - self.bar.n)


def _cells_told(policy: Any) -> int:
    """Examples evaluated so far, failed ones included, attached ones not."""
    return int(policy._true_cells.sum()) if isinstance(policy, BasePolicy) else 0
