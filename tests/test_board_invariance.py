"""Boards do not depend on how the votes were written down, and real files end in a board or one clear error.

Cases A06, A13 and A14 at the level of the board: gaps and errors are compared in test_inference.py and test_bradley_terry.py,
array layouts and backends at intake in test_labels.py.
"""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrgittins as lg

from .boards import names

NUMBERS = ["score", "std_error"]
WHOLE = ["rank", "rank_low", "rank_high", "n", "certificate"]
ESTIMATORS = {
    "per task": lg.PerTaskBradleyTerry(disconnected="allow"),
    "pooled": lg.PooledBradleyTerry(disconnected="allow"),
    "low rank": lg.LowRankBradleyTerry(rank=1, disconnected="allow"),
}
TASKS, MODELS = names("t", 3), names("m", 5)


def make_board(comparisons, estimator, family="task"):
    return lg.infer_gaps(comparisons, ESTIMATORS[estimator], n_folds=3).certify(2, family=family, n_draws=400).to_frame()


def same_boards(found, wanted, *, relabel=None):
    """Equal to 1e-9, row by row, names mapped back by `relabel`."""
    if relabel is not None:
        found = found.assign(task=found["task"].map(relabel), model=found["model"].map(relabel))
        found = found.sort_values(["task", "rank", "model"], kind="stable", ignore_index=True)
    assert found[["task", "model"]].equals(wanted[["task", "model"]])
    np.testing.assert_allclose(found[NUMBERS].to_numpy(), wanted[NUMBERS].to_numpy(), rtol=1e-9, atol=1e-9)
    pd.testing.assert_frame_equal(found[WHOLE], wanted[WHOLE])


@st.composite
def vote_lists(draw):
    """Codes (task, a, b) and outcomes of 60 to 150 votes, ties and grades among them."""
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    n = draw(st.integers(60, 150))
    task, a = rng.integers(3, size=n), rng.integers(5, size=n)
    b = (a + rng.integers(1, 5, size=n)) % 5
    outcome = rng.choice(draw(st.sampled_from([[0.0, 1.0], [0.0, 0.5, 1.0], [0.0, 0.25, 0.5, 1.0]])), size=n)
    return task, a, b, outcome, rng


def read(task, a, b, outcome, **options):
    return lg.Comparisons.from_arrays(TASKS[task], MODELS[a], MODELS[b], outcome, **options)


EXAMPLES = settings(max_examples=8, deadline=None)


@pytest.mark.property
@pytest.mark.parametrize("estimator", ESTIMATORS)
@EXAMPLES
@given(vote_lists(), st.sampled_from(["cell", "task", "model", "all"]))
def test_order_sides_merging_and_counts(estimator, votes, family):  # A06 i, ii, iv
    task, a, b, outcome, rng = votes
    wanted = make_board(read(task, a, b, outcome), estimator, family)
    order, flip = rng.permutation(len(task)), rng.random(len(task)) < 0.5
    left, right, seen = np.where(flip, b, a), np.where(flip, a, b), np.where(flip, 1.0 - outcome, outcome)
    same_boards(make_board(read(task[order], left[order], right[order], seen[order]), estimator, family), wanted)
    cut = int(rng.integers(1, len(task)))
    first, second = (read(*(column[part] for column in (task, a, b, outcome))) for part in (slice(cut), slice(cut, None)))
    same_boards(make_board(second + first, estimator, family), wanted)
    table = pd.DataFrame({"task": task, "a": a, "b": b, "outcome": outcome}).value_counts().reset_index()
    counted = read(*(table[name].to_numpy() for name in ("task", "a", "b", "outcome")), count=table["count"].to_numpy())
    same_boards(make_board(counted, estimator, family), wanted)


@pytest.mark.property
@pytest.mark.parametrize("estimator", ESTIMATORS)
@EXAMPLES
@given(vote_lists())
def test_renaming_that_keeps_the_order(estimator, votes):  # A06 iii
    task, a, b, outcome, _ = votes
    wanted = make_board(read(task, a, b, outcome), estimator)
    new_tasks, new_models = np.array(["A & B", "b/c", "Ωmega"]), np.array(["0", "GPT 4", "a,b", "zé\n", "模型"])
    renamed = make_board(lg.Comparisons.from_arrays(new_tasks[task], new_models[a], new_models[b], outcome), estimator)
    back = {**dict(zip(new_tasks, TASKS, strict=True)), **dict(zip(new_models, MODELS, strict=True))}
    same_boards(renamed, wanted, relabel=back)


