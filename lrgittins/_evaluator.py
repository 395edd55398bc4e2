"""The user's evaluator: what may be one, and what it may answer."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from .errors import ParameterError, ResponseError
from .policies.protocol import Pull


def checked_evaluator(evaluator: Any) -> Callable[[Pull], Any]:
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


def read_answer(value: Any) -> tuple[Any, Any]:
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
