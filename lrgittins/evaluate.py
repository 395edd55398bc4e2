"""The live loop: ask the policy, run the user's evaluator, tell, until the policy says stop or the budget is used."""

from __future__ import annotations

import contextlib
import math
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ._evaluator import checked_evaluator
from ._limit import Limit, check_limit, exhaustive_cost
from ._live_run import LiveRun
from ._resume import Resumed, resume
from ._streaks import Streaks
from ._validation import check_choice, check_float, check_int
from ._workers import DeferredInterrupts, InlineWorker, ThreadWorkers
from .errors import ParameterError
from .policies.base import BasePolicy
from .policies.protocol import Policy, is_policy
from .store import Store
from .trace import Trace, TraceRecorder

if TYPE_CHECKING:
    from tqdm import tqdm

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
    if not is_policy(policy):
        raise ParameterError(f"policy must be a policy (ask, tell, recommend, ...), got {type(policy).__name__}")
    limit = check_limit(policy, budget, max_cost, max_evaluations)
    call = checked_evaluator(evaluator)
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
        return LiveRun(policy, limit, bool(strict), until, streaks, book, resumed, workers, interrupts, bar).drive()


def _open_book(policy: Policy, store: str | Path, stack: contextlib.ExitStack) -> tuple[Store, Resumed]:
    if not isinstance(policy, BasePolicy):
        raise ParameterError(f"store needs a policy of this library, which can be fingerprinted, got {type(policy).__name__}")
    start = policy.to_state()
    book = stack.enter_context(Store.open(store, policy.fingerprint, start))
    return book, resume(policy, book, start, lambda: _recorder(policy))


def _recorder(policy: Policy) -> TraceRecorder:
    arms = getattr(policy, "arms", None)
    return TraceRecorder(policy, policy.posterior()["arm"].tolist() if arms is None else arms, total_cost=exhaustive_cost(policy))


def _progress_bar(limit: Limit, progress: bool) -> tqdm[Any]:
    from tqdm import tqdm

    total = limit.amount if math.isfinite(limit.amount) else None
    unit = " examples" if limit.kind == "examples" else " cost"
    shape = "{l_bar}{bar}| {n:.4g}/{total:.4g}{unit} [{elapsed}<{remaining}{postfix}]" if total is not None else None
    return tqdm(total=total, unit=unit, bar_format=shape, disable=not progress, file=sys.stderr, desc="evaluate")
