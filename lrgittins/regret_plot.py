"""Pictures of regret against cost; matplotlib is imported here only, when one is drawn."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ._optional import import_optional
from ._validation import check_int
from .errors import ParameterError

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from .comparison import PolicyComparison

# Colour-blind safe (Okabe and Ito), told apart in grey by the line style.
_COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000")
_DASHES = ("-", "--", "-.", ":")


def plot_regret(
    comparison: PolicyComparison,
    ax: Axes | None = None,
    *,
    matrix: str | None = None,
    grid: int = 350,
    how: str = "step",
    log: bool = False,
) -> Any:
    """Mean simple regret against percent of exhaustive cost, one line per policy, with bands of one standard error.

    Parameters
    ----------
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    matrix : str, optional
        One matrix of the comparison; by default the only one, or the mean over all.
    grid : int
        Number of points.
    how : {"step", "linear", "paper"}
        As in `PolicyComparison.curve`.
    log : bool
        Cost on a log scale, from a hundredth of the budget on.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    ParameterError
        A matrix the comparison does not have.
    """
    names = list(comparison.matrices)
    if matrix is not None and matrix not in [*names, "all"]:
        raise ParameterError(f"the comparison has no matrix {matrix!r}; it has {', '.join(map(repr, names[:6]))}")
    several = len(names) > 1
    chosen = matrix if several and matrix is not None else "all" if several else names[0]
    if ax is None:
        pyplot: Any = import_optional("matplotlib.pyplot", extra="plot", purpose="plotting regret")
        _, ax = pyplot.subplots(figsize=(7.0, 4.5), layout="constrained")
    axes: Any = ax
    budget = comparison.budget
    points: Any = grid if not log else np.geomspace(budget / 100.0, budget, check_int(grid, "grid", low=2)).clip(max=budget)
    frame = comparison.curve(grid=points, how=how)
    frame = frame[frame["matrix"] == chosen]
    for position, (policy, label) in enumerate(comparison.policies.items()):
        rows = frame[frame["policy"] == policy]
        x, mean, error = (rows[name].to_numpy() for name in ("cost_fraction", "regret", "std_error"))
        color, dash = _COLORS[position % len(_COLORS)], _DASHES[position % len(_DASHES)]
        axes.plot(100.0 * x, mean, color=color, linestyle=dash, label=label)
        error = np.nan_to_num(error)
        axes.fill_between(100.0 * x, np.maximum(mean - error, 0.0), mean + error, color=color, alpha=0.15, linewidth=0)
    axes.set_xlabel("cost, % of evaluating everything")
    axes.set_ylabel("simple regret (mean, ± one standard error)")
    if log:
        axes.set_xscale("log")
        axes.xaxis.set_major_formatter(lambda x, _: f"{x:g}")
    axes.set_xlim(budget if log else 0.0, 100.0 * budget)
    axes.set_ylim(bottom=0.0)
    title = f"mean of {len(names)} matrices" if chosen == "all" and several else "" if chosen == "responses" else str(chosen)
    axes.set_title(f"{title}, {comparison.n_runs} runs".lstrip(", "))
    axes.legend(frameon=False)
    return axes
