"""Counts on disk: JSON, JSON Lines, CSV or Parquet with a schema version, written atomically; no pickle."""

from __future__ import annotations

import gzip
import io
import json
import zlib
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ._files import write_atomically
from ._optional import import_optional
from ._votes import MAX_COUNT, MAX_TOTAL, Tally, VoteLog, Votes, group_votes
from ._winners import BOTH_BAD, BOTH_BAD_POLICIES, DECISIVE, TIE, TIE_POLICIES
from .errors import ComparisonError

SCHEMA = "lrgittins-counts"
SCHEMA_VERSION = 1
_SUFFIXES = (".json", ".jsonl", ".jsonl.gz", ".csv", ".csv.gz", ".parquet")
_KINDS = {DECISIVE: "preference", TIE: "tie", BOTH_BAD: "both_bad"}
_COLUMNS = ("task", "model_a", "model_b", "outcome", "verdict", "count")


def write_counts(path: Path, log: VoteLog, ties: str, both_bad: str) -> None:
    """Write a log without ids."""
    kind = _suffix(path)
    frame, head = _to_frame(log), _to_head(log, ties, both_bad)
    if kind == ".json":
        columns = {name: frame[name].tolist() for name in frame.columns}
        data = json.dumps({**head, "counts": columns}, allow_nan=False, ensure_ascii=False, indent=1).encode()
    elif kind == ".parquet":
        data = _parquet_bytes(frame, head)
    elif kind.startswith(".jsonl"):
        data = _jsonl_bytes(frame, head)
    else:
        frame = pd.concat([frame, _unseen_rows(log)], ignore_index=True)
        frame = frame.assign(ties=ties, both_bad=both_bad, schema_version=SCHEMA_VERSION)
        data = frame.to_csv(index=False, lineterminator="\n").encode()
    if kind.endswith(".gz"):
        data = gzip.compress(data, mtime=0)
    try:
        write_atomically(path, data)
    except OSError as error:
        raise ComparisonError(f"{path}: cannot be written ({error})") from error


def read_counts(path: Path) -> tuple[VoteLog, str, str]:
    """The log and both policies."""
    kind = _suffix(path)
    try:
        if kind == ".json":
            head = json.loads(path.read_text(encoding="utf-8-sig"))
            if not isinstance(head, dict) or not isinstance(head.get("counts"), dict):
                raise ComparisonError(f"{path}: is not a counts file of lrgittins (no counts); write one with write_counts")
            _check_version(path, head.get("schema"), head.get("schema_version"))
            frame = pd.DataFrame({str(name): pd.Series(values, dtype=object) for name, values in head["counts"].items()})
        elif kind == ".parquet":
            frame, head = _read_parquet(path)
        elif kind.startswith(".jsonl"):
            frame, head = _read_jsonl(path)
        else:
            frame = pd.read_csv(path, dtype=str, keep_default_na=False, na_filter=False, encoding="utf-8-sig", compression="infer")
            frame, head = _head_of_csv(path, frame)
    except ComparisonError:
        raise
    except (OSError, ValueError, EOFError, zlib.error, RecursionError) as error:
        raise ComparisonError(f"{path}: cannot be read as a counts file ({str(error)[:300]})") from error
    _check_head(path, head)
    return _from_frame(path, frame, head), head["ties"], head["both_bad"]


def _suffix(path: Path) -> str:
    name = path.name.lower()
    for suffix in sorted(_SUFFIXES, key=len, reverse=True):
        if name.endswith(suffix):
            return suffix
    raise ComparisonError(f"{path}: counts are kept as one of {', '.join(_SUFFIXES)}")


def _to_frame(log: VoteLog) -> pd.DataFrame:
    votes = log.counted
    assert votes is not None and log.single is None
    models = np.array(log.models, dtype=object)
    frame = pd.DataFrame(
        {
            "task": np.array(log.tasks, dtype=object)[votes.task],
            "model_a": models[votes.model_a],
            "model_b": models[votes.model_b],
            "outcome": votes.outcome,
            "verdict": np.array([_KINDS[kind] for kind in sorted(_KINDS)], dtype=object)[votes.kind],
            "count": votes.count,
        }
    )
    if votes.cluster is not None:
        frame["cluster"] = np.array(log.clusters, dtype=object)[votes.cluster]
    return frame


def _to_head(log: VoteLog, ties: str, both_bad: str) -> dict[str, Any]:
    dropped = [[reason, task, rows] for (reason, task), rows in sorted(log.tally.items(), key=lambda item: (item[0][0], item[0][1] or ""))]
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        "ties": ties,
        "both_bad": both_bad,
        "tasks": log.tasks,
        "models": log.models,
        "n_rows": log.n_rows,
        "dropped": dropped,
    }


