"""Regret curves of a study by the selection paper's plotting rule: kept small in the rows, drawn from them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from _matrices import READERS, load
from _pictures import save_small
from _policies import LABELS

from lrgittins._optional import import_optional
from lrgittins.comparison import MatrixFacts, PolicyComparison, RunRecord
from lrgittins.curve_rules import CurveRule

BUDGET = 0.10
GRID = 350  # points of a curve, as in the paper
MARKED = ("default", "paper G", "paper S (hindsight)", "PBGI")  # mean stops are marked
# Colour-blind safe (Okabe and Ito), told apart in grey by the line style.
COLORS = ("#0072b2", "#d55e00", "#e69f00", "#009e73", "#56b4e9", "#cc79a7", "#000000", "#7f7f7f", "#8c564b", "#bcbd22")
STYLES = {label: (color, ("-", "--", "-.")[i % 3]) for i, (label, color) in enumerate(zip(LABELS.values(), COLORS, strict=True))}


def thinned(record: RunRecord) -> dict[str, Any]:
    """What the curve of a run needs: batches around a change of the recommendation, the ends, and the end of the initial segment.

    Interpolation is exact on these, as nothing changes between the batches left out. Costs are raw.
    """
    arms, cost, start = record.recommended, record.cumulative_cost, record.rule.n_start
    keep = np.zeros(len(arms), dtype=bool)
    keep[[at for at in (0, start - 1, start, len(arms) - 1) if 0 <= at < len(arms)]] = True
    changes = np.flatnonzero(arms[1:] != arms[:-1])
    keep[changes] = keep[changes + 1] = True
    at = np.flatnonzero(keep)
    return {
        "cost": cost[at].tolist(), "arm": arms[at].tolist(), "initial": int(record.initial), "kind": record.rule.kind,
        "n_start": int((at < start).sum()),
    }  # fmt: skip


def rebuild(rows: pd.DataFrame, data: str | None) -> PolicyComparison:
    """The comparison behind rows of a study, as far as curves need it; one or several matrices, policies that ran on all of them."""
    rows = rows[rows["curve"].notna()]
    names = list(dict.fromkeys(rows["matrix"]))
    labels = [p for p in dict.fromkeys(rows["policy"]) if rows[rows["policy"] == p]["matrix"].nunique() == len(names)]
    facts = {}
    for name in names:
        responses = load(name, str(rows["prices"].iloc[0]), data)
        facts[name] = MatrixFacts(responses.arms, responses.row_means, responses.total_cost)
    runs = []
    for row in rows[rows["policy"].isin(labels)].to_dict(orient="records"):
        curve = row["curve"]
        cost, arms = np.array(curve["cost"], dtype=float), np.array(curve["arm"], dtype=np.int32)
        rule = CurveRule(curve["kind"], curve["n_start"])
        runs.append(RunRecord(row["matrix"], row["policy"], row["trial"], 0, cost, arms, curve["initial"], 0, {}, "budget", rule))
    most = int(rows["trial"].max()) + 1
    return PolicyComparison(tuple(runs), facts, {label: label for label in labels}, BUDGET, False, most, None)


def draw_panel(axes: Any, rows: pd.DataFrame, data: str | None, fractions: tuple[float, ...]) -> None:
    """Mean curves with bands of one standard error; mean stops as vertical lines; SySRs as the budgets it was planned for."""
    comparison = rebuild(rows, data)
    curve = comparison.curve(grid=GRID, how="paper")
    curve = curve[curve["matrix"] == ("all" if len(comparison.matrices) > 1 else next(iter(comparison.matrices)))]
    for label in comparison.policies:
        if label not in STYLES:
            continue
        color, dash = STYLES[label]
        own = rows[(rows["policy"] == label) & rows["regret"].notna()]
        if label == LABELS["sysrs"]:
            regret = np.array(own["regret"].tolist())[:, -len(fractions) :].mean(axis=0)
            axes.plot(100 * np.array(fractions), regret, color=color, linestyle=":", marker="o", markersize=3, label=label)
            continue
        line = curve[curve["policy"] == label]
        x, mean, error = (line[name].to_numpy() for name in ("cost_fraction", "regret", "std_error"))
        axes.plot(100 * x, mean, color=color, linestyle=dash, linewidth=1.2, label=label)
        error = np.nan_to_num(error)
        axes.fill_between(100 * x, np.maximum(mean - error, 0.0), mean + error, color=color, alpha=0.15, linewidth=0)
        stops = own["stop_fraction"].dropna().to_numpy(dtype=float) if label in MARKED else np.empty(0)
        if len(stops) and stops.mean() <= BUDGET:
            axes.axvline(100 * stops.mean(), color=color, linestyle=(0, (1, 2)), linewidth=1.0)
    axes.set_xlim(0.0, 100 * BUDGET)
    axes.set_ylim(bottom=0.0)
    axes.grid(alpha=0.2)


def groups_of(frame: pd.DataFrame) -> dict[str, dict[str, list[str]]]:
    """Picture -> panel -> matrices: every real matrix for itself, simulations of a kind together (budgets are normalised)."""
    found: dict[str, dict[str, list[str]]] = {}
    for name in dict.fromkeys(frame["matrix"]):
        kind, *rest = name.split("/")
        if kind in READERS:
            picture, panel = "real", name
        elif kind == "dove":
            picture, panel = "simulated", f"DOVE-shaped, {rest[1]}"
        elif kind == "bandit-eval":
            picture, panel = "simulated", "BanditEval-shaped"
        else:
            picture, panel = "own", Path(name).name
        found.setdefault(picture, {}).setdefault(panel, []).append(name)
    return found


def draw_all(frame: pd.DataFrame, folder: Path, data: str | None, fractions: tuple[float, ...]) -> None:
    """Write regret_real.png, regret_simulated.png and regret_own.png, as far as there are such matrices: a row of panels per prices."""
    if "curve" not in frame or frame["curve"].isna().all():
        raise click.ClickException("these trials were stored without curves (by an earlier version); give another --out")
    figures: Any = import_optional("matplotlib.figure", extra="plot", purpose="drawing the curves")
    for picture, panels in groups_of(frame).items():
        kinds = [p for p in ("unit", "priced") if (frame["matrix"].isin(sum(panels.values(), [])) & (frame["prices"] == p)).any()]
        figure = figures.Figure(figsize=(3.1 * len(panels) + 1.9, 2.5 * len(kinds) + 0.4), layout="constrained")
        grid = figure.subplots(len(kinds), len(panels), squeeze=False)
        shown: dict[str, Any] = {}
        for i, prices in enumerate(kinds):
            for j, (panel, names) in enumerate(panels.items()):
                rows = frame[frame["matrix"].isin(names) & (frame["prices"] == prices) & frame["curve"].notna()]
                axes = grid[i][j]
                if rows.empty:
                    axes.set_axis_off()
                    continue
                draw_panel(axes, rows, data, fractions)
                axes.set_title(f"{panel}, {prices}" + (f" (mean of {len(names)})" if len(names) > 1 else ""), fontsize=9)
                axes.tick_params(labelsize=8)
                shown |= dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
        figure.supxlabel("cost, % of evaluating everything", fontsize=9)
        figure.supylabel("simple regret (mean, ± one standard error)", fontsize=9)
        ordered = [label for label in STYLES if label in shown]
        figure.legend([shown[label] for label in ordered], ordered, loc="outside right upper", frameon=False, fontsize=8)
        save_small(figure, folder / f"regret_{picture}.png")
