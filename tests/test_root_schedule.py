"""Root schedules: golden roots, the exact facts of the recursion, methods against each other, edges, errors."""

from __future__ import annotations

import json
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import lrgittins as lg
from lrgittins._kernels.induction import expect_stage
from lrgittins._off_schedule import store, store_values
from lrgittins._root_chains import row_cache, transition_std
from lrgittins._root_methods import PANEL_LEVELS, gauss_legendre
from lrgittins.batch_schedule import RAMP, batch_sizes, cut_batches
from lrgittins.root_schedule import off_schedule_root
from tests.reference.plain_fft import plain_fft_roots
from tests.reference.quadrature import expected_improvement, inverse_expected_improvement, reference_roots

Schedule = lg.RootSchedule


def _golden(shared: Path) -> list[dict[str, Any]]:
    return json.loads((shared / "golden" / "gittins" / "roots.json").read_text())


def _solve_golden(case: dict[str, Any], **options: Any) -> Schedule:
    s = case["setting"]
    return lg.root_schedule(
        s["cost"],
        n_examples=s["N"],
        batch_size=s["B"],
        prior_variance=s["v0"],
        noise_variance=s["tau2"],
        cost_scale=s["lam"],
        target=s["target"],
        **options,
    )


@pytest.fixture(autouse=True)
def fresh_caches() -> None:
    row_cache.clear()
    store.clear()


# --- golden and spot values ------------------------------------------------------------------------------------------


@pytest.mark.golden
@pytest.mark.parametrize("method", ["auto", "panel", "banded", "fft"])
def test_golden_roots_to_the_default_tolerance(shared: Path, method: str) -> None:
    for case in _golden(shared):
        schedule = _solve_golden(case, method=method)
        error = np.abs(schedule.roots[0] - case["roots"]).max()
        assert error <= schedule.error_bound + 1e-12 <= 1e-6 + 1e-12  # the golden roots are good to 1e-12
        np.testing.assert_allclose(schedule.transition_std, case["sigma"], rtol=1e-14)
        np.testing.assert_array_equal(schedule.batch_sizes, case["b"])
        assert schedule.horizon.tolist() == [case["H"]]


@pytest.mark.golden
def test_golden_roots_to_a_tight_tolerance(shared: Path) -> None:
    for case in _golden(shared):
        schedule = _solve_golden(case, tol=1e-10)
        assert np.abs(schedule.roots[0] - case["roots"]).max() <= 1e-12  # far inside the 1e-10 asked for
        assert schedule.error_bound <= 1e-10


@pytest.mark.golden
def test_paper_mode_is_the_stored_grid_point_roots(shared: Path) -> None:
    for case in _golden(shared):
        schedule = _solve_golden(case, method="paper")
        # One and the same grid point; its coordinate is written low + k step, which rounds in the last bits.
        np.testing.assert_allclose(schedule.roots[0], case["paper_gridmin_roots"], rtol=0, atol=1e-14)
        assert case["paper_max_abs_err"] <= schedule.error_bound <= case["paper_max_abs_err"] + 2e-8
        np.testing.assert_array_equal(plain_fft_roots(np.array(case["c"]), np.array(case["sigma"])), np.array(case["paper_gridmin_roots"]))


@pytest.mark.golden
@pytest.mark.parametrize(
    ("options", "stage", "root"),
    [
        ({"n_examples": 1000}, 0, -0.3212559571),
        ({"n_examples": 1000}, 124, 0.0004182984),
        ({"n_examples": 1000, "prior_variance": 0.01}, 0, -0.0556965525),
        ({"n_examples": 805}, 0, -0.3415068545),
        ({"n_examples": 805}, 100, -0.0001153933),
        ({"n_examples": 20, "cost_scale": 1e-3}, 0, -0.29388442),
        ({"n_examples": 20, "cost_scale": 1e-3}, 1, -0.11979710),
        ({"n_examples": 20, "cost_scale": 1e-3}, 2, -0.05778205),
        ({"n_examples": 5}, 0, -0.7677087972),
        ({"n_examples": 1000, "batch_size": 1}, 0, -0.3948403657),
    ],
)
def test_spot_values(options: dict[str, Any], stage: int, root: float) -> None:
    assert lg.root_schedule(1.0, tol=1e-9, **options).roots[0, stage] == pytest.approx(root, abs=1.1e-8)  # printed to 8 or 10 digits


