"""Square roots of covariances."""

from __future__ import annotations

import numpy as np
import scipy.linalg

from ._outcomes import FloatArray


def symmetric_root(covariance: FloatArray) -> FloatArray:
    """The symmetric square root of a positive semidefinite matrix (..., m, m): unique, so it turns with the labels."""
    values, vectors = np.linalg.eigh(covariance)
    floor = 1e-15 * covariance.shape[-1] * np.maximum(values[..., -1:], 0.0)
    roots = np.sqrt(np.where(values > floor, values, 0.0))
    return (vectors * roots[..., None, :]) @ np.swapaxes(vectors, -1, -2)


def semidefinite_root(matrix: FloatArray) -> FloatArray:
    """A lower triangular L with L L' = matrix, in Fortran order; a singular matrix gets a jitter of 1e-13 of its diagonal, or more.

    What varies by less than 1e-12 of the largest standard deviation does not vary: its entries are rounding, which divided by
    their own scale would look like correlations above 1 and call for a jitter of that size on everything.

    Raises
    ------
    numpy.linalg.LinAlgError
        Not even the whole diagonal once more makes it definite: it is nobody's covariance.
    """
    try:
        return np.asfortranarray(scipy.linalg.cholesky(matrix, lower=True, check_finite=False))
    except np.linalg.LinAlgError:
        pass
    diagonal = np.einsum("ii->i", matrix)
    varies = diagonal > 1e-24 * diagonal.max(initial=0.0)
    if (diagonal < -1e-10 * diagonal.max(initial=0.0)).any():
        raise np.linalg.LinAlgError("a negative variance")
    scale = np.sqrt(np.where(varies, diagonal, 1.0))
    correlation = matrix / scale / scale[:, None]
    correlation[~varies] = 0.0
    correlation[:, ~varies] = 0.0
    correlation[~varies, ~varies] = 1.0
    scale[~varies] = 0.0
    jitter = 0.0
    while True:
        step = max(1e-13, 9.0 * jitter)
        np.einsum("ii->i", correlation)[...] += step
        jitter += step
        if not jitter < 1.0:
            raise np.linalg.LinAlgError("no root even with the whole diagonal added")
        try:
            root = scipy.linalg.cholesky(correlation, lower=True, check_finite=False)
        except np.linalg.LinAlgError:
            continue
        return np.asfortranarray(root * scale[:, None])


def apply_root(root: FloatArray, normals: FloatArray) -> FloatArray:
    """root @ normals.T for a lower triangular root in Fortran order: half the cost of a full product."""
    return scipy.linalg.blas.dtrmm(1.0, root, normals.T, side=0, lower=1)
