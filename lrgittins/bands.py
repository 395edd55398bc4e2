"""Simultaneous bands and declared signs for families of gaps (Algorithm 3), without forming the influence matrix."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ._kernels.bootstrap import reduce_max
from ._noise import ScoreNoise
from ._outcomes import FloatArray, IntArray
from ._random import RandomState, seed_sequence
from ._roots import symmetric_root
from ._threads import one_blas_thread
from ._validation import check_alpha, check_choice, check_int, code_of
from .errors import ParameterError
from .order_statistics import RankCounts, order_counts
from .scales import check_scale

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .inference import GapInference

METHODS = ("max-t", "step-down", "order-statistic", "one-sided")
FAMILIES = ("cell", "model", "task", "all")
MAX_DRAWS = 10**6  # a critical value's Monte Carlo error is then below .01; more would only fill the memory
_KEPT_BYTES = 2**29  # joint draws up to this size are kept; larger ones are drawn again, the same, at each pass
_TASK_CHUNK = 2000  # draws of one task made at once; fixed, so that results never depend on memory
_TASK_STREAM, _JOINT_STREAM = 0, 1


# ------------------------------------------------------------------------------------------------------ families


@dataclass(frozen=True)
class Family:
    """A parsed family: its kind, and the claims as codes ((task, model), model, task or () each)."""

    kind: str
    claims: tuple[tuple[int, ...], ...]
    single: bool
    name: str | tuple[str, ...]


def parse_family(family: Any, tasks: pd.Index, models: pd.Index) -> Family:
    """Check a family argument; the message lists what is understood."""
    if isinstance(family, str) and family == "all":
        return Family("all", ((),), True, "all")
    if isinstance(family, str) and family in FAMILIES:
        n_tasks, n_models = len(tasks), len(models)
        claims: tuple[tuple[int, ...], ...]
        if family == "cell":
            claims = tuple((t, m) for t in range(n_tasks) for m in range(n_models))
        else:
            claims = tuple((i,) for i in range(n_models if family == "model" else n_tasks))
        return Family(family, claims, False, family)
    if isinstance(family, (tuple, list)) and len(family) >= 2 and isinstance(family[0], str):
        kind, *names = family
        if kind == "cell" and len(names) == 2:
            claim: tuple[int, ...] = (code_of(names[0], tasks, "task"), code_of(names[1], models, "model"))
            return Family("cell", (claim,), True, ("cell", *map(str, names)))
        if kind in ("model", "task") and len(names) == 1:
            claim = (code_of(names[0], models if kind == "model" else tasks, kind),)
            return Family(kind, (claim,), True, (kind, str(names[0])))
    raise ParameterError(
        f"unknown family {family!r}; use ('cell', task, model), 'cell', ('model', model), 'model', ('task', task), 'task' or 'all'"
    )


def claim_gaps(kind: str, claim: tuple[int, ...], n_tasks: int, n_models: int) -> tuple[IntArray, IntArray, IntArray]:
    """The gaps (task, first, second) a claim is about; one model's gaps run against all others, else every pair appears once."""
    if kind in ("cell", "model"):
        model = claim[-1]
        others = np.delete(np.arange(n_models), model)
        tasks = np.array([claim[0]]) if kind == "cell" else np.arange(n_tasks)
        return np.repeat(tasks, n_models - 1), np.full(len(tasks) * (n_models - 1), model), np.tile(others, len(tasks))
    first, second = np.triu_indices(n_models, 1)
    tasks = np.array([claim[0]]) if kind == "task" else np.arange(n_tasks)
    return np.repeat(tasks, len(first)), np.tile(first, len(tasks)), np.tile(second, len(tasks))


# --------------------------------------------------------------------------------------------------------- draws


