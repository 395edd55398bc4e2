"""Small real data sets that come with the package, for examples, tests and the demo. Sources and licences are in NOTICE."""

from __future__ import annotations

from importlib.resources import as_file, files
from typing import Any

import pandas as pd

from .comparisons import Comparisons


def load_llmfao(*, cluster: str | None = None, **options: Any) -> Comparisons:
    """Crowd votes on 59 language models over 13 prompts (the tasks): 8,931 votes, 39 % ties.

    Parameters
    ----------
    cluster : {None, "worker"}
        "worker" treats the votes of one annotator as dependent.
    **options
        As in `Comparisons.from_frame`.

    Notes
    -----
    Dmitry Ustalov, LLMFAO (https://github.com/dustalov/llmfao), CC BY 4.0. `model_a` is the left answer.
    """
    return Comparisons.from_frame(load_llmfao_frame(), cluster=cluster, **options)


def load_llmfao_frame() -> pd.DataFrame:
    """The votes behind `load_llmfao`: task, task_type, model_a, model_b, winner, worker (all str), one row each."""
    return _load("llmfao_crowd_pairs", dtype=str)


def load_wildbench_frame() -> pd.DataFrame:
    """WildBench v2.0522 scores by gpt-4-turbo: model, item, score in [0, 1]; 12 models, 1,018 to 1,024 of 1,024 items each.

    Notes
    -----
    Allen Institute for AI, WildBench (https://github.com/allenai/WildBench), Apache-2.0. score = (judge's mark - 1) / 9; a missing
    pair has no row.
    """
    frame = _load("wildbench_scores", dtype={"model": str, "item": str, "score_raw": "int64"})
    score = (frame["score_raw"] - 1) / 9
    return frame.drop(columns="score_raw").assign(score=score)


def load_wildbench_prices() -> pd.DataFrame:
    """Prices of the WildBench models in USD per million tokens: model, usd_per_1m_input, usd_per_1m_output, price_row, basis.

    `basis` is "list price", or "size class" where the table has no row for the model and the price class of its size stands in.

    Notes
    -----
    BerriAI, LiteLLM (https://github.com/BerriAI/litellm), MIT.
    """
    return _load("wildbench_prices", dtype={"model": str, "price_row": str, "basis": str})


def _load(name: str, dtype: Any) -> pd.DataFrame:
    with as_file(files("lrgittins") / "data" / f"{name}.csv.gz") as path:
        return pd.read_csv(path, dtype=dtype, keep_default_na=False, compression="gzip")
