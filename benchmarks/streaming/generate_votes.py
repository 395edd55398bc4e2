"""Write a large file of votes in chunks: ``python benchmarks/streaming/generate_votes.py --rows 100000000 --out votes.parquet``.

Twenty tasks, one hundred models, four verdicts, all dictionary-encoded strings; the same seed and number of rows give the same file.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

WORDS = ("model_a", "model_b", "tie", "tie (bothbad)")
LAW = (0.42, 0.36, 0.15, 0.07)


def make_chunk(rng: np.random.Generator, rows: int, tasks: pa.Array, models: pa.Array, clusters: int) -> pa.Table:
    """One row group; every worth is the number of the model, so that a board of the file is not noise."""
    n_models = len(models)
    first = rng.integers(n_models, size=rows, dtype=np.int32)
    second = rng.integers(n_models - 1, size=rows, dtype=np.int32)
    second += second >= first
    verdict = np.searchsorted(np.cumsum(LAW)[:-1], rng.random(rows, dtype=np.float32)).astype(np.int32)
    better = (verdict <= 1) & (rng.random(rows, dtype=np.float32) < np.abs(first - second) / n_models)
    verdict[better] = (first < second)[better]
    task = rng.integers(len(tasks), size=rows, dtype=np.int32)
    columns = {
        "task": pa.DictionaryArray.from_arrays(task, tasks),
        "model_a": pa.DictionaryArray.from_arrays(first, models),
        "model_b": pa.DictionaryArray.from_arrays(second, models),
        "winner": pa.DictionaryArray.from_arrays(verdict, pa.array(WORDS)),
    }
    if clusters:
        columns["judge"] = pa.array(rng.integers(clusters, size=rows, dtype=np.int32))
    return pa.table(columns)


def write_votes(
    path: Path, rows: int, *, n_tasks: int = 20, n_models: int = 100, chunk: int = 1_000_000, seed: int = 0, clusters: int = 0
) -> None:
    rng = np.random.default_rng(seed)
    tasks = pa.array([f"task_{t:02d}" for t in range(n_tasks)])
    models = pa.array([f"vendor/model-{m:03d}-instruct" for m in range(n_models)])
    writer = None
    try:
        for start in range(0, rows, chunk):
            table = make_chunk(rng, min(chunk, rows - start), tasks, models, clusters)
            writer = pq.ParquetWriter(path, table.schema, compression="snappy") if writer is None else writer
            writer.write_table(table, row_group_size=chunk)
    finally:
        if writer is not None:
            writer.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--tasks", type=int, default=20)
    parser.add_argument("--models", type=int, default=100)
    parser.add_argument("--clusters", type=int, default=0, help="judges in a further integer column; 0 for none")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    start = time.perf_counter()
    write_votes(options.out, options.rows, n_tasks=options.tasks, n_models=options.models, seed=options.seed, clusters=options.clusters)
    print(f"{options.out}: {options.rows} rows, {options.out.stat().st_size / 1e6:.0f} MB, {time.perf_counter() - start:.0f} s")


if __name__ == "__main__":
    main()
