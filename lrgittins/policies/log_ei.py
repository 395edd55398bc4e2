"""LogEI and LogEI per cost: expected improvement of whole rows under a Gaussian process."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from .base import locked
from .bayes_opt import BayesOptPolicy, log_improvement

if TYPE_CHECKING:
    import pandas as pd

FloatArray = NDArray[np.float64]


class LogEI(BayesOptPolicy):
    """Evaluates the whole row with the largest log expected improvement over the best row observed; cost-blind.

    Has no stopping rule: `should_stop` stays False. Ignores prices when it chooses (they are charged, and `max_cost` is
    kept), and the scores inside a row until the row is complete. The logarithm is computed as such, so that arms are
    still told apart where the expected improvement underflows. Needs the extra ``bo``.

    Parameters
    ----------
    arms, n_examples, features, max_cost, warmup, examples, missing, cost, batch_size, example_order, tie_break, score_range, \
on_error, max_retries, random_state
        As for `PandoraGittins`.

    Notes
    -----
    In `posterior`, `index` is the log expected improvement, of scores in their own units; -inf for complete rows.

    References
    ----------
    .. [1] Ament et al. (2023), Unexpected improvements to expected improvement for Bayesian optimization, arXiv 2310.20708.
    """

    def _rate(self, mean: FloatArray, std: FloatArray, best: float, cost: FloatArray) -> FloatArray:
        return log_improvement(mean, std, best)

    def _index_of_known(self, values: FloatArray) -> FloatArray:
        return np.full(len(values), -np.inf)

    @locked
    def posterior(self) -> pd.DataFrame:
        """One row per arm, as for every policy; `index` is a logarithm here, and unit scale turns into score units by adding."""
        frame = super().posterior()
        frame["index"] = self._columns()["index"] + math.log(self.score_range[1] - self.score_range[0])
        return frame


class LogEIPerCost(LogEI):
    """`LogEI` minus the log of the row's expected cost: improvement per unit of money. Free rows come first.

    Parameters, notes and the missing stopping rule are those of `LogEI`; `index` contains ``-log(cost)``, raw units.
    """

    def _rate(self, mean: FloatArray, std: FloatArray, best: float, cost: FloatArray) -> FloatArray:
        value = log_improvement(mean, std, best)
        paid = cost > 0.0
        return np.where(paid, value - np.log(np.where(paid, cost, 1.0)), np.inf)
