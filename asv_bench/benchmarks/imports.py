"""Import and first calls, each in a fresh process."""

from __future__ import annotations

import subprocess
import sys
import time

FIRST_BOARD = "import lrgittins as lg; from lrgittins.datasets import load_llmfao; lg.leaderboard(load_llmfao())"
TWO_MODELS = (
    "import lrgittins as lg; votes = lg.Comparisons.from_arrays(None, ['A'] * 10, ['B'] * 10, [1] * 7 + [0] * 3); "
    "lg.infer_gaps(votes, lg.PerTaskBradleyTerry()).gap('all', 'A', 'B')"
)
FIRST_REPLAY = (
    "import lrgittins as lg, numpy as np; rng = np.random.default_rng(0); "
    "scores = (rng.random((56, 805)) < rng.uniform(0.2, 0.8, (56, 1))).astype(float); "
    "lg.replay(lg.ResponseMatrix.from_array(scores), 'gittins')"
)
# A cache folder of its own makes a call stone cold.
COLD = "import os, tempfile; folder = tempfile.TemporaryDirectory(); os.environ['NUMBA_CACHE_DIR'] = folder.name; "


class Import:
    """`import lrgittins` beside `import numpy`, interpreter start left out by asv's timer."""

    number, repeat, rounds, warmup_time = 1, 10, 1, 0

    def timeraw_lrgittins(self) -> str:
        return "import lrgittins"

    def timeraw_numpy(self) -> str:
        return "import numpy"

    def timeraw_all_of_ranking(self) -> str:
        return "import lrgittins; lrgittins.leaderboard"

    def timeraw_command_line(self) -> str:
        return "import lrgittins.cli"


class FirstCall:
    """The first result of a new process, with every kernel to compile and with all of them in the cache."""

    number, repeat, rounds, warmup_time = 1, 3, 1, 0
    timeout = 600

    def setup(self) -> None:
        for code in (FIRST_BOARD, TWO_MODELS, FIRST_REPLAY):
            subprocess.run([sys.executable, "-c", code], check=True)

    def timeraw_board_cached(self) -> str:
        return FIRST_BOARD

    def timeraw_board_cold(self) -> str:
        return COLD + FIRST_BOARD

    def timeraw_two_models_cached(self) -> str:
        return TWO_MODELS

    def timeraw_two_models_cold(self) -> str:
        return COLD + TWO_MODELS

    def timeraw_replay_cached(self) -> str:
        return FIRST_REPLAY

    def timeraw_replay_cold(self) -> str:
        return COLD + FIRST_REPLAY


class FirstCallSeconds:
    """The same as whole processes, interpreter start and imports included: what a user of the command line waits for."""

    params = [["board", "two-models", "replay"]]
    param_names = ["job"]
    timeout = 600
    unit = "s"

    def setup(self, job: str) -> None:
        self.code = {"board": FIRST_BOARD, "two-models": TWO_MODELS, "replay": FIRST_REPLAY}[job]
        run_process(self.code)  # fills the cache

    def track_cached(self, job: str) -> float:
        return min(run_process(self.code) for _ in range(3))

    def track_cold(self, job: str) -> float:
        return run_process(COLD + self.code)


def run_process(code: str) -> float:
    """Wall time of a fresh interpreter that runs `code`."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], check=True)
    return time.perf_counter() - start


def track_import_over_numpy() -> float:
    """Import time of lrgittins over that of numpy, best of ten each; at most 1.5 is wanted."""
    code = "import time; start = time.perf_counter(); import {}; print(time.perf_counter() - start)"

    def best(name: str) -> float:
        return min(
            float(subprocess.run([sys.executable, "-c", code.format(name)], capture_output=True, check=True).stdout) for _ in range(10)
        )

    return best("lrgittins") / best("numpy")
