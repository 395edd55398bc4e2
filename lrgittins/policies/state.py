"""Saved states: JSON with a schema version, fingerprints per field and a digest; written atomically, checked on the way in."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lrgittins import __version__
from lrgittins._files import write_atomically
from lrgittins.errors import LRGittinsError, StateError

from . import inputs
from .ledger import ATTACHED, FREE, TOLD, PendingPull

if TYPE_CHECKING:
    from .base import BasePolicy

P = TypeVar("P", bound="BasePolicy")
FORMAT, SCHEMA = "lrgittins-policy", 1
_GENERATORS = ("PCG64", "PCG64DXSM", "MT19937", "Philox", "SFC64")
_FIELDS = {
    "format": str, "schema": int, "version": str, "policy": str, "fingerprint": dict, "setup": dict, "generator": dict, "tie_order": list,
    "cells": list, "failures": list, "pending": list, "closed": dict, "counters": dict, "own": dict, "digest": str,
}  # fmt: skip


# -- files ------------------------------------------------------------------------------------------------------------


def write_json(path: str | Path, saved: dict[str, Any]) -> None:
    """Write strict JSON, replacing the file in one step; on return it survives a power cut, as a run goes on from it."""
    write_atomically(path, json.dumps(saved, allow_nan=False, separators=(",", ":")).encode(), flush_folder=True)


def read_json(path: str | Path) -> Any:
    """Parse a saved state; anything but one whole JSON document is a `StateError`."""
    try:
        text = Path(path).read_text(encoding="utf-8")
    except FileNotFoundError:
        raise StateError(f"there is no saved state at {str(path)!r}") from None
    except UnicodeDecodeError as error:
        raise StateError(f"{str(path)!r} is not a saved state: not UTF-8 text ({error})") from None
    try:
        return json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise StateError(f"{str(path)!r} is not a whole JSON document ({error}); the file is damaged or was cut off") from None


def _refuse_constant(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


# -- out ----------------------------------------------------------------------------------------------------------------


def _plain(value: Any) -> Any:
    """Generator states and the like in JSON types."""
    if isinstance(value, dict):
        return {str(key): _plain(entry) for key, entry in value.items()}
    if isinstance(value, np.ndarray):
        return {"dtype": value.dtype.str, "values": value.tolist()}
    return value.item() if isinstance(value, np.generic) else value


def _unplain(value: Any) -> Any:
    if isinstance(value, dict):
        if set(value) == {"dtype", "values"}:
            return np.array(value["values"], dtype=np.dtype(value["dtype"]))
        return {key: _unplain(entry) for key, entry in value.items()}
    return value


def pack(rows: NDArray[Any]) -> dict[str, Any]:
    """A large integer or bool array as base64 of its smallest unsigned little-endian type."""
    top = int(rows.max()) if rows.size else 0
    small = rows.astype("<u1" if top < 256 else "<u2" if top < 65536 else "<u4")
    return {"dtype": small.dtype.str, "shape": list(rows.shape), "base64": base64.b64encode(small.tobytes()).decode("ascii")}


def unpack(packed: Any, field: str) -> NDArray[np.int64]:
    """Inverse of `pack`."""
    try:
        if packed["dtype"] not in ("|u1", "<u1", "<u2", "<u4"):
            raise ValueError(f"dtype {packed['dtype']!r}")
        flat = np.frombuffer(base64.b64decode(packed["base64"], validate=True), dtype=packed["dtype"])
        return flat.reshape([int(n) for n in packed["shape"]]).astype(np.int64)
    except (KeyError, TypeError, ValueError) as error:
        raise StateError(f"saved state, field {field!r}: not a packed array ({error})") from None


def _json_labels(labels: Iterable[Any], field: str) -> list[Any]:
    listed = list(labels)
    for label in listed:
        if not isinstance(label, (str, int, float, bool)) or (isinstance(label, float) and not np.isfinite(label)):
            raise StateError(f"field {field!r} cannot be saved as JSON: {label!r} is a {type(label).__name__}; use str or int labels")
    return listed


def _hash(*parts: bytes) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(len(part).to_bytes(8, "little"))
        digest.update(part)
    return digest.hexdigest()


def _labels_bytes(labels: Iterable[Any]) -> bytes:
    return json.dumps(
        [[type(label).__name__, label if isinstance(label, (str, int, float, bool)) else repr(label)] for label in labels]
    ).encode()


def fingerprint(policy: BasePolicy) -> dict[str, str]:
    """Hash of each part of the set-up that a resumed run must share."""
    missing = b"" if policy._missing is None else np.packbits(policy._missing).tobytes()
    examples = b"" if policy.examples is None else _labels_bytes(policy.examples)
    options = {**_shared_options(policy), **policy._options()}
    for name in ("prior_mean", "prior_variance", "noise_variance", "prior"):
        options.pop(name, None)
    return {
        "policy": type(policy).__name__,
        "arms": _hash(_labels_bytes(policy.arms)),
        "examples": _hash(policy.n_examples.tobytes(), examples, missing),
        "cost": _hash(b"" if policy.cost is None else policy.cost.tobytes()),
        "prior": _hash(policy._prior_fingerprint()),
        "order": _hash(policy.ledger.order.tobytes(), policy.tie_order.tobytes()),
        "options": _hash(json.dumps(options, sort_keys=True).encode()),
    }


def _shared_options(policy: BasePolicy) -> dict[str, Any]:
    return {
        "batch_size": policy.batch_size, "tie_break": policy.tie_break, "score_range": list(policy.score_range),
        "on_error": policy.on_error, "max_retries": policy.max_retries,
    }  # fmt: skip


def dump(policy: BasePolicy) -> dict[str, Any]:
    """The whole state of a policy in JSON types."""
    ledger = policy.ledger
    seed = policy.random_state
    cells = []
    for k in range(policy.n_arms):
        if not (ledger.touched(k) or policy._true_cells[k]):
            continue
        row, scores = ledger.state_of(k), ledger.scores_of(k) if ledger.n_seen[k] else None
        told, attached = np.flatnonzero(row == TOLD), np.flatnonzero(row == ATTACHED)
        entry = {
            "arm": k,
            "told": told.tolist(),
            "told_scores": [] if scores is None else scores[told].tolist(),
            "attached": attached.tolist(),
            "attached_scores": [] if scores is None else scores[attached].tolist(),
            "errors": int(ledger.n_errors[k]),
            "charged": float(policy._true_cost[k]),
            "charged_cells": int(policy._true_cells[k]),
        }
        if any(entry[name] for name in ("told", "attached", "errors", "charged_cells")):
            cells.append(entry)
    saved: dict[str, Any] = {
        "format": FORMAT,
        "schema": SCHEMA,
        "version": __version__,
        "policy": type(policy).__name__,
        "fingerprint": policy.fingerprint,
        "setup": {
            "arms": _json_labels(policy.arms, "arms"),
            "n_examples": policy.n_examples.tolist(),
            "examples": None if policy.examples is None else _json_labels(policy.examples, "examples"),
            "missing": None if policy._missing is None else pack(policy._missing),
            "cost": None if policy.cost is None else policy.cost.tolist(),
            "example_order": policy.example_order,
            "order": pack(ledger.order),
            "random_state": int(seed) if isinstance(seed, (int, np.integer)) else None,
            "options": {**_shared_options(policy), **policy._options()},
        },
        "generator": _plain(policy._generator.bit_generator.state),
        "tie_order": policy.tie_order.tolist(),
        "cells": cells,
        "failures": [[arm, position, count] for (arm, position), count in sorted(ledger.failures.items())],
        "pending": [
            {"token": p.pull.token, "arm": p.arm, "positions": p.positions.tolist(), "cost": p.pull.cost, "issued": p.issued}
            for p in ledger.pending.values()
        ],
        "closed": {str(serial): how for serial, how in policy._closed.items()},
        "counters": {"told": policy.n_told, "issued": policy._n_issued, "spent": float(ledger.spent), "ended": policy._ended},
        "own": policy._own_state(),
    }
    saved["digest"] = _digest(saved)
    return saved


def _digest(saved: dict[str, Any]) -> str:
    body = {name: value for name, value in saved.items() if name != "digest"}
    return hashlib.sha256(json.dumps(body, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


# -- in -----------------------------------------------------------------------------------------------------------------


def _check_shape(saved: Any) -> dict[str, Any]:
    if not isinstance(saved, dict) or saved.get("format") != FORMAT:
        raise StateError("saved state, field 'format': this is not a saved lrgittins policy")
    schema = saved.get("schema")
    if not isinstance(schema, int) or isinstance(schema, bool) or schema < 1:
        raise StateError(f"saved state, field 'schema': expected a positive integer, got {schema!r}")
    if schema > SCHEMA:
        raise StateError(
            f"saved state, field 'schema': version {schema} was written by a newer lrgittins ({saved.get('version')!r}); "
            f"this one ({__version__}) reads up to {SCHEMA}: upgrade it"
        )
    for name, kind in _FIELDS.items():
        if name not in saved:
            raise StateError(f"saved state, field {name!r} is missing; the state is incomplete")
        if not isinstance(saved[name], kind):
            raise StateError(f"saved state, field {name!r}: expected {kind.__name__}, got {type(saved[name]).__name__}")
    return saved


def restore(cls: type[P], saved: Any) -> P:
    """A policy of class `cls` from `dump`'s dict; every disagreement is a `StateError` naming the field."""
    saved = _check_shape(saved)
    if saved["policy"] != cls.__name__:
        raise StateError(
            f"saved state, field 'policy': it holds a {saved['policy']}, not a {cls.__name__}; load it with {saved['policy']}.load"
        )
    field = "setup"
    try:
        policy = _build(cls, saved["setup"])
        field = "tie_order"
        tie_order = np.array(saved["tie_order"], dtype=np.int64)
        if not np.array_equal(np.sort(tie_order), np.arange(policy.n_arms)):
            raise ValueError(f"not a permutation of the {policy.n_arms} arms")
        policy._set_tie_order(tie_order)
        policy.__dict__.pop("_run_id", None)
        for field, value in fingerprint(policy).items():
            if saved["fingerprint"].get(field) != value:
                raise ValueError("does not match its fingerprint; the file was edited, or belongs to another set-up")
        field = "digest"
        if saved["digest"] != _digest(saved):
            raise ValueError("the content was changed after it was written")
        field = "generator"
        policy._generator = _generator(saved["generator"])
        field = "cells"
        _restore_cells(policy, saved["cells"])
        field = "failures"
        for arm, position, count in saved["failures"]:
            where = int(_positions(policy, int(arm), [position])[0])
            policy.ledger.restore_failures(int(arm), where, int(count), policy.max_retries)
        field = "counters"
        counters = saved["counters"]
        policy.n_told, policy._n_issued = int(counters["told"]), int(counters["issued"])
        policy.ledger.spent, policy._ended = float(counters["spent"]), counters["ended"]
        field = "closed"
        policy._closed = {int(serial): str(how) for serial, how in saved["closed"].items()}
        field = "pending"
        for entry in saved["pending"]:
            arm = int(entry["arm"])
            positions = _positions(policy, arm, entry["positions"])
            if (policy.ledger.state_of(arm)[positions] != FREE).any():
                raise ValueError(f"pull {entry['token']!r} holds cells that are not free")
            pull = policy._pull(str(entry["token"]), arm, positions, float(entry["cost"]))
            policy.ledger.reserve(PendingPull(pull, arm, positions, float(entry["issued"])))
        policy.ledger.reset_first_free()
        field = "own"
        policy._restore_own(saved["own"])
    except StateError:
        raise
    except KeyError as error:
        raise StateError(f"saved state, field {field!r}: entry {error} is missing") from None
    except (LRGittinsError, TypeError, ValueError, AttributeError, IndexError, OverflowError) as error:
        raise StateError(f"saved state, field {field!r}: {error}") from error
    return policy


