"""Slow, obvious solvers written from the formulas, for the tests."""

from __future__ import annotations

import numpy as np
from scipy.optimize import minimize


def maximise_bradley_terry(n_models, low, high, count, wins, ridge=0.0):
    """Scores of one task by scipy, sum fixed to 0 by parametrising in the centred subspace."""
    basis = np.linalg.qr(np.hstack([np.ones((n_models, 1)), np.eye(n_models)[:, 1:]]))[0][:, 1:]

    def negative(z):
        theta = basis @ z
        gap = theta[low] - theta[high]
        value = -(wins * gap - count * np.logaddexp(0.0, gap)).sum() + 0.5 * ridge * (theta**2).sum()
        residual = wins - count / (1.0 + np.exp(-gap))
        gradient = np.zeros(n_models)
        np.add.at(gradient, low, residual)
        np.add.at(gradient, high, -residual)
        return value, -(basis.T @ gradient) + ridge * z

    result = minimize(negative, np.zeros(n_models - 1), jac=True, method="BFGS", options={"gtol": 1e-10, "maxiter": 10_000})
    return basis @ result.x


def log_likelihood(table, scores):
    """Sum over groups of y gap - log(1 + e^gap), literally."""
    gap = scores[table.task, table.low] - scores[table.task, table.high]
    return float((table.count * (table.outcome * gap - np.logaddexp(0.0, gap))).sum())


def log_likelihood_gradient(table, scores):
    """Gradient (n_tasks, n_models) of the above, one comparison group at a time."""
    gradient = np.zeros_like(scores)
    for t, i, j, y, n in zip(table.task, table.low, table.high, table.outcome, table.count, strict=True):
        residual = n * (y - 1.0 / (1.0 + np.exp(-(scores[t, i] - scores[t, j]))))
        gradient[t, i] += residual
        gradient[t, j] -= residual
    return gradient
