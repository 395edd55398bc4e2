"""Pictures of boards; matplotlib is imported here only, when one is drawn."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from ._optional import import_optional
from .errors import ParameterError
from .plots.canvas import BETTER, OPEN, WORSE, shorten

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .board import Leaderboard

STYLES = {
    "top-k": {**BETTER, "label": "certified in top {k}"},
    "not-top-k": {**WORSE, "label": "certified not in top {k}"},
    "unresolved": {**OPEN, "label": "unresolved"},
}


def plot_ranks(board: Leaderboard, task: str | None = None, ax: Axes | None = None) -> Any:
    """Rank intervals with point ranks, best model on top; certificates by colour and marker.

    Parameters
    ----------
    task : str, optional
        One task. Without it, all tasks of the board, in a grid of new axes (`ax` then needs a board of one task).
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.

    Returns
    -------
    Axes, or an array of Axes for a grid.

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    ParameterError
        A task the board does not have, or `ax` together with several tasks.
    """
    frame = board.to_frame()
    tasks = list(dict.fromkeys(frame["task"]))
    if task is not None and (not isinstance(task, str) or task not in tasks):
        import difflib

        close = difflib.get_close_matches(str(task), tasks, n=3)
        hint = f"; did you mean {', '.join(map(repr, close))}?" if close else f"; it has {', '.join(map(repr, tasks[:6]))}"
        raise ParameterError(f"the board has no task {task!r}{hint}")
    chosen = tasks if task is None else [task]
    if ax is not None and len(chosen) > 1:
        raise ParameterError(f"one ax cannot hold {len(chosen)} tasks; pass task=..., or leave ax out for a grid")
    pyplot: Any = import_optional("matplotlib.pyplot", extra="plot", purpose="plotting a board")
    if len(chosen) == 1:
        if ax is None:
            _, ax = pyplot.subplots(figsize=(7.0, _height(int((frame["task"] == chosen[0]).sum()))), layout="constrained")
        _draw(ax, board, frame[frame["task"] == chosen[0]], chosen[0], legend=True)
        return ax
    n_columns = min(3, math.ceil(math.sqrt(len(chosen))))
    n_rows = math.ceil(len(chosen) / n_columns)
    tallest = _height(int(frame.groupby("task").size().max()))
    figure, axes = pyplot.subplots(n_rows, n_columns, figsize=(5.5 * n_columns, tallest * n_rows), squeeze=False, layout="constrained")
    for position, panel in enumerate(axes.flat):
        if position < len(chosen):
            _draw(panel, board, frame[frame["task"] == chosen[position]], chosen[position], legend=position == 0)
        else:
            panel.set_visible(False)
    return axes


def _height(n_models: int) -> float:
    """Inches a panel needs for one readable line per model."""
    return 1.2 + 0.19 * max(n_models, 4)


def _draw(ax: Any, board: Leaderboard, rows: Any, task: str, *, legend: bool) -> None:
    position = np.arange(len(rows))
    low = rows["rank_low"].fillna(1).to_numpy(dtype=float)
    high = rows["rank_high"].fillna(board.n_models).to_numpy(dtype=float)
    has_intervals = bool(rows["rank_low"].notna().all())
    certificate = rows["certificate"].to_numpy()
    rank = rows["rank"].to_numpy(dtype=float)
    for name, style in STYLES.items():
        chosen = certificate == name
        if not chosen.any():
            continue
        if has_intervals:
            ax.hlines(position[chosen], low[chosen], high[chosen], color=style["color"], linewidth=2.2)
        ax.plot(
            rank[chosen],
            position[chosen],
            linestyle="none",
            marker=style["marker"],
            color=style["color"],
            markeredgecolor="black",
            markeredgewidth=0.5,
            markersize=5,
            label=style["label"].format(k=board.top_k),
        )
    ax.axvline(board.top_k + 0.5, color="black", linewidth=0.8, linestyle="--")
    ax.set_yticks(position, [shorten(str(name)) for name in rows["model"]], fontsize=7 if len(rows) > 30 else 8)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_xlim(0.5, board.n_models + 0.5)
    level = f"{100 * (1 - board.alpha):g} % simultaneous intervals" if has_intervals else "no intervals"
    ax.set_xlabel(f"rank ({level})")
    ax.set_title(shorten(str(task)), fontsize=10)
    ax.grid(axis="x", linewidth=0.3)
    if legend:
        ax.legend(loc="best", fontsize=7, framealpha=0.9)