@pytest.mark.property
@EXAMPLES
@given(vote_lists())
def test_renaming_in_reverse_leaves_what_no_draw_touches(votes):  # A06 iii: plain scores and errors, ranks and counts
    task, a, b, outcome, _ = votes
    wanted = make_board(read(task, a, b, outcome), "per task").set_index(["task", "model"])
    turned = make_board(lg.Comparisons.from_arrays(TASKS[2 - task], MODELS[4 - a], MODELS[4 - b], outcome), "per task")
    back = {**dict(zip(TASKS[::-1], TASKS, strict=True)), **dict(zip(MODELS[::-1], MODELS, strict=True))}
    turned = turned.assign(task=turned["task"].map(back), model=turned["model"].map(back)).set_index(["task", "model"]).loc[wanted.index]
    np.testing.assert_allclose(turned[NUMBERS], wanted[NUMBERS], rtol=1e-8, atol=1e-8)
    pd.testing.assert_frame_equal(turned[["rank", "n"]], wanted[["rank", "n"]])


@pytest.mark.property
@EXAMPLES
@given(vote_lists(), vote_lists())
def test_an_unrelated_task_changes_no_other(votes, others):  # A06 v
    task, a, b, outcome, _ = votes
    wanted = make_board(read(task, a, b, outcome, models=MODELS), "per task")
    _, c, d, result, _ = others
    extra = lg.Comparisons.from_arrays(["a-new-task"] * len(c), MODELS[c], MODELS[d], result)
    found = make_board(read(task, a, b, outcome, models=MODELS) + extra, "per task")
    same_boards(found[found["task"] != "a-new-task"].reset_index(drop=True), wanted)


def layouts(columns):
    """The same integer columns, as every layout in which arrays arrive."""
    yield "read-only", [column.copy() for column in columns]
    yield "strided", [np.repeat(column, 3)[::3] for column in columns]
    yield "reversed views", [column[::-1].copy()[::-1] for column in columns]
    yield "rows of a C block", list(np.stack(columns))
    yield "columns of a C block", list(np.stack(columns, axis=1).T)
    yield "columns of a Fortran block", list(np.asfortranarray(np.stack(columns, axis=1)).T)
    yield "big-endian", [column.astype(">i8") for column in columns]
    yield "int8", [column.astype(np.int8) for column in columns]
    yield "uint64", [column.astype(np.uint64) for column in columns]
    yield "float32", [column.astype(np.float32) for column in columns]
    yield "unaligned", [np.frombuffer(b"\0" + column.tobytes(), dtype=np.uint8)[1:].view(np.int64) for column in columns]


@pytest.mark.parametrize("estimator", ESTIMATORS)
def test_layouts_give_one_board(estimator):  # A13
    rng = np.random.default_rng(3)
    task, a = rng.integers(3, size=400), rng.integers(5, size=400)
    b = (a + rng.integers(1, 5, size=400)) % 5
    columns = [column.astype(np.int64) for column in (task, a, b, rng.integers(2, size=400), rng.integers(1, 4, size=400))]
    wanted = make_board(lg.Comparisons.from_arrays(*columns), estimator)
    for name, layout in layouts(columns):
        for column in layout:
            column.flags.writeable = False
        before = [column.tobytes() for column in layout]
        try:
            same_boards(make_board(lg.Comparisons.from_arrays(*layout), estimator), wanted)
        except AssertionError as error:
            raise AssertionError(f"{name}: {error}") from error
        assert [column.tobytes() for column in layout] == before


# ------------------------------------------------------------------------------------------------------------- real files

FILES = ["llmfao_crowd_pairs.csv", "alpaca_eval2_pairs.parquet", "football_pairs.parquet", "football_men_pairs.parquet"]


@pytest.fixture(scope="module", params=FILES)
def real(request, shared):
    if request.param.endswith(".parquet"):
        pytest.importorskip("pyarrow")
    comparisons = lg.Comparisons.read(shared / "data" / request.param)
    assert comparisons.n + comparisons.n_dropped == comparisons.n_rows and comparisons.n_dropped == 0
    assert comparisons.summary()["n"].sum() == comparisons.n
    return request.param, comparisons


