"""Counting: policies, counts, ids, clusters, merging, the universe of labels, and files of counts."""

from __future__ import annotations

import json
import os
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from lrgittins import ComparisonError, Comparisons, ParameterError

BASE = {"task": ["t", "t", "s"], "model_a": ["A", "B", "A"], "model_b": ["B", "A", "C"], "winner": ["model_a", "model_a", "tie"]}


def same_table(one: Comparisons, two: Comparisons) -> bool:
    names = ("task", "low", "high", "outcome", "count", "cluster")
    a, b = one._table, two._table
    return (a.n_tasks, a.n_models) == (b.n_tasks, b.n_models) and all(
        (getattr(a, name) is None and getattr(b, name) is None) or np.array_equal(getattr(a, name), getattr(b, name)) for name in names
    )


def test_basic_counts_and_attributes() -> None:
    comparisons = Comparisons.from_frame(BASE)
    assert comparisons.counts.to_numpy().tolist() == [["s", "A", "C", 0, 0, 1], ["t", "A", "B", 1, 1, 0]]
    assert list(comparisons.counts.columns) == ["task", "model_a", "model_b", "wins", "losses", "ties"]
    assert (comparisons.n, comparisons.n_rows, comparisons.n_dropped) == (3, 3, 0)
    assert list(comparisons.tasks) == ["s", "t"] and list(comparisons.models) == ["A", "B", "C"]
    assert "n=3" in repr(comparisons)


def test_frames_are_read_by_position_and_never_changed() -> None:
    frame = pd.DataFrame(BASE)
    odd = pd.concat([frame, frame])  # duplicate index
    before = odd.copy(deep=True)
    assert Comparisons.from_frame(odd).n == 6
    pd.testing.assert_frame_equal(odd, before)
    filtered = odd[odd["task"] == "t"]
    assert Comparisons.from_frame(filtered).n == 4


def test_missing_columns_list_what_there_is() -> None:
    with pytest.raises(
        ComparisonError, match=r"missing columns 'winner'; the columns are 'task', 'model_a', 'model_b', 'verdict'.*winner="
    ):
        Comparisons.from_frame({"task": [], "model_a": [], "model_b": [], "verdict": []})
    with pytest.raises(ComparisonError, match="task=None"):
        Comparisons.from_frame({"model_a": ["x"], "model_b": ["y"], "winner": ["tie"]})
    with pytest.raises(ComparisonError, match="'winner' appears 2 times"):
        Comparisons.from_frame(pd.DataFrame([["x", "y", "tie", "tie"]], columns=["model_a", "model_b", "winner", "winner"]), task=None)
    with pytest.raises(ComparisonError, match="cannot read comparisons from int"):
        Comparisons.from_frame(3)


def test_ties_policies() -> None:  # case A07
    rows = (["A"] * 4, ["B"] * 4, ["model_a", "model_a", "tie", 0.5])
    half = Comparisons.from_arrays(None, *rows)
    assert half.counts[["wins", "losses", "ties"]].to_numpy().tolist() == [[2, 0, 2]]
    assert half._table.cells().wins.tolist() == [3.0]
    dropped = Comparisons.from_arrays(None, *rows, ties="drop")
    assert (dropped.n, dropped.n_dropped) == (2, 2)
    summary = dropped.summary()
    assert summary.attrs["ties"] == "drop" and summary.attrs["dropped"] == {"tie": 2}
    assert summary["n_separated"].tolist() == [2]
    with pytest.raises(ComparisonError, match='2 rows are ties, and ties="error"'):
        Comparisons.from_arrays(None, *rows, ties="error", on_invalid="drop")


@pytest.mark.parametrize(("option", "value"), [("ties", "halve"), ("both_bad", "half"), ("on_invalid", "ignore")])
def test_unknown_options_are_refused(option: str, value: str) -> None:
    with pytest.raises(ParameterError, match=f"{option} must be one of"):
        Comparisons.from_frame(BASE, **{option: value})


