"""`random_state` becomes a Generator once, here; child streams are independent of call order."""

from __future__ import annotations

import numpy as np

from .errors import ParameterError

RandomState = int | np.random.Generator | np.random.SeedSequence | None


def as_generator(random_state: RandomState) -> np.random.Generator:
    """A Generator from a seed, a SeedSequence, a Generator (used as it is) or None (fresh entropy)."""
    if isinstance(random_state, np.random.Generator):
        return random_state
    return np.random.default_rng(seed_sequence(random_state))


def seed_sequence(random_state: RandomState) -> np.random.SeedSequence:
    """A root of independent streams; a Generator gives one integer of its own."""
    if isinstance(random_state, np.random.SeedSequence):
        return random_state
    if isinstance(random_state, np.random.Generator):
        return np.random.SeedSequence(int(random_state.integers(2**63 - 1)))
    if random_state is None:
        return np.random.SeedSequence()
    if isinstance(random_state, bool) or not isinstance(random_state, (int, np.integer)) or random_state < 0:
        raise ParameterError(f"random_state must be a non-negative int, a numpy Generator, a SeedSequence or None, got {random_state!r}")
    return np.random.SeedSequence(int(random_state))