# --- exact facts of the recursion ------------------------------------------------------------------------------------

SETTINGS: list[dict[str, Any]] = [
    {"n_examples": 100, "batch_size": 4},
    {"n_examples": 60, "batch_size": 8, "batch_schedule": "ramp", "prior_variance": 0.3, "noise_variance": 0.1},
    {"n_examples": 37, "batch_size": 5, "target": "latent", "prior_variance": 0.01},
    {"n_examples": 9, "batch_schedule": [4, 1, 3, 1], "noise_variance": 2.0},
]
PRICES = [0.01, 1.0, 30.0, 1000.0]


def _pieces(schedule: Schedule, row: int = 0) -> tuple[np.ndarray, np.ndarray]:
    h = schedule.horizon[row]
    return schedule.cost[row] * schedule.sizes[row, :h], schedule.stds[row, :h]


@pytest.mark.parametrize("options", SETTINGS)
@pytest.mark.parametrize("price", PRICES)
def test_last_root_is_the_inverse_expected_improvement(options: dict[str, Any], price: float) -> None:
    schedule = lg.root_schedule(price, **options)
    cost, std = _pieces(schedule)
    assert expected_improvement(schedule.roots[0, -1], std[-1]) == pytest.approx(cost[-1], rel=1e-11)


@pytest.mark.parametrize("options", SETTINGS)
@pytest.mark.parametrize("price", PRICES)
def test_roots_lie_between_their_bounds(options: dict[str, Any], price: float) -> None:
    schedule = lg.root_schedule(price, tol=1e-10, **options)
    cost, std = _pieces(schedule)
    for n, root in enumerate(schedule.roots[0]):
        s_to_go, c_to_go = float(np.sqrt(np.sum(std[n:] ** 2))), float(cost[n:].sum())
        slack = 1e-10 + 1e-13 * c_to_go
        assert inverse_expected_improvement(cost[n], s_to_go) - slack <= root
        assert c_to_go - cost[n] + inverse_expected_improvement(cost[n], s_to_go) - slack <= root  # the sharper one used inside
        assert root <= min(c_to_go, inverse_expected_improvement(c_to_go, s_to_go)) + slack


@pytest.mark.property
@given(
    cost=st.floats(1e-6, 3.0),
    v0=st.floats(1e-3, 1.0),
    t=st.floats(0.01, 4.0),
    target=st.sampled_from(["empirical", "latent"]),
)
@settings(max_examples=25, deadline=None)
def test_scaling(cost: float, v0: float, t: float, target: str) -> None:
    """r(c, v0, t) = sqrt(t) rho(c / sqrt(t), v0 / t), and r_empirical(c) = a r_latent(c / a), a = 1 + t / (N v0)."""
    common = {"n_examples": 30, "batch_size": 4, "cost_scale": 1.0, "tol": 1e-9}
    roots = lg.root_schedule(cost, prior_variance=v0, noise_variance=t, target=target, **common).roots
    unit = lg.root_schedule(cost / np.sqrt(t), prior_variance=v0 / t, noise_variance=1.0, target=target, **common).roots
    np.testing.assert_allclose(roots, np.sqrt(t) * unit, atol=3e-9)  # two tolerances and the factor 2 of sqrt(t)
    a = 1.0 + t / (30 * v0)
    empirical = lg.root_schedule(cost, prior_variance=v0, noise_variance=t, **common).roots
    latent = lg.root_schedule(cost / a, prior_variance=v0, noise_variance=t, target="latent", **common).roots
    np.testing.assert_allclose(empirical, a * latent, atol=1e-9 * (1 + a))


@pytest.mark.property
@given(
    n=st.integers(1, 300),
    b=st.integers(1, 20),
    v0=st.floats(0.0, 10.0),
    t=st.floats(1e-3, 10.0),
    schedule=st.sampled_from(["constant", "ramp"]),
)
@settings(max_examples=100, deadline=None)
def test_all_remaining_variance_is_resolved(n: int, b: int, v0: float, t: float, schedule: str) -> None:
    """Empirical target: S_n^2 = V_n = ((N - seen)^2 v_n + (N - seen) t) / N^2."""
    sizes = batch_sizes(n, b, schedule)
    seen = np.cumsum(sizes) - sizes
    std = transition_std(sizes, seen, n_examples=n, prior_variance=v0, noise_variance=t, target="empirical")
    v = v0 / (1 + v0 * seen / t)
    np.testing.assert_allclose(np.cumsum((std**2)[::-1])[::-1], ((n - seen) ** 2 * v + (n - seen) * t) / n**2, rtol=1e-10)


