"""Distinct numbers in the order in which they are met."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .._numba import kernel

IntArray = NDArray[np.int64]


@kernel
def code_distinct(numbers: IntArray, shift: int, codes: IntArray, first: IntArray) -> int:
    """Fill `codes` (n,) with the code of each number and `first` with the row where each code was met; the number of codes.

    -1 where there are more than `first` has room for. Open addressing on the middle bits; the lowest `shift` bits say nothing.
    """
    width = 1
    while width < 4 * len(first):
        width *= 2
    slot_code = np.full(width, -1, dtype=np.int64)
    slot_number = np.empty(width, dtype=np.int64)
    used = 0
    for i in range(len(numbers)):
        number = numbers[i]
        low = number >> shift
        slot = (low ^ (low >> 11)) & (width - 1)
        while slot_code[slot] >= 0 and slot_number[slot] != number:
            slot = (slot + 1) & (width - 1)
        code = slot_code[slot]
        if code < 0:
            if used == len(first):
                return -1
            code = used
            slot_code[slot], slot_number[slot], first[used] = code, number, i
            used += 1
        codes[i] = code
    return used
