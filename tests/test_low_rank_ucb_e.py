"""UCB-E with an ensemble of factorisations: the fit, the choice, the warm-up, resume, and what is refused."""

from __future__ import annotations

import copy
import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lrgittins as lg
from lrgittins._kernels.als import fit_ensemble, impute_rows
from lrgittins._kernels.cells import ABSENT, PENDING, SEEN, UNSEEN, index_cells
from tests.reference.matrix_policies import impute, slow_low_rank_ucb_e


def low_rank_scores(n_arms: int, n_examples: int, seed: int = 0, *, binary: bool = True) -> np.ndarray:
    rng = np.random.default_rng(seed)
    chance = rng.uniform(0.3, 1.0, (n_arms, 1)) * rng.uniform(0.2, 1.0, n_examples)
    return (rng.random((n_arms, n_examples)) < chance).astype(float) if binary else chance


def finish(policy: Any, scores: np.ndarray, count: int = 10**6) -> list[lg.Pull]:
    pulls: list[lg.Pull] = []
    while len(pulls) < count and (pull := policy.ask()) is not None:
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        pulls.append(pull)
    return pulls


def fit(kind: np.ndarray, scores: np.ndarray, start: np.ndarray, keep: np.ndarray, iterations: int = 10) -> tuple[np.ndarray, np.ndarray]:
    n_arms, width = kind.shape
    n = int((kind == SEEN).sum())
    rows, columns = np.empty(n_arms + 1, dtype=np.int64), np.empty(width + 1, dtype=np.int64)
    lists, values = np.empty((3, n), dtype=np.int64), np.empty(n)
    index_cells(kind, scores, rows, columns, lists, values)
    u, v = start.copy(), np.empty((width, start.shape[1]))
    fit_ensemble(rows, columns, lists, values, keep, 0.1, iterations, u, v)
    return u, v


# -- the kernels ------------------------------------------------------------------------------------------------------


@pytest.mark.oracle
def test_fit_and_imputation_equal_loops_over_members() -> None:
    rng = np.random.default_rng(3)
    scores = low_rank_scores(5, 9, binary=False)
    kind = rng.choice(np.array([UNSEEN, SEEN, SEEN, PENDING, ABSENT], dtype=np.uint8), size=scores.shape)
    kind[2] = UNSEEN  # an arm without data
    kind[:, 4] = UNSEEN  # and an example without
    seen = {(int(i), int(j)): float(scores[i, j]) for i, j in np.argwhere(kind == SEEN)}
    start, keep = rng.standard_normal((5, 6)), (rng.random((len(seen), 6)) >= 0.2).astype(np.uint8)
    u, v = fit(kind, scores, start, keep)
    mean, std = impute(seen, scores.shape, start, keep, 0.1, 10)
    assert np.allclose((u @ v.T) / 6, mean, rtol=0, atol=1e-12)
    imputed, upper, spread = np.empty(5), np.empty(5), np.empty(9)
    impute_rows(np.array([0, 2, 4, 1, 3]), kind, scores, u, np.ascontiguousarray(v.T), 5.0, imputed, upper, spread)
    for k in range(5):
        cells = [j for j in range(9) if kind[k, j] != ABSENT]
        plain = [scores[k, j] if kind[k, j] == SEEN else mean[k, j] for j in cells]
        extra = sum(5.0 * std[k, j] for j in cells if kind[k, j] == UNSEEN)
        assert imputed[k] == pytest.approx(sum(plain) / len(cells), abs=1e-12)
        assert upper[k] == pytest.approx((sum(plain) + extra) / len(cells), abs=1e-12)
    assert np.allclose(spread, std[3], rtol=0, atol=1e-12), "of the last row that was asked for"
    assert imputed[2] == upper[2] == 0.0 and (v[4] == 0.0).all()


@pytest.mark.property
def test_the_fit_is_a_stationary_point_of_its_objective() -> None:
    rng = np.random.default_rng(0)
    scores = low_rank_scores(6, 12, binary=False)
    kind = np.where(rng.random(scores.shape) < 0.7, SEEN, UNSEEN).astype(np.uint8)
    n = int((kind == SEEN).sum())
    keep = (rng.random((n, 4)) >= 0.1).astype(np.uint8)
    u, v = fit(kind, scores, np.abs(rng.standard_normal((6, 4))), keep, iterations=2000)
    for m in range(4):
        weight = np.zeros(scores.shape)
        weight[kind == SEEN] = keep[:, m]
        gap = weight * (np.outer(u[:, m], v[:, m]) - scores)
        assert np.abs(gap @ v[:, m] + 0.1 * u[:, m]).max() < 1e-10
        assert np.abs(gap.T @ u[:, m] + 0.1 * v[:, m]).max() < 1e-10


