"""Boards as JSON, CSV and Parquet, with a schema version; writes are atomic and no pickle is involved."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from ._files import write_atomically
from ._optional import import_optional
from .errors import StateError
from .scales import check_scale, parse_anchor, rescale_board

if TYPE_CHECKING:
    from .board import Leaderboard

COLUMNS = ("task", "model", "score", "std_error", "rank", "rank_low", "rank_high", "certificate", "n")
SCHEMA = "lrgittins.leaderboard"
SCHEMA_VERSION = 1


def board_to_dict(board: Leaderboard, scale: str = "natural", anchor: Any = None) -> dict[str, Any]:
    """See `Leaderboard.to_dict`."""
    frame = rescale_board(board._frame, scale, anchor)
    units: dict[str, Any] = {}
    if scale != "natural" or anchor is not None:
        wanted = parse_anchor(anchor, check_scale(scale))
        units = {"scale": scale, "anchor": None if wanted is None else {"model": wanted[0], "score": wanted[1]}}
    critical: Any
    if isinstance(board.critical_value, pd.Series):
        labels = [list(key) if isinstance(key, tuple) else [key] for key in board.critical_value.index]
        values = board.critical_value.tolist()
        critical = [{"claim": [str(part) for part in label], "value": plain(v)} for label, v in zip(labels, values, strict=True)]
    else:
        critical = plain(board.critical_value)
    columns = [frame[name].tolist() for name in COLUMNS]
    return {
        "schema": SCHEMA,
        "schema_version": SCHEMA_VERSION,
        **units,
        "top_k": int(board.top_k),
        "alpha": float(board.alpha),
        "family": list(board.family) if isinstance(board.family, tuple) else board.family,
        "method": board.method,
        "calibration": board.calibration,
        "design": board.design,
        "n_draws": int(board.n_draws),
        "n_folds": int(board.n_folds),
        "n_splits": int(board.n_splits),
        "critical_value": critical,
        "n_models": int(board.n_models),
        "random_state": board.random_state,
        "diagnostics": {str(name): {key: plain(value) for key, value in entry.items()} for name, entry in board.diagnostics.items()},
        "notes": [str(note) for note in board.notes],
        "rows": [{name: plain(value) for name, value in zip(COLUMNS, row, strict=True)} for row in zip(*columns, strict=True)],
    }


def board_fields(data: dict[str, Any]) -> dict[str, Any]:
    """The arguments of `Leaderboard` from what `board_to_dict` gave; `StateError` names what is wrong."""
    _check_schema(data)
    try:
        rows = {name: [row[name] for row in data["rows"]] for name in COLUMNS}
        critical: float | pd.Series
        if isinstance(data["critical_value"], list):
            keys = [tuple(entry["claim"]) for entry in data["critical_value"]]
            index: pd.Index
            if data["family"] == "cell":
                index = pd.MultiIndex.from_tuples(keys, names=["task", "model"])
            else:
                index = pd.Index([key[0] for key in keys], name=data["family"])
            values = [_number(entry["value"], math.nan) for entry in data["critical_value"]]
            critical = pd.Series(values, index=index, name="critical_value")
        else:
            critical = _number(data["critical_value"], math.nan)
        names = ("top_k", "alpha", "method", "calibration", "design", "n_draws", "n_folds", "n_models", "diagnostics", "random_state")
        return {
            **{name: data[name] for name in names},
            "n_splits": int(data.get("n_splits", 1)),  # boards of earlier versions do not say it
            "family": tuple(data["family"]) if isinstance(data["family"], list) else data["family"],
            "critical_value": critical,
            "notes": tuple(data["notes"]),
            "_frame": make_frame(
                rows["task"],
                rows["model"],
                np.array([_number(value, math.nan) for value in rows["score"]]),
                np.array([_number(value, math.inf) for value in rows["std_error"]]),
                np.array(rows["rank"], dtype=np.int64),
                rows["rank_low"],
                rows["rank_high"],
                rows["certificate"],
                np.array(rows["n"], dtype=np.int64),
            ),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"broken leaderboard: {type(error).__name__} at {error}; write it again with to_json") from error


def write_parquet(board: Leaderboard, path: str | os.PathLike[str]) -> None:
    """See `Leaderboard.to_parquet`."""
    pyarrow: Any = import_optional("pyarrow", extra="arrow", purpose="writing Parquet")
    parquet: Any = import_optional("pyarrow.parquet", extra="arrow", purpose="writing Parquet")
    table = pyarrow.Table.from_pandas(board._frame, preserve_index=False)
    about = {key: value for key, value in board_to_dict(board).items() if key != "rows"}
    table = table.replace_schema_metadata({**(table.schema.metadata or {}), SCHEMA.encode(): json.dumps(about, allow_nan=False).encode()})
    sink = pyarrow.BufferOutputStream()
    parquet.write_table(table, sink)
    write_atomically(path, sink.getvalue().to_pybytes())


def read_parquet(path: str | os.PathLike[str]) -> dict[str, Any]:
    """What `board_to_dict` gave, from a file of `write_parquet`."""
    parquet: Any = import_optional("pyarrow.parquet", extra="arrow", purpose="reading Parquet")
    try:
        table = parquet.read_table(path)
        about = json.loads((table.schema.metadata or {}).get(SCHEMA.encode(), b"{}"))
    except FileNotFoundError:
        raise
    except (OSError, ValueError) as error:
        raise StateError(f"{os.fspath(path)} is not a readable Parquet file: {error}") from error
    rows = table.select(list(COLUMNS)).to_pylist() if set(COLUMNS) <= set(table.column_names) else []
    return {**about, "rows": [{key: plain(value) for key, value in row.items()} for row in rows]}


def _check_schema(data: Any) -> None:
    if not isinstance(data, dict) or data.get("schema") != SCHEMA:
        raise StateError(f"not a leaderboard: the field 'schema' should be {SCHEMA!r}")
    version = data.get("schema_version")
    if version != SCHEMA_VERSION:
        newer = isinstance(version, int) and version > SCHEMA_VERSION
        raise StateError(
            f"leaderboard of schema_version {version!r}, this lrgittins reads {SCHEMA_VERSION}" + ("; update lrgittins" if newer else "")
        )
    if "scale" in data:
        raise StateError(
            f"the scores of this leaderboard were written for display (field 'scale' is {data['scale']!r}); "
            "read one written without scale and anchor"
        )


def plain(value: Any) -> Any:
    """A strict JSON scalar; what is not finite or missing becomes None."""
    if value is None or value is pd.NA:
        return None
    if isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, np.bool_):
        return bool(value)
    return str(value)


def _number(value: Any, missing: float) -> float:
    return missing if value is None else float(value)


def make_frame(task: Any, model: Any, score: Any, error: Any, rank: Any, low: Any, high: Any, certificate: Any, n: Any) -> pd.DataFrame:
    missing = any(value is None for value in low)
    kind: Any = "Int64" if missing else "int64"
    return pd.DataFrame(
        {
            "task": pd.Series(task, dtype=object).astype(str),
            "model": pd.Series(model, dtype=object).astype(str),
            "score": score,
            "std_error": error,
            "rank": rank,
            "rank_low": pd.Series(list(low), dtype=kind),
            "rank_high": pd.Series(list(high), dtype=kind),
            "certificate": pd.Series(certificate, dtype=object).astype(str),
            "n": n,
        },
        columns=list(COLUMNS),
    )
