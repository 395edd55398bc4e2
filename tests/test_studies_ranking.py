"""The ranking studies: each runs at a tiny size, resumes to the same rows, refuses bad input in one line; their measures by other means."""

from __future__ import annotations

import importlib
import importlib.util
import json
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pytest
from click.testing import CliRunner, Result
from numpy.typing import NDArray

import lrgittins as lg

FOLDER = Path(__file__).resolve().parents[1] / "examples" / "studies"
# Studies of simulated votes with what makes them tiny; `scores` below is a board of 6 tasks x 8 models of rank 2.
STUDIES: dict[str, list[str]] = {
    "table1_recovery": ["--votes", "200", "--votes", "400"],
    "figure2_error": ["--votes", "200", "--votes", "400"],
    "table2_joint_normality": ["--votes", "900"],
    "table3_single_task": ["--votes", "900"],
    "table4_simultaneous": ["--votes", "900"],
}
ARENA = ["--votes", "3000", "--fraction", "0.5"]


@pytest.fixture
def study(monkeypatch: pytest.MonkeyPatch) -> Callable[[str], ModuleType]:
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module


@pytest.fixture(scope="module")
def scores(tmp_path_factory: pytest.TempPathFactory) -> Path:
    rng = np.random.default_rng(4)
    values = rng.normal(size=(6, 2)) @ rng.normal(size=(2, 8))
    path = tmp_path_factory.mktemp("scores") / "scores.csv"
    pd.DataFrame(values, index=pd.Index([f"t{i}" for i in range(6)], name="task"), columns=[f"m{i}" for i in range(8)]).to_csv(path)
    return path


def run(module: ModuleType, arguments: list[Any]) -> Result:
    return CliRunner().invoke(module.main, [str(argument) for argument in arguments])


def arguments_of(name: str, scores: Path) -> list[Any]:
    return ARENA if name.startswith("tables5") else [*STUDIES[name], "--data", scores, "--rank", "2"]


def rows_of(path: Path) -> dict[int, Any]:
    lines = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    return {line["position"]: line["rows"] for line in lines[1:]}


@pytest.mark.parametrize("name", [*STUDIES, "tables5_7_arena_shape"])
def test_a_study_runs_and_an_interrupted_one_resumes_to_the_same_rows(
    study: Callable[[str], ModuleType], scores: Path, tmp_path: Path, name: str
) -> None:
    module = study(name)
    out = tmp_path / "rows.jsonl"
    first = run(module, [*arguments_of(name, scores), "--trials", 1, "--seed", 3, "--out", out])
    assert first.exit_code == 0, first.output
    whole = rows_of(out)
    assert whole and all(rows for rows in whole.values())
    # Killed in the middle of the last line: what is left over is cut off, and the setting runs again, with the same numbers.
    text = out.read_text(encoding="utf-8")
    out.write_text(text[: len(text.rstrip("\n")) - 20], encoding="utf-8")
    second = run(module, [*arguments_of(name, scores), "--trials", 1, "--seed", 3, "--out", out])
    assert second.exit_code == 0, second.output
    assert rows_of(out) == whole
    assert second.stdout == first.stdout
    # Another seed is another study.
    other = run(module, [*arguments_of(name, scores), "--trials", 1, "--seed", 4, "--out", out])
    assert other.exit_code == 2 and "not the same study" in other.stderr and rows_of(out) == whole


@pytest.mark.parametrize(
    "name",
    [
        "figure2_error",
        *(pytest.param(name, marks=pytest.mark.slow) for name in [*STUDIES, "tables5_7_arena_shape"] if name != "figure2_error"),
    ],
)
def test_two_workers_give_the_rows_of_one(study: Callable[[str], ModuleType], scores: Path, tmp_path: Path, name: str) -> None:
    module = study(name)
    one, two = tmp_path / "one.jsonl", tmp_path / "two.jsonl"
    for out, jobs in ((one, 1), (two, 2)):
        result = run(module, [*arguments_of(name, scores), "--trials", 2, "--jobs", jobs, "--out", out])
        assert result.exit_code == 0, result.output
    assert rows_of(one) == rows_of(two)


@pytest.mark.parametrize("name", [*STUDIES, "tables5_7_arena_shape"])
def test_bad_arguments_are_one_line_and_exit_code_2(study: Callable[[str], ModuleType], tmp_path: Path, name: str) -> None:
    module = study(name)
    broken = tmp_path / "broken.parquet"
    broken.write_bytes(b"not parquet")
    (tmp_path / "odd.jsonl").write_text("{}\n[", encoding="utf-8")
    wrong = [
        (["--trials", 0], "--trials"),
        (["--jobs", 0], "0 worker processes"),
        (["--rank", "half"], "neither a whole number"),
        (["--votes", 0], "--votes"),
        (["--data", tmp_path / "absent.csv"], "there is no such file"),
        (["--data", broken], "broken.parquet"),
        (["--trials", 1, "--out", tmp_path / "absent" / "rows.jsonl"], "absent"),
        (["--trials", 1, "--out", tmp_path / "odd.jsonl"], "not the same study"),
    ]
    for arguments, message in wrong:
        result = run(module, arguments)
        assert result.exit_code == 2, (arguments, result.output)
        assert message in result.stderr and "Traceback" not in result.output, arguments
        assert result.exception is None or isinstance(result.exception, SystemExit), arguments


