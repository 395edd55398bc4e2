"""PromptEval: the logistic fit, the phases, the draws, resume, and scores that are not binary."""

from __future__ import annotations

import copy
import json
import math
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lrgittins as lg
from lrgittins._kernels.cells import ABSENT, PENDING, SEEN, UNSEEN, draw_even_cells
from lrgittins.policies.prompteval import halving_phases
from lrgittins.policies.rasch import fit_rasch
from tests.reference.matrix_policies import fit_rasch_dense, slow_prompteval


def rasch_scores(n_arms: int, n_examples: int, seed: int = 0, spread: float = 1.0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    eta = rng.normal(0, spread, (n_arms, 1)) + rng.normal(0, 1, n_examples)
    return (rng.random((n_arms, n_examples)) < 1 / (1 + np.exp(-eta))).astype(float)


def finish(policy: Any, scores: np.ndarray, count: int = 10**6) -> list[lg.Pull]:
    pulls: list[lg.Pull] = []
    while len(pulls) < count and (pull := policy.ask()) is not None:
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        pulls.append(pull)
    return pulls


# -- the fit ----------------------------------------------------------------------------------------------------------

SHAPES = [(4, 9, 0.6), (9, 4, 0.6), (6, 6, 1.0), (3, 40, 0.2), (25, 7, 0.15)]


@pytest.mark.oracle
@pytest.mark.parametrize(("n_arms", "n_examples", "share"), SHAPES)
@pytest.mark.parametrize("anchor", [0, -1])
def test_the_fit_equals_dense_newton_and_meets_its_optimality_condition(n_arms: int, n_examples: int, share: float, anchor: int) -> None:
    rng = np.random.default_rng(n_arms)
    scores = rasch_scores(n_arms, n_examples, seed=1)
    kind = np.where(rng.random(scores.shape) < share, SEEN, UNSEEN).astype(np.uint8)
    kind[1] = UNSEEN
    anchor %= n_examples
    fit = fit_rasch(kind, scores, anchor=anchor)
    assert fit.gradient <= 1e-8 and fit.arm_effect[1] == 0.0 and fit.example_effect[anchor] == 0.0
    seen = {(int(i), int(j)): float(scores[i, j]) for i, j in np.argwhere(kind == SEEN)}
    # Both solvers leave a gradient of at most 1e-8 where every curvature is at least 1.
    assert np.allclose(fit.probabilities(), fit_rasch_dense(seen, scores.shape, anchor, 100.0), rtol=0, atol=1e-7)
    gap = 100.0 * (fit.probabilities() - scores) * (kind == SEEN)
    by_example = gap.sum(axis=0) + fit.example_effect
    by_example[anchor] = 0.0
    assert np.abs(gap.sum(axis=1) + fit.arm_effect).max() < 1e-7 and np.abs(by_example).max() < 1e-7


@pytest.mark.oracle
@pytest.mark.parametrize(("n_arms", "n_examples", "share"), [(8, 60, 0.3), (40, 12, 0.3)])
def test_the_fit_equals_scikit_learn(n_arms: int, n_examples: int, share: float) -> None:
    linear_model = pytest.importorskip("sklearn.linear_model")
    rng = np.random.default_rng(0)
    scores = rasch_scores(n_arms, n_examples, seed=3)
    kind = np.where(rng.random(scores.shape) < share, SEEN, UNSEEN).astype(np.uint8)
    cells = np.argwhere(kind == SEEN)
    design = np.zeros((len(cells), n_arms + n_examples))
    design[np.arange(len(cells)), cells[:, 0]] = 1.0
    design[np.arange(len(cells)), n_arms + cells[:, 1]] = 1.0
    peer = linear_model.LogisticRegression(C=100.0, fit_intercept=False, solver="newton-cholesky", tol=1e-11, max_iter=1000)
    peer.fit(design[:, :-1], scores[kind == SEEN])
    fit = fit_rasch(kind, scores, anchor=n_examples - 1)
    assert np.allclose(fit.arm_effect, peer.coef_[0, :n_arms], rtol=0, atol=1e-7)
    assert np.allclose(fit.example_effect[:-1], peer.coef_[0, n_arms:], rtol=0, atol=1e-7)


@pytest.mark.parametrize("outcome", [0.0, 1.0])
def test_one_outcome_alone_and_no_data_have_a_fit(outcome: float) -> None:
    kind = np.full((5, 8), SEEN, dtype=np.uint8)
    fit = fit_rasch(kind, np.full((5, 8), outcome), anchor=7)
    assert fit.gradient <= 1e-8 and fit.n_iterations < 40 and np.abs(fit.probabilities() - outcome).max() < 0.02
    empty = fit_rasch(np.zeros((5, 8), dtype=np.uint8), np.zeros((5, 8)), anchor=7)
    assert (empty.probabilities() == 0.5).all() and empty.n_iterations == 0


@pytest.mark.property
def test_separable_data_converge_from_any_penalty() -> None:
    scores = np.repeat([[0.0], [1.0]], 3, axis=0) * np.ones(10)
    scores[:, ::2] = 1.0
    for penalty in (1e-3, 1.0, 100.0, 1e6):
        fit = fit_rasch(np.full((2, 10), SEEN, dtype=np.uint8), scores[[0, 3]], anchor=9, penalty=penalty)
        assert fit.gradient <= 1e-8, penalty


# -- phases and draws -------------------------------------------------------------------------------------------------


@pytest.mark.golden
def test_phases() -> None:
    assert halving_phases(1, 10) == [] and halving_phases(2, 7) == [7] and halving_phases(3, 7) == [4, 3]
    assert halving_phases(8, 20) == [8, 6, 6] and halving_phases(122, 12200) == [1748, *[1742] * 6]
    assert halving_phases(9, 2) == [2, 0, 0, 0]


@pytest.mark.property
@pytest.mark.parametrize("n_arms", [2, 3, 4, 5, 8, 9, 122, 128, 129])
def test_phase_identities(n_arms: int) -> None:
    for budget in (1, 7, 100, 12345):
        phases = halving_phases(n_arms, budget)
        assert len(phases) == math.ceil(math.log2(n_arms)) and sum(phases) == budget
        assert set(phases[1:]) <= {budget // len(phases)} and phases[0] == budget // len(phases) + budget % len(phases)


def test_draws_are_even_and_end_when_nothing_is_left() -> None:
    rng = np.random.default_rng(0)
    kind = np.zeros((5, 12), dtype=np.uint8)
    kind[1, :4], kind[4, 3:] = ABSENT, SEEN
    active = np.array([1, 1, 0, 1, 1], dtype=np.uint8)
    out = np.empty((60, 2), dtype=np.int64)
    n = draw_even_cells(kind, active, rng.random((60, 2)), out)
    assert n == 12 + 8 + 12 + 3, "every unseen cell of an active arm"
    cells = [tuple(cell) for cell in out[:n].tolist()]
    assert len(set(cells)) == n and all(kind[cell] == UNSEEN and active[cell[0]] for cell in cells)
    held = (kind == SEEN).sum(axis=1)
    for row, _ in cells:
        able = [k for k in (0, 1, 3, 4) if (kind[k] == UNSEEN).sum() > held[k] - (kind[k] == SEEN).sum()]
        assert held[row] == held[able].min()
        held[row] += 1
    assert kind[0].sum() == 0, "the matrix is left as it was"


@pytest.mark.statistical
def test_draws_are_uniform_among_equals() -> None:
    rng = np.random.default_rng(1)
    kind, active, out = np.zeros((3, 4), dtype=np.uint8), np.ones(3, dtype=np.uint8), np.empty((1, 2), dtype=np.int64)
    count = np.zeros((3, 4))
    for _ in range(2400):
        draw_even_cells(kind, active, rng.random((1, 2)), out)
        count[tuple(out[0])] += 1
    assert np.abs(count - 200).max() < 5 * math.sqrt(200 * 11 / 12), "5 standard deviations"


# -- the policy -------------------------------------------------------------------------------------------------------

CASES: dict[str, dict[str, Any]] = {
    "plain": {"budget": 40},
    "batches of one": {"budget": 30, "batch_size": 1},
    "remainder": {"budget": 41, "batch_size": 3, "penalty": 1.0},
    "missing": {"budget": 35, "missing": True},
    "more than there is": {"budget": 1000},
    "less than a phase": {"budget": 2},
    "power of two": {"budget": 37, "n_arms": 8},
    "two": {"budget": 9, "n_arms": 2},
    "more arms than examples": {"budget": 60, "n_arms": 17, "n_examples": 5},
}


@pytest.mark.oracle
@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
@pytest.mark.parametrize("seed", [0, 1])
def test_every_step_equals_the_slow_reference(case: dict[str, Any], seed: int) -> None:
    options = {"batch_size": 4, **case}
    n_arms, n_examples = options.pop("n_arms", 6), options.pop("n_examples", 13)
    scores = rasch_scores(n_arms, n_examples, seed=seed)
    missing = np.random.default_rng(8).random(scores.shape) < 0.2 if options.pop("missing", False) else None
    policy = lg.PromptEvalBAI(n_arms, n_examples, missing=missing, random_state=seed, **options)
    rng = np.random.default_rng(seed)
    order, ties = rng.permutation(n_examples), rng.permutation(n_arms)
    assert (policy.ledger.order == order).all() and (policy.tie_order == ties).all()
    exists = np.ones(scores.shape, dtype=bool) if missing is None else ~missing[:, order]
    anchor = int(np.flatnonzero(order == n_examples - 1)[0])
    steps, survivors, estimates = slow_prompteval(
        scores[:, order], exists, policy.phases, ties.tolist(), rng, anchor, batch=options["batch_size"], penalty=policy.penalty
    )
    if missing is not None:
        scores = np.where(missing, np.nan, scores)
    pulls = finish(policy, scores)
    assert [(p.arm, p.examples) for p in pulls] == [(arm, tuple(order[list(cells)].tolist())) for arm, cells in steps]
    alive = [k for k in range(n_arms) if np.isinf(policy._dropped_after[k])]
    assert alive == survivors[-1] and len(alive) == 1
    for phase, kept in enumerate(survivors, start=1):
        assert kept == [k for k in range(n_arms) if policy._dropped_after[k] > phase]
    best = policy.recommend()
    assert best.arm == alive[0] and best.score == pytest.approx(estimates[-1][alive[0]], abs=1e-7)
    assert policy.spent <= options["budget"] and policy.stop_reason == "exhausted" and not policy.should_stop
    assert (policy.posterior()["note"] != "").sum() == n_arms - 1


def test_a_phase_waits_for_its_cells_and_changes_the_recommendation_only_at_its_end() -> None:
    policy = lg.PromptEvalBAI(8, 30, budget=60, batch_size=3)
    scores = rasch_scores(8, 30)
    pulls = []
    while (pull := policy.ask()) is not None:
        pulls.append(pull)
    assert policy.status == "waiting" and sum(len(p.examples) for p in pulls) == 20
    per_arm = np.bincount([p.arm for p in pulls for _ in p.examples], minlength=8)
    assert per_arm.max() - per_arm.min() <= 1
    uses = np.bincount([e for p in pulls for e in p.examples], minlength=30)
    assert uses.max() == 1, "20 cells on 30 examples"
    for p in pulls:
        assert policy.posterior()["index"].isna().all()
        policy.tell(p, scores[p.arm, list(p.examples)])
    assert np.isneginf(policy.posterior()["index"]).sum() == 4
    recommended = {policy.recommend().arm}
    while policy._phase == 1:
        recommended.add(policy.recommend().arm)
        finish(policy, scores, 1)
    assert len(recommended) == 1


def test_before_any_fit_the_best_observed_mean_is_recommended() -> None:
    policy = lg.PromptEvalBAI(4, 10, budget=20, batch_size=5)
    assert policy.recommend().n_observed == 0 and policy.recommend().arm == policy.tie_order[0]
    first = policy.ask()
    policy.tell(first, np.ones(len(first.examples)))
    assert policy.recommend().arm == first.arm and policy.recommend().score == 1.0


def test_a_single_survivor_gets_the_cells_of_the_remaining_phases() -> None:
    scores = rasch_scores(5, 40)
    policy = lg.PromptEvalBAI(5, 40, budget=30)
    pulls = finish(policy, scores)
    assert policy.spent == 30, "three phases of ten; two of five survive the first, one the second"
    assert {p.arm for p in pulls[-2:]} == {policy.recommend().arm}
    alone = lg.PromptEvalBAI(1, 5, budget=3)
    assert alone.ask() is None and alone.status == "exhausted" and alone.recommend().arm == 0


def test_identical_arms_end_by_the_tie_order() -> None:
    policy = lg.PromptEvalBAI(7, 12, budget=84, random_state=3)
    finish(policy, np.ones((7, 12)))
    assert policy.recommend().arm == policy.tie_order[0]


def test_batch_size_and_prices_change_no_decision() -> None:
    scores = rasch_scores(9, 50, seed=4)
    runs = [lg.PromptEvalBAI(9, 50, budget=120, batch_size=size, cost=cost) for size, cost in ((1, 1.0), (8, 1.0), (50, np.arange(9.0)))]
    cells = []
    for policy in runs:
        pulls = finish(policy, scores)
        cells.append(sorted((p.arm, e) for p in pulls for e in p.examples))
        assert policy.spent == sum(len(p.examples) * float(policy.cost[p.arm]) for p in pulls)
    assert cells[0] == cells[1] == cells[2] and len({policy.recommend().arm for policy in runs}) == 1


def test_attached_and_failed_cells() -> None:
    scores = rasch_scores(4, 20)
    policy = lg.PromptEvalBAI(4, 20, budget=40, batch_size=4, max_retries=1)
    first = [(int(k), int(policy.ledger.order[j])) for k, j in zip(policy._plan.arms, policy._plan.positions, strict=True)]
    for arm, example in first[:5]:
        policy.attach(arm, example, scores[arm, example])
    asked: list[tuple[int, int]] = []
    fails = 0
    while (pull := policy.ask()) is not None:
        if pull.arm == first[7][0] and first[7][1] in pull.examples:
            values = scores[pull.arm, list(pull.examples)].copy()
            values[list(pull.examples).index(first[7][1])] = np.nan
            policy.tell(pull, values, status="error")
            fails += 1
        else:
            policy.tell(pull, scores[pull.arm, list(pull.examples)])
        asked += [(pull.arm, e) for e in pull.examples]
    assert not set(asked) & set(first[:5]) and fails == 2, "asked again once, then missing"
    assert policy.cells()["missing"] == 1 and policy.cells()["attached"] == 5 and policy.stop_reason == "exhausted"
    released = lg.PromptEvalBAI(4, 20, budget=40, batch_size=4)
    pull = released.ask()
    released.release(pull)
    again = released.ask()
    assert (again.arm, again.examples) == (pull.arm, pull.examples)


@pytest.mark.parametrize("n_steps", [0, 3, 11])
def test_resume_is_exact(n_steps: int, tmp_path: Path) -> None:
    scores = rasch_scores(9, 40, seed=6)
    missing = np.random.default_rng(1).random(scores.shape) < 0.1
    policy = lg.PromptEvalBAI(
        9, 40, budget=150, batch_size=5, missing=missing, penalty=10.0, random_state=np.random.Generator(np.random.Philox(3))
    )
    finish(policy, scores, n_steps)
    pending = policy.ask()
    policy.save(tmp_path / "s.json")
    resumed, copied = lg.PromptEvalBAI.load(tmp_path / "s.json"), copy.deepcopy(policy)
    assert resumed.pending == (pending,)
    assert resumed.to_state() == policy.to_state() == copied.to_state()
    runs = []
    for one in (policy, resumed, copied):
        one.tell(pending.token, scores[pending.arm, list(pending.examples)])
        runs.append([*finish(one, scores), one.recommend().arm, one.recommend().score, one.spent])
    assert runs[0] == runs[1] == runs[2]
    assert policy.posterior().equals(resumed.posterior()) and resumed.to_state() == policy.to_state()


OWN = [
    ({"phase": 9}, "phase"), ({"dropped_after": [None]}, "one entry"), ({"estimate": [0.5]}, "one entry"),
    ({"dropped_after": [1, 1, 1, 1]}, "survivor"), ({"plan": {"arms": 3, "positions": 3}}, "plan"),
]  # fmt: skip


@pytest.mark.parametrize(("change", "words"), OWN, ids=[str(change) for change, _ in OWN])
def test_saved_states_that_do_not_fit(change: dict[str, Any], words: str) -> None:
    from lrgittins.policies.state import _digest, pack

    policy = lg.PromptEvalBAI(4, 8, budget=16)
    finish(policy, rasch_scores(4, 8), 1)

    def forge(own: dict[str, Any]) -> dict[str, Any]:
        saved = json.loads(json.dumps(policy.to_state()))
        saved["own"].update(own)
        saved["digest"] = _digest(saved)
        return saved

    with pytest.raises(lg.StateError, match=words):
        lg.PromptEvalBAI.from_state(forge(change))
    for arms, positions in (([0, 0], [1, 1]), ([7], [0]), ([0], [99]), ([0, 1], [0])):
        plan = {"arms": pack(np.array(arms)), "positions": pack(np.array(positions))}
        with pytest.raises(lg.StateError, match="plan"):
            lg.PromptEvalBAI.from_state(forge({"plan": plan}))


# -- binary scores ----------------------------------------------------------------------------------------------------


def test_a_score_that_is_not_binary_is_refused_and_changes_nothing() -> None:
    policy = lg.PromptEvalBAI(4, 20, budget=40, batch_size=3)
    scores = rasch_scores(4, 20)
    finish(policy, scores, 3)
    pull = policy.ask()
    n = len(pull.examples)
    before = json.dumps(policy.to_state())
    bad = np.ones(n)
    bad[-1] = 0.5
    with pytest.raises(lg.ResponseError, match=f"not binary.*0.5 at position {n - 1}.*0 or 1"):
        policy.tell(pull, bad)
    bad[0] = np.nan
    with pytest.raises(lg.ResponseError, match="not binary"):
        policy.tell(pull, bad, status="error")
    free = next((k, j) for k in range(4) for j in range(20) if policy._kind[k, j] == UNSEEN)
    with pytest.raises(lg.ResponseError, match="not binary"):
        policy.attach(free[0], int(policy.ledger.order[free[1]]), 0.25)
    with pytest.raises(lg.ResponseError, match="percent"):
        policy.tell(pull, np.full(n, 100.0))
    assert json.dumps(policy.to_state()) == before
    policy.tell(pull, np.ones(n, dtype=bool))
    percent = lg.PromptEvalBAI(4, 20, budget=40, score_range=(0, 100))
    pull = percent.ask()
    with pytest.raises(lg.ResponseError, match="got 1 at position 0, expected 0 or 100"):
        percent.tell(pull, np.ones(len(pull.examples)))
    percent.tell(pull, np.full(len(pull.examples), 100.0))


def test_replay_and_compare_refuse_other_matrices_before_anything_runs() -> None:
    scores = rasch_scores(4, 20)
    good = lg.ResponseMatrix.from_array(scores)
    scores = scores.copy()
    scores[2, 5] = 0.75
    bad = lg.ResponseMatrix.from_array(scores, arms=list("abcd"))
    for policy in ("prompteval", partial(lg.PromptEvalBAI, budget=20)):
        with pytest.raises(lg.ResponseError, match="1 of 80 scores are neither 0 nor 1: the first is 0.75, arm 'c', example 5"):
            lg.replay(bad, policy, budget=0.5)

    def never(**_: Any) -> Any:
        raise AssertionError("no policy may be built")

    with pytest.raises(lg.ResponseError, match="matrix 'second'.*binary"):
        lg.compare({"first": good, "second": bad}, {"mine": never, "p": "prompteval"}, n_runs=1, progress=False)
    assert lg.replay(good, "prompteval", budget=0.5).spent == 40
    missing = rasch_scores(4, 20)
    missing[0, :3] = np.nan
    assert lg.replay(lg.ResponseMatrix.from_array(missing), "prompteval", budget=0.5).spent == 38


def test_compare_by_name() -> None:
    responses = lg.ResponseMatrix.from_array(rasch_scores(6, 60, seed=1), cost=np.linspace(1.0, 2.0, 6))
    frame = lg.compare(responses, ["prompteval", "sysrs"], budget=0.4, n_runs=2, progress=False).to_frame()
    assert set(frame["policy"]) == {"prompteval", "sysrs"}
    trace = lg.replay(responses, "prompteval", budget=0.4, random_state=5)
    policy = lg.PromptEvalBAI(**responses.policy_arguments(), budget=144, random_state=5)
    assert trace.to_frame().equals(lg.replay(responses, policy, budget=0.4).to_frame())


@pytest.mark.statistical
def test_it_finds_a_clearly_best_arm() -> None:
    """Twelve arms, the best 2.5 logits above the rest, 40 cells an arm on average: found in at least 9 of 10 runs."""
    hits = 0
    for seed in range(10):
        rng = np.random.default_rng(seed)
        best = int(rng.integers(12))
        eta = np.where(np.arange(12)[:, None] == best, 2.5, 0.0) + rng.normal(0, 1, 100)
        scores = (rng.random((12, 100)) < 1 / (1 + np.exp(-eta))).astype(float)
        policy = lg.PromptEvalBAI(12, 100, budget=480, random_state=seed)
        finish(policy, scores)
        hits += policy.recommend().arm == best
    assert hits >= 9


BAD = [
    ({}, "budget"), ({"budget": 0}, "budget"), ({"budget": 0.1}, "budget"), ({"budget": 5, "penalty": 0}, "penalty"),
    ({"budget": 5, "example_order": "per-arm"}, "one order for all arms"), ({"budget": 5, "batch_size": 0}, "batch_size"),
]  # fmt: skip


@pytest.mark.parametrize(("options", "words"), BAD, ids=[str(options) for options, _ in BAD])
def test_bad_arguments_are_named(options: dict[str, Any], words: str) -> None:
    with pytest.raises(lg.ParameterError if options else TypeError, match=words):
        lg.PromptEvalBAI(3, 8, **options)


def test_pending_is_not_seen() -> None:
    policy = lg.PromptEvalBAI(3, 6, budget=12, batch_size=2)
    pull = policy.ask()
    assert (policy._kind[pull.arm] == PENDING).sum() == len(pull.examples)
    with pytest.raises(lg.StateError, match="pending"):
        policy.attach(pull.arm, pull.examples[0], 1.0)


def test_real_matrices(shared: Path) -> None:
    """Two with graded scores are refused; the binary one runs, and halving finds an arm within 15 points of the best."""
    for name in ("alpaca_eval2_matrix", "lcb_execution_matrix"):
        with pytest.raises(lg.ResponseError, match="neither 0 nor 1"):
            lg.compare(lg.ResponseMatrix.read(shared / "data" / f"{name}.parquet", arm="model"), "prompteval", n_runs=1, progress=False)
    with np.load(shared / "data" / "aslib_sat18_exp.npz", allow_pickle=False) as file:
        responses = lg.ResponseMatrix.from_array(file["score"].astype(float), arms=file["arms"].tolist())
    frame = lg.compare(responses, ["prompteval", "ucb-e-lrf"], budget=0.1, n_runs=2, progress=False).at([0.1])
    assert len(frame) == 2 and (frame["regret"] < 0.15).all()
