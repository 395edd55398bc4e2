"""Policies of the selection studies: their names, what a study calls them, and which of them a machine can run."""

from __future__ import annotations

from collections.abc import Callable

import click

import lrgittins as lg
from lrgittins.policies.row_model import require_model
from lrgittins.policy_names import POLICIES, check_policy

# Names of `compare` -> rows of the tables.
LABELS = {
    "gittins": "default",
    "gittins-g": "paper G",
    "gittins-s": "paper S (hindsight)",
    "ucb-e": "UCB-E",
    "sysrs": "SySRs",
    "ucb-e-lrf": "UCB-E-LRF",
    "prompteval": "PromptEval",
    "pbgi": "PBGI",
    "logei": "LogEI",
    "logeipc": "LogEI per cost",
}
CHEAP = ("gittins", "gittins-g", "gittins-s", "ucb-e", "sysrs")  # milliseconds a run
WHOLE_ROWS = ("pbgi", "logei", "logeipc")  # need the extra `bo`


def policies_option(function: Callable[..., None]) -> Callable[..., None]:
    """`--policies`, as the names asked for; empty when it was not given."""
    text = f"Names, separated by commas, of {', '.join(POLICIES)}; by default all that this machine can run."
    return click.option("--policies", "wanted", callback=_names, metavar="NAMES", help=text)(function)


def _names(context: click.Context, option: click.Parameter, value: str | None) -> tuple[str, ...]:
    if value is None:
        return ()
    names = tuple(dict.fromkeys(part.strip() for part in value.split(",") if part.strip()))
    try:
        for name in names:
            check_policy(name)
        if any(name in WHOLE_ROWS for name in names):
            require_model(f"the policy {next(name for name in names if name in WHOLE_ROWS)}")
    except lg.LRGittinsError as error:
        raise click.BadParameter(str(error), context, option) from None
    if not names:
        raise click.BadParameter(f"names no policy; there are {', '.join(POLICIES)}", context, option)
    return names


def chosen_policies(wanted: tuple[str, ...]) -> list[str]:
    """The policies to run, in the order of the tables; says which are left out where the extra is missing."""
    if wanted:
        return [name for name in LABELS if name in wanted]
    try:
        require_model("the policies of Bayesian optimisation")
    except lg.MissingExtraError as error:
        click.echo(f"left out: {', '.join(WHOLE_ROWS)} ({error})")
        return [name for name in LABELS if name not in WHOLE_ROWS]
    return list(LABELS)
