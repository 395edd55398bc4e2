"""Both pillars on small inputs, against frozen numbers: what has to come out on every machine.

``python smoke.py [part ...]`` prints the numbers as JSON and ends with 1 where one differs; ``--write`` freezes new ones.
"""

from __future__ import annotations

import json
import math
import sys
import warnings
from pathlib import Path
from typing import Any

EXPECTED = Path(__file__).with_name("expected.json")
# The solvers stop at a gradient norm of 1e-8; the rest is rounding in another order.
TOLERANCE = 1e-6


def gap() -> dict[str, Any]:
    """Seven wins against three: ln(7/3) and sqrt(1/7 + 1/3)."""
    import lrgittins as lg

    votes = lg.Comparisons.from_arrays(None, ["A"] * 10, ["B"] * 10, [1] * 7 + [0] * 3)
    found = lg.infer_gaps(votes, lg.PerTaskBradleyTerry()).gap("all", "A", "B")
    return {"estimate": found.estimate, "std_error": found.std_error}


def board() -> dict[str, Any]:
    """A whole board: low-rank fit, cross-fit inference, bootstrap, certificates."""
    import lrgittins as lg

    models = ["alpha", "beta", "gamma", "delta"]
    columns: dict[str, list[Any]] = {"task": [], "model_a": [], "model_b": [], "winner": [], "n": []}
    for t, task in enumerate(["code", "math"]):
        for i in range(4):
            for j in range(i + 1, 4):
                wins = 30 + 9 * (j - i) + 3 * (t * (i + 1)) % 7
                for verdict, times in (("model_a", wins), ("model_b", 70 - wins)):
                    for name, value in zip(columns, (task, models[i], models[j], verdict, times), strict=True):
                        columns[name].append(value)
    votes = lg.Comparisons.from_frame(columns, count="n")
    found = lg.leaderboard(votes, rank=1, top_k=2, calibration="cross-fit", n_draws=100)
    frame = found.to_frame()
    return {name: frame[name].tolist() for name in ("model", "score", "std_error", "rank", "rank_low", "rank_high", "certificate")}


def roots() -> dict[str, Any]:
    """A root schedule of three batches."""
    import lrgittins as lg

    schedule = lg.root_schedule(1.0, n_examples=20, batch_size=8, cost_scale=1e-3)
    return {"roots": schedule.roots[0].tolist()}


def replay() -> dict[str, Any]:
    """What a Gittins policy does on a small matrix."""
    import numpy as np

    import lrgittins as lg

    scores = (np.arange(3 * 20).reshape(3, 20) * 7 % 10 < [[4], [6], [5]]).astype(float)
    trace = lg.replay(lg.ResponseMatrix.from_array(scores), "gittins", budget=0.6)
    frame = trace.to_frame()
    return {name: frame[name].tolist() for name in ("arm", "n", "cumulative_cost", "recommended", "regret")}


PARTS = {"gap": gap, "board": board, "roots": roots, "replay": replay}


def differences(found: Any, wanted: Any, where: str = "") -> list[str]:
    """Places where two results differ by more than `TOLERANCE`."""
    if isinstance(wanted, dict) and isinstance(found, dict) and found.keys() == wanted.keys():
        return [line for key in wanted for line in differences(found[key], wanted[key], f"{where}.{key}")]
    if isinstance(wanted, list) and isinstance(found, list) and len(found) == len(wanted):
        return [line for i, pair in enumerate(zip(found, wanted, strict=True)) for line in differences(*pair, f"{where}[{i}]")]
    if isinstance(wanted, float) and isinstance(found, (int, float)):
        return [] if math.isclose(found, wanted, rel_tol=TOLERANCE, abs_tol=TOLERANCE) else [f"{where}: {found}, not {wanted}"]
    return [] if found == wanted else [f"{where}: {found!r}, not {wanted!r}"]


def main(arguments: list[str]) -> int:
    parts = [name for name in arguments if not name.startswith("-")] or list(PARTS)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*draws", category=UserWarning)
        found = {name: PARTS[name]() for name in parts}
    print(json.dumps(found))
    if "--write" in arguments:
        EXPECTED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")
        return 0
    wanted = json.loads(EXPECTED.read_text(encoding="utf-8"))
    problems = differences(found, {name: wanted[name] for name in parts})
    print("\n".join(problems), end="", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
