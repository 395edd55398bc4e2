"""Columns of Python objects in which few distinct objects occur many times, as readers of files leave them: coded by identity first.

One object has one value, so rows that hold the same object need no hashing of text: their addresses are told apart (one pass over 8
bytes a row), and only one row of each object is looked at by value. Equal values in different objects then get one code as ever.
"""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from ._kernels.pointers import code_distinct

MOST_OBJECTS = 4096  # beyond, identity saves little; a column of all different objects is left after as many rows
_ALIGNMENT_BITS = 4  # objects lie 16 bytes apart at least


def code_objects(column: NDArray[np.object_]) -> tuple[NDArray[np.int64], NDArray[np.int64]] | None:
    """Codes by identity (n,), numbered as first met, and the row where each object was first met; None where that does not pay."""
    n = len(column)
    compiled = hasattr(code_distinct, "signatures")  # else it is plain Python, under NUMBA_DISABLE_JIT=1
    if not compiled or not column.flags.c_contiguous or column.itemsize != 8:
        return None
    addresses = np.ctypeslib.as_array((ctypes.c_int64 * n).from_address(column.ctypes.data))
    addresses.setflags(write=False)
    codes, first = np.empty(n, dtype=np.int64), np.empty(MOST_OBJECTS, dtype=np.int64)
    found = code_distinct(addresses, _ALIGNMENT_BITS, codes, first)
    return None if found < 0 else (codes, first[:found])
