"""`infer_gaps`: from votes to a `GapInference`, with the calibration that fits the votes."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._build_inference import infer_low_rank, infer_wald
from ._parallel import check_jobs
from ._random import RandomState, as_generator
from ._threads import one_blas_thread
from ._validation import check_choice, check_comparisons, check_int
from .bradley_terry import PerTaskBradleyTerry, PooledBradleyTerry
from .errors import ParameterError
from .inference import GapInference
from .low_rank import LowRankBradleyTerry

if TYPE_CHECKING:
    from .comparisons import Comparisons

MAX_SPLITS = 1000
CALIBRATIONS = ("auto", "cross-fit", "parametric")
N_FOLDS = 6
DESIGNS = ("empirical", "uniform")


@one_blas_thread
def infer_gaps(
    comparisons: Comparisons,
    estimator: Any = None,
    *,
    n_folds: int | None = None,
    n_splits: int = 1,
    design: str = "empirical",
    calibration: str = "auto",
    n_refits: int | None = None,
    n_jobs: int = 1,
    random_state: RandomState = 0,
) -> GapInference:
    """Estimate all score gaps with standard errors and their joint law.

    Parameters
    ----------
    comparisons : Comparisons
    estimator : LowRankBradleyTerry, PerTaskBradleyTerry or PooledBradleyTerry, optional
        Default ``LowRankBradleyTerry()``: debiased one-step scores, calibrated as `calibration` says. With a single task, which
        has nothing to share, it is the plain fit with the plain fit's inference.
        The other two give Wald inference with robust (sandwich) variances on all data, without folds.
    n_folds : int, optional
        Folds of the cross-fitting, 6 by default: balanced by (task, pair); whole clusters go to one fold.
    n_splits : int, default 1
        Repeated cross-fitting: the mean over this many independent splits into folds, so that the result depends less on one
        split. Estimates are averaged; so are covariances, which is on the safe side (the covariance of a mean is at most the
        mean of the covariances). Diagnostic "split_spread" says how far the splits lie apart. Time grows in proportion.
    design : {"empirical", "uniform"}, default "empirical"
        Law of the Fisher operator: cell frequencies of the training folds, or uniform over tasks and pairs.
    calibration : {"auto", "cross-fit", "parametric"}, default "auto"
        For low-rank fits. "cross-fit" is the paper's: every fold's one-step is made at a fit of the other folds, the estimator
        asked anew, rank and all. "parametric" makes the one-step at one fit of all data, without folds, and multiplies every
        task's standard errors by what refits of votes simulated from the fit show to be right; it is outside the paper's
        theory, takes the rank as given, and simulates votes as independent. "auto" is the one whose simultaneous bands were
        measured to cover best (and are narrower, see the studies): "parametric", except where votes come in clusters, where
        the estimator does not polish, or where `n_folds` or `n_splits` ask for cross-fitting.
    n_refits : int, optional
        Simulated data sets of the parametric calibration. By default so many that models (with votes) times refits reach 1,500,
        between 10 and 30: a task's factor is as well known from 10 data sets of 150 models as from 30 of 50.
    n_jobs : int, default 1
        Worker processes (joblib; -1 for all cores) for the training sets or the refits of the low-rank fit; under
        ``joblib.parallel_config(backend="dask")`` they go to the cluster, whatever it says. Results do not depend on it, to the bit.
        Pays where one fit takes a second or more.
    random_state : int, Generator, SeedSequence or None, default 0
        Of the folds, or of the simulated votes.

    Raises
    ------
    ParameterError
        An argument outside its meaning.
    ComparisonError
        Fewer comparisons (or clusters) than folds.
    NotIdentifiableError
        As the estimator's `fit`.
    WorkerError
        With several jobs, worker processes died again and again.

    Warns
    -----
    ConvergenceWarning
        A fit stopped before it met its tolerance.

    References
    ----------
    .. [1] "Low Rank for Rank", arXiv 2605.29395, Algorithm 2.
    """
    asked_for_folds = n_folds is not None
    n_folds = check_int(N_FOLDS if n_folds is None else n_folds, "n_folds", low=2)
    n_splits = check_int(n_splits, "n_splits", low=1, high=MAX_SPLITS)
    design = check_choice(design, "design", DESIGNS)
    calibration = check_choice(calibration, "calibration", CALIBRATIONS)
    n_refits = None if n_refits is None else check_int(n_refits, "n_refits", low=1)
    n_jobs = check_jobs(n_jobs)
    rng = as_generator(random_state)
    seed = int(random_state) if isinstance(random_state, (int, np.integer)) else None
    estimator = LowRankBradleyTerry() if estimator is None else estimator
    if not isinstance(estimator, (LowRankBradleyTerry, PerTaskBradleyTerry, PooledBradleyTerry)):
        raise ParameterError(
            f"estimator must be a LowRankBradleyTerry, PerTaskBradleyTerry or PooledBradleyTerry instance, got {estimator!r:.100}"
        )
    check_comparisons(comparisons)
    estimator._check_params()
    estimator._check_identifiable(comparisons)
    low_rank = isinstance(estimator, LowRankBradleyTerry)
    if calibration == "auto":
        clustered = comparisons._table.cluster is not None
        unmeasured = clustered or not getattr(estimator, "polish", False)
        folds = not low_rank or asked_for_folds or n_splits > 1 or unmeasured or comparisons.n < n_folds
        calibration = "cross-fit" if folds else "parametric"
    if asked_for_folds and calibration == "parametric":
        raise ParameterError(f"calibration='parametric' uses all data without folds; leave n_folds={n_folds} out, or use 'cross-fit'")
    if n_splits > 1 and (calibration == "parametric" or not low_rank):
        made = "calibration='parametric'" if calibration == "parametric" else f"{type(estimator).__name__}'s Wald inference"
        raise ParameterError(f"n_splits={n_splits} repeats cross-fitting, but {made} uses all data without folds; leave n_splits at 1")
    if low_rank:
        return infer_low_rank(comparisons, estimator, n_folds, n_splits, design, calibration, n_refits, rng, seed, n_jobs)
    if calibration != "cross-fit":
        raise ParameterError(
            f"calibration={calibration!r} is for low-rank fits; {type(estimator).__name__} has Wald inference on all data, which needs none"
        )
    return infer_wald(comparisons, estimator, isinstance(estimator, PooledBradleyTerry), seed)
