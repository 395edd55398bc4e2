"""Where a run's budget went: evaluations or cost by arm, before and after its stop signal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from .._optional import import_optional
from .._validation import check_choice, check_int
from .canvas import font_size, get_axes, height, shorten

if TYPE_CHECKING:
    from ..trace import Trace

BEFORE, AFTER = "#2b5f8a", "#b9cfe2"


def plot_allocation(trace: Trace, ax: Any = None, *, by: str = "n", max_arms: int = 40) -> Any:
    """How much of the budget every arm got, the most first.

    What was spent after the stop signal is hatched; a star marks the arm recommended at the stop (at the end where there was no
    signal), and where the true means are known, "best" names the best arm.

    Parameters
    ----------
    trace : Trace
    ax : matplotlib Axes, optional
        Where to draw; a new figure otherwise.
    by : {"n", "cost"}
        Evaluations, or their cost in raw units.
    max_arms : int, default 40
        Arms beyond are added up in one bar; the recommended and the best arm are always shown.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    ParameterError
        An argument outside its meaning.
    """
    check_choice(by, "by", ("n", "cost"))
    check_int(max_arms, "max_arms", low=1)
    n_arms = len(trace.arms)
    amount = trace.n.astype(np.float64) if by == "n" else trace.cost
    step = trace.stop.step if trace.should_stop.any() else trace.n_steps
    before = np.bincount(trace.arm[:step], amount[:step], n_arms)
    after = np.bincount(trace.arm[step:], amount[step:], n_arms)
    total = before + after
    recommended = int(trace.recommended[step - 1]) if step else trace.initial
    best = None if trace.row_means is None else int(trace.row_means.argmax())
    order = np.lexsort((np.arange(n_arms), -total))
    always = [code for code in (recommended, best) if code is not None]
    shown = [int(code) for place, code in enumerate(order) if place < max_arms or code in always]
    rest = sorted(set(range(n_arms)) - set(shown))
    n_rows = len(shown) + bool(rest)

    axes = get_axes(ax, (7.0, height(n_rows)), "plotting an allocation")
    patches: Any = import_optional("matplotlib.patches", extra="plot", purpose="plotting an allocation")
    lines: Any = import_optional("matplotlib.lines", extra="plot", purpose="plotting an allocation")
    position = np.arange(n_rows)
    first = np.append(before[shown], [before[rest].sum()] * bool(rest))
    second = np.append(after[shown], [after[rest].sum()] * bool(rest))
    axes.barh(position, first, color=BEFORE, height=0.75)
    if second.any():
        axes.barh(position, second, left=first, color=AFTER, hatch="////", edgecolor="#44607a", linewidth=0.0, height=0.75)
    widest = float((first + second).max(initial=0.0)) or 1.0
    star = shown.index(recommended)
    axes.plot(first[star] + second[star] + 0.02 * widest, star, marker="*", color="black", markersize=9, linestyle="none")
    labels = [shorten(str(trace.arms[code])) for code in shown] + ([f"{len(rest)} other arms together"] if rest else [])
    if best is not None:
        place = shown.index(best)
        axes.annotate(
            "best", (first[place] + second[place] + (0.045 if best == recommended else 0.015) * widest, place), va="center", fontsize=7
        )
    axes.set_yticks(position, labels, fontsize=font_size(n_rows))
    axes.set_ylim(n_rows - 0.5, -0.5)
    axes.set_xlim(0.0, 1.12 * widest)
    axes.set_xlabel("evaluations" if by == "n" else "cost")
    never = int((total == 0.0).sum()) if by == "n" else 0
    spent = "" if not trace.total_cost > 0.0 else f", {100 * trace.spent / trace.total_cost:.3g} % of the full cost"
    axes.set_title(f"{trace.policy or 'policy'}: {int(trace.n.sum()):,} evaluations{spent}", fontsize=10)
    signal = bool(trace.should_stop.any())
    handles = [patches.Patch(color=BEFORE, label="before the stop signal" if signal else "the whole run")]
    if second.any():
        handles.append(patches.Patch(facecolor=AFTER, edgecolor="#44607a", hatch="////", linewidth=0.0, label="after it"))
    handles.append(lines.Line2D([], [], linestyle="none", marker="*", color="black", label="recommended"))
    if never:
        handles.append(patches.Patch(color="none", label=f"{never} arms never evaluated"))
    axes.legend(handles=handles, loc="lower right", fontsize=7, framealpha=0.9)
    axes.grid(axis="x", linewidth=0.3)
    axes.set_axisbelow(True)
    return axes
