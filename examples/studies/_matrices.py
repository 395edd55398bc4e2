"""Matrices of the selection studies: real ones from a folder, the bundled one, simulations of the paper's shapes, files of your own.

The paper's own sets are not public in this form. The simulations have their shapes: BanditEval (122 arms x 1000 binary cells) and
DOVE (15 models x 100 templates).
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

import lrgittins as lg

DOVE_EXAMPLES, DOVE_BATCHES = (100, 150, 400, 1534), (2, 4, 8)
DOVE_QUALITY = {"easy": 1.2, "medium": 0.0, "hard": -1.2}  # mean log-odds of a correct answer
# Assumed, as no token counts are published with the scores: the order of magnitude of WildBench prompts and answers.
WILDBENCH_TOKENS = {"input_tokens": 1000, "output_tokens": 600}
OWN = "file/"


def matrix_options(function: Callable[..., None]) -> Callable[..., None]:
    """The options that say which matrices a study looks at."""
    for option in (
        click.option("--only", multiple=True, help="Only matrices whose name starts so (repeatable): alpaca, dove/N100, ..."),
        click.option(
            "--matrix", "own", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
            help="A matrix of your own (long form: arm, example, score) instead of the named ones; beside them with --only.",
        ),
        click.option(
            "--data", type=click.Path(path_type=Path, exists=True, file_okay=False),
            help="Folder of the real matrices; without it they are left out (WildBench is bundled).",
        ),
    ):  # fmt: skip
        function = option(function)
    return function


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


@functools.lru_cache(maxsize=4)
def load(name: str, prices: str, data: str | None) -> lg.ResponseMatrix:
    """A matrix by its name in the tables."""
    priced = prices == "priced"
    kind, *rest = name.split("/")
    if kind == "bandit-eval":
        return bandit_eval(int(rest[0]), priced)
    if kind == "dove":
        return dove(int(rest[0][1:]), rest[1], priced)
    if kind == "file":
        return lg.ResponseMatrix.read(name.removeprefix(OWN))
    return READERS[kind](None if data is None else Path(data), priced)


def is_own(name: str) -> bool:
    """Whether a name stands for a file given with `--matrix`: those have no second set of prices."""
    return name.startswith(OWN)


def matrix_names(only: tuple[str, ...], data: Path | None, own: tuple[Path, ...], *, simulated: bool = True) -> list[tuple[str, int]]:
    """(name, batch size) of everything that was asked for."""
    named = [(name, 8) for name in READERS if data is not None or name == "wildbench"]
    if simulated:
        named += [(f"bandit-eval/{index}", 8) for index in range(5)]
        for n, level, batch in itertools.product(DOVE_EXAMPLES, DOVE_QUALITY, DOVE_BATCHES):
            named.append((f"dove/N{n}/{level}/B{batch}", batch))
    for prefix in only:
        if not any(name.startswith(prefix) for name, _ in named):
            known = ", ".join(dict.fromkeys(name.split("/")[0] for name, _ in named))
            raise click.UsageError(f"no matrix has a name that starts with {prefix!r}; there are {known} (the real ones need --data)")
    if own and not only:
        named = []
    named = [(name, batch) for name, batch in named if not only or any(name.startswith(prefix) for prefix in only)]
    return named + [(f"{OWN}{path}", 8) for path in own]
