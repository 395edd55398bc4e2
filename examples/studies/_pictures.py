"""Small picture files: what the documentation keeps beside its tables."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import click


def save_small(figure: Any, path: Path, *, dpi: int = 80) -> None:
    """Write a matplotlib figure as a PNG of 64 colours: lines and light bands lose nothing, the file most of its size."""
    from PIL import Image  # comes with matplotlib

    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=dpi, format="png")
    path.parent.mkdir(parents=True, exist_ok=True)
    Image.open(buffer).convert("RGB").quantize(64).save(path, optimize=True)
    click.echo(f"wrote {path}")
