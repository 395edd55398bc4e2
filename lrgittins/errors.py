"""Every exception and warning of the package. A message says what was wrong, where, and what to do."""

from __future__ import annotations


class LRGittinsError(Exception):
    """Root of all errors raised on purpose by lrgittins."""


class ParameterError(LRGittinsError, ValueError):
    """An argument is outside its meaning (``alpha=95``, K out of range, an unknown policy name)."""


class ComparisonError(LRGittinsError, ValueError):
    """Pairwise votes that cannot be used as given; names the column, the first rows and the count."""


class ResponseError(LRGittinsError, ValueError):
    """Scores, prices or a response matrix that cannot be used as given."""


class NotIdentifiableError(LRGittinsError, ValueError):
    """The comparison graph leaves scores undetermined; names the pieces."""


class MissingExtraError(LRGittinsError, ImportError):
    """An optional dependency is absent; names the extra that brings it."""


class StateError(LRGittinsError):
    """A saved state that is wrong, broken or newer, or a late, repeated or contradictory ``tell``."""


class StoreError(LRGittinsError):
    """An evaluation store that is in use by another process, or is not ours."""


class WorkerError(LRGittinsError, RuntimeError):
    """Workers were lost again and again; names the block of work they were lost on."""


class ConvergenceWarning(UserWarning):
    """A solver stopped before it met its tolerance; the result says how far it got."""
