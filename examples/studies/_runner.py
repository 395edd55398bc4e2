"""Shared by the studies: their options, trials with seeds of their own, in parallel, resumable, with progress."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import click
import joblib
import numpy as np
import pandas as pd
from _board import Board, file_fingerprint, read_scores
from tqdm import tqdm

from lrgittins._optional import require_optional
from lrgittins.errors import LRGittinsError

PICTURES = (".png", ".svg", ".pdf")
DATA_HELP = {
    "scores": "Table of true scores (CSV or Parquet: a row per task, first its name, then a column per model) used, centred, in place of "
    "the simulated ones.",
    "votes": "File of real votes (columns task, model_a, model_b, winner) used in place of the simulated ones.",
}


class StudyError(click.ClickException):
    """Bad input: one line on stderr, exit code 2."""

    exit_code = 2


def study_options(
    trials: int, *, votes: tuple[int, ...] | None = None, rank: int = 5, data: str = "scores", picture: bool = False
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """The options every study takes; errors of the library end in one line and exit code 2.

    Parameters
    ----------
    trials : int
        Default of ``--trials``.
    votes : tuple of int, optional
        For studies of simulated votes, their default numbers: adds ``--data``, ``--votes`` and ``--rank`` (default `rank`), which reach
        the study as one `Board`, its argument `board`.
    data : {"scores", "votes"}
        What ``--data`` is: a table of true scores, which the board holds, or a file of votes, which the study reads (argument `data`).
    picture : bool
        Adds ``--picture FILE``; matplotlib and the file's kind are checked before any work.
    """

    def decorate(function: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(function)
        def checked(**options: Any) -> None:
            try:
                if picture:
                    _check_picture(options["picture"])
                if votes is not None:
                    path, scores = options["data"], None
                    if data == "scores":
                        del options["data"]
                        scores = None if path is None else read_scores(path)
                    options["board"] = _make_board(path, scores, options.pop("votes"), options.pop("rank"), votes, rank)
                function(**options)
            except (LRGittinsError, OSError) as error:
                raise StudyError(str(error)) from error

        decorated: Callable[..., None] = checked
        for option in [
            *(_picture_options() if picture else []),
            *(_board_options(votes, rank, data) if votes else []),
            *_common_options(trials),
        ]:
            decorated = option(decorated)
        return decorated

    return decorate


def _common_options(trials: int) -> list[Callable[..., Any]]:
    out = click.Path(path_type=Path, dir_okay=False)
    return [
        click.option("--out", type=out, help="JSON Lines file of finished trials; a second run goes on from it."),
        click.option("--seed", default=0, show_default=True, type=click.IntRange(min=0), help="Seed of the whole study."),
        click.option("--jobs", default=1, show_default=True, type=int, callback=_check_jobs, help="Worker processes (joblib)."),
        click.option("--trials", default=trials, show_default=True, type=click.IntRange(min=1), help="Independent repetitions."),
    ]


def _board_options(votes: tuple[int, ...], rank: int, data: str) -> list[Callable[..., Any]]:
    shown = ", ".join(f"{n:,}" for n in votes)
    several = len(votes) > 1
    return [
        click.option(
            "--rank",
            default=str(rank),
            show_default=True,
            callback=_parse_rank,
            help="Rank given to the low-rank fits (that of the simulated scores is theirs), or auto.",
        ),
        click.option(
            "--votes",
            type=click.IntRange(min=1),
            multiple=several,
            help=f"Votes of a data set{' (repeatable)' if several else ''}.  [default: {shown}]",
        ),
        click.option(
            "--data",
            type=click.Path(path_type=Path),
            help=DATA_HELP[data],
        ),
    ]


def _picture_options() -> list[Callable[..., Any]]:
    return [click.option("--picture", type=click.Path(path_type=Path, dir_okay=False), help="Draw the figure to this .png, .svg or .pdf.")]


def _check_jobs(context: click.Context, option: click.Parameter, value: int) -> int:
    if value == 0:
        raise click.BadParameter("0 worker processes can do nothing; use 1 or more, or -1 for all cores")
    return value


def _parse_rank(context: click.Context, option: click.Parameter, value: str) -> int | str:
    if value == "auto":
        return value
    if not value.isdigit() or int(value) < 1:
        raise click.BadParameter(f"{value!r} is neither a whole number from 1 up nor 'auto'")
    return int(value)


def _check_picture(picture: Path | None) -> None:
    if picture is None:
        return
    if picture.suffix.lower() not in PICTURES:
        raise StudyError(f"--picture {picture}: the name must end in one of {', '.join(PICTURES)}")
    require_optional("matplotlib", extra="plot", purpose="--picture")


def _make_board(
    data: Path | None, scores: pd.DataFrame | None, votes: Any, rank: int | str, default_votes: tuple[int, ...], default_rank: int
) -> Board:
    """What was asked for; `header` says what differs from the paper's setting, so that a resumed run is the same run."""
    wanted = default_votes if votes in (None, ()) else tuple(sorted(set(votes))) if isinstance(votes, tuple) else (votes,)
    header: dict[str, Any] = {}
    if data is not None:
        header["data"] = file_fingerprint(data)
    if wanted != default_votes:
        header["votes"] = list(wanted)
    if rank != default_rank:
        header["rank"] = rank
    return Board(scores, wanted, rank, header)


