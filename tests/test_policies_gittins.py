"""The Gittins policy: golden trajectories, one-item indices, pending stages, stop signal, options."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest

import lrgittins as lg
from tests.reference.chains import slow_roots, slow_sizes
from tests.reference.policies import slow_gittins


def bernoulli(n_arms: int, n_examples: int, seed: int = 0) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return (rng.random((n_arms, n_examples)) < rng.uniform(0.2, 0.8, (n_arms, 1))).astype(float)


def run(policy: lg.GittinsPolicy, scores: np.ndarray, steps: int = 10**6) -> list[tuple[object, tuple]]:
    out = []
    while len(out) < steps and (pull := policy.ask()) is not None:
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        out.append((pull.arm, pull.examples))
    return out


@pytest.mark.golden
@pytest.mark.parametrize("setting", ["unit_B3_empirical", "armspecific_B4_latent"])
def test_golden_trajectory_step_by_step(shared: Path, setting: str) -> None:
    golden = json.loads((shared / "golden/gittins/trajectory_4x12.json").read_text())
    scores, wanted = np.array(golden["Z"]), golden["trajectories"][setting]
    p = wanted["params"]
    policy = lg.GittinsPolicy(
        4, 12, cost=p["cost"], prior_mean=p["mu0"], prior_variance=p["v0"], noise_variance=p["tau2"], batch_size=p["B"],
        cost_scale=p["lam"], cost_unit="raw", target=p["target"], batch_schedule="constant", example_order=golden["order"],
        tie_break="order",
    )  # fmt: skip
    start = policy.posterior()
    np.testing.assert_allclose(start["index"], wanted["init"]["G"], atol=1e-6)  # the default tolerance of a root
    np.testing.assert_allclose(start["mean"], wanted["init"]["M"], atol=1e-14)
    np.testing.assert_allclose(start["std"] ** 2, wanted["init"]["V"], atol=1e-14)
    assert policy.recommend().arm == wanted["init"]["rec_lcb"] and policy.recommend().n_observed == 0
    for step in wanted["steps"]:
        pull = policy.ask()
        assert pull is not None and (pull.arm, list(pull.examples)) == (step["arm"], step["examples"])
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        after = policy.posterior()
        np.testing.assert_allclose(after["index"], step["G"], atol=1e-6)
        np.testing.assert_allclose(after["mean"], step["M"], atol=1e-14)  # sums of a dozen numbers: a few ulps
        np.testing.assert_allclose(after["std"] ** 2, step["V"], atol=1e-14)
        assert policy.recommend("lcb").arm == step["rec_lcb"]
        assert policy.recommend("mean").arm == step["rec_mean"]
        assert policy.stop_signal == step["stop_signal"]
        assert policy.spent == step["spent"]
    assert policy.stopped_at == wanted["first_stop_after_step"]
    assert policy.ask() is None and policy.status == "exhausted" and policy.stop_reason == "stop-signal"


@pytest.mark.oracle
@pytest.mark.parametrize("schedule", ["constant", "ramp", [5, 1, 6, 2]])
def test_whole_run_equals_the_slow_reference(schedule: object) -> None:
    scores = bernoulli(5, 14, seed=3)
    policy = lg.GittinsPolicy(5, 14, batch_size=4, cost_scale=2e-3, cost=[1, 2, 1, 0.5, 3], batch_schedule=schedule, random_state=7)
    prices = np.array([1, 2, 1, 0.5, 3]) / 1.5
    sizes = slow_sizes(schedule, 4, 14)
    roots = [slow_roots(2e-3 * p, n_examples=14, sizes=sizes, prior_variance=0.04, noise_variance=0.25) for p in prices]
    order = [policy.ledger.order.tolist()] * 5
    steps, recommended, stopped = slow_gittins(scores, order, policy.tie_order.tolist(), sizes, roots, (0.5, 0.04), 0.25)
    got, got_recommended = [], []
    while (pull := policy.ask()) is not None:
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        got.append((pull.arm, pull.examples))
        got_recommended.append(policy.recommend().arm)
    assert got == steps and got_recommended == recommended and policy.stopped_at == stopped


def one_item(cost: float, mean: float = 0.0, variance: float = 1.0, noise: float = 1.0, n: int = 1, batch: int = 1) -> float:
    policy = lg.GittinsPolicy(
        1, n, cost=cost, cost_unit="raw", cost_scale=1.0, target="latent", prior_mean=mean, prior_variance=variance, noise_variance=noise,
        batch_size=batch, batch_schedule="constant",
    )  # fmt: skip
    return float(policy.posterior()["index"][0])


# A23, and the last line of A22. The values are printed to six decimals, hence half a unit of the last one (and 1e-6 of the roots).
@pytest.mark.golden
@pytest.mark.parametrize(
    ("cost", "index"),
    [(0.05, 0.767050), (0.20, 0.182974), (0.2820948, 0.0), (0.30, -0.035115), (10.0, -10.0), (0.0589129, 0.707107), (1e-12, 4.743086)],
)
def test_one_item_left(cost: float, index: float) -> None:
    assert one_item(cost) == pytest.approx(index, abs=1.6e-6)


@pytest.mark.property
def test_one_item_index_moves_the_right_way() -> None:
    assert one_item(0.001, 0.5, 0.01, 0.25) == pytest.approx(0.524440, abs=1.6e-6)
    assert one_item(0.2, mean=0.3) == pytest.approx(one_item(0.2) + 0.3, abs=2e-6)
    costs = [one_item(c) for c in (0.05, 0.1, 0.2, 0.4)]
    assert costs == sorted(costs, reverse=True)
    variances = [one_item(0.2, variance=v) for v in (0.25, 0.5, 1.0, 2.0)]
    assert variances == sorted(variances)
    # Perfect information at the price of the first item bounds the index of a longer chain from above (A23: 0.492887 at c = 0.2),
    # and the same cells paid for in one batch, without the option to stop between them, bound it from below.
    assert one_item(0.2, n=4) <= 0.492887 + 2e-6
    assert one_item(0.05, n=4, batch=4) <= one_item(0.05, n=4, batch=2) + 2e-6 <= one_item(0.05, n=4) + 4e-6


def test_pending_pulls_count_as_returned_at_their_mean() -> None:
    policy = lg.GittinsPolicy(1, 8, batch_size=2, batch_schedule="constant", cost_scale=1e-2)
    roots = policy.root_table.roots_of(0)
    pulls = [policy.ask() for _ in range(4)]
    assert [len(p.examples) for p in pulls] == [2, 2, 2, 2] and policy.ask() is None and policy.status == "waiting"
    assert policy.posterior()["index"][0] == 0.5 - roots[0]  # observed scores only
    assert not policy.stop_signal and not policy.posterior()["complete"][0]
    policy.release(pulls[3])
    assert policy._ask_by_place[0] == 0.5 - roots[3]  # same M, three stages later
    policy.tell(pulls[1], [1, 0])  # out of order: one boundary reached, whichever batch came back
    assert policy.posterior()["index"][0] == pytest.approx(0.5 - roots[1], abs=1e-15)


def test_tell_order_never_changes_a_bit() -> None:
    rng = np.random.default_rng(1)
    scores = rng.random(40)
    totals = set()
    for seed in range(6):
        policy = lg.GittinsPolicy(1, 40, batch_size=3, batch_schedule="constant", random_state=0)
        pulls = []
        while (pull := policy.ask()) is not None:
            pulls.append(pull)
        for i in np.random.default_rng(seed).permutation(len(pulls)):
            policy.tell(pulls[i], scores[list(pulls[i].examples)])
        totals.add(float(policy.ledger.total[0]))
    order = policy.ledger.order
    expected = 0.0
    for j in order:
        expected += scores[j]
    assert totals == {expected}


@pytest.mark.oracle
def test_off_schedule_batches_reach_the_next_boundary_with_the_right_root() -> None:
    settings = {"batch_size": 4, "batch_schedule": "constant", "cost_scale": 5e-3, "cost_unit": "raw"}
    for target in ("empirical", "latent"):
        policy = lg.GittinsPolicy(2, 12, target=target, **settings)
        first = int(policy.ledger.order[0])
        policy.attach(1, first, 0.5)
        # From one seen example on: a fresh chain of batches 3, 4, 4 with the posterior variance; the empirical target scales by 11/12.
        v = 0.04 / (1 + 0.04 / 0.25)
        a = 11 / 12 if target == "empirical" else 1.0
        chain = {"n_examples": 11, "sizes": [3, 4, 4], "prior_variance": v, "noise_variance": 0.25, "target": target}
        root = a * slow_roots(5e-3 / a, **chain)[0]
        assert policy.posterior()["index"][1] == pytest.approx(0.5 - root, abs=2e-6)
        sizes = [len(p.examples) for p in iter(policy.ask, None) if p.arm == 1]
        assert sizes == [3, 4, 4]


@pytest.mark.oracle
def test_a_lost_cell_shortens_the_chain() -> None:
    policy = lg.GittinsPolicy(1, 12, batch_size=4, batch_schedule="constant", cost_scale=5e-3, max_retries=0)
    policy.tell(policy.ask(), [1, np.nan, 0, 1], status="error")
    # Eleven cells in batches of 4, 4, 3; three are seen, so the next batch of one reaches the boundary at 4.
    v = 0.04 / (1 + 3 * 0.04 / 0.25)
    a = 8 / 11
    root = a * slow_roots(5e-3 / a, n_examples=8, sizes=[1, 4, 3], prior_variance=v, noise_variance=0.25)[0]
    mu = (0.5 * 0.25 + 0.04 * 2) / (0.25 + 0.12)
    assert policy.posterior()["index"][0] == pytest.approx((2 + 8 * mu) / 11 - root, abs=2e-6)
    assert [len(p.examples) for p in iter(policy.ask, None)] == [1, 4, 3]


def test_attached_completion_gives_the_stop_signal() -> None:
    policy = lg.GittinsPolicy(2, 3, cost=[1.0, 1e6], cost_unit="raw")
    for j in range(3):
        policy.attach(0, j, 1.0)
    assert policy.should_stop and policy.stopped_at == 0 and policy.stopped_spent == 0.0
    note = policy.posterior()["note"]
    assert note[0] == "" and "never worth sampling" in note[1]
    assert policy.recommend().arm == 0 and policy.recommend("completed").rule == "completed"


def test_a_tie_with_a_completed_arm_stops() -> None:
    def make() -> lg.GittinsPolicy:
        return lg.GittinsPolicy(2, [1, 8], cost_scale=0.05)

    index = float(make().posterior()["index"][1])
    assert 0.0 < index < 1.0
    for score, stops in ((index, True), (np.nextafter(index, 1.0), True), (np.nextafter(index, 0.0), False)):
        policy = make()
        policy.attach(0, 0, score)
        assert policy.should_stop is stops and policy.stop_signal is stops


def test_zero_costs_go_first_and_stop_only_when_complete() -> None:
    scores = bernoulli(3, 10)
    policy = lg.GittinsPolicy(3, 10, cost=[0.0, 1.0, 0.0], batch_size=4, random_state=5)
    free = [k for k in policy.tie_order.tolist() if k != 1]
    steps = run(policy, scores, 2 * len(policy.root_table.sizes_of(0)))
    first = len(policy.root_table.sizes_of(0))
    assert [arm for arm, _ in steps] == [free[0]] * first + [free[1]] * first
    assert all(sum(len(e) for a, e in steps if a == k) == 10 for k in free) and policy.spent == 0.0
    everything_free = lg.GittinsPolicy(3, 10, cost=0.0, batch_size=4)
    n = len(run(everything_free, scores))
    assert everything_free.stopped_at == n and everything_free.stop_reason == "stop-signal"


def test_identical_arms_terminate_and_tie_order_decides() -> None:
    policy = lg.GittinsPolicy(4, 6, batch_size=2, random_state=3)
    assert policy.ask().arm == policy.tie_order[0]
    run(policy, np.full((4, 6), 0.5))
    assert policy.status == "waiting"  # the pull above is still out
    seeds = {lg.GittinsPolicy(4, 6, random_state=s).ask().arm for s in range(20)}
    assert len(seeds) == 4, "a fixed arm would have the advantage"
    assert lg.GittinsPolicy(4, 6, tie_break="order", random_state=3).ask().arm == 0


def test_default_price_unit_and_raw_money() -> None:
    policy = lg.GittinsPolicy(2, 4, cost=[10.0, 30.0])
    np.testing.assert_allclose(policy.unit_cost, [0.5, 1.5])
    pull = policy.ask()
    assert pull.cost == len(pull.examples) * (10.0 if pull.arm == 0 else 30.0) == policy.reserved
    policy.tell(pull, np.zeros(len(pull.examples)), cost=12.5)
    assert policy.spent == 12.5 and policy.reserved == 0.0
    assert lg.GittinsPolicy(1, 4, cost=17.0).unit_cost[0] == 1.0
    np.testing.assert_array_equal(lg.GittinsPolicy(2, 4, cost=0.0).unit_cost, [0.0, 0.0])
    np.testing.assert_array_equal(lg.GittinsPolicy(2, 4, cost=[10.0, 30.0], cost_unit="raw").unit_cost, [10.0, 30.0])


def test_paper_reading() -> None:
    general = lg.GittinsPolicy.paper(3, 20, batch_size=4)
    assert (general.cost_unit, general.batch_schedule, general.roots, general.example_order) == ("raw", "constant", "paper", "per-arm")
    assert general.prior_mean[0] == 0.5 and general.prior_variance[0] == 0.04
    shared_prior = lg.GittinsPolicy.paper(3, 20, variant="S", prior=(0.2, 0.01))
    assert shared_prior.prior_mean[0] == 0.2 and shared_prior.prior_variance[0] == 0.01
    with pytest.raises(lg.ParameterError, match="variant='S'"):
        lg.GittinsPolicy.paper(3, 20, variant="S")
    with pytest.raises(lg.ParameterError, match="variant='G'"):
        lg.GittinsPolicy.paper(3, 20, prior=(0.2, 0.01))
    with pytest.raises(lg.ParameterError, match="fixes batch_schedule"):
        lg.GittinsPolicy.paper(3, 20, batch_schedule="ramp")


def test_score_range_rescales_scores_and_prior() -> None:
    scores = np.random.default_rng(0).random((3, 8))
    unit = lg.GittinsPolicy(3, 8, batch_size=2, prior=(0.4, 0.02), noise_variance=0.2, cost_scale=1e-3)
    percent = lg.GittinsPolicy(3, 8, batch_size=2, prior=(40.0, 200.0), noise_variance=2000.0, cost_scale=1e-3, score_range=(0, 100))
    assert run(unit, scores, 7) == run(percent, 100 * scores, 7)
    np.testing.assert_allclose(percent.posterior()["mean"], 100 * unit.posterior()["mean"])
    np.testing.assert_allclose(percent.posterior()["std"], 100 * unit.posterior()["std"])
    np.testing.assert_allclose(percent.posterior()["index"], 100 * unit.posterior()["index"])
    assert percent.recommend().mean == pytest.approx(100 * unit.recommend().mean)
    assert lg.GittinsPolicy(3, 8, score_range=(1, 10)).recommend().mean == 5.5, "the default prior is the middle of the range"


@pytest.mark.oracle
def test_empirical_bayes_learns_the_noise_only() -> None:
    scores = np.random.default_rng(2).choice([0.45, 0.55], size=(3, 40))
    policy = lg.GittinsPolicy(3, 40, prior="empirical-bayes", batch_size=4, batch_schedule="constant")
    cells, due = 0, 2
    seen: list[list[float]] = [[], [], []]
    while (pull := policy.ask()) is not None:
        values = scores[pull.arm, list(pull.examples)]
        policy.tell(pull, values)
        seen[pull.arm] += values.tolist()
        cells += len(values)
        if cells >= due:
            due = 2 * cells
            squares = sum(np.sum((np.array(s) - np.mean(s)) ** 2) for s in seen if s)
            expected = (30 / 4 + squares) / (30 + cells - sum(bool(s) for s in seen))
        assert policy.noise_variance[0] == pytest.approx(expected, rel=1e-12)
    assert policy.noise_variance[0] < 0.1 and policy.prior_variance[0] == 0.04 and policy.prior_mean[0] == 0.5


def test_anneal_goes_on_exploring_after_the_stop() -> None:
    scores = bernoulli(6, 30, seed=4)
    options = {"batch_size": 5, "cost_scale": 2e-2, "batch_schedule": "constant", "random_state": 2}
    plain, annealed = lg.GittinsPolicy(6, 30, **options), lg.GittinsPolicy(6, 30, anneal=True, **options)
    steps, annealed_steps = run(plain, scores), run(annealed, scores)
    assert plain.stopped_at == annealed.stopped_at
    assert steps[: plain.stopped_at] == annealed_steps[: plain.stopped_at], "nothing changes before the signal"
    assert 0 < annealed._halvings <= 20
    assert annealed_steps != steps and len(annealed_steps) == len(steps)
    assert annealed.root_table.cost_scale == 2e-2 * 0.5**annealed._halvings


def test_learnt_prices() -> None:
    scores = bernoulli(2, 16)
    policy = lg.GittinsPolicy(2, 16, cost=None, batch_size=2, batch_schedule="constant", cost_unit="raw")
    true = [3.0, 5.0]
    pull = policy.ask()
    assert pull.cost == 0.0
    with pytest.raises(lg.ResponseError, match="true cost"):
        policy.tell(pull, [1, 1])
    policy.tell(pull, [1, 1], cost=2 * true[pull.arm])
    assert policy.price_of(0) == policy.price_of(1) == true[pull.arm], "an arm not yet tried is planned at the mean"
    while (pull := policy.ask()) is not None:
        policy.tell(pull, scores[pull.arm, list(pull.examples)], cost=2 * true[pull.arm])
    assert [policy.price_of(0), policy.price_of(1)] == true and policy.spent == 16 * 8.0


def test_recommendation_rules() -> None:
    policy = lg.GittinsPolicy(3, 4, prior_mean=[0.4, 0.5, 0.6], recommendation="completed")
    assert policy.recommend().rule == "lcb" and policy.recommend().arm == 2 and policy.recommend().n_observed == 0
    for j in range(4):
        policy.attach(0, j, 0.2)
    chosen = policy.recommend()
    assert (chosen.arm, chosen.rule, chosen.std, chosen.mean, chosen.n_observed) == (0, "completed", 0.0, pytest.approx(0.2), 4)
    assert policy.recommend("mean").arm == 2
    with pytest.raises(lg.ParameterError, match="rule"):
        policy.recommend("best")


def test_latent_target_keeps_the_latent_posterior_when_complete() -> None:
    policy = lg.GittinsPolicy(1, 4, target="latent", batch_schedule="constant")
    policy.tell(policy.ask(), [1, 1, 1, 1])
    row = policy.posterior().iloc[0]
    assert row["mean"] == pytest.approx((0.5 * 0.25 + 0.04 * 4) / (0.25 + 0.16)) == row["index"]
    assert row["std"] ** 2 == pytest.approx(0.04 / (1 + 0.16 / 0.25)) and bool(row["complete"])


@pytest.mark.parametrize("variance", [0.0, 0.04])
def test_zero_prior_variance_and_huge_costs_stay_finite(variance: float) -> None:
    policy = lg.GittinsPolicy(2, 10, prior_variance=variance, cost=[1e-9, 1e9], cost_unit="raw", cost_scale=1.0)
    table = policy.posterior()
    assert np.isfinite(table[["mean", "std", "index"]].to_numpy()).all()
    assert table["index"][1] == pytest.approx(0.5 - 1e10) and "never worth sampling" in table["note"][1]
    assert not math.isnan(policy.recommend().score)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"prior": (0.5, 0.1), "prior_mean": 0.5}, "same thing twice"),
        ({"prior": "general", "prior_variance": 0.04}, "same thing twice"),
        ({"prior": "narrow"}, "prior"),
        ({"prior": (0.5,)}, "prior"),
        ({"prior": "empirical-bayes", "noise_variance": [0.1, 0.2]}, "scalar"),
        ({"prior_variance": [-1.0, 1.0]}, "arm 0"),
        ({"noise_variance": 0.0}, "above 0"),
        ({"prior_mean": [0.5]}, "one entry per arm"),
        ({"cost_scale": -1.0}, "cost_scale"),
        ({"cost_unit": "usd"}, "cost_unit"),
        ({"batch_schedule": [3, 3]}, "sums to 6"),
        ({"batch_schedule": "steep"}, "batch_schedule"),
        ({"batch_size": 0}, "batch_size"),
        ({"example_order": [0, 1, 2]}, "example_order"),
        ({"example_order": [0] * 8}, "permutation"),
        ({"example_order": "sorted"}, "example_order"),
        ({"roots": "exact"}, "roots"),
        ({"anneal": 1}, "anneal"),
        ({"score_range": (1, 0)}, "score_range"),
        ({"examples": ["a"] * 8}, "unique"),
        ({"examples": ["a", "b"]}, "8"),
        ({"missing": np.ones((2, 8), dtype=bool)}, "no cell at all"),
        ({"random_state": -1}, "random_state"),
        ({"on_error": "ignore"}, "on_error"),
    ],
)
def test_bad_options(options: dict, words: str) -> None:
    with pytest.raises(lg.ParameterError, match=words):
        lg.GittinsPolicy(2, 8, **options)
