"""The Bayesian-optimisation policies: what they refuse without the extra `bo`, and runs with the real model."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from typing import Any

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg
from lrgittins.policies import row_model
from lrgittins.policies.bayes_opt import log_improvement

KINDS = {"pbgi": lg.PandoraGittins, "logei": lg.LogEI, "logeipc": lg.LogEIPerCost}
N_ARMS, N_EXAMPLES = 12, 30
FEATURES = [("large" if k < 4 else "small", f"prompt {k % 3}") for k in range(N_ARMS)]


# -- without the extra --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", KINDS.values())
@pytest.mark.parametrize("absent", ["torch", "gpytorch", "botorch"])
def test_a_missing_extra_is_named_before_anything_is_spent(kind: Any, absent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for module in row_model.MODULES:
        monkeypatch.setitem(sys.modules, module, None if module == absent else math)  # `math` stands for any module that is there
    with pytest.raises(lg.MissingExtraError, match=rf"{kind.__name__} needs {absent}.*lrgittins\[bo\]"):
        kind(3, 5)
    with pytest.raises(lg.MissingExtraError, match=r"lrgittins\[bo\]"):
        lg.replay(lg.ResponseMatrix.from_array(np.zeros((3, 5))), "pbgi", budget=0.5)


# -- with the model -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def torch() -> Any:
    pytest.importorskip("botorch", reason="the extra 'bo' (torch, botorch) is not installed", exc_type=ImportError)
    return __import__("torch")


@pytest.fixture(scope="module")
def scores() -> np.ndarray:
    rng = np.random.default_rng(3)
    quality = np.array([0.35 + 0.3 * (size == "large") + 0.1 * int(prompt[-1]) for size, prompt in FEATURES])
    return (rng.random((N_ARMS, N_EXAMPLES)) < quality[:, None]).astype(np.float64)


UNEVEN = np.array([0.5, 3.0, 1.0, 0.2, 0.8, 1.0, 2.5, 0.3, 1.7, 0.6, 1.1, 0.9])


def told(policy: Any, scores: np.ndarray, n: int | None = None) -> list[Any]:
    """Up to `n` pulls asked and told; their arms."""
    arms = []
    while (n is None or len(arms) < n) and (pull := policy.ask()) is not None:
        policy.tell(pull, scores[pull.arm, list(pull.examples)])
        arms.append(pull.arm)
    return arms


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", KINDS)
@pytest.mark.parametrize("features", [None, FEATURES], ids=["names", "features"])
@pytest.mark.parametrize("cost", [None, UNEVEN], ids=["unit", "uneven"])
def test_whole_rows_within_the_budget(name: str, features: Any, cost: Any, scores: np.ndarray) -> None:
    responses = lg.ResponseMatrix.from_array(scores, cost=cost)
    policy = KINDS[name](**responses.policy_arguments(), features=features, max_cost=0.55 * responses.total_cost, random_state=5)
    trace = lg.replay(responses, policy, budget=0.55)
    assert (trace.n == N_EXAMPLES).all() and len(set(trace.arm.tolist())) == trace.n_steps >= 4
    assert trace.cumulative_cost[-1] <= 0.55 * responses.total_cost * (1 + 1e-12)
    left = 0.55 * responses.total_cost - trace.cumulative_cost[-1]
    price = np.ones(N_ARMS) if cost is None else cost
    unasked = np.setdiff1d(np.arange(N_ARMS), trace.arm)
    assert (N_EXAMPLES * price[unasked] > left).all(), "the run ends when no row fits any more, not before"
    assert trace.stop_reason == "budget" and policy.stop_reason == "budget" and policy.out_of_budget
    assert trace.arm[:2].tolist() == policy._start_order[:2].tolist()
    means = scores.mean(axis=1)
    for step, recommended in enumerate(trace.recommended.tolist()):
        assert means[recommended] == means[trace.arm[: step + 1]].max(), "the best observed row"
    assert name == "pbgi" or not trace.should_stop.any()
    best = policy.recommend()
    assert (best.rule, best.std, best.n_observed) == ("completed", 0.0, N_EXAMPLES) and best.mean == means[trace.arm].max()
    if cost is not None and features is None and name != "logei":  # all unseen arms look alike: the price decides
        later = trace.arm[2:].tolist()
        assert later == sorted(later, key=lambda arm: price[arm])


@pytest.mark.oracle
@pytest.mark.parametrize("name", KINDS)
def test_indices_are_those_of_botorch_on_its_own_model(torch: Any, name: str, scores: np.ndarray) -> None:
    from botorch.acquisition.analytic import LogExpectedImprovement
    from botorch.fit import fit_gpytorch_mll
    from botorch.models import MixedSingleTaskGP
    from botorch.models.transforms import Standardize
    from gpytorch.mlls import ExactMarginalLogLikelihood

    policy = KINDS[name](N_ARMS, N_EXAMPLES, cost=UNEVEN, features=FEATURES, warmup=0.4)
    start = told(policy, scores, policy.n_start)
    assert len(start) == 5
    rows = sorted(start)
    with row_model._quiet(), row_model._reproducible(torch, 0):
        x = torch.tensor(policy.features, dtype=torch.float64)
        y = torch.tensor(scores.mean(axis=1), dtype=torch.float64)[rows][:, None]
        model = MixedSingleTaskGP(
            x[rows], y, cat_dims=list(range(x.shape[1])), train_Yvar=torch.full_like(y, 1e-6), outcome_transform=Standardize(m=1)
        )
        fit_gpytorch_mll(ExactMarginalLogLikelihood(model.likelihood, model))
        acquisition = LogExpectedImprovement(model, best_f=y.max())
        rest = [arm for arm in range(N_ARMS) if arm not in rows]
        with torch.no_grad():
            log_ei = acquisition(x[rest][:, None, :]).numpy()
            posterior = model.posterior(x[rest])
            mean, std = posterior.mean[:, 0].numpy(), posterior.variance[:, 0].sqrt().numpy()
    frame = policy.posterior().set_index("arm").loc[rest]
    np.testing.assert_allclose(frame["mean"], mean, atol=1e-9)
    np.testing.assert_allclose(frame["std"], std, atol=1e-8)
    row_cost = N_EXAMPLES * UNEVEN[rest]
    if name == "pbgi":
        gap = [log_improvement(mean[[i]], std[[i]], g)[0] for i, g in enumerate(frame["index"])]
        np.testing.assert_allclose(gap, np.log(1e-4 * row_cost / UNEVEN.mean()), atol=1e-6)
    else:
        # Two fits of one model agree to about 1e-9 in mean and std, which the tail of log EI enlarges.
        np.testing.assert_allclose(frame["index"], log_ei - (np.log(row_cost) if name == "logeipc" else 0.0), atol=1e-5)
    assert policy.ask().arm == frame["index"].idxmax()


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", KINDS)
def test_a_loaded_policy_asks_next_what_the_saved_one_would(name: str, scores: np.ndarray, tmp_path: Any) -> None:
    whole = KINDS[name](N_ARMS, N_EXAMPLES, cost=UNEVEN, features=FEATURES, random_state=2, max_cost=200.0)
    split = KINDS[name](N_ARMS, N_EXAMPLES, cost=UNEVEN, features=FEATURES, random_state=2, max_cost=200.0)
    for step in range(5):
        split.save(tmp_path / "state.json")
        split = KINDS[name].load(tmp_path / "state.json", cost=UNEVEN)
        one, other = whole.ask(), split.ask()
        assert one == other, step
        if step == 3:  # with a pull pending, too
            split = KINDS[name].from_state(json.loads(json.dumps(split.to_state())))
            assert split.n_pending == 1 and split.ask() == whole.ask()
            (extra,) = (pull for pull in whole.pending if pull != one)
            whole.release(extra)
            split.release(extra)
        whole.tell(one, scores[one.arm, list(one.examples)])
        split.tell(one.token, scores[one.arm, list(one.examples)])
    assert split.fingerprint == whole.fingerprint and split.should_stop == whole.should_stop
    pd.testing.assert_frame_equal(split.posterior(), whole.posterior())


@pytest.mark.usefixtures("torch")
def test_states_of_another_set_up_are_refused(scores: np.ndarray) -> None:
    policy = lg.PandoraGittins(N_ARMS, N_EXAMPLES, features=FEATURES)
    told(policy, scores, 2)
    for change, field in [
        ({"setup": {"options": {"features": FEATURES[::-1]}}}, "options"),
        ({"own": {"start_order": [0] * N_ARMS}}, "digest"),
    ]:
        saved = json.loads(json.dumps(policy.to_state()))
        part = saved
        while isinstance(next(iter(change.values())), dict):
            key, change = next(iter(change.items()))
            part = part[key]
        part.update(change)
        with pytest.raises(lg.StateError, match=field):
            lg.PandoraGittins.from_state(saved)
    with pytest.raises(lg.StateError, match="policy"):
        lg.LogEI.from_state(policy.to_state())


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", KINDS)
def test_pending_rows_count_as_returned_and_the_order_of_tells_does_not(name: str, scores: np.ndarray) -> None:
    policies = [KINDS[name](N_ARMS, N_EXAMPLES, features=FEATURES, random_state=1, warmup=0.3) for _ in range(2)]
    after = []
    for policy, backwards in zip(policies, (False, True), strict=True):
        told(policy, scores, policy.n_start)
        mean, covariance = policy._posterior()
        alone = policy._std_given_pending()
        np.testing.assert_allclose(alone, np.sqrt(np.maximum(np.diagonal(covariance), 0.0)))
        pulls = [policy.ask() for _ in range(3)]
        assert len({pull.arm for pull in pulls}) == 3
        given = policy._std_given_pending()
        assert (given <= alone + 1e-12).all() and (given[[pull.arm for pull in pulls]] < 2e-3).all()
        assert policy._posterior()[0] is mean, "pending rows move no mean and need no fit"
        for pull in pulls[::-1] if backwards else pulls:
            policy.tell(pull, scores[pull.arm, list(pull.examples)])
        after.append((policy.ask().arm, policy.posterior()["mean"].tolist()))
    assert after[0] == after[1]


@pytest.mark.usefixtures("torch")
def test_the_start() -> None:
    policy = lg.LogEI(N_ARMS, N_EXAMPLES, random_state=4)
    assert policy.n_start == 2 and lg.LogEI(140, 3, warmup=0.05).n_start == 7 and lg.LogEI(1, 3).n_start == 1
    first = policy.recommend()
    assert first.n_observed == 0 and math.isnan(first.mean) and first.arm == policy.tie_order[0] and first.rule == "mean"
    assert policy.posterior()["index"].isna().all()
    pulls = [policy.ask() for _ in range(N_ARMS)]
    assert [pull.arm for pull in pulls] == policy._start_order.tolist(), "with nothing back yet the random order goes on"
    assert policy.ask() is None and policy.status == "waiting"
    orders = {tuple(lg.LogEI(N_ARMS, N_EXAMPLES, random_state=seed)._start_order[:2].tolist()) for seed in range(20)}
    assert len(orders) > 10


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", KINDS)
def test_rows_without_any_spread_teach_nothing(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(row_model, "fit_rows", lambda *_, **__: pytest.fail("a model of equal rows would be certain of everything"))
    policy = KINDS[name](5, 8, random_state=4)
    arms = []
    while (pull := policy.ask()) is not None:
        assert not policy.should_stop
        policy.tell(pull, np.ones(8))
        arms.append(pull.arm)
    assert arms == policy._start_order.tolist() and policy.stop_reason == ("stop-signal" if name == "pbgi" else "exhausted")
    assert policy.status == "exhausted" and not policy.out_of_budget


@pytest.mark.usefixtures("torch")
def test_ties_follow_the_seeded_order(scores: np.ndarray) -> None:
    for name, kind in KINDS.items():
        policy = kind(N_ARMS, N_EXAMPLES, random_state=7)
        start = told(policy, scores, 2)
        expected = [arm for arm in policy.tie_order.tolist() if arm not in start]
        assert told(policy, scores, 3) == expected[:3], f"{name}: unseen arms without features are exchangeable"
    ordered = lg.LogEI(N_ARMS, N_EXAMPLES, tie_break="order")
    start = told(ordered, scores, 2)
    assert told(ordered, scores, 1) == [min(set(range(N_ARMS)) - set(start))]


@pytest.mark.usefixtures("torch")
def test_features_are_learnt_from(scores: np.ndarray) -> None:
    """Rows 0-3 are the large models: after two of each size, the others of that size come first."""
    policy = lg.LogEI(N_ARMS, N_EXAMPLES, features=FEATURES)
    for arm in (0, 1, 5, 9):
        for example in range(N_EXAMPLES):
            policy.attach(arm, example, float(scores[arm, example]))
    assert policy.n_told == 0 and policy.cells()["attached"] == 120
    assert set(told(policy, scores, 2)) == {2, 3}, "complete attached rows count as the start"


@pytest.mark.usefixtures("torch")
def test_stop_signal_of_pandora(scores: np.ndarray) -> None:
    dear = lg.PandoraGittins(N_ARMS, N_EXAMPLES, cost_scale=1.0)
    told(dear, scores, 1)
    assert not dear.should_stop and dear.stopped_at is None and math.isnan(dear.stopped_spent)
    told(dear, scores, 1)
    assert dear.should_stop and dear.stopped_at == 2 and dear.stopped_spent == 60.0 and dear.stop_reason == "stop-signal"
    again = lg.PandoraGittins.from_state(dear.to_state())
    told(again, scores, 1)
    assert again.should_stop and again.stopped_at == 2, "recorded once, and asking goes on"
    free = lg.PandoraGittins(5, N_EXAMPLES, cost_scale=0.0)
    while not free.should_stop:
        assert told(free, scores, 1)
    assert free.status == "exhausted" and free.stopped_at == 5
    responses = lg.ResponseMatrix.from_array(scores)
    trace = lg.replay(responses, lg.PandoraGittins(N_ARMS, N_EXAMPLES, features=FEATURES, cost_scale=2e-3), budget=1.0)
    stop = trace.stop
    assert stop.reason == "stop-signal" and stop.step < N_ARMS
    assert trace.net_utility == pytest.approx(scores.mean(axis=1)[stop.recommended] - 2e-3 * stop.cost)
    signal = np.flatnonzero(trace.should_stop)
    assert np.array_equal(signal, np.arange(signal[0], N_ARMS))


@pytest.mark.usefixtures("torch")
@pytest.mark.parametrize("name", ["pbgi", "logeipc"])
def test_free_rows_come_first(name: str, scores: np.ndarray) -> None:
    cost = np.where(np.isin(np.arange(N_ARMS), [2, 6, 10]), 0.0, 1.0)
    policy = KINDS[name](N_ARMS, N_EXAMPLES, cost=cost, features=FEATURES, random_state=1)
    start = told(policy, scores, 2)
    free = {2, 6, 10} - set(start)
    assert set(told(policy, scores, len(free))) == free and policy.posterior()["index"].max() < np.inf
    nothing = KINDS[name](5, N_EXAMPLES, cost=0.0, max_cost=0.0)
    assert len(told(nothing, scores)) == 5 and nothing.spent == 0.0


@pytest.mark.usefixtures("torch")
def test_budget_corners(scores: np.ndarray) -> None:
    poor = lg.LogEI(N_ARMS, N_EXAMPLES, max_cost=29.0)
    assert poor.ask() is None and poor.status == "exhausted" and poor.stop_reason == "budget" and poor.out_of_budget
    exact = lg.LogEI(N_ARMS, N_EXAMPLES, cost=0.1, max_cost=0.1 * N_EXAMPLES * 3)
    assert len(told(exact, scores)) == 3, "rounding of the sum costs no row"
    held = lg.LogEI(N_ARMS, N_EXAMPLES, max_cost=59.0)
    pull = held.ask()
    assert held.ask() is None and held.status == "waiting", "pending pulls are reserved"
    held.release(pull)
    assert held.ask() is not None
    uneven = lg.LogEI(3, 10, cost=[5.0, 1.0, 7.0], max_cost=12.0)
    assert told(uneven, scores[:, :10]) == [1], "the rows that cost more than is left are passed over"
    for bad in (-1.0, math.nan, "10"):
        with pytest.raises(lg.ParameterError, match="max_cost"):
            lg.LogEI(3, 5, max_cost=bad)
    with pytest.raises(lg.ParameterError, match="warmup"):
        lg.LogEI(3, 5, warmup=5)
    with pytest.raises(lg.ParameterError, match="cost_unit"):
        lg.PandoraGittins(3, 5, cost_unit="usd")
    with pytest.raises(lg.ParameterError, match="cost_scale"):
        lg.PandoraGittins(3, 5, cost_scale=-1)
    with pytest.raises(lg.ParameterError, match="rule"):
        lg.LogEI(3, 5).recommend("lcb")


@pytest.mark.usefixtures("torch")
def test_a_begun_row_is_finished_first(scores: np.ndarray) -> None:
    policy = lg.LogEI(N_ARMS, N_EXAMPLES, features=FEATURES, max_retries=1)
    told(policy, scores, 3)
    pull = policy.ask()
    some = scores[pull.arm, list(pull.examples)].copy()
    some[[3, 7]] = np.nan
    policy.tell(pull, some, status="error")
    assert policy.posterior()["complete"].sum() == 3, "a row with open cells is unknown to the model"
    again = policy.ask()
    assert again.arm == pull.arm and again.examples == (pull.examples[3], pull.examples[7])
    policy.tell(again, None, status="timeout")
    assert policy.posterior()["complete"].sum() == 4, "given-up cells are missing, the row is complete without them"
    assert policy.posterior()["mean"][pull.arm] == pytest.approx(np.nanmean(some)) and policy.ask().arm != pull.arm
    whole = lg.LogEI(N_ARMS, N_EXAMPLES, features=FEATURES, random_state=3)
    pieces = lg.LogEI(N_ARMS, N_EXAMPLES, features=FEATURES, random_state=3, batch_size=8)
    rows = told(whole, scores, 4)
    assert told(pieces, scores, 16) == [arm for arm in rows for _ in range(4)]


@pytest.mark.usefixtures("torch")
def test_partly_attached_and_missing_cells(scores: np.ndarray) -> None:
    missing = np.zeros((N_ARMS, N_EXAMPLES), dtype=bool)
    missing[0, 10:] = True
    policy = lg.LogEIPerCost(N_ARMS, N_EXAMPLES, missing=missing, max_retries=0)
    for example in range(25):
        policy.attach(2, example, float(scores[2, example]), cost=1.0)
    assert policy.recommend().arm == 2 and policy.recommend().rule == "mean" and policy.recommend().n_observed == 25
    lost = policy.ask()
    policy.tell(lost, None, status="error")  # an arm without any cell left
    start = told(policy, scores, 2)
    assert lost.arm not in {0, 2, *start}
    later = told(policy, scores)
    short = [arm for arm in (2, 0) if arm not in start]
    assert short and later[: len(short)] == short, "5 cells to go, 10 cells, then whole rows"
    assert set(start + later) == set(range(N_ARMS)) - {lost.arm}
    assert not policy.posterior()["complete"][lost.arm] and policy.recommend().arm != lost.arm and policy.stop_reason == "exhausted"


@pytest.mark.usefixtures("torch")
def test_scores_in_percent(scores: np.ndarray) -> None:
    for name, kind in KINDS.items():
        unit, percent = kind(N_ARMS, N_EXAMPLES, features=FEATURES), kind(N_ARMS, N_EXAMPLES, features=FEATURES, score_range=(0, 100))
        assert told(unit, scores, 4) == told(percent, 100.0 * scores, 4)
        one, other = unit.posterior()["index"], percent.posterior()["index"]
        np.testing.assert_allclose(other, 100.0 * one if name == "pbgi" else one + math.log(100.0), atol=1e-9)
        assert percent.recommend().mean == pytest.approx(100.0 * unit.recommend().mean)


@pytest.mark.usefixtures("torch")
def test_learnt_prices(scores: np.ndarray) -> None:
    policy = lg.PandoraGittins(N_ARMS, N_EXAMPLES, cost=None)
    for _ in range(4):
        pull = policy.ask()
        policy.tell(pull, scores[pull.arm, list(pull.examples)], cost=60.0)
    assert policy.price_of(policy.ask().arm) == 2.0 and policy.spent == 240.0 and policy.posterior()["index"].notna().all()


def test_a_failed_fit_is_said_and_survived(torch: Any, scores: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    import botorch.fit
    from botorch.exceptions.errors import ModelFittingError

    def fail(mll: Any) -> None:
        raise ModelFittingError("all attempts failed")

    monkeypatch.setattr(botorch.fit, "fit_gpytorch_mll", fail)
    policy = lg.PandoraGittins(N_ARMS, N_EXAMPLES)
    told(policy, scores, 2)
    with pytest.warns(lg.ConvergenceWarning, match="2 rows"):
        pull = policy.ask()
    assert pull is not None and policy.posterior()["std"][pull.arm] > 0.0


def test_fits_that_draw_are_seeded_by_the_policy(torch: Any, scores: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    """BoTorch draws new starts where one fails; here every fit draws, and a load still changes nothing."""
    import botorch.fit

    def draw(mll: Any) -> None:
        mll.model.covar_module.outputscale = 0.1 + torch.rand(1).item()

    monkeypatch.setattr(botorch.fit, "fit_gpytorch_mll", draw)
    stds = []
    for seed in (0, 0, 1):
        policy = lg.LogEI(N_ARMS, N_EXAMPLES, features=FEATURES, random_state=seed)
        for arm in (0, 1, 5, 9):
            for example in range(N_EXAMPLES):
                policy.attach(arm, example, float(scores[arm, example]))
        loaded = lg.LogEI.from_state(policy.to_state())
        torch.rand(1)  # what others draw in between does not matter
        pd.testing.assert_frame_equal(loaded.posterior(), policy.posterior())
        stds.append(policy.posterior()["std"].max())
    assert stds[0] == stds[1] != stds[2]


@pytest.mark.usefixtures("torch")
def test_rounding_in_the_index_is_a_tie(scores: np.ndarray, monkeypatch: pytest.MonkeyPatch) -> None:
    policy = lg.LogEI(N_ARMS, N_EXAMPLES, random_state=7)
    start = told(policy, scores, 2)
    first = next(arm for arm in policy.tie_order.tolist() if arm not in start)
    steps = np.where(np.arange(N_ARMS) == first, 0.0, 1.0)
    monkeypatch.setattr(lg.LogEI, "_rate", lambda self, mean, std, best, cost: -7.0 + 1e-13 * steps)
    assert policy.ask().arm == first
    monkeypatch.setattr(lg.LogEI, "_rate", lambda self, mean, std, best, cost: -7.0 + 1e-6 * steps)
    assert policy.ask().arm != first


def test_torch_is_left_as_it_was(torch: Any, scores: np.ndarray) -> None:
    threads, dtype = torch.get_num_threads(), torch.get_default_dtype()
    runs = []
    for seed in (1, 2):  # torch's own seed changes nothing
        torch.manual_seed(seed)
        before = torch.get_rng_state()
        runs.append(told(lg.PandoraGittins(N_ARMS, N_EXAMPLES, features=FEATURES), scores, 4))
        assert torch.equal(torch.get_rng_state(), before)
    assert runs[0] == runs[1] and torch.get_num_threads() == threads and torch.get_default_dtype() == dtype


@pytest.mark.usefixtures("torch")
def test_torch_is_loaded_at_the_first_fit_only() -> None:
    code = (
        "import sys, lrgittins as lg; p = lg.PandoraGittins(3, 4); a = p.ask(); p.tell(a, [1, 0, 1, 0]); p.recommend(); p.should_stop; "
        "p.to_state(); b = p.ask(); assert 'torch' not in sys.modules; p.tell(b, [1, 1, 1, 0]); p.ask(); assert 'torch' in sys.modules"
    )
    subprocess.run([sys.executable, "-W", "error", "-c", code], check=True, timeout=120)


@pytest.mark.usefixtures("torch")
def test_by_name_in_compare_and_in_a_live_run(scores: np.ndarray) -> None:
    responses = lg.ResponseMatrix.from_array(scores, cost=UNEVEN)
    result = lg.compare(responses, ["ucb-e", *KINDS], budget=0.4, n_runs=1, progress=False)
    assert np.isfinite(result.at([0.2, 0.4])["regret"]).all() and len(result.runs) == 4
    trace = lg.replay(responses, "pbgi", budget=0.4)
    assert trace.stop_reason == "budget" and 0.3 * responses.total_cost < trace.cumulative_cost[-1] <= 0.4 * responses.total_cost
    assert (trace.n == N_EXAMPLES).all()
    calls = []

    def evaluator(arm: Any, examples: Any) -> Any:
        calls.append((arm, len(examples)))
        return scores[arm, list(examples)]

    policy = lg.LogEIPerCost(N_ARMS, N_EXAMPLES, cost=UNEVEN, max_cost=150.0)
    trace = lg.evaluate(policy, evaluator, max_cost=150.0, progress=False)
    assert trace.stop_reason == "budget" and policy.spent <= 150.0 and {n for _, n in calls} == {N_EXAMPLES} and len(calls) >= 3
