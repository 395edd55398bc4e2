"""Damaged files for tests, each the same every time: what a table looks like after spreadsheets, bad disks and bad exports."""

from __future__ import annotations

import csv
import gzip
import io
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd

Rng = np.random.Generator
Text = Callable[[str, Rng], str]
Raw = Callable[[bytes, Rng], bytes]
Frame = Callable[[pd.DataFrame, Rng], pd.DataFrame]


@dataclass(frozen=True)
class Damage:
    """One kind of damage, to the table, to its text, or to its bytes.

    `verdict`: "answer" (must be read, as if nothing were wrong), "refuse" (must be an error), "either" (whatever is read must be all).
    """

    name: str
    formats: tuple[str, ...]
    verdict: str
    frame: Frame = lambda frame, rng: frame
    text: Text = lambda text, rng: text
    encoding: str = "utf-8"
    raw: Raw = lambda raw, rng: raw
    claimed: str | None = None  # the suffix the file gets, where it lies


def _lines(change: Callable[[list[str], Rng], list[str]]) -> Text:
    return lambda text, rng: "\n".join(change(text.split("\n"), rng))


def _place(lines: list[str], rng: Rng) -> int:
    """A line of data."""
    return int(rng.integers(1, len(lines) - 1))


def _insert(line: str) -> Text:
    return _lines(lambda lines, rng: lines[: (at := _place(lines, rng))] + [line] + lines[at:])


def _short(lines: list[str], rng: Rng) -> list[str]:
    at = _place(lines, rng)
    return lines[:at] + [lines[at].rpartition(",")[0]] + lines[at + 1 :]


def _long(lines: list[str], rng: Rng) -> list[str]:
    at = _place(lines, rng)
    return lines[:at] + [lines[at] + ",more,fields"] + lines[at + 1 :]


def _all_long(lines: list[str], rng: Rng) -> list[str]:
    return lines[:1] + [line + ",x" if line else line for line in lines[1:]]


def _mixed_ends(text: str, rng: Rng) -> str:
    return "".join(line + str(rng.choice(["\n", "\r\n"])) for line in text.split("\n") if line)


def _flip(raw: bytes, rng: Rng) -> bytes:
    data = bytearray(raw)
    for place in rng.integers(0, len(data), 8).tolist():
        data[place] ^= int(rng.integers(1, 256))
    return bytes(data)


def _truncate(raw: bytes, rng: Rng) -> bytes:
    return raw[: int(rng.integers(0, len(raw)))]