def _unseen_rows(log: VoteLog) -> pd.DataFrame:
    """Rows with count 0 that carry labels without comparisons, for CSV, which has no header to hold them."""
    votes = log.counted
    assert votes is not None
    seen_tasks = set(votes.task.tolist())
    seen_models = {*votes.model_a.tolist(), *votes.model_b.tolist()}
    rows = [(task, log.models[0], log.models[1]) for code, task in enumerate(log.tasks) if code not in seen_tasks]
    for code, model in enumerate(log.models):
        if code not in seen_models:
            rows.append((log.tasks[0], model, log.models[0 if code else 1]))
    frame = pd.DataFrame(rows, columns=["task", "model_a", "model_b"]).assign(outcome=0.5, verdict="tie", count=0)
    if votes.cluster is not None:
        frame["cluster"] = ""
    return frame


def _parquet_bytes(frame: pd.DataFrame, head: dict[str, Any]) -> bytes:
    pa = import_optional("pyarrow", extra="arrow", purpose="writing Parquet counts")
    parquet = import_optional("pyarrow.parquet", extra="arrow", purpose="writing Parquet counts")
    table = pa.Table.from_pandas(frame, preserve_index=False).replace_schema_metadata({SCHEMA: json.dumps(head, ensure_ascii=False)})
    sink = io.BytesIO()
    parquet.write_table(table, sink)
    return sink.getvalue()


