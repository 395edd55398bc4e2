"""Cross-fitted one-step scores of the low-rank model and their noise (Algorithm 2 of the paper)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from ._clusters import ClusterSums, sum_clusters
from ._kernels.influence import accumulate_influence
from ._kernels.logistic import logistic_terms
from ._noise import FoldNoise, LowRankNoise, ScoreNoise
from ._outcomes import Cells, FloatArray, IntArray, OutcomeTable
from ._parallel import run_blocks
from ._threads import one_blas_thread
from .convex import MEAN_RESIDUAL_VARIANCE
from .errors import ParameterError
from .folds import FoldSplit
from .sandwich import ScoreSums, inverse_blocks, sandwich_blocks
from .tangent import Arrowhead, ArrowheadFactor, TangentSpace

MAX_LAW_CELLS = 10**7
_SUSPICIOUS = 1e8  # a condition number from which null directions are looked for
_COARSE_RIDGE, _FINE_RIDGE = 1e-6, 1e-8  # shares of the blocks' scale; a null direction's variance differs a hundredfold
_LOOSE = 9.0  # training variance of a gap (standard error 3) from which its one-step leaves the range where a logistic curve is linear
_GROWTH = 1.1  # of a gap's variance between the two; a determined one grows by the ridge's share times the condition
_CLUSTER_BLOCK = 2048  # clusters expanded at once; fixed, so that sums never depend on memory


@dataclass(frozen=True, eq=False)
class FoldFacts:
    """What one fold's fit and solve looked like, for the diagnostics."""

    rank: int
    converged: bool
    condition: float
    looseness: float  # bound on the training data's variance of any gap
    ridge: float
    task_incoherence: float
    model_incoherence: float
    smallest_contrast: float
    signal_to_noise: float


@dataclass(frozen=True, eq=False)
class OneStep:
    """Debiased scores (n_tasks, n_models), how far they moved from the fits, their noise, and where the folds leave gaps undetermined.

    `determined` (n_tasks, n_models): inside a task, gaps between models with equal codes are determined by every training
    set; -1 for models without any data.
    """

    scores: FloatArray
    correction: FloatArray
    noise: ScoreNoise
    determined: IntArray
    facts: tuple[FoldFacts, ...]


def law_cells(table: OutcomeTable, training: Cells, design: str) -> Cells:
    """The cells of the design law with its probabilities as counts (section 3): per (task, unordered pair)."""
    if design == "empirical":
        return Cells(
            training.n_tasks, training.n_models, training.task, training.low, training.high, training.count / training.total, training.wins
        )
    n_tasks, n_models = table.n_tasks, table.n_models
    n_pairs = n_models * (n_models - 1) // 2
    if n_tasks * n_pairs > MAX_LAW_CELLS:
        raise ParameterError(
            f"design='uniform' spreads over {n_tasks} tasks x {n_pairs} pairs = {n_tasks * n_pairs} cells, more than {MAX_LAW_CELLS}; "
            "use design='empirical', which needs the observed cells only"
        )
    low, high = (index.astype(np.int64) for index in np.triu_indices(n_models, 1))
    probability = np.full(n_tasks * n_pairs, 1.0 / (n_tasks * n_pairs))
    task = np.repeat(np.arange(n_tasks, dtype=np.int64), n_pairs)
    return Cells(n_tasks, n_models, task, np.tile(low, n_tasks), np.tile(high, n_tasks), probability, np.zeros(len(task)))


def information(cells: Cells, scores: FloatArray) -> FloatArray:
    """law x I(gap) of every cell."""
    out = np.empty(len(cells.task))
    spare = np.empty((cells.n_tasks, cells.n_models))
    logistic_terms(cells.task, cells.low, cells.high, cells.count, cells.wins, np.ascontiguousarray(scores), spare, out)
    return out


def cross_fit(
    table: OutcomeTable, split: FoldSplit, estimator: Any, design: str, seen: IntArray, n_models: int, n_jobs: int = 1
) -> OneStep:
    """One-step scores of `table`, whose models are all seen; results are laid out on `n_models` columns, those of `seen`.

    `estimator._fit_table` is asked anew on every training set, so that each internal choice is cross-fitted too.
    """
    blocks = [(table, np.ascontiguousarray(counts), estimator, design) for counts in split.counts]
    names = [f"training set {fold} of {split.n_folds}" for fold in range(split.n_folds)]
    return _combine(table, run_blocks(_fit_fold, blocks, n_jobs, names), seen, n_models)


def full_data_step(table: OutcomeTable, fit: Any, design: str, seen: IntArray, n_models: int) -> OneStep:
    """As `cross_fit`, from one fit that has seen all of `table`: no cross-fitting, so its noise is right up to a scale at best."""
    cells = table.cells()
    return _combine(table, [FoldTerm.build(table, cells, cells, table.count, fit, design)], seen, n_models)


