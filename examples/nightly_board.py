"""Tonight's votes into the counts, a new board, and what changed: ``python nightly_board.py --state boards votes-2026-11-30.csv``.

The state folder holds the counts of all votes so far (never the votes), the last board, and which files were counted. A file is known
by its content: giving it twice, or running twice on one day, changes nothing. A file that was counted and has other content now is
refused, as its old votes cannot be taken back out. Counts, list of files and board change together: everything new is written beside
what is there, and one replacement of `state.json` makes it count, so a run may be killed at any moment and started again.

Other options (`--rank`, `--top-k`, `--seed`) than those of the last board make a new one, with or without new votes.

If the votes cannot be ranked (two groups of models that never meet, say) they are kept, the old board stays, and the next run tries again.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import json
import os
import re
import sys
from pathlib import Path
from typing import Any

import lrgittins as lg

try:
    import fcntl
except ImportError:  # Windows: run one at a time yourself
    fcntl = None  # type: ignore[assignment]

EMPTY: dict[str, Any] = {"version": 1, "generation": 0, "files": {}, "counts": None, "board": None, "board_generation": None}
OWN_FILES = re.compile(r"(counts|board)-\d+\.json")  # the folder may hold other people's files


class NightlyError(Exception):
    """One message for whoever reads the log in the morning."""


class State:
    """The folder: `state.json` names the files that count; nothing else does."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        self._lock = (folder / "lock").open("a")
        if fcntl is not None:
            try:
                fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                self._lock.close()
                raise NightlyError(f"{folder} is in use by another run; wait for it to end") from None
        self.path = folder / "state.json"
        try:
            self.data = json.loads(self.path.read_text(encoding="utf-8")) if self.path.exists() else dict(EMPTY)
            version = self.data["version"]
        except (ValueError, KeyError, TypeError) as error:
            self._lock.close()
            raise NightlyError(f"{self.path} is damaged ({error!r}); restore it from a backup") from None
        if version != 1:
            self._lock.close()
            raise NightlyError(f"{self.path} has version {version}; this program writes version 1")

    def close(self) -> None:
        """Let the next run in."""
        self._lock.close()

    def counts(self) -> lg.Comparisons | None:
        name = self.data["counts"]
        return None if name is None else lg.Comparisons.read_counts(self.folder / name)

    def board(self) -> lg.Leaderboard | None:
        name = self.data["board"]
        return None if name is None else lg.Leaderboard.read(self.folder / name)

    def commit(self, **changes: Any) -> None:
        """Make the changes count, then remove what no longer does."""
        data = {**self.data, **changes}
        temporary = self.path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as file:
            json.dump(data, file, indent=1)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, self.path)
        self.data = data
        for path in self.folder.glob("*-*.json"):
            if OWN_FILES.fullmatch(path.name) and path.name not in (data["counts"], data["board"]):
                path.unlink(missing_ok=True)


def count_files(state: State, files: list[Path], columns: dict[str, Any]) -> tuple[int, list[str]]:
    """Add the files that are new; returns the number of votes added and a line about each file."""
    total, lines = state.counts(), []
    known = dict(state.data["files"])
    names = {entry["name"]: digest for digest, entry in known.items()}
    n_new = 0
    for path in files:
        try:
            digest = hashlib.sha256(path.read_bytes()).hexdigest()
        except OSError as error:
            raise NightlyError(f"{path}: cannot be read ({error.strerror})") from None
        if digest in known:
            lines.append(f"{path.name}: counted before, left out")
            continue
        if path.name in names:
            raise NightlyError(
                f"{path}: a file of this name was counted with other content, and its votes cannot be taken back out; "
                "give new votes in a file of their own"
            )
        votes = lg.Comparisons.read(path, **columns)
        total = votes if total is None else total + votes
        n_new += votes.n
        known[digest] = {"name": path.name, "votes": votes.n, "dropped": votes.n_dropped}
        names[path.name] = digest
        lines.append(f"{path.name}: {votes.n:,} votes" + (f", {votes.n_dropped:,} rows dropped" if votes.n_dropped else ""))
    if known != state.data["files"] and total is not None:
        generation = state.data["generation"] + 1
        name = f"counts-{generation}.json"
        total.write_counts(state.folder / name)
        state.commit(generation=generation, counts=name, files=known)
    return n_new, lines


