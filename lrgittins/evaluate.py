"""The live loop: ask the policy, run the user's evaluator, tell, until the policy says stop or the budget is used."""

from __future__ import annotations

import contextlib
import inspect
import math
import sys
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from ._resume import Resumed, resume
from ._streaks import Streaks
from ._validation import check_choice, check_float, check_int
from ._workers import DeferredInterrupts, InlineWorker, Outcome, ThreadWorkers, logger
from .errors import ParameterError, ResponseError
from .policies.base import BasePolicy
from .policies.inputs import shown
from .policies.protocol import Policy, Pull, reason_for_silence
from .store import Store
from .trace import Trace, TraceRecorder

if TYPE_CHECKING:
    from tqdm import tqdm

_ROUNDING = 1e-12  # as in replays: 0.1 of 122,000 examples is 12,200, not one batch more
UNTIL = ("stop-signal", "budget")


def evaluate(
    policy: Policy,
    evaluator: Callable[..., Any],
    *,
    budget: float | None = None,
    max_cost: float | None = None,
    max_evaluations: int | None = None,
    store: str | Path | None = None,
    n_workers: int = 1,
    timeout: float | None = None,
    strict: bool = False,
    until: str | None = None,
    max_consecutive_failures: int | None = 25,
    progress: bool = True,
) -> Trace:
    """Run `evaluator` on what `policy` asks until the policy gives its stop signal, the budget is used or nothing is left.

    Parameters
    ----------
    policy : Policy
        Fresh, loaded or used before: its history counts. Pulls that are pending when the run starts are run first,
        under their tokens.
    evaluator : callable
        ``evaluator(arm, examples)`` returns one score per example, in the order of the tuple `examples`, or a tuple
        ``(scores, cost)`` with the true cost of the batch (raw units). One that accepts ``token=`` gets the batch's
        token, an idempotency key: a batch that is repeated after a crash comes under the same one.
    budget : float in (0, 1]
        Fraction of exhaustive cost (every cell once).
    max_cost : float
        Raw units, compared with what the policy has spent in all (attached results included) and has reserved.
    max_evaluations : int
        Number of examples evaluated, failed ones included. Exactly one of the three limits is given. Each is checked
        after a batch, so that the last one may cross it, unless `strict`.
    store : path, optional
        SQLite file of this run. With an existing one the run goes on where it ended, however it ended: the recorded
        batches are not evaluated again but told to the policy in their order, so that with one worker it takes the
        decisions of an unbroken run. Pass a policy set up as the first time, or the one that ran until now. Labels
        must be str, int, float or bool. `read_store` reads the scores.
    n_workers : int
        Calls of `evaluator` at the same time. One worker without `timeout` runs in the calling thread, more in threads.
    timeout : float, optional
        Seconds a call may take. A call that takes longer is recorded as "timeout" and given up: its thread cannot be
        ended and runs on beside its replacement, its late result is refused.
    strict : bool
        Refuse a batch whose expected cost would cross the limit; the run ends there.
    until : {"stop-signal", "budget"}, optional
        "stop-signal" ends the run when ``policy.should_stop`` becomes true, "budget" goes on to the limit. By default
        "stop-signal", and "budget" for a policy with ``anneal=True``, which is made to use what is left.
    max_consecutive_failures : int or None
        So many batches in a row that failed or timed out, of two arms or more, end the run with `ResponseError`: an expired
        key or a server that is down would otherwise use up the retries of every cell. What is recorded stays; with a
        `store` the run goes on from there once the cause is mended. Where all of them were of one arm another arm is tried
        first. If that fails too the run ends as above; if it works, and the first arm fails once more, that arm is broken:
        a warning is logged, its remaining cells are put down as failed without a call and free of charge, until they are
        missing (`Trace.n_skipped` counts the examples), and the run goes on without it. Where no other arm can be asked, or
        the policy learns prices (``cost=None``) or is not of this library, the run ends and names the arm. None: never.
    progress : bool
        A progress bar on stderr.

    Returns
    -------
    Trace
        The whole run, batches of the store included. `stop_reason` is "stop-signal", "budget", "exhausted" or
        "interrupted" (Ctrl-C: everything recorded is kept, pending pulls stay pending). `n_repeated` counts the batches
        that were started again because the first start has no result.

    Raises
    ------
    ParameterError
        Not exactly one limit, or an argument outside its meaning.
    ResponseError
        The evaluator returned something that cannot be scores (their number, NaN, out of range) or a bad cost, failed
        under ``on_error="raise"``, or failed `max_consecutive_failures` times in a row (of one arm: with no other to try).
        Results of other workers are awaited and recorded first.
    StoreError
        The store is in use by another process, damaged, newer or not ours.
    StateError
        The store belongs to another policy, matrix or prices; names the field.

    Notes
    -----
    An exception of the evaluator, or a timeout, is recorded as such: charged at the expected cost, never a score. The
    cells are asked again, under new tokens, up to the policy's `max_retries` times, then they are missing. A batch
    with unusable scores is recorded as an error before `ResponseError` is raised.

    The intent to run a batch is on disk before `evaluator` is called, its result before that worker gets its next
    batch. After a kill at most `n_workers` batches are repeated.
    """
    if not isinstance(policy, Policy):
        raise ParameterError(f"policy must be a policy (ask, tell, recommend, ...), got {type(policy).__name__}")
    limit = _check_limit(policy, budget, max_cost, max_evaluations)
    call = _checked_evaluator(evaluator)
    n_workers = check_int(n_workers, "n_workers", low=1)
    if timeout is not None:
        timeout = check_float(timeout, "timeout", low=0.0, low_open=True)
    if until is None:
        until = "budget" if getattr(policy, "anneal", False) else "stop-signal"
    check_choice(until, "until", UNTIL)
    if max_consecutive_failures is not None:
        max_consecutive_failures = check_int(max_consecutive_failures, "max_consecutive_failures", low=1)
    with contextlib.ExitStack() as stack:
        interrupts = stack.enter_context(DeferredInterrupts())
        if store is None:
            book, resumed = None, Resumed(_recorder(policy))
        else:
            book, resumed = _open_book(policy, store, stack)
        streaks = Streaks(max_consecutive_failures)
        streaks.repeat(() if book is None else book.events())
        workers: InlineWorker | ThreadWorkers
        workers = InlineWorker(call) if n_workers == 1 and timeout is None else ThreadWorkers(call, n_workers, timeout)
        stack.callback(workers.close)
        bar = stack.enter_context(_progress_bar(limit, progress))
        return _Run(policy, limit, bool(strict), until, streaks, book, resumed, workers, interrupts, bar).drive()


