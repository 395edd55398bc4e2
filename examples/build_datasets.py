"""Rebuild the data files bundled with the package from a folder with their sources.

    python examples/build_datasets.py --data FOLDER [--out lrgittins/data]

FOLDER holds llmfao_crowd_pairs.csv, wildbench_scores.parquet and model_prices_litellm.csv (see NOTICE for where they come from).
The output is reproducible byte for byte: sorted rows, gzip without a time stamp.
"""

from __future__ import annotations

import argparse
import gzip
from pathlib import Path

import pandas as pd

# Price row of every WildBench model. Where the table has no row for a model, the price class of its size stands in.
PRICE_ROWS = {
    "Llama-3-8B-OpenHermes-243K": ("together-ai-4.1b-8b", "size class"),
    "Llama-3-8B-ShareGPT-112K": ("together-ai-4.1b-8b", "size class"),
    "Llama-3-8B-Tulu-330K": ("together-ai-4.1b-8b", "size class"),
    "Llama-3-8B-Ultrachat-200K": ("together-ai-4.1b-8b", "size class"),
    "Llama-3-8B-WildChat": ("together-ai-4.1b-8b", "size class"),
    "Llama-3-8B-WizardLM-196K": ("together-ai-4.1b-8b", "size class"),
    "Phi-3-mini-128k-instruct": ("fireworks_ai/accounts/fireworks/models/phi-3-mini-128k-instruct", "list price"),
    "Qwen1.5-72B-Chat-greedy": ("fireworks_ai/accounts/fireworks/models/qwen1p5-72b-chat", "list price"),
    "gemma-2b-it": ("fireworks_ai/accounts/fireworks/models/gemma-2b-it", "list price"),
    "gemma-7b-it": ("fireworks_ai/accounts/fireworks/models/gemma-7b-it", "list price"),
    "gpt-3.5-turbo-0125": ("gpt-3.5-turbo-0125", "list price"),
    "reka-flash-20240226": ("together-ai-8.1b-21b", "size class"),
}


def build_llmfao(source: Path) -> pd.DataFrame:
    """Crowd votes as published: left answer is model_a."""
    return pd.read_csv(source / "llmfao_crowd_pairs.csv", dtype=str, keep_default_na=False)


def build_wildbench_scores(source: Path) -> pd.DataFrame:
    """Scores 1 to 10 of version v2.0522 by gpt-4-turbo; absent rows stay absent."""
    scores = pd.read_parquet(source / "wildbench_scores.parquet")
    chosen = scores[(scores["version"] == "v2.0522") & scores["judge"].str.startswith("gpt-4-turbo")]
    frame = chosen[["model", "item"]].assign(score_raw=chosen["score_raw"].astype(int))
    return frame.sort_values(["model", "item"], ignore_index=True)


def build_wildbench_prices(source: Path) -> pd.DataFrame:
    """USD per million tokens of every WildBench model, with the row of the price table it comes from."""
    prices = pd.read_csv(source / "model_prices_litellm.csv").set_index("model")
    rows = []
    for model, (row, basis) in sorted(PRICE_ROWS.items()):
        price = prices.loc[row]
        rows.append((model, float(price["usd_per_1m_input"]), float(price["usd_per_1m_output"]), row, basis))
    return pd.DataFrame(rows, columns=["model", "usd_per_1m_input", "usd_per_1m_output", "price_row", "basis"])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with the source files")
    parser.add_argument("--out", type=Path, default=Path(__file__).resolve().parents[1] / "lrgittins" / "data")
    args = parser.parse_args()
    args.out.mkdir(parents=True, exist_ok=True)
    for name, build in (
        ("llmfao_crowd_pairs", build_llmfao),
        ("wildbench_scores", build_wildbench_scores),
        ("wildbench_prices", build_wildbench_prices),
    ):
        frame = build(args.data)
        data = gzip.compress(frame.to_csv(index=False, lineterminator="\n").encode(), compresslevel=9, mtime=0)
        path = args.out / f"{name}.csv.gz"
        path.write_bytes(data)
        print(f"{path}: {len(frame)} rows, {len(data)} bytes")


if __name__ == "__main__":
    main()
