"""What the commands share: common options, messages, tables for a terminal, and where results go."""

from __future__ import annotations

import codecs
import contextlib
import functools
import gzip
import json
import logging
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from .errors import LRGittinsError, ParameterError

WIDTH = 100
Command = Callable[..., None]
INPUT = click.Path(path_type=Path, readable=False)  # what cannot be read is said by who reads it, like every other fault of a file

# Options as Python spells them in messages, and as the command line does.
_RENAMED = {"n_folds": "folds", "aliases": "alias", "n_jobs": "jobs", "n_runs": "runs", "policies": "policy"}
_NAMES = (
    "task|model_a|model_b|winner|count|id|cluster|ties|both_bad|on_invalid|aliases|rank|top_k|alpha|family|method|n_draws|n_folds|calibration"
    "|design|disconnected|arm|example|score|score_range|cost|budget|n_jobs|n_runs|batch_size|policies|tol|n_examples"
)
_PYTHON_OPTION = re.compile(rf"(?<![\w.'\"])({_NAMES})=(?:\"([\w-]+)\"|'([\w-]+)'|([\d.]+)|\(([\w.]+), ([\w.]+)\)|(?=[\s,;)]|$))")
_PYTHON_SUBJECT = re.compile(rf"^({_NAMES})(?= (?:must|is a|is empty))")
_PYTHON_CLAIM = re.compile(r"\('(cell|model|task)', (task|model)(?:, (model))?\)")


def in_cli_words(message: str) -> str:
    """The remedy of a message as options of the command line: ``on_invalid="drop"`` becomes ``--on-invalid drop``."""

    def spell(match: re.Match[str]) -> str:
        value = match[2] or match[3] or match[4] or (f"{match[5]} {match[6]}" if match[5] else "")
        return f"{option(match[1])} {value}".rstrip()

    def option(name: str) -> str:
        return "--" + _RENAMED.get(name, name).replace("_", "-")

    def claim(match: re.Match[str]) -> str:
        return ":".join(word if word == match[1] and at == 0 else word.upper() for at, word in enumerate(match.groups()) if word)

    message = _PYTHON_CLAIM.sub(claim, message.replace("pass task=None", "pass --single-task"))
    message = _PYTHON_SUBJECT.sub(lambda match: option(match[1]), message)
    message = message.partition(" (or give a factory")[0]  # Python's other ways
    return _PYTHON_OPTION.sub(spell, message)


class Reporter:
    """Progress on stderr, silenced by ``--quiet``."""

    def __init__(self, quiet: bool) -> None:
        self.quiet = quiet

    def __call__(self, message: str) -> None:
        if not self.quiet:
            click.echo(message, err=True)


def common_options(function: Command) -> Command:
    """Add --json, --quiet, --seed and --debug; turn errors into one message, warnings and the log into lines on stderr.

    The command receives `as_json`, `seed` and `report` (a `Reporter`).
    """

    @click.option("--json", "as_json", is_flag=True, help="Results as JSON on stdout.")
    @click.option("--quiet", "-q", is_flag=True, help="No progress on stderr (warnings and errors stay).")
    @click.option("--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of everything random.")
    @click.option("--debug", is_flag=True, help="Tracebacks and the detailed log on stderr.")
    @functools.wraps(function)
    def command(*args: Any, quiet: bool, debug: bool, **kwargs: Any) -> None:
        with _messages_on_stderr(quiet, debug):
            try:
                function(*args, report=Reporter(quiet), **kwargs)
            except BrokenPipeError:
                discard_stdout()
                raise click.exceptions.Exit(0) from None
            except (LRGittinsError, OSError, MemoryError) as error:
                if debug:
                    raise
                raise InputError(_one_message(error)) from error
            except (click.ClickException, click.Abort, click.exceptions.Exit):
                raise
            except Exception as error:
                if debug:
                    raise
                raise InternalError(f"internal error, please report it: {type(error).__name__}: {error} (--debug shows where)") from error

    return command


def examples(*lines: str) -> str:
    """The end of a command's help: lines that can be typed."""
    return "\b\nExamples:\n" + "\n".join(f"  {line}" for line in lines)


def plain_streams() -> None:
    """Where the terminal or the pipe cannot show a character, write something close to it instead of failing."""

    def replace(error: UnicodeError) -> tuple[str, int]:
        assert isinstance(error, UnicodeEncodeError)
        letters = error.object[error.start : error.end]
        return "".join(_SPELLED.get(letter) or letter.encode("ascii", "backslashreplace").decode() for letter in letters), error.end

    codecs.register_error("lrgittins", replace)
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure") and not _is_utf8(stream):
            stream.reconfigure(errors="lrgittins")


_SPELLED = {"\u00b1": "+-", "\u2019": "'", "\u2013": "-", "\u2026": "..."}


def _is_utf8(stream: Any) -> bool:
    try:
        return codecs.lookup(stream.encoding).name == "utf-8"
    except (LookupError, TypeError):
        return False


