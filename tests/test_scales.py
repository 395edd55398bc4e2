"""Elo-like scale, win probabilities and anchors: scores and errors move, ranks and certificates never do."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg

from .boards import ISLANDS, THREE, simulated, votes

FACTOR = 400 / math.log(10)


@pytest.fixture(scope="module")
def inference():
    return lg.infer_gaps(simulated(n=3000)[1], lg.LowRankBradleyTerry(rank=2))


@pytest.fixture(scope="module")
def board(inference):
    return inference.certify(3)


def test_elo_is_the_chess_formula():
    # A gap of 400 points is odds of 10 to 1, by definition of the scale.
    assert lg.elo(math.log(10), center=0) == pytest.approx(400)
    assert lg.elo(0.0) == 1000 and lg.elo(0.0, center=1500) == 1500


@pytest.mark.parametrize("make", [list, tuple, np.array, pd.Series])
def test_elo_of_sequences(make):
    given = make([0.0, 1.0, -2.0])
    out = lg.elo(given)
    assert np.allclose(np.asarray(out), [1000, 1000 + FACTOR, 1000 - 2 * FACTOR]) and list(given) == [0.0, 1.0, -2.0]


def test_elo_of_a_frame_keeps_labels(inference):
    out = lg.elo(inference.scores)
    assert out.index.equals(inference.scores.index) and out.columns.equals(inference.scores.columns)
    assert np.allclose(out.mean(axis=1), 1000)


@pytest.mark.parametrize("bad", ["x", ["a", 1], pd.DataFrame({"a": ["x"]})])
def test_elo_refuses_text(bad):
    with pytest.raises(lg.ParameterError):
        lg.elo(bad)


def test_board_in_elo_changes_scores_and_errors_only(board):
    plain, shown = board.to_frame(), board.to_frame(scale="elo")
    assert np.allclose(shown["score"], 1000 + FACTOR * plain["score"]) and np.allclose(shown["std_error"], FACTOR * plain["std_error"])
    others = [name for name in plain.columns if name not in ("score", "std_error")]
    pd.testing.assert_frame_equal(plain[others], shown[others])
    pd.testing.assert_frame_equal(board.to_frame(), plain)  # the board itself is unchanged


@pytest.mark.parametrize(("scale", "anchor", "score"), [("natural", "m02", 0.0), ("elo", "m02", 1000.0), ("elo", ("m02", 1200), 1200.0),
                                                        ("natural", {"m02": -1.5}, -1.5)])  # fmt: skip
def test_anchor_moves_scores_only(board, scale, anchor, score):
    plain, shown = board.to_frame(scale=scale), board.to_frame(scale=scale, anchor=anchor)
    assert np.allclose(shown.query("model == 'm02'")["score"], score)
    shift = (shown["score"] - plain["score"]).groupby(shown["task"])
    assert np.allclose(shift.max(), shift.min())  # one shift a task: gaps stay
    rest = [name for name in plain.columns if name != "score"]
    pd.testing.assert_frame_equal(plain[rest], shown[rest])


def test_anchors_on_the_command_line_are_names_first():
    from lrgittins._cli_ranking import parse_anchor_option

    models = ["qwen temp=0.7", "qwen", "a=b"]
    assert parse_anchor_option(None, models) is None
    for name in models:
        assert parse_anchor_option(name, models) == name
        assert parse_anchor_option(f"{name}=1200", models) == (name, 1200.0)
    assert parse_anchor_option("other", models) == "other" and parse_anchor_option("qwen=x", models) == "qwen=x"


def test_missing_anchor_is_an_error(inference, board):
    with pytest.raises(lg.ParameterError, match="no model 'm2' to anchor at; did you mean 'm02'"):
        board.to_frame(anchor="m2")
    one = inference.certify(3, family=("model", "m01"))
    with pytest.raises(lg.ParameterError, match="no model 'm02'"):
        one.to_frame(anchor="m02")
    with pytest.raises(lg.ParameterError, match="anchor must be"):
        board.to_frame(anchor=3)
    with pytest.raises(lg.ParameterError, match="scale must be one of 'natural', 'elo'"):
        board.to_frame(scale="chess")


def test_anchor_without_a_score_on_some_task():
    some = votes({"A:B": (7, 3)}, task="x", models=["A", "B", "C"]) + votes(THREE, task="y")
    board = lg.infer_gaps(some, lg.PerTaskBradleyTerry(disconnected="allow")).certify(1)
    assert board.to_frame().query("task == 'x' and model == 'C'")["score"].isna().all()
    with pytest.raises(lg.ParameterError, match=r"'C' has no score on 1 tasks of the board \('x'\)"):
        board.to_frame(anchor="C")


def test_bands_in_elo(inference):
    bands = inference.bands(("model", "m01"), n_draws=400)
    plain, shown = bands.to_frame(), bands.to_frame(scale="elo")
    for name in ("estimate", "low", "high"):
        assert np.allclose(shown[name], FACTOR * plain[name])
    assert shown["sign"].equals(plain["sign"])


def test_csv_and_dict_say_their_scale(board, tmp_path):
    board.to_csv(tmp_path / "elo.csv", scale="elo")
    assert np.allclose(pd.read_csv(tmp_path / "elo.csv")["score"], board.to_frame(scale="elo")["score"])
    data = board.to_dict(scale="elo", anchor="m01")
    assert data["scale"] == "elo" and data["anchor"] == {"model": "m01", "score": 1000.0}
    with pytest.raises(lg.StateError, match="written for display"):
        lg.Leaderboard.from_dict(data)
    assert "scale" not in board.to_dict()


def test_win_probability_is_the_gap_as_a_probability(inference):
    gap = inference.gap("t00", "m00", "m01")
    one, two = inference.win_probability("t00", "m00", "m01"), inference.win_probability("t00", "m01", "m00")
    for value, want in ((one.estimate, gap.estimate), (one.ci_low, gap.ci_low), (one.ci_high, gap.ci_high)):
        assert value == pytest.approx(1 / (1 + math.exp(-want)), rel=1e-12)
    assert one.estimate + two.estimate == pytest.approx(1) and one.ci_low + two.ci_high == pytest.approx(1)


@pytest.mark.oracle
def test_win_probability_of_two_models_is_the_share_of_wins():
    won = lg.infer_gaps(votes({"A:B": (7, 3)}), lg.PerTaskBradleyTerry()).win_probability("all", "A", "B")
    assert won.estimate == pytest.approx(0.7, abs=1e-6)
    se = 1 / math.sqrt(10 * 0.7 * 0.3)  # of the log-odds
    assert won.ci_low == pytest.approx(1 / (1 + math.exp(-(math.log(7 / 3) - 1.959964 * se))), abs=1e-6)


def test_win_probability_without_a_common_scale():
    inference = lg.infer_gaps(votes(ISLANDS), lg.PerTaskBradleyTerry(disconnected="allow"))
    won = inference.win_probability("all", "A", "C")
    assert math.isnan(won.estimate) and (won.ci_low, won.ci_high) == (0.0, 1.0)
    with pytest.raises(lg.ParameterError, match="two different models"):
        inference.win_probability("all", "A", "A")
