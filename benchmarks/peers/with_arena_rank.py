"""arena-rank: L-BFGS in JAX on distinct (pair, outcome) rows, sandwich intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset

from . import ours
from .inputs import Size, simulated_votes
from .timing import Case


def point_fit(frame: pd.DataFrame) -> pd.Series:
    dataset = PairDataset.from_pandas(frame)
    model = BradleyTerry(n_competitors=len(dataset.competitors)).fit(dataset)
    return pd.Series(np.asarray(model.params["ratings"]), index=dataset.competitors)


def with_intervals(frame: pd.DataFrame) -> pd.Series:
    """Standard errors, natural-log units, from the variances it reports in rating points."""
    dataset = PairDataset.from_pandas(frame)
    model = BradleyTerry(n_competitors=len(dataset.competitors))
    result = model.compute_ratings_and_cis(dataset, significance_level=0.05)
    np.asarray(result["rating_lower"])  # waits for the asynchronous computation
    return pd.Series(np.sqrt(np.asarray(result["variances"])) / model.alpha, index=result["competitors"])


def per_task(frame: pd.DataFrame) -> dict[str, pd.Series]:
    return {task: point_fit(part) for task, part in frame.groupby("task")}


def cases(size: Size) -> Iterator[Case]:
    frame = simulated_votes(size.votes, size.models)
    shape = f"{size.votes:,} votes x {size.models} models"
    compiles = "(its optimiser is compiled anew at every fit)"
    yield Case(
        "point", f"point fit, {shape}", f"PairDataset.from_pandas, BradleyTerry.fit {compiles}", ours.POINT,
        lambda: point_fit(frame), lambda: ours.point_fit(frame), ours.score_difference, "scores",
    )  # fmt: skip
    way = f"compute_ratings_and_cis, sandwich: marginal intervals {compiles}"
    yield Case(
        "intervals", f"fit with standard errors, {shape}", way, ours.ERRORS,
        lambda: with_intervals(frame), lambda: ours.fit_with_errors(frame),
        lambda t, o: ours.error_difference(t, ours.errors_of_scores(o[1], o[0].index)), "SE, relative", 2.0,
    )  # fmt: skip
    yield Case(
        "intervals", f"fit with simultaneous board, {shape}", way, ours.BOARD,
        lambda: with_intervals(frame), lambda: ours.fit_board(frame),
        lambda t, o: ours.error_difference(t, ours.board_errors(o)), "SE, relative", 2.0,
    )  # fmt: skip
    for n_tasks, n_models, n_votes in size.tasks:
        tasks = simulated_votes(n_votes, n_models, n_tasks)
        yield Case(
            "tasks", f"per-task fits, {n_tasks} x {n_models} x {n_votes:,} votes",
            f"groupby, the point fit of each task {compiles}", ours.POINT,
            lambda tasks=tasks: per_task(tasks), lambda tasks=tasks: ours.per_task(tasks), ours.task_difference, "scores",
        )  # fmt: skip