def check_real_board(comparisons, board):
    frame = board.to_frame()
    assert len(frame) == len(comparisons.tasks) * len(comparisons.models)
    assert frame["n"].sum() == 2 * comparisons.n
    assert ((frame["rank_low"] <= frame["rank"]) & (frame["rank"] <= frame["rank_high"])).all()
    assert not (frame["score"].isna() & (frame["certificate"] == "top-k")).any()
    assert frame["score"].abs().max() < 50
    return frame


@pytest.mark.parametrize("estimator", [lg.LowRankBradleyTerry, lg.PerTaskBradleyTerry, lg.PooledBradleyTerry])
def test_real_files_end_in_a_board_or_one_clear_error(real, estimator):
    name, comparisons = real
    if not name.startswith("football"):
        frame = check_real_board(comparisons, lg.infer_gaps(comparisons, estimator()).certify(5))
        assert set(frame["certificate"]) >= {"unresolved", "not-top-k"} or estimator is lg.PerTaskBradleyTerry
        return
    with pytest.raises(lg.NotIdentifiableError, match=r"fall apart into \d+ pieces that never meet.*: \{[A-Z].*\}, \{[A-Z].*\}") as caught:
        lg.infer_gaps(comparisons, estimator())
    assert 'disconnected="allow"' in str(caught.value) and len(str(caught.value)) < 1500


def pieces_of(comparisons, task):
    """Connected pieces of one task by plain search: model -> piece."""
    counts = comparisons.counts
    if task is not None:
        counts = counts[counts["task"] == task]
    home = {}
    for a, b in zip(counts["model_a"], counts["model_b"], strict=True):
        old, new = home.setdefault(b, b), home.setdefault(a, a)
        if old != new:
            home = {model: new if piece == old else piece for model, piece in home.items()}
    return home


@pytest.mark.parametrize("estimator", [lg.PerTaskBradleyTerry, lg.PooledBradleyTerry])
def test_football_in_pieces(shared, estimator):  # A04 on real data
    pytest.importorskip("pyarrow")
    comparisons = lg.Comparisons.read(shared / "data/football_pairs.parquet")
    inference = lg.infer_gaps(comparisons, estimator(disconnected="allow"))
    frame = check_real_board(comparisons, inference.certify(5))
    n_models = len(comparisons.models)
    for task, rows in frame.groupby("task"):
        pieces = pd.Series(pieces_of(comparisons, task if estimator is lg.PerTaskBradleyTerry else None))
        size = rows["model"].map(pieces).map(pieces.value_counts()).fillna(1)
        assert (rows["rank_low"] <= size).all() and (rows["rank_high"] >= n_models - size + 1).all()
        if pieces.nunique() > 1:
            gaps = inference.gaps(task)
            across = gaps["model"].map(pieces) != gaps["versus"].map(pieces)
            assert gaps.loc[across, "estimate"].isna().all() and np.isinf(gaps.loc[across, "std_error"]).all()
            assert not (rows["certificate"] == "top-k").any() or pieces.value_counts().max() > n_models - 5
    assert inference.diagnostics["connected"]["status"] == "failed"


@pytest.mark.slow
def test_football_low_rank(shared):
    pytest.importorskip("pyarrow")
    comparisons = lg.Comparisons.read(shared / "data/football_pairs.parquet")
    frame = check_real_board(comparisons, lg.leaderboard(comparisons, disconnected="allow", top_k=10))
    finals = frame[frame["task"] == "continental_finals"]
    # Teams with a match or two have no place of their own: the leaders are teams that played.
    assert (finals[finals["rank"] <= 10]["n"] > 0).all()
    assert set(frame.loc[frame["model"].isin(["Aymara", "Maule Sur"]), "certificate"]) == {"unresolved"}


def test_llmfao_by_worker(shared):
    votes = lg.Comparisons.read(shared / "data/llmfao_crowd_pairs.csv", cluster="worker")
    plain = lg.Comparisons.read(shared / "data/llmfao_crowd_pairs.csv")
    assert votes.n == plain.n and len(votes.tasks) == 13
    estimator = lg.LowRankBradleyTerry(rank=2)
    inference = lg.infer_gaps(votes, estimator)
    frame = check_real_board(votes, inference.certify(10))
    assert set(frame["task"]) == set(votes.tasks)
    # Workers vote on many tasks and pairs: dependence is modest here, and errors change by it, not by a factor.
    ratio = inference.gaps()["std_error"] / lg.infer_gaps(plain, estimator).gaps()["std_error"]
    assert 0.7 < ratio.replace(np.inf, np.nan).median() < 2.0
