"""The documentation: its Python runs and prints what it shows, links resolve, every public name has an entry.

Markers, each an HTML comment on the line before a code block: ``<!-- requires: NAME -->`` is a peer's half of a pair and runs where
that package is installed; ``<!-- not run: why -->`` is only shown. A ``text`` block straight after a ``python`` block is its output.
"""

from __future__ import annotations

import contextlib
import importlib.util
import io
import re
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

import pytest

import lrgittins as lg

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"


def pages() -> list[str]:
    return sorted(page.relative_to(DOCS).as_posix() for page in DOCS.rglob("*.md"))


PAGES = pages()
FENCE = re.compile(r"(?:^<!-- (?P<marker>[^\n]*) -->\n)?^```(?P<language>\w*)[^\n]*\n(?P<source>.*?)^```[ ]*$", re.DOTALL | re.MULTILINE)
NUMBER = re.compile(r"[-+]?\d+(?:\.\d+)?(?:[eE][-+]?\d+)?")


@dataclass(frozen=True)
class Block:
    """A Python block of a page: its code, the line it starts on, what it needs, and the output shown for it."""

    source: str
    line: int
    requires: str | None
    shown: str | None


def blocks_of(page: str) -> list[Block]:
    """The Python blocks of a page that run, in order."""
    text = (DOCS / page).read_text(encoding="utf-8")
    found = list(FENCE.finditer(text))
    out = []
    for i, match in enumerate(found):
        marker = match["marker"] or ""
        if match["language"] != "python" or marker.startswith("not run:"):
            continue
        following = found[i + 1] if i + 1 < len(found) else None
        is_output = following is not None and following["language"] == "text" and not text[match.end() : following.start()].strip()
        requires = marker.removeprefix("requires:").strip() if marker.startswith("requires:") else None
        line = text.count("\n", 0, match.start("source")) + 1
        out.append(Block(match["source"], line, requires, following["source"] if following is not None and is_output else None))
    return out


def run_page(page: str, peer: str | None) -> int:
    """Run the blocks of a page in one namespace, those of `peer` included; returns how many ran."""
    namespace: dict[str, object] = {"__name__": "page"}
    n = 0
    for block in blocks_of(page):
        if block.requires not in (None, peer):
            continue
        code = compile("\n" * (block.line - 1) + block.source, str(DOCS / page), "exec")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed):
            exec(code, namespace)
        if block.shown is not None:
            assert same_output(block.shown, printed.getvalue()), f"{page}, line {block.line} prints\n{printed.getvalue()}"
        n += 1
    return n


def same_output(shown: str, printed: str) -> bool:
    """Equal words; numbers within two units of the last place shown, since the last digits differ between BLAS builds."""
    if NUMBER.sub("#", " ".join(shown.split())) != NUMBER.sub("#", " ".join(printed.split())):
        return False
    for wanted, got in zip(NUMBER.findall(shown), NUMBER.findall(printed), strict=True):
        mantissa, _, exponent = wanted.lower().partition("e")
        places = len(mantissa.partition(".")[2])
        if abs(float(wanted) - float(got)) > (2.0 * 10.0 ** (int(exponent or 0) - places) if places or exponent else 0.0):
            return False
    return True


