"""Blockwise covariances of tangent coordinates against dense linear algebra."""

from __future__ import annotations

import numpy as np
import pytest

import lrgittins as lg
from lrgittins._roots import semidefinite_root
from lrgittins.polish import factorise
from lrgittins.sandwich import CoordinateBlocks, ScoreSums, inverse_blocks, joint_covariance, sandwich_blocks
from lrgittins.tangent import Arrowhead, TangentSpace

pytestmark = pytest.mark.oracle


@pytest.fixture(params=[(4, 7, 1), (6, 5, 2), (9, 12, 4), (5, 4, 3)], ids=str)
def problem(request):
    """A factored operator, another one with the same frame, a vector: of tasks x models of a rank (the last leaves X empty)."""
    n_tasks, n_models, rank = request.param
    rng = np.random.default_rng(n_tasks)
    scores = rng.standard_normal((n_tasks, n_models))
    factors = factorise(scores - scores.mean(axis=1, keepdims=True), rank)
    space = TangentSpace(factors.left, factors.right)
    low, high = (index.astype(np.int64) for index in np.triu_indices(n_models, 1))
    task = np.repeat(np.arange(n_tasks, dtype=np.int64), len(low))
    cells = task, np.tile(low, n_tasks), np.tile(high, n_tasks)
    fisher, squares = (Arrowhead.from_cells(space, *cells, rng.random(len(task))) for _ in range(2))
    return space, fisher, squares, rng.standard_normal(space.dimension)


def test_blocks_of_the_inverse(problem):
    space, fisher, _, _ = problem
    wanted = CoordinateBlocks.from_dense(np.linalg.inv(fisher.dense()), space.n_tasks, space.rank)
    found = inverse_blocks(fisher.factor())
    for name in ("own", "coupling", "models"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=1e-9 * np.abs(wanted.own).max())


@pytest.mark.parametrize("dense", [False, True], ids=["arrowhead", "dense"])
def test_sandwich_in_blocks_and_whole(problem, dense):
    space, fisher, squares, cross = problem
    cross = squares.dense() @ cross  # inside the range of the squares, so that all second moments are those of something
    size = float(cross @ np.linalg.solve(squares.dense(), cross)) + 1.0
    inverse = np.linalg.inv(fisher.dense())
    matrix = inverse @ squares.dense() @ inverse
    tolerance = 1e-9 * np.abs(matrix).max()
    sums = ScoreSums(squares.dense() if dense else squares, cross, size)
    wanted = CoordinateBlocks.from_dense(matrix, space.n_tasks, space.rank)
    found = sandwich_blocks(fisher.factor(), sums)
    for name in ("own", "coupling", "models"):
        np.testing.assert_allclose(getattr(found, name), getattr(wanted, name), rtol=0, atol=tolerance)
    joint = joint_covariance(fisher.factor(), sums)
    np.testing.assert_allclose(joint[:-1, :-1], matrix, rtol=0, atol=tolerance)
    np.testing.assert_allclose(joint[-1, :-1], inverse @ cross, rtol=1e-7)
    np.testing.assert_allclose(joint, joint.T, rtol=0, atol=1e-12 * np.abs(joint).max())
    assert joint[-1, -1] == pytest.approx(size)


def test_covariance_of_a_tasks_scores(problem):
    """Against the expansion e_t (right D_t + right_perp X' u_t) written out entry by entry."""
    space, fisher, squares, cross = problem
    inverse = np.linalg.inv(fisher.dense())
    matrix = inverse @ squares.dense() @ inverse
    basis = space.matrix(np.eye(space.dimension))  # (p, n_tasks, n_models): what each coordinate adds to the scores
    blocks = sandwich_blocks(fisher.factor(), ScoreSums(squares, cross, 1.0))
    chunks = [found for _, found in blocks.task_covariances(space.left, space.right, space.right_perp)]
    for t, found in enumerate(np.concatenate(chunks)):
        wanted = basis[:, t].T @ matrix @ basis[:, t]
        np.testing.assert_allclose(found, wanted, rtol=0, atol=1e-9 * np.abs(wanted).max())


def test_no_variance_stays_none_in_joint_covariances():
    """Ties only: no score varies, and the jitter that gives their joint covariance a root is no variance of theirs."""
    rng = np.random.default_rng(0)
    first = rng.integers(0, 7, 2000)
    second = (first + rng.integers(1, 7, 2000)) % 7
    votes = lg.Comparisons.from_arrays(rng.integers(0, 5, 2000).astype(str), first.astype(str), second.astype(str), np.full(2000, 0.5))
    inference = lg.infer_gaps(votes, lg.LowRankBradleyTerry(rank=2), calibration="cross-fit", n_folds=3)
    assert np.abs(inference.covariance([("0", "1", "2"), ("3", "1", "2"), ("4", "0", "6")])).max() < 1e-16


def test_a_root_that_cannot_be_ends():
    with pytest.raises(np.linalg.LinAlgError):
        semidefinite_root(np.diag([-3.0, 1.0, 1.0]))
    with pytest.raises(np.linalg.LinAlgError):
        semidefinite_root(np.array([[1.0, 3.0], [3.0, 1.0]]))


def test_rounding_in_what_does_not_vary_leaves_the_rest_alone():
    """One cluster, seen by coordinates of which one is 0 up to rounding: the others' variances must not grow by a jitter."""
    vector = np.array([0.5, 1e-17, 0.64, -1.0, 0.0, 13.0])
    matrix = np.outer(vector, vector)
    matrix[0, 1] = matrix[1, 0] = -5.2e-17
    root = semidefinite_root(matrix)
    np.testing.assert_array_equal(root[[1, 4]], 0.0)
    np.testing.assert_allclose(root @ root.T, np.outer(vector, vector), atol=1e-10)
    np.testing.assert_array_equal(semidefinite_root(np.zeros((3, 3))), 0.0)
