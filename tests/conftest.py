"""Fixtures shared by all tests."""

from __future__ import annotations

from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def shared() -> Path:
    """The design folder beside the project, with real data and golden cases; tests skip where it is absent."""
    folder = Path(__file__).resolve().parents[2] / "shared"
    if not (folder / "golden").is_dir():
        pytest.skip("the folder ../shared with real data and golden cases is not beside this checkout")
    return folder
