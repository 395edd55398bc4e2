"""What a decision costs: time of every policy a step and a run, and of the root schedules (figures 19 and 20).

Simulated matrices of binary scores, one thread, kernels compiled and libraries loaded before anything is timed. Per policy and size,
over the runs: building the policy with an empty schedule cache, one step (ask, tell and recommend: median over the steps after a random
start or warm-up, and the longest of all), the whole run to 10 % of the cost step by step, and, where there is one, the same run in the
replay kernel. Evaluations themselves take no time here. Bayesian optimisation (extra `bo`) fits a model for every row: it runs up to 122
arms, and to three rows after its random start where 10 % are fewer.

On a busy machine `--clock cpu` counts processor time of the process: with one thread, the wall time of an idle core.

    python examples/studies/overhead.py
    python examples/studies/overhead.py --size 56x805 --policies gittins,ucb-e-lrf --clock cpu
"""

from __future__ import annotations

import functools
import itertools
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import numpy as np
import pandas as pd
from _pictures import save_small
from _policies import CHEAP, LABELS, WHOLE_ROWS, chosen_policies, policies_option
from _runner import run_trials, study_options
from threadpoolctl import threadpool_limits

import lrgittins as lg
from lrgittins._optional import import_optional
from lrgittins._root_chains import row_cache
from lrgittins.policy_names import build_policy

SIZES = ("20x200", "56x805", "122x1000", "1500x100")
BUDGET = 0.10
MOST_ARMS = 122  # for Bayesian optimisation
MODEL_ROWS = 3  # after its random start, at least
CLOCKS: dict[str, Callable[[], float]] = {"wall": time.perf_counter, "cpu": time.process_time}
SCHEDULES = {"default": {"batch_schedule": "ramp", "method": "auto"}, "paper": {"batch_schedule": "constant", "method": "paper"}}


def parse_size(context: click.Context, option: click.Parameter, value: tuple[str, ...]) -> tuple[str, ...]:
    for text in value:
        parts = text.split("x")
        if len(parts) != 2 or not all(part.isdigit() and int(part) > 1 for part in parts):
            raise click.BadParameter(f"{text!r} is not a size such as 56x805 (arms x examples, at least 2 of each)", context, option)
    return value


def matrix_of(size: str, rng: np.random.Generator) -> lg.ResponseMatrix:
    """Binary scores, abilities of arms against difficulties of examples; a price per arm over two decades."""
    n_arms, n_examples = (int(part) for part in size.split("x"))
    odds = rng.normal(0.0, 0.7, n_arms)[:, None] - rng.normal(0.0, 1.5, n_examples)
    scores = (rng.random(odds.shape) < 1.0 / (1.0 + np.exp(-odds))).astype(float)
    return lg.ResponseMatrix.from_array(scores, cost=10.0 ** rng.uniform(-1.0, 1.0, n_arms))


@functools.cache
def warm(policy: str) -> None:
    """Compile and load what a policy needs, once in a process."""
    tiny = matrix_of("24x40", np.random.default_rng(0))
    budget = 0.4 if policy in WHOLE_ROWS else 0.5
    lg.replay(tiny, policy, budget=budget)
    drive(build_policy(policy, tiny, budget=budget), tiny, budget, time.perf_counter)
    for options in SCHEDULES.values():
        lg.root_schedule(np.array([1.0, 2.0]), n_examples=40, **options)


def drive(policy: Any, responses: lg.ResponseMatrix, budget: float, clock: Callable[[], float]) -> tuple[np.ndarray, np.ndarray]:
    """Ask, tell and recommend until the budget is spent: seconds of every step, and how many cells each asked for."""
    row = dict(zip(responses.arms, responses.scores, strict=True))
    column = {example: j for j, example in enumerate(responses.examples)}
    seconds, cells = [], []
    limit = budget * responses.total_cost
    while policy.spent < limit:
        start = clock()
        pull = policy.ask()
        asked = clock() - start
        if pull is None:
            break
        scores = row[pull.arm][[column[example] for example in pull.examples]]
        start = clock()
        policy.tell(pull, scores)
        policy.recommend()
        seconds.append(asked + clock() - start)
        cells.append(len(pull.examples))
    return np.array(seconds), np.array(cells)


def skipped_steps(policy: Any, cells: np.ndarray) -> int:
    """Steps of a random start or warm-up, which need no model."""
    if hasattr(policy, "n_warmup"):
        return int(np.searchsorted(np.cumsum(cells), policy.n_warmup, side="left")) + 1
    return int(getattr(policy, "n_start", 0))


def one_trial(rng: np.random.Generator, *, size: str, policy: str, clock: str, trial: int) -> list[dict[str, Any]]:
    """Times of one run of a policy, or (policy "roots") of the root schedules alone."""
    now = CLOCKS[clock]
    responses = matrix_of(size, rng)
    place = {"size": size, "policy": policy, "trial": trial}
    with threadpool_limits(1):
        if policy == "roots":
            warm("gittins")
            return [{**place, "schedule": key, "seconds": seconds} for key, seconds in schedule_seconds(responses, now).items()]
        warm(policy)
        budget = BUDGET
        if policy in WHOLE_ROWS:
            import torch

            torch.set_num_threads(1)
            # Prices are raw here, so the share of the cost and that of the rows differ: unit prices for whole rows.
            responses = lg.ResponseMatrix.from_array(responses.scores)
            start = build_policy(policy, responses, budget=1.0).n_start  # type: ignore[attr-defined]
            budget = max(BUDGET, (start + MODEL_ROWS) / responses.n_arms)
        seed = int(rng.integers(2**53))
        row_cache.clear()
        begin = now()
        built = build_policy(policy, responses, budget=budget, random_state=seed)
        setup = now() - begin
        steps, cells = drive(built, responses, budget, now)
        after = steps[skipped_steps(built, cells) :]
        row = {
            **place, "setup": setup, "steps": len(steps), "step": float(np.median(after)) if len(after) else None,
            "longest": float(steps.max()), "run": setup + float(steps.sum()), "budget": budget,
        }  # fmt: skip
        if policy in CHEAP:
            row_cache.clear()
            begin = now()
            lg.replay(responses, policy, budget=budget, random_state=seed)
            row["replay"] = now() - begin
    return [row]


