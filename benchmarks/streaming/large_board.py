"""Time and peak memory of a whole board of a large latent problem: ``python benchmarks/streaming/large_board.py``.

The default is 200 tasks x 300 models of rank 5 with 2,000,000 simulated votes and a claim per task; ``--tasks``, ``--models``,
``--rank``, ``--votes`` take any other size, ``--fit`` stops after the fit (1,000 x 1,000, rank 10, say) and ``--intake`` after the
counts (2,000 x 2,000 with 5,000 votes). One BLAS thread and one numba thread; votes are made before the clock starts, and a small
board first, so that nothing is compiled inside.
"""

from __future__ import annotations

import argparse
import os
import resource
import sys
import time
from pathlib import Path

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import numpy as np  # noqa: E402

import lrgittins as lg  # noqa: E402
from lrgittins.simulate import low_rank_scores, simulate_comparisons  # noqa: E402


def peak_mb() -> float:
    """Largest resident size of this process so far."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0


def sparse_intake(n_tasks: int, n_models: int, votes: int, seed: int) -> None:
    """Votes one by one into counts, without a board."""
    rng = np.random.default_rng(seed)
    tasks = np.array([f"task_{t:05d}" for t in range(n_tasks)], dtype=object)
    models = np.array([f"model_{m:05d}" for m in range(n_models)], dtype=object)
    first = rng.integers(n_models, size=votes)
    second = (first + rng.integers(1, n_models, size=votes)) % n_models
    columns = tasks[rng.integers(n_tasks, size=votes)], models[first], models[second], rng.integers(2, size=votes)
    lg.Comparisons.from_arrays(*(column[:100] for column in columns))
    before, start = peak_mb(), time.process_time()
    counted = lg.Comparisons.from_arrays(*columns, tasks=list(tasks), models=list(models))
    print(f"intake of {counted.n} votes: {time.process_time() - start:.2f} s of CPU, {peak_mb() - before:.1f} MB above {before:.0f} MB")
    before, start = peak_mb(), time.process_time()
    counted.summary()
    print(f"summary: {time.process_time() - start:.2f} s of CPU, {peak_mb() - before:.1f} MB above")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", type=int, default=200)
    parser.add_argument("--models", type=int, default=300)
    parser.add_argument("--rank", type=int, default=5)
    parser.add_argument("--votes", type=int, default=2_000_000)
    parser.add_argument("--family", default="task")
    parser.add_argument("--calibration", default="auto")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--fit", action="store_true", help="the low-rank fit alone, without inference")
    parser.add_argument("--intake", action="store_true", help="counts only, from one row a vote")
    parser.add_argument("--profile", action="store_true", help="print where the time goes")
    options = parser.parse_args()
    if options.intake:
        sparse_intake(options.tasks, options.models, options.votes, options.seed)
        return
    truth = low_rank_scores(options.tasks, options.models, options.rank, random_state=options.seed)
    lg.leaderboard(simulate_comparisons(low_rank_scores(4, 8, 2), 4000), rank=2, family=options.family, calibration=options.calibration)
    votes = simulate_comparisons(truth, options.votes, random_state=options.seed + 1)
    print(f"{options.tasks} tasks x {options.models} models, rank {options.rank}, {votes.n} votes in {len(votes.counts)} cells", flush=True)
    before, start, cpu = peak_mb(), time.perf_counter(), time.process_time()
    profiler = None
    if options.profile:
        import cProfile

        profiler = cProfile.Profile(time.process_time)
        profiler.enable()
    if options.fit:
        fit = lg.LowRankBradleyTerry(rank=options.rank).fit(votes)
    else:
        board = lg.leaderboard(votes, rank=options.rank, family=options.family, calibration=options.calibration)
    elapsed, cpu = time.perf_counter() - start, time.process_time() - cpu
    if profiler is not None:
        import pstats

        profiler.disable()
        pstats.Stats(profiler).sort_stats("tottime").print_stats(25)
    taken = f"{elapsed:.1f} s ({cpu:.1f} s of CPU), peak {peak_mb():.0f} MB ({before:.0f} MB before)"
    if options.fit:
        error = fit.scores_.to_numpy() - truth.to_numpy()
        print(f"fit: {taken}, converged {fit.converged_}, {fit.n_iter_} steps, root mean square error {np.sqrt((error**2).mean()):.4f}")
        return
    frame = board.to_frame()
    counted = frame["certificate"].value_counts().to_dict()
    print(f"whole board: {taken}, {len(frame)} rows, {counted}")


if __name__ == "__main__":
    main()
