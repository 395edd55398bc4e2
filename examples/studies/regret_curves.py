"""Simple regret at 1, 2, 5 and 10 % of exhaustive cost, and where the Gittins policies stop.

Compares the paper's G and S, the default policy, UCB-E and SySRs (planned for each budget), with unit costs and with prices. Real
matrices are read from the folder `--data` and skipped where it is not given (WildBench is bundled); two simulations have the shapes
of the paper's sets, which are not public in this form: BanditEval (122 arms x 1000 binary cells) and DOVE (15 models x 100
templates). `--matrix FILE` adds a matrix of your own.

    python examples/studies/regret_curves.py --data DATA --trials 40
    python examples/studies/regret_curves.py --only dove --trials 5 --jobs 2
"""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from _runner import mean_and_error, run_trials, study_options

import lrgittins as lg
from lrgittins.policy_names import nearest_bucket

FRACTIONS = (0.01, 0.02, 0.05, 0.10)
FINER = (0.0003, 0.002)  # AlpacaEval with the authors' prices is solved below 1 %
DOVE_EXAMPLES, DOVE_BATCHES = (100, 150, 400, 1534), (2, 4, 8)
DOVE_QUALITY = {"easy": 1.2, "medium": 0.0, "hard": -1.2}  # mean log-odds of a correct answer
# Assumed, as no token counts are published with the scores: the order of magnitude of WildBench prompts and answers.
WILDBENCH_TOKENS = {"input_tokens": 1000, "output_tokens": 600}


# -- matrices -----------------------------------------------------------------------------------------------------------


def alpaca_eval2(data: Path, priced: bool) -> lg.ResponseMatrix:
    """56 models x 805 instructions; ten cells without a judgement. The authors' prices, or their tier of that size."""
    arms = pd.read_csv(data / "alpaca_eval2_arms.csv").set_index("model")
    return lg.ResponseMatrix.read(data / "alpaca_eval2_matrix.parquet", arm="model", cost=arms["cost"] if priced else None)


def lcb_execution(data: Path, priced: bool) -> lg.ResponseMatrix:
    """68 model x prompt arms on 479 LiveCodeBench items."""
    arms = pd.read_csv(data / "lcb_execution_arms.csv").set_index("model")
    cost = arms["cost_usd_per_example"] if priced else None
    return lg.ResponseMatrix.read(data / "lcb_execution_matrix.parquet", arm="model", cost=cost)


def aslib_sat18_exp(data: Path, priced: bool) -> lg.ResponseMatrix:
    """37 SAT solvers on 353 instances; the price of a cell is its run time."""
    with np.load(data / "aslib_sat18_exp.npz", allow_pickle=False) as file:
        cost = file["runtime_s"].astype(float) if priced else None
        return lg.ResponseMatrix.from_array(file["score"], arms=file["arms"].tolist(), examples=file["examples"].tolist(), cost=cost)


def wildbench(data: Path | None, priced: bool) -> lg.ResponseMatrix:
    """12 models on 1,024 tasks, bundled with the package; some cells missing."""
    from lrgittins.datasets import load_wildbench_frame, load_wildbench_prices

    frame = load_wildbench_frame()
    cost = lg.arm_costs(load_wildbench_prices(), **WILDBENCH_TOKENS, arms=sorted(frame["model"].unique())) if priced else None
    return lg.ResponseMatrix.from_frame(frame, arm="model", example="item", cost=cost)


def bandit_eval(index: int, priced: bool) -> lg.ResponseMatrix:
    """122 arms x 1000 binary cells: abilities of arms against difficulties of examples, log-uniform prices over two decades."""
    rng = np.random.default_rng([122, index])
    center = np.linspace(-1.5, 1.5, 5)[index]
    ability = rng.normal(center, 0.7, 122)
    odds = ability[:, None] - rng.normal(0.0, 1.5, 1000)
    scores = (rng.random(odds.shape) < 1.0 / (1.0 + np.exp(-odds))).astype(float)
    # Better arms cost more, on the whole.
    cost = 10.0 ** (rng.uniform(-1.0, 1.0, 122) + 0.3 * (ability - center)) if priced else None
    return lg.ResponseMatrix.from_array(scores, cost=cost)