class NoiseDraws:
    """Draws of the score noise: inside one task from its covariance, or of all tasks jointly.

    There are two streams, and a claim's draws are a prefix of one of them: they depend neither on the other claims nor,
    inside a task, on the other tasks. All single-task claims use the same normals (each claim is one statement of its own).
    """

    def __init__(self, noise: ScoreNoise, n_draws: int, random_state: RandomState) -> None:
        root = seed_sequence(random_state)
        key = tuple(root.spawn_key)
        self._streams = [np.random.SeedSequence(root.entropy, spawn_key=(*key, stream)) for stream in (_TASK_STREAM, _JOINT_STREAM)]
        self._noise = noise
        self.n_draws = n_draws
        self._normals: list[FloatArray] | None = None
        self._joint: list[FloatArray] | None = None
        self._last: tuple[int, list[FloatArray]] | None = None

    def of_task(self, task: int) -> list[FloatArray]:
        """Chunks (1, n_models, size) for one task; the last task's are kept, as its claims come one after another."""
        if self._last is not None and self._last[0] == task:
            return self._last[1]
        covariance = self._noise.task_covariance[task]
        if self._normals is None:
            rng = np.random.default_rng(self._streams[_TASK_STREAM])
            sizes = [min(_TASK_CHUNK, self.n_draws - start) for start in range(0, self.n_draws, _TASK_CHUNK)]
            self._normals = [np.ascontiguousarray(rng.standard_normal((size, len(covariance))).T) for size in sizes]
        root = symmetric_root(covariance)
        self._last = task, [(root @ normals)[None] for normals in self._normals]
        return self._last[1]

    def joint(self) -> Iterable[FloatArray]:
        """Chunks (n_tasks, n_models, size)."""
        if self._joint is not None:
            return self._joint
        n_tasks, n_models = self._noise.task_covariance.shape[:2]
        if 8 * n_tasks * n_models * self.n_draws <= _KEPT_BYTES:
            self._joint = list(self._make_joint())
            return self._joint
        return _Again(self)

    def _make_joint(self) -> Iterator[FloatArray]:
        return self._noise.joint_draws(np.random.default_rng(self._streams[_JOINT_STREAM]), self.n_draws)


class _Again:
    """Joint draws too large to keep: every pass makes them anew from the same seed."""

    def __init__(self, draws: NoiseDraws) -> None:
        self._draws = draws

    def __iter__(self) -> Iterator[FloatArray]:
        return self._draws._make_joint()


def stratum_maxima(
    draws: Iterable[FloatArray], task: IntArray, first: IntArray, second: IntArray, inverse_se: FloatArray, stratum: IntArray, n_strata: int
) -> FloatArray:
    """Largest |studentised gap| of each stratum in each draw, shape (n_strata, n_draws)."""
    parts = []
    order = np.argsort(stratum, kind="stable")
    arrays = task[order], first[order], second[order], inverse_se[order], stratum[order]
    for chunk in draws:
        out = np.zeros((n_strata, chunk.shape[2]))
        reduce_max(chunk, *arrays, out)
        parts.append(out)
    return np.concatenate(parts, axis=1)


def upper_quantile(values: FloatArray, alpha: float) -> float:
    """The (1 - alpha) quantile, linearly interpolated as numpy's default does (at a fraction of its overhead)."""
    position = (len(values) - 1) * (1.0 - alpha)
    below = min(int(position), max(len(values) - 2, 0))
    above = min(below + 1, len(values) - 1)
    ordered = np.partition(values, [below, above])
    return float(ordered[below] + (position - below) * (ordered[above] - ordered[below]))


@dataclass(frozen=True, eq=False)
class Rejections:
    """Which gaps differ from 0, the single-step critical value and the one the step-down ended with."""

    rejected: np.ndarray
    critical_value: float
    final_critical_value: float


