"""Run inside a peer's environment: every comparison with that peer, one JSON line each.

Started by `benchmarks.peers` as ``python -m peers.worker PEER ...`` with this folder's parent on the path, so that the
lrgittins it imports is the one installed beside the peer.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import math
import os
import sys

ONE_THREAD = {
    "OPENBLAS_NUM_THREADS": "1",
    "OMP_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "NUMBA_NUM_THREADS": "1",
    "RAYON_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1",
    "JAX_PLATFORMS": "cpu",
}
DISTRIBUTIONS = {
    "arena-rank": "with_arena_rank",
    "choix": "with_choix",
    "evalica": "with_evalica",
    "arenakit": "with_arenakit",
    "scikit-learn": "with_scikit_learn",
    "banditeval": "with_banditeval",
    "numpy": "with_numpy_fft",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("peer", choices=DISTRIBUTIONS)
    parser.add_argument("--size", default="full")
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--budget", type=float, default=math.inf, help="CPU seconds that the peer's runs of one row may take together")
    parser.add_argument("--kinds", default="", help="comma-separated kinds of rows; default all")
    arguments = parser.parse_args()
    os.environ.update(ONE_THREAD)
    from .inputs import SIZES
    from .timing import measured

    module = importlib.import_module(f".{DISTRIBUTIONS[arguments.peer]}", __package__)
    kinds = set(filter(None, arguments.kinds.split(",")))
    versions = {name: importlib.metadata.version(name) for name in (arguments.peer, "lrgittins", "numpy")}
    for case in module.cases(SIZES[arguments.size]):
        if kinds and case.kind not in kinds:
            continue
        print(f"{arguments.peer}: {case.work} ...", file=sys.stderr, flush=True)
        for row in measured(case, arguments.repeats, arguments.budget):
            print(json.dumps({"peer": arguments.peer, "versions": versions, "size": arguments.size, **row}), flush=True)


if __name__ == "__main__":
    main()
