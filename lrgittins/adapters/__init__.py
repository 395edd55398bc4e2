"""Votes and scores as other tools write them: `Comparisons` from vote files, `ResponseMatrix` from evaluation logs."""

from .alpaca_eval import from_alpaca_eval
from .arena import from_arena_rank, from_lmarena
from .lm_eval import from_lm_eval_samples

__all__ = ["from_alpaca_eval", "from_arena_rank", "from_lm_eval_samples", "from_lmarena"]
