"""Coordinates of the pictures in HTML reports, so that a report needs no plotting library."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    import pandas as pd

    from .board import Leaderboard
    from .comparison import PolicyComparison

ROW, LABELS, PLOT, TOP, BOTTOM = 18, 230, 490, 26, 34  # user units of the SVG
_LONGEST_NAME = 34
_DASHES = ("", "7 4", "2 3", "9 3 2 3", "12 3", "4 2")


def shorten(name: str, longest: int = _LONGEST_NAME) -> str:
    """Long names lose their middle: both ends tell models apart."""
    line = " ".join(name.split())
    tail = (longest - 1) // 2
    return line if len(line) <= longest else f"{line[: longest - 1 - tail]}\u2026{line[len(line) - tail :]}"


def interval_picture(rows: pd.DataFrame, board: Leaderboard) -> dict[str, Any]:
    """Rank intervals of one task, one line per model, the order of the rows kept."""
    n = board.n_models
    width = LABELS + PLOT + 20

    def x(rank: float) -> float:
        return round(LABELS + PLOT * (rank - 0.5) / n, 1)

    low = rows["rank_low"].fillna(0).tolist()
    high = rows["rank_high"].fillna(0).tolist()
    lines = []
    for position, (model, rank, certificate) in enumerate(zip(rows["model"], rows["rank"], rows["certificate"], strict=True)):
        between = f", interval {low[position]} to {high[position]}" if low[position] else ""
        lines.append(
            {
                "y": TOP + ROW * position + ROW // 2,
                "name": model,
                "label": shorten(model),
                "low": x(low[position]) if low[position] else None,
                "high": x(high[position]) if low[position] else None,
                "rank": x(rank),
                "certificate": certificate,
                "title": f"{model}: rank {rank}{between}, {certificate}",
            }
        )
    bottom = TOP + ROW * len(rows)
    return {
        "width": width, "height": bottom + BOTTOM, "top": TOP, "bottom": bottom, "labels": LABELS - 8, "cut": x(board.top_k + 0.5),
        "ticks": [{"x": x(rank), "text": rank} for rank in rank_ticks(n)], "middle": LABELS + PLOT // 2, "lines": lines,
        "cut_on_left": x(board.top_k + 0.5) > LABELS + PLOT / 2,
    }  # fmt: skip


def rank_ticks(n: int) -> list[int]:
    """Ranks worth writing at an axis: 1, the last, and round ones between that keep clear of both."""
    step = next(step for step in (1, 2, 5, 10, 20, 50, 100, 200, 500, 10**9) if n / step <= 10)
    inner = [rank for rank in range(step, n, step) if rank > 1 and rank - 1 >= 0.6 * step and n - rank >= 0.6 * step]
    return list(dict.fromkeys([1, *inner, n]))


def curve_picture(comparison: PolicyComparison, matrix: str, *, points: int = 160) -> dict[str, Any]:
    """Mean regret of every policy on one matrix ("all" for the mean over several), with bands of one standard error."""
    frame = comparison.curve(grid=points, how="step")
    frame = frame[frame["matrix"] == matrix]
    budget = comparison.budget
    error = np.nan_to_num(frame["std_error"].to_numpy())
    highest = float((frame["regret"].to_numpy() + error).max())
    ticks = nice_ticks(highest if highest > 0.0 else 1.0)
    left, width, height, top, bottom = 64, 660, 300, 14, 48

    def x(fraction: Any) -> Any:
        return np.round(left + width * np.asarray(fraction) / budget, 1)

    def y(regret: Any) -> Any:
        return np.round(top + height * (1.0 - np.asarray(regret) / ticks[-1]), 1)

    curves = []
    for position, (policy, label) in enumerate(comparison.policies.items()):
        rows = frame[frame["policy"] == policy]
        mean, spread = rows["regret"].to_numpy(), np.nan_to_num(rows["std_error"].to_numpy())
        across = x(rows["cost_fraction"])
        upper, lower = y(mean + spread), y(np.maximum(mean - spread, 0.0))
        curves.append(
            {
                "label": label,
                "color": position % 7,
                "dash": _DASHES[position % len(_DASHES)],
                "line": path(across, y(mean)),
                "band": f"{path(across, upper)}L{path(across[::-1], lower[::-1])[1:]}Z",
                "stop": _stop_mark(comparison, matrix, policy, x, y, rows),
            }
        )
    return {
        "left": left, "right": left + width, "middle": left + width // 2, "top": top, "bottom": top + height,
        "width": left + width + 20, "height": top + height + bottom, "curves": curves,
        "x_ticks": [{"x": float(x(f)), "text": f"{100 * f:.4g} %"} for f in np.linspace(0.0, budget, 6)],
        "y_ticks": [{"y": float(y(value)), "text": f"{value:.4g}"} for value in ticks],
    }  # fmt: skip


def _stop_mark(comparison: PolicyComparison, matrix: str, policy: str, x: Any, y: Any, rows: pd.DataFrame) -> dict[str, Any] | None:
    """Where the runs that gave a stop signal gave it, on average; on the curve."""
    stops = comparison.stops()
    stops = stops[(stops["policy"] == policy) & (stops["reason"] == "stop-signal")]
    if matrix in comparison.matrices:
        stops = stops[stops["matrix"] == matrix]
    if not len(stops):
        return None
    fraction = min(float(stops["cost_fraction"].mean()), comparison.budget)
    regret = float(np.interp(fraction, rows["cost_fraction"], rows["regret"]))
    return {
        "x": float(x(fraction)),
        "y": float(y(regret)),
        "text": f"{len(stops)} runs stop, on average at {100 * fraction:.3g} % of the cost",
    }


def path(x: Sequence[float], y: Sequence[float]) -> str:
    """SVG path data of a polyline."""
    return "M" + "L".join(f"{a:g},{b:g}" for a, b in zip(x, y, strict=True))


def nice_ticks(highest: float, about: int = 5) -> list[float]:
    """Round values from 0 to the first one at or above `highest`."""
    raw = highest / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1.0, 2.0, 2.5, 5.0, 10.0) if factor * power >= raw * (1 - 1e-12))
    return [round(i * step, 12) for i in range(math.ceil(highest / step - 1e-9) + 1)]