@functools.lru_cache(maxsize=2)
def dove(n_examples: int, level: str, priced: bool) -> lg.ResponseMatrix:
    """15 models x 100 prompt templates: templates shift a model's ability a little; one price per model."""
    rng = np.random.default_rng([15, n_examples, list(DOVE_QUALITY).index(level)])
    model = rng.normal(DOVE_QUALITY[level], 0.7, 15)
    arm = (model[:, None] + rng.normal(0.0, 0.35, (15, 100)) + rng.normal(0.0, 0.15, 100)).ravel()
    odds = arm[:, None] - rng.normal(0.0, 1.5, n_examples)
    scores = (rng.random(odds.shape) < 1.0 / (1.0 + np.exp(-odds))).astype(float)
    price = np.exp(rng.normal(0.0, 1.0, 15) + 0.5 * (model - model.mean()))
    return lg.ResponseMatrix.from_array(scores, cost=np.repeat(price, 100) if priced else None)


READERS: dict[str, Callable[[Any, bool], lg.ResponseMatrix]] = {
    "alpaca_eval2": alpaca_eval2,
    "lcb_execution": lcb_execution,
    "aslib_sat18_exp": aslib_sat18_exp,
    "wildbench": wildbench,
}


def load(name: str, prices: str, data: str | None) -> lg.ResponseMatrix:
    """A matrix by its name in the tables."""
    priced = prices == "priced"
    kind, *rest = name.split("/")
    if kind == "bandit-eval":
        return bandit_eval(int(rest[0]), priced)
    if kind == "dove":
        return dove(int(rest[0][1:]), rest[1], priced)
    if kind == "file":
        return lg.ResponseMatrix.read(name.removeprefix("file/"))
    return READERS[kind](None if data is None else Path(data), priced)


def matrix_names(only: tuple[str, ...], data: Path | None, own: tuple[Path, ...]) -> list[tuple[str, int]]:
    """(name, batch size) of everything that was asked for."""
    named = [(name, 8) for name in READERS if data is not None or name == "wildbench"]
    named += [(f"bandit-eval/{index}", 8) for index in range(5)]
    for n, level, batch in itertools.product(DOVE_EXAMPLES, DOVE_QUALITY, DOVE_BATCHES):
        named.append((f"dove/N{n}/{level}/B{batch}", batch))
    named = [(name, batch) for name, batch in named if not only or any(name.startswith(prefix) for prefix in only)]
    return named + [(f"file/{path}", 8) for path in own]


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
        chosen["paper G, mean unit"] = functools.partial(
            lg.GittinsPolicy, batch_size=batch, batch_schedule="constant", example_order="per-arm", roots="paper"
        )
    return chosen


def one_trial(rng: np.random.Generator, *, matrix: str, prices: str, batch: int, data: str | None, trial: int) -> list[dict[str, Any]]:
    responses = load(matrix, prices, data)
    seed = int(rng.integers(2**53))
    place = {"matrix": matrix, "prices": prices, "trial": trial}
    rows = []
    # To the end, so that late stop signals are seen too.
    runs = lg.compare(responses, policies_for(responses, prices, batch), budget=1.0, n_runs=1, random_state=seed, progress=False)
    at = runs.at([*FINER, *FRACTIONS])
    unit = float(responses.arm_cost.mean()) or 1.0
    best = float(responses.row_means.max())
    for row in runs.stops().to_dict(orient="records"):
        stopped = row["reason"] == "stop-signal"
        score = best - row["completed_regret"]
        spent = row["cost_fraction"] * responses.total_cost
        values = at[at["policy"] == row["policy"]]
        rows.append({
            **place, "policy": row["policy"], "regret": values["regret"].tolist(), "stopped": stopped,
            "stop_fraction": row["cost_fraction"] if stopped else None, "stop_regret": row["completed_regret"] if stopped else None,
            "net_own": row["net_utility"] if stopped else None, "net_mean": score - 1e-4 * spent / unit if stopped else None,
        })  # fmt: skip
    regret = []
    for fraction in (*FINER, *FRACTIONS):
        planned = lg.compare(responses, ["sysrs"], budget=fraction, n_runs=1, random_state=seed, progress=False, batch_size=batch)
        regret.append(float(planned.at(fraction)["regret"].iloc[0]))
    rows.append({**place, "policy": "SySRs", "regret": regret, "stopped": False})
    return rows


# -- tables -------------------------------------------------------------------------------------------------------------


def cell(values: Any) -> str:
    mean, error = mean_and_error(np.asarray(values, dtype=float))
    return f"{mean:.4f} ({error:.4f})"