def _continuation(schedule: Schedule, stage: int, x: float) -> float:
    """E W_stage(x + s Z) for the batch before it, from the stored function."""
    h = schedule.horizon[0]
    stored = store_values(float(schedule.cost[0]), schedule.sizes[0, :h], schedule.stds[0, :h], schedule.tol)
    level = PANEL_LEVELS[stored.level]
    begin, end = stored.offsets[stage]
    values = stored.values[begin:end].reshape(level.n_nodes, -1)
    return expect_stage(
        x, schedule.stds[0, stage - 1], stored.starts[stage], stored.widths[stage], values.shape[1], values,
        gauss_legendre(level.n_nodes)[0], stored.rights[stage], stored.cost_to_go[stage], level.band, level.band,
    )[0]  # fmt: skip


@pytest.mark.parametrize("options", SETTINGS)
def test_value_is_nothing_left_of_the_root_and_linear_far_right(options: dict[str, Any]) -> None:
    """W_n = max(0, q_n) is 0 left of r_n, positive right of it, and x - C_n (not x) far to the right."""
    schedule = lg.root_schedule(30.0, tol=1e-10, **options)
    cost, std = _pieces(schedule)
    for n in range(len(cost) - 1):
        root, c_to_go = schedule.roots[0, n], cost[n:].sum()
        s_to_go = float(np.sqrt(np.sum(std[n:] ** 2)))
        values = [_continuation(schedule, n + 1, root + d * s_to_go) - cost[n] for d in (-2.0, -0.1, 0.1, 2.0)]
        assert values[0] < values[1] < 0.0 < values[2] < values[3]
        assert _continuation(schedule, n + 1, root) - cost[n] == pytest.approx(0.0, abs=1e-10)
        x = max(0.0, schedule.roots[0].max()) + 12.0 * s_to_go
        assert _continuation(schedule, n + 1, x) - cost[n] == pytest.approx(x - c_to_go, abs=1e-9)


@pytest.mark.parametrize("options", SETTINGS)
def test_roots_increase_with_cost_and_decrease_with_prior_variance(options: dict[str, Any]) -> None:
    by_cost = lg.root_schedule(np.geomspace(0.01, 300.0, 12), tol=1e-9, **options).roots
    assert np.all(np.diff(by_cost, axis=0) > 0)
    variances = np.geomspace(0.001, 1.0, 10)
    by_variance = lg.root_schedule(1.0, tol=1e-9, **{**options, "prior_variance": variances}).roots
    assert np.all(np.diff(by_variance, axis=0) < 0)


def test_roots_have_no_order_in_time() -> None:
    roots = lg.root_schedule(10.0, n_examples=1000).roots[0]
    assert roots[0] == pytest.approx(0.772, abs=5e-4)
    assert roots.max() == pytest.approx(0.939, abs=5e-4)
    assert 0 < int(np.argmax(roots)) < 124
    assert roots[-1] == pytest.approx(0.008, abs=5e-4)


def test_more_items_left_are_worth_more_but_no_more_than_knowing_all() -> None:
    """Mean 0, variance 1, noise 1, c = 0.20: 0.182974 with one item left, at most 0.492887 with any number."""
    one = -lg.root_schedule(0.2, n_examples=1, prior_variance=1.0, noise_variance=1.0, cost_scale=1.0, target="latent").roots[0, 0]
    assert one == pytest.approx(0.182974, abs=6e-7)
    index = [
        -lg.root_schedule(0.2, n_examples=n, batch_size=1, prior_variance=1.0, noise_variance=1.0, cost_scale=1.0, target="latent").roots[
            0, 0
        ]
        for n in (1, 2, 5, 20)
    ]
    # The later batches must be paid for to collect: more items do not help here, and none beats perfect information.
    assert max(index) <= 0.492887


