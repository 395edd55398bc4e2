"""What all pictures share: new axes, labels that fit, checks of `ax`, styles that read in grey."""

from __future__ import annotations

from typing import Any

from .._optional import import_optional
from ..errors import ParameterError

LONGEST_NAME = 32
# Colour-blind safe, and of different lightness and shape.
BETTER = {"color": "#0b5d3b", "marker": "o"}
WORSE = {"color": "#f0a04b", "marker": "s"}
OPEN = {"color": "#7a7a7a", "marker": "D"}


def shorten(name: str, longest: int = LONGEST_NAME) -> str:
    """Long names lose their middle: both ends tell models apart. A dollar sign is text, never mathematics."""
    line = " ".join(str(name).split())
    half = (longest - 3) // 2
    return (line if len(line) <= longest else f"{line[:half]}...{line[-half:]}").replace("$", r"\$")


def get_axes(ax: Any, size: tuple[float, float], purpose: str) -> Any:
    """`ax` itself, or new axes of a new figure of `size` inches."""
    if ax is not None:
        if not hasattr(ax, "set_xlim"):
            raise ParameterError(f"ax must be matplotlib Axes, got {type(ax).__name__}")
        return ax
    pyplot: Any = import_optional("matplotlib.pyplot", extra="plot", purpose=purpose)
    return pyplot.subplots(figsize=size, layout="constrained")[1]


def font_size(n_rows: int) -> float:
    """Of the labels of `n_rows` lines."""
    return 8.0 if n_rows <= 30 else 7.0


def height(n_rows: int) -> float:
    """Inches a picture needs for one readable line per row."""
    return 1.3 + 0.19 * max(n_rows, 4)