@pytest.mark.parametrize("name", ["figure2_error", "table2_joint_normality"])
def test_pictures_are_drawn_and_what_stands_against_it_is_said_first(
    study: Callable[[str], ModuleType], scores: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    pytest.importorskip("matplotlib")
    module = study(name)
    picture = tmp_path / "figure.png"
    assert run(module, [*arguments_of(name, scores), "--trials", 2, "--picture", picture]).exit_code == 0
    assert picture.read_bytes().startswith(b"\x89PNG")
    wrong = run(module, ["--trials", 1, "--picture", tmp_path / "figure.doc"])
    assert wrong.exit_code == 2 and ".png" in wrong.stderr
    found = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda module, *rest: None if module == "matplotlib" else found(module, *rest))
    missing = run(module, ["--trials", 1, "--picture", picture])
    assert missing.exit_code == 2 and "lrgittins[plot]" in missing.stderr


def test_rows_of_another_table_of_scores_are_not_taken_over(study: Callable[[str], ModuleType], scores: Path, tmp_path: Path) -> None:
    module = study("figure2_error")
    out, changed = tmp_path / "rows.jsonl", tmp_path / "changed.csv"
    assert run(module, [*arguments_of("figure2_error", scores), "--trials", 1, "--out", out]).exit_code == 0
    changed.write_text(scores.read_text(encoding="utf-8").replace("-", ""), encoding="utf-8")
    result = run(module, [*arguments_of("figure2_error", changed), "--trials", 1, "--out", out])
    assert result.exit_code == 2 and "not the same study" in result.stderr


def test_tables_of_true_scores_are_centred_and_sorted_and_checked(study: Callable[[str], ModuleType], tmp_path: Path) -> None:
    board = study("_board")
    frame = pd.DataFrame({"b": [1.0, 4.0], "a": [3.0, 0.0], "c": [2.0, 2.0]}, index=pd.Index(["y", "x"], name="task"))
    frame.to_csv(tmp_path / "s.csv")
    expected = pd.DataFrame({"a": [-2.0, 1.0], "b": [2.0, -1.0], "c": [0.0, 0.0]}, index=["x", "y"])
    pd.testing.assert_frame_equal(board.read_scores(tmp_path / "s.csv"), expected, check_index_type=False, check_column_type=False)
    if importlib.util.find_spec("pyarrow") is not None:
        frame.to_parquet(tmp_path / "index.parquet")
        frame.reset_index().to_parquet(tmp_path / "column.parquet")
        for name in ("index.parquet", "column.parquet"):
            pd.testing.assert_frame_equal(board.read_scores(tmp_path / name), expected, check_index_type=False, check_column_type=False)
    wrong = {
        "task,a\nx,1\n": "two or more models",
        "task,a,b\n": "two or more models",
        "task,a,b\nx,1,2\nx,3,4\n": "'x' appears more than once",
        "task,a,b\nx,1,\n": "no finite score for task 'x', model 'b'",
        "task,a,b\nx,1,inf\n": "no finite score for task 'x', model 'b'",
        "task,a,b\nx,1,high\n": "must be numbers",
        "task,a,b\n,1,2\n": "a task has no name",
    }
    for text, message in wrong.items():
        (tmp_path / "wrong.csv").write_text(text, encoding="utf-8")
        with pytest.raises(lg.ResponseError, match=message):
            board.read_scores(tmp_path / "wrong.csv")


def test_rows_finished_before_the_header_knew_of_files_still_count(study: Callable[[str], ModuleType], tmp_path: Path) -> None:
    runner = study("_runner")
    out = tmp_path / "rows.jsonl"
    lines: list[dict[str, Any]] = [
        {"study": "s", "seed": 0},
        {"position": 0, "setting": {"trial": 0}, "rows": [{"x": 1}]},
        {"position": 1, "setting": {"trial": 9}, "rows": [{"x": 2}]},  # of another setting: run again
    ]
    out.write_text("".join(json.dumps(line) + "\n" for line in lines), encoding="utf-8")

    def worker(rng: np.random.Generator, *, trial: int) -> list[dict[str, Any]]:
        return [{"x": 100 + trial}]

    rows = runner.run_trials(worker, [{"trial": 0}, {"trial": 1}], name="s", seed=0, jobs=1, out=out)
    assert rows == [{"x": 1}, {"x": 101}]
    with pytest.raises(runner.StudyError, match="not the same study"):
        runner.run_trials(worker, [{"trial": 0}], name="s", seed=0, jobs=1, out=out, header={"data": "0123"})


