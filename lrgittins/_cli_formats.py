"""``--format``: files of other tools on the command line, read by the adapters."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from .errors import ParameterError, ResponseError

if TYPE_CHECKING:
    from .comparisons import Comparisons
    from .responses import ResponseMatrix

VOTE_FORMATS = ("table", "lmarena", "arena-rank", "alpaca-eval")
SCORE_FORMATS = ("table", "lm-eval")
_DEFAULTS = {"task": "task", "model_a": "model_a", "model_b": "model_b", "winner": "winner", "count": None, "id": None, "cluster": None}
_FREE = {  # column options that say something about a format; the others are fixed by it
    "lmarena": {"task", "id", "cluster"},
    "arena-rank": set(_DEFAULTS),
    "alpaca-eval": {"task", "id", "cluster"},
}


def read_foreign_votes(file: Path, form: str, options: Mapping[str, Any], aliases: Mapping[str, str] | None) -> Comparisons:
    """The votes of a file in the format `form`, as the intake options say."""
    from .adapters import from_alpaca_eval, from_arena_rank, from_lmarena

    given = {name: options[name] for name, default in _DEFAULTS.items() if options[name] != default}
    fixed = sorted(set(given) - _FREE[form])
    if fixed:
        raise ParameterError(f"--format {form} knows its columns: leave out --{fixed[0].replace('_', '-')}")
    shared: dict[str, Any] = {"ties": options["ties"], "both_bad": options["both_bad"], "aliases": aliases}
    if form == "alpaca-eval":  # failed annotations are no votes, and are dropped and counted as alpaca_eval does
        task = None if options["single_task"] else given.pop("task", "auto")
        return from_alpaca_eval(file, task=task, **given, **shared)
    shared["on_invalid"] = options["on_invalid"]
    if form == "arena-rank":
        task = None if options["single_task"] else given.pop("task", None)
        sides = given.pop("model_a", "model_a"), given.pop("model_b", "model_b")
        return from_arena_rank(file, competitor_cols=sides, outcome_col=given.pop("winner", "winner"), task=task, **given, **shared)
    tasks: Any = None if options["single_task"] else given.pop("task", "auto")
    if tasks not in (None, "auto", "category", "language"):
        tasks = [name.strip() for name in tasks.split(",") if name.strip()]
    return from_lmarena(file, tasks=tasks, **given, **shared)


def read_samples(
    file: Path,
    *,
    score: str,
    filter: str | None,
    tasks: str | None,
    arm: str,
    example: str,
    cost: Any,
    score_range: tuple[float, float],
) -> ResponseMatrix:
    """Sample logs of lm-evaluation-harness: `score` names the metric."""
    from .adapters import from_lm_eval_samples

    if arm != "arm" or example != "example" or isinstance(cost, str):
        raise ParameterError("--format lm-eval knows its columns: leave out --arm, --example and --cost (--costs gives prices by model)")
    metric = None if score == "score" else score
    names = None if tasks is None else [name.strip() for name in tasks.split(",") if name.strip()]
    if names is not None and not names:
        raise ParameterError("--tasks is empty; name tasks of the logs, separated by commas")
    if file.is_file():
        raise ResponseError(f"{file}: --format lm-eval reads a folder that has one subfolder of sample logs per model, not a file")
    try:
        return from_lm_eval_samples(file, metric=metric, filter=filter, tasks=names, cost=cost, score_range=score_range)
    except ResponseError as error:
        text = str(error).partition("; its own files are of one model")
        said = text[0] + ("; the logs here are of one model: move them into a subfolder of its name" if text[1] else "")
        said = said.replace("filter=", "--filter").replace("metric=", "--score").replace("tasks=", "--tasks")
        raise ResponseError(said) from error
