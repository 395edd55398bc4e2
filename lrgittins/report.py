"""Boards and comparisons as one HTML file each: no external assets, every name escaped, no plotting library.

Needs jinja2 (extra ``report``), imported when a report is made. The same result gives the same bytes: a report carries no date.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.metadata
import math
import platform
import unicodedata
from functools import lru_cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

import pandas as pd

from ._claims import claim_sentences
from ._optional import import_optional
from ._report_pictures import curve_picture, interval_picture
from .comparison import ALL
from .errors import ParameterError
from .scales import check_scale, parse_anchor, rescale_board

if TYPE_CHECKING:
    from .board import Leaderboard
    from .comparison import PolicyComparison

_LIBRARIES = ("numpy", "scipy", "numba", "pandas")
_BIDI_CONTROLS = frozenset("\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069")  # Unicode's property Bidi_Control
_STATUS = {"ok": "ok", "failed": "failed", "not_checked": "not checked"}


def board_html(board: Leaderboard, *, title: str | None = None, scale: str = "natural", anchor: Any = None) -> str:
    """The page of a board; see `Leaderboard.to_html`."""
    units = check_scale(scale)
    frame = rescale_board(board._frame, scale, anchor)
    wanted = parse_anchor(anchor, units)
    tasks: list[dict[str, Any]] = [
        {"name": task, "summary": _summary(rows, board), "picture": interval_picture(rows, board)}
        for task, rows in frame.groupby("task", sort=False)
    ]
    shown = "score and std_error in " + units.unit
    if wanted is not None:
        shown += f", shifted so that {wanted[0]!r} has {wanted[1]:g} on every task"
    return _render(
        "board.html.j2",
        title=check_title(title, f"Leaderboard: the top {board.top_k} of {board.n_models} models"),
        claim=claim_sentences(board),
        top_k=board.top_k,
        has_intervals=board.n_draws > 0,
        tasks=tasks,
        choices=[(task["name"], task["name"]) for task in tasks],
        table=_board_table(frame, units.unit, units.digits, several=len(tasks) > 1),
        diagnostics=[_diagnostic(name, entry) for name, entry in board.diagnostics.items()],
        failed=[name.replace("_", " ") for name, entry in board.diagnostics.items() if entry["status"] == "failed"],
        notes=list(board.notes),
        made=[("shown", shown), *_board_options(board), *_versions()],
        data=board.to_dict(scale=scale, anchor=anchor),
    )


def comparison_html(comparison: PolicyComparison, *, title: str | None = None) -> str:
    """The page of a comparison; see `PolicyComparison.to_html`."""
    names = list(comparison.matrices)
    shown = [*names, *([ALL] if len(names) > 1 else [])]
    matrices: list[dict[str, Any]] = [
        {"name": name, "title": _matrix_name(name), "picture": curve_picture(comparison, name)} for name in shown
    ]
    return _render(
        "comparison.html.j2",
        title=check_title(title, f"Which configuration to evaluate next: {len(comparison.policies)} policies"),
        facts=[_matrix_line(comparison, name) for name in names],
        n_runs=comparison.n_runs,
        matrices=matrices,
        choices=[(matrix["name"], matrix["title"]) for matrix in matrices],
        any_stop=any(curve["stop"] for matrix in matrices for curve in matrix["picture"]["curves"]),
        table=_regret_table(comparison, several=len(shown) > 1),
        stops=_stop_table(comparison, several=len(names) > 1),
        made=[
            ("budget", f"{100 * comparison.budget:g} % of the cost of evaluating everything"),
            ("runs of each policy", f"{comparison.n_runs}"),
            ("batches that would cross the budget", "refused (strict)" if comparison.strict else "let through once"),
            ("seed", _seed(comparison.random_state)),
            *_versions(),
        ],
        data=comparison.to_dict(),
    )


# ------------------------------------------------------------------------------------------------------- rendering


def check_title(title: Any, default: str) -> str:
    if title is None:
        return default
    if not isinstance(title, str) or not title.strip():
        raise ParameterError(f"title must be a non-empty text, got {title!r:.80}")
    return title


@lru_cache(maxsize=1)
def _environment() -> Any:
    jinja2: Any = import_optional("jinja2", extra="report", purpose="writing an HTML report")
    environment = jinja2.Environment(
        loader=jinja2.PackageLoader("lrgittins", "templates"),
        autoescape=True,  # also of .j2 files, whose names would switch it off
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["shown"] = printable
    return environment


def _render(template: str, **context: Any) -> str:
    import_optional("jinja2", extra="report", purpose="writing an HTML report")
    environment = _environment()
    folder = files("lrgittins") / "templates"
    script = (folder / "report.js").read_text(encoding="utf-8")
    # Only this script may run: the browser itself refuses any other, wherever it came from.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    markup: Any = import_optional("markupsafe", extra="report", purpose="writing an HTML report").Markup
    page: str = environment.get_template(template).render(
        script=markup(script), script_hash=digest, style=markup((folder / "report.css").read_text(encoding="utf-8")), **context
    )
    return page


def printable(text: Any) -> str:
    """Text without the characters HTML cannot hold or that would change what stands around them; every other one stays as it is.

    Replaced are control characters, lone surrogates, bidi controls and the line and paragraph separators. Spaces of any width and the
    joiners inside emoji and Indic or Persian words are part of a name.
    """
    return "".join("\ufffd" if _replaced(character) else character for character in str(text))


def _replaced(character: str) -> bool:
    return character not in "\n\t" and (unicodedata.category(character) in ("Cc", "Cs", "Zl", "Zp") or character in _BIDI_CONTROLS)


# ---------------------------------------------------------------------------------------------------------- tables


def _cell(text: str, value: float | str | None = None, **more: Any) -> dict[str, Any]:
    """What is read, and what is sorted by: a number, a text, or None for what sorts last."""
    if isinstance(value, float) and math.isnan(value):
        value = None
    return {"text": text, "value": value, "kind": "", **more}


def _column(label: str, *, text: bool = False, title: str = "") -> dict[str, Any]:
    return {"label": label, "text": text, "title": title}


def _number(value: float | None, digits: int) -> str:
    if value is None or math.isnan(value):
        return "\u2013"
    if math.isinf(value):
        return "\u221e" if value > 0 else "-\u221e"
    text = f"{value:.{digits}f}"
    return text.replace("-", "\u2212") if float(text) else f"{0:.{digits}f}"


def _summary(rows: pd.DataFrame, board: Leaderboard) -> str:
    counts = rows["certificate"].value_counts()
    inside, outside, unresolved = (int(counts.get(name, 0)) for name in ("top-k", "not-top-k", "unresolved"))
    return f"{inside} certified in the top {board.top_k}, {outside} certified not in it, {unresolved} unresolved"


def _board_table(frame: pd.DataFrame, unit: str, digits: int, *, several: bool) -> dict[str, Any]:
    columns = [
        *([_column("task", text=True)] if several else []),
        _column("rank", title="place by estimated score"),
        _column("rank interval", title="best and worst place that the claim allows"),
        _column("model", text=True),
        _column("certificate", text=True),
        _column("score", title=f"in {unit}"),
        _column("std. error", title=f"of the score, in {unit}; \u221e where the votes leave it open"),
        _column("votes", title="of the model on the task"),
    ]
    rows = []
    records: Any = frame.itertuples(index=False)
    for row in records:
        missing = row.rank_low is pd.NA
        interval = (
            _cell("\u2013") if missing else _cell(f"{row.rank_low} \u2013 {row.rank_high}", float(row.rank_low) + row.rank_high * 1e-9)
        )
        cells = [
            _cell(str(row.rank), float(row.rank)),
            interval,
            _cell(row.model, row.model, kind="name"),
            _cell(row.certificate.replace("-", " "), row.certificate, kind=row.certificate),
            _cell(_number(row.score, digits), float(row.score)),
            _cell(_number(row.std_error, digits), float(row.std_error)),
            _cell(f"{row.n:,}", float(row.n)),
        ]
        rows.append({"group": row.task, "cells": [_cell(row.task, row.task, kind="name"), *cells] if several else cells})
    return {"columns": columns, "rows": rows, "caption": "Scores, ranks and certificates"}


def _regret_table(comparison: PolicyComparison, *, several: bool) -> dict[str, Any]:
    at = comparison.at()
    fractions = list(dict.fromkeys(at["cost_fraction"]))
    columns = [
        *([_column("matrix", text=True)] if several else []),
        _column("policy", text=True),
        *(_column(f"at {100 * fraction:.4g} %", title="mean simple regret \u00b1 one standard error") for fraction in fractions),
    ]
    rows = []
    for key, group in at.groupby(["matrix", "policy"], sort=False):
        matrix, policy = map(str, key)
        cells = [_cell(comparison.policies[policy], comparison.policies[policy], kind="name")]
        for mean, error in zip(group["regret"], group["std_error"], strict=True):
            cells.append(_cell(_with_error(mean, error, 4), float(mean)))
        name = _matrix_name(matrix)
        rows.append({"group": matrix, "cells": [_cell(name, name, kind="name"), *cells] if several else cells})
    return {"columns": columns, "rows": rows, "caption": "Simple regret by share of the full cost that is spent"}


def _stop_table(comparison: PolicyComparison, *, several: bool) -> dict[str, Any]:
    columns = [
        *([_column("matrix", text=True)] if several else []),
        _column("policy", text=True),
        _column("runs that stop"),
        _column("cost when they do", title="mean share of the full cost \u00b1 one standard error"),
        _column("regret of the best completed arm"),
        _column("net utility", title="score of that arm less the price of the cost"),
    ]
    rows = []
    records: Any = comparison.stop_summary().itertuples(index=False)
    for row in records:
        if not row.stopped:
            continue
        label = comparison.policies[row.policy]
        cells = [
            _cell(label, label, kind="name"),
            _cell(f"{row.stopped:.0%}", float(row.stopped)),
            _cell(f"{_with_error(100 * row.cost_fraction, 100 * row.cost_fraction_std_error, 2)} %", float(row.cost_fraction)),
            _cell(_with_error(row.completed_regret, row.completed_regret_std_error, 4), float(row.completed_regret)),
            _cell(_with_error(row.net_utility, row.net_utility_std_error, 4), float(row.net_utility)),
        ]
        rows.append({"group": row.matrix, "cells": [_cell(row.matrix, row.matrix, kind="name"), *cells] if several else cells})
    return {"columns": columns, "rows": rows, "caption": "Stop signals"}


def _with_error(mean: float, error: float, digits: int) -> str:
    return _number(mean, digits) + ("" if math.isnan(error) or math.isnan(mean) else f" \u00b1 {_number(error, digits)}")


# ------------------------------------------------------------------------------------------------------- how it was made


def _diagnostic(name: str, entry: dict[str, Any]) -> dict[str, str]:
    value = entry["value"]
    text = "" if value is None else f"{value:.4g}" if isinstance(value, float) else str(value)
    return {
        "name": name.replace("_", " "),
        "status": _STATUS[entry["status"]],
        "key": entry["status"],
        "value": text,
        "detail": entry["detail"],
    }


def _board_options(board: Leaderboard) -> list[tuple[str, str]]:
    critical = board.critical_value
    if isinstance(critical, pd.Series):
        known = critical.dropna()
        text = f"{known.min():.3f} to {known.max():.3f} over {len(critical)} claims" if len(known) else "none"
    else:
        text = "none" if math.isnan(critical) else f"{critical:.3f}"
    splits = board.n_splits
    return [
        ("top_k", str(board.top_k)),
        ("alpha", f"{board.alpha:.12g}"),
        ("family", board.family if isinstance(board.family, str) else ": ".join(board.family)),
        ("method", board.method),
        (
            "calibration",
            board.calibration + (f", {board.n_folds} folds" if board.n_folds > 1 else "") + (f", {splits} splits" * (splits > 1)),
        ),
        ("design", board.design),
        ("critical value", text),
        ("bootstrap draws", f"{board.n_draws:,}"),
        ("seed", _seed(board.random_state)),
    ]


def _seed(seed: Any) -> str:
    return "fresh randomness, not kept" if seed is None else str(seed)


def _versions() -> list[tuple[str, str]]:
    from . import __version__

    known = []
    for name in _LIBRARIES:
        try:
            known.append(f"{name} {importlib.metadata.version(name)}")
        except importlib.metadata.PackageNotFoundError:  # pragma: no cover
            continue
    return [("report written by", f"lrgittins {__version__}, Python {platform.python_version()}, {', '.join(known)}")]


def _matrix_name(name: str) -> str:
    return {ALL: "mean over all", "responses": "the matrix"}.get(name, name)


def _matrix_line(comparison: PolicyComparison, name: str) -> str:
    facts = comparison.matrices[name]
    best = facts.arms[int(facts.row_means.argmax())]
    called = "" if name == "responses" else f"{name}: "
    return f"{called}{len(facts.arms):,} arms; the best is {best}, mean score {facts.row_means.max():.3f}."