# -- figure 2 -----------------------------------------------------------------------------------------------------------


def test_slopes_of_power_laws_are_their_exponents(study: Callable[[str], ModuleType]) -> None:
    sizes = (100, 1000, 3000)
    table = pd.DataFrame({n: [2.0 * n**-0.5, 7.0 * n**-0.8] for n in sizes})
    np.testing.assert_allclose(study("figure2_error").slopes(table, sizes), [-0.5, -0.8], rtol=1e-12)


@pytest.mark.oracle
def test_the_initializer_is_the_nuclear_norm_fit_at_the_reference_penalty(study: Callable[[str], ModuleType]) -> None:
    from lrgittins.convex import fit_nuclear_norm, reference_penalty
    from lrgittins.simulate import low_rank_scores, simulate_comparisons

    votes = simulate_comparisons(low_rank_scores(8, 9, 2, random_state=1), 4000, random_state=2)
    expected = fit_nuclear_norm(votes._table.cells(), reference_penalty(4000, 8, 9))
    np.testing.assert_array_equal(study("figure2_error").initializer(votes, 2), expected.scores)


# -- table 2 ------------------------------------------------------------------------------------------------------------


def tangent_basis(truth: NDArray[np.float64], rank: int) -> NDArray[np.float64]:
    """Orthonormal basis of {A V' + U B', B'1 = 0} at `truth`, found from spanning matrices: the slow, obvious way."""
    u, _, vt = np.linalg.svd(truth, full_matrices=False)
    spanning = []
    for t in range(truth.shape[0]):
        for k in range(rank):
            spanning.append(np.outer(np.eye(truth.shape[0])[t], vt[k]))
    for m in range(truth.shape[1]):
        for k in range(rank):
            spanning.append(np.outer(u[:, k], np.eye(truth.shape[1])[m] - 1.0 / truth.shape[1]))
    left, size, _ = np.linalg.svd(np.array([matrix.ravel() for matrix in spanning]).T, full_matrices=False)
    return left[:, size > 1e-10]


@pytest.mark.oracle
def test_the_efficient_variance_is_that_of_the_dense_fisher_matrix(study: Callable[[str], ModuleType]) -> None:
    module = study("table2_joint_normality")
    from lrgittins.simulate import low_rank_scores

    truth = low_rank_scores(5, 6, 2, random_state=3).to_numpy()
    basis = tangent_basis(truth, 2)
    assert basis.shape[1] == 2 * (5 + 6 - 1 - 2)
    fisher = np.zeros((basis.shape[1], basis.shape[1]))
    for t in range(5):
        for a in range(6):
            for b in range(a + 1, 6):
                x = np.zeros_like(truth)
                x[t, a], x[t, b] = 1.0, -1.0
                z = basis.T @ x.ravel()
                p = 1.0 / (1.0 + np.exp(-(truth[t, a] - truth[t, b])))
                fisher += p * (1.0 - p) / (5 * 15) * np.outer(z, z)
    gaps = module.choose_gaps(5, 6, 6)
    expected = []
    for t, a, b in gaps:
        x = np.zeros_like(truth)
        x[t, a], x[t, b] = 1.0, -1.0
        z = basis.T @ x.ravel()
        expected.append(z @ np.linalg.solve(fisher, z) / 700)
    np.testing.assert_allclose(module.efficient_variance(truth, gaps, 700, 2), expected, rtol=1e-9)


def test_the_gaps_come_in_pairs_of_one_task_and_of_two(study: Callable[[str], ModuleType]) -> None:
    module = study("table2_joint_normality")
    gaps = module.choose_gaps(50, 50)
    assert len(gaps) == 2 * module.N_PAIRS >= 200
    first, second = gaps[0::2], gaps[1::2]
    half = module.N_PAIRS // 2
    assert all(x[0] == y[0] and x[1] == y[1] and x[2] != y[2] for x, y in zip(first[:half], second[:half], strict=True))
    assert all(x[0] != y[0] and x[1:] == y[1:] for x, y in zip(first[half:], second[half:], strict=True))
    assert gaps == module.choose_gaps(50, 50)
    assert all(x[0] != y[0] for x, y in zip(*[iter(module.choose_gaps(3, 2, 4))] * 2, strict=True))  # two models: no gap shares one


