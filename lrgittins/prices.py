"""From a price table and token counts to a price per example."""

from __future__ import annotations

import numbers as abstract
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd

from ._tables import to_pandas
from .errors import ParameterError, ResponseError
from .policies.inputs import check_by_arm, check_labels, shown

_MODEL = ("model", "arm", "id", "name")
_INPUT = ("input", "input_price", "input_usd_per_1m", "usd_per_1m_input", "prompt", "prompt_price")
_OUTPUT = ("output", "output_price", "output_usd_per_1m", "usd_per_1m_output", "completion", "completion_price")


def arm_costs(
    prices: Any,
    *,
    input_tokens: Any,
    output_tokens: Any,
    arms: Any = None,
    model: str | None = None,
    input_price: str | None = None,
    output_price: str | None = None,
) -> pd.Series:
    """Price per example of every arm, from prices per million tokens.

    Parameters
    ----------
    prices : data frame, or mapping name -> (input, output) or name -> {"input": ..., "output": ...}
        USD per 1M tokens. Joined by model name (a column, or the index where there is no such column), never by position.
    input_tokens, output_tokens : float, mapping or Series by arm, or one per arm
        Tokens per example.
    arms : sequence of names, optional
        Which arms are wanted; by default those the token mappings name, else all models of the table.
    model, input_price, output_price : str, optional
        Column names; found by themselves where one of the usual names is there.

    Returns
    -------
    Series of float64, named "cost", indexed by arm
        ``(input price * input tokens + output price * output tokens) / 1e6``: USD per example.

    Raises
    ------
    ResponseError
        Prices of wanted arms that are absent, missing, negative, text, or given twice with different values.
    """
    table = _price_table(prices, model, input_price, output_price)
    wanted = _wanted(arms, input_tokens, output_tokens, table)
    absent = [name for name in wanted if name not in table]
    if absent:
        raise ResponseError(f"no price for {len(absent)} of {len(wanted)} arms: {shown(absent)}; names must match those of the price table")
    costs = np.zeros(len(wanted))
    for side, tokens in enumerate((input_tokens, output_tokens)):
        word = ("input", "output")[side]
        price = check_by_arm(
            [_one_price(table[name], side, name) for name in wanted], f"{word} price", wanted, low=0.0, error=ResponseError
        )
        costs += price * check_by_arm(tokens, f"{word}_tokens", wanted, low=0.0)
    return pd.Series(costs / 1e6, index=pd.Index(wanted, name="arm"), name="cost")


def _price_table(prices: Any, model: str | None, input_price: str | None, output_price: str | None) -> dict[Any, list[tuple[Any, Any]]]:
    """Name -> all its (input, output) rows."""
    if isinstance(prices, Mapping) and all(isinstance(pair, tuple) and len(pair) == 2 for pair in prices.values()):
        return {name: [pair] for name, pair in prices.items()}
    if isinstance(prices, Mapping) and prices and all(isinstance(entry, Mapping) for entry in prices.values()):
        prices = pd.DataFrame.from_dict({name: dict(entry) for name, entry in prices.items()}, orient="index")
    frame = to_pandas(prices, "the price table")
    named_by_index = model is None and not isinstance(frame.index, pd.RangeIndex) and not any(name in frame.columns for name in _MODEL)
    names = (frame.index if named_by_index else frame[_column(frame, model, _MODEL, "model")]).tolist()
    inputs = frame[_column(frame, input_price, _INPUT, "input_price")].tolist()
    outputs = frame[_column(frame, output_price, _OUTPUT, "output_price")].tolist()
    table: dict[Any, list[tuple[Any, Any]]] = {}
    for name, first, second in zip(names, inputs, outputs, strict=True):
        table.setdefault(name, []).append((first, second))
    return table


def _column(frame: pd.DataFrame, given: str | None, usual: tuple[str, ...], argument: str) -> str:
    if given is not None:
        if given not in frame.columns:
            raise ResponseError(f"the price table has no column {given!r} ({argument}=); its columns are {shown(frame.columns, 20)}")
        return given
    found = [name for name in usual if name in frame.columns]
    if len(found) > 1 and argument != "model":  # a column of text (such as "prompt") is no price
        found = [name for name in found if pd.api.types.is_numeric_dtype(frame[name].dtype)] or found
    if len(found) != 1:
        several = f"several columns fit ({shown(found)})" if found else f"none of the columns {shown(frame.columns, 20)} has a usual name"
        raise ResponseError(f"which column of the price table is the {argument.replace('_', ' ')}? {several}; say it with {argument}=")
    return found[0]


def _wanted(arms: Any, input_tokens: Any, output_tokens: Any, table: Mapping[Any, Any]) -> list[Any]:
    if arms is not None:
        return check_labels(arms, "arms")
    keyed = [tokens for tokens in (input_tokens, output_tokens) if isinstance(tokens, (Mapping, pd.Series))]
    if keyed:
        return list(dict.fromkeys(name for tokens in keyed for name in (tokens if isinstance(tokens, Mapping) else tokens.index)))
    if any(not isinstance(tokens, abstract.Real) for tokens in (input_tokens, output_tokens)):
        raise ParameterError("tokens given as a sequence need arms= to say whose they are; or give a mapping by arm name")
    return list(table)


def _one_price(rows: list[tuple[Any, Any]], side: int, name: Any) -> Any:
    values = list(
        dict.fromkeys("missing" if value is None or value is pd.NA or value != value else value for value in (r[side] for r in rows))
    )
    if len(values) > 1:
        raise ResponseError(
            f"the price table has {len(rows)} rows for {name!r} with different prices ({shown(values)}); keep the one that applies"
        )
    if isinstance(values[0], str) and values[0] == "missing":
        raise ResponseError(f"the price of arm {name!r} is missing; a missing price is not zero: fill it in or leave the arm out")
    return values[0]
