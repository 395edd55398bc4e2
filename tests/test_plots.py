"""Heat map, forest plot, allocation and stop marks: which artists are drawn where; readable at size, in grey, with long names."""

from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg

from .boards import ISLANDS, WINLESS, simulated, votes
from .processes import environment, run

matplotlib = pytest.importorskip("matplotlib")
matplotlib.use("Agg")
PER_TASK = lg.PerTaskBradleyTerry()


@pytest.fixture(autouse=True)
def close_figures():
    yield
    import matplotlib.pyplot as plt

    plt.close("all")


@pytest.fixture(scope="module")
def inference():
    return lg.infer_gaps(simulated(n=3000)[1], PER_TASK)


@pytest.fixture(scope="module")
def big_board():
    """60 models with long, odd names on 3 tasks."""
    names = np.array([f"an-organisation/quite $a long$ model name {i:02d} with a suffix <b>-{i:02d}" for i in range(60)])
    rng = np.random.default_rng(0)
    task, a = rng.integers(3, size=9000), rng.integers(60, size=9000)
    b = (a + rng.integers(1, 60, size=9000)) % 60
    won = rng.random(9000) < 1 / (1 + np.exp((a - b) / 12))
    data = lg.Comparisons.from_arrays(np.array(["a task of some length", "b", "c"])[task], names[a], names[b], won.astype(float))
    return lg.infer_gaps(data, PER_TASK).certify(10, n_draws=500)


@pytest.fixture(scope="module")
def trace():
    rng = np.random.default_rng(3)
    scores = (rng.random((6, 200)) < np.linspace(0.2, 0.9, 6)[:, None]).astype(float)
    matrix = lg.ResponseMatrix.from_array(scores, arms=[f"arm {k}" for k in range(6)])
    return lg.replay(matrix, lg.GittinsPolicy(**matrix.policy_arguments()), budget=0.8)


def no_overlap(labels):
    boxes = sorted((label.get_window_extent() for label in labels), key=lambda box: -box.y0)
    tops, bottoms = np.array([box.y1 for box in boxes]), np.array([box.y0 for box in boxes])
    return bool((bottoms[:-1] >= tops[1:] - 1.5).all())  # one line each, a pixel and a half of slack


# ------------------------------------------------------------------------------------------------------- heat map


def heat_parts(ax):
    """Colours by cell, and how many hatched cells there are."""
    from matplotlib.collections import PatchCollection, QuadMesh

    (mesh,) = [c for c in ax.collections if isinstance(c, QuadMesh)]
    hatched = {
        tuple(np.rint(path.get_extents().get_points().mean(axis=0)).astype(int))
        for c in ax.collections
        if isinstance(c, PatchCollection) and c.get_hatch()
        for path in c.get_paths()
    }
    return np.ma.filled(mesh.get_array().astype(float), np.nan), hatched


def test_heatmap_has_every_rank_and_hatches_what_is_unresolved(inference):
    board = inference.certify(3, n_draws=500)
    ax = board.plot_heatmap()
    values, hatched = heat_parts(ax)
    frame = board.to_frame()
    rows = [label.get_text() for label in ax.get_yticklabels()]
    columns = [label.get_text() for label in ax.get_xticklabels()]
    assert columns == sorted(frame["task"].unique()) and sorted(rows) == sorted(frame["model"].unique())
    means = frame.groupby("model")["rank"].mean()
    assert means.loc[rows].is_monotonic_increasing and ax.get_ylim()[0] > ax.get_ylim()[1]  # best on top
    cells = frame.set_index(["model", "task"])
    for i, model in enumerate(rows):
        for j, task in enumerate(columns):
            cell = cells.loc[(model, task)]
            assert values[i, j] == cell["rank"] and ((j, i) in hatched) == (cell["certificate"] == "unresolved")
    marked = {(x, y) for line in ax.lines for x, y in line.get_xydata()}
    inside = frame[frame["certificate"] == "top-k"]
    assert marked == {(columns.index(row.task), rows.index(row.model)) for row in inside.itertuples()} and marked


