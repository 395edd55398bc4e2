"""What the choices inside the Gittins policy are worth: figures 8 to 12 of the selection paper.

Six groups of variants, each changing one thing of the paper's G and of our default, all variants of a trial with the same seed:

    prior           mean and variance of the prior, and the paper's S (chosen by looking at the answer)
    batch           batch size
    cost            lambda, with the net utility at the stop, at a budget of 10 %, and of never stopping
    recommendation  lcb, mean or completed on one trajectory: regret averaged over the budget, and how often the answer switches
    target          full-row mean or latent mean; roots to 1e-6 or the paper's grid of 1025 points
    design          one example order for all arms or one per arm, ramped or constant batches: the steps from the paper's G to the default

Simple regret is averaged over budgets of 1, 2, 5 and 10 % of exhaustive cost. Net utility is in the policy's own cost unit, at the lambda
of the variant.

    python examples/studies/ablations.py --data DATA --trials 20 --pictures FOLDER
    python examples/studies/ablations.py --only wildbench --groups cost,recommendation
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from _matrices import is_own, load, matrix_names, matrix_options
from _pictures import save_small
from _runner import mean_and_error, run_trials, study_options

import lrgittins as lg
from lrgittins._optional import import_optional
from lrgittins.policy_names import nearest_bucket

FRACTIONS = (0.01, 0.02, 0.05, 0.10)
BUDGET = FRACTIONS[-1]
PAPER_LAMBDA = 1e-4
PRIOR_MEANS, PRIOR_VARIANCES = (0.2, 0.5, 0.8), (0.01, 0.04, 0.16)
BATCHES = (1, 2, 4, 8, 16, 32)
LAMBDAS = (1e-6, 1e-5, 3e-5, 1e-4, 3e-4, 1e-3)
RULES = ("lcb", "mean", "completed")
GROUPS = ("prior", "batch", "cost", "recommendation", "target", "design")
# What `GittinsPolicy.paper` sets, spelled out so that any of it can be varied.
BASES: dict[str, dict[str, Any]] = {
    "paper G": {"cost_unit": "raw", "target": "empirical", "batch_schedule": "constant", "example_order": "per-arm", "roots": "paper"},
    "default": {},
}
NET_LABELS = {"net_stop": "stop", "net_budget": "10 %", "net_all": "never stop"}
# (heading, key) of a group's table; the first is what its picture shows.
REGRET, WEIGHTED = ("regret", "regret"), ("weighted regret", "weighted")
STOP = [("stop, % cost", "stop_percent"), ("regret at stop", "stop_regret"), ("net at stop", "net_stop")]
MEASURES: dict[str, list[tuple[str, str]]] = {
    "cost": [*STOP, ("net at 10 %", "net_budget"), ("net, never stop", "net_all"), REGRET],
    "recommendation": [WEIGHTED, ("switches", "switches"), ("regret at 10 %", "final")],
}
BASELINE = {"recommendation": "lcb", "cost": "1e-04", "batch": "B = 8"}  # variants that others are compared with, on the same seeds


def variants_of(group: str, responses: lg.ResponseMatrix) -> dict[str, dict[str, Any]]:
    """Variant -> arguments that differ from the base."""
    if group == "prior":
        grid = {
            f"N({mean:g}, {variance:g})": {"prior_mean": mean, "prior_variance": variance}
            for mean in PRIOR_MEANS
            for variance in PRIOR_VARIANCES
        }
        mean, variance = nearest_bucket(responses)
        return {**grid, f"S: N({mean:g}, {variance:g})": {"prior_mean": mean, "prior_variance": variance}}
    if group == "batch":
        return {f"B = {size}": {"batch_size": size} for size in BATCHES}
    if group == "cost":
        return {f"{scale:.0e}": {"cost_scale": scale} for scale in LAMBDAS}
    if group == "recommendation":
        return {rule: {"recommendation": rule} for rule in RULES}
    if group == "target":
        return {
            f"{target}, roots {roots}": {"target": target, "roots": roots}
            for target in ("empirical", "latent")
            for roots in ("auto", "paper")
        }
    return {
        f"{order}, {schedule}": {"example_order": order, "batch_schedule": schedule}
        for order in ("per-arm", "common")
        for schedule in ("constant", "ramp")
    }


# -- one trial ----------------------------------------------------------------------------------------------------------


def weighted_regret(cost: np.ndarray, regret: np.ndarray, end: float) -> float:
    """Mean of the step-held regret over the budget, from the first batch to `end` (the last recommendation holds beyond its batch)."""
    inside = cost < end
    width = np.diff(np.append(cost[inside], end))
    return float(width @ regret[inside] / width.sum())


def measure(trace: lg.Trace, responses: lg.ResponseMatrix) -> dict[str, float]:
    """Everything about one run that goes to exhaustion."""
    fraction, regret, means = trace.cost_fraction, trace.regret, responses.row_means
    held = np.append(trace.initial_regret, regret)
    at = [int(np.searchsorted(fraction, f * (1.0 + 1e-12), side="right")) for f in FRACTIONS]
    first = max(at[-1], 1)  # batches within the budget, the first one at least
    end = min(BUDGET, float(fraction[-1])) if fraction[0] < BUDGET else float(fraction[0]) * (1.0 + 1e-9)
    stop = trace.stop
    price = trace.score_per_cost
    return {
        "regret": float(np.mean([held[i] for i in at])),
        "weighted": weighted_regret(fraction, regret, end),
        "switches": int(np.count_nonzero(np.diff(trace.recommended[:first]))),
        "final": float(held[at[-1]]),
        "stop_percent": 100.0 * stop.cost_fraction,
        "stop_regret": stop.completed_regret,
        "net_stop": trace.net_utility,
        "net_budget": float(means.max() - held[at[-1]] - price * float(np.append(0.0, trace.cumulative_cost)[at[-1]])),
        "net_all": float(means.max() - price * responses.total_cost),
    }


def one_trial(
    rng: np.random.Generator, *, matrix: str, prices: str, batch: int, data: str | None, group: str, trial: int
) -> list[dict[str, Any]]:
    """All variants of a group on both bases, with the same orders and ties."""
    responses = load(matrix, prices, data)
    seed = int(rng.integers(2**53))
    rows = []
    for base, switches in BASES.items():
        pulls = None
        for variant, arguments in variants_of(group, responses).items():
            trace = lg.replay(
                responses,
                functools.partial(lg.GittinsPolicy, **{"batch_size": batch, **switches, **arguments}),
                budget=1.0,
                random_state=seed,
            )
            if group == "recommendation":
                pulls = trace.arm if pulls is None else pulls
                if not np.array_equal(pulls, trace.arm):
                    raise AssertionError(f"the rule {variant} changed which arms are pulled")
            rows.append({
                "matrix": matrix, "prices": prices, "group": group, "base": base, "variant": variant, "trial": trial,
                **measure(trace, responses),
            })  # fmt: skip
    return rows


# -- tables and pictures -------------------------------------------------------------------------------------------------


def cell(values: Any) -> str:
    mean, error = mean_and_error(np.asarray(values, dtype=float))
    return f"{mean:.4f} ({'-' if np.isnan(error) else f'{error:.4f}'})"


def measures_of(group: str) -> list[tuple[str, str]]:
    return MEASURES.get(group, [REGRET, *STOP])


def baseline_of(group: str, base: str) -> str:
    """The variant that is the base itself, or what a group is usually compared with."""
    own = {
        "prior": "N(0.5, 0.04)",
        "target": "empirical, roots paper" if base == "paper G" else "empirical, roots auto",
        "design": "per-arm, constant" if base == "paper G" else "common, ramp",
    }
    return own.get(group) or BASELINE[group]


def show(frame: pd.DataFrame, matrix: str, prices: str, group: str) -> None:
    rows = frame[(frame["matrix"] == matrix) & (frame["prices"] == prices) & (frame["group"] == group)]
    if rows.empty:
        return
    measures = measures_of(group)
    compared, key = measures[-1] if group == "cost" else measures[0]
    click.echo(f"\n{matrix}, {prices}, {group}: mean (standard error) of {rows['trial'].nunique()} runs")
    click.echo(f"{'':>34}" + "".join(f"{name:>19}" for name, _ in measures) + f"{compared + ', paired':>26}")
    for base in BASES:
        by = {variant: g.sort_values("trial") for variant, g in rows[rows["base"] == base].groupby("variant", sort=False)}
        reference = by[baseline_of(group, base)]
        for variant, own in by.items():
            line = f"{base + ', ' + variant:>34}" + "".join(f"{cell(own[name]):>19}" for _, name in measures)
            paired = "-" if own is reference else cell(own[key].to_numpy() - reference[key].to_numpy())
            click.echo(f"{line}{paired:>26}")


def show_means(frame: pd.DataFrame, group: str) -> None:
    """Means over matrices: the standard error is that of the runs, for these very matrices."""
    rows = frame[frame["group"] == group]
    if rows["matrix"].nunique() < 2:
        return
    rows = rows.assign(variant=[v.split(":")[0] for v in rows["variant"]])  # S takes another prior on another matrix
    click.echo(f"\nmean over {rows['matrix'].nunique()} matrices and prices, {group}")
    measures = measures_of(group)
    click.echo(f"{'':>34}" + "".join(f"{name:>19}" for name, _ in measures))
    for base in BASES:
        for variant, own in rows[rows["base"] == base].groupby("variant", sort=False):
            line = f"{base + ', ' + variant:>34}"
            for _, name in measures:
                parts = [mean_and_error(part[name].to_numpy(dtype=float)) for _, part in own.groupby(["matrix", "prices"])]
                error = float(np.sqrt(np.square([e for _, e in parts]).sum())) / len(parts)
                line += f"{f'{np.mean([m for m, _ in parts]):.4f} ({error:.4f})':>19}"
            click.echo(line)


def draw(frame: pd.DataFrame, folder: Path) -> None:
    """One picture a group, ablation_GROUP.png: a panel per matrix; for `cost` a second row with the net utilities."""
    figures: Any = import_optional("matplotlib.figure", extra="plot", purpose="drawing the ablations")
    colors = dict(zip(BASES, ("#d55e00", "#0072b2"), strict=True))
    for group in dict.fromkeys(frame["group"]):
        rows = frame[frame["group"] == group]
        places = list(dict.fromkeys(zip(rows["matrix"], rows["prices"], strict=True)))
        lines = {"cost": [("regret", "-")], "recommendation": [("weighted", "-")]}.get(group, [("regret", "-")])
        second = {
            "cost": ("net utility", [("net_stop", "-"), ("net_budget", "--"), ("net_all", ":")]),
            "recommendation": ("switches up to 10 %", [("switches", "-")]),
        }.get(group)
        n_rows = 1 if second is None else 2
        figure = figures.Figure(figsize=(2.9 * len(places) + 0.6, 2.3 * n_rows + 0.9), layout="constrained")
        grid = figure.subplots(n_rows, len(places), squeeze=False)
        for j, (matrix, prices) in enumerate(places):
            part = rows[(rows["matrix"] == matrix) & (rows["prices"] == prices)]
            names = list(dict.fromkeys(part["variant"]))
            for i, keys in enumerate([lines] if second is None else [lines, second[1]]):
                for base, color in colors.items():
                    for key, dash in keys:
                        cells = [mean_and_error(part[(part["base"] == base) & (part["variant"] == v)][key].to_numpy(float)) for v in names]
                        label = base if len(keys) == 1 else f"{base}, {NET_LABELS[key]}"
                        grid[i][j].errorbar(
                            range(len(names)), [m for m, _ in cells], yerr=np.nan_to_num([e for _, e in cells]), color=color,
                            linestyle=dash, marker="o", markersize=3, linewidth=1.0, capsize=2, label=label,
                        )  # fmt: skip
                grid[i][j].set_xticks(range(len(names)), [n.split(":")[0] for n in names], rotation=60, ha="right", fontsize=7)
                grid[i][j].tick_params(axis="y", labelsize=8)
                grid[i][j].grid(alpha=0.2)
            grid[0][j].set_title(f"{Path(matrix).name if is_own(matrix) else matrix}, {prices}", fontsize=9)
            grid[0][j].set_ylim(bottom=0.0)
            if second is not None and group == "cost":  # what never stopping loses at a large lambda would hide everything else
                net = part[["net_stop", "net_budget"]].to_numpy(float)
                grid[1][j].set_ylim(np.nanmin(net) - 0.05, np.nanmax(net) + 0.02)
        grid[0][0].set_ylabel("regret over the budget" if group == "recommendation" else "simple regret, mean of 1 to 10 %", fontsize=8)
        if second is not None:
            grid[1][0].set_ylabel(second[0], fontsize=8)
        for row in grid:
            row[-1].legend(frameon=False, fontsize=7)
        save_small(figure, folder / f"ablation_{group}.png")


# -- command ------------------------------------------------------------------------------------------------------------


def _groups(context: click.Context, option: click.Parameter, value: str) -> tuple[str, ...]:
    names = tuple(part.strip() for part in value.split(",") if part.strip())
    for name in names:
        if name not in GROUPS:
            raise click.BadParameter(f"unknown group {name!r}; there are {', '.join(GROUPS)}", context, option)
    return names


@click.command(help=__doc__)
@matrix_options
@click.option("--prices", type=click.Choice(["unit", "priced", "both"]), default="unit", show_default=True, help="Costs of the arms.")
@click.option("--groups", default=",".join(GROUPS), show_default=True, callback=_groups, help="Groups to run, separated by commas.")
@click.option("--pictures", type=click.Path(path_type=Path, file_okay=False), help="Folder for a picture of each group (extra `plot`).")
@study_options(trials=20)
def main(
    data: Path | None, own: tuple[Path, ...], only: tuple[str, ...], prices: str, groups: tuple[str, ...], pictures: Path | None,
    trials: int, jobs: int, seed: int, out: Path | None,
) -> None:  # fmt: skip
    names = matrix_names(only, data, own, simulated=bool(only))
    kinds = ("unit", "priced") if prices == "both" else (prices,)
    places = [(name, kind, batch) for name, batch in names for kind in kinds if not (is_own(name) and kind == "priced")]
    if not places:
        raise click.UsageError("a matrix of your own has unit costs only; there is nothing to run with --prices priced")
    settings = [
        {"matrix": name, "prices": kind, "batch": batch, "data": None if data is None else str(data), "group": group, "trial": trial}
        for name, kind, batch in places
        for group in groups
        for trial in range(trials)
    ]
    frame = pd.DataFrame(run_trials(one_trial, settings, name="ablations", seed=seed, jobs=jobs, out=out))
    for group in groups:
        for name, kind, _ in places:
            show(frame, name, kind, group)
        show_means(frame, group)
    if pictures is not None:
        draw(frame, pictures)


if __name__ == "__main__":
    main()