def _nul(raw: bytes, rng: Rng) -> bytes:
    at = int(rng.integers(len(raw) // 2, len(raw)))
    return raw[:at] + b"\x00" + raw[at:]


def _rename(**names: str) -> Frame:
    return lambda frame, rng: frame.rename(columns=names)


def _cell(column: int, value: object) -> Frame:
    """One cell replaced."""

    def change(frame: pd.DataFrame, rng: Rng) -> pd.DataFrame:
        frame = frame.astype(object)
        frame.iat[int(rng.integers(len(frame))), column] = value
        return frame

    return change


CSV, JSONL, PARQUET, GZ = (".csv", ".csv.gz"), (".jsonl", ".jsonl.gz"), (".parquet",), (".csv.gz", ".jsonl.gz")
TEXT = CSV + JSONL
ALL = TEXT + PARQUET

# What can happen to any table.
COMMON = (
    Damage("nothing", ALL, "answer"),
    Damage("truncated", ALL, "either", raw=_truncate),
    Damage("flipped bytes", ALL, "either", raw=_flip),
    Damage("binary junk", ALL, "refuse", raw=lambda raw, rng: b"\x00\x01" + rng.bytes(400)),
    Damage("empty", ALL, "refuse", raw=lambda raw, rng: b""),
    Damage("only blanks", (".csv", ".jsonl"), "refuse", raw=lambda raw, rng: b" \n\n  \n"),
    Damage("no rows", ALL, "refuse", frame=lambda frame, rng: frame.iloc[:0]),
    Damage("byte order mark", TEXT, "answer", text=lambda text, rng: "\ufeff" + text),
    Damage("UTF-16", TEXT, "refuse", encoding="utf-16"),
    Damage("semicolons", CSV, "refuse", text=lambda text, rng: text.replace(",", ";")),
    Damage("tabs", CSV, "refuse", text=lambda text, rng: text.replace(",", "\t")),
    Damage("mixed line ends", TEXT, "answer", text=_mixed_ends),
    Damage("blank lines", TEXT, "answer", text=_insert("")),
    Damage("NUL byte", (".csv", ".jsonl"), "refuse", raw=_nul),
    Damage("huge field", ALL, "either", frame=_cell(1, "x" * 300_000)),
    Damage("doubled header", CSV, "refuse", text=_lines(lambda lines, rng: [lines[0] + "," + lines[0].split(",")[-1]] + lines[1:])),
    Damage("empty header", CSV, "refuse", text=_lines(lambda lines, rng: ["," * lines[0].count(","), *lines[1:]])),
    Damage("no header", CSV, "refuse", text=_lines(lambda lines, rng: lines[1:])),
    Damage("header again", CSV, "refuse", text=_lines(lambda lines, rng: lines[:9] + lines[:1] + lines[9:])),
    Damage("comment first", CSV, "refuse", text=lambda text, rng: "# exported today\n" + text),
    Damage("short row", CSV, "refuse", text=_lines(_short)),
    Damage("long row", CSV, "refuse", text=_lines(_long)),
    Damage("long rows", CSV, "refuse", text=_lines(_all_long)),
    Damage("open quote", CSV, "refuse", text=_lines(lambda lines, rng: [*lines[:5], '"' + lines[5], *lines[6:]])),
    Damage("half an object", JSONL, "refuse", text=_lines(_short)),
    Damage("one array", JSONL, "refuse", text=lambda text, rng: json.dumps([json.loads(line) for line in text.split("\n") if line])),
    Damage("nested objects", JSONL, "refuse", frame=_cell(1, {"name": ["x"]})),
    Damage("deep nesting", JSONL, "refuse", text=_insert("[" * 100_000)),
    Damage("a number a line", JSONL, "refuse", text=_insert("17")),
    Damage("wrong suffix", (".parquet",), "refuse", claimed=".csv"),
    Damage("wrong suffix", (".csv",), "refuse", claimed=".parquet"),
    Damage("wrong suffix", (".csv", ".jsonl"), "refuse", claimed=".csv.gz"),
    Damage("wrong suffix", (".csv.gz",), "refuse", claimed=".csv"),
    Damage("wrong suffix", (".jsonl",), "refuse", claimed=".csv"),
    Damage("cut gzip", GZ, "refuse", raw=lambda raw, rng: raw[: len(raw) - 12]),
    Damage("bad checksum", GZ, "refuse", raw=lambda raw, rng: raw[:-8] + b"\x00\x01\x02\x03" + raw[-4:]),
    Damage("junk after gzip", GZ, "refuse", raw=lambda raw, rng: raw + b"junk"),
    Damage("two gzip members", (".csv.gz",), "answer", raw=lambda raw, rng: _members(raw)),
    Damage("no footer", PARQUET, "refuse", raw=lambda raw, rng: raw[:-8]),
    Damage("no magic", PARQUET, "refuse", raw=lambda raw, rng: b"XXXX" + raw[4:]),
)


def _members(raw: bytes) -> bytes:
    text = gzip.decompress(raw)
    return gzip.compress(text[:200], mtime=0) + gzip.compress(text[200:], mtime=0)


def to_bytes(frame: pd.DataFrame, suffix: str, damage: Damage, rng: Rng) -> bytes:
    """The damaged file."""
    frame = damage.frame(frame, rng)
    if suffix == ".parquet":
        sink = io.BytesIO()
        frame.to_parquet(sink, index=False)
        return damage.raw(sink.getvalue(), rng)
    if ".csv" in suffix:
        text = frame.to_csv(index=False, lineterminator="\n")
    else:
        text = "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in frame.astype(object).to_dict("records"))
    data = damage.text(text, rng).encode(damage.encoding)
    return damage.raw(gzip.compress(data, mtime=0) if suffix.endswith(".gz") else data, rng)


def rows_of(data: bytes, suffix: str) -> list[dict[str, object]] | None:
    """What Python's own readers find in a file that is not broken for them: one dict a row; None where they give up."""
    try:
        if suffix == ".parquet":
            found: list[dict[str, object]] = pd.read_parquet(io.BytesIO(data)).to_dict("records")  # type: ignore[assignment]
            return found
        if suffix.endswith(".gz"):
            data = gzip.decompress(data)
        text = data.decode("utf-8-sig")
        if ".csv" in suffix:
            csv.field_size_limit(2**24)  # of the whole process, and only ever raised
            rows = [row for row in csv.reader(io.StringIO(text, newline="")) if row]
            return [dict(zip([name.strip() for name in rows[0]], row, strict=False)) for row in rows[1:]]
        return [json.loads(line) for line in text.split("\n") if line.strip()]
    except Exception:
        return None


def cases(damages: tuple[Damage, ...]) -> Iterator[tuple[Damage, str]]:
    """Every kind of damage in every format it can happen to."""
    for damage in damages:
        for suffix in damage.formats:
            yield damage, suffix
