"""Sample logs of lm-evaluation-harness as a response matrix: models by documents, joined by document id."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from .._tables import _integers_if_plain
from ..errors import ResponseError
from ..responses import ResponseMatrix
from ._source import is_missing, is_text_file, need_columns, nested, read_source, written_numbers

_WHAT = "lm-evaluation-harness samples"
_FILE = re.compile(r"samples_(?P<task>.+?)_\d{4}-\d{2}-\d{2}T[\d.:-]+\.jsonl(\.gz)?$")
# What the harness writes beside the metrics of a sample.
_FIELDS = {
    "doc_id", "doc", "target", "arguments", "resps", "filtered_resps", "filter", "metrics", "doc_hash", "prompt_hash",
    "target_hash", "task",
}  # fmt: skip
_log = logging.getLogger("lrgittins")


def from_lm_eval_samples(
    source: Any, *, metric: str | None = None, filter: str | None = None, tasks: Any = None, **options: Any
) -> ResponseMatrix:
    """Scores of every model on every document, from the files `samples_<task>_<time>.jsonl` that ``--log_samples`` writes.

    Documents are joined by `doc_id` (and checked by `doc_hash` where the log has it), never by position. A log with several filters has
    a row per document and filter: that is refused as duplicates until one filter is chosen.

    Parameters
    ----------
    source : path of a folder, or mapping of model to logs
        A folder with one subfolder per model, as the harness makes it; or for each model a file, a folder, a list of files, a frame or
        a list of dicts.
    metric : str, optional
        Which metric is the score; needed where the log has several.
    filter : str, optional
        Which filter's rows count, such as "strict-match" or "flexible-extract".
    tasks : str or list of str, optional
        Only these tasks of the logs. Documents of several tasks are named "task/doc_id".
    **options
        cost, score_range of `ResponseMatrix.from_frame`.

    Returns
    -------
    ResponseMatrix
        A document some model has no sample of is a missing cell. How many rows of other filters were left out is logged.

    Raises
    ------
    ResponseError
        No logs, missing fields, several filters or metrics to choose from, tasks without the filter, duplicates, or models run on other
        documents.
    """
    logs = _logs_of(source)
    wanted = None if tasks is None else {tasks} if isinstance(tasks, str) else set(tasks)
    known = sorted({task for found in logs.values() for task, _, _ in found})
    absent = sorted(map(repr, (wanted or set()) - set(known)))
    if absent or (wanted is not None and not wanted):
        raise ResponseError(
            f"no samples of the tasks {', '.join(absent) or '[] (tasks= is empty)'}; the logs have {', '.join(map(repr, known))}"
        )
    parts = [
        _prepare(frame, model, task, origin)
        for model, found in logs.items()
        for task, origin, frame in found
        if wanted is None or task in wanted
    ]
    rows = pd.concat(parts, ignore_index=True)
    rows = _choose_filter(rows, filter)
    score = _choose_metric(rows, metric)
    _check_documents(rows)
    several = rows["task"].nunique() > 1
    ids = rows["task"] + "/" + rows["doc_id"].astype(str) if several else rows["doc_id"]
    _refuse_repeats(rows, ids)
    table = pd.DataFrame({"arm": rows["model"], "example": ids, "score": [_value(v, score) for v in _column(rows, score)]})
    return ResponseMatrix.from_frame(table, **options)


def _logs_of(source: Any) -> dict[str, list[tuple[str, str, pd.DataFrame]]]:
    """Model -> (task, where it is from, samples)."""
    if isinstance(source, (str, os.PathLike)):
        folder = Path(source)
        if not folder.is_dir():
            hint = "; name the model: {'my-model': path}" if folder.is_file() else "; there is no such folder"
            raise ResponseError(f"{folder} is not a folder of sample logs{hint}")
        source = {child.name: child for child in sorted(folder.iterdir()) if child.is_dir() and _sample_files(child)}
        if not source:
            hint = "; its own files are of one model: pass {'my-model': folder}" if _sample_files(folder) else ""
            raise ResponseError(f"{folder} has no subfolders with files samples_<task>_<time>.jsonl (--log_samples writes them){hint}")
    if not isinstance(source, Mapping) or not source:
        raise ResponseError(f"samples must be a folder, or a non-empty mapping of model to logs, got {type(source).__name__}")
    return {str(model): _read_logs(str(model), given) for model, given in source.items()}


def _sample_files(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and _FILE.search(path.name))


def _read_logs(model: str, given: Any) -> list[tuple[str, str, pd.DataFrame]]:
    paths = [given] if isinstance(given, (str, os.PathLike)) else given
    if not (isinstance(paths, list) and paths and all(isinstance(path, (str, os.PathLike)) for path in paths)):
        frame = _read_samples(given, f"{_WHAT} of {model!r}")
        named = frame["task"].astype(str) if "task" in frame.columns else pd.Series("samples", index=frame.index)
        return [(task, f"the samples of {model!r}", part) for task, part in frame.groupby(named, sort=True)]
    files: list[Path] = []
    for path in map(Path, paths):
        inside = _sample_files(path) if path.is_dir() else [path]
        if not inside:
            raise ResponseError(f"{path} (model {model!r}) has no files samples_<task>_<time>.jsonl")
        files += inside
    out: dict[str, tuple[str, str, pd.DataFrame]] = {}
    for file in files:
        match = _FILE.search(file.name)
        task = match["task"] if match else file.name.split(".")[0]
        if task in out:
            raise ResponseError(f"model {model!r} has two logs of the task {task!r}: {out[task][1]} and {file}; pass the one that counts")
        out[task] = task, str(file), _read_samples(file, str(file))
    return list(out.values())


def _read_samples(source: Any, what: str) -> pd.DataFrame:
    """The samples; in a text file the metrics are numbers, names and hashes are not."""
    frame = read_source(source, ResponseError, what)
    if is_text_file(source):
        metrics = {name: written_numbers(frame[name]) for name in frame.columns if name not in _FIELDS}
        frame = frame.assign(**metrics, **{name: _integers_if_plain(frame[name]) for name in ("doc_id",) if name in frame.columns})
    return frame


def _prepare(frame: pd.DataFrame, model: str, task: str, origin: str) -> pd.DataFrame:
    need_columns(frame, ["doc_id"], f"{origin}: {_WHAT}", ResponseError)
    if frame["doc_id"].map(is_missing).any():
        raise ResponseError(f"{origin}: {int(frame['doc_id'].map(is_missing).sum())} samples have no doc_id")
    names = frame["filter"] if "filter" in frame.columns else pd.Series("none", index=frame.index)
    return frame.assign(model=model, task=task, filter=names.fillna("none").astype(str))


def _choose_filter(rows: pd.DataFrame, chosen: str | None) -> pd.DataFrame:
    known = sorted(rows["filter"].unique())
    listed = ", ".join(map(repr, known))
    if chosen is not None:
        if chosen not in known:
            raise ResponseError(f"the samples have no filter {chosen!r}; they have {listed}")
        has = rows.groupby(["task", "model"])["filter"].agg(lambda names: chosen in set(names))
        lacking = list(has.index[~has])
        if lacking:
            # All rows of these would be left out, and a whole task or model would go unseen.
            found = rows.groupby(["task", "model"])["filter"].agg(lambda names: ", ".join(map(repr, sorted(set(names)))))
            first = "; ".join(f"task {task!r} of model {model!r} has {found[task, model]}" for task, model in lacking[:8])
            more = f"; and {len(lacking) - 8} more" if len(lacking) > 8 else ""
            raise ResponseError(
                f"{len(lacking)} logs have no samples of the filter {chosen!r}: {first}{more}; choose the tasks that have it with tasks=, "
                "or read the others by themselves"
            )
        kept = rows[rows["filter"] == chosen]
        if len(kept) < len(rows):
            _log.info("%d of %d samples are of the filter %r; the others are left out", len(kept), len(rows), chosen)
        return kept
    per_task = rows.groupby("task")["filter"].nunique()
    if (per_task > 1).any():
        raise ResponseError(
            f"the samples of {per_task.idxmax()!r} are there once for every filter: duplicates; choose one with filter=: {listed}"
        )
    return rows


def _choose_metric(rows: pd.DataFrame, chosen: str | None) -> str:
    named: set[str] = set()
    if "metrics" in rows.columns:
        for value in rows["metrics"]:
            named.update(map(str, nested(value) or ()))
    if not named:
        plain = [name for name in rows.columns if name not in _FIELDS | {"model"}]
        named = {
            name for name in plain if rows[name].map(lambda v: isinstance(v, (bool, int, float, np.number)) and not is_missing(v)).any()
        }
    listed = ", ".join(map(repr, sorted(named))) or "none"
    if chosen is not None:
        if chosen not in named or chosen not in rows.columns:
            raise ResponseError(f"the samples have no metric {chosen!r}; they have {listed}")
        return chosen
    if len(named) != 1:
        raise ResponseError(f"the samples have {'several metrics' if named else 'no metric'}: {listed}; choose the score with metric=")
    (name,) = named
    if name not in rows.columns:
        raise ResponseError(f"the samples name the metric {name!r} but have no such field")
    return name


def _column(rows: pd.DataFrame, metric: str) -> list[Any]:
    values = rows[metric].tolist()
    missing = sum(map(is_missing, values))
    if missing:
        raise ResponseError(
            f"{missing} samples have no value of the metric {metric!r} (tasks may differ in their metrics: choose with tasks=)"
        )
    return values


def _value(value: Any, metric: str) -> float:
    if isinstance(value, (bool, int, float, np.number, np.bool_)):
        return float(value)
    raise ResponseError(f"the metric {metric!r} is {value!r:.60} for a sample, no number: it means something for a whole task only")


def _check_documents(rows: pd.DataFrame) -> None:
    """One document under one id: logs of other versions or other shuffles of a data set are not to be joined."""
    if "doc_hash" not in rows.columns:
        return
    known = rows[rows["doc_hash"].notna()]
    differing = known.groupby(["task", "doc_id"])["doc_hash"].nunique()
    differing = differing[differing > 1]
    if len(differing):
        task, doc = differing.index[0]
        raise ResponseError(
            f"{len(differing)} documents of the same id differ between models (doc_hash; first: doc_id {doc!r} of {task!r}): "
            "the models were run on other versions of the data"
        )


def _refuse_repeats(rows: pd.DataFrame, ids: pd.Series) -> None:
    again = pd.DataFrame({"model": rows["model"], "id": ids}).duplicated()
    if again.any():
        first: Any = again.idxmax()
        raise ResponseError(
            f"{int(again.sum())} duplicate samples (first: model {rows['model'][first]!r}, document {ids[first]!r}); keep one a document"
        )
