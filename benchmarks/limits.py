"""Every hot path against what the machine could do: ``python -m benchmarks.limits --write docs/performance_limits.md``.

For each path the flops, bytes or calls it cannot do without are counted from its sizes, divided by the rates that `machine`
measures, and set against the time it takes. One thread, CPU time, best of several runs.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

for _variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_variable, "1")
for _variable in ("OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"):  # they make a current OpenBLAS slow
    os.environ.pop(_variable, None)

import click  # noqa: E402
import numpy as np  # noqa: E402

import lrgittins as lg  # noqa: E402
from benchmarks.machine import RATES, best_time, measure  # noqa: E402
from benchmarks.peers.table import ratio_text, span, write_tables  # noqa: E402
from lrgittins._kernels.bootstrap import reduce_max  # noqa: E402
from lrgittins._kernels.logistic import logistic_terms  # noqa: E402
from lrgittins._kernels.newton import solve_bradley_terry, solve_factor_rows  # noqa: E402
from lrgittins._kernels.order_statistics import fill_order_statistics  # noqa: E402
from lrgittins._kernels.tally import count_codes  # noqa: E402
from lrgittins._root_methods import PANEL_LEVELS, fill_roots  # noqa: E402
from lrgittins.batch_schedule import batch_sizes  # noqa: E402
from lrgittins.convex import shrink_singular_values  # noqa: E402
from lrgittins.one_step import full_data_step, information  # noqa: E402
from lrgittins.root_schedule import transition_std  # noqa: E402
from lrgittins.simulate import low_rank_scores, simulate_comparisons  # noqa: E402
from lrgittins.tangent import Arrowhead, TangentSpace  # noqa: E402


@dataclass(frozen=True)
class HotPath:
    """One hot path: what it must do (amount by rate), how to run it, and the share of the limit wanted."""

    name: str
    size: str
    needs: dict[str, float]
    run: Callable[[], object]
    wanted: float | None = None


@dataclass(frozen=True)
class Sizes:
    """Sizes of the inputs; the defaults are those of the documentation, the tests use tiny ones."""

    rows: int = 8_000_000
    shape: tuple[int, int] = (50, 50)
    large_shape: tuple[int, int] = (200, 300)
    votes: int = 32_000
    large_votes: int = 2_000_000
    rank: int = 5
    draws: int = 2000
    matrix: tuple[int, int] = (122, 1000)
    elements: int = 16_000_000


TINY = Sizes(20_000, (4, 6), (6, 12), 400, 2000, 2, 20, (5, 40), 20_000)


def aggregation(sizes: Sizes) -> Iterator[HotPath]:
    """Reads four int32 codes a row, 16 bytes; the table of counts (0.1 MB, 2.4 MB) stays in the second- or third-level cache."""
    rng = np.random.default_rng(0)
    n, n_models = sizes.rows, 100
    for n_tasks in (1, 20):
        codes = [rng.integers(n_tasks, size=n), rng.integers(n_models, size=n)]
        codes += [(codes[1] + rng.integers(1, n_models, size=n)) % n_models, rng.integers(3, size=n)]
        columns = [code.astype(np.int32) for code in codes]
        for column in columns:
            column.setflags(write=False)
        arguments = (*columns, (n_tasks, n_models, n_models, 3), 1, n, np.zeros(3 * n_tasks * n_models**2, dtype=np.int32))
        yield HotPath(
            "aggregation of coded columns", f"{n:,} rows, {n_tasks} x {n_models} models", {"read": 16.0 * n},
            lambda arguments=arguments: count_codes(*arguments), 0.5,
        )  # fmt: skip


def score_equations(sizes: Sizes) -> Iterator[HotPath]:
    """One exponential and one logarithm a cell and evaluation; a row's Newton step also 2 r^2 + 6 r flops a cell."""
    n_tasks, n_models = sizes.shape
    votes = simulate_comparisons(low_rank_scores(n_tasks, n_models, sizes.rank), 100 * n_tasks * n_models**2)
    cells = votes._table.cells()
    n = len(cells.task)
    scores = np.zeros((n_tasks, n_models))
    gradient, info = np.empty_like(scores), np.empty(n)
    shape = f"{n_tasks} x {n_models}"
    yield HotPath(
        "gradient and information", f"{shape}, {n:,} cells", {"exp": n, "log1p": n},
        lambda: logistic_terms(cells.task, cells.low, cells.high, cells.count, cells.wins, scores, gradient, info),
    )  # fmt: skip
    right = np.linalg.qr(np.random.default_rng(0).standard_normal((n_models, sizes.rank)))[0]
    indptr = np.searchsorted(cells.task, np.arange(n_tasks + 1)).astype(np.int64)
    status, iterations = np.empty(n_tasks, dtype=np.int64), np.empty(n_tasks, dtype=np.int64)
    offset = np.zeros(n)

    def rows() -> None:
        start = np.zeros((n_tasks, sizes.rank))
        solve_factor_rows(indptr, cells.low, cells.high, right, offset, cells.count, cells.wins, 1e-6, 1e-8, 50, start, status, iterations)

    rows()
    work = float(((iterations + 1) * np.diff(indptr)).sum())
    yield HotPath(
        "score equations of the task factors", f"{shape}, rank {sizes.rank}",
        {"exp": work, "log1p": work, "flops": work * (2 * sizes.rank**2 + 6 * sizes.rank)}, rows,
    )  # fmt: skip
    pieces, ridge = np.zeros((n_tasks, n_models), dtype=np.int64), np.full(n_tasks, 1e-6)
    norm, objective = np.empty(n_tasks), np.empty(n_tasks)

    def plain() -> None:
        solve_bradley_terry(
            indptr, cells.low, cells.high, cells.count, cells.wins, pieces, ridge, 1e-8, 200, scores, status, iterations, norm, objective
        )

    plain()
    work = float(((iterations + 1) * np.diff(indptr)).sum())
    yield HotPath(
        "per-task Bradley-Terry fits", shape,
        {"exp": work, "log1p": work, "flops": float(iterations.sum()) * n_models**3 / 3.0}, plain,
    )  # fmt: skip