def test_degenerate_frames() -> None:  # case A08
    empty = {name: [] for name in BASE}
    with pytest.raises(ComparisonError, match="zero rows"):
        Comparisons.from_frame(empty)
    own = {"model_a": ["A", "A"], "model_b": ["A", "A"], "winner": ["tie", "tie"]}
    with pytest.raises(ComparisonError, match="2 rows compare a model with itself"):
        Comparisons.from_frame(own, task=None)
    with pytest.raises(ComparisonError, match=r"no comparisons are left: 2 rows read, 2 dropped \(self-comparison: 2\)"):
        Comparisons.from_frame(own, task=None, on_invalid="drop")
    with pytest.raises(ComparisonError, match="no comparisons are left"):
        Comparisons.from_arrays(None, ["A"], ["B"], ["tie"], ties="drop")
    with pytest.raises(ComparisonError, match="no comparisons are left"):
        Comparisons.from_arrays(None, ["A"], ["B"], ["tie"], ties="drop", id=[1])
    with pytest.raises(ComparisonError, match="no comparisons are left"):
        Comparisons.from_arrays(None, ["A"], ["B"], ["tie"], count=[0])
    mixed = {"model_a": ["A", "A"], "model_b": ["A", "B"], "winner": ["tie", "model_a"]}
    kept = Comparisons.from_frame(mixed, task=None, on_invalid="drop")
    assert (kept.n, kept.n_dropped) == (1, 1)


def test_all_faults_are_reported_at_once_with_counts() -> None:
    frame = {"model_a": ["A", None, "A", "A"], "model_b": ["B", "B", "A", "B"], "winner": ["tie", "tie", "tie", "who"]}
    with pytest.raises(ComparisonError) as caught:
        Comparisons.from_frame(frame, task=None)
    text = str(caught.value)
    assert "3 problems in 4 rows" in text and "'model_a': 1 row" in text and "with itself" in text and "'who' (1 row)" in text
    kept = Comparisons.from_frame(frame, task=None, on_invalid="drop")
    assert kept.summary().attrs["dropped"] == {"missing model_a": 1, "self-comparison": 1, "unknown winner": 1}
    assert kept.n_rows == 4 == kept.n + kept.n_dropped


def test_drops_are_counted_per_task_and_lost_tasks_are_listed() -> None:
    frame = {"task": ["t", "t", "gone"], "model_a": ["A", "A", "A"], "model_b": ["B", "B", "B"], "winner": ["tie", None, None]}
    summary = Comparisons.from_frame(frame, on_invalid="drop").summary()
    assert summary["dropped"].to_dict() == {"gone": 1, "t": 1}
    assert summary.loc["gone", "n"] == 0


@pytest.mark.parametrize("bad", [-1, 1.5, np.nan, None, np.inf, 2.0**60])
def test_bad_counts_are_refused(bad: object) -> None:
    with pytest.raises(ComparisonError, match=r"column 'count': 1 row is not|column 'count': 1 row"):
        Comparisons.from_arrays(None, ["A", "A"], ["B", "B"], ["tie", "tie"], count=[1, bad])
    assert Comparisons.from_arrays(None, ["A", "A"], ["B", "B"], ["tie", "tie"], count=[1, bad], on_invalid="drop").n == 1


def test_counts_as_words_are_refused_and_large_counts_are_exact() -> None:
    with pytest.raises(ComparisonError, match="must hold integers, got 'three'"):
        Comparisons.from_arrays(None, ["A"], ["B"], ["tie"], count=["three"])
    big = 10**12
    comparisons = Comparisons.from_arrays(None, ["A", "B", "A"], ["B", "A", "B"], [1, 1, 1], count=[big, big + 1, 1])
    assert comparisons.counts[["wins", "losses"]].to_numpy().tolist() == [[big + 1, big + 1]]
    assert comparisons.n == 2 * big + 2
    with pytest.raises(ComparisonError, match=r"more than 2\*\*62"):
        Comparisons.from_arrays(None, ["A"] * 600, ["B"] * 600, [1] * 600, count=[2**53] * 600)