def run_trials(
    worker: Callable[..., list[dict[str, Any]]],
    settings: list[dict[str, Any]],
    *,
    name: str,
    seed: int,
    jobs: int,
    out: Path | None,
    header: Mapping[str, Any] | None = None,
) -> list[dict[str, Any]]:
    """Run ``worker(rng, **setting)`` for every setting; returns all rows, in the order of `settings`.

    Each setting has its own stream, spawned from (seed, its position), so results depend neither on `jobs` nor on what an
    earlier, interrupted run had finished. Rows of finished settings are appended to `out` as they come. `header` is what, beside
    study and seed, an earlier run must agree in (a data file's fingerprint): strict JSON values.
    """
    first_line = {"study": name, "seed": seed, **(header or {})}
    done = {} if out is None else _open_results(out, first_line, settings)
    streams = np.random.SeedSequence(seed).spawn(len(settings))
    todo = [position for position in range(len(settings)) if position not in done]

    def one(position: int) -> tuple[int, list[dict[str, Any]]]:
        return position, worker(np.random.default_rng(streams[position]), **settings[position])

    finished = joblib.Parallel(n_jobs=jobs, return_as="generator_unordered")(joblib.delayed(one)(position) for position in todo)
    for position, rows in tqdm(finished, total=len(todo), desc=name, unit="trial"):
        done[position] = rows
        if out is not None:
            with out.open("a", encoding="utf-8") as file:
                file.write(json.dumps({"position": position, "setting": settings[position], "rows": rows}) + "\n")
    return [row for position in range(len(settings)) for row in done[position]]


def _open_results(out: Path, first_line: dict[str, Any], settings: list[dict[str, Any]]) -> dict[int, list[dict[str, Any]]]:
    """Finished settings of an earlier run; starts the file where there is none and cuts off a line that was not finished."""
    text = out.read_text(encoding="utf-8") if out.exists() else ""
    whole = text[: text.rfind("\n") + 1]
    if not text or (not whole and json.dumps(first_line).startswith(text)):  # killed while it wrote the first line
        out.write_text(json.dumps(first_line) + "\n", encoding="utf-8")
        return {}
    try:
        lines = [json.loads(line) for line in whole.splitlines()]
        done = {line["position"]: line for line in lines[1:]}
    except (ValueError, KeyError, TypeError):
        raise StudyError(f"{out} is not a file of finished trials; give another --out") from None
    if not lines or lines[0] != first_line:
        shown = json.dumps(lines[0])[:200] if lines else "an unfinished line"
        raise StudyError(f"{out} begins with {shown}, this run with {json.dumps(first_line)}: not the same study; give another --out")
    if whole != text:
        out.write_text(whole, encoding="utf-8")
    known = json.loads(json.dumps(settings))
    return {p: line["rows"] for p, line in done.items() if p < len(known) and line["setting"] == known[p]}


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
