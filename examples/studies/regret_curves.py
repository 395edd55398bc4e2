"""Simple regret at 1, 2, 5 and 10 % of exhaustive cost, curves up to 10 %, and where the Gittins policies stop (figures 2 and 3).

Compares every policy of the paper, with unit costs and with prices: the paper's G and S and our default, UCB-E, UCB-E-LRF, SySRs and
PromptEval (both planned anew for each budget), and whole rows by Bayesian optimisation (PBGI, LogEI, LogEI per cost: extra `bo`). Real
matrices are read from the folder `--data` and skipped where it is not given (WildBench is bundled); two simulations have the shapes
of the paper's sets, which are not public in this form: BanditEval (122 arms x 1000 binary cells) and DOVE (15 models x 100
templates). On DOVE the policies that take seconds or more a run have to be asked for with `--policies`.

    python examples/studies/regret_curves.py --data DATA --trials 40 --pictures FOLDER
    python examples/studies/regret_curves.py --only dove --trials 5 --jobs 2
    python examples/studies/regret_curves.py --only wildbench --policies pbgi,logei --slow-trials 3
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from _matrices import READERS, is_own, load, matrix_names, matrix_options
from _policies import CHEAP, LABELS, chosen_policies, policies_option
from _regret_picture import draw_all, thinned
from _runner import mean_and_error, run_trials, study_options

import lrgittins as lg
from lrgittins.policy_names import REQUIREMENTS, nearest_bucket

FRACTIONS = (0.01, 0.02, 0.05, 0.10)
FINER = (0.0003, 0.002)  # AlpacaEval with the authors' prices is solved below 1 %
MEAN_UNIT = "paper G, mean unit"
PLANNED = ("sysrs", "prompteval")  # told their budget in advance, so each budget is a run of its own


# -- one trial ----------------------------------------------------------------------------------------------------------


def policies_for(responses: lg.ResponseMatrix, prices: str, batch: int) -> dict[str, Any]:
    """Policies that run past their stop signal; SySRs, which is planned for a budget, is apart."""
    chosen: dict[str, Any] = {
        "default": functools.partial(lg.GittinsPolicy, batch_size=batch),
        "paper G": functools.partial(lg.GittinsPolicy.paper, batch_size=batch),
        "paper S (hindsight)": functools.partial(
            lg.GittinsPolicy.paper, variant="S", prior=nearest_bucket(responses), batch_size=batch
        ),
        "UCB-E": functools.partial(lg.UCBE, batch_size=batch),
    }  # fmt: skip
    if prices == "priced":  # the paper's G with prices over their mean, so that lambda means the same as in the default
        chosen[MEAN_UNIT] = functools.partial(
            lg.GittinsPolicy, batch_size=batch, batch_schedule="constant", example_order="per-arm", roots="paper"
        )
    return chosen


def planned_row(responses: lg.ResponseMatrix, name: str, seed: int, batch: int) -> dict[str, Any]:
    """A policy that is told its budget: a run for each; the curve is that of the largest."""
    regret = []
    for fraction in (*FINER, *FRACTIONS):
        runs = lg.compare(responses, [name], budget=fraction, n_runs=1, random_state=seed, progress=False, batch_size=batch)
        regret.append(float(runs.at(fraction)["regret"].iloc[0]))
    return {"policy": LABELS[name], "regret": regret, "stopped": False, "curve": thinned(runs.runs[0])}


def run_rows(responses: lg.ResponseMatrix, runs: lg.PolicyComparison) -> list[dict[str, Any]]:
    """One row for every run of a comparison: regret, curve and stop."""
    at = runs.at([*FINER, *FRACTIONS])
    unit = float(responses.arm_cost.mean()) or 1.0
    best = float(responses.row_means.max())
    rows = []
    for row, record in zip(runs.stops().to_dict(orient="records"), runs.runs, strict=True):
        stopped = row["reason"] == "stop-signal"
        score = best - row["completed_regret"]
        spent = row["cost_fraction"] * responses.total_cost
        values = at[at["policy"] == row["policy"]]
        rows.append({
            "policy": row["policy"], "regret": values["regret"].tolist(), "stopped": stopped,
            "stop_fraction": row["cost_fraction"] if stopped else None, "stop_regret": row["completed_regret"] if stopped else None,
            "net_own": row["net_utility"] if stopped else None, "net_mean": score - 1e-4 * spent / unit if stopped else None,
            "curve": thinned(record),
        })  # fmt: skip
    return rows


def cheap_rows(responses: lg.ResponseMatrix, prices: str, batch: int, seed: int, policies: list[str]) -> list[dict[str, Any]]:
    labels = [LABELS[name] for name in policies]
    chosen = {label: make for label, make in policies_for(responses, prices, batch).items() if label in labels}
    if prices == "priced" and "gittins-g" in policies:
        chosen[MEAN_UNIT] = policies_for(responses, prices, batch)[MEAN_UNIT]
    rows = []
    if chosen:  # to the end, so that late stop signals are seen too
        rows += run_rows(responses, lg.compare(responses, chosen, budget=1.0, n_runs=1, random_state=seed, progress=False))
    if "sysrs" in policies:
        rows.append(planned_row(responses, "sysrs", seed, batch))
    return rows


def slow_rows(responses: lg.ResponseMatrix, name: str, batch: int, seed: int) -> list[dict[str, Any]]:
    try:
        if name in REQUIREMENTS:
            REQUIREMENTS[name](responses)
    except lg.ResponseError as error:
        return [{"policy": LABELS[name], "refused": str(error), "stopped": False}]
    if name in PLANNED:
        return [planned_row(responses, name, seed, batch)]
    runs = lg.compare(
        responses, {LABELS[name]: name}, budget=FRACTIONS[-1], n_runs=1, random_state=seed, progress=False, batch_size=batch
    )  # fmt: skip
    return run_rows(responses, runs)


def one_trial(
    rng: np.random.Generator, *, matrix: str, prices: str, batch: int, data: str | None, trial: int,
    policies: list[str] | None = None, policy: str | None = None,
) -> list[dict[str, Any]]:  # fmt: skip
    """All cheap policies (or those of them in `policies`), or the one slow `policy`."""
    responses = load(matrix, prices, data)
    seed = int(rng.integers(2**53))
    if policy is not None:
        rows = slow_rows(responses, policy, batch, seed)
    else:
        rows = cheap_rows(responses, prices, batch, seed, list(CHEAP) if policies is None else policies)
    return [{"matrix": matrix, "prices": prices, "trial": trial, **row} for row in rows]


# -- tables -------------------------------------------------------------------------------------------------------------


def cell(values: Any, digits: int = 4) -> str:
    mean, error = mean_and_error(np.asarray(values, dtype=float))
    return f"{mean:.{digits}f} ({'-' if np.isnan(error) else f'{error:.{digits}f}'})"


def show_matrix(frame: pd.DataFrame, matrix: str, prices: str) -> None:
    fractions = FRACTIONS if (matrix, prices) != ("alpaca_eval2", "priced") else (*FINER, *FRACTIONS)
    rows = frame[(frame["matrix"] == matrix) & (frame["prices"] == prices)]
    if rows.empty:
        return
    click.echo(f"\n{matrix}, {prices}: simple regret (standard error) at a budget of; at the stop signal")
    columns = "".join(f"{f'{100 * f:g} %':>16}" for f in fractions)
    click.echo(f"{'':>20}{'runs':>6}{columns}{'stopped':>9}{'cost, %':>14}{'regret':>17}{'net utility':>17}{'in mean unit':>17}")
    for policy in dict.fromkeys(rows["policy"]):
        group = rows[rows["policy"] == policy]
        if "refused" in group and group["refused"].notna().any():
            click.echo(f"{policy:>20}{'':>6}  refuses: {group['refused'].iloc[0].split('; ')[0]}")
            continue
        regret = np.array(group["regret"].tolist())[:, -len(fractions) :]
        line = f"{policy:>20}{len(group):>6}" + "".join(f"{cell(column):>16}" for column in regret.T)
        stopped = group[group["stopped"].astype(bool)]
        line += f"{len(stopped) / len(group):>9.0%}"
        if len(stopped):
            line += f"{cell(100.0 * stopped['stop_fraction'].to_numpy(dtype=float), 2):>14}"
            line += "".join(f"{cell(stopped[name]):>17}" for name in ("stop_regret", "net_own", "net_mean"))
        click.echo(line)


def show_ratios(frame: pd.DataFrame, prices: str) -> None:
    """Sum of mean regret over the four budgets, over that of the paper's G, and its geometric mean over matrices."""
    sums = frame[(frame["prices"] == prices) & frame["regret"].notna()].copy()
    sums["sum"] = [float(np.sum(r[-len(FRACTIONS) :])) for r in sums["regret"]]
    table = sums.groupby(["matrix", "policy"], sort=False)["sum"].mean().unstack("policy")
    base = "paper G" if prices == "unit" else MEAN_UNIT
    if base not in table:
        return
    click.echo(f"\n{prices}: sum of mean regret over {', '.join(f'{100 * f:g}' for f in FRACTIONS)} %, over that of {base}")
    ratio = table.drop(columns=base).div(table[base], axis=0)
    click.echo(f"{'':>32}" + "".join(f"{name:>21}" for name in ratio.columns))
    for matrix, row in ratio.iterrows():
        click.echo(f"{matrix:>32}" + "".join(f"{'-' if np.isnan(value) else f'{value:.3f}':>21}" for value in row))
    kinds = ["real matrices" if name.split("/")[0] in READERS else f"all {name.split('/')[0]}" for name in ratio.index]
    for group in [*dict.fromkeys(kinds), "all"]:
        rows = ratio[[group in ("all", kind) for kind in kinds]]
        line = f"{f'geometric mean, {group}':>32}"
        for policy in ratio.columns:  # no ratio where one of the two never regrets anything, or where the policy did not run
            usable = rows[policy][(rows[policy] > 0.0) & np.isfinite(rows[policy])]
            line += f"{f'{np.exp(np.log(usable).mean()):.3f} ({len(usable)} of {len(rows)})' if len(usable) else '-':>21}"
        click.echo(line)