def test_count_zero_is_ignored_and_reported() -> None:
    comparisons = Comparisons.from_arrays(None, ["A", "A"], ["B", "C"], [1, 1], count=[2, 0])
    assert list(comparisons.models) == ["A", "B"]
    assert (comparisons.n, comparisons.n_dropped, comparisons.summary().attrs["zero_count_rows"]) == (2, 0, 1)


def test_declared_labels_stay_and_others_are_refused() -> None:
    comparisons = Comparisons.from_frame(BASE, models=["D", "C", "B", "A"], tasks=["u", "t", "s"])
    assert list(comparisons.models) == ["A", "B", "C", "D"] and list(comparisons.tasks) == ["s", "t", "u"]
    assert comparisons.summary().loc["u", ["n", "n_models", "n_pieces"]].tolist() == [0, 0, 0]
    for option in ({"models": ["A", "B"]}, {"tasks": ["t"]}):
        with pytest.raises(ComparisonError, match=f"outside the {next(iter(option))}= list"):
            Comparisons.from_frame(BASE, **option, on_invalid="drop")
    with pytest.raises(ComparisonError, match="single string"):
        Comparisons.from_frame(BASE, models="ABC")
    with pytest.raises(ComparisonError, match="empty list"):
        Comparisons.from_frame(BASE, tasks=[])
    one_task = {name: values for name, values in BASE.items() if name != "task"}
    assert list(Comparisons.from_frame(one_task, task=None, tasks=["all", "other"]).tasks) == ["all", "other"]


def test_near_duplicates_warn_once_and_merge_only_through_aliases() -> None:  # case A25
    rows = (["gpt-4", "gpt-4 ", "GPT-4"], ["gpt-4 ", "GPT-4", "gpt-4"], ["GPT-4 ", "tie", "tie"])
    rows = (rows[0], rows[1], ["model_a", "tie", "GPT-4"])
    with pytest.warns(UserWarning, match="'GPT-4' and 'gpt-4' and 'gpt-4 '") as caught:
        comparisons = Comparisons.from_arrays(None, *rows)
    assert len(caught) == 1 and len(comparisons.models) == 3
    merged = Comparisons.from_arrays(
        None, ["gpt-4", "gpt-4 ", "x"], ["x", "x", "GPT-4"], ["gpt-4", "gpt-4 ", "GPT-4"], aliases={"gpt-4 ": "gpt-4", "GPT-4": "gpt-4"}
    )
    assert merged.counts[["model_a", "model_b", "wins"]].to_numpy().tolist() == [["gpt-4", "x", 3]]
    with pytest.raises(ComparisonError, match="circle"):
        Comparisons.from_frame(BASE, aliases={"A": "B", "B": "A"})
    with pytest.raises(ComparisonError, match="aliases must map"):
        Comparisons.from_frame(BASE, aliases=[("A", "B")])
    assert list(Comparisons.from_frame(BASE, aliases={"C": "D", "D": "E"}).models) == ["A", "B", "E"]


def test_duplicate_ids_count_once_and_contradictions_raise() -> None:  # case A25
    rows = {"task": ["t"] * 3, "model_a": ["A", "B", "A"], "model_b": ["B", "A", "B"], "winner": ["model_a", "model_b", "model_b"]}
    comparisons = Comparisons.from_frame({**rows, "id": ["v1", "v1", "v2"]}, id="id")  # the second is the first, sides swapped
    assert (comparisons.n, comparisons.n_rows, comparisons.n_dropped) == (2, 3, 1)
    assert comparisons.summary().attrs["dropped"] == {"duplicate id": 1}
    assert comparisons._table.cluster is None
    with pytest.raises(ComparisonError, match=r"1 ids have contradictory votes.*'v1'"):
        Comparisons.from_frame({**rows, "id": ["v1", "v2", "v1"]}, id="id")
    with pytest.raises(ComparisonError, match="column 'id': 1 row has no id"):
        Comparisons.from_frame({**rows, "id": ["v1", None, "v2"]}, id="id")