def schedule_seconds(responses: lg.ResponseMatrix, now: Callable[[], float]) -> dict[str, float]:
    """Schedules from nothing: one price for all arms, and a price for each."""
    found = {}
    prices = {"one price": 1.0, "a price per arm": responses.arm_cost / responses.arm_cost.mean()}
    for (name, options), (many, cost) in itertools.product(SCHEDULES.items(), prices.items()):
        row_cache.clear()
        begin = now()
        lg.root_schedule(cost, n_examples=responses.n_examples, **options)
        found[f"{name}, {many}"] = now() - begin
    return found


# -- tables and picture --------------------------------------------------------------------------------------------------


def milliseconds(values: Any) -> str:
    known = [v for v in values if v is not None and not np.isnan(v)]
    return f"{1e3 * np.median(known):.3g}" if known else "-"


def show(frame: pd.DataFrame, size: str, clock: str) -> None:
    rows = frame[frame["size"] == size]
    click.echo(f"\n{size} (arms x examples), {clock} time in ms, medians")
    click.echo(f"{'':>20}{'runs':>6}{'run to':>9}{'steps':>8}{'set-up':>10}{'step':>10}{'longest':>10}{'run':>11}{'in kernel':>11}")
    for policy in [p for p in dict.fromkeys(rows["policy"]) if p != "roots"]:
        own = rows[rows["policy"] == policy]
        kernel = milliseconds(own["replay"]) if "replay" in own else "-"
        click.echo(
            f"{LABELS[policy]:>20}{len(own):>6}{f'{100 * own.budget.iloc[0]:.3g} %':>9}{np.median(own['steps']):>8.0f}"
            f"{milliseconds(own['setup']):>10}{milliseconds(own['step']):>10}{milliseconds(own['longest']):>10}"
            f"{milliseconds(own['run']):>11}{kernel:>11}"
        )
    roots = rows[rows["policy"] == "roots"]
    for schedule in dict.fromkeys(roots["schedule"]) if len(roots) else []:
        own = roots[roots["schedule"] == schedule]
        click.echo(f"{'roots, ' + schedule:>30}{milliseconds(own['seconds']):>10}")


def draw(frame: pd.DataFrame, folder: Path, clock: str) -> None:
    """overhead.png: time of a step and of a run by policy, a mark per size, log scale."""
    figures: Any = import_optional("matplotlib.figure", extra="plot", purpose="drawing the overhead")
    figure = figures.Figure(figsize=(9.0, 3.6), layout="constrained")
    rows = frame[frame["policy"] != "roots"]
    policies = list(dict.fromkeys(rows["policy"]))
    for axes, (key, title) in zip(figure.subplots(1, 2, sharey=True), (("step", "one step"), ("run", "run to 10 %")), strict=True):
        for i, size in enumerate(dict.fromkeys(rows["size"])):
            own = rows[rows["size"] == size].groupby("policy", sort=False)[key].median()
            at = [policies.index(policy) for policy in own.index]
            axes.plot(1e3 * own.to_numpy(), at, "osD^v<>"[i % 7], color=("#0072b2", "#d55e00", "#009e73", "#cc79a7")[i % 4], label=size)
        axes.set_xscale("log")
        axes.set_title(f"{title}, ms ({clock})", fontsize=9)
        axes.grid(alpha=0.3)
        axes.set_yticks(range(len(policies)), [LABELS[policy] for policy in policies], fontsize=8)
    axes.invert_yaxis()
    figure.legend(*axes.get_legend_handles_labels(), loc="outside right upper", frameon=False, fontsize=8)
    save_small(figure, folder / "overhead.png")


# -- command ------------------------------------------------------------------------------------------------------------


@click.command(help=__doc__)
@click.option("--size", "sizes", multiple=True, default=SIZES, show_default=True, callback=parse_size, help="Arms x examples (repeatable).")
@policies_option
@click.option("--clock", type=click.Choice(list(CLOCKS)), default="wall", show_default=True, help="Wall time, or time of the processor.")
@click.option("--pictures", type=click.Path(path_type=Path, file_okay=False), help="Folder for a picture (extra `plot`).")
@study_options(trials=3)
def main(
    sizes: tuple[str, ...], wanted: tuple[str, ...], clock: str, pictures: Path | None,
    trials: int, jobs: int, seed: int, out: Path | None,
) -> None:  # fmt: skip
    if jobs != 1:
        raise click.UsageError(f"--jobs {jobs}: runs beside each other would slow each other down; times need --jobs 1")
    policies = chosen_policies(wanted)
    settings = []
    for size in sizes:
        many = int(size.split("x")[0]) > MOST_ARMS
        left = [policy for policy in policies if many and policy in WHOLE_ROWS]
        if left:
            click.echo(f"left out at {size}: {', '.join(left)} (they run up to {MOST_ARMS} arms here)")
        names = [policy for policy in policies if policy not in left]
        settings += [{"size": size, "policy": p, "clock": clock, "trial": t} for p in [*names, "roots"] for t in range(trials)]
    frame = pd.DataFrame(run_trials(one_trial, settings, name="overhead", seed=seed, jobs=1, out=out))
    for size in sizes:
        show(frame, size, clock)
    if pictures is not None:
        draw(frame, pictures, clock)


if __name__ == "__main__":
    main()
