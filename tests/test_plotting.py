"""Rank-interval pictures: what is drawn where, and readable at size."""

from __future__ import annotations

import numpy as np
import pytest

import lrgittins as lg

from .boards import simulated, votes

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
RANK2 = lg.LowRankBradleyTerry(rank=2)


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def board():
    return lg.infer_gaps(simulated(n=3000)[1], RANK2).certify(3)


def drawn(ax):
    """{position: (rank_low, rank_high)} of the intervals, and {position: rank} of the markers."""
    segments = {}
    for collection in ax.collections:
        for (x0, y0), (x1, _) in collection.get_segments():
            segments[round(y0)] = (x0, x1)
    markers = {round(y): x for line in ax.lines if line.get_marker() not in (None, "None", "") for x, y in line.get_xydata()}
    return segments, markers


def test_one_task_draws_every_interval_and_rank(board):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert board.plot(task="t02", ax=ax) is ax
    rows = board.to_frame().query("task == 't02'").reset_index(drop=True)
    segments, markers = drawn(ax)
    for position, row in rows.iterrows():
        assert segments[position] == (row["rank_low"], row["rank_high"]) and markers[position] == row["rank"]
    assert [label.get_text() for label in ax.get_yticklabels()] == rows["model"].tolist()
    assert ax.get_ylim()[0] > ax.get_ylim()[1]  # best on top
    assert ax.get_title() == "t02" and "95 %" in ax.get_xlabel()


def test_certificates_differ_in_colour_marker_and_lightness(board):
    from lrgittins.plotting import STYLES

    lightness = [np.dot(matplotlib.colors.to_rgb(style["color"]), [0.299, 0.587, 0.114]) for style in STYLES.values()]
    gaps = np.abs(np.subtract.outer(lightness, lightness))[np.triu_indices(3, 1)]
    assert len({style["marker"] for style in STYLES.values()}) == 3 and gaps.min() > 0.04
    ax = board.plot(task="t00")
    shapes = {line.get_marker() for line in ax.lines if line.get_marker() not in (None, "None", "")}
    assert shapes == {STYLES[name]["marker"] for name in set(board.to_frame().query("task == 't00'")["certificate"])}


def test_without_task_all_tasks_in_a_grid(board):
    axes = board.plot()
    visible = [ax for ax in axes.flat if ax.get_visible()]
    assert [ax.get_title() for ax in visible] == sorted(board.to_frame()["task"].unique())
    with pytest.raises(lg.ParameterError, match="one ax cannot hold 6 tasks"):
        board.plot(ax=visible[0])
    with pytest.raises(lg.ParameterError, match="no task 't9'"):
        board.plot(task="t9")


def test_point_board_says_so():
    ax = lg.infer_gaps(votes({"A:B": (7, 3)}), lg.PerTaskBradleyTerry()).certify(1, n_draws=0).plot()
    assert "no intervals" in ax.get_xlabel() and not drawn(ax)[0]


def test_sixty_models_with_long_odd_names_do_not_overlap(tmp_path):
    models = [f"an-organisation/quite $a long$ model\nname number {i:02d} with a suffix <b>-{i:02d}" for i in range(60)]
    rng = np.random.default_rng(0)
    a = rng.integers(60, size=4000)
    b = (a + rng.integers(1, 60, size=4000)) % 60
    names = np.array(models)
    ax = (
        lg.infer_gaps(lg.Comparisons.from_arrays(None, names[a], names[b], (a < b) * 0.5 + 0.25), lg.PerTaskBradleyTerry())
        .certify(10)
        .plot()
    )
    ax.figure.savefig(tmp_path / "board.png", dpi=80)
    labels = [label for label in ax.get_yticklabels() if label.get_text()]
    boxes = [label.get_window_extent() for label in labels]
    assert len(labels) == 60 and len({label.get_text() for label in labels}) == 60
    tops, bottoms = np.array([box.y1 for box in boxes]), np.array([box.y0 for box in boxes])
    assert (bottoms[:-1] >= tops[1:] - 1.5).all()  # one line each, a pixel and a half of slack


def test_missing_matplotlib_names_the_extra(board, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    with pytest.raises(lg.MissingExtraError, match=r"lrgittins\[plot\]"):
        board.plot()