def test_a_tie_dropped_by_policy_still_contradicts() -> None:
    with pytest.raises(ComparisonError, match="contradictory"):
        Comparisons.from_arrays(None, ["A", "A"], ["B", "B"], ["tie", "model_a"], id=[1, 1], ties="drop")


def test_an_id_under_several_tasks_is_one_cluster() -> None:
    rows = {"task": ["s", "t", "t"], "model_a": ["A"] * 3, "model_b": ["B"] * 3, "winner": ["model_a", "model_a", "model_b"]}
    comparisons = Comparisons.from_frame({**rows, "id": [7, 7, 8]}, id="id")
    assert comparisons._table.cluster is not None
    assert comparisons._cluster_labels == ["7", "8"]
    assert comparisons._table.cluster.tolist() == [0, 1, 0]  # sorted by task, then outcome
    assert comparisons.summary().attrs["n_clusters"] == 2


def test_clusters_that_share_an_id_are_joined() -> None:
    comparisons = Comparisons.from_arrays(
        ["s", "t", "t", "t"], ["A"] * 4, ["B"] * 4, [1, 1, 0, 0], id=[1, 1, 2, 3], cluster=["y", "x", "z", "x"]
    )
    assert comparisons._cluster_labels == ["x", "z"]
    assert sorted(comparisons._table.cluster.tolist()) == [0, 0, 0, 1]  # type: ignore[union-attr]


def test_clusters_split_the_groups_but_not_the_counts() -> None:
    plain = Comparisons.from_arrays(None, ["A"] * 4, ["B"] * 4, [1, 1, 0, 0])
    judged = Comparisons.from_arrays(None, ["A"] * 4, ["B"] * 4, [1, 1, 0, 0], cluster=[2, 1, 1, 1])
    assert judged.counts.equals(plain.counts)
    assert judged._table.n_groups == 3 and judged._table.cluster.tolist() == [0, 0, 1]  # type: ignore[union-attr]


def test_merging_finds_copies_across_objects() -> None:
    one = Comparisons.from_arrays(None, ["A", "A"], ["B", "C"], [1, 1], id=["a", "b"])
    two = Comparisons.from_arrays(None, ["A", "B"], ["B", "C"], [1, 0], id=["a", "c"])
    bad = Comparisons.from_arrays(None, ["A"], ["B"], [0], id=["a"])
    merged = one + two
    assert (merged.n, merged.n_dropped, merged.n_rows) == (3, 1, 4)
    assert same_table(merged, two + one)
    with pytest.raises(ComparisonError, match="contradictory"):
        _ = one + bad
    # an object without ids in between hides nothing
    plain = Comparisons.from_arrays(None, ["A"], ["D"], [1])
    assert same_table((one + plain) + two, one + (plain + two))
    assert ((one + plain) + two).n == 4


def test_merging_needs_one_policy_and_clusters_on_both_sides() -> None:
    one = Comparisons.from_frame(BASE)
    with pytest.raises(ComparisonError, match="ties='half' and ties='drop'"):
        _ = one + Comparisons.from_frame(BASE, ties="drop")
    with pytest.raises(ComparisonError, match="with clusters and comparisons without"):
        _ = one + Comparisons.from_frame({**BASE, "judge": [1, 2, 3]}, cluster="judge")
    with pytest.raises(TypeError):
        _ = one + 3
    split = Comparisons.from_arrays(["s", "t"], ["A"] * 2, ["B"] * 2, [1, 1], id=[1, 1])
    with pytest.raises(ComparisonError, match="several tasks"):
        _ = one + split