def _build(cls: type[P], setup: dict[str, Any]) -> P:
    missing = None if setup["missing"] is None else unpack(setup["missing"], "missing").astype(bool)
    policy = cls(
        setup["arms"], setup["n_examples"], examples=setup["examples"], missing=missing, cost=setup["cost"],
        example_order=unpack(setup["order"], "order"), **setup["options"],
    )  # fmt: skip
    policy.example_order, policy.random_state = setup["example_order"], setup["random_state"]
    return policy


def _generator(saved: dict[str, Any]) -> np.random.Generator:
    name = saved["bit_generator"]
    if name not in _GENERATORS:
        raise ValueError(f"unknown bit generator {name!r}")
    bits = getattr(np.random, name)()
    bits.state = _unplain(saved)
    return np.random.Generator(bits)


def _positions(policy: BasePolicy, arm: int, values: list[Any]) -> NDArray[np.int64]:
    """Ascending positions inside an existing arm's order."""
    if not 0 <= arm < policy.n_arms:
        raise ValueError(f"arm {arm} does not exist")
    positions = np.array(values, dtype=np.int64)
    if len(positions) and not (positions[0] >= 0 and positions[-1] < policy.ledger.width and (np.diff(positions) > 0).all()):
        raise ValueError(f"positions of arm {policy.arms[arm]!r} are not ascending numbers below {policy.ledger.width}")
    return positions


