"""The comparisons with peers and the table of limits: they run on tiny inputs, compare what they say, and fill in tables."""

from __future__ import annotations

import dataclasses
import importlib
import json
import math
import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner

import lrgittins as lg
from benchmarks.machine import RATES, measure
from benchmarks.peers import ours, rows, table
from benchmarks.peers.__main__ import merge
from benchmarks.peers.environments import PEERS
from benchmarks.peers.inputs import SIZES, observed_matrix, resample_wins, simulated_votes, win_matrix
from benchmarks.peers.timing import Case, OverBudget, deadline, interleave, measured
from benchmarks.peers.worker import DISTRIBUTIONS

# Importable name of every peer's package.
PACKAGES = {
    "arena-rank": "arena_rank",
    "choix": "choix",
    "evalica": "evalica",
    "arenakit": "arenakit",
    "scikit-learn": "sklearn",
    "banditeval": "banditeval",
    "numpy": "numpy",
}


def make_row(**changes: Any) -> dict[str, Any]:
    row = {
        "peer": "choix", "versions": {"choix": "0.4.1"}, "size": "full", "kind": "point", "work": "point fit, 10 votes x 2 models",
        "their_way": "theirs", "our_way": "mine", "theirs": 0.25, "ours": 0.1, "ratio": 2.5, "lowest_ratio": 2.4, "rounds": 3,
        "wanted": 1.0, "difference": 1e-9, "unit": "scores",
    }  # fmt: skip
    return {**row, **changes}


# ---------------------------------------------------------------------------------------------------- comparisons


def test_every_peer_has_a_worker() -> None:
    assert {peer.name for peer in PEERS} == set(DISTRIBUTIONS) == set(PACKAGES)


@pytest.mark.parametrize("peer", list(PACKAGES))
def test_both_sides_agree_on_a_tiny_input(peer: str) -> None:
    pytest.importorskip(PACKAGES[peer], reason=f"{peer} is not installed here; `python -m benchmarks.peers` gives it an environment")
    module = importlib.import_module(f"benchmarks.peers.{DISTRIBUTIONS[peer]}")
    seen = set()
    for case in module.cases(SIZES["tiny"]):
        seen.add(case.kind)
        difference = float(case.compare(case.theirs(), case.ours()))
        # Fits reach the same maximum, peers to their own tolerances (evalica's 1e-6 the loosest). Bootstrap errors of 10 draws scatter by
        # 1 / sqrt(20) a model, and the largest of 6 by about twice that. Root grids are 1,025 points wide; ensembles differ by draw.
        allowed = {"point": 1e-3, "tasks": 1e-3, "intervals": 1.0, "step": 0.2, "roots": 0.05}[case.kind]
        assert difference <= allowed, case.work
    assert seen <= set(table.KINDS) and seen


def test_simulated_votes_have_a_maximum_and_repeat() -> None:
    frame = simulated_votes(600, 4, 2, seed=3)
    pd.testing.assert_frame_equal(frame, simulated_votes(600, 4, 2, seed=3))
    fit = lg.PerTaskBradleyTerry().fit(lg.Comparisons.from_frame(frame))
    assert fit.converged_.all() and len(fit.separated_) == 0
    wins, names = win_matrix(frame[frame["task"] == "task-00"])
    assert wins.sum() == (frame["task"] == "task-00").sum() and names == [f"model-{i:03d}" for i in range(4)]
    counts = lg.Comparisons.from_frame(frame[frame["task"] == "task-00"], task=None).counts
    first = counts.iloc[0]
    assert wins[names.index(first["model_a"]), names.index(first["model_b"])] == first["wins"]
    assert resample_wins(wins, np.random.default_rng(0)).sum() == wins.sum()


def test_observed_matrix_hides_cells_of_the_truth() -> None:
    scores, seen = observed_matrix(5, 40, 0.3)
    known = ~np.isnan(seen)
    assert 0 < known.sum() < scores.size
    np.testing.assert_array_equal(seen[known], scores[known])


def test_errors_of_scores_follow_from_those_of_gaps() -> None:
    frame = simulated_votes(600, 5)
    scores, gaps = ours.fit_with_errors(frame)
    board = ours.board_errors(ours.fit_board(frame))
    # The identity is exact; what remains is rounding of sums of squares.
    assert ours.error_difference(ours.errors_of_scores(gaps, scores.index), board.reindex(scores.index)) < 1e-9


def test_differences_of_answers_are_those_of_centred_scores() -> None:
    mine = pd.Series({"a": 1.0, "b": -1.0})
    assert ours.score_difference({"b": 9.0, "a": 11.0}, mine) == 0.0
    assert ours.score_difference({"a": 12.0, "b": 9.0}, mine) == pytest.approx(0.5)
    with pytest.raises(ValueError, match="different models"):
        ours.score_difference({"a": 1.0, "c": 0.0}, mine)
    with pytest.raises(ValueError, match="different tasks"):
        ours.task_difference({"t": mine}, pd.DataFrame([mine], index=["u"]))