def _simulate(schedule: Schedule, n_runs: int, shift: float, seed: int) -> np.ndarray:
    """Net utility of the index policy minus max over arms of the smallest index on the way, by run."""
    rng = np.random.default_rng(seed)
    n_arms, h = schedule.n_arms, schedule.roots.shape[1]
    cost = schedule.cost[:, None] * schedule.sizes
    path = np.zeros((n_runs, n_arms, h + 1))
    path[:, :, 1:] = np.cumsum(rng.normal(size=(n_runs, n_arms, h)) * schedule.stds[schedule.index_of_arm], axis=2)
    index = path.copy()
    index[:, :, :h] -= schedule.roots[schedule.index_of_arm] + shift
    bound = index.min(axis=2).max(axis=1)
    stage = np.zeros((n_runs, n_arms), dtype=int)
    net = np.zeros(n_runs)
    running, every = np.ones(n_runs, dtype=bool), np.arange(n_runs)
    for _ in range(n_arms * h + 1):
        arm = np.take_along_axis(index, stage[:, :, None], axis=2)[:, :, 0].argmax(axis=1)
        at = stage[every, arm]
        done = running & (at == h)
        net[done] += path[done, arm[done], h]
        running &= ~done
        going = np.flatnonzero(running)
        net[going] -= cost[schedule.index_of_arm[arm[going]], at[going]]
        stage[going, arm[going]] += 1
    assert not running.any()
    return net - bound


@pytest.mark.statistical
def test_policy_earns_the_expected_largest_of_the_smallest_indices() -> None:
    """E[net utility] = E[max_k min_n index] for independent Gaussian chains: within 4 standard errors, and only there."""
    schedule = lg.root_schedule([20.0, 60.0, 150.0], n_examples=24, batch_size=6, prior_variance=[0.04, 0.08, 0.05], tol=1e-9)
    difference = _simulate(schedule, 200_000, 0.0, seed=1)
    error = difference.std(ddof=1) / np.sqrt(len(difference))
    assert error < 1e-3
    assert abs(difference.mean()) <= 4 * error
    for shift in (-0.05, 0.05):
        wrong = _simulate(schedule, 200_000, shift, seed=1)
        assert abs(wrong.mean()) > 20 * error


@pytest.mark.slow
@pytest.mark.statistical
def test_optimality_identity_over_many_settings() -> None:
    rng = np.random.default_rng(7)
    scores = []
    for seed in range(40):
        n_arms = int(rng.integers(2, 6))
        schedule = lg.root_schedule(
            10.0 ** rng.uniform(0.5, 2.5, n_arms), n_examples=int(rng.integers(5, 60)), batch_size=int(rng.integers(1, 9)),
            batch_schedule=str(rng.choice(["constant", "ramp"])), prior_variance=rng.uniform(0.01, 0.1, n_arms),
            target=str(rng.choice(["empirical", "latent"])), tol=1e-9,
        )  # fmt: skip
        difference = _simulate(schedule, 100_000, 0.0, seed)
        scores.append(difference.mean() / (difference.std(ddof=1) / np.sqrt(len(difference))))
    # 40 independent standard normals: their sum of squares, at one in ten thousand.
    assert np.sum(np.square(scores)) <= 84.0
    assert np.abs(scores).max() <= 4.5


# --- methods, tolerance, bounds --------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("options", SETTINGS)
def test_methods_agree_with_an_independent_recursion_within_their_bounds(options: dict[str, Any]) -> None:
    for price in (1e-6, *PRICES):
        for method in ("panel", "banded", "fft"):
            schedule = lg.root_schedule(price, method=method, **options)
            error = np.abs(schedule.roots[0] - reference_roots(*_pieces(schedule))).max()
            assert error <= schedule.error_bound + 1e-12, (price, method)
            assert schedule.error_bound <= 1e-6