def test_members_that_agree_have_no_spread_at_all() -> None:
    scores = low_rank_scores(4, 7)
    kind = np.where(np.random.default_rng(1).random(scores.shape) < 0.5, SEEN, UNSEEN).astype(np.uint8)
    start = np.repeat(np.random.default_rng(2).standard_normal((4, 1)), 5, axis=1)
    u, v = fit(kind, scores, start, np.ones((int((kind == SEEN).sum()), 5), dtype=np.uint8))
    imputed, upper, spread = np.empty(4), np.empty(4), np.empty(7)
    impute_rows(np.arange(4), kind, scores, u, np.ascontiguousarray(v.T), 5.0, imputed, upper, spread)
    assert (spread == 0.0).all() and (imputed == upper).all()


# -- the policy -------------------------------------------------------------------------------------------------------

CASES: dict[str, dict[str, Any]] = {
    "plain": {},
    "real scores": {"binary": False},
    "no warm-up, one at a time": {"warmup": 0.0, "batch_size": 1, "n_examples": 6},
    "no drop, few members": {"drop": 0.0, "ensemble": 2},
    "missing cells": {"missing": True},
    "in order": {"tie_break": "order", "bonus": 0.5, "iterations": 3, "ridge": 1.0},
}


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_every_step_equals_the_slow_reference(case: dict[str, Any]) -> None:
    options = {"batch_size": 3, "warmup": 0.2, "ensemble": 8, **case}
    n_examples = options.pop("n_examples", 11)
    scores = low_rank_scores(5, n_examples, seed=7, binary=options.pop("binary", True))
    missing = np.random.default_rng(5).random(scores.shape) < 0.2 if options.pop("missing", False) else None
    policy = lg.LowRankUCBE(5, n_examples, missing=missing, random_state=4, **options)
    order = policy.ledger.order
    exists = np.ones(scores.shape, dtype=bool) if missing is None else ~missing[:, order]
    plan = list(zip(policy._plan.arms.tolist(), policy._plan.positions.tolist(), strict=True))
    assert len(plan) == math.ceil(options["warmup"] * exists.sum())
    steps, imputed, observed = slow_low_rank_ucb_e(
        scores[:, order], exists, plan, policy.tie_order.tolist(), policy._draw_ensemble, batch=options["batch_size"],
        **{name: options[name] for name in ("bonus", "ridge", "iterations") if name in options},
    )  # fmt: skip
    got, by_model, by_mean = [], [], []
    while (pull := policy.ask()) is not None:
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        got.append((pull.arm, pull.examples))
        by_model.append(policy.recommend().arm)
        by_mean.append(policy.recommend("empirical").arm)
    assert got == [(arm, tuple(order[list(cells)].tolist())) for arm, cells in steps]
    assert by_model == imputed and by_mean == observed
    assert policy.status == "exhausted" and policy.stop_reason == "exhausted" and not policy.should_stop
    assert policy.cells()["free"] == 0


def test_the_warmup_is_random_cells_charged_and_exact() -> None:
    policy = lg.LowRankUCBE(20, 100, cost=np.arange(20.0), ensemble=4, random_state=1)
    scores = low_rank_scores(20, 100)
    assert policy.n_warmup == 100, "5 % of 2000"
    assert lg.LowRankUCBE(122, 1000).n_warmup == 6100 and lg.LowRankUCBE(3, 7).n_warmup == 2
    rows = np.zeros(20, dtype=int)
    while policy.warming_up:
        pull = policy.ask()
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        rows[pull.arm] += len(pull.examples)
        if policy.warming_up:
            assert policy.recommend().rule == "empirical" and np.isnan(policy.posterior()["index"]).any()
    assert rows.sum() == 100 and policy.spent == float(rows @ np.arange(20.0))
    assert policy.recommend().rule == "imputed" and policy.recommend("empirical").rule == "empirical"
    assert policy.recommend().std != policy.recommend().std
    plans = [lg.LowRankUCBE(20, 100, random_state=seed)._plan for seed in range(200)]
    counts = np.bincount(np.concatenate([plan.arms for plan in plans]), minlength=20)
    assert len(np.unique(plans[0].arms * 100 + plans[0].positions)) == 100
    # 20,000 cells over 20 arms: a standard deviation is about 31 cells; 5 of them.
    assert np.abs(counts - 1000).max() < 155


