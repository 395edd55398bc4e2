"""Certified task-specific leaderboards, and cost-aware choice of what to evaluate next.

``import lrgittins as lg``. Names resolve on first use, so importing the package loads neither
numba nor pandas and compiles nothing.
"""

from __future__ import annotations

import importlib
import logging
import sys
from types import ModuleType
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

logging.getLogger("lrgittins").addHandler(logging.NullHandler())

_EXPORTS = {
    "_warmup": ["warmup"],
    "bands": ["GapBands"],
    "board": ["Leaderboard", "leaderboard"],  # a module named leaderboard would hide the function
    "bradley_terry": ["PerTaskBradleyTerry", "PooledBradleyTerry"],
    "compare": ["compare"],
    "comparison": ["PolicyComparison"],
    "comparisons": ["Comparisons"],
    "errors": [
        "ComparisonError",
        "ConvergenceWarning",
        "LRGittinsError",
        "MissingExtraError",
        "NotIdentifiableError",
        "ParameterError",
        "ResponseError",
        "StateError",
        "StoreError",
        "WorkerError",
    ],
    "evaluate": ["evaluate"],
    "infer": ["infer_gaps"],
    "inference": ["GapEstimate", "GapInference"],
    "low_rank": ["LowRankBradleyTerry"],
    "policies.gittins": ["GittinsPolicy"],
    "policies.log_ei": ["LogEI", "LogEIPerCost"],
    "policies.low_rank_ucb_e": ["LowRankUCBE"],
    "policies.pandora": ["PandoraGittins"],
    "policies.prompteval": ["PromptEvalBAI"],
    "policies.protocol": ["Policy", "Pull", "Recommendation"],
    "policies.sysrs": ["SySRs"],
    "policies.ucb_e": ["UCBE"],
    "prices": ["arm_costs"],
    "replay": ["replay"],
    "responses": ["ResponseMatrix"],
    "root_schedule": ["RootSchedule", "root_schedule"],
    "scales": ["WinProbability", "elo"],
    "store": ["read_store"],
    "trace": ["Trace"],
}
_MODULE_OF = {name: module for module, names in _EXPORTS.items() for name in names}

if TYPE_CHECKING:
    from ._warmup import warmup
    from .bands import GapBands
    from .board import Leaderboard, leaderboard
    from .bradley_terry import PerTaskBradleyTerry, PooledBradleyTerry
    from .compare import compare
    from .comparison import PolicyComparison
    from .comparisons import Comparisons
    from .errors import (
        ComparisonError,
        ConvergenceWarning,
        LRGittinsError,
        MissingExtraError,
        NotIdentifiableError,
        ParameterError,
        ResponseError,
        StateError,
        StoreError,
        WorkerError,
    )
    from .evaluate import evaluate
    from .infer import infer_gaps
    from .inference import GapEstimate, GapInference
    from .low_rank import LowRankBradleyTerry
    from .policies.gittins import GittinsPolicy
    from .policies.log_ei import LogEI, LogEIPerCost
    from .policies.low_rank_ucb_e import LowRankUCBE
    from .policies.pandora import PandoraGittins
    from .policies.prompteval import PromptEvalBAI
    from .policies.protocol import Policy, Pull, Recommendation
    from .policies.sysrs import SySRs
    from .policies.ucb_e import UCBE
    from .prices import arm_costs
    from .replay import replay
    from .responses import ResponseMatrix
    from .root_schedule import RootSchedule, root_schedule
    from .scales import WinProbability, elo
    from .store import read_store
    from .trace import Trace

__all__ = [*sorted(_MODULE_OF), "__version__"]


_MODULES = ("adapters", "datasets")  # whose functions are called as lg.adapters.from_lmarena(...)


def __getattr__(name: str) -> Any:
    module = _MODULE_OF.get(name)
    if module is None:
        if name in _MODULES:
            return importlib.import_module(f".{name}", __name__)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(importlib.import_module(f".{module}", __name__), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *_MODULE_OF, *_MODULES})


class _Package(ModuleType):
    """Importing ``lrgittins.root_schedule`` would put the module in the place of the function of the same name."""

    def __setattr__(self, name: str, value: Any) -> None:
        if not (name in _MODULE_OF and isinstance(value, ModuleType)):
            super().__setattr__(name, value)


sys.modules[__name__].__class__ = _Package