@pytest.mark.oracle
@pytest.mark.parametrize(
    ("cost", "options"),
    [
        # A first step far wider than all that follow, and cheap: the kink of W_H lies far right of every root.
        (5.92e-10, {"n_examples": 3, "batch_schedule": [1, 1, 1], "prior_variance": 3.683, "noise_variance": 0.00126}),
        (3.82e-11, {"n_examples": 20, "batch_schedule": [13, 4, 3], "prior_variance": 3.934, "noise_variance": 0.0289}),
        (5.36e-11, {"n_examples": 20, "batch_size": 1, "batch_schedule": "ramp", "prior_variance": 0.0648, "target": "latent"}),
        # Neighbouring grids that agree by chance.
        (
            0.00565,
            {"n_examples": 60, "batch_schedule": [32, 1, 26, 1], "prior_variance": 0.00427, "noise_variance": 0.00906, "target": "latent"},
        ),
        # Transforms round at a fraction of eps of the largest value, which a tiny cost does not stand out from.
        (1.89e-12, {"n_examples": 7, "batch_size": 1, "batch_schedule": "ramp", "prior_variance": 7.77, "noise_variance": 1.645}),
        (20.98, {"n_examples": 150, "batch_size": 1, "prior_variance": 6.5e-5, "noise_variance": 0.00926}),
        (1e9, {"n_examples": 100}),
    ],
)
def test_bounds_hold_in_awkward_corners(cost: float, options: dict[str, Any]) -> None:
    reference = None
    for method, tol in (("panel", 1e-4), ("panel", 1e-6), ("panel", 1e-10), ("banded", 1e-4), ("fft", 1e-4)):
        try:
            schedule = lg.root_schedule(cost, cost_scale=1.0, method=method, tol=tol, **options)
        except lg.ParameterError:
            assert method != "panel"  # a grid may refuse, panels may not
            continue
        reference = reference_roots(*_pieces(schedule)) if reference is None else reference
        error = np.abs(schedule.roots[0] - reference).max()
        slack = 1e-12 * max(1.0, float(np.abs(reference).max()))  # the reference's own
        assert error <= schedule.error_bound + slack
        assert error <= tol + slack


def test_error_bound_follows_the_tolerance_on_coarse_grids() -> None:
    exact = lg.root_schedule(1.0, n_examples=200, tol=1e-11).roots
    for points in (257, 1025, 4097):
        for method in ("banded", "fft"):
            schedule = lg.root_schedule(1.0, n_examples=200, method=method, grid_points=points, tol=0.1)
            assert np.abs(schedule.roots - exact).max() <= schedule.error_bound <= 0.1


def test_a_tolerance_out_of_reach_is_refused_with_the_error_reached() -> None:
    with pytest.raises(lg.ParameterError, match=r"cannot meet tol=1e-17 .* the error reached is \d"):
        lg.root_schedule(1.0, n_examples=20, tol=1e-17)
    with pytest.raises(lg.ParameterError, match=r"method='banded' cannot meet tol=1e-06 for arm 1 .*use method='panel'"):
        lg.root_schedule([0.0, 1.0], n_examples=1000, method="banded", grid_points=1025)


def test_costs_solved_together_are_those_solved_alone() -> None:
    prices = np.geomspace(0.01, 1e4, 23)
    for method in ("panel", "banded", "fft", "paper"):
        together = lg.root_schedule(prices, n_examples=60, method=method, tol=1e-5).roots
        row_cache.clear()
        threaded = lg.root_schedule(prices, n_examples=60, method=method, tol=1e-5, n_jobs=3).roots
        row_cache.clear()
        alone = np.concatenate([lg.root_schedule(p, n_examples=60, method=method, tol=1e-5).roots for p in prices])
        if method in ("panel", "banded"):
            np.testing.assert_array_equal(together, threaded)
            np.testing.assert_array_equal(together, alone)
        else:  # a batched transform may round differently from a single one
            np.testing.assert_allclose(together, threaded, atol=1e-12, rtol=1e-12)
            np.testing.assert_allclose(together, alone, atol=1e-12, rtol=1e-12)
        row_cache.clear()


def test_scipy_serves_where_pyfftw_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    import sys

    from lrgittins import _fft

    roots = {m: lg.root_schedule([0.5, 2.0], n_examples=100, method=m).roots for m in ("fft", "paper")}
    row_cache.clear()
    monkeypatch.setitem(sys.modules, "pyfftw", None)
    _fft.clear_plans()
    try:
        for method, expected in roots.items():
            np.testing.assert_allclose(lg.root_schedule([0.5, 2.0], n_examples=100, method=method).roots, expected, rtol=1e-12, atol=1e-13)
        assert _fft.backend_name() == "scipy"
    finally:
        _fft.clear_plans()