def test_heatmap_of_a_family_without_all_rows(inference):
    ax = inference.certify(3, family=("model", "m02"), n_draws=500).plot_heatmap()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["m02"]


def test_heatmap_into_given_axes_and_of_few_models(big_board):
    import matplotlib.pyplot as plt

    _, ax = plt.subplots()
    assert big_board.plot_heatmap(ax, max_models=5) is ax and len(ax.get_yticks()) == 5
    with pytest.raises(lg.ParameterError, match="max_models"):
        big_board.plot_heatmap(max_models=0)
    with pytest.raises(lg.ParameterError, match="ax must be matplotlib Axes, got int"):
        big_board.plot_heatmap(3)


def test_heatmap_colours_read_in_grey():
    lightness = matplotlib.colormaps["cividis"](np.linspace(0, 1, 50))[:, :3] @ [0.299, 0.587, 0.114]
    assert (np.diff(lightness) > 0).all()


def test_heatmap_of_sixty_models_with_long_names(big_board, tmp_path):
    ax = big_board.plot_heatmap()
    ax.figure.savefig(tmp_path / "heat.png", dpi=80)
    labels = [label for label in ax.get_yticklabels() if label.get_text()]
    assert len(labels) == 60 and len({label.get_text() for label in labels}) == 60 and no_overlap(labels)
    left = ax.figure.bbox.x0
    assert min(label.get_window_extent().x0 for label in labels) >= left  # nothing cut off
    assert min(label.get_window_extent().y0 for label in ax.get_xticklabels()) >= ax.figure.bbox.y0


# ----------------------------------------------------------------------------------------------------------- forest


def forest_parts(ax):
    """Versus -> (low, estimate, high), from the segments and markers."""
    ends = {}
    for collection in ax.collections:
        for (x0, y), (x1, _) in collection.get_segments():
            ends[round(y)] = (x0, x1)
    points = {round(y): x for line in ax.lines if line.get_marker() in "osD" for x, y in line.get_xydata()}
    names = [label.get_text() for label in ax.get_yticklabels()]
    return {name: (ends[i][0], points[i], ends[i][1]) for i, name in enumerate(names)}


def test_forest_has_every_gap_sorted_with_its_band(inference):
    bands = inference.bands(("cell", "t01", "m02"), n_draws=500)
    ax = bands.plot()
    frame = bands.to_frame().set_index("versus")
    drawn = forest_parts(ax)
    assert list(drawn) == frame.sort_values("estimate", ascending=False).index.tolist()
    for name, numbers in drawn.items():
        assert numbers == pytest.approx(tuple(frame.loc[name, ["low", "estimate", "high"]]))
    assert any(np.all(np.asarray(line.get_xdata()) == 0.0) for line in ax.lines)  # the line at zero
    assert ax.get_title() == "m02 on t01" and "95 % simultaneous bands" in ax.get_xlabel()
    shapes = {line.get_marker() for line in ax.lines if line.get_label().startswith(("declared", "not"))}
    assert len(shapes) == len(set(frame["sign"]))  # told apart by shape


def test_forest_in_elo(inference):
    bands = inference.bands(("cell", "t01", "m02"), n_draws=500)
    plain, shown = forest_parts(bands.plot()), forest_parts(bands.plot(scale="elo"))
    for name in plain:
        assert np.allclose(shown[name], np.array(plain[name]) * 400 / np.log(10))


def test_forest_of_a_task_turns_gaps_round(inference):
    bands = inference.bands(("task", "t01"), n_draws=500)
    frame = bands.to_frame()
    drawn = forest_parts(bands.plot(model="m03"))
    assert len(drawn) == 6
    row = frame[(frame["model"] == "m00") & (frame["versus"] == "m03")].iloc[0]
    assert drawn["m00"] == pytest.approx((-row["high"], -row["estimate"], -row["low"]))
    with pytest.raises(lg.ParameterError, match="several models; pass model="):
        bands.plot()
    with pytest.raises(lg.ParameterError, match="no model 'm9'"):
        bands.plot(model="m9")


