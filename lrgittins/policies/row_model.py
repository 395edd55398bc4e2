"""The Gaussian process over whole rows, by BoTorch; the only place that loads torch, and only when a model is fitted."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lrgittins._optional import import_optional, require_optional
from lrgittins.errors import ConvergenceWarning

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

EXTRA = "bo"
MODULES = ("torch", "gpytorch", "botorch")
NOISE_VARIANCE = 1e-6  # of a row mean, unit scale: rows are known exactly, this keeps the matrix regular
MIN_SPREAD = 1e-8  # `Standardize` does not divide by less; a model of equal rows would be certain that all arms are equal

# Thread count and random state of torch belong to the process, not to one policy.
_TORCH = threading.Lock()


def require_model(purpose: str) -> None:
    """`MissingExtraError` where the libraries of the extra are absent; loads none of them."""
    require_optional(*MODULES, extra=EXTRA, purpose=purpose)


def fit_rows(codes: IntArray, rows: IntArray, values: FloatArray, *, seed: int) -> tuple[FloatArray, FloatArray]:
    """Fit a `MixedSingleTaskGP` to the known row means and predict those of all arms.

    Parameters
    ----------
    codes : ndarray of int64, shape (K, d)
        Categorical features of every arm.
    rows : ndarray of int64, shape (n,)
        Arms whose row mean is known.
    values : ndarray of float64, shape (n,)
        Their row means, unit scale.
    seed : int
        Of torch's generator during the fit, which draws from it where a first start fails.

    Returns
    -------
    mean : ndarray, shape (K,)
    covariance : ndarray, shape (K, K)
        Posterior of the row means, unit scale.

    Warns
    -----
    ConvergenceWarning
        The hyperparameters could not be fitted; the prediction uses the ones that BoTorch starts from.
    """
    with _TORCH, _quiet():
        mean, covariance, problem = _fit(codes, rows, values, seed)
    if problem is not None:
        warnings.warn(
            f"the Gaussian process over arms could not be fitted to {len(rows)} rows ({problem}); this step uses the "
            "hyperparameters that the fit starts from",
            ConvergenceWarning,
            stacklevel=2,
        )
    return mean, covariance


def _fit(codes: IntArray, rows: IntArray, values: FloatArray, seed: int) -> tuple[FloatArray, FloatArray, Exception | None]:
    """`fit_rows` with what went wrong instead of a warning."""

    def module(name: str) -> Any:
        return import_optional(name, extra=EXTRA, purpose="a Gaussian process over arms")

    torch, models, transforms = module("torch"), module("botorch.models"), module("botorch.models.transforms")
    optimize, errors, mlls = module("botorch.fit"), module("botorch.exceptions.errors"), module("gpytorch.mlls")
    features = torch.tensor(codes, dtype=torch.float64)
    known = features[torch.tensor(rows)]
    observed = torch.tensor(values, dtype=torch.float64)[:, None]

    def build() -> Any:
        return models.MixedSingleTaskGP(
            known, observed, cat_dims=list(range(codes.shape[1])), train_Yvar=torch.full_like(observed, NOISE_VARIANCE),
            outcome_transform=transforms.Standardize(m=1),
        )  # fmt: skip

    problem: Exception | None = None
    with _reproducible(torch, seed):
        model = build()
        try:
            optimize.fit_gpytorch_mll(mlls.ExactMarginalLogLikelihood(model.likelihood, model))
        except errors.ModelFittingError as error:
            problem, model = error, build()
        model.eval()
        with torch.no_grad():
            posterior = model.posterior(features)
            mean = posterior.mean[:, 0].numpy().copy()
            covariance = posterior.distribution.covariance_matrix.numpy().copy()
    return mean, covariance, problem


@contextlib.contextmanager
def _reproducible(torch: Any, seed: int) -> Iterator[None]:
    """One thread (the matrices are small, and sums then do not depend on the machine) and a random state of our own."""
    n_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(n_threads)


@contextlib.contextmanager
def _quiet() -> Iterator[None]:
    """Without what these libraries say about each other (deprecations) and about starts that they repeat themselves."""
    with warnings.catch_warnings():
        for library in MODULES + ("linear_operator",):
            warnings.filterwarnings("ignore", module=rf"{library}(\.|$)")
        yield