def _open_book(policy: Policy, store: str | Path, stack: contextlib.ExitStack) -> tuple[Store, Resumed]:
    if not isinstance(policy, BasePolicy):
        raise ParameterError(f"store needs a policy of this library, which can be fingerprinted, got {type(policy).__name__}")
    start = policy.to_state()
    book = stack.enter_context(Store.open(store, policy.fingerprint, start))
    return book, resume(policy, book, start, lambda: _recorder(policy))


@dataclass(frozen=True)
class _Limit:
    """What ends a run: an amount of cost (raw units) or of examples."""

    kind: str  # "cost" or "examples"
    amount: float

    def reached(self, used: float) -> bool:
        return used >= self.amount * (1.0 - _ROUNDING)

    def crossed(self, used: float) -> bool:
        return used > self.amount * (1.0 + _ROUNDING)


class _Run:
    """The loop. Everything but the evaluator happens in the calling thread, so policy, store and trace agree at any time."""

    def __init__(
        self, policy: Any, limit: _Limit, strict: bool, until: str, streaks: Streaks, book: Store | None, resumed: Resumed,
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
        self._record_intent(pull)
        self.announced.discard(pull.token)
        self.policy.release(pull)
        if self.book is not None:
            self.book.record_result(pull, self.attempts.last[pull.token], "released", cost=0.0)

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
                scores, cost = _answer(outcome.value)
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


def _answer(value: Any) -> tuple[Any, Any]:
    """Scores and true cost (or None) of what the evaluator returned."""
    cost = None
    # Two scores in a tuple are two numbers; scores and a cost are a sequence and a number.
    if isinstance(value, tuple) and len(value) == 2 and _is_sequence(value[0]) and not _is_sequence(value[1]):
        value, cost = value
    if value is None:
        raise ResponseError("it returned None; return one score per example")
    if inspect.isawaitable(value):
        raise ResponseError("it returned an awaitable; run it inside the evaluator, e.g. with asyncio.run")
    try:
        return np.array(value), cost  # a copy: the evaluator may go on using its array
    except (TypeError, ValueError) as error:
        raise ResponseError(f"scores must be one number per example ({error})") from None


def _is_sequence(value: Any) -> bool:
    return not isinstance(value, (str, bytes)) and hasattr(value, "__len__") and getattr(value, "ndim", 1) > 0


def _check_limit(policy: Policy, budget: float | None, max_cost: float | None, max_evaluations: int | None) -> _Limit:
    given = {"budget": budget, "max_cost": max_cost, "max_evaluations": max_evaluations}
    named = [f"{name}={value!r}" for name, value in given.items() if value is not None]
    if len(named) != 1:
        raise ParameterError(f"give exactly one of budget, max_cost and max_evaluations, got {', '.join(named) or 'none'}")
    if max_evaluations is not None:
        return _Limit("examples", check_int(max_evaluations, "max_evaluations", low=1))
    if max_cost is not None:
        return _Limit("cost", check_float(max_cost, "max_cost", low=0.0, low_open=True))
    from .replay import check_budget

    share, total = check_budget(budget), _exhaustive_cost(policy)
    if math.isnan(total):
        raise ParameterError("budget is a fraction of exhaustive cost, which this policy does not know; give max_cost or max_evaluations")
    # Where everything is free of charge there is no budget to run out of.
    return _Limit("cost", share * total if total > 0.0 else math.inf)


def _exhaustive_cost(policy: Any) -> float:
    """Price of every cell that existed at the start, raw units; NaN where prices are not known in advance."""
    if not isinstance(policy, BasePolicy) or policy.cost is None:
        return math.nan
    cells = policy.n_examples if policy._missing is None else (~policy._missing).sum(axis=1)
    return float(cells @ policy.cost)


def _cells_told(policy: Any) -> int:
    """Examples evaluated so far, failed ones included, attached ones not."""
    return int(policy._true_cells.sum()) if isinstance(policy, BasePolicy) else 0


def _recorder(policy: Policy) -> TraceRecorder:
    arms = getattr(policy, "arms", None)
    return TraceRecorder(policy, policy.posterior()["arm"].tolist() if arms is None else arms, total_cost=_exhaustive_cost(policy))


def _checked_evaluator(evaluator: Any) -> Callable[[Pull], Any]:
    """The evaluator as a function of a pull; it gets `token=` where it takes one."""
    if not callable(evaluator):
        raise ParameterError(f"evaluator must be a function (arm, examples) -> scores, got {evaluator!r}")
    if inspect.iscoroutinefunction(evaluator) or inspect.iscoroutinefunction(getattr(evaluator, "__call__", None)):  # noqa: B004
        raise ParameterError("evaluator is a coroutine function; wrap it: lambda arm, examples: asyncio.run(evaluator(arm, examples))")
    try:
        parameters = list(inspect.signature(evaluator).parameters.values())
    except (TypeError, ValueError):  # some builtins have none
        parameters = []
    by_name = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    if any(p.kind is inspect.Parameter.VAR_KEYWORD or (p.name == "token" and p.kind in by_name) for p in parameters):
        return lambda pull: evaluator(pull.arm, pull.examples, token=pull.token)
    return lambda pull: evaluator(pull.arm, pull.examples)


def _progress_bar(limit: _Limit, progress: bool) -> tqdm[Any]:
    from tqdm import tqdm

    total = limit.amount if math.isfinite(limit.amount) else None
    unit = " examples" if limit.kind == "examples" else " cost"
    shape = "{l_bar}{bar}| {n:.4g}/{total:.4g}{unit} [{elapsed}<{remaining}{postfix}]" if total is not None else None
    return tqdm(total=total, unit=unit, bar_format=shape, disable=not progress, file=sys.stderr, desc="evaluate")