def show_matrix(frame: pd.DataFrame, matrix: str, prices: str, trials: int) -> None:
    fractions = FRACTIONS if (matrix, prices) != ("alpaca_eval2", "priced") else (*FINER, *FRACTIONS)
    rows = frame[(frame["matrix"] == matrix) & (frame["prices"] == prices)]
    if rows.empty:
        return
    click.echo(f"\n{matrix}, {prices}: simple regret (standard error) at a budget of, {trials} runs; at the stop signal")
    columns = "".join(f"{f'{100 * f:g} %':>16}" for f in fractions)
    click.echo(f"{'':>20}{columns}{'stopped':>9}{'cost, %':>14}{'regret':>17}{'net utility':>17}{'in mean unit':>17}")
    for policy in dict.fromkeys(rows["policy"]):
        group = rows[rows["policy"] == policy]
        regret = np.array(group["regret"].tolist())[:, -len(fractions) :]
        line = f"{policy:>20}" + "".join(f"{cell(column):>16}" for column in regret.T)
        stopped = group[group["stopped"].astype(bool)]
        line += f"{len(stopped) / len(group):>9.0%}"
        if len(stopped):
            mean, error = mean_and_error(100.0 * stopped["stop_fraction"].to_numpy(dtype=float))
            line += f"{f'{mean:.2f} ({error:.2f})':>14}"
            line += "".join(f"{cell(stopped[name]):>17}" for name in ("stop_regret", "net_own", "net_mean"))
        click.echo(line)


def show_ratios(frame: pd.DataFrame, prices: str) -> None:
    """Sum of mean regret over the four budgets, over that of the paper's G, and its geometric mean over matrices."""
    sums = frame[frame["prices"] == prices].copy()
    sums["sum"] = [float(np.sum(r[-len(FRACTIONS) :])) for r in sums["regret"]]
    table = sums.groupby(["matrix", "policy"], sort=False)["sum"].mean().unstack("policy")
    if table.empty:
        return
    base = "paper G" if prices == "unit" else "paper G, mean unit"
    click.echo(f"\n{prices}: sum of mean regret over {', '.join(f'{100 * f:g}' for f in FRACTIONS)} %, over that of {base}")
    ratio = table.drop(columns=base).div(table[base], axis=0)
    click.echo(f"{'':>32}" + "".join(f"{name:>21}" for name in ratio.columns))
    for matrix, row in ratio.iterrows():
        click.echo(f"{matrix:>32}" + "".join(f"{value:>21.3f}" for value in row))
    kinds = ["real matrices" if name.split("/")[0] in READERS else f"all {name.split('/')[0]}" for name in ratio.index]
    for group in [*dict.fromkeys(kinds), "all"]:
        rows = ratio[[group in ("all", kind) for kind in kinds]]
        line = f"{f'geometric mean, {group}':>32}"
        for policy in ratio.columns:  # no ratio where one of the two never regrets anything
            usable = rows[policy][(rows[policy] > 0.0) & np.isfinite(rows[policy])]
            line += f"{f'{np.exp(np.log(usable).mean()):.3f} ({len(usable)} of {len(rows)})' if len(usable) else '-':>21}"
        click.echo(line)


@click.command(help=__doc__)
@click.option("--data", type=click.Path(path_type=Path, exists=True, file_okay=False), help="Folder of the real matrices.")
@click.option("--matrix", "own", multiple=True, type=click.Path(path_type=Path, exists=True), help="A matrix of your own (long form).")
@click.option("--only", multiple=True, help="Only matrices whose name starts so (repeatable): alpaca, dove/N100, ...")
@study_options(trials=40)
def main(data: Path | None, own: tuple[Path, ...], only: tuple[str, ...], trials: int, jobs: int, seed: int, out: Path | None) -> None:
    names = matrix_names(only, data, own)
    settings = [
        {"matrix": name, "prices": prices, "batch": batch, "data": None if data is None else str(data), "trial": trial}
        for name, batch in names
        for prices in ("unit", "priced")
        if not (name.startswith("file/") and prices == "priced")
        for trial in range(trials)
    ]
    frame = pd.DataFrame(run_trials(one_trial, settings, name="regret_curves", seed=seed, jobs=jobs, out=out))
    for name, _ in names:
        for prices in ("unit", "priced"):
            show_matrix(frame, name, prices, trials)
    for prices in ("unit", "priced"):
        show_ratios(frame, prices)


if __name__ == "__main__":
    main()
