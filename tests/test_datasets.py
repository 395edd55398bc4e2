"""The bundled data are whole, small, attributed and can be rebuilt."""

from __future__ import annotations

import runpy
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from lrgittins import datasets

ROOT = Path(__file__).resolve().parents[1]


def test_llmfao() -> None:
    frame = datasets.load_llmfao_frame()
    assert list(frame.columns) == ["task", "task_type", "model_a", "model_b", "winner", "worker"]
    comparisons = datasets.load_llmfao()
    assert (comparisons.n, len(comparisons.tasks), len(comparisons.models)) == (8931, 13, 59)
    assert comparisons.summary()["ties"].sum() == 3471
    assert (comparisons.summary()["n_pieces"] == 1).all()
    assert datasets.load_llmfao(cluster="worker").summary().attrs["n_clusters"] == frame["worker"].nunique() == 124
    assert datasets.load_llmfao(ties="drop").n == 8931 - 3471


def test_wildbench() -> None:
    frame = datasets.load_wildbench_frame()
    assert list(frame.columns) == ["model", "item", "score"]
    assert len(frame) == 12_270 and frame["model"].nunique() == 12 and frame["item"].nunique() == 1024
    assert not frame.duplicated(["model", "item"]).any()
    assert frame["score"].between(0, 1).all() and frame["score"].nunique() == 10
    prices = datasets.load_wildbench_prices()
    assert sorted(prices["model"]) == sorted(frame["model"].unique())
    assert (prices[["usd_per_1m_input", "usd_per_1m_output"]] > 0).all(axis=None)
    assert set(prices["basis"]) == {"list price", "size class"}


def test_data_are_small_and_attributed() -> None:
    folder = ROOT / "lrgittins" / "data"
    files = sorted(folder.glob("*"))
    assert sum(path.stat().st_size for path in files) < 400_000
    notice = (ROOT / "NOTICE").read_text()
    for path in files:
        assert path.name in notice
    for word in ("CC BY 4.0", "Apache License 2.0", "MIT", "FFTW"):
        assert word in notice


def test_files_are_rebuilt(shared: Path, tmp_path: Path) -> None:
    pytest.importorskip("pyarrow")
    script = ROOT / "examples" / "build_datasets.py"
    subprocess.run([sys.executable, str(script), "--data", str(shared / "data"), "--out", str(tmp_path)], check=True, capture_output=True)
    for path in sorted(tmp_path.iterdir()):
        bundled = ROOT / "lrgittins" / "data" / path.name
        # compressed bytes depend on the zlib build, so contents are compared
        pd.testing.assert_frame_equal(pd.read_csv(path), pd.read_csv(bundled))


def test_scores_equal_the_source(shared: Path) -> None:
    pytest.importorskip("pyarrow")
    build = runpy.run_path(str(ROOT / "examples" / "build_datasets.py"))
    source = pd.read_parquet(shared / "data" / "wildbench_scores.parquet")
    source = source[(source["version"] == "v2.0522") & source["judge"].str.startswith("gpt-4-turbo")].set_index(["model", "item"])["score"]
    frame = datasets.load_wildbench_frame().set_index(["model", "item"])["score"]
    np.testing.assert_allclose(frame, source.loc[frame.index], atol=1e-7)  # the source is float32
    assert set(build["PRICE_ROWS"]) == set(frame.index.get_level_values(0))