@pytest.mark.parametrize("page", [page for page in PAGES if any(block.requires is None for block in blocks_of(page))])
def test_code_of_a_page_runs_and_prints_what_it_shows(page: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_page(page, None) > 0


PEERS = sorted({(page, block.requires) for page in PAGES for block in blocks_of(page) if block.requires is not None})


@pytest.mark.parametrize(("page", "peer"), PEERS)
def test_scores_agree_with_the_peer(page: str, peer: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip(peer, reason=f"{peer} is not installed: its half of the pair in {page} was not run")
    monkeypatch.chdir(tmp_path)
    assert run_page(page, peer) > sum(block.requires is None for block in blocks_of(page))


def test_migration_pairs_every_peer() -> None:
    assert {peer for page, peer in PEERS if page == "migration.md"} == {"arena_rank", "banditeval", "choix", "evalica", "sklearn"}


def test_what_counts_as_the_same_output() -> None:
    assert same_output("gap 1.23 of 7", "gap  1.24 of 7\n")
    assert not same_output("gap 1.23 of 7", "gap 1.26 of 7")
    assert not same_output("gap 1.23 of 7", "gap 1.23 of 8")
    assert not same_output("gap 1.23", "gap -1.23")
    assert not same_output("gap 1.23", "gap 1.23 1.23")


def test_every_public_name_is_in_the_reference() -> None:
    entries = set()
    for page in (DOCS / "api").glob("*.md"):
        entries |= set(re.findall(r"^::: lrgittins\.([\w.]+)$", page.read_text(encoding="utf-8"), re.MULTILINE))
    named = {entry.rpartition(".")[2] for entry in entries}
    public = set(lg.__all__) - {"__version__"}
    assert sorted(public - named) == [], "add `::: lrgittins.NAME` to a page in docs/api"
    # A function named like its module needs the long form, or the page documents the module instead.
    hidden = {name for name in public if (ROOT / "lrgittins" / f"{name}.py").exists()}
    assert sorted(name for name in hidden if f"{name}.{name}" not in entries) == []


@pytest.fixture(scope="module")
def hook() -> ModuleType:
    spec = importlib.util.spec_from_file_location("measured_pages", DOCS / "hooks" / "measured_pages.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_navigation_lists_every_page_once(hook: ModuleType) -> None:
    config = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    listed = re.findall(r":\s+(\S+\.md)\s*$", config[config.index("\nnav:") :], re.MULTILINE) + hook.measured_pages(DOCS)
    assert sorted(listed) == pages()


def test_links_between_pages_resolve() -> None:
    broken = []
    for page in PAGES:
        text = FENCE.sub("", (DOCS / page).read_text(encoding="utf-8"))
        for target in re.findall(r"\]\(([^)\s]+)\)", text):
            if "://" in target or target.startswith("mailto:"):
                continue
            name, _, anchor = target.partition("#")
            file = (DOCS / page).parent / name if name else DOCS / page
            if not file.is_file() or (anchor and anchor not in anchors_of(file)):
                broken.append(f"{page}: {target}")
    assert broken == []


def anchors_of(file: Path) -> set[str]:
    """Anchors of a page's headings, as mkdocs makes them, and of its API entries."""
    text = FENCE.sub("", file.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = {re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", heading).strip().lower()) for heading in headings}
    return slugs | set(re.findall(r"^::: (\S+)$", text, re.MULTILINE))


def test_parameters_described_together_are_listed_together(hook: ModuleType) -> None:
    def item(name: str, kind: str, text: str) -> str:
        head = f"<b><code>{name}</code></b> (<code>{kind}</code>, default: <code>1</code>)"
        return f'<li class="doc-section-item field-body">{head} – <div class="doc-md-description">{text}</div></li>\n'

    def shown(*items: str) -> list[str]:
        page = hook.on_page_content("<ul>\n" + "".join(items) + "</ul>")
        return [" ".join(re.sub("<[^>]+>", "", part).split()) for part in re.findall("<li.*?</li>", page, re.DOTALL)]

    # "ties, both_bad, on_invalid, ..." share a line of `Comparisons.from_frame`; the class describes each of them.
    group = ["ties", "both_bad", "on_invalid", "aliases", "tasks", "models"]
    assert shown(item("df", "a frame", "Votes."), *(item(name, "str", "See the class.") for name in group)) == [
        "df (a frame, default: 1) – Votes.",
        "ties, both_bad, on_invalid, aliases, tasks, models – See the class.",
    ]
    assert shown(*(item(name, "str", f"What {name} means.") for name in group[:2])) == [
        "ties (str, default: 1) – What ties means.",
        "both_bad (str, default: 1) – What both_bad means.",
    ]
    assert shown(item("comparisons", "`Comparisons`", "")) == ["comparisons (Comparisons, default: 1)"]