def initializer(sizes: Sizes) -> Iterator[HotPath]:
    """Gram matrix 2 d^2 D, eigenvectors 9 d^3 (Golub and Van Loan), rebuilding 4 d D k; d <= D, k kept directions (here a tenth)."""
    rng = np.random.default_rng(0)
    for small, large in (sizes.shape, sizes.large_shape):
        matrix = rng.standard_normal((small, large))
        singular = np.linalg.svd(matrix, compute_uv=False)
        kept = max(1, small // 10)
        threshold = float(singular[kept - 1] + singular[min(kept, small - 1)]) / 2.0
        d, big = min(small, large), max(small, large)
        yield HotPath(
            "singular values of the initializer", f"{small} x {large}", {"flops": 2.0 * d * d * big + 9.0 * d**3 + 4.0 * d * big * kept},
            lambda matrix=matrix, threshold=threshold: shrink_singular_values(matrix, threshold),
        )  # fmt: skip


def build_flops(n_tasks: int, n_models: int, rank: int, n_cells: int) -> float:
    """Combined weights, their projection on Vp from both sides, the coupling; 3 r a cell for L V."""
    q, pairs = n_models - 1 - rank, rank * (rank + 1) // 2
    combined = 2.0 * n_tasks * pairs * n_models**2
    projected = 2.0 * pairs * (n_models * n_models * q + n_models * q * q)
    return combined + projected + 2.0 * n_tasks * rank * n_models * q + n_cells * 3.0 * rank


def factor_flops(n_tasks: int, n_models: int, rank: int) -> float:
    """Whitened blocks, the coupling, its Gram matrix (half of it), the Cholesky factor of the Schur complement."""
    q = n_models - 1 - rank
    m, k = rank * q, n_tasks * rank
    return n_tasks * (rank**3 / 3.0 + rank * rank * q) + float(k) * m + float(m) * m * k + m**3 / 3.0


def arrowhead(sizes: Sizes) -> Iterator[HotPath]:
    for (n_tasks, n_models), votes, wanted in ((sizes.shape, sizes.votes, None), (sizes.large_shape, sizes.large_votes, 0.5)):
        truth = low_rank_scores(n_tasks, n_models, sizes.rank)
        cells = simulate_comparisons(truth, votes)._table.cells()
        left, _, right = np.linalg.svd(truth.to_numpy(), full_matrices=False)
        space = TangentSpace(np.ascontiguousarray(left[:, : sizes.rank]), np.ascontiguousarray(right[: sizes.rank].T))
        weight = information(cells, np.ascontiguousarray(truth.to_numpy())) / cells.total
        space.right_perp  # noqa: B018  (cached, as every further use of a fit finds it)

        def build(space: TangentSpace = space, cells: object = cells, weight: np.ndarray = weight) -> Arrowhead:
            return Arrowhead.from_cells(space, cells.task, cells.low, cells.high, weight)  # type: ignore[attr-defined]

        operator = build()
        operator.deficient_tasks  # noqa: B018
        shape = f"{n_tasks} x {n_models}, rank {sizes.rank}"
        yield HotPath("arrowhead, build", shape, {"flops": build_flops(n_tasks, n_models, sizes.rank, len(cells.task))}, build)
        yield HotPath("arrowhead, factor", shape, {"flops": factor_flops(n_tasks, n_models, sizes.rank)}, operator.factor, wanted)


def inference(sizes: Sizes) -> Iterator[HotPath]:
    """One-step of one fold; draws; reductions.

    One-step: two builds and a factorisation, then, with m = r q coordinates of X and k = r n_tasks of the tasks, the inverse of the
    Schur complement (2 m^3 / 3), its product with the squares from both sides (4 m^3), three products of k x m with m x m or back
    (2 k m^2 each) and every task's block of the covariance.
    Draws: p + 1 normals and a triangular product (p + 1)^2 a draw and fold, then the expansion to all entries.
    Largest gap: two reads a gap and draw, and of the running maximum one and a write for every four gaps, in the cache. Order
    statistics: two reads and two writes an exchange and draw.
    """
    n_tasks, n_models = sizes.shape
    votes = simulate_comparisons(low_rank_scores(n_tasks, n_models, sizes.rank), sizes.votes)
    table = votes._table
    estimator = lg.LowRankBradleyTerry(rank=sizes.rank, disconnected="allow")
    fit = estimator._fit_table(table)
    seen = np.arange(n_models)
    rank, q = fit.left.shape[1], n_models - 1 - fit.left.shape[1]
    m, k = rank * q, rank * n_tasks
    p = m + k
    shape = f"{n_tasks} x {n_models}, rank {rank}"
    pairs = rank * (rank + 1) // 2
    blocks = 2.0 * pairs * (n_models * q * q + n_models**2 * q) + 2.0 * n_tasks * n_models**2 * (pairs + rank)
    flops = 2 * build_flops(n_tasks, n_models, rank, table.n_groups) + factor_flops(n_tasks, n_models, rank)
    flops += 2.0 * m**3 / 3.0 + 4.0 * m**3 + 6.0 * k * m * m + blocks
    yield HotPath("one-step and its covariance", shape, {"flops": flops}, lambda: full_data_step(table, fit, "empirical", seen, n_models))
    noise = full_data_step(table, fit, "empirical", seen, n_models).noise
    draws = sizes.draws
    expansion = 2.0 * n_models * q * rank + 4.0 * n_tasks * rank * n_models
    yield HotPath(
        "bootstrap draws", f"{shape}, {draws:,} draws of one fold",
        {"normals": draws * (p + 1.0), "flops": draws * ((p + 1.0) ** 2 + expansion)},
        lambda: [None for _ in noise.joint_draws(np.random.default_rng(0), draws)],
    )  # fmt: skip
    chunk = np.ascontiguousarray(next(iter(noise.joint_draws(np.random.default_rng(0), min(draws, 250)))))
    first, second = (np.tile(index, n_tasks) for index in np.triu_indices(n_models, 1))
    task = np.repeat(np.arange(n_tasks), n_models * (n_models - 1) // 2)
    scale, stratum, out = np.ones(len(task)), np.zeros(len(task), dtype=np.int64), np.zeros((1, chunk.shape[2]))
    yield HotPath(
        "largest studentised gap", f"{len(task):,} gaps x {chunk.shape[2]} draws", {"cache": 20.0 * len(task) * chunk.shape[2]},
        lambda: reduce_max(chunk, task, first, second, scale, stratum, out),
    )  # fmt: skip
    of_task = np.random.default_rng(0).standard_normal((n_models, draws))
    others, kept = np.arange(1, n_models), np.empty((min(8, n_models - 1), draws))
    exchanges = count_exchanges(n_models - 1)
    yield HotPath(
        "order statistics", f"{n_models - 1} gaps x {draws:,} draws, {exchanges} exchanges",
        {"cache": draws * (32.0 * exchanges + 24.0 * (n_models - 1))},
        lambda: fill_order_statistics(of_task, 0, others, np.ones(n_models - 1), kept),
    )  # fmt: skip


def count_exchanges(n: int) -> int:
    """Comparisons of Batcher's merge exchange of n rows."""
    count, p = 0, 1
    while p < n:
        k = p
        while k >= 1:
            for j in range(k % p, n - k, 2 * k):
                count += sum((i + j) // (2 * p) == (i + j + k) // (2 * p) for i in range(min(k, n - j - k)))
            k //= 2
        p *= 2
    return count


def selection(sizes: Sizes) -> Iterator[HotPath]:
    """Root schedule: two flops and 24 bytes a pair of nodes within the band of a stage. Replay: order and score of every cell asked."""
    n_arms, n_examples = sizes.matrix
    b, level = 8, 1
    batch = batch_sizes(n_examples, b)
    std = transition_std(
        batch, np.cumsum(batch) - batch, n_examples=n_examples, prior_variance=0.04, noise_variance=0.25, target="empirical"
    )
    cost, batch = np.array([1e-4]), batch.astype(np.float64)

    def roots() -> object:
        found, gaps = np.full((1, len(std)), np.nan), np.empty(1)
        return fill_roots(cost, batch, std, level, 1e-6, False, found, gaps)

    values = roots()
    settings = PANEL_LEVELS[level]
    pairs = 0.0
    for stage in range(1, len(std) - 1):
        width = values.widths[stage + 1]  # type: ignore[attr-defined]
        in_band = min(values.lengths[stage + 1], 2.0 * settings.band * std[stage] / width * settings.n_nodes)  # type: ignore[attr-defined]
        pairs += values.lengths[stage] * in_band  # type: ignore[attr-defined]
    yield HotPath("root schedule, one level", f"N = {n_examples}, B = {b}, {len(std)} stages", {"cache": 24.0 * pairs}, roots)
    scores = (np.random.default_rng(0).random((n_arms, n_examples)) < 0.5).astype(float)
    responses = lg.ResponseMatrix.from_array(scores)
    policy = lg.GittinsPolicy(**responses.policy_arguments())
    cells = float(lg.replay(responses, policy, budget=0.10).to_frame()["n"].sum())

    def run() -> object:
        return lg.replay(responses, lg.GittinsPolicy(**responses.policy_arguments()), budget=0.10)

    yield HotPath("replay of a tenth", f"{n_arms} x {n_examples}, {cells:,.0f} cells", {"read": 16.0 * cells}, run)


def paths(sizes: Sizes) -> Iterator[HotPath]:
    for part in (aggregation, score_equations, initializer, arrowhead, inference, selection):
        yield from part(sizes)


def limit(path: HotPath, rates: dict[str, float]) -> float:
    """Seconds that the necessary work takes at the machine's rates, one after the other."""
    return sum(amount / rates[name] for name, amount in path.needs.items())


def rate_table(rates: dict[str, float]) -> str:
    lines = ["| rate | measured | what |", "| --- | --- | --- |"]
    lines += [f"| {name} | {rates[name] / 1e9:.3g} G/s | {what} |" for name, what in RATES.items()]
    return "\n".join(lines)


def path_table(results: list[tuple[HotPath, float, float]]) -> str:
    """Rows of (path, seconds at the limit, seconds measured)."""
    lines = ["| path | size | limited by | at the limit | measured | share | wanted |", "| --- | --- | --- | --- | --- | --- | --- |"]
    for path, least, measured in results:
        wanted = "" if path.wanted is None else f"{path.wanted:g}" + (" **missed**" if least / measured < path.wanted else "")
        needs = " + ".join(path.needs)
        lines.append(
            f"| {path.name} | {path.size} | {needs} | {span(least)} | {span(measured)} | {ratio_text(least / measured)} | {wanted} |"
        )
    return "\n".join(lines)


@click.command(help="Hot paths against the machine's measured rates.")
@click.option("--rounds", default=7, show_default=True, type=click.IntRange(1), help="Runs of every path; the best counts.")
@click.option("--only", default="", help="Paths whose name contains this.")
@click.option("--tiny", is_flag=True, help="Small inputs, to see that it works.")
@click.option("--write", type=click.Path(path_type=Path, exists=True), help="File with the table's markers.")
def main(rounds: int, only: str, tiny: bool, write: Path | None) -> None:
    sizes = TINY if tiny else Sizes()
    rates = measure(sizes.elements, rounds)
    click.echo(rate_table(rates) + "\n")
    results = []
    for path in paths(sizes):
        if only in path.name:
            results.append((path, limit(path, rates), best_time(path.run, rounds)))
            click.echo(path_table(results[-1:]).splitlines()[-1], err=True)
    click.echo(path_table(results))
    if write is not None:
        write_tables(write, {"limits:rates": rate_table(rates), "limits:paths": path_table(results)})


if __name__ == "__main__":
    main()
