"""Where policies say stop, as marks on curves of regret."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ..comparison import ALL

if TYPE_CHECKING:
    from ..comparison import PolicyComparison

STOP_LABEL = "says stop (mean)"


def mark_stops(comparison: PolicyComparison, ax: Any, *, matrix: str | None = None) -> Any:
    """A hollow circle at the mean cost of the stop signals of every policy that gives any, on its curve.

    Parameters
    ----------
    comparison : PolicyComparison
    ax : matplotlib Axes
        Drawn by `plot_regret`: percent of the full cost across, regret up.
    matrix : str, optional
        As in `plot_regret`: one matrix of the comparison; by default the only one, or the mean over all.

    Returns
    -------
    Axes
    """
    names = list(comparison.matrices)
    chosen = names[0] if len(names) == 1 else matrix or ALL
    stops = comparison.stops()
    stops = stops[(stops["reason"] == "stop-signal") & ((stops["matrix"] == chosen) | (chosen not in names))]
    curves = {line.get_label(): line for line in ax.lines}
    labelled = False
    for policy, label in comparison.policies.items():
        cost = stops.loc[stops["policy"] == policy, "cost_fraction"].to_numpy()
        if not len(cost):
            continue
        x, y = curves[label].get_data()
        at = 100.0 * min(float(cost.mean()), comparison.budget)
        style = {"marker": "o", "markersize": 8, "markerfacecolor": "white", "markeredgewidth": 2.0, "linestyle": "none"}
        color = curves[label].get_color()
        named = None if labelled else STOP_LABEL
        ax.plot([at], [np.interp(at, x, y)], **style, markeredgecolor=color, clip_on=False, zorder=5, label=named)
        labelled = True
    if labelled:
        ax.legend(frameon=False)
    return ax