def _read_parquet(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    parquet = import_optional("pyarrow.parquet", extra="arrow", purpose="reading Parquet counts")
    table = parquet.read_table(path)
    text = (table.schema.metadata or {}).get(SCHEMA.encode())
    if text is None:
        raise ComparisonError(f"{path}: is not a counts file of lrgittins (no {SCHEMA} metadata); for raw votes use Comparisons.read")
    head = json.loads(text)
    _check_version(path, head.get("schema"), head.get("schema_version"))
    return pd.DataFrame({name: pd.Series(table.column(name).to_pylist(), dtype=object) for name in table.column_names}), head


def _jsonl_bytes(frame: pd.DataFrame, head: dict[str, Any]) -> bytes:
    """The head in the first line, then one object a group."""
    rows = zip(*(frame[name].tolist() for name in frame.columns), strict=True)
    lines = [head, *(dict(zip(frame.columns, row, strict=True)) for row in rows)]
    return ("\n".join(json.dumps(line, allow_nan=False, ensure_ascii=False) for line in lines) + "\n").encode()


def _read_jsonl(path: Path) -> tuple[pd.DataFrame, dict[str, Any]]:
    data = gzip.decompress(path.read_bytes()) if path.name.lower().endswith(".gz") else path.read_bytes()
    lines = [json.loads(line) for line in data.decode("utf-8-sig").split("\n") if line.strip()]
    if not lines or not all(isinstance(line, dict) for line in lines) or "schema" not in lines[0]:
        raise ComparisonError(
            f"{path}: is not a counts file of lrgittins (the first line must be its head, with a schema); raw votes: Comparisons.read"
        )
    _check_version(path, lines[0].get("schema"), lines[0].get("schema_version"))
    names = list(dict.fromkeys(name for line in lines[1:] for name in line)) or list(_COLUMNS)
    return pd.DataFrame({name: pd.Series([line.get(name) for line in lines[1:]], dtype=object) for name in names}), lines[0]


def _head_of_csv(path: Path, frame: pd.DataFrame) -> tuple[pd.DataFrame, dict[str, Any]]:
    head: dict[str, Any] = {}
    for name in ("ties", "both_bad", "schema_version"):
        values = frame[name].unique().tolist() if name in frame.columns else []
        if len(values) != 1:
            raise ComparisonError(
                f"{path}: is not a counts file of lrgittins (column {name!r} must hold one value throughout, found {values[:5]}); "
                "for raw votes use Comparisons.read"
            )
        head[name] = values[0]
    version = int(head["schema_version"]) if str(head["schema_version"]).isdigit() else head["schema_version"]
    _check_version(path, SCHEMA, version)
    return frame, head


def _check_version(path: Path, schema: Any, version: Any) -> None:
    if schema != SCHEMA or not isinstance(version, int) or isinstance(version, bool) or version < 1:
        raise ComparisonError(f"{path}: is not a counts file of lrgittins (schema {schema!r}, version {version!r})")
    if version > SCHEMA_VERSION:
        raise ComparisonError(f"{path}: is from a newer lrgittins (schema version {version}, known is {SCHEMA_VERSION}); upgrade")


def _check_head(path: Path, head: dict[str, Any]) -> None:
    """Refuse a head with a field that is not what `_to_head` writes; labels, n_rows and dropped may be left out, as in CSV."""

    def refuse(field: str, needed: str) -> None:
        shown = repr(head.get(field))
        shown = shown if len(shown) <= 100 else f"{shown[:97]}..."
        raise ComparisonError(f"{path}: field {field!r} of the head must be {needed}, got {shown}; write the file with write_counts")

    def is_count(value: Any) -> bool:
        return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_TOTAL

    def is_name(value: Any) -> bool:
        return isinstance(value, str) and bool(value.strip())

    def is_drop(entry: Any) -> bool:
        if not isinstance(entry, list) or len(entry) != 3:
            return False
        return is_name(entry[0]) and (entry[1] is None or is_name(entry[1])) and is_count(entry[2])

    for field, choices in (("ties", TIE_POLICIES), ("both_bad", BOTH_BAD_POLICIES)):
        if head.get(field) not in choices:
            refuse(field, f"one of {', '.join(choices)}")
    if "n_rows" in head and not is_count(head["n_rows"]):
        refuse("n_rows", "an integer from 0 on")
    for field in ("tasks", "models"):
        if field in head and not (isinstance(head[field], list) and all(map(is_name, head[field]))):
            refuse(field, "a list of names")
    if "dropped" in head and not (isinstance(head["dropped"], list) and all(map(is_drop, head["dropped"]))):
        refuse("dropped", "a list of [reason, task or null, number of rows]")


def _from_frame(path: Path, frame: pd.DataFrame, head: dict[str, Any]) -> VoteLog:
    missing = [name for name in _COLUMNS if name not in frame.columns]
    if missing:
        raise ComparisonError(f"{path}: lacks the columns {', '.join(missing)}; it has {', '.join(map(str, frame.columns))}")
    numbers = {}
    for name in ("outcome", "count"):
        values = pd.to_numeric(frame[name], errors="coerce").to_numpy(dtype=np.float64)
        top = 1.0 if name == "outcome" else MAX_COUNT
        bad = ~((values >= 0) & (values <= top)) | ((name == "count") & (values != np.floor(values)))
        if bad.any():
            raise ComparisonError(f"{path}: column {name!r} has {int(bad.sum())} bad values, first in row {int(np.flatnonzero(bad)[0])}")
        numbers[name] = values
    if numbers["count"].sum() > MAX_TOTAL:
        raise ComparisonError(f"{path}: the counts add up to more than 2**62 comparisons; rescale them")
    labels = {name: [_label(path, name, value) for value in frame[name].tolist()] for name in ("task", "model_a", "model_b", "verdict")}
    tasks = sorted({*labels["task"], *head.get("tasks", ())})
    models = sorted({*labels["model_a"], *labels["model_b"], *head.get("models", ())})
    kind_of = {word: kind for kind, word in _KINDS.items()}
    unknown = sorted(set(labels["verdict"]) - set(kind_of))
    if unknown:
        raise ComparisonError(f"{path}: column 'verdict' holds {unknown[:5]}; known are {sorted(kind_of)}")
    verdict = np.array([kind_of[word] for word in labels["verdict"]], dtype=np.int8)
    torn = np.flatnonzero((verdict != DECISIVE) & (numbers["outcome"] != 0.5))
    if len(torn):
        raise ComparisonError(
            f"{path}: column 'outcome' has {len(torn)} values other than 0.5 where 'verdict' says tie or both_bad, first in row {torn[0]}"
        )
    task_of, model_of = ({label: code for code, label in enumerate(names)} for names in (tasks, models))
    real = numbers["count"] > 0
    clusters = None
    cluster = None
    if "cluster" in frame.columns:
        names = [_label(path, "cluster", value) for value in frame["cluster"][real].tolist()]
        clusters = sorted(set(names))
        cluster_of = {label: code for code, label in enumerate(clusters)}
        cluster = np.array([cluster_of[name] for name in names], dtype=np.int64)
    votes = Votes(
        np.array([task_of[label] for label in labels["task"]], dtype=np.int64)[real],
        np.array([model_of[label] for label in labels["model_a"]], dtype=np.int64)[real],
        np.array([model_of[label] for label in labels["model_b"]], dtype=np.int64)[real],
        numbers["outcome"][real],
        verdict[real],
        numbers["count"][real].astype(np.int64),
        cluster,
    )
    if len(votes) == 0 or (votes.model_a == votes.model_b).any():
        raise ComparisonError(f"{path}: holds {'no comparisons' if len(votes) == 0 else 'comparisons of a model with itself'}")
    dropped: Tally = Counter()
    for reason, task, rows in head.get("dropped", ()):
        dropped[(reason, task)] += rows
    n_rows = head.get("n_rows", int(votes.count.sum()))
    return VoteLog(tasks, models, group_votes(votes), None, clusters, None, n_rows, dropped)


def _label(path: Path, name: str, value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise ComparisonError(f"{path}: column {name!r} holds {value!r} where a name is needed")
    return value