@one_blas_thread
def _fit_fold(table: OutcomeTable, own: IntArray, estimator: Any, design: str) -> FoldTerm:
    """The fit of everything but the comparisons `own`, and its one-step on these."""
    training = table.count - own
    fit = estimator._fit_table(table.with_counts(training))
    return FoldTerm.build(table, table.cells(), table.cells(training), own, fit, design)


def _combine(table: OutcomeTable, terms: Sequence[FoldTerm], seen: IntArray, n_models: int) -> OneStep:
    """The one-steps of all parts, added up in order."""
    n_total = float(table.count.sum())
    n_tasks = table.n_tasks
    scores = np.zeros((n_tasks, n_models))
    mean_influence = np.zeros((n_tasks, n_models))
    determined = np.full((n_tasks, n_models), -1, dtype=np.int64)
    determined[:, seen] = 0
    for term in terms:
        pairs = determined[:, seen] * len(seen) + term.determined
        determined[:, seen] = np.unique(pairs, return_inverse=True)[1].reshape(pairs.shape)
        share = float(term.count.sum()) / n_total
        scores[:, seen] += share * term.scores + term.correction / n_total
        mean_influence[:, seen] += term.correction / n_total
    covariance = np.zeros((n_tasks, n_models, n_models))
    folds = []
    for term in terms:
        right, right_perp = (np.zeros((n_models, basis.shape[1])) for basis in (term.space.right, term.space.right_perp))
        right[seen], right_perp[seen] = term.space.right, term.space.right_perp
        for some, blocks in term.task_covariances(mean_influence, right, right_perp):
            covariance[some] += blocks
        folds.append(FoldNoise(term.space.left, right, right_perp, term.factor, term.sums, n_total, term.count, term.residual))
    covariance *= 1.0 / n_total**2
    return OneStep(
        scores,
        mean_influence,
        _embed_noise(table, seen, n_models, tuple(folds), mean_influence, covariance),
        determined,
        tuple(term.facts for term in terms),
    )


def keep_offsets(step: OneStep, component: IntArray) -> FloatArray:
    """The scores of `step` without the part of its correction that moved components of models against each other.

    `component` (n_tasks, n_models): inside a task, gaps between models of equal codes have a finite standard error; -1 for models
    without any data. Across components a step is noise over nearly no information (two friendlies made a team best of the world by
    15), so that the fits' own, shrunken offsets stand. Gaps inside a component keep their step.
    """
    scores = step.scores.copy()
    for t, codes in enumerate(component):
        if (codes == codes[0]).all():
            continue
        classes, place, size = np.unique(codes, return_inverse=True, return_counts=True)
        if (classes >= 0).sum() > 1:
            offset = np.bincount(place, step.correction[t], len(classes)) / size
            scores[t] -= np.where(codes >= 0, offset[place], 0.0)
    return scores


def _embed_noise(
    table: OutcomeTable, seen: IntArray, n_models: int, folds: tuple[FoldNoise, ...], mean_influence: FloatArray, covariance: FloatArray
) -> LowRankNoise:
    full = OutcomeTable(
        table.n_tasks, n_models, table.task, seen[table.low], seen[table.high], table.outcome, table.count, cluster=table.cluster
    )
    return LowRankNoise(full, folds, mean_influence, covariance)


