"""MkDocs hook: the sections "Measured" and "Studies" of the navigation, and numpydoc as its readers expect it.

These sections: the pages of figures that exist. Studies come and go with the results that are stored: they are found, not listed by hand.
"""

from __future__ import annotations

import html as entities
import re
from functools import cache
from pathlib import Path
from typing import Any

FIXED = ("performance.md", "performance_peers.md", "performance_limits.md", "scaling.md", "environments.md", "studies.md")
PACKAGE = Path(__file__).resolve().parents[2] / "lrgittins"
_GROUP = re.compile(r"^ +(\w+(?:, \w+)+)(?: : (.+))?$", re.MULTILINE)
_ITEM = re.compile(r' *<li class="doc-section-item field-body">.*?</li>\n?', re.DOTALL)
_NAME = re.compile(r"<b><code>(\w+)</code></b>")
_DESCRIPTION = re.compile(r'–\s*<div class="doc-md-description">(.*?)</div>', re.DOTALL)


def measured_pages(docs: Path) -> list[str]:
    """Paths relative to `docs`: the fixed pages that exist, then every page below studies/, shallow ones first."""
    studies = sorted((docs / "studies").rglob("*.md"), key=lambda page: (len(page.parts), page.as_posix()))
    return [name for name in FIXED if (docs / name).is_file()] + [page.relative_to(docs).as_posix() for page in studies]


def on_config(config: Any) -> Any:
    pages = measured_pages(Path(config.docs_dir))
    studies = [name for name in pages if name.startswith("studies")]
    config.nav += [{"Measured": [name for name in pages if name not in studies]}, {"Studies": studies}]
    return config


def on_page_content(html: str, **_: Any) -> str:
    """References (``.. [1]`` is not Markdown), pictures as links to themselves, and parameters that a docstring describes together.

    The handler lists those one by one, each under the type and default of the first: they are put together again, without a default.
    """
    html = re.sub(r"\.\. (\[\d+\])", r"\1", html)
    html = re.sub(r'<img [^>]*src="([^"]+)"[^>]*>', r'<a href="\1">\g<0></a>', html)  # in its own size, where a column is too narrow
    for name, value in marked_defaults().items():  # in signatures their value is wanted
        html = re.sub(rf"\b{name}\b", value, html)
    return re.sub(f"(?:{_ITEM.pattern})+", lambda match: _listed(_ITEM.findall(match[0])), html, flags=re.DOTALL)


@cache
def marked_defaults() -> dict[str, str]:
    """Constants like ``_MEAN = float("0.5")``, defaults that are told from an argument of the same value."""
    found: dict[str, str] = {}
    for path in PACKAGE.rglob("*.py"):
        for names, values in re.findall(r'^(_[A-Z_]+(?:, _[A-Z_]+)*) = (float\(".*"\))$', path.read_text(encoding="utf-8"), re.MULTILINE):
            found |= dict(zip(names.split(", "), re.findall(r'float\("(.*?)"\)', values), strict=True))
    return found


@cache
def described_together() -> dict[tuple[str, ...], set[str]]:
    """Names that share a line in some docstring, with the types written there ("" where there is none)."""
    groups: dict[tuple[str, ...], set[str]] = {}
    for path in PACKAGE.rglob("*.py"):
        for names, kind in _GROUP.findall(path.read_text(encoding="utf-8")):
            groups.setdefault(tuple(names.split(", ")), set()).add(kind.removesuffix(", optional"))
    return groups


def _listed(items: list[str]) -> str:
    names = [match[1] if (match := _NAME.search(item)) else "" for item in items]
    said = [_NAME.sub("", item) for item in items]
    groups, out, i = described_together(), "", 0
    while i < len(items):
        alike = next((j for j in range(i, len(items)) if said[j] != said[i]), len(items)) - i
        n = max((len(group) for group in groups if len(group) <= alike and tuple(names[i : i + len(group)]) == group), default=1)
        item = items[i] if n == 1 else _together(items[i], tuple(names[i : i + n]))
        head, dash, text = item.partition("–")  # types are set as code already, and nothing needs no dash before it
        out += _DESCRIPTION.sub(lambda match: match[0] if match[1].strip() else "", head.replace("`", "") + dash + text)
        i += n
    return out


def _together(item: str, names: tuple[str, ...]) -> str:
    """One entry for all names: under the type that the docstring gives them, not the annotation of the first."""
    own = re.search(r"\(<code>(.*?)</code>", item, re.DOTALL)
    shown = entities.unescape(re.sub("<[^>]+>", "", own[1])) if own else ""
    kind = shown if shown in described_together()[names] else ""
    head = ", ".join(f"<b><code>{name}</code></b>" for name in names) + (f" (<code>{entities.escape(kind)}</code>)" if kind else "")
    start, end = item.index("<b>"), item.index("–")
    return f"{item[:start]}{head} {item[end:]}"