def test_forest_of_one_model_on_all_tasks(inference):
    bands = inference.bands(("model", "m02"), n_draws=500)
    ax = bands.plot()
    assert len(ax.get_yticks()) == 6 * 6 and ax.get_title() == "m02 on 6 tasks"
    assert len(bands.plot(task="t03").get_yticks()) == 6
    with pytest.raises(lg.ParameterError, match="36 gaps of 'm02' are more than max_gaps=10; pass task=, such as 't00'"):
        bands.plot(max_gaps=10)
    with pytest.raises(lg.ParameterError, match="no task 't9'"):
        bands.plot(task="t9")


def test_forest_of_the_model_family_uses_the_models_own_claim(inference):
    bands = inference.bands("model", n_draws=500)
    own = bands.to_frame().query("model == 'm02' and task == 't01'").set_index("versus")
    drawn = forest_parts(bands.plot(model="m02", task="t01"))
    for name, numbers in drawn.items():
        assert numbers == pytest.approx(tuple(own.loc[name, ["low", "estimate", "high"]]))


def test_forest_with_open_ends_and_gaps_without_a_scale():
    flagged = lg.infer_gaps(votes(WINLESS), PER_TASK).bands(("cell", "all", "C"), n_draws=500)
    assert np.isinf(flagged.to_frame()[["low", "high"]].to_numpy()).any()
    ax = flagged.plot()
    assert {line.get_marker() for line in ax.lines} >= {"<"} or {line.get_marker() for line in ax.lines} >= {">"}
    assert np.isfinite(ax.get_xlim()).all()
    apart = lg.infer_gaps(votes(ISLANDS), lg.PerTaskBradleyTerry(disconnected="allow")).bands(("cell", "all", "A"), n_draws=500)
    ax = apart.plot()
    assert [label.get_text() for label in ax.get_yticklabels()] == ["B"] and "2 without a common scale left out" in ax.get_title()


def test_forest_without_draws_says_so(inference):
    ax = inference.bands(("cell", "t01", "m02"), n_draws=0).plot()
    assert "no bands" in ax.get_xlabel() and not ax.collections


def test_forest_of_sixty_models(big_board, tmp_path):
    from lrgittins.bands import GapBands

    models = sorted(big_board.to_frame()["model"].unique())
    estimate = np.linspace(2, -2, 59)
    frame = pd.DataFrame(
        {"task": "t", "model": models[0], "versus": models[1:], "estimate": estimate, "low": estimate - 1, "high": estimate + 1,
         "sign": np.sign(estimate).astype(int) * (np.abs(estimate) > 1)}
    )  # fmt: skip
    ax = GapBands(2.0, 2.0, 0.05, ("cell", "t", models[0]), "max-t", 500, 0, frame).plot()
    ax.figure.savefig(tmp_path / "forest.png", dpi=80)
    labels = ax.get_yticklabels()
    assert len(labels) == 59 and no_overlap(labels)
    box = ax.xaxis.label.get_window_extent()
    assert ax.figure.bbox.x0 <= box.x0 and box.x1 <= ax.figure.bbox.x1


# ------------------------------------------------------------------------------------------------------- allocation


def bars(ax):
    """Label -> total width of its bars, and the width that is hatched."""
    names = [label.get_text() for label in ax.get_yticklabels()]
    total, hatched = dict.fromkeys(names, 0.0), dict.fromkeys(names, 0.0)
    for patch in ax.patches:
        name = names[round(patch.get_y() + patch.get_height() / 2)]
        total[name] += patch.get_width()
        hatched[name] += patch.get_width() if patch.get_hatch() else 0.0
    return total, hatched


