"""Policies by name: what `replay`, `compare` and the command line build from a response matrix."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ._random import RandomState
from .errors import ParameterError, ResponseError
from .policies.gittins import GittinsPolicy
from .policies.log_ei import LogEI, LogEIPerCost
from .policies.low_rank_ucb_e import LowRankUCBE
from .policies.pandora import PandoraGittins
from .policies.prompteval import PromptEvalBAI, check_binary
from .policies.protocol import Policy, is_policy
from .policies.sysrs import SySRs
from .policies.ucb_e import UCBE
from .responses import ResponseMatrix

# Shared priors (mean, variance) of the paper's variant S: GSM8K and AlpacaEval, then MMLU hard, medium, easy.
BUCKETS = ((0.2, 0.01), (0.4, 0.02), (0.6, 0.02), (0.75, 0.01))
HINDSIGHT = "hindsight"


def nearest_bucket(responses: ResponseMatrix) -> tuple[float, float]:
    """The shared prior whose mean is nearest the mean arm quality: needs the whole matrix, so it is hindsight."""
    quality = float(responses.row_means.mean())
    return min(BUCKETS, key=lambda bucket: abs(bucket[0] - quality))


def _gittins(responses: ResponseMatrix, budget: float, **arguments: Any) -> Policy:
    return GittinsPolicy(**arguments)


def _gittins_g(responses: ResponseMatrix, budget: float, **arguments: Any) -> Policy:
    return GittinsPolicy.paper(**arguments)


def _gittins_s(responses: ResponseMatrix, budget: float, **arguments: Any) -> Policy:
    return GittinsPolicy.paper(variant="S", prior=nearest_bucket(responses), **arguments)


def _ucb_e(responses: ResponseMatrix, budget: float, **arguments: Any) -> Policy:
    return UCBE(**arguments)


def _ucb_e_lrf(responses: ResponseMatrix, budget: float, *, batch_size: int, **arguments: Any) -> Policy:
    # Its batch of 32 is part of the published method, and the fit is per batch: it does not follow the others.
    return LowRankUCBE(**arguments)


def _cells(responses: ResponseMatrix, budget: float) -> int:
    """The budget of a cost-blind method, a number of cells. The rounding slack is that of the budget check."""
    return max(int(np.floor(budget * int(responses.n_cells.sum()) * (1.0 + 1e-12))), 1)


def _sysrs(responses: ResponseMatrix, budget: float, **arguments: Any) -> Policy:
    return SySRs(**arguments, budget=_cells(responses, budget))


def _prompteval(responses: ResponseMatrix, budget: float, **arguments: Any) -> Policy:
    return PromptEvalBAI(**arguments, budget=_cells(responses, budget))


def _whole_rows(kind: Callable[..., Policy]) -> Callable[..., Policy]:
    """Bayesian optimisation over arms: whole rows, whatever the batch size, and never a row that the budget does not cover."""

    def build(responses: ResponseMatrix, budget: float, *, batch_size: int, **arguments: Any) -> Policy:
        # Where everything is free of charge there is no budget to run out of.
        return kind(**arguments, max_cost=budget * responses.total_cost or None)

    return build


POLICIES: dict[str, Callable[..., Policy]] = {
    "gittins": _gittins,
    "gittins-g": _gittins_g,
    "gittins-s": _gittins_s,
    "ucb-e": _ucb_e,
    "ucb-e-lrf": _ucb_e_lrf,
    "sysrs": _sysrs,
    "prompteval": _prompteval,
    "pbgi": _whole_rows(PandoraGittins),
    "logei": _whole_rows(LogEI),
    "logeipc": _whole_rows(LogEIPerCost),
}
# What a name asks of the matrix, beyond what every policy does.
REQUIREMENTS: dict[str, Callable[[ResponseMatrix], None]] = {"prompteval": check_binary}
# Names with something to say beside them wherever results are shown.
LABELS = {"gittins-s": f"gittins-s ({HINDSIGHT})"}


def check_policy(policy: Any, where: str = "policy") -> Any:
    """A known name or a factory; anything else is an error that says what would do."""
    if isinstance(policy, str):
        if policy not in POLICIES:
            close = difflib.get_close_matches(policy, POLICIES, n=1)
            hint = f"; did you mean {close[0]!r}?" if close else ""
            raise ParameterError(
                f"unknown {where} {policy!r}; available by name: {', '.join(POLICIES)}{hint} (or give a factory, such as "
                "functools.partial(GittinsPolicy, batch_size=4))"
            )
    elif is_policy(policy) and not isinstance(policy, type):
        raise ParameterError(
            f"{where} {type(policy).__name__} is a policy object, which one run would use up; give a factory that builds one per run, "
            "such as functools.partial(GittinsPolicy, batch_size=4)"
        )
    elif not callable(policy):
        raise ParameterError(f"a {where} must be a name or a factory, got {policy!r}")
    return policy


def check_matrices(policies: Mapping[str, Any], matrices: Mapping[str, ResponseMatrix]) -> None:
    """Refuse, before anything runs, a matrix that a policy given by name cannot handle."""
    for policy in policies.values():
        requirement = REQUIREMENTS.get(policy) if isinstance(policy, str) else None
        for name, responses in matrices.items() if requirement else ():
            try:
                requirement(responses)  # type: ignore[misc]
            except ResponseError as error:
                raise ResponseError(f"matrix {name!r}: {error}") from None


def name_policies(policies: Any) -> dict[str, Any]:
    """Label -> name or factory, from one of them, a sequence, or a mapping with labels of the caller's choice."""
    if isinstance(policies, Mapping):
        named = {str(label): check_policy(policy) for label, policy in policies.items()}
    else:
        listed = [policies] if isinstance(policies, str) or callable(policies) else list(policies)
        named = {}
        for policy in listed:
            check_policy(policy)
            label = policy if isinstance(policy, str) else getattr(policy, "__name__", None)
            if label is None or label == "<lambda>":
                raise ParameterError(f"the factory {policy!r} has no name to show; give policies as a mapping, {{'my policy': factory}}")
            if label in named:
                raise ParameterError(f"two policies are called {label!r}; give policies as a mapping with a name for each")
            named[label] = policy
    if not named:
        raise ParameterError(f"policies is empty; available by name: {', '.join(POLICIES)}")
    return named


def build_policy(policy: Any, responses: ResponseMatrix, *, budget: float, batch_size: int = 8, random_state: RandomState = 0) -> Policy:
    """A fresh policy for a matrix.

    Parameters
    ----------
    policy : str or callable
        A name of `POLICIES`; or a factory, called with ``**responses.policy_arguments()`` and `random_state`.
    budget : float
        Fraction of the cells, for names that need a budget in advance.
    batch_size : int
        Of policies built by name, but for "ucb-e-lrf", which keeps its published 32.

    Notes
    -----
    Equal seeds give equal example orders ("common" or "per-arm") and equal tie orders, whatever the policy.
    """
    arguments = {**responses.policy_arguments(), "random_state": random_state}
    if isinstance(policy, str):
        return POLICIES[check_policy(policy)](responses, budget, batch_size=batch_size, **arguments)
    built = check_policy(policy)(**arguments)
    if not is_policy(built):
        raise ParameterError(f"the factory {policy!r} gave {type(built).__name__}, which is not a policy (ask, tell, recommend, ...)")
    return built
