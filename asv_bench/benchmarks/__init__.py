"""Benchmarks. Threads are pinned before numpy loads, so that the quick path measures what the pinned environments do."""

import os

for _name in ("OPENBLAS_NUM_THREADS", "OMP_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS"):
    os.environ.setdefault(_name, "1")
