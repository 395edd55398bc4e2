"""Shared by the studies: trials with seeds of their own, in parallel, resumable, with progress."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click
import joblib
import numpy as np
import pandas as pd
from tqdm import tqdm


def study_options(trials: int) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options every study takes."""

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        for option in (
            click.option(
                "--out", type=click.Path(path_type=Path), help="JSON Lines file of finished trials; a second run goes on from it."
            ),
            click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the whole study."),
            click.option("--jobs", default=1, show_default=True, type=int, help="Worker processes (joblib)."),
            click.option("--trials", default=trials, show_default=True, type=click.IntRange(min=1), help="Independent repetitions."),
        ):
            function = option(function)
        return function

    return decorate


def run_trials(
    worker: Callable[..., list[dict[str, Any]]], settings: list[dict[str, Any]], *, name: str, seed: int, jobs: int, out: Path | None
) -> list[dict[str, Any]]:
    """Run ``worker(rng, **setting)`` for every setting; returns all rows, in the order of `settings`.

    Each setting has its own stream, spawned from (seed, its position), so results depend neither on `jobs` nor on what an
    earlier, interrupted run had finished. Rows of finished settings are appended to `out` as they come.
    """
    done: dict[int, list[dict[str, Any]]] = {}
    header = {"study": name, "seed": seed}
    if out is not None and out.exists():
        lines = [json.loads(line) for line in out.read_text().splitlines() if line.endswith("}")]
        if not lines or {key: lines[0].get(key) for key in header} != header:
            raise click.ClickException(f"{out} was not written by this study with this seed; give another --out")
        for line in lines[1:]:
            if line["position"] < len(settings) and line["setting"] == settings[line["position"]]:
                done[line["position"]] = line["rows"]
    elif out is not None:
        out.write_text(json.dumps(header) + "\n")
    streams = np.random.SeedSequence(seed).spawn(len(settings))
    todo = [position for position in range(len(settings)) if position not in done]

    def one(position: int) -> tuple[int, list[dict[str, Any]]]:
        return position, worker(np.random.default_rng(streams[position]), **settings[position])

    finished = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(joblib.delayed(one)(position) for position in todo)
    for position, rows in tqdm(finished, total=len(todo), desc=name, unit="trial"):
        done[position] = rows
        if out is not None:
            with out.open("a") as file:
                file.write(json.dumps({"position": position, "setting": settings[position], "rows": rows}) + "\n")
    return [row for position in range(len(settings)) for row in done[position]]


def report_measures(frame: pd.DataFrame, measures: Sequence[str], baseline: str) -> None:
    """Print mean and Monte Carlo error of every measure per method; below, width and certificates against `baseline` on the same data."""
    click.echo(f"{'mean (Monte Carlo error)':>38} " + " ".join(f"{name:>14}" for name in measures))
    means = {}
    for method in frame.method.unique():
        rows = frame[frame.method == method]
        cells = [mean_and_error(rows[name].to_numpy()) for name in measures]
        means[method] = {name: mean for name, (mean, _) in zip(measures, cells, strict=True)}
        click.echo(f"{method:>38} " + " ".join(f"{f'{mean:.3f} ({error:.3f})':>14}" for mean, error in cells))
    click.echo(f"\nRatio to {baseline} on the same data")
    for method, own in means.items():
        shown = " ".join(f"{name} {own[name] / means[baseline][name]:.3f}" for name in ("width", "certified"))
        click.echo(f"{method:>38}  {shown}")


def report_by_theta(frame: pd.DataFrame, measure: str) -> None:
    """Print one measure per score matrix."""
    thetas = sorted(frame.theta.unique())
    click.echo(f"\n{measure} per score matrix (seeds {', '.join(map(str, thetas))})")
    for method in frame.method.unique():
        cells = [mean_and_error(frame[(frame.method == method) & (frame.theta == theta)][measure].to_numpy()) for theta in thetas]
        click.echo(f"{method:>38} " + " ".join(f"{f'{mean:.3f} ({error:.3f})':>14}" for mean, error in cells))


def mean_and_error(values: np.ndarray) -> tuple[float, float]:
    """Mean over trials and its Monte Carlo standard error (NaN for one trial)."""
    error = float(values.std(ddof=1) / np.sqrt(len(values))) if len(values) > 1 else float("nan")
    return float(values.mean()), error