def discard_stdout() -> None:
    """The reader of stdout (`| head`) has what it wanted: what is still buffered has nowhere to go, also not at exit."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


class InputError(click.ClickException):
    """Bad input: one message, exit code 2."""

    exit_code = 2

    def show(self, file: Any = None) -> None:
        click.echo(f"lrgittins: error: {self.format_message()}", err=True)


class InternalError(InputError):
    """A fault of ours, not of the input."""

    exit_code = 1


def _one_message(error: BaseException) -> str:
    if isinstance(error, MemoryError):
        return f"not enough memory ({error or 'out of memory'})"
    if isinstance(error, OSError) and not isinstance(error, LRGittinsError) and error.filename is not None:
        return f"{error.filename}: {error.strerror}"
    return in_cli_words(str(error))


@contextlib.contextmanager
def _messages_on_stderr(quiet: bool, debug: bool) -> Iterator[None]:
    log = logging.getLogger("lrgittins")
    handler = _EchoHandler()
    level = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG if debug else logging.WARNING if quiet else logging.INFO)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        warnings.simplefilter("default", UserWarning)
        warnings.simplefilter("default", RuntimeWarning)
        warnings.showwarning = _show_warning
        try:
            yield
        finally:
            log.removeHandler(handler)
            log.setLevel(level)


class _EchoHandler(logging.Handler):
    def emit(self, record: logging.LogRecord) -> None:
        click.echo(f"{record.levelname.lower()}: {self.format(record)}", err=True)


def _show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
    click.echo(f"warning: {in_cli_words(str(message))}", err=True)


# ------------------------------------------------------------------------------------------------------ terminal


def shorten(text: object, width: int) -> str:
    """`text` on one line of at most `width` characters; long ones lose their middle, as both ends tell names apart."""
    line = "".join(character if character.isprintable() else "?" for character in " ".join(str(text).split()))
    if len(line) <= width:
        return line
    tail = (width - 3) // 2
    return f"{line[: width - 3 - tail]}...{line[len(line) - tail :]}"


def number(value: float | int | None, digits: int = 3) -> str:
    """A number for people: fixed digits, thousands apart, unbounded and missing ones as words."""
    if value is None or value != value:
        return "-"
    if isinstance(value, int):
        return f"{value:,}"
    if value in (float("inf"), float("-inf")):
        return "inf" if value > 0 else "-inf"
    return f"{value:.{digits}f}"


def count(n: int, thing: str) -> str:
    """``1 row``, ``2,000 rows``."""
    return f"{n:,} {thing}" if n == 1 else f"{n:,} {thing}s"


def table(header: Sequence[str], rows: Sequence[Sequence[str]], *, left: Sequence[str] = (), flexible: str) -> str:
    """A text table at most `WIDTH` wide: the column `flexible` is shortened, columns named in `left` are left-aligned."""
    at = list(header).index(flexible)
    widths = [max(len(name), *(len(row[i]) for row in rows), 0) if rows else len(name) for i, name in enumerate(header)]
    others = sum(widths) - widths[at] + 2 * (len(header) - 1)
    widths[at] = max(8, min(widths[at], WIDTH - others))

    def line(fields: Sequence[str]) -> str:
        cells = [
            shorten(text, width).ljust(width) if name in left else text.rjust(width)
            for name, text, width in zip(header, fields, widths, strict=True)
        ]
        return "  ".join(cells).rstrip()

    return "\n".join([line(header), *map(line, rows)])


# --------------------------------------------------------------------------------------------------------- files


def check_out(path: Path, writers: Mapping[str, Any], what: str) -> str:
    """The known suffix of an output path; refused before any work is done when it cannot be written."""
    from ._optional import import_optional

    name = path.name.lower()
    suffix = next((known for known in sorted(writers, key=len, reverse=True) if name.endswith(known)), None)
    if suffix is None:
        raise ParameterError(f"--out {path}: {what} is written as {', '.join(writers)}; end the name in one of these")
    if path.is_dir() or not path.absolute().parent.is_dir():
        problem = "is a folder" if path.is_dir() else f"the folder {path.absolute().parent} does not exist"
        raise ParameterError(f"--out {path}: {problem}")
    if not os.access(path.absolute().parent, os.W_OK | os.X_OK):  # files are replaced whole, so it is the folder that counts
        raise ParameterError(f"--out {path}: no permission to write into {path.absolute().parent}")
    if suffix == ".parquet":
        import_optional("pyarrow", extra="arrow", purpose="writing Parquet")
    if suffix == ".html":
        import_optional("jinja2", extra="report", purpose="writing an HTML report")
    return suffix


def write_gzip(path: Path, text: str) -> None:
    """Text as gzip, the same bytes each time, atomically."""
    from ._files import write_atomically

    write_atomically(path, gzip.compress(text.encode(), mtime=0))


def echo_json(data: Any) -> None:
    """Strict JSON on stdout; its own escapes where stdout is not UTF-8."""
    click.echo(json.dumps(data, allow_nan=False, indent=1, ensure_ascii=sys.stdout is not None and not _is_utf8(sys.stdout)))