# --- the shape of the result -----------------------------------------------------------------------------------------


def test_equal_arms_share_a_row_and_ragged_horizons_are_padded() -> None:
    schedule = lg.root_schedule([3.0, 1.0, 3.0, 1.0], n_examples=[20, 9, 20, 20], batch_size=8)
    assert schedule.index_of_arm.tolist() == [0, 1, 0, 2]
    assert schedule.horizon.tolist() == [3, 2, 3]
    assert np.isnan(schedule.roots[1]).tolist() == [False, False, True]
    assert schedule.batch_sizes.tolist() == [[8, 8, 4], [8, 1, 0], [8, 8, 4]]
    assert np.isnan(schedule.transition_std[1, 2])
    np.testing.assert_array_equal(schedule.roots[1, :2], lg.root_schedule(1.0, n_examples=9).roots[0])
    assert schedule.seen.tolist() == [[0, 8, 16, 20], [0, 8, 9, 9], [0, 8, 16, 20]]
    frame = schedule.to_frame()
    assert frame.columns.tolist() == ["schedule", "stage", "seen", "batch_size", "cost", "transition_std", "root"]
    assert frame["schedule"].tolist() == [0] * 3 + [1] * 2 + [2] * 3
    assert frame["root"].notna().all()
    assert frame["cost"].iloc[2] == pytest.approx(3e-4 * 4)


def test_results_are_read_only_inputs_untouched_and_pickled_schedules_work() -> None:
    costs = np.array([2.0, 1.0, 0.0])
    costs.flags.writeable = False
    schedule = lg.root_schedule(costs[::-1], n_examples=np.array([30, 30, 30], dtype=np.int8))
    for array in (schedule.roots, schedule.batch_sizes, schedule.transition_std, schedule.index_of_arm):
        with pytest.raises(ValueError, match="read-only"):
            array[...] = 0
    again = pickle.loads(pickle.dumps(schedule))
    np.testing.assert_array_equal(again.roots, schedule.roots)
    assert again.off_schedule_root(2, 3, 5, 1) == schedule.off_schedule_root(2, 3, 5, 1)


def test_solved_chains_are_kept_and_the_cache_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    first = lg.root_schedule([1.0, 2.0], n_examples=50)
    assert (row_cache.hits, row_cache.misses) == (0, 2)
    second = lg.root_schedule([2.0, 3.0], n_examples=50)
    assert (row_cache.hits, row_cache.misses) == (1, 3)
    np.testing.assert_array_equal(first.roots[1], second.roots[0])
    monkeypatch.setattr(row_cache, "max_bytes", 3000)
    lg.root_schedule(np.geomspace(0.1, 10, 50), n_examples=50)
    assert row_cache._bytes <= 3000


def test_schedules_from_several_threads_are_those_of_one() -> None:
    def roots(k: int) -> np.ndarray:
        method = ("panel", "fft", "paper", "banded")[k % 4]
        return lg.root_schedule([1.0 + k % 3, 5.0], n_examples=40 + k % 5, method=method, tol=1e-5).roots

    expected = [roots(k) for k in range(24)]
    row_cache.clear()
    with ThreadPoolExecutor(4) as pool:
        for a, b in zip(pool.map(roots, range(24)), expected, strict=True):
            np.testing.assert_array_equal(a, b)


def test_the_function_survives_an_import_of_its_module() -> None:
    import importlib

    importlib.import_module("lrgittins.root_schedule")
    assert callable(lg.root_schedule)


# --- batch schedules -------------------------------------------------------------------------------------------------