timers = pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="no interval timers on this system: runs are not stopped")


def make_case(theirs: Callable[[], Any], **changes: Any) -> Case:
    return Case(**{"kind": "point", "work": "w", "their_way": "t", "our_way": "o", "theirs": theirs, "ours": lambda: sum(range(1000)),
                   "compare": lambda t, o: 0.0, "unit": "x", **changes})  # fmt: skip


def work(seconds: float) -> None:
    """Keep the processor busy: budgets are of CPU time."""
    end = time.process_time() + seconds
    while time.process_time() < end:
        pass


def test_interleaving_alternates() -> None:
    calls: list[str] = []
    case = Case("point", "w", "t", "o", lambda: calls.append("theirs") or 1.0, lambda: calls.append("ours") or 3.0, lambda t, o: o - t, "x")
    row = interleave(case, 3)
    assert calls == ["theirs", "ours"] * 4 and row["rounds"] == 3 and row["difference"] == 2.0
    assert json.loads(json.dumps(row))["wanted"] == 1.0


def test_slow_peers_get_the_rounds_that_fit() -> None:
    calls: list[float] = []

    def slow() -> None:
        calls.append(time.process_time())
        work(0.05)

    row = interleave(make_case(slow), 100, budget=1.0)
    assert 1 <= row["rounds"] <= 18 and len(calls) <= row["rounds"] + 2  # one untimed, and at most one that was stopped


@timers
def test_a_run_over_budget_is_stopped_even_where_the_peer_catches_exceptions() -> None:
    def stubborn() -> None:
        while True:
            try:
                work(0.01)
            except Exception:
                continue

    start = time.process_time()
    with pytest.raises(OverBudget):
        interleave(make_case(stubborn), 3, budget=0.1)
    assert time.process_time() - start < 5.0
    work(0.5)  # the timer is off again: nothing is raised here


def test_deadline_leaves_quick_work_alone() -> None:
    with deadline(5.0):
        pass
    with deadline(math.inf):
        pass
    with pytest.raises(KeyError), deadline(5.0):
        raise KeyError("of the work, not of the clock")


@timers
def test_a_row_over_budget_is_run_smaller_and_says_so() -> None:
    def endless() -> None:
        work(60.0)

    quick = make_case(lambda: sum(range(1000)), work="a tenth")
    middle = make_case(endless, work="half", smaller=lambda: quick)
    row, line = measured(make_case(endless, smaller=lambda: middle), 2, budget=0.3)
    assert (row["work"], row["instead_of"], row["rounds"]) == ("a tenth", "w", 2)
    assert (line["work"], line["over_budget"], line["finished"]) == ("w", 0.3, "a tenth")
    (alone,) = measured(make_case(endless), 2, budget=0.1)
    assert alone["finished"] is None and "ratio" not in alone
    (within,) = measured(quick, 2, budget=60.0)
    assert within["rounds"] == 2 and "instead_of" not in within


def test_smaller_rows_ask_for_less_of_the_same() -> None:
    def fit(part: pd.DataFrame) -> pd.Series:
        return ours.point_fit(part)

    frame = simulated_votes(6_000, 6)
    for make in (rows.point, rows.errors, rows.board):
        case = make(frame, fit, "way")
        assert case.smaller is not None
        less = case.smaller()
        assert "6,000 votes x 6 models" in case.work and "600 votes x 6 models" in less.work and less.their_way == "way"
        assert less.smaller is None  # 60 votes of 6 models may have no maximum
    size = dataclasses.replace(SIZES["tiny"], tasks=((6, 4, 3_000),))
    (case,) = rows.tasks(size, fit, "way")
    assert case.work == "per-task fits, 6 x 4 x 3,000 votes" and case.smaller is not None
    less = case.smaller()
    assert less.work.startswith("per-task fits, 1 x 4 x ") and less.smaller is None
    assert max(case.compare(case.theirs(), case.ours()), less.compare(less.theirs(), less.ours())) < 1e-9  # both sides are ours


# --------------------------------------------------------------------------------------------------------- tables


def test_spans_and_ratios_read_well() -> None:
    assert [table.span(x) for x in (2.345, 0.0123, 4.5e-6, 123.4, 2.5e-8)] == ["2.35 s", "12.3 ms", "4.5 us", "123 s", "0.025 us"]
    assert [table.ratio_text(x) for x in (0.512, 12.34, 1234.0)] == ["0.51", "12.3", "1,234"]


def test_full_table_says_what_is_missed_and_what_could_not_be_run() -> None:
    table_rows = [make_row(kind="intervals", work="fit with errors, 10 votes", wanted=3.0, their_way="bootstrap"), make_row()]
    text = table.full_table(table_rows, {"arenakit": "It cannot be installed from PyPI here: no match"})
    lines = text.splitlines()
    assert lines[2].startswith("| point fit") and "**missed**" not in lines[2]
    assert "2.50 (2.40) **missed** | 3 |" in lines[3]
    assert "arenakit: not run. It cannot be installed from PyPI here: no match" in text
    assert "- choix, intervals: bootstrap. Ours: mine." in text