def describe_changes(old: lg.Leaderboard | None, new: lg.Leaderboard) -> list[str]:
    """What a reader of yesterday's board should know."""
    after = new.to_frame().set_index(["task", "model"])
    if old is None:
        certified = int((after["certificate"] != "unresolved").sum())
        return [f"first board: {len(after)} rows, {certified} certified"]
    before = old.to_frame().set_index(["task", "model"])
    lines = [f"new on the board: {task}, {model}" for task, model in after.index.difference(before.index)]
    lines += [f"gone from the board: {task}, {model}" for task, model in before.index.difference(after.index)]
    both = after.index.intersection(before.index)
    for task, model in both:
        was, now = before.loc[(task, model)], after.loc[(task, model)]
        if was["certificate"] != now["certificate"]:
            lines.append(
                f"certificate flipped: {task}, {model}: {was['certificate']} -> {now['certificate']} "
                f"(rank {was['rank']} [{was['rank_low']}, {was['rank_high']}] -> {now['rank']} [{now['rank_low']}, {now['rank_high']}])"
            )
    for task in sorted({task for task, _ in both}):
        first_was, first_now = (sorted(frame.loc[task].query("rank == 1").index) for frame in (before, after))
        if first_was != first_now:
            lines.append(f"new first: {task}: {', '.join(first_was)} -> {', '.join(first_now)}")
    moved = int((before.loc[both, "rank"] != after.loc[both, "rank"]).sum())
    return [*lines, f"{moved} of {len(both)} ranks moved"]


def refresh(state: State, options: argparse.Namespace) -> None:
    """Count, certify, tell."""
    n_new, lines = count_files(state, options.files, {"on_invalid": options.on_invalid})
    print("\n".join(lines))
    settings = {"rank": options.rank, "top_k": options.top_k, "seed": options.seed}
    same_settings = state.data.get("board_options") == settings
    if state.data["board_generation"] == state.data["generation"] and same_settings:
        print("nothing new: the board stays as it is")
        return
    votes, old = state.counts(), state.board()
    if votes is None:
        raise NightlyError("there are no votes yet")
    board = lg.leaderboard(votes, rank=options.rank, top_k=options.top_k, random_state=options.seed)
    changes = describe_changes(old, board)
    last = state.data["board"]  # a name of its own: the last board stays whole until this one counts
    name = f"board-{1 + (0 if last is None else int(last[len('board-') : -len('.json')]))}.json"
    board.to_json(state.folder / name)
    state.commit(board=name, board_generation=state.data["generation"], board_options=settings)
    if old is not None and not same_settings:
        print("the board has other options than the last one: " + ", ".join(f"{key}={value}" for key, value in settings.items()))
    print(f"{votes.n:,} votes in all, {n_new:,} of them new")
    print("\n".join(changes))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+", type=Path, help="vote files; those counted before are left out")
    parser.add_argument("--state", type=Path, required=True, help="folder of counts and board")
    parser.add_argument("--top-k", type=int)
    parser.add_argument("--rank", type=lambda text: text if text == "auto" else int(text), default="auto", metavar="R")
    parser.add_argument("--on-invalid", choices=["error", "drop"], default="error")
    parser.add_argument("--seed", type=int, default=0)
    options = parser.parse_args()
    try:
        with contextlib.closing(State(options.state)) as state:
            refresh(state, options)
    except (NightlyError, lg.LRGittinsError, OSError) as error:
        print(f"nightly_board: error: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