@pytest.mark.oracle
def test_ellipses_cover_as_the_inverse_covariance_says(study: Callable[[str], ModuleType]) -> None:
    module = study("table2_joint_normality")
    rng = np.random.default_rng(0)
    root = rng.normal(size=(40, 3, 2, 2))
    covariance = root @ root.transpose(0, 1, 3, 2) + 0.05 * np.eye(2)
    error = rng.normal(size=(40, 3, 2))
    expected = np.einsum("tpi,tpij,tpj->tp", error, np.linalg.inv(covariance), error) <= -2.0 * np.log(0.05)
    variance = np.einsum("tpii->tpi", covariance)
    found = module.ellipse_covered(error.reshape(40, 6), variance.reshape(40, 6), covariance[:, :, 0, 1])
    np.testing.assert_array_equal(found, expected)
    assert 0.1 < expected.mean() < 0.9


@pytest.mark.statistical
def test_the_variance_ratio_is_unbiased_at_few_trials(study: Callable[[str], ModuleType]) -> None:
    module = study("table2_joint_normality")
    estimate = np.random.default_rng(1).normal(scale=2.0, size=(12, 20_000))
    ratios = module.variance_ratio(estimate, np.full(estimate.shape, 4.0))
    # 4 standard errors of the mean; without the correction it is 11 / 9 = 1.22.
    assert abs(ratios.mean() - 1.0) < 4.0 * ratios.std() / np.sqrt(len(ratios)) < 0.05


def test_the_jackknife_of_a_mean_is_its_standard_error(study: Callable[[str], ModuleType]) -> None:
    values = np.random.default_rng(2).normal(size=30)
    mean, error = study("table2_joint_normality").jackknife(lambda index: float(values[index].mean()), 30)
    assert mean == pytest.approx(values.mean()) and error == pytest.approx(values.std(ddof=1) / np.sqrt(30))


# -- tables 5 to 7 ------------------------------------------------------------------------------------------------------


def test_a_subsample_holds_votes_of_the_file_and_keeps_its_labels(study: Callable[[str], ModuleType]) -> None:
    module = study("tables5_7_arena_shape")
    truth, votes = module.simulate_arena(np.random.default_rng(5), 20_000)
    part = module.subsample(votes, 0.3, np.random.default_rng(6))
    assert part.n == 6000 and list(part.tasks) == list(votes.tasks) and list(part.models) == list(truth.columns)
    key = ["task", "model_a", "model_b"]
    joined = part.counts.merge(votes.counts, on=key, how="left", suffixes=("", "_all"))
    for outcome in ("wins", "losses"):
        assert (joined[outcome] <= joined[f"{outcome}_all"]).all()
    # Uneven, as the docstring says: the largest task has several times the votes of the smallest.
    size = votes.counts.assign(n=lambda f: f.wins + f.losses).groupby("task").n.sum()
    assert size.max() > 3 * size.min()


def test_shares_of_certificates_add_up(study: Callable[[str], ModuleType]) -> None:
    own, reference = np.array([[1, 1, 1, 0], [-1, -1, 0, 0]]), np.array([[1, -1, 0, 1], [-1, 0, 0, -1]])
    found = study("tables5_7_arena_shape").compare_certificates(own, reference)
    assert found == {"resolved": 5 / 8, "agree": 2 / 8, "contradict": 1 / 8, "new": 2 / 8}


def test_a_real_vote_file_is_its_own_reference_and_has_no_truth(study: Callable[[str], ModuleType], tmp_path: Path) -> None:
    module = study("tables5_7_arena_shape")
    rng = np.random.default_rng(7)
    a, b = rng.integers(6, size=3000), rng.integers(1, 6, size=3000)
    b = (a + b) % 6
    won = rng.random(3000) < 1.0 / (1.0 + np.exp((a - b) * 0.5))
    tied = rng.random(3000) < 0.1
    winner = np.where(tied, "tie", np.where(won, "model_a", "model_b"))
    names = np.array([f"m{i}" for i in range(6)])
    frame = pd.DataFrame({"task": rng.choice(["x", "y"], 3000), "model_a": names[a], "model_b": names[b], "winner": winner})
    file, out = tmp_path / "votes.csv", tmp_path / "rows.jsonl"
    frame.to_csv(file, index=False)
    arguments = ["--data", file, "--rank", 1, "--trials", 1, "--fraction", "0.5", "--out", out]
    result = run(module, arguments)
    assert result.exit_code == 0, result.output
    assert "3,000 votes" in result.stdout and "truth" not in result.stdout.replace("against the truth", "")
    rows = pd.DataFrame(rows_of(out)[0])
    assert not any("truth" in name or "bands" in name or "correct" in name for name in rows.columns)
    whole = rows[rows.fraction == 1.0]
    assert (whole["hamming 3 full"] == 0.0).all() and (whole["cell contradict"] == 0.0).all()
    assert (whole["cell agree"] == whole["cell resolved"]).all() and (whole["cell resolved"] > 0.0).all()
    refused = run(module, [*arguments, "--votes", 500])
    assert refused.exit_code == 2 and "used whole" in refused.stderr
