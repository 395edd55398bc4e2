"""arena-rank: L-BFGS in JAX on distinct (pair, outcome) rows, sandwich intervals."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pandas as pd
from arena_rank.models.bradley_terry import BradleyTerry
from arena_rank.utils.data_utils import PairDataset

from . import rows
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


def cases(size: Size) -> Iterator[Case]:
    frame = simulated_votes(size.votes, size.models)
    compiles = "(its optimiser is compiled anew at every fit)"
    yield rows.point(frame, point_fit, f"PairDataset.from_pandas, BradleyTerry.fit {compiles}")
    way = f"compute_ratings_and_cis, sandwich: marginal intervals {compiles}"
    yield rows.errors(frame, with_intervals, way)
    yield rows.board(frame, with_intervals, way)
    yield from rows.tasks(size, point_fit, f"groupby, the point fit of each task {compiles}")