def test_the_warmup_waits_for_its_cells_and_counts_attached_ones() -> None:
    policy = lg.LowRankUCBE(4, 10, warmup=0.25, batch_size=4, ensemble=4)
    pulls = []
    while (pull := policy.ask()) is not None:
        pulls.append(pull)
    assert sum(len(p.examples) for p in pulls) == 10 and policy.status == "waiting"
    for p in pulls:
        policy.tell(p, np.ones(len(p.examples)))
    assert policy.status == "ready" and not policy.warming_up and len(policy.ask().examples) == 4
    again = lg.LowRankUCBE(4, 10, warmup=0.25, batch_size=4, ensemble=4)
    for j in range(10):
        again.attach(2, j, 1.0)
    assert not again.warming_up and again.ask().arm != 2


def test_failed_warmup_cells_are_asked_again_and_given_up() -> None:
    policy = lg.LowRankUCBE(3, 8, warmup=0.25, batch_size=8, max_retries=1, ensemble=4)
    while (pull := policy.ask()) is not None:
        policy.tell(pull, None, status="error")
    assert policy.cells()["missing"] == 24 and policy.status == "exhausted"
    assert policy.recommend().n_observed == 0 and math.isnan(policy.recommend().score)
    assert not policy.posterior()["complete"].any()


def test_pending_cells_count_without_a_bonus() -> None:
    scores = low_rank_scores(6, 30)
    policy = lg.LowRankUCBE(6, 30, batch_size=5, ensemble=16, warmup=0.3)
    while policy.warming_up:
        pull = policy.ask()
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
    before = policy.posterior()
    first = policy.ask()
    assert before["index"].idxmax() == first.arm
    after = policy.posterior()
    assert after["index"][first.arm] < before["index"][first.arm] and after["mean"].equals(before["mean"])
    others = [k for k in range(6) if k != first.arm]
    assert after["index"][others].equals(before["index"][others])
    second = policy.ask()
    assert not (second.arm == first.arm and set(second.examples) & set(first.examples))
    policy.release(first)
    policy.release(second)
    assert policy.posterior().equals(before)
    again = policy.ask()
    assert (again.arm, again.examples) == (first.arm, first.examples)


def test_looking_changes_nothing() -> None:
    scores = low_rank_scores(6, 40, seed=2)
    quiet, watched = (lg.LowRankUCBE(6, 40, batch_size=4, ensemble=8, random_state=3) for _ in range(2))
    pulls = finish(quiet, scores, 40)
    seen = []
    for _ in range(40):
        for read in (watched.recommend, watched.posterior, watched.to_state, watched.cells, lambda: watched.status):
            read()
        pull = watched.ask()
        watched.tell(pull, scores[pull.arm, list(pull.examples)])
        seen.append(pull)
    assert seen == pulls


def test_the_order_of_tells_leaves_no_trace() -> None:
    scores = low_rank_scores(5, 40, seed=2)
    runs = []
    for back in (False, True):
        policy = lg.LowRankUCBE(5, 40, batch_size=4, ensemble=8)
        finish(policy, scores, 12)
        pulls = [policy.ask() for _ in range(4)]
        for pull in reversed(pulls) if back else pulls:
            policy.tell(pull, scores[pull.arm, list(pull.examples)])
        runs.append(finish(policy, scores, 10))
    assert runs[0] == runs[1]


@pytest.mark.parametrize("n_steps", [2, 9])
def test_resume_is_exact(n_steps: int, tmp_path: Path) -> None:
    scores = low_rank_scores(5, 40, seed=2)
    missing = np.random.default_rng(1).random((5, 40)) < 0.1
    policy = lg.LowRankUCBE(
        5, 40, missing=missing, batch_size=6, ensemble=8, drop=0.1, ridge=0.2, iterations=4, bonus=2.0, recommend="empirical", warmup=0.1,
        random_state=np.random.Generator(np.random.MT19937(3)),
    )  # fmt: skip
    finish(policy, scores, n_steps)
    pending = policy.ask()
    policy.save(tmp_path / "s.json")
    resumed = lg.LowRankUCBE.load(tmp_path / "s.json")
    copied = copy.deepcopy(policy)
    assert resumed.pending == (pending,) and resumed.warming_up == policy.warming_up == (n_steps == 2)
    assert resumed.to_state() == policy.to_state() == copied.to_state()
    runs = []
    for one in (policy, resumed, copied):
        one.tell(pending.token, scores[pending.arm, list(pending.examples)])
        runs.append([*finish(one, scores), one.recommend().arm, one.recommend().rule, one.spent])
    assert runs[0] == runs[1] == runs[2] and runs[0][-2] == "empirical"
    assert policy.posterior().equals(resumed.posterior())


def test_saved_states_that_do_not_fit() -> None:
    from lrgittins.policies.state import _digest

    policy = lg.LowRankUCBE(3, 8, ensemble=4)
    for change in ({"entropy": -1}, {"entropy": 0.5}, {}):
        saved = json.loads(json.dumps(policy.to_state()))
        saved["own"] = change
        saved["digest"] = _digest(saved)
        with pytest.raises(lg.StateError, match="own"):
            lg.LowRankUCBE.from_state(saved)


