"""The gaps of one model to the others with their simultaneous bands, as a forest plot."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from .._validation import check_int
from ..errors import ParameterError
from ..scales import check_scale
from .canvas import BETTER, OPEN, WORSE, font_size, get_axes, height, shorten

if TYPE_CHECKING:
    from ..bands import GapBands


def plot_forest(
    bands: GapBands, ax: Any = None, *, model: str | None = None, task: str | None = None, scale: str = "natural", max_gaps: int = 60
) -> Any:
    """One model against the others: estimated gaps, sorted, with their simultaneous bands and a line at zero.

    Markers say what the bands' method declares; a band without an end goes to the edge and ends in an arrow.

    Parameters
    ----------
    bands : GapBands
    ax : matplotlib Axes, optional
    model, task : str, optional
        Whose gaps, and on which task; needed where the bands are about several models. Bands of several tasks are drawn together,
        labelled by task, unless one is chosen.
    scale : {"natural", "elo"}
    max_gaps : int
        More gaps than this are an error that says how to narrow them.

    Returns
    -------
    Axes

    Raises
    ------
    MissingExtraError
        matplotlib is not installed.
    ParameterError
        A model or task the bands are not about, or too many gaps for one picture.
    """
    units = check_scale(scale)
    check_int(max_gaps, "max_gaps", low=1)
    rows = gaps_of(bands.to_frame(scale=scale), model, task)
    name = str(rows["model"].iloc[0])
    tasks = list(dict.fromkeys(rows["task"]))
    if len(rows) > max_gaps:
        choose = f"pass task=, such as {tasks[0]!r}, or" if len(tasks) > 1 else "pass"
        raise ParameterError(f"{len(rows)} gaps of {name!r} are more than max_gaps={max_gaps}; {choose} a larger max_gaps")
    known = rows[rows["estimate"].notna()].sort_values("estimate", ascending=False, kind="stable")
    axes = get_axes(ax, (7.0, height(len(known))), "plotting gaps")
    position = np.arange(len(known))
    estimate, low, high = (known[column].to_numpy(dtype=float) for column in ("estimate", "low", "high"))
    finite = np.concatenate([estimate, low[np.isfinite(low)], high[np.isfinite(high)], [0.0]])
    left, right = float(finite.min()), float(finite.max())
    margin = 0.05 * (right - left) or 1.0
    left, right = left - margin, right + margin
    axes.axvline(0.0, color="black", linewidth=0.9, linestyle="--")
    sign = known["sign"].to_numpy()
    has_bands = bool(np.isfinite(low).any() or np.isinf(low).any())
    for value, style, label in ((1, BETTER, "declared better"), (-1, WORSE, "declared worse"), (0, OPEN, "not declared")):
        at = np.flatnonzero(sign == value)
        if not len(at):
            continue
        if has_bands:
            dash = ":" if value == 0 else "-"
            ends = np.clip(low[at], left, right), np.clip(high[at], left, right)
            axes.hlines(position[at], *ends, color=style["color"], linewidth=2.0 if value else 1.6, linestyle=dash)
        axes.plot(
            estimate[at], position[at], linestyle="none", marker=style["marker"], color=style["color"] if value else "white",
            markeredgecolor="black" if value else style["color"], markeredgewidth=0.6 if value else 1.2, markersize=5, label=label,
        )  # fmt: skip
    for open_end, edge, arrow in ((np.isneginf(low), left, "<"), (np.isposinf(high), right, ">")):
        if open_end.any():
            axes.plot(
                np.full(int(open_end.sum()), edge),
                position[open_end],
                linestyle="none",
                marker=arrow,
                color="black",
                markersize=4,
                clip_on=False,
            )
    labels = [
        shorten(versus) if len(tasks) == 1 else f"{shorten(versus, 24)} ({shorten(on, 16)})"
        for versus, on in zip(known["versus"], known["task"], strict=True)
    ]
    axes.set_yticks(position, labels, fontsize=font_size(len(known)))
    axes.set_ylim(len(known) - 0.5, -0.5)
    axes.set_xlim(left, right)
    level = f"{100 * (1 - bands.alpha):g} % simultaneous bands" if has_bands else "no bands"
    axes.set_xlabel(f"score of {shorten(name)} less that of the model named\n({units.unit}; {level})", fontsize=8)
    where = f" on {shorten(tasks[0])}" if len(tasks) == 1 else f" on {len(tasks)} tasks"
    left_out = len(rows) - len(known)
    axes.set_title(shorten(name) + where + (f" ({left_out} without a common scale left out)" if left_out else ""), fontsize=10)
    axes.grid(axis="x", linewidth=0.3)
    axes.legend(loc="lower right", fontsize=7, framealpha=0.9)
    return axes


def gaps_of(frame: pd.DataFrame, model: str | None, task: str | None) -> pd.DataFrame:
    """The rows about one model (turned round where it is the second), on one task or on all of them."""
    for name, value, known in (("task", task, frame["task"]), ("model", model, pd.concat([frame["model"], frame["versus"]]))):
        if value is not None and not (known == value).any():
            raise ParameterError(f"the bands are about no {name} {value!r}; they have {_listed(known)}")
    if task is not None:
        frame = frame[frame["task"] == task]
    first = frame["model"].unique()
    if model is None:
        if len(first) != 1 or (frame["versus"] == first[0]).any():
            raise ParameterError(
                f"the bands are about several models; pass model=, one of {_listed(pd.concat([frame['model'], frame['versus']]))}"
            )
        return frame
    own = frame[frame["model"] == model]
    if len(own) and not (own["versus"] == model).any() and _complete(own, frame, model):
        return own
    other = frame[frame["versus"] == model]
    turned = other.assign(
        model=other["versus"],
        versus=other["model"],
        estimate=-other["estimate"],
        low=-other["high"],
        high=-other["low"],
        sign=-other["sign"],
    )
    return pd.concat([own, turned]).drop_duplicates(["task", "versus"])


def _complete(own: pd.DataFrame, frame: pd.DataFrame, model: str) -> bool:
    """Whether the model's own claim lists all its gaps (bands of the claims of others would be of another width)."""
    versus = frame.loc[frame["versus"] == model, ["task", "model"]].rename(columns={"model": "versus"})
    return len(versus.merge(own, on=["task", "versus"])) == len(versus)


def _listed(names: pd.Series) -> str:
    distinct = list(dict.fromkeys(names))
    return ", ".join(map(repr, distinct[:6])) + (f" and {len(distinct) - 6} more" if len(distinct) > 6 else "")