@dataclass(frozen=True, eq=False)
class FoldTerm:
    """One fold: the frame and the Fisher solve of its fit, and the sums over its own comparisons."""

    space: TangentSpace
    scores: FloatArray  # of the fit, (n_tasks, n_models)
    factor: ArrowheadFactor
    sums: ScoreSums
    correction: FloatArray  # mat(A^{-1} sum of s z), shape (n_tasks, n_models)
    count: IntArray
    residual: FloatArray
    determined: IntArray
    facts: FoldFacts

    @classmethod
    def build(
        cls,
        table: OutcomeTable,
        cells: Cells,
        training: Cells,
        fold_count: IntArray,
        fit: Any,
        design: str,
        known: FoldFacts | None = None,
    ) -> FoldTerm:
        """The one-step of the comparisons `fold_count` (n_groups,) of `table` at a fit of the cells `training`.

        `known` are the facts of a fit this one resembles (votes simulated from it): where that was far from singular, the condition
        is not estimated again, which costs as much as the step.
        """
        space = TangentSpace(np.ascontiguousarray(fit.left), np.ascontiguousarray(fit.right))
        scores = np.ascontiguousarray(fit.scores)
        law = law_cells(table, training, design)
        operator = Arrowhead.from_cells(space, law.task, law.low, law.high, information(law, scores))
        factor = operator.factor()
        trusted = known is not None and known.condition < 0.01 * _SUSPICIOUS
        facts = known if known is not None and trusted else _describe(fit, space, operator, factor, training.total)
        weight = fold_count.astype(np.float64)
        determined = np.zeros((table.n_tasks, table.n_models), dtype=np.int64)
        suspicious = factor.ridge > 0.0 or len(operator.deficient_tasks) or not facts.condition < _SUSPICIOUS
        if suspicious or not facts.looseness < (0.75 * _LOOSE if trusted else _LOOSE):
            coarse = None
            if suspicious:
                factor, coarse = (_ridged(operator, share).factor() for share in (_FINE_RIDGE, _COARSE_RIDGE))
            determined = _determined(space, coarse, factor, _LOOSE * training.total)
            # A comparison that bears on null directions says nothing about determined gaps; those it bears on are withheld.
            weight[determined[table.task, table.low] != determined[table.task, table.high]] = 0.0
        residual = np.empty(table.n_groups)
        gradient = np.zeros((table.n_tasks, table.n_models))
        accumulate_influence(table.task, table.low, table.high, table.outcome, weight, scores, residual, gradient)
        residual[weight == 0.0] = 0.0
        total = space.coords(gradient)
        sums = sum_clusters(table.cluster, table.cell_of_group, len(cells.task), weight, residual)
        moments = Arrowhead.from_cells(space, cells.task, cells.low, cells.high, sums.squares)
        squares = moments.dense() if suspicious else moments
        cross, size = total, float(fold_count.sum())
        if table.cluster is not None:
            squares = moments.dense() + _cluster_squares(space, sums, cells)
            unit_size = np.bincount(table.cluster, fold_count)
            spread = np.zeros_like(gradient)
            scaled = weight * residual * unit_size[table.cluster]
            np.add.at(spread, (table.task, table.low), scaled)
            np.add.at(spread, (table.task, table.high), -scaled)
            cross, size = space.coords(spread), float((unit_size**2).sum())
        correction = space.matrix(factor.solve(total))
        return cls(space, scores, factor, ScoreSums(squares, cross, size), correction, fold_count, residual, determined, facts)

    def task_covariances(self, mean: FloatArray, right: FloatArray, right_perp: FloatArray) -> Iterator[tuple[slice, FloatArray]]:
        """Covariance of the fold's sums less `mean` (n_tasks, n_models) each, inside some tasks at a time (see `CoordinateBlocks`).

        `right`, `right_perp` are the fold's frame, laid out as `FoldNoise` says.
        """
        left, sums = self.space.left, self.sums
        # Covariance of the entries with sum xi, (n_tasks, n_models).
        tasks_part, models_part = self.space.split(self.factor.solve(sums.cross))
        along = tasks_part @ right.T + left @ (models_part @ right_perp.T) - 0.5 * sums.size * mean
        for some, blocks in sandwich_blocks(self.factor, sums).task_covariances(left, right, right_perp):
            shift = mean[some, :, None] * along[some, None, :]
            blocks -= shift + shift.transpose(0, 2, 1)
            yield some, blocks


def _cluster_squares(space: TangentSpace, sums: ClusterSums, cells: Cells) -> FloatArray:
    """Sum over clusters of Z Z' (p, p), Z = sum over the cluster of s z, for clusters with several cells."""
    out = np.zeros((space.dimension, space.dimension))
    if sums.n_clusters == 0:
        return out
    from scipy.sparse import csr_array

    bounds = np.searchsorted(sums.cluster, np.arange(0, sums.n_clusters + _CLUSTER_BLOCK, _CLUSTER_BLOCK))
    for number, (start, stop) in enumerate(zip(bounds[:-1], bounds[1:], strict=True)):
        if start == stop:
            continue
        rows = np.repeat(sums.cluster[start:stop] - number * _CLUSTER_BLOCK, 2)
        n_rows = int(rows.max()) + 1
        cell = sums.cell[start:stop]
        task = np.repeat(cells.task[cell], 2)
        model = np.stack([cells.low[cell], cells.high[cell]], axis=1).ravel()
        value = np.stack([sums.total[start:stop], -sums.total[start:stop]], axis=1).ravel()
        parts = []
        for a in range(space.rank):
            projected = csr_array((value * space.right[model, a], (rows, task)), shape=(n_rows, space.n_tasks))
            parts.append(projected.toarray())
        tasks_part = np.stack(parts, axis=2).reshape(n_rows, -1)
        models_parts = [
            csr_array((value * space.left[task, a], (rows, model)), shape=(n_rows, space.n_models)) @ space.right_perp
            for a in range(space.rank)
        ]
        expanded = np.hstack([tasks_part, *models_parts])
        out += expanded.T @ expanded
    return out