def test_tables_say_what_was_over_budget() -> None:
    slow = {name: make_row(work="the whole")[name] for name in ("peer", "versions", "size", "kind", "work", "their_way", "our_way", "unit")}
    part = make_row(work="a part", instead_of="the whole")
    text = table.full_table([part, {**slow, "over_budget": 90.0, "finished": "a part"}], {})
    assert "the whole, choix 0.4.1: over the budget of 90 CPU seconds for its runs of one row; what finished is: a part." in text
    assert len([line for line in text.splitlines() if line.startswith("| a part")]) == 1 and "| the whole" not in text
    nothing = table.full_table([{**slow, "over_budget": 90.0, "finished": None}], {})
    assert "; no smaller input finished either" in nothing
    assert table.compact_table([{**slow, "over_budget": 90.0, "finished": None}]) == ""


def test_new_rows_replace_old_ones_and_their_stand_ins() -> None:
    line = {"peer": "choix", "size": "full", "work": "the whole", "over_budget": 9.0, "finished": "a part"}
    part, other = make_row(work="a part", instead_of="the whole"), make_row(work="other")
    whole = make_row(work="the whole")
    assert merge([line, part, other], [whole]) == [other, whole]
    assert merge([line, part, other], [make_row(peer="evalica", work="the whole")])[:3] == [line, part, other]


def test_compact_table_sets_peers_side_by_side() -> None:
    table_rows = [
        make_row(),
        make_row(peer="scikit-learn", work="ridged point fit, 10 votes x 2 models", ratio=30.0),
        make_row(peer="banditeval", kind="step", work="5 steps of UCB-E", ratio=200.0),
        make_row(peer="numpy", kind="roots", work="root schedules", ratio=9.0),
    ]
    lines = table.compact_table(table_rows).splitlines()
    assert lines[0] == "| times faster than | choix | scikit-learn |"
    assert lines[2] == "| point fit, 10 votes x 2 models | 2.50 | 30.0 |"
    assert lines[-2:] == ["| 5 steps of UCB-E | banditeval | 200 |", "| root schedules | plain numpy FFT | 9.00 |"]


def test_markers_are_filled_again_and_again(tmp_path: Path) -> None:
    path = tmp_path / "page.md"
    path.write_text("before\n<!-- peers:full -->\nold\n<!-- /peers:full -->\nafter\n", encoding="utf-8")
    for _ in range(2):
        table.write_tables(path, {"peers:full": "| new |\n", "peers:compact": "| other |"})
        assert path.read_text(encoding="utf-8") == "before\n<!-- peers:full -->\n| new |\n<!-- /peers:full -->\nafter\n"
    with pytest.raises(ValueError, match="none of the markers"):
        table.write_tables(path, {"limits:paths": "x"})
    with pytest.raises(ValueError, match="once each"):
        table.replace_between("<!-- a --> <!-- a --> <!-- /a -->", "a", "x")


def test_command_refuses_unknown_peers() -> None:
    main = importlib.import_module("benchmarks.peers.__main__").main
    result = CliRunner().invoke(main, ["--only", "chiox"])
    assert result.exit_code == 2 and "chiox" in result.stderr and "choix" in result.stderr


# --------------------------------------------------------------------------------------------------------- limits


def test_rates_are_positive() -> None:
    rates = measure(elements=20_000, rounds=1)
    assert set(rates) == set(RATES) and all(rate > 0.0 and math.isfinite(rate) for rate in rates.values())


def test_limits_run_on_tiny_inputs_and_fill_the_page(tmp_path: Path) -> None:
    limits = importlib.import_module("benchmarks.limits")
    page = tmp_path / "limits.md"
    page.write_text("<!-- limits:rates -->\n<!-- /limits:rates -->\n<!-- limits:paths -->\n<!-- /limits:paths -->\n", encoding="utf-8")
    result = CliRunner().invoke(limits.main, ["--tiny", "--rounds", "1", "--write", str(page)], catch_exceptions=False)
    assert result.exit_code == 0
    text = page.read_text(encoding="utf-8")
    for name in ("aggregation of coded columns", "arrowhead, factor", "order statistics", "replay of a tenth", "root schedule"):
        assert name in text
    path = limits.HotPath("x", "y", {"read": 8.0, "flops": 4.0}, lambda: None)
    assert limits.limit(path, {"read": 2.0, "flops": 1.0}) == 8.0


def test_exchanges_sort() -> None:
    """Counted by the network itself: as many as a sort of 0/1 inputs needs, known for n = 2, 4, 8 (1, 5, 19)."""
    limits = importlib.import_module("benchmarks.limits")
    assert [limits.count_exchanges(n) for n in (1, 2, 4, 8)] == [0, 1, 5, 19]
