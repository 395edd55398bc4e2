"""Fits and replays in forked workers and in thread pools, after the parent has used the library: the same bits everywhere."""

from __future__ import annotations

import os

import _common as common

CODE = """
import hashlib, multiprocessing, sys
from concurrent.futures import ThreadPoolExecutor
import numpy as np
import lrgittins as lg
from lrgittins.simulate import low_rank_scores, simulate_comparisons
votes = simulate_comparisons(low_rank_scores(4, 12, 2), 3_000)
responses = lg.ResponseMatrix.from_array(np.random.default_rng(0).random((6, 40)))
def job(_=None):
    scores = lg.LowRankBradleyTerry(rank=2).fit(votes).scores_.to_numpy()
    trace = lg.replay(responses, "gittins", budget=0.5).to_frame()["arm"].to_numpy()
    roots = lg.root_schedule(1.0, n_examples=40, batch_size=8, cost_scale=1e-3, method="fft").roots
    return hashlib.sha256(scores.tobytes() + trace.tobytes() + roots.tobytes()).hexdigest()
before = job()
with multiprocessing.get_context("fork").Pool(2) as pool:
    forked = set(pool.map_async(job, range(4)).get(300))
with ThreadPoolExecutor(4) as pool:
    threaded = set(pool.map(job, range(8)))
assert forked == threaded == {before}, (before, forked, threaded)
print(before == job())
"""


def main() -> None:
    if not hasattr(os, "fork"):
        raise common.Skip("no fork here")
    assert common.run(["-c", CODE]).stdout.strip() == "True"


if __name__ == "__main__":
    common.finish(main)
