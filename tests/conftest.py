"""Fixtures shared by all tests."""

from __future__ import annotations

import signal
import sys
from pathlib import Path

import pytest

# For `benchmarks`, which is not installed. Last, so that `pytest` still tests the installed package and not the checkout.
sys.path.append(str(Path(__file__).resolve().parents[1]))

# A shell's background job ignores Ctrl-C, and so would the processes of the tests that interrupt them.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def shared() -> Path:
    """The design folder beside the project, with real data and golden cases; tests skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "golden").is_dir():
        pytest.skip("the folder ../shared with real data and golden cases is not beside this checkout")
    return folder