# -- command ------------------------------------------------------------------------------------------------------------


def settings_of(
    names: list[tuple[str, int]], policies: list[str], named: bool, data: Path | None, trials: int, slow_trials: int
) -> list[dict[str, Any]]:
    """What is to be run.

    The cheap policies come first, so that neither their streams nor finished trials depend on the slow ones;
    those go trial by trial, so that more of them can be added.
    """
    places = [
        {"matrix": name, "prices": prices, "batch": batch, "data": None if data is None else str(data)}
        for name, batch in names
        for prices in ("unit", "priced")
        if not (is_own(name) and prices == "priced")
    ]
    cheap, slow = [name for name in policies if name in CHEAP], [name for name in policies if name not in CHEAP]
    # All of them is what it was before there was a choice: finished trials of then still count.
    choice = {} if cheap == list(CHEAP) else {"policies": cheap}
    settings = [{**place, "trial": trial, **choice} for place in places for trial in range(trials) if cheap]
    places = [place for place in places if named or not place["matrix"].startswith("dove/")]
    settings += [{**place, "trial": trial, "policy": policy} for trial in range(slow_trials) for place in places for policy in slow]
    return settings


@click.command(help=__doc__)
@matrix_options
@policies_option
@click.option("--slow-trials", default=5, show_default=True, type=click.IntRange(min=1), help="Repetitions of the policies that model.")
@click.option("--pictures", type=click.Path(path_type=Path, file_okay=False), help="Folder for pictures of the curves (extra `plot`).")
@study_options(trials=40)
def main(
    data: Path | None, own: tuple[Path, ...], only: tuple[str, ...], wanted: tuple[str, ...], slow_trials: int, pictures: Path | None,
    trials: int, jobs: int, seed: int, out: Path | None,
) -> None:  # fmt: skip
    names, policies = matrix_names(only, data, own), chosen_policies(wanted)
    if not wanted and any(name.startswith("dove/") for name, _ in names):
        click.echo(f"left out on DOVE, as not named in --policies: {', '.join(name for name in policies if name not in CHEAP)}")
    settings = settings_of(names, policies, bool(wanted), data, trials, slow_trials)
    frame = pd.DataFrame(run_trials(one_trial, settings, name="regret_curves", seed=seed, jobs=jobs, out=out))
    for name, _ in names:
        for prices in ("unit", "priced"):
            show_matrix(frame, name, prices)
    for prices in ("unit", "priced"):
        show_ratios(frame, prices)
    if pictures is not None:
        draw_all(frame, pictures, None if data is None else str(data), FRACTIONS)


if __name__ == "__main__":
    main()