def test_merging_warns_only_of_what_is_new() -> None:
    one = Comparisons.from_arrays(None, ["x"], ["y"], [1])
    two = Comparisons.from_arrays(None, ["X"], ["y"], [1])
    with pytest.warns(UserWarning, match="'X' and 'x'"):
        merged = one + two
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        _ = merged + one


def test_summary_sees_pieces_separation_and_position() -> None:  # case A04
    comparisons = Comparisons.from_arrays(None, list("ACAE"), list("BDBF"), ["model_a", "model_b", "model_b", "tie"])
    summary = comparisons.summary().loc["all"]
    assert (summary["n_pieces"], summary["n_separated"], summary["n_models"], summary["ties"]) == (3, 2, 6, 1)
    assert summary["first_share"] == pytest.approx(1 / 3)
    swapped = Comparisons.from_arrays(None, list("BDBF"), list("ACAE"), ["model_b", "model_a", "model_a", "tie"])
    assert same_table(comparisons, swapped)
    assert swapped.summary().attrs["first_share"] == pytest.approx(2 / 3)


# --- files of counts --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".json", ".csv", ".csv.gz", ".parquet"])
@pytest.mark.parametrize("clustered", [False, True])
def test_counts_survive_a_file(tmp_path: Path, suffix: str, clustered: bool) -> None:
    if suffix == ".parquet":
        pytest.importorskip("pyarrow")
    frame = {
        "task": ["t", "t", "NA", "t", "t", "t"],
        "model_a": ["null", "B", 'quo"te,\n', "null", "B", "B"],
        "model_b": ["B", "null", "B", "B", "null", "B"],
        "winner": ["model_a", "0.25", "tie", "both_bad", None, "tie"],
        "judge": ["1", "2", "1", "1", "1", "1"],
    }
    frame["winner"][1] = 0.1  # type: ignore[call-overload]
    options = {"models": ["A", "null", "B", 'quo"te,\n'], "tasks": ["t", "NA", "unseen"], "on_invalid": "drop", "ties": "half"}
    comparisons = Comparisons.from_frame(frame, cluster="judge" if clustered else None, **options)
    path = tmp_path / f"counts{suffix}"
    comparisons.write_counts(path)
    comparisons.write_counts(path)  # replaces
    assert [entry.name for entry in tmp_path.iterdir()] == [path.name]
    back = Comparisons.read_counts(path)
    assert same_table(back, comparisons)
    assert list(back.models) == list(comparisons.models) and list(back.tasks) == list(comparisons.tasks)
    assert back.counts.equals(comparisons.counts) and back.ties == comparisons.ties
    if not suffix.startswith(".csv"):
        pd.testing.assert_frame_equal(back.summary(), comparisons.summary())
        assert back.summary().attrs == comparisons.summary().attrs
    first = path.read_bytes()
    comparisons.write_counts(path)
    assert path.read_bytes() == first


def test_counts_with_ids_keep_the_settled_clusters(tmp_path: Path) -> None:
    comparisons = Comparisons.from_arrays(["s", "t", "t"], ["A"] * 3, ["B"] * 3, [1, 1, 1], id=[1, 1, 2])
    comparisons.write_counts(tmp_path / "c.json")
    assert same_table(Comparisons.read_counts(tmp_path / "c.json"), comparisons)


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_counts_are_flushed_and_get_the_permissions_of_any_new_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr("os.fsync", lambda handle: (done.append("flush"), fsync(handle))[1])
    monkeypatch.setattr("os.replace", lambda old, new: (done.append("rename"), rename(old, new))[1])
    before = os.umask(0o027)
    try:
        Comparisons.from_frame(BASE).write_counts(tmp_path / "c.json")
    finally:
        os.umask(before)
    assert (tmp_path / "c.json").stat().st_mode & 0o777 == 0o640
    assert done == ["flush", "rename"] and os.listdir(tmp_path) == ["c.json"]


