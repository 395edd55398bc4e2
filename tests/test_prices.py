"""Prices per example from a price table: joined by name, never guessed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest

import lrgittins as lg

TABLE = pd.DataFrame({"model": ["m1", "m2", "m3"], "input": [1.0, 10.0, 0.0], "output": [4.0, 30.0, 0.0]})


def test_costs_are_joined_by_name() -> None:
    costs = lg.arm_costs(TABLE, input_tokens=1000, output_tokens=500)
    assert costs.to_dict() == {"m1": 0.003, "m2": 0.025, "m3": 0.0} and costs.name == "cost"
    by_arm = lg.arm_costs(TABLE.iloc[::-1], input_tokens={"m2": 100, "m1": 1000}, output_tokens=pd.Series({"m1": 500, "m2": 0}))
    assert by_arm.to_dict() == {"m2": 0.001, "m1": 0.003}
    assert lg.arm_costs(pl.from_pandas(TABLE), input_tokens=[1, 2], output_tokens=0, arms=["m2", "m1"]).tolist() == [1e-5, 2e-6]
    assert lg.arm_costs(TABLE.set_index("model"), input_tokens=1000, output_tokens=500).equals(costs)
    assert lg.arm_costs({"x": {"input": 2.0, "output": 8.0}}, input_tokens=1e6, output_tokens=0).to_dict() == {"x": 2.0}
    assert lg.arm_costs({"x": (2.0, 8.0)}, input_tokens=1e6, output_tokens=1e6).tolist() == [10.0]
    assert lg.arm_costs(TABLE.rename(columns={"input": "in"}), input_tokens=1e6, output_tokens=0, input_price="in")["m2"] == 10.0
    policy = lg.GittinsPolicy(["m2", "m1"], 5, cost=costs)
    np.testing.assert_array_equal(policy.cost, [0.025, 0.003])


@pytest.mark.parametrize("bad", [None, float("nan"), -1.0, "0.5", float("inf")])
def test_bad_prices_name_the_arm(bad: Any) -> None:
    table = pd.DataFrame({"model": ["m1", "m2"], "input": pd.Series([1.0, bad], dtype=object), "output": [1.0, 1.0]})
    with pytest.raises(lg.ResponseError, match="'m2'"):
        lg.arm_costs(table, input_tokens=1, output_tokens=1)
    assert lg.arm_costs(table, input_tokens=1, output_tokens=1, arms=["m1"]).tolist() == [2e-6], "only wanted arms matter"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: lg.arm_costs(TABLE, input_tokens=1, output_tokens=1, arms=["m1", "zz"]), "no price for 1 of 2 arms: 'zz'"),
        (lambda: lg.arm_costs(TABLE.assign(id="x"), input_tokens=1, output_tokens=1), "several columns fit.*model="),
        (lambda: lg.arm_costs(TABLE.drop(columns="output"), input_tokens=1, output_tokens=1), "output price.*output_price="),
        (lambda: lg.arm_costs(TABLE, input_tokens=1, output_tokens=1, model="name"), "no column 'name'"),
        (lambda: lg.arm_costs(TABLE, input_tokens=-1, output_tokens=1), "input_tokens of arm 'm1'"),
        (lambda: lg.arm_costs(TABLE, input_tokens={"m1": 1}, output_tokens={"m2": 1}), "input_tokens has no entry"),
        (lambda: lg.arm_costs(TABLE, input_tokens=[1, 2, 3], output_tokens=1), "arms="),
        (
            lambda: lg.arm_costs(pd.concat([TABLE, TABLE.assign(input=2.0)]), input_tokens=1, output_tokens=1),
            "2 rows for 'm1' with different prices",
        ),
        (lambda: lg.arm_costs(3, input_tokens=1, output_tokens=1), "cannot be read from int"),
    ],
)
def test_refusals(call: Any, words: str) -> None:
    with pytest.raises((lg.ResponseError, lg.ParameterError), match=words):
        call()


def test_repeated_rows_of_one_price_are_one_price() -> None:
    assert len(lg.arm_costs(pd.concat([TABLE, TABLE]), input_tokens=1, output_tokens=1)) == 3


@pytest.mark.golden
def test_real_price_table(shared: Path) -> None:
    table = pd.read_csv(shared / "data/model_prices_litellm.csv")
    costs = lg.arm_costs(table, input_tokens=400, output_tokens=300, arms=["gpt-4o"])
    row = table[table["model"] == "gpt-4o"].iloc[0]
    assert costs["gpt-4o"] == pytest.approx((400 * row["usd_per_1m_input"] + 300 * row["usd_per_1m_output"]) / 1e6)
    with pytest.raises(lg.ResponseError, match="is missing"):
        lg.arm_costs(table, input_tokens=400, output_tokens=300)