def _describe(fit: Any, space: TangentSpace, operator: Arrowhead, factor: ArrowheadFactor, n_training: float) -> FoldFacts:
    n_tasks, rank = space.left.shape
    by_task = np.einsum("ta,ta->t", space.left, space.left)
    by_model = np.einsum("ma,ma->m", space.right, space.right)
    # |P_T e_t (e_a - e_b)'|^2 / 2 = (d + |u_t|^2 (2 - d)) / 2 with d = |v_a - v_b|^2: smallest in both, so no loop over gaps.
    inner = space.right @ space.right.T
    distance = by_model[:, None] + by_model[None, :] - 2.0 * inner
    closest = float(np.min(distance[~np.eye(len(distance), dtype=bool)], initial=2.0))
    smallest = max(closest, 0.0) + float(by_task.min()) * (2.0 - closest)
    # An entry seen in isolation has variance 1 / (pI 2n / (d_t d_m)); a noise matrix of that variance has this norm.
    noise = np.sqrt(n_tasks * space.n_models / (2.0 * n_training * MEAN_RESIDUAL_VARIANCE)) * (np.sqrt(n_tasks) + np.sqrt(space.n_models))
    condition, inverse_norm = _condition(operator, factor)
    return FoldFacts(
        rank=rank,
        converged=bool(fit.converged),
        condition=condition,
        looseness=2.0 * inverse_norm / n_training,  # a gap's coordinates have squared length at most 2
        ridge=float(factor.ridge),
        task_incoherence=float(by_task.max() * n_tasks / rank),
        model_incoherence=float(by_model.max() * space.n_models / rank),
        smallest_contrast=float(max(smallest, 0.0) / 2.0),
        signal_to_noise=float(fit.singular_values[-1] / noise),
    )


def _determined(space: TangentSpace, coarse: ArrowheadFactor | None, fine: ArrowheadFactor, largest: float) -> IntArray:
    """Which gaps the training data determine: inside a task, those between models with equal codes (n_tasks, n_models).

    `coarse`, `fine` are the operator factored with two ridges (`coarse` None: it has no null directions). A gap with any
    part in a null direction (a model seen on too few tasks, a task with too few pairs, pieces that never meet) has a variance
    that grows as the ridge falls; all others keep theirs. Sums of determined gaps are determined, so the relation has classes.
    So is a gap of a variance above `largest` left out: a one-step there divides by an information that is nearly 0.
    """
    variance = _gap_variances(space, fine)
    same = variance <= largest
    if coarse is not None:
        same &= variance <= _GROWTH * _gap_variances(space, coarse)
    index = np.arange(space.n_models)
    same[:, index, index] = True
    return np.argmax(same, axis=2).astype(np.int64)


def _gap_variances(space: TangentSpace, factor: ArrowheadFactor) -> FloatArray:
    """Variance of every gap inside every task (n_tasks, n_models, n_models) under the inverse of a factored operator."""
    parts = []
    for _, covariance in inverse_blocks(factor).task_covariances(space.left, space.right, space.right_perp):
        diagonal = np.einsum("tmm->tm", covariance)
        parts.append(diagonal[:, :, None] + diagonal[:, None, :] - 2.0 * covariance)
    return np.concatenate(parts)


def _ridged(operator: Arrowhead, share: float) -> Arrowhead:
    """The operator with a ridge of the given share of every block's own scale."""
    rank = operator.space.rank
    largest = np.linalg.eigvalsh(operator.blocks)[:, -1]
    typical = float(largest.mean())
    models = float(np.einsum("ii->i", operator.models_block).mean()) if operator.models_block.size else 0.0
    models = max(models, 1e-3 * typical, 1e-12)  # the law sums to 1: where nothing at all is known the inverse stays far from overflow
    return Arrowhead(
        operator.space,
        operator.blocks + share * np.maximum(largest, max(1e-3 * typical, 1e-12))[:, None, None] * np.eye(rank),
        operator.cross,
        operator.models_block + share * models * np.eye(len(operator.models_block)),
    )


def _condition(operator: Arrowhead, factor: ArrowheadFactor) -> tuple[float, float]:
    """Condition number in the 1-norm and |A^{-1}|, by Hager's estimate: a few solves, where eigenvalues would cost more than the fit."""
    coupling = np.abs(operator._coupling)
    task_columns = np.abs(operator.blocks).sum(axis=1).ravel() + coupling.sum(axis=1)
    model_columns = coupling.sum(axis=0) + np.abs(operator.models_block).sum(axis=0)
    largest = max(task_columns.max(initial=0.0), model_columns.max(initial=0.0))
    p = operator.space.dimension
    vector, norm = np.full(p, 1.0 / p), 0.0
    for _ in range(5):
        image = factor.solve(vector)
        norm = max(norm, float(np.abs(image).sum()))
        slope = factor.solve(np.where(image >= 0.0, 1.0, -1.0))
        best = int(np.argmax(np.abs(slope)))
        if np.abs(slope[best]) <= slope @ vector:
            break
        vector = np.zeros(p)
        vector[best] = 1.0
    return float(largest * norm), norm