@pytest.mark.parametrize("by", ["n", "cost"])
def test_allocation_adds_up(trace, by):
    ax = trace.plot_allocation(by=by)
    total, hatched = bars(ax)
    frame = trace.to_frame()
    want = frame.groupby("arm")[by].sum()
    for arm in want.index:
        assert total[arm] == pytest.approx(want[arm])
    assert trace.should_stop.any()  # so that there is a part after the signal
    late = frame[frame["step"] > trace.stop.step].groupby("arm")[by].sum()
    assert sum(hatched.values()) == pytest.approx(late.sum()) and late.sum() > 0
    assert list(total.values()) == sorted(total.values(), reverse=True)


def test_allocation_marks_the_recommended_and_the_best_arm(trace):
    ax = trace.plot_allocation()
    names = [label.get_text() for label in ax.get_yticklabels()]
    (star,) = [line for line in ax.lines if line.get_marker() == "*"]
    assert names[int(star.get_ydata()[0])] == trace.stop.recommended
    (best,) = [text for text in ax.texts if text.get_text() == "best"]
    assert names[int(best.xy[1])] == trace.arms[int(trace.row_means.argmax())]


def test_allocation_of_many_arms_adds_up_the_rest(trace):
    total, _ = bars(trace.plot_allocation(max_arms=2))
    assert list(total)[-1].endswith("other arms together") and sum(total.values()) == pytest.approx(trace.n.sum())
    assert trace.stop.recommended in total
    for bad in ({"max_arms": 0}, {"by": "time"}):
        with pytest.raises(lg.ParameterError):
            trace.plot_allocation(**bad)


# ------------------------------------------------------------------------------------------------------- stop marks


def test_regret_curves_mark_where_policies_stop():
    rng = np.random.default_rng(3)
    scores = (rng.random((6, 200)) < np.linspace(0.2, 0.9, 6)[:, None]).astype(float)
    comparison = lg.compare(lg.ResponseMatrix.from_array(scores), ["gittins", "ucb-e"], n_runs=4, budget=0.8, progress=False)
    stops = comparison.stop_summary().set_index("policy")
    assert stops.loc["gittins", "stopped"] > 0 and stops.loc["ucb-e", "stopped"] == 0
    for options in ({}, {"log": True, "grid": 50}, {"how": "linear"}):
        ax = comparison.plot(**options)
        marks = [line for line in ax.lines if line.get_marker() == "o"]
        assert len(marks) == 1 and marks[0].get_xdata()[0] == pytest.approx(100 * stops.loc["gittins", "cost_fraction"])
        curve = next(line for line in ax.lines if line.get_label() == "gittins")
        assert marks[0].get_markeredgecolor() == curve.get_color()
        assert marks[0].get_ydata()[0] == pytest.approx(np.interp(marks[0].get_xdata()[0], *curve.get_data()))
        assert "says stop (mean)" in [text.get_text() for text in ax.get_legend().get_texts()]


# -------------------------------------------------------------------------------------------------------------- all


def test_missing_matplotlib_names_the_extra(inference, trace, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.pyplot", None)
    board, bands = inference.certify(3, n_draws=0), inference.bands(("cell", "t01", "m02"), n_draws=0)
    for draw in (board.plot_heatmap, bands.plot, trace.plot_allocation):
        with pytest.raises(lg.MissingExtraError, match=r"lrgittins\[plot\]"):
            draw()


def test_the_readmes_pictures_are_made_by_what_it_shows(tmp_path):
    pytest.importorskip("jinja2")
    root = Path(__file__).resolve().parents[1]
    file = root / "examples" / "pictures.py"
    assert f"```python\n{file.read_text(encoding='utf-8')}```" in (root / "README.md").read_text(encoding="utf-8")
    result = run([sys.executable, str(file)], cwd=tmp_path, env=environment(MPLBACKEND="Agg"), timeout=900)
    assert result.returncode == 0, result.stderr
    made = {path.name for path in tmp_path.iterdir()}
    assert made == {"heatmap.png", "forest.png", "allocation.png", "board.html"}
    for name in ("heatmap.png", "forest.png", "allocation.png", "report.png"):
        assert (root / "docs" / "images" / name).stat().st_size < 120_000
