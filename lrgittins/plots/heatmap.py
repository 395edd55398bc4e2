"""Ranks of all models on all tasks at a glance, with what the votes leave open hatched."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._optional import import_optional
from .._validation import check_int
from .canvas import BETTER, font_size, get_axes, height, shorten

if TYPE_CHECKING:
    from ..board import Leaderboard


def plot_heatmap(board: Leaderboard, ax: Any = None, *, max_models: int | None = None) -> Any:
    """Heat map of ranks, models down and tasks across, the model with the best mean rank on top.

    Dark is a good rank. Hatched cells are unresolved; a dot marks models certified to be in the top k; plain cells are certified not
    to be. A cell the board has no row for stays white.

    Parameters
    ----------
    board : Leaderboard
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    max_models : int, optional
        Only so many models, those of best mean rank.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    """
    frame = board.to_frame()
    ranks = frame.pivot(index="model", columns="task", values="rank")
    order = ranks.mean(axis=1).sort_values(kind="stable").index
    if max_models is not None:
        order = order[: check_int(max_models, "max_models", low=1)]
    ranks = ranks.loc[order]
    certificates = frame.pivot(index="model", columns="task", values="certificate").loc[order]
    n_models, n_tasks = ranks.shape
    longest = max(len(shorten(name)) for name in order)
    axes = get_axes(ax, (1.6 + 0.07 * longest + 0.32 * max(n_tasks, 4), height(n_models) + 0.9), "plotting a heat map of ranks")
    patches: Any = import_optional("matplotlib.patches", extra="plot", purpose="plotting a heat map of ranks")
    collections: Any = import_optional("matplotlib.collections", extra="plot", purpose="plotting a heat map of ranks")
    lines: Any = import_optional("matplotlib.lines", extra="plot", purpose="plotting a heat map of ranks")

    values = np.ma.masked_invalid(ranks.to_numpy(dtype=float))
    edges = np.arange(n_tasks + 1) - 0.5, np.arange(n_models + 1) - 0.5
    mesh = axes.pcolormesh(*edges, values, cmap="cividis", vmin=1, vmax=max(board.n_models, 2), edgecolors="white", linewidth=0.4)
    unresolved = certificates.to_numpy() == "unresolved"
    dark = np.ma.filled(values, board.n_models) <= 0.45 * board.n_models
    for where, color in ((unresolved & dark, "#ffffff"), (unresolved & ~dark, "#333333")):
        cells = [patches.Rectangle((task - 0.5, model - 0.5), 1.0, 1.0) for model, task in np.argwhere(where)]
        if cells:
            hatched = collections.PatchCollection(cells, facecolor="none", edgecolor=color, hatch="////", linewidth=0.0)
            axes.add_collection(hatched, autolim=False)
    inside = np.argwhere(certificates.to_numpy() == "top-k")
    if len(inside):
        axes.plot(
            inside[:, 1], inside[:, 0], linestyle="none", marker=BETTER["marker"], color="white", markeredgecolor="black", markersize=5
        )
    axes.set_yticks(np.arange(n_models), [shorten(name) for name in order], fontsize=font_size(n_models))
    axes.set_xticks(np.arange(n_tasks), [shorten(name, 24) for name in ranks.columns], fontsize=8 if n_tasks <= 40 else 6)
    axes.tick_params(axis="x", rotation=90, length=0)
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(n_models - 0.5, -0.5)
    axes.figure.colorbar(mesh, ax=axes, label="rank", shrink=min(1.0, 12.0 / n_models), aspect=25).ax.invert_yaxis()
    k = board.top_k
    axes.legend(
        handles=[
            patches.Patch(facecolor="#cccccc", edgecolor="#333333", hatch="////", linewidth=0.0, label="unresolved"),
            lines.Line2D([], [], linestyle="none", marker="o", color="white", markeredgecolor="black", label=f"certified in top {k}"),
            patches.Patch(facecolor="#cccccc", label=f"certified not in top {k}"),
        ],
        loc="lower center", bbox_to_anchor=(0.5, 1.0), ncols=1 if n_tasks < 6 else 3, fontsize=7, frameon=False,
    )  # fmt: skip
    return axes
