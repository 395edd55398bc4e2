"""Count a large Parquet file of votes, beside DuckDB's own GROUP BY: ``python benchmarks/streaming/count_votes.py votes.parquet``.

Both run in turn, ``--rounds`` times, each in a process of its own with one thread (``--threads`` for DuckDB). Printed are the best wall and
CPU time of each (imports left out, the JIT warm), the peak resident memory of the process, and whether the counts agree.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

for variable in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(variable, "1")
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

COLUMNS = ("task", "model_a", "model_b", "winner")


class Clock:
    """Wall and CPU seconds of a block, and the largest resident size of the process so far."""

    def __enter__(self) -> Clock:
        self.start, self.cpu = time.perf_counter(), time.process_time()
        return self

    def __exit__(self, *_: object) -> None:
        self.start, self.cpu = time.perf_counter() - self.start, time.process_time() - self.cpu

    def report(self, **more: Any) -> None:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
        print(json.dumps({"wall": self.start, "cpu": self.cpu, "peak": peak, **more}))


def count_ours(path: Path, cluster: str | None) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    import lrgittins as lg

    pa.set_cpu_count(1)
    pa.set_io_thread_count(1)
    with pq.ParquetFile(path) as file:
        first = next(file.iter_batches(batch_size=20_000))
    small = pa.Table.from_batches([first] * 2)
    lg.Comparisons.from_frame(small.to_reader(5_000), cluster=cluster)  # compiles
    base = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024.0
    with Clock() as clock:
        votes = lg.Comparisons.read(path, cluster=cluster)
    counts = votes.counts
    clock.report(base=base, rows=votes.n, cells=len(counts), ties=int(counts["ties"].sum()))


def count_duckdb(path: Path, threads: int, cluster: str | None) -> None:
    import duckdb

    connection = duckdb.connect(config={"threads": threads})
    names = ", ".join([*COLUMNS, *([cluster] if cluster else [])])
    with Clock() as clock:
        table = connection.sql(f"SELECT {names}, count(*) AS n FROM read_parquet('{path}') GROUP BY ALL").to_arrow_table()
    rows = sum(table.column("n").to_pylist())
    tied = sum(n for word, n in zip(table.column("winner").to_pylist(), table.column("n").to_pylist(), strict=True) if "tie" in word)
    pairs = {
        (task, min(a, b), max(a, b))
        for task, a, b in zip(*(table.column(name).to_pylist() for name in ("task", "model_a", "model_b")), strict=True)
    }
    clock.report(base=0.0, rows=rows, cells=len(pairs), ties=tied)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("file", type=Path)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=1, help="of DuckDB; ours has one")
    parser.add_argument("--cluster", help="column of clusters")
    parser.add_argument("--side", choices=("ours", "duckdb"), help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.side == "ours":
        return count_ours(options.file, options.cluster)
    if options.side == "duckdb":
        return count_duckdb(options.file, options.threads, options.cluster)
    results: dict[str, list[dict[str, Any]]] = {"ours": [], "duckdb": []}
    for number in range(options.rounds):
        for side, found in results.items():
            command = [sys.executable, __file__, str(options.file), "--side", side, "--threads", str(options.threads)]
            command += ["--cluster", options.cluster] if options.cluster else []
            found.append(json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout))
            last = found[-1]
            print(f"round {number}: {side:6} {last['wall']:8.2f} s wall {last['cpu']:8.2f} s CPU, peak {last['peak']:6.0f} MB", flush=True)
    best = {side: {key: min(run[key] for run in runs) for key in ("wall", "cpu")} for side, runs in results.items()}
    ours, theirs = results["ours"][0], results["duckdb"][0]
    same = all(ours[key] == theirs[key] for key in ("rows", "cells", "ties"))
    print(f"{ours['rows']} rows into {ours['cells']} cells; both count the same rows, cells and ties: {same}")
    for side, label in (("ours", "ours, one thread"), ("duckdb", f"DuckDB GROUP BY, {options.threads} thread(s)")):
        print(f"{label}: {best[side]['wall']:.2f} s wall, {best[side]['cpu']:.2f} s CPU, peak {results[side][0]['peak']:.0f} MB")
    print("ratio ours / DuckDB: " + ", ".join(f"{best['ours'][key] / best['duckdb'][key]:.2f} {key}" for key in ("wall", "cpu")))
    return None


if __name__ == "__main__":
    main()
