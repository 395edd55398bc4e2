"""Vote files of LMArena and FastChat in all their dialects, and frames as arena-rank takes them."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .._validation import check_choice
from ..comparisons import Comparisons
from ..errors import ComparisonError, ParameterError
from ._source import count_drops, is_missing, is_text_file, is_true, make_votes, need_columns, nested, read_source, refuse_empty

OVERALL = "overall"
_WHAT = "LMArena votes"
_RAW_VOTES = {"leftvote": "model_a", "rightvote": "model_b", "tievote": "tie", "bothbad_vote": "tie (bothbad)"}
_ONE_HOT = {"winner_model_a": "model_a", "winner_model_b": "model_b", "winner_tie": "tie"}
_VOTE_IDS = ("id", "uid", "vote_id", "battle_id")
_NAMES = {"if": "instruction_following"}
_HARD = 6  # of the seven criteria, as the arena defines its category


def from_lmarena(
    source: Any,
    *,
    tasks: str | Sequence[str] | None = "auto",
    overall: bool = True,
    anonymous_only: bool = True,
    deduplicate: bool = True,
    language: str | Sequence[str] | None = None,
    id: str | None = "auto",
    cluster: str | None = None,
    **options: Any,
) -> Comparisons:
    """Votes of the LMArena and FastChat releases, a vote under several categories kept as one vote.

    Read are the columns `model_a`, `model_b` and `winner` ("model_a", "model_b", "tie", "tie (bothbad)", "both_bad", and the judge's "tie
    (inconsistent)" as a tie), or the one-hot columns `winner_model_a`, `winner_model_b`, `winner_tie`, or a raw FastChat log with `type`,
    `models` and `states`. Conversations and other columns are not looked at.

    Parameters
    ----------
    source : path, frame, or list of dicts
        .json (a list), .jsonl, .csv (names as they are written, nested columns as text) or .parquet; a data frame of any library.
    tasks : {"auto", "category", "language"}, None or list of str
        What the tasks are. "category": the flags of the nested column `category_tag` ("math", "creative_writing", "if" as
        "instruction_following", ...; "hard_prompt" where at least 6 of the 7 criteria hold) and `is_code` as "coding". A list chooses among
        these. None: one task. "auto": categories where the file has any, else one task.
    overall : bool, default True
        With categories: also a task "overall" of all votes. Without it votes of no category are dropped, and counted.
    anonymous_only : bool, default True
        Where there is a column `anony`: drop votes cast with the names in sight.
    deduplicate : bool, default True
        Where there is a column `dedup_tag`: drop votes the arena itself leaves out (`sampled` is false).
    language : str or list of str, optional
        Keep votes of these languages only.
    id : str or None, default "auto"
        Column of the vote's id. "auto": `id`, `uid`, `vote_id` or `battle_id`; `question_id` where no question repeats (in MT-bench files,
        where they do, the question is the cluster); else an id made of what the file says. None: no ids (one task only). A column with
        some ids missing is an error: no ids would be no search for copies.
    cluster : str, optional
        Column of judge or session, for votes that are not independent.
    **options
        ties, both_bad, on_invalid, aliases, models of `Comparisons.from_frame`.

    Returns
    -------
    Comparisons
        Whatever was left out is in `n_dropped` and, by reason, in ``summary().attrs["dropped"]``.

    Raises
    ------
    ComparisonError
        A file that is none of these, unknown labels, missing ids, nothing left after the filters.
    ParameterError
        An argument outside its meaning.
    """
    frame = read_source(source, ComparisonError, _WHAT)
    n_rows = len(frame)
    drops: Counter[str] = Counter()
    frame = _as_battles(frame, drops)
    frame = _filter(frame, drops, anonymous_only, deduplicate, language)
    refuse_empty(len(frame), n_rows, drops)
    members = _tasks(frame, tasks, overall)
    if members is None:
        where, names = np.arange(len(frame)), np.full(len(frame), "all", dtype=object)
    else:
        inside = np.zeros(len(frame), dtype=bool)
        for mask in members.values():
            inside |= mask
        if not inside.all():
            drops["no category"] += int((~inside).sum())
        refuse_empty(int(inside.sum()), n_rows, drops)
        where = np.concatenate([np.flatnonzero(mask) for mask in members.values()])
        names = np.repeat(np.array(list(members), dtype=object), [int(mask.sum()) for mask in members.values()])
    ids, by_question = _vote_ids(frame, id, several=members is not None, drop=options.get("on_invalid") == "drop")
    columns: dict[str, Any] = {"task": names, **{name: frame[name].to_numpy()[where] for name in ("model_a", "model_b", "winner")}}
    if ids is not None:
        columns["id"] = ids[where]
    if cluster is not None:
        need_columns(frame, [cluster], _WHAT, ComparisonError)
        columns["cluster"] = frame[cluster].to_numpy()[where]
    elif by_question:
        columns["cluster"] = frame["question_id"].astype(str).to_numpy()[where]
    extra: dict[str, Any] = {name: name for name in ("id", "cluster") if name in columns}
    return count_drops(make_votes(columns, from_text=is_text_file(source), **extra, **_checked(options)), drops)


def from_arena_rank(
    df: Any,
    *,
    competitor_cols: Sequence[str] = ("model_a", "model_b"),
    outcome_col: str = "winner",
    outcome_map: Mapping[Any, float] | Callable[[Any], float] | None = None,
    task: str | None = None,
    **options: Any,
) -> Comparisons:
    """Frames as arena-rank's ``PairDataset.from_pandas`` takes them, with its argument names.

    Parameters
    ----------
    df : frame, path, or list of dicts
    competitor_cols : two str
    outcome_col : str
    outcome_map : mapping or callable, optional
        From a value of the outcome column to 1 (the first won), 0, 0.5 or anything between. Without it the labels are those of
        `Comparisons.from_frame`. A label that a mapping does not know is an error (arena-rank's default reads it as a tie).
    task : str, optional
        Column of the task; one task without it.
    **options
        count, id, cluster, ties, both_bad, on_invalid, aliases, models of `Comparisons.from_frame`.

    Raises
    ------
    ComparisonError
        Missing columns, unknown labels, outcomes that are no numbers in [0, 1].
    ParameterError
        Not two competitor columns, or an outcome_map that is neither.
    """
    if isinstance(competitor_cols, str) or len(competitor_cols) != 2:
        raise ParameterError(f"competitor_cols must name two columns, got {competitor_cols!r}")
    # The keys of an outcome_map may be numbers, so its column is read as numbers where it holds nothing else.
    numeric = [options.get("count"), None if outcome_map is None else outcome_col]
    frame = read_source(df, ComparisonError, "arena-rank battles", numeric=numeric)
    need_columns(frame, [*competitor_cols, outcome_col, *([task] if task else [])], "arena-rank battles", ComparisonError)
    if outcome_map is not None:
        outcome = [_mapped(value, row, outcome_map) for row, value in enumerate(frame[outcome_col].tolist())]
        frame = frame.assign(**{outcome_col: np.array(outcome, dtype=np.float64)})
    names: dict[str, Any] = {"model_a": competitor_cols[0], "model_b": competitor_cols[1], "winner": outcome_col}
    return make_votes(frame, from_text=is_text_file(df) and outcome_map is None, task=task, **names, **options)


def _mapped(value: Any, row: int, outcome_map: Any) -> float:
    try:
        found = outcome_map[value] if isinstance(outcome_map, Mapping) else outcome_map(value)
    except KeyError:
        raise ComparisonError(f"row {row}: the outcome_map does not know the label {value!r}; add it, or drop these rows first") from None
    except TypeError as error:
        raise ParameterError(f"outcome_map must be a mapping or a function of one label ({error})") from None
    try:
        if found is None or isinstance(found, (str, bytes)):
            raise TypeError
        return float(found)
    except (TypeError, ValueError):
        raise ComparisonError(
            f"row {row}: the outcome_map makes {found!r:.60} of the label {value!r:.60}; "
            "it must give a number in [0, 1], or drop these rows first"
        ) from None


def _checked(options: dict[str, Any]) -> dict[str, Any]:
    unknown = sorted(set(options) - {"ties", "both_bad", "on_invalid", "aliases", "models"})
    if unknown:
        raise ParameterError(
            f"from_lmarena takes no {', '.join(map(repr, unknown))}; its options are ties, both_bad, on_invalid, aliases, models"
        )
    return options


# --------------------------------------------------------------------------------------------------------- dialects


def _as_battles(frame: pd.DataFrame, drops: Counter[str]) -> pd.DataFrame:
    """Any dialect with the columns model_a, model_b, winner."""
    if {"type", "models", "states"} <= set(frame.columns):
        return _from_raw_log(frame, drops)
    if "winner" not in frame.columns and set(_ONE_HOT) <= set(frame.columns):
        flags = np.array([[is_true(value) for value in frame[name]] for name in _ONE_HOT])
        # Where not exactly one is set there is no verdict, which the intake refuses or drops, as the caller says.
        labels = np.array([*_ONE_HOT.values(), None], dtype=object)
        frame = frame.assign(winner=labels[np.where(flags.sum(axis=0) == 1, flags.argmax(axis=0), 3)])
    need_columns(frame, ["model_a", "model_b", "winner"], _WHAT, ComparisonError)
    inconsistent = frame["winner"].astype(object).eq("tie (inconsistent)")
    return frame.assign(winner=frame["winner"].astype(object).mask(inconsistent, "tie")) if inconsistent.any() else frame


def _from_raw_log(frame: pd.DataFrame, drops: Counter[str]) -> pd.DataFrame:
    """FastChat's conversation logs: votes are rows whose `type` is one of four; names are shown in `models` unless anonymous."""
    rows, places = [], []
    for place, record in enumerate(frame.to_dict(orient="records")):
        if record["type"] not in _RAW_VOTES:
            drops["not a vote"] += 1
            continue
        shown, states = nested(record["models"]), nested(record["states"])
        if not (shown and states and len(shown) == len(states) == 2 and all(isinstance(state, Mapping) for state in states)):
            drops["no two models"] += 1
            continue
        public = ["" if is_missing(name) else _without_html(str(name)) for name in shown]
        hidden = [state.get("model_name") for state in states]
        anonymous = public[0] in ("", "Model A")
        names = [name or other for name, other in zip(hidden, public, strict=True)] if anonymous else public
        row = {"model_a": names[0], "model_b": names[1], "winner": _RAW_VOTES[record["type"]], "anony": anonymous}
        row |= {name: record[name] for name in ("tstamp", "ip", "language") if name in record}
        row["uid"] = states[0].get("conv_id")
        rows.append(row)
        places.append(place)
    refuse_empty(len(rows), len(frame), drops)
    return pd.DataFrame(rows, index=places, dtype=object)


def _without_html(name: str) -> str:
    """The name in a heading such as ``<h3>Model A: vicuna-13b</h3>``."""
    if not name.startswith("<h3>"):
        return name
    text = name.strip().removeprefix("<h3>").removesuffix("</h3>")
    return text.partition(": ")[2] or text


def _filter(frame: pd.DataFrame, drops: Counter[str], anonymous_only: bool, deduplicate: bool, language: Any) -> pd.DataFrame:
    keep = np.ones(len(frame), dtype=bool)

    def leave_out(reason: str, wanted: Any) -> None:
        nonlocal keep
        out = keep & ~np.asarray(wanted, dtype=bool)
        if out.any():
            drops[reason] += int(out.sum())
            keep = keep & ~out

    if anonymous_only and "anony" in frame.columns:
        leave_out("not anonymous", [is_true(value) for value in frame["anony"]])
    if deduplicate and "dedup_tag" in frame.columns:
        tags = [nested(value) for value in frame["dedup_tag"]]
        leave_out("left out by the arena (dedup_tag)", [not isinstance(tag, Mapping) or is_true(tag.get("sampled", True)) for tag in tags])
    if language is not None:
        need_columns(frame, ["language"], "a choice of languages and so LMArena votes", ComparisonError)
        wanted = {language} if isinstance(language, str) else set(language)
        leave_out("other language", [value in wanted for value in frame["language"]])
    return frame[keep]  # the index says which row of the source it was


# ------------------------------------------------------------------------------------------------------ tasks and ids


def categories_of(tag: Any) -> set[str]:
    """Names of the categories that are set in a nested `category_tag`."""
    tag = nested(tag)
    found: set[str] = set()
    for group, content in tag.items() if isinstance(tag, Mapping) else ():
        content = nested(content)
        if not isinstance(content, Mapping):
            continue
        flags = {key: value for key, value in content.items() if isinstance(value, (bool, np.bool_))}
        if group.startswith("criteria"):
            if sum(map(bool, flags.values())) >= _HARD:
                found.add("hard_prompt")
        else:
            found.update(_NAMES.get(key, key) for key, value in flags.items() if value)
    return found


def _tasks(frame: pd.DataFrame, tasks: Any, overall: bool) -> dict[str, Any] | None:
    """Task -> mask of the votes filed under it; None for one task."""
    chosen = None
    if tasks is not None and not isinstance(tasks, str):
        chosen, tasks = [str(name) for name in tasks], "category"
        if not chosen:
            raise ParameterError("tasks is an empty list; name the categories, or pass tasks=None for one task")
    if tasks is None:
        return None
    check_choice(tasks, "tasks", ("auto", "category", "language"))
    has_tags = [name for name in ("category_tag", "is_code") if name in frame.columns]
    if tasks == "language":
        need_columns(frame, ["language"], "tasks by language, and so LMArena votes,", ComparisonError)
        spoken = np.array(["(missing)" if is_missing(value) else str(value) for value in frame["language"]], dtype=object)
        masks = {name: spoken == name for name in sorted(set(spoken))}
        return masks | ({OVERALL: np.ones(len(frame), dtype=bool)} if overall else {})
    if not has_tags:
        if tasks == "auto":
            return None
        need_columns(frame, ["category_tag"], "tasks by category, and so LMArena votes,", ComparisonError)
    found = [categories_of(tag) for tag in frame["category_tag"]] if "category_tag" in has_tags else [set() for _ in range(len(frame))]
    if "is_code" in has_tags:
        for names, flag in zip(found, frame["is_code"], strict=True):
            if is_true(flag):
                names.add("coding")
    known = sorted(set().union(*found))
    if chosen is not None:
        absent = [name for name in chosen if name not in known]
        if absent:
            raise ComparisonError(
                f"no vote has the category {absent[0]!r}; the categories here are {', '.join(map(repr, known)) or 'none'}"
            )
        known = chosen
    masks = {name: np.array([name in names for names in found]) for name in known}
    return masks | ({OVERALL: np.ones(len(frame), dtype=bool)} if overall else {})


def _vote_ids(frame: pd.DataFrame, id: str | None, *, several: bool, drop: bool) -> tuple[Any, bool]:
    """Ids of the votes (None for none), and whether the question is the cluster."""
    if id is None:
        if several:
            raise ParameterError("votes filed under several tasks need ids, so that each counts as one vote; leave id='auto'")
        return None, False
    if id != "auto":
        need_columns(frame, [id], _WHAT, ComparisonError)
        return frame[id].to_numpy(), False
    for name in _VOTE_IDS:
        if name in frame.columns and not all(map(is_missing, frame[name])):
            return _whole_ids(frame[name], several=several, drop=drop), False
    asked = "question_id" in frame.columns and not all(map(is_missing, frame["question_id"]))
    repeats = asked and bool(frame["question_id"].dropna().astype(str).duplicated().any())
    if asked and not repeats:
        return _whole_ids(frame["question_id"], several=several, drop=drop), False
    if not several:
        return None, repeats
    said = [name for name in ("model_a", "model_b", "winner", "tstamp", "timestamp", "judge", "question_id") if name in frame.columns]
    digest = hashlib.sha256(frame[said].astype(str).to_csv(index=False).encode()).hexdigest()[:12]
    return np.array([f"{digest}:{row}" for row in range(len(frame))], dtype=object), repeats


def _whole_ids(column: pd.Series, *, several: bool, drop: bool) -> Any:
    """The ids as text. Without some of them copies of those votes would go unseen, so that is said, never passed over."""
    missing = np.array([is_missing(value) for value in column])
    ids = column.astype(str).to_numpy(dtype=object)
    if missing.any():
        if not drop:
            first = ", ".join(str(row) for row in column.index[missing][:5])
            without = "" if several else ", pass id=None to count every row as a vote of its own"
            raise ComparisonError(
                f"column {column.name!r}: {int(missing.sum())} votes have no id (first rows: {first}), so their copies cannot be found; "
                f'name another column with id={without}, or drop them with on_invalid="drop"'
            )
        ids[missing] = None
    return ids