def _restore_cells(policy: BasePolicy, cells: list[Any]) -> None:
    ledger = policy.ledger
    for entry in cells:
        k = int(entry["arm"])
        _positions(policy, k, [])
        ledger.n_errors[k] = int(entry["errors"])
        policy._true_cost[k], policy._true_cells[k] = float(entry["charged"]), int(entry["charged_cells"])
        for name, kind in (("told", TOLD), ("attached", ATTACHED)):
            positions = _positions(policy, k, entry[name])
            if len(positions) and (ledger.state_of(k)[positions] != FREE).any():
                raise ValueError(f"arm {policy.arms[k]!r} has a cell that is counted twice or missing")
            scores = inputs.check_scores(
                np.array(entry[f"{name}_scores"], dtype=np.float64), len(positions), (0.0, 1.0), f"arm {policy.arms[k]!r}"
            )
            ledger.restore_scores(k, positions, scores, kind)


def check_expected(policy: P, expected: dict[str, Any]) -> P:
    """Compare a loaded policy with what the caller is about to work with; a difference names the field."""
    known: dict[str, Any] = {"arms": policy.arms, "n_examples": policy.n_examples, "examples": policy.examples, "cost": policy.cost}
    for name in ("prior_mean", "prior_variance", "noise_variance"):
        if hasattr(policy, name):
            known[name] = getattr(policy, name)
    for name, value in expected.items():
        if name not in known:
            raise StateError(f"field {name!r} cannot be compared with a saved {type(policy).__name__}; known: {', '.join(known)}")
        if name == "arms":
            same = inputs.check_arms(value) == policy.arms
        elif name == "examples":
            same = (None if value is None else inputs.check_labels(value, name)) == policy.examples
        elif known[name] is None or value is None:
            same = known[name] is value
        else:
            error = StateError
            given = inputs.check_by_arm(value, name, policy.arms, error=error)
            if name == "prior_mean":
                given = (given - policy.score_range[0]) / (policy.score_range[1] - policy.score_range[0])
            elif name in ("prior_variance", "noise_variance"):
                given = given / (policy.score_range[1] - policy.score_range[0]) ** 2
            reference = getattr(policy, "_nominal_noise", known[name]) if name == "noise_variance" else known[name]
            same = bool(np.array_equal(given, np.asarray(reference, dtype=np.float64)))
        if not same:
            raise StateError(f"field {name!r} differs from the saved state: this run belongs to another set-up; start a new policy for it")
    return policy