@pytest.mark.parametrize("seed", range(2))
def test_replay_and_compare_by_name(seed: int) -> None:
    responses = lg.ResponseMatrix.from_array(low_rank_scores(12, 200, seed=seed), cost=np.linspace(0.5, 2.0, 12))
    trace = lg.replay(responses, "ucb-e-lrf", budget=0.3, random_state=seed)
    assert trace.n.max() == 32 and trace.spent >= 0.3 * responses.total_cost and trace.stop_reason == "budget"
    policy = lg.LowRankUCBE(**responses.policy_arguments(), random_state=seed)
    same = lg.replay(responses, policy, budget=0.3)
    assert trace.to_frame().equals(same.to_frame()) and policy.stop_reason == "budget"
    both = lg.compare(responses, ["ucb-e", "ucb-e-lrf"], budget=0.3, n_runs=2, progress=False)
    assert set(both.to_frame()["policy"]) == {"ucb-e", "ucb-e-lrf"}


@pytest.mark.statistical
def test_it_finds_the_best_arm_where_the_matrix_has_rank_one() -> None:
    """Noise-free rank-1 scores, arms 0.01 apart: after a fifth of the cells the fit knows the best of 12 arms in every run."""
    rng = np.random.default_rng(0)
    hits = 0
    for seed in range(5):
        scores = rng.permutation(np.linspace(0.5, 0.94, 12))[:, None] * rng.uniform(0.2, 1.0, 80)
        policy = lg.LowRankUCBE(12, 80, ensemble=16, batch_size=8, random_state=seed)
        while policy.spent < 192:
            finish(policy, scores, 1)
        hits += policy.recommend().arm == scores.mean(axis=1).argmax()
    assert hits == 5


BAD = [
    ({"warmup": 5}, "warmup"), ({"warmup": -0.1}, "warmup"), ({"warmup": None}, "warmup"), ({"ensemble": 1}, "ensemble"),
    ({"ensemble": 4.0}, "ensemble"), ({"drop": 1.0}, "drop"), ({"drop": -0.1}, "drop"), ({"ridge": 0.0}, "ridge"),
    ({"iterations": 0}, "iterations"), ({"bonus": -1.0}, "bonus"), ({"bonus": np.inf}, "bonus"), ({"recommend": "lcb"}, "recommend"),
    ({"example_order": "per-arm"}, "one order for all arms"), ({"batch_size": 0}, "batch_size"), ({"surprise": 1}, "surprise"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words"), BAD, ids=[str(options) for options, _ in BAD])
def test_bad_arguments_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(TypeError if "surprise" in options else lg.ParameterError, match=words):
        lg.LowRankUCBE(3, 8, **options)


def test_refused_tells_change_nothing() -> None:
    policy = lg.LowRankUCBE(3, 20, ensemble=4)
    finish(policy, low_rank_scores(3, 20), 2)
    pull = policy.ask()
    before = json.dumps(policy.to_state())
    for scores in ([2.0] * len(pull.examples), [np.nan] * len(pull.examples), [0.5], None, "x"):
        with pytest.raises(lg.ResponseError):
            policy.tell(pull, scores)
    with pytest.raises(lg.ResponseError, match="cost"):
        policy.tell(pull, np.ones(len(pull.examples)), cost=-1.0)
    assert json.dumps(policy.to_state()) == before
    policy.tell(pull, np.ones(len(pull.examples)))
    with pytest.raises(lg.StateError, match="told already"):
        policy.tell(pull, np.ones(len(pull.examples)))


def test_the_score_range_only_rescales() -> None:
    scores = low_rank_scores(4, 30, seed=5)
    unit, percent = lg.LowRankUCBE(4, 30, ensemble=4), lg.LowRankUCBE(4, 30, ensemble=4, score_range=(0, 100))
    one, other = finish(unit, scores, 12), finish(percent, 100 * scores, 12)
    assert [(p.arm, p.examples) for p in one] == [(p.arm, p.examples) for p in other]
    assert percent.recommend().mean == pytest.approx(100 * unit.recommend().mean, rel=1e-12)


@pytest.mark.parametrize("shape", [(1, 1), (1, 5), (4, 1)])
def test_the_smallest_matrices_end(shape: tuple[int, int]) -> None:
    policy = lg.LowRankUCBE(*shape, ensemble=2)
    scores = np.full(shape, 0.5)
    assert policy.recommend().n_observed == 0
    finish(policy, scores)
    assert policy.cells()["told"] == shape[0] * shape[1] and policy.recommend().mean == 0.5