@pytest.mark.property
@given(n=st.integers(1, 500), b=st.integers(1, 20), kind=st.sampled_from(["constant", "ramp"]))
@settings(max_examples=100, deadline=None)
def test_batches_add_up(n: int, b: int, kind: str) -> None:
    sizes = batch_sizes(n, b, kind)
    seen = np.cumsum(sizes) - sizes
    wanted = np.full(len(sizes), b)
    if kind == "ramp":
        k = min(len(RAMP), len(sizes))
        wanted[:k] = np.minimum(RAMP[:k], b)
    np.testing.assert_array_equal(sizes, np.minimum(wanted, n - seen))
    assert sizes.sum() == n
    assert sizes.min() >= 1
    for cut in {1, n // 2 or 1, n}:
        assert cut_batches(sizes, cut).sum() == cut


def test_batch_arrays_are_checked() -> None:
    assert batch_sizes(6, schedule=np.array([1.0, 5.0])).tolist() == [1, 5]
    for bad, message in [
        ([3, 4], "sums to 7"),
        ([0, 10], r"batch_schedule\[0\]"),
        ([4.5, 5.5], r"batch_schedule\[0\]"),
        ([np.nan, 10], r"batch_schedule\[0\]"),
        ([[5, 5]], "one-dimensional"),
        ([], "one-dimensional"),
        (["5", "5"], "one-dimensional"),
        ("slow", "'slow'"),
    ]:
        with pytest.raises(lg.ParameterError, match=message):
            lg.root_schedule(1.0, n_examples=10, batch_schedule=bad)


# --- off the schedule ------------------------------------------------------------------------------------------------


@pytest.mark.oracle
@pytest.mark.parametrize("target", ["empirical", "latent"])
@pytest.mark.parametrize("method", ["panel", "paper"])
def test_a_shortened_batch_is_a_stage_of_the_schedule_with_that_boundary(target: str, method: str) -> None:
    """Splitting one batch at `seen` gives a schedule whose later stages are the same: its root there is the answer."""
    sizes = np.array([8] * 12 + [4])
    ends = np.cumsum(sizes)
    prices = [0.001, 1.0, 40.0]
    tol = 1e-10
    schedule = lg.root_schedule(prices, n_examples=100, method=method, target=target, tol=tol)
    for seen in (1, 5, 13, 50, 95, 97, 99):
        k = int(np.searchsorted(ends, seen, side="right"))
        split = np.concatenate([sizes[:k], [seen - (ends[k] - sizes[k]), ends[k] - seen], sizes[k + 1 :]])
        expected = lg.root_schedule(prices, n_examples=100, batch_schedule=split, target=target, tol=tol).roots[:, k + 1]
        for arm, price in enumerate(prices):
            root = schedule.off_schedule_root(arm, seen, int(ends[k]) - seen, k + 1)
            assert root == pytest.approx(expected[arm], abs=2 * tol)
            assert off_schedule_root(price, seen, n_examples=100, method=method, target=target, tol=tol) == root


def test_off_schedule_edges() -> None:
    schedule = lg.root_schedule([1.0, 0.0, 1e7], n_examples=[20, 20, 20], batch_size=8)
    assert schedule.off_schedule_root(0, 8, 8, 2) == schedule.roots[0, 1]  # on the schedule after all
    assert schedule.off_schedule_root(1, 3, 5, 1) == -np.inf
    assert schedule.off_schedule_root(2, 3, 5, 1) == pytest.approx(1e3 * 17, rel=1e-14)  # C: what is left is all paid
    std = transition_std(np.array(1), np.array(19), n_examples=20, prior_variance=0.04, noise_variance=0.25, target="empirical")
    assert schedule.off_schedule_root(0, 19, 1, 3) == pytest.approx(inverse_expected_improvement(1e-4, float(std)), abs=1e-12)
    for bad in [(0, 3, 4, 1), (0, 3, 5, 2), (0, 16, 4, 4), (0, 8, 0, 1), (3, 3, 5, 1)]:
        with pytest.raises(lg.ParameterError):
            schedule.off_schedule_root(*bad)


def test_stored_functions_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    import lrgittins._off_schedule as module

    monkeypatch.setattr(module, "_MAX_BYTES", 30_000)
    schedule = lg.root_schedule(np.geomspace(0.1, 10, 30), n_examples=60, batch_size=4)
    roots = [schedule.off_schedule_root(arm, 5, 3, 2) for arm in range(30)]
    assert 0 < store._bytes <= 30_000
    assert roots == sorted(roots)


# --- edges -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["panel", "banded", "fft", "paper"])
def test_free_arms_and_hopeless_arms(method: str) -> None:
    schedule = lg.root_schedule([0.0, 1e6, 1.0], n_examples=20, method=method, tol=1e-6)
    assert np.all(schedule.roots[0] == -np.inf)
    c_to_go = np.array([2000.0, 1200.0, 400.0])
    if method == "paper":  # a grid point, and the grid is 2000 wide
        assert np.abs(schedule.roots[1] - c_to_go).max() <= schedule.error_bound <= 2.1
    else:
        np.testing.assert_allclose(schedule.roots[1], c_to_go, rtol=1e-14)
    assert np.isfinite(schedule.error_bound)


def test_no_prior_variance() -> None:
    latent = lg.root_schedule([1.0, 0.0], n_examples=20, prior_variance=0.0, target="latent")
    np.testing.assert_allclose(latent.roots[0], [20e-4, 12e-4, 4e-4], rtol=1e-14)  # nothing to learn: C_n
    assert np.all(latent.roots[1] == -np.inf)
    assert latent.error_bound == 0.0
    empirical = lg.root_schedule(1.0, n_examples=20, prior_variance=0.0)
    np.testing.assert_allclose(empirical.transition_std, np.sqrt(0.25 * np.array([8, 8, 4])) / 20, rtol=1e-14)
    np.testing.assert_allclose(empirical.roots[0], reference_roots(*_pieces(empirical)), atol=1e-6)


@pytest.mark.parametrize("method", ["panel", "banded", "fft"])
def test_tiny_costs_lie_left_of_the_papers_grid(method: str) -> None:
    schedule = lg.root_schedule(1e-8, n_examples=40, method=method)
    assert schedule.roots[0, 0] < -5.0 * np.sqrt(np.sum(schedule.transition_std**2))
    assert np.abs(schedule.roots[0] - reference_roots(*_pieces(schedule))).max() <= schedule.error_bound + 1e-12
    paper = lg.root_schedule(1e-8, n_examples=40, method="paper")
    assert np.all(paper.roots[0] < -4.0 * np.sqrt(np.cumsum((paper.transition_std**2)[::-1])[::-1]))  # the bound, not the edge


def test_one_example_and_fewer_examples_than_a_batch() -> None:
    for n in (1, 5):
        schedule = lg.root_schedule(1.0, n_examples=n, batch_size=8)
        assert schedule.horizon.tolist() == [1]
        assert schedule.batch_sizes.tolist() == [n]
    root = lg.root_schedule(1e-12, n_examples=1, prior_variance=1.0, noise_variance=1.0, cost_scale=1.0, target="latent").roots[0, 0]
    assert -root == pytest.approx(4.743086, abs=6e-7)


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        (None, "None"),
        ("0.01", "'0.01'"),
        (-1.0, r"-1\.0"),
        (np.nan, "nan"),
        (True, "True"),
        ([1.0, None], "arm 1 .*None"),
        ([1.0, -2.0], r"arm 1 .*-2\.0"),
        ([1.0, 2.0, np.inf], "arm 2 .*inf"),
        ([1.0, "x"], "arm 1 .*'x'"),
        ([], "shape"),
        ([[1.0]], "shape"),
    ],
)
def test_bad_costs_are_named_by_arm(bad: Any, message: str) -> None:
    with pytest.raises(lg.ParameterError, match=message):
        lg.root_schedule(bad, n_examples=10)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"n_examples": 0}, "n_examples"),
        ({"n_examples": 10.5}, "n_examples .*10.5"),
        ({"n_examples": [5, 0]}, "n_examples of arm 1"),
        ({"noise_variance": 0.0}, "noise_variance .*above 0"),
        ({"prior_variance": -0.1}, "prior_variance"),
        ({"prior_variance": [1.0, 2.0], "noise_variance": [1.0, 2.0, 3.0]}, "lengths differ"),
        ({"method": "quick"}, "method"),
        ({"target": "mean"}, "target"),
        ({"tol": 0.0}, "tol"),
        ({"batch_size": 0}, "batch_size"),
        ({"cost_scale": -1.0}, "cost_scale"),
        ({"method": "fft", "grid_points": 1024}, "odd"),
        ({"grid_points": 1025}, "no meaning"),
        ({"n_jobs": 0}, "n_jobs"),
    ],
)
def test_bad_arguments_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(lg.ParameterError, match=message):
        lg.root_schedule(1.0, **{"n_examples": 10, **options})