MALFORMED_HEADS: list[tuple[str, object]] = [
    *(("n_rows", bad) for bad in ("abc", None, -1, 2.5, True)),
    *((field, bad) for field in ("tasks", "models") for bad in (5, "xyz", None, [None, {}, ""], ["A", " "])),
    *(
        ("dropped", bad)
        for bad in (None, 3, [1], [["tie", None]], [["tie", "t", -2]], [["tie", "t", "2"]], [["tie", 4, 2]], [[None, "t", 2]])
    ),
    *((field, bad) for field in ("ties", "both_bad") for bad in ("junk", None, ["drop"])),
]


def test_counts_files_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    path = tmp_path / "c.json"
    Comparisons.from_frame(BASE).write_counts(path)
    good = json.loads(path.read_text())

    def refuse(match: str, change: dict[str, object]) -> None:
        path.write_text(json.dumps({**good, **change}))
        with pytest.raises(ComparisonError, match=match):
            Comparisons.read_counts(path)

    refuse("newer lrgittins", {"schema_version": 2})
    refuse("not a counts file", {"schema": "other"})
    refuse("no counts", {"counts": []})
    refuse("column 'count' has 3 bad values", {"counts": {**good["counts"], "count": [-1, -1, -1]}})
    refuse("holds 'draw'|draw", {"counts": {**good["counts"], "verdict": ["draw"] * 3}})
    refuse("lacks the columns outcome", {"counts": {k: v for k, v in good["counts"].items() if k != "outcome"}})
    refuse("where a name is needed", {"counts": {**good["counts"], "task": [None] * 3}})
    refuse("itself", {"counts": {**good["counts"], "model_a": ["A"] * 3, "model_b": ["A"] * 3}})
    refuse(
        "3 values other than 0.5 where 'verdict' says tie", {"counts": {**good["counts"], "outcome": [1, 0, 0.7], "verdict": ["tie"] * 3}}
    )
    for field, bad in MALFORMED_HEADS:
        refuse(rf"c\.json: field '{field}' of the head must be .*, got ", {field: bad})
    path.write_text(path.read_text()[:50])
    with pytest.raises(ComparisonError, match="cannot be read as a counts file"):
        Comparisons.read_counts(path)
    with pytest.raises(ComparisonError, match="cannot be read"):
        Comparisons.read_counts(tmp_path / "none.json")
    with pytest.raises(ComparisonError, match="counts are kept as one of"):
        Comparisons.read_counts(tmp_path / "c.pkl")
    Comparisons.from_frame(BASE).write_counts(tmp_path / "junk.csv")
    (tmp_path / "junk.csv").write_text((tmp_path / "junk.csv").read_text().replace(",half,", ",junk,"))
    with pytest.raises(ComparisonError, match=r"junk\.csv: field 'ties' of the head must be one of half, drop, error, got 'junk'"):
        Comparisons.read_counts(tmp_path / "junk.csv")
    (tmp_path / "votes.csv").write_text("task,model_a,model_b,winner\nt,A,B,tie\n")
    with pytest.raises(ComparisonError, match="not a counts file"):
        Comparisons.read_counts(tmp_path / "votes.csv")
    with pytest.raises(ComparisonError, match="cannot be written"):
        Comparisons.from_frame(BASE).write_counts(tmp_path / "no" / "c.json")


# --- properties -------------------------------------------------------------------------------------------------------------------

VOTE = st.tuples(
    st.sampled_from(["s", "t", "u"]),
    st.sampled_from("ABCDE"),
    st.sampled_from("ABCDE"),
    st.sampled_from([0.0, 0.5, 1.0, 0.3]),
    st.integers(1, 4),
    st.sampled_from(["j1", "j2", "j3"]),
).filter(lambda vote: vote[1] != vote[2])
VOTES = st.lists(VOTE, min_size=1, max_size=25)
Vote = tuple[str, str, str, float, int, str]