def reject(
    draws: Iterable[FloatArray],
    task: IntArray,
    first: IntArray,
    second: IntArray,
    statistic: FloatArray,
    inverse_se: FloatArray,
    alpha: float,
    method: str,
) -> Rejections:
    """Single-step max-t, or Romano-Wolf step-down: reject |T| > c, recompute c over the rest, repeat.

    For the step-down every gap's draws are reduced once, into strata of |T|: the maximum over the gaps with |T| <= c is
    that of the strata below c, and of the part of one more stratum, which is all that a further step computes anew.
    """
    size = np.abs(statistic)
    if len(size) == 0:
        return Rejections(np.zeros(0, dtype=bool), float("nan"), float("nan"))
    n_strata = 1 if method == "max-t" else min(24, 1 + len(size) // 256)
    edges = np.quantile(size, np.arange(1, n_strata) / n_strata)
    stratum = np.searchsorted(edges, size, side="left").astype(np.int64)
    maxima = np.maximum.accumulate(stratum_maxima(draws, task, first, second, inverse_se, stratum, n_strata), axis=0)
    single = upper_quantile(maxima[-1], alpha)
    critical, active = single, np.ones(len(size), dtype=bool)
    while method == "step-down":
        remaining = size <= critical
        if np.array_equal(remaining, active) or not remaining.any():
            break
        active = remaining
        cut = int(np.searchsorted(edges, critical, side="left"))
        partial = np.flatnonzero(active & (stratum == cut))
        largest = maxima[cut - 1] if cut else np.zeros(maxima.shape[1])
        if len(partial):
            zeros = np.zeros(len(partial), dtype=np.int64)
            again = stratum_maxima(draws, task[partial], first[partial], second[partial], inverse_se[partial], zeros, 1)
            largest = np.maximum(largest, again[0])
        critical = upper_quantile(largest, alpha)
    return Rejections(size > critical, single, critical)


# ------------------------------------------------------------------------------------------------------- results


@dataclass(frozen=True, eq=False)
class ClaimResult:
    """One claim: its gaps, their estimates, and what the method declares."""

    claim: tuple[int, ...]
    task: IntArray
    first: IntArray
    second: IntArray
    estimate: FloatArray
    std_error: FloatArray
    sign: np.ndarray
    critical_value: float
    final_critical_value: float
    counts: RankCounts | None = None  # order-statistic: bounds on the numbers above and below, which a rank needs


def evaluate_claims(inference: GapInference, family: Family, draws: NoiseDraws, alpha: float, method: str) -> Iterator[ClaimResult]:
    """Every claim of the family in turn; a gap without a finite, positive standard error is left out and never declared."""
    n_tasks, n_models = len(inference.tasks), len(inference.models)
    counts_only = method == "order-statistic"
    for claim in family.claims:
        counts = None
        task, first, second = claim_gaps(family.kind, claim, n_tasks, n_models)
        estimate = inference._estimates(task, first, second)
        error = inference._std_errors(task, first, second)
        sign = np.zeros(len(task), dtype=np.int8)
        critical = final = float("nan")
        if draws.n_draws > 0:
            usable = np.flatnonzero(np.isfinite(estimate) & np.isfinite(error) & (error > 0.0))
            inside_task = family.kind in ("cell", "task")
            chunks = draws.of_task(claim[0]) if inside_task else draws.joint()
            position = np.zeros(len(usable), dtype=np.int64) if inside_task else task[usable]
            inverse = 1.0 / error[usable]
            arrays = position, first[usable], second[usable], estimate[usable] * inverse, inverse
            found = reject(chunks, *arrays, alpha, "step-down" if method == "one-sided" else "max-t" if counts_only else method)
            critical, final = found.critical_value, found.final_critical_value
            declared = usable[found.rejected]
            if counts_only and len(usable):
                one_model = family.kind in ("cell", "model")
                counts, exceeds = order_counts(chunks, inside_task, task[usable], *arrays[1:], alpha, one_model=one_model)
                declared = usable[exceeds]
            sign[declared] = np.sign(estimate[declared]).astype(np.int8)
        yield ClaimResult(claim, task, first, second, estimate, error, sign, critical, final, counts)


def check_claim(tasks: pd.Index, models: pd.Index, family: Any, alpha: Any, method: Any, n_draws: Any) -> tuple[Family, float, str, int]:
    """Validate what `bands` and `certify` share; needs the labels only, so that it can come before any fit."""
    parsed = parse_family(family, tasks, models)
    alpha = check_alpha(alpha)
    method = check_choice(method, "method", METHODS)
    if method == "one-sided" and parsed.kind != "cell":
        raise ParameterError(
            f"method='one-sided' certifies one model on one task at a time (of its two claims at most one can be false), so it takes "
            f"family='cell' or ('cell', task, model), not {family!r}; for joint claims use method='step-down'"
        )
    return parsed, alpha, method, check_int(n_draws, "n_draws", low=0, high=MAX_DRAWS)


def check_band_arguments(inference: GapInference, family: Any, alpha: Any, method: Any, n_draws: Any) -> tuple[Family, float, str, int]:
    """`check_claim`, and a warning where the draws are too few for the level."""
    parsed, alpha, method, n_draws = check_claim(inference.tasks, inference.models, family, alpha, method, n_draws)
    if n_draws > 0 and n_draws * alpha < 20:
        warnings.warn(
            f"n_draws={n_draws} leaves {n_draws * alpha:g} draws beyond the level alpha={alpha:g}, too few for a steady critical value; "
            f"use n_draws={int(np.ceil(20 / alpha))} or more",
            UserWarning,
            stacklevel=5,
        )
    return parsed, alpha, method, n_draws


def collect_critical_values(values: list[float], family: Family, tasks: pd.Index, models: pd.Index) -> float | pd.Series:
    """A float for a single claim, else a Series indexed by the claims."""
    if family.single:
        return values[0]
    index: pd.Index
    if family.kind == "cell":
        index = pd.MultiIndex.from_product([tasks, models], names=["task", "model"])
    else:
        index = pd.Index(models if family.kind == "model" else tasks, name=family.kind)
    return pd.Series(values, index=index, name="critical_value")


@dataclass(frozen=True, eq=False)
class GapBands:
    """Simultaneous bands of a family of gaps, and the signs the method declares.

    Attributes
    ----------
    critical_value : float, or Series with one value per claim
        Of the max-t band: low, high = estimate -/+ critical_value * std_error. NaN without draws or usable gaps.
    final_critical_value : float or Series
        What the step-down ended with (max-t: the same).
    alpha, family, method, n_draws, random_state
        As asked.
    """

    critical_value: float | pd.Series
    final_critical_value: float | pd.Series
    alpha: float
    family: str | tuple[str, ...]
    method: str
    n_draws: int
    random_state: int | None
    _frame: pd.DataFrame

    def to_frame(self, *, scale: str = "natural") -> pd.DataFrame:
        """Columns task, model, versus, estimate, low, high, sign.

        `low`, `high` are the max-t band of estimate = score(model) - score(versus); `sign` (-1, 0, 1) is what the method
        declares. Families of single models list each against all others; "task" and "all" list every pair once.
        With ``scale="elo"`` estimate, low and high are Elo points instead of log-odds.
        """
        units = check_scale(scale)
        out = self._frame.copy()
        if units.name != "natural":
            out[["estimate", "low", "high"]] = units.gap(out[["estimate", "low", "high"]])
        return out

    def plot(
        self, ax: Axes | None = None, *, model: str | None = None, task: str | None = None, scale: str = "natural", max_gaps: int = 60
    ) -> Any:
        """Forest plot of one model's gaps with their bands (needs the extra ``plot``); see `plots.forest`.

        Parameters
        ----------
        ax : matplotlib Axes, optional
        model, task : str, optional
            Whose gaps, and on which task; needed where the bands are about several.
        scale : {"natural", "elo"}
        max_gaps : int, default 60
            More than so many gaps are an error that says how to narrow them.

        Returns
        -------
        Axes
        """
        from .plots.forest import plot_forest

        return plot_forest(self, ax, model=model, task=task, scale=scale, max_gaps=max_gaps)


@one_blas_thread
def make_bands(inference: GapInference, family: Any, *, alpha: float, method: str, n_draws: int, random_state: RandomState) -> GapBands:
    """See `GapInference.bands`."""
    from .inference import check_rows

    if method == "one-sided":
        raise ParameterError(
            "method='one-sided' needs a K and gives certificates, not bands: use certify(top_k, family='cell', method='one-sided')"
        )
    parsed, alpha, method, n_draws = check_band_arguments(inference, family, alpha, method, n_draws)
    n_tasks, n_models = len(inference.tasks), len(inference.models)
    per_claim = {
        "cell": n_models - 1,
        "model": n_tasks * (n_models - 1),
        "task": n_models * (n_models - 1) // 2,
        "all": n_tasks * n_models * (n_models - 1) // 2,
    }[parsed.kind]
    narrower = {"cell": "family=('cell', task, model)", "model": "family=('model', model)"}.get(parsed.kind, "family=('task', task)")
    check_rows(len(parsed.claims), per_claim, f"bands({family!r})", narrower)
    draws = NoiseDraws(inference._noise, n_draws, random_state)
    results = list(evaluate_claims(inference, parsed, draws, alpha, method))
    width = np.concatenate([result.critical_value * result.std_error for result in results])
    estimate = np.concatenate([result.estimate for result in results])
    frame = pd.DataFrame(
        {
            "task": inference.tasks.take(np.concatenate([result.task for result in results])),
            "model": inference.models.take(np.concatenate([result.first for result in results])),
            "versus": inference.models.take(np.concatenate([result.second for result in results])),
            "estimate": estimate,
            "low": estimate - width,
            "high": estimate + width,
            "sign": np.concatenate([result.sign for result in results]).astype(np.int64),
        }
    )
    error = np.concatenate([result.std_error for result in results])
    unbounded = (np.isinf(error) | (error == 0.0)) & (n_draws > 0)  # no variance estimate is no information either
    frame.loc[unbounded, "low"] = -np.inf
    frame.loc[unbounded, "high"] = np.inf
    labels = inference.tasks, inference.models
    return GapBands(
        collect_critical_values([result.critical_value for result in results], parsed, *labels),
        collect_critical_values([result.final_critical_value for result in results], parsed, *labels),
        alpha,
        parsed.name,
        method,
        n_draws,
        int(random_state) if isinstance(random_state, (int, np.integer)) else None,
        frame,
    )
