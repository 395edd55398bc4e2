"""MkDocs hook: the section "Measured" of the navigation, and references of docstrings as plain text.

Measured: the pages of figures that exist. Studies come and go with the results that are stored, so they are found, not listed by hand.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

FIXED = ("performance.md", "performance_peers.md", "performance_limits.md", "scaling.md", "environments.md", "studies.md")


def measured_pages(docs: Path) -> list[str]:
    """Paths relative to `docs`: the fixed pages that exist, then every page below studies/, shallow ones first."""
    studies = sorted((docs / "studies").rglob("*.md"), key=lambda page: (len(page.parts), page.as_posix()))
    return [name for name in FIXED if (docs / name).is_file()] + [page.relative_to(docs).as_posix() for page in studies]


def on_config(config: Any) -> Any:
    config.nav.append({"Measured": measured_pages(Path(config.docs_dir))})
    return config


def on_page_content(html: str, **_: Any) -> str:
    """numpydoc marks a reference as ``.. [1]``, which is not Markdown."""
    return re.sub(r"\.\. (\[\d+\])", r"\1", html)
