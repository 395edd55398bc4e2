"""What users do with every policy: ask and tell, read where it stands, save and load."""

from __future__ import annotations

import functools
import hashlib
import json
import time
import zlib
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from lrgittins._validation import check_choice, check_float
from lrgittins.errors import ParameterError, ResponseError, StateError

from . import inputs, state
from .core import PolicyCore, locked
from .ledger import FREE, MISSING, PENDING, FloatArray, PendingPull
from .protocol import Policy, Pull, Recommendation

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["BasePolicy", "Policy", "Pull", "Recommendation", "STATUSES", "STOP_REASONS", "locked"]

STATUSES = ("ok", "error", "timeout")
STOP_REASONS = ("stop-signal", "budget", "exhausted", "interrupted")


class BasePolicy(PolicyCore):
    """The ask / tell protocol, spend, save and load. A policy adds its choice and its recommendation, as `PolicyCore` lists."""

    # -- ask / tell -----------------------------------------------------------------------------------------------

    @locked
    def ask(self) -> Pull | None:
        """The next batch, or None: `status` then says "waiting" (pulls are pending) or "exhausted".

        May be called again before `tell`: pending examples are never handed out twice, and their cost is reserved.
        """
        self._before_ask()
        choice = self._choose()
        if choice is None:
            return None
        arm, size = choice
        positions = self._pick_cells(arm, size)
        token = f"{self._run_id}-{self._n_issued}-{zlib.crc32(positions.tobytes(), arm):08x}"
        pull = self._pull(token, arm, positions, len(positions) * self.price_of(arm))
        self._n_issued += 1
        self.ledger.reserve(PendingPull(pull, arm, positions, time.time()))
        self._refresh_pending(arm)
        return pull

    @locked
    def tell(self, pull: Pull | str, scores: Any, *, cost: float | None = None, status: str = "ok") -> None:
        """Report a pending pull. A refused call changes nothing.

        Parameters
        ----------
        pull : Pull or its token
        scores : array of shape (len(pull.examples),)
            In the order of ``pull.examples``. With a status other than "ok" an array with NaN at the failed examples keeps
            the others; None, an empty array or one without NaN means that all failed, so that a placeholder such as 0 is
            never taken for a score.
        cost : float, optional
            True cost of the whole batch, raw units; by default the expected one is charged.
        status : {"ok", "error", "timeout"}
            Failed examples are charged but not counted; each is asked again up to `max_retries` times and then
            becomes a missing cell (the arm's number of examples falls by one).

        Raises
        ------
        StateError
            Late, repeated, foreign or contradictory pull.
        ResponseError
            Scores of the wrong number, range or type, a bad cost, or a failure under ``on_error="raise"``.
        """
        record = self._find(pull)
        where = f"arm {self.arms[record.arm]!r} (pull {record.pull.token})"
        if status != "ok":
            check_choice(status, "status", STATUSES)
        charged = record.pull.cost if cost is None else _check_cost(cost, where)
        if cost is None and self.cost is None:
            raise ResponseError(f"this policy was built with cost=None and learns prices: tell the true cost of the batch of {where}")
        n = len(record.positions)
        if status == "ok":
            values, failed = inputs.check_scores(scores, n, self.score_range, where), None
        else:
            values = self._partial(scores, n, where)
            if self.on_error == "raise":
                raise ResponseError(
                    f"the evaluation of {where} ended with status={status!r} and on_error='raise'; the pull is still pending: "
                    "tell its scores, or release it to have it asked again"
                )
            failed = np.isnan(values)
        self._check_values(values, where)
        self.ledger.settle(record, values, charged, failed, self.max_retries)
        self._true_cost[record.arm] += charged
        self._true_cells[record.arm] += n
        self.n_told += 1
        self._refresh(record.arm)
        self._after_data(record.arm)

    def _partial(self, scores: Any, n: int, where: str) -> FloatArray:
        """Scores of a failed batch: what is not NaN beside a NaN counts."""
        if scores is None or (np.ndim(scores) == 1 and len(scores) == 0):
            return np.full(n, np.nan)
        given = np.asarray(scores)
        if given.shape == (n,) and given.dtype.kind in "biuf" and not np.isnan(given).any():
            return np.full(n, np.nan)
        return inputs.check_scores(scores, n, self.score_range, where, allow_nan=True)

    @locked
    def attach(self, arm: Any, example: Any, score: float, cost: float = 0.0) -> bool:
        """Add a result that exists already: counted once, never asked.

        Returns
        -------
        bool
            True when the result was new; False when the same score is known already (nothing changes, no cost).

        Raises
        ------
        StateError
            The cell is pending, missing, or known with another score.
        """
        k = self._arm_code(arm)
        where = f"arm {arm!r}, example {example!r}"
        position = self.ledger.position_of(k, self._example_code(example))
        values = inputs.check_scores([score], 1, self.score_range, where)
        self._check_values(values, where)
        value = float(values[0])
        charged = _check_cost(cost, where)
        now = int(self.ledger.state_of(k)[position]) if self.ledger.touched(k) else FREE
        if now == PENDING:
            raise StateError(f"{where} is pending: tell its pull, or release it before attaching a result")
        if now == MISSING:
            raise StateError(f"{where} is a missing cell (it does not exist, or was given up after {self.max_retries} retries)")
        if now != FREE:
            known = float(self.ledger.scores_of(k)[position])
            if known != value:
                raise StateError(f"{where} is known with another score; the first one stays, nothing was changed")
            return False
        self.ledger.attach(k, position, value, charged)
        self._refresh(k)
        self._after_data(k)
        return True

    @locked
    def release(self, pull: Pull | str) -> None:
        """Take a pending pull back: its examples become askable again, a later `tell` of it is refused."""
        self._close(self._find(pull), "released")

    @locked
    def expire(self, older_than: float) -> list[Pull]:
        """Release every pull asked at least `older_than` seconds ago (a dead worker's); returns them."""
        limit = check_float(older_than, "older_than", low=0.0)
        now = time.time()
        old = [record for record in self.ledger.pending.values() if max(now - record.issued, 0.0) >= limit]
        for record in old:
            self._close(record, "expired")
        return [record.pull for record in old]

    def _close(self, record: PendingPull, how: str) -> None:
        self.ledger.release(record)
        self._closed[_serial(record.pull.token)] = how
        self._refresh_pending(record.arm)

    def _find(self, pull: Pull | str) -> PendingPull:
        """The pending record of a pull, or the `StateError` that says why there is none."""
        token = pull.token if isinstance(pull, Pull) else pull
        if not isinstance(token, str):
            raise ParameterError(f"a Pull (or its token) is needed, got {pull!r}")
        record = self.ledger.pending.get(token)
        if record is None:
            serial = _serial(token)
            if not token.startswith(f"{self._run_id}-") or not 0 <= serial < self._n_issued:
                raise StateError(f"pull {token!r} was not asked from this policy (or from a later state of it)")
            how = self._closed.get(serial)
            what = f"was {how} and may have been asked again; its result comes too late" if how else "has been told already"
            raise StateError(f"pull {token!r} {what}; nothing was changed")
        asked = record.pull
        if isinstance(pull, Pull) and pull is not asked and (pull.arm != asked.arm or tuple(pull.examples) != asked.examples):
            raise StateError(f"pull {token!r} contradicts the pending one, which was asked as {asked!r}; nothing was changed")
        return record

    # -- state that users read ------------------------------------------------------------------------------------

    @locked
    def recommend(self, rule: str | None = None) -> Recommendation:
        """The arm to use if sampling ended now; available before any data (`n_observed` is 0 then)."""
        k, value, applied = self._recommend(None if rule is None else check_choice(rule, "rule", self.rules))
        columns = self._columns()
        mean, std = float(columns["mean"][k]), float(columns["std"][k])
        seen = int(self.ledger.n_seen[k])
        return Recommendation(self.arms[k], self._scored(mean), self._spread(std), self._scored(value), seen, applied)

    @locked
    def posterior(self) -> pd.DataFrame:
        """One row per arm: arm, n_observed, n_errors, mean, std, index, complete, note (score units; errors count failed cells)."""
        import pandas as pd

        columns = self._columns()
        return pd.DataFrame(
            {
                "arm": pd.Series(self.arms, dtype=object if any(not isinstance(a, (int, str)) for a in self.arms) else None),
                "n_observed": self.ledger.n_seen.copy(),
                "n_errors": self.ledger.n_errors.copy(),
                "mean": self._scored(columns["mean"]),
                "std": self._spread(columns["std"]),
                "index": self._scored(columns["index"]),
                "complete": columns["complete"],
                "note": self._notes(),
            }
        )

    @property
    def should_stop(self) -> bool:
        """Whether the policy's own stop signal has been recorded; False where the method has none."""
        return False

    @property
    def stop_reason(self) -> str | None:
        """Why the run ended: one of `STOP_REASONS`, or None while it goes on."""
        if self._ended is not None:
            return self._ended
        if self.should_stop:
            return "stop-signal"
        return "exhausted" if self.status == "exhausted" else None

    @locked
    def end(self, reason: str) -> None:
        """Note why a driver ended the run ("budget", "interrupted", ...); asking on stays possible."""
        self._ended = check_choice(reason, "reason", STOP_REASONS)

    @property
    def status(self) -> str:
        """ "ready": `ask` gives a pull; "waiting": tells are due first; "exhausted": nothing is left to ask."""
        with self._lock:
            if self._choose() is not None:
                return "ready"
            return "waiting" if self.ledger.pending else "exhausted"

    @property
    def spent(self) -> float:
        """Cost charged so far, raw units: told batches (true costs) and attached results."""
        return self.ledger.spent

    @property
    def reserved(self) -> float:
        """Expected cost of the pending pulls, raw units."""
        with self._lock:
            return self.ledger.reserved

    @property
    def n_pending(self) -> int:
        """Number of pending pulls."""
        return len(self.ledger.pending)

    @property
    def pending(self) -> tuple[Pull, ...]:
        """The pending pulls, oldest first (after `load`: what the workers of the saved run were doing)."""
        with self._lock:
            return tuple(record.pull for record in self.ledger.pending.values())

    def cells(self) -> dict[str, int]:
        """How many (arm, example) cells are free, pending, told, attached and missing; their sum never changes."""
        with self._lock:
            return self.ledger.counts()

    # -- save / load ----------------------------------------------------------------------------------------------

    @locked
    def to_state(self) -> dict[str, Any]:
        """The whole state in JSON types; `from_state` of it asks next what this policy would."""
        return state.dump(self)

    @classmethod
    def from_state(cls: type[P], saved: Any) -> P:
        """Rebuild a policy from `to_state`; `StateError` names the field that does not fit."""
        return state.restore(cls, saved)

    def save(self, path: str | Path) -> None:
        """Write the state as JSON, atomically: a reader finds the old file or the new one, never half of one."""
        state.write_json(path, self.to_state())

    @classmethod
    def load(cls: type[P], path: str | Path, **expected: Any) -> P:
        """Resume from `save`: the next ask, the pending pulls and the generator are those of the saved policy.

        Parameters
        ----------
        path : path
        **expected
            Any of arms, n_examples, examples, cost (for `GittinsPolicy` also prior_mean, prior_variance,
            noise_variance): what the caller is about to work with. A difference raises.

        Raises
        ------
        StateError
            Names the field that does not fit: half a file, another policy, a newer schema, other prices, ...
        """
        return state.check_expected(state.restore(cls, state.read_json(path)), expected)

    @property
    def fingerprint(self) -> dict[str, str]:
        """Hash per field (arms, examples, cost, prior, order, options): equal exactly when two policies are set up alike."""
        return state.fingerprint(self)

    @functools.cached_property
    def _run_id(self) -> str:
        return hashlib.sha256(json.dumps(self.fingerprint, sort_keys=True).encode()).hexdigest()[:10]


P = TypeVar("P", bound=BasePolicy)


def _serial(token: str) -> int:
    """Serial number inside a token, -1 where there is none."""
    parts = token.split("-")
    return int(parts[1]) if len(parts) == 3 and parts[1].isascii() and parts[1].isdigit() else -1


def _check_cost(cost: Any, where: str) -> float:
    if isinstance(cost, (bool, str)) or not isinstance(cost, (int, float, np.number)) or not np.isfinite(cost) or cost < 0:
        raise ResponseError(f"cost of {where} must be a finite number, at least 0, got {cost!r}")
    return float(cost)