def count(votes: list[Vote], *, repeat: bool = False, cluster: bool = True) -> Comparisons:
    rows = [vote for vote in votes for _ in range(vote[4] if repeat else 1)]
    task, a, b, y, times, judge = (list(column) for column in zip(*rows, strict=True))
    return Comparisons.from_arrays(task, a, b, y, None if repeat else times, cluster=judge if cluster else None)


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(VOTES, st.randoms(use_true_random=False), st.booleans())
def test_rows_order_sides_and_repetition_leave_no_trace(votes: list[Vote], random: object, cluster: bool) -> None:
    base = count(votes, cluster=cluster)
    shuffled = list(votes)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert same_table(base, count(shuffled, cluster=cluster))
    flipped = [(t, b, a, 1.0 - y, n, j) if random.random() < 0.5 else (t, a, b, y, n, j) for t, a, b, y, n, j in shuffled]  # type: ignore[attr-defined]
    assert same_table(base, count(flipped, cluster=cluster))
    assert same_table(base, count(votes, repeat=True, cluster=cluster))
    assert base.n == sum(vote[4] for vote in votes)


@pytest.mark.property
@settings(max_examples=60, deadline=None)
@given(VOTES, VOTES, VOTES)
def test_merging_is_counting_together(one: list[Vote], two: list[Vote], three: list[Vote]) -> None:
    a, b, c = count(one), count(two), count(three)
    whole = count(one + two + three)
    assert same_table(a + b + c, whole) and same_table(c + (b + a), whole)
    assert (a + b + c).counts.equals(whole.counts)
    assert list((a + b).models) == sorted({*a.models, *b.models})


@pytest.mark.property
@pytest.mark.oracle
@settings(max_examples=60, deadline=None)
@given(VOTES)
def test_counts_match_a_plain_loop(votes: list[Vote]) -> None:
    expected: dict[tuple[str, str, str], list[float]] = {}
    for task, a, b, y, n, _ in votes:
        low, high = sorted((a, b))
        seen = y if a == low else 1.0 - y
        cell = expected.setdefault((task, low, high), [0, 0, 0, 0])
        cell[0 if seen == 1 else 1 if seen == 0 else 2 if seen == 0.5 else 3] += n
    frame = count(votes).counts
    graded = frame["graded"] if "graded" in frame.columns else pd.Series(0, index=frame.index)
    found = {
        (row.task, row.model_a, row.model_b): [row.wins, row.losses, row.ties, g] for row, g in zip(frame.itertuples(), graded, strict=True)
    }
    assert found == expected
    assert list(found) == sorted(found)


def test_grouping_survives_keys_beyond_int64() -> None:
    from lrgittins._votes import group_rows

    rng = np.random.default_rng(0)
    columns = [rng.choice(np.array([0, 5, 2**40]), 50) for _ in range(3)]  # the joint key would need 120 bits
    parts, totals = group_rows(columns, None)
    expected: dict[tuple[int, ...], int] = {}
    for row in zip(*(column.tolist() for column in columns), strict=True):
        expected[row] = expected.get(row, 0) + 1
    found = dict(zip(zip(*(part.tolist() for part in parts), strict=True), totals.tolist(), strict=True))
    assert found == expected and list(found) == sorted(found)
    weighted = group_rows(columns, np.full(50, 3, dtype=np.int64))[1]
    assert weighted.tolist() == [3 * n for n in totals.tolist()]


def test_many_batches_are_compacted(monkeypatch: pytest.MonkeyPatch) -> None:
    from lrgittins import _counting, _intake

    rng = np.random.default_rng(1)
    frame = {"task": rng.integers(0, 5, 400), "model_a": rng.integers(0, 9, 400), "model_b": rng.integers(9, 18, 400)}
    frame["winner"] = rng.choice(["model_a", "tie"], 400)
    whole = Comparisons.from_frame(frame)
    monkeypatch.setattr(_counting, "_COMPACT_FROM", 20)
    monkeypatch.setattr(_intake.slices, "__defaults__", (7,))
    assert same_table(Comparisons.from_frame(frame), whole)
