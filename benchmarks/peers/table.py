"""Rows to Markdown, and Markdown into files between markers."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

Row = Mapping[str, Any]
KINDS = ("point", "intervals", "tasks", "step", "roots")


def span(seconds: float) -> str:
    """Three digits and a unit."""
    for unit, factor in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if seconds >= factor or unit == "us":
            value = seconds / factor
            return f"{value:,.0f} {unit}" if value >= 100 else f"{value:.3g} {unit}"
    raise AssertionError


def ratio_text(ratio: float) -> str:
    return f"{ratio:,.0f}" if ratio >= 100 else f"{ratio:.1f}" if ratio >= 10 else f"{ratio:.2f}"


def ordered(rows: Sequence[Row]) -> list[Row]:
    """By kind of work, then as they came."""
    return sorted(rows, key=lambda row: KINDS.index(row["kind"]))


def finished(rows: Sequence[Row]) -> list[Row]:
    """Rows with times, in order: those without are of peers that were over budget."""
    return [row for row in ordered(rows) if "over_budget" not in row]


def full_table(rows: Sequence[Row], failures: Mapping[str, str]) -> str:
    """Every row with both ways of doing it; rows that took too long and peers that could not be run are lines of their own."""
    lines = [
        "| work | peer | its time | ours | ratio (lowest) | wanted | largest difference | rounds |",
        "| --- | --- | --- | --- | --- | --- | --- | --- |",
    ]
    for row in finished(rows):
        missed = "" if row["ratio"] >= row["wanted"] else " **missed**"
        lines.append(
            f"| {row['work']} | {row['peer']} {row['versions'][row['peer']]} | {span(row['theirs'])} | {span(row['ours'])} "
            f"| {ratio_text(row['ratio'])} ({ratio_text(row['lowest_ratio'])}){missed} | {row['wanted']:g} "
            f"| {row['difference']:.1e}, {row['unit']} | {row['rounds']} |"
        )
    for row in ordered(rows):
        if "over_budget" in row:
            instead = f"what finished is: {row['finished']}" if row["finished"] else "no smaller input finished either"
            budget = f"over the budget of {row['over_budget']:g} CPU seconds for its runs of one row"
            lines.append(f"\n{row['work']}, {row['peer']} {row['versions'][row['peer']]}: {budget}; {instead}.")
    lines += [f"\n{peer}: not run. {reason}" for peer, reason in failures.items()]
    ways = dict.fromkeys((row["peer"], row["kind"], row["their_way"], row["our_way"]) for row in ordered(rows))
    lines.append("\nWhat either side does:\n")
    lines += [f"- {peer}, {kind}: {theirs}. Ours: {our}." for peer, kind, theirs, our in ways]
    return "\n".join(lines)


def compact_table(rows: Sequence[Row]) -> str:
    """One line per work, peers beside each other: how many times faster."""
    names = [peer for peer in dict.fromkeys(row["peer"] for row in rows) if peer != "numpy"]
    grouped: dict[str, dict[str, float]] = {}
    for row in finished(rows):
        if row["kind"] in ("point", "intervals", "tasks") and row["peer"] != "numpy":
            # Peers whose intervals resample votes get fewer of them, and the ridge is the same on both sides: one line.
            work = re.sub(r"^ridged (\w)", r"\1", row["work"])
            if row["kind"] == "intervals":
                work = work.split(",")[0]
            grouped.setdefault(work, {})[row["peer"]] = row["ratio"]
    fits = [name for name in names if any(name in found for found in grouped.values())]
    lines = []
    if grouped:
        lines += ["| times faster than | " + " | ".join(fits) + " |", "| --- |" + " --- |" * len(fits)]
        for work, found in grouped.items():
            lines.append(f"| {work} | " + " | ".join(ratio_text(found[name]) if name in found else "" for name in fits) + " |")
    steps = [row for row in finished(rows) if row["kind"] in ("step", "roots")]
    if steps:
        lines += (
            ["", "| work | against | times faster |", "| --- | --- | --- |"]
            if lines
            else ["| work | against | times faster |", "| --- | --- | --- |"]
        )
        for row in steps:
            against = "plain numpy FFT" if row["peer"] == "numpy" else row["peer"]
            lines.append(f"| {row['work']} | {against} | {ratio_text(row['ratio'])} |")
    return "\n".join(lines)


def replace_between(text: str, name: str, body: str) -> str:
    """`text` with what stands between ``<!-- name -->`` and ``<!-- /name -->`` replaced; unchanged where there are no markers."""
    begin, end = f"<!-- {name} -->", f"<!-- /{name} -->"
    if begin not in text:
        return text
    if text.count(begin) != 1 or text.count(end) != 1 or text.index(end) < text.index(begin):
        raise ValueError(f"the markers {begin} and {end} must stand once each, in this order")
    head, rest = text.split(begin)
    return f"{head}{begin}\n{body.strip()}\n{end}{rest.split(end)[1]}"


def write_tables(path: Path, tables: Mapping[str, str]) -> None:
    """Put each table between its markers in a file; raises where the file has none of them."""
    text = path.read_text(encoding="utf-8")
    if not any(f"<!-- {name} -->" in text for name in tables):
        raise ValueError(f"{path} has none of the markers {', '.join(f'<!-- {name} -->' for name in tables)}")
    for name, body in tables.items():
        text = replace_between(text, name, body)
    path.write_text(text, encoding="utf-8")
