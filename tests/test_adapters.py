"""Files of other tools, hand-made with the field names those tools document."""

from __future__ import annotations

import gzip
import json

import numpy as np
import pandas as pd
import pytest

import lrgittins as lg

adapters = lg.adapters


def tag(*, math=False, follow=False, creative=False, criteria=0):
    """A category_tag as the 140k release has it."""
    seven = ["complexity", "creativity", "domain_knowledge", "problem_solving", "real_world", "specificity", "technical_accuracy"]
    return {
        "creative_writing_v0.1": {"creative_writing": creative, "score": "yes" if creative else "no"},
        "criteria_v0.1": {name: i < criteria for i, name in enumerate(seven)},
        "if_v0.1": {"if": follow, "score": 4},
        "math_v0.1": {"math": math},
    }


def battles_140k():
    """Rows of lmarena-ai/arena-human-preference-140k, the columns that matter and some that do not."""
    rows = [
        ("v1", "alpha", "beta", "model_a", tag(math=True, criteria=6), False),
        ("v2", "beta", "gamma", "model_b", tag(creative=True, follow=True, criteria=5), False),
        ("v3", "gamma", "alpha", "tie", tag(math=True), True),
        ("v4", "alpha", "gamma", "both_bad", tag(), False),
    ]
    return [
        {
            "id": id, "model_a": a, "model_b": b, "winner": winner, "evaluation_session_id": f"s-{id}", "evaluation_order": 1,
            "conversation_a": [{"role": "user", "content": [{"type": "text", "text": "hello"}]}],
            "conv_metadata": {"turns": 1, "header_count_a": {"h1": 0}}, "category_tag": category, "language": "en" if id != "v4" else "pl",
            "is_code": code, "timestamp": "2025-05-29T14:48:41",
        }
        for id, a, b, winner, category, code in rows
    ]  # fmt: skip


def table(votes):
    return {tuple(row) for row in votes.counts[["task", "model_a", "model_b", "wins", "losses", "ties"]].itertuples(index=False)}


def test_140k_category_tags_are_tasks_and_a_vote_is_one_cluster():
    votes = adapters.from_lmarena(battles_140k())
    assert list(votes.tasks) == ["coding", "creative_writing", "hard_prompt", "instruction_following", "math", "overall"]
    assert votes.counts.groupby("task")[["wins", "losses", "ties"]].sum().sum(axis=1).to_dict() == {
        "coding": 1, "creative_writing": 1, "hard_prompt": 1, "instruction_following": 1, "math": 2, "overall": 4,
    }  # fmt: skip
    assert votes.summary().attrs["n_clusters"] == 4  # not 10: a vote under several tasks is one vote
    assert ("math", "alpha", "beta", 1, 0, 0) in table(votes) and ("overall", "alpha", "gamma", 0, 0, 2) in table(votes)
    assert votes.summary()["both_bad"]["overall"] == 1


def test_140k_without_the_overall_task_counts_what_has_no_category():
    votes = adapters.from_lmarena(battles_140k(), overall=False)
    assert "overall" not in votes.tasks and votes.n_dropped == 1
    assert votes.summary().attrs["dropped"] == {"no category": 1}
    one = adapters.from_lmarena(battles_140k(), tasks=["math"], overall=False)
    assert list(one.tasks) == ["math"] and one.n == 2
    with pytest.raises(lg.ComparisonError, match="no vote has the category 'ocr'.*'coding'"):
        adapters.from_lmarena(battles_140k(), tasks=["ocr"])


def test_140k_by_language_and_as_one_task():
    assert list(adapters.from_lmarena(battles_140k(), tasks="language").tasks) == ["en", "overall", "pl"]
    votes = adapters.from_lmarena(battles_140k(), tasks=None, language="en")
    assert list(votes.tasks) == ["all"] and votes.n == 3 and votes.summary().attrs["dropped"] == {"other language": 1}
    with pytest.raises(lg.ComparisonError, match=r"no votes are left of 4 rows \(other language: 4\)"):
        adapters.from_lmarena(battles_140k(), language="de")


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".jsonl", ".csv", ".parquet"])
def test_every_file_format_gives_the_same_votes(tmp_path, suffix):
    rows = battles_140k()
    path = tmp_path / f"votes{suffix}"
    if suffix.startswith(".json") and suffix != ".jsonl":
        data = json.dumps(rows).encode()
        path.write_bytes(gzip.compress(data) if suffix.endswith("gz") else data)
    elif suffix == ".jsonl":
        path.write_text("\n".join(json.dumps(row) for row in rows))
    elif suffix == ".csv":
        pd.DataFrame(rows).to_csv(path, index=False)  # nested columns as Python text
    else:
        pytest.importorskip("pyarrow")
        pd.DataFrame(rows).to_parquet(path)  # nested columns as structs
    assert table(adapters.from_lmarena(path)) == table(adapters.from_lmarena(rows))


def test_polars_frames_with_struct_columns():
    polars = pytest.importorskip("polars")
    assert table(adapters.from_lmarena(polars.DataFrame(battles_140k()))) == table(adapters.from_lmarena(battles_140k()))


def battles_33k():
    """Rows of lmsys/chatbot_arena_conversations, which clean_battle_data.py writes."""
    common = {
        "judge": "arena_user_1",
        "turn": 1,
        "language": "English",
        "tstamp": 1682351591.13,
        "toxic_chat_tag": {"roberta-large": {"flagging": False}},
    }
    return [
        {"question_id": "q1", "model_a": "koala-13b", "model_b": "vicuna-13b", "winner": "model_b", "anony": True, **common},
        {"question_id": "q2", "model_a": "koala-13b", "model_b": "alpaca-13b", "winner": "tie (bothbad)", "anony": True, **common},
        {"question_id": "q3", "model_a": "alpaca-13b", "model_b": "vicuna-13b", "winner": "tie", "anony": False, **common},
    ]  # fmt: skip


def test_33k_drops_and_counts_votes_with_names_in_sight():
    votes = adapters.from_lmarena(battles_33k())
    assert list(votes.tasks) == ["all"] and votes.n == 2 and votes.n_rows == 3
    assert votes.n_dropped == 1 and votes.summary().attrs["dropped"] == {"not anonymous": 1}
    assert votes.summary()["both_bad"]["all"] == 1
    assert adapters.from_lmarena(battles_33k(), anonymous_only=False).n == 3
    dropped = adapters.from_lmarena(battles_33k(), both_bad="drop")
    assert dropped.summary().attrs["dropped"] == {"both bad": 1, "not anonymous": 1}


def test_merged_files_add_up_what_was_dropped_and_find_copies():
    votes = adapters.from_lmarena(battles_33k())
    both = votes + votes
    assert both.n == votes.n and both.summary().attrs["dropped"] == {"duplicate id": 2, "not anonymous": 2}


def test_release_without_ids_and_with_dedup_tag():
    """clean_battle files of the notebook: no question_id, a dedup_tag, and category tags since late 2024."""
    rows = [
        {k: v for k, v in row.items() if k not in ("id", "timestamp")} | {"tstamp": i, "anony": True}
        for i, row in enumerate(battles_140k())
    ]
    rows[0]["dedup_tag"] = {"high_freq": True, "sampled": False}
    for row in rows[1:]:
        row["dedup_tag"] = {"high_freq": False, "sampled": True}
    votes = adapters.from_lmarena(rows)
    assert votes.summary().attrs["dropped"] == {"left out by the arena (dedup_tag)": 1}
    assert votes.summary().attrs["n_clusters"] == 3
    assert adapters.from_lmarena(rows, deduplicate=False).summary().attrs["n_clusters"] == 4


def test_kaggle_one_hot_winners():
    rows = [
        {"id": 30192, "model_a": "gpt-4", "model_b": "gpt-3.5", "prompt": "[]", "winner_model_a": 1, "winner_model_b": 0, "winner_tie": 0},
        {"id": 53567, "model_a": "gpt-3.5", "model_b": "gpt-4", "prompt": "[]", "winner_model_a": 0, "winner_model_b": 0, "winner_tie": 1},
        {"id": 65089, "model_a": "gpt-4", "model_b": "koala", "prompt": "[]", "winner_model_a": 0, "winner_model_b": 1, "winner_tie": 0},
    ]
    assert table(adapters.from_lmarena(rows)) == {("all", "gpt-3.5", "gpt-4", 0, 1, 1), ("all", "gpt-4", "koala", 0, 1, 0)}
    rows[2]["winner_model_a"] = 1
    with pytest.raises(lg.ComparisonError, match="winner"):
        adapters.from_lmarena(rows)
    assert adapters.from_lmarena(rows, on_invalid="drop").n_dropped == 1


def test_mt_bench_judgments_are_clustered_by_question():
    rows = [
        {"question_id": q, "model_a": "alpaca", "model_b": "gpt-4", "winner": winner, "judge": judge, "turn": 1}
        for q, winner, judge in [(81, "model_b", "expert_1"), (81, "tie (inconsistent)", "gpt4_pair"), (82, "model_a", "expert_2")]
    ]
    votes = adapters.from_lmarena(rows)
    assert votes.n == 3 and votes.summary().attrs["n_clusters"] == 2 and votes.summary()["ties"]["all"] == 1


def raw_log():
    state = lambda name, conv: {"model_name": name, "conv_id": conv, "messages": [["USER", "hi"]], "offset": 0}  # noqa: E731
    return [
        {"tstamp": 1.0, "type": "leftvote", "models": ["", ""], "states": [state("a-7b", "c1"), state("b-7b", "c2")], "ip": "x"},
        {"tstamp": 2.0, "type": "bothbad_vote", "models": ["Model A", "Model B"], "states": [state("b-7b", "c3"), state("c-7b", "c4")]},
        {"tstamp": 3.0, "type": "rightvote", "models": ["<h3>Model A: a-7b</h3>\n", "<h3>Model B: c-7b</h3>\n"],
         "states": [state("a-7b", "c5"), state("c-7b", "c6")], "ip": "x"},
        {"tstamp": 4.0, "type": "chat", "models": ["a-7b", "c-7b"], "states": [state("a-7b", "c7"), state("c-7b", "c8")], "ip": "x"},
    ]  # fmt: skip


def test_raw_fastchat_logs():
    votes = adapters.from_lmarena(raw_log())
    assert table(votes) == {("all", "a-7b", "b-7b", 1, 0, 0), ("all", "b-7b", "c-7b", 0, 0, 1)}
    assert votes.summary().attrs["dropped"] == {"not a vote": 1, "not anonymous": 1}
    assert ("all", "a-7b", "c-7b", 0, 1, 0) in table(adapters.from_lmarena(raw_log(), anonymous_only=False))


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ([{"model_a": "x", "winner": "model_a"}], "need the columns 'model_b'; the columns here are 'model_a', 'winner'"),
        ([{"model_a": "x", "model_b": "y", "winner": "model_c"}], "model_c"),
        ([], "there are no rows"),
        (["x"], "row 0 is a str, not an object"),
        (3, "cannot be read from int"),
        ("nowhere.json", "there is no such file"),
        ("nowhere.csv", "there is no such file"),
    ],
)
def test_bad_vote_files_end_in_one_clear_error(source, message):
    with pytest.raises(lg.ComparisonError, match=message):
        adapters.from_lmarena(source)


def test_bad_json_and_bad_arguments(tmp_path):
    path = tmp_path / "votes.json"
    for text, message in (("{", "cannot be read as JSON"), ("3", "holds a JSON int"), ('{"a": 1}', "holds a JSON dict")):
        path.write_text(text)
        with pytest.raises(lg.ComparisonError, match=message):
            adapters.from_lmarena(path)
    with pytest.raises(lg.ParameterError, match="takes no 'winner'"):
        adapters.from_lmarena(battles_33k(), winner="x")
    with pytest.raises(lg.ParameterError, match="tasks must be one of"):
        adapters.from_lmarena(battles_33k(), tasks="topic")
    with pytest.raises(lg.ComparisonError, match="need the columns 'category_tag'"):
        adapters.from_lmarena(battles_33k(), tasks="category")
    with pytest.raises(lg.ParameterError, match="need ids"):
        adapters.from_lmarena(battles_140k(), id=None)


def test_names_in_csv_files_are_what_is_written(tmp_path):
    path = tmp_path / "arena.csv"
    path.write_text("id,model_a,model_b,winner\n01,007,7,model_a\n1,NA,7,model_b\nNA,1.10,null,1.10\n")
    votes = adapters.from_lmarena(path)
    assert list(votes.models) == ["007", "1.10", "7", "NA", "null"] and votes.n == 3
    assert table(votes) == table(lg.Comparisons.read(path, task=None, id="id"))
    path.write_text("model_a,model_b,won,judge,n,topic\n007,7,1,01,2,NA\nNA,7,0,1,3,01\n7,NA,0.5,NA,1,1\n")
    names = {"outcome_col": "won", "cluster": "judge", "count": "n", "task": "topic"}
    plain = adapters.from_arena_rank(path, **names)
    assert list(plain.models) == ["007", "7", "NA"] and list(plain.tasks) == ["01", "1", "NA"]
    assert plain.n == 6 and plain.summary().attrs["n_clusters"] == 3
    assert table(adapters.from_arena_rank(path, outcome_map={1: 1, 0: 0, 0.5: 0.5}, **names)) == table(plain)  # keys are numbers
    path.write_text("generator_1,generator_2,preference,instruction\n007,7,1,a\nNA,7,2.0,01\n7,NA,,1\n7,NA,NaN,1\n")
    votes = adapters.from_alpaca_eval(path)
    assert list(votes.models) == ["007", "7", "NA"] and votes.n == 2 and votes.n_dropped == 2
    assert votes.summary().attrs["n_clusters"] == 2
    path.write_text("generator_1,generator_2,preference\na,b,m\n")
    with pytest.raises(lg.ComparisonError, match="must be numbers; 1 value is not: 'm'"):
        adapters.from_alpaca_eval(path)


def test_empty_fields_of_csv_files_are_missing(tmp_path):
    path = tmp_path / "arena.csv"
    path.write_text("model_a,model_b,winner\na,,model_a\na,b,\na,b,model_a\n")
    with pytest.raises(lg.ComparisonError, match="has no model name"):
        adapters.from_lmarena(path)
    assert adapters.from_lmarena(path, on_invalid="drop").n == 1


def test_some_missing_ids_are_said_and_never_switch_off_the_search_for_copies():
    rows = [row | {"other": f"o{i}"} for i, row in enumerate([*battles_140k(), battles_140k()[0]])]
    assert adapters.from_lmarena(rows, tasks=None).n_dropped == 1  # the copy
    rows[2]["id"] = None
    rows[0]["language"] = "de"  # the first row is filtered out, and row numbers stay those of the file
    with pytest.raises(lg.ComparisonError, match=r"column 'id': 1 votes have no id \(first rows: 2\).*id=None"):
        adapters.from_lmarena(rows, tasks=None, language=["en"])
    with pytest.raises(lg.ComparisonError, match="name another column with id=, or drop"):  # several tasks need ids
        adapters.from_lmarena(rows)
    assert adapters.from_lmarena(rows, tasks=None, id=None).n == 5
    assert adapters.from_lmarena(rows, tasks=None, id="other").n == 5
    dropped = adapters.from_lmarena(rows, tasks=None, on_invalid="drop")
    assert dropped.n == 3 and dropped.summary().attrs["dropped"] == {"duplicate id": 1, "missing id": 1}
    assert adapters.from_lmarena([row | {"id": None} for row in rows], tasks=None).n == 5  # a column of nothing is no column of ids
    logs = raw_log()
    del logs[0]["states"][0]["conv_id"]
    with pytest.raises(lg.ComparisonError, match=r"column 'uid': 1 votes have no id \(first rows: 0\)"):
        adapters.from_lmarena(logs)
    with pytest.raises(lg.ComparisonError, match=r"column 'question_id': 1 votes have no id \(first rows: 1\)"):
        adapters.from_lmarena([row | {"question_id": None if i == 1 else f"q{i}"} for i, row in enumerate(battles_33k())])


def test_input_is_not_changed():
    frame = pd.DataFrame(battles_140k())
    before = frame.copy(deep=True)
    adapters.from_lmarena(frame)
    pd.testing.assert_frame_equal(frame, before)


# ----------------------------------------------------------------------------------------------------- arena-rank


def test_arena_rank_frames_and_their_outcome_map():
    frame = pd.DataFrame({"player_1": ["A", "B", "A"], "player_2": ["B", "C", "C"], "won": ["W", "L", "D"]}, index=[5, 5, 9])
    names = {"competitor_cols": ["player_1", "player_2"], "outcome_col": "won"}
    want = {("all", "A", "B", 1, 0, 0), ("all", "B", "C", 0, 1, 0), ("all", "A", "C", 0, 0, 1)}
    assert table(adapters.from_arena_rank(frame, outcome_map={"W": 1.0, "L": 0.0, "D": 0.5}, **names)) == want
    assert table(adapters.from_arena_rank(frame, outcome_map={"W": 1, "L": 0, "D": 0.5}.get, **names)) == want
    with pytest.raises(lg.ComparisonError, match="does not know the label 'D'"):
        adapters.from_arena_rank(frame, outcome_map={"W": 1.0, "L": 0.0}, **names)
    with pytest.raises(lg.ComparisonError, match="W"):  # never a tie by default
        adapters.from_arena_rank(frame, **names)
    with pytest.raises(lg.ParameterError, match="two columns"):
        adapters.from_arena_rank(frame, competitor_cols="player_1")
    with pytest.raises(lg.ComparisonError, match="need the columns 'model_a', 'model_b'"):
        adapters.from_arena_rank(frame, outcome_col="won")


@pytest.mark.parametrize("found", [None, "1", "win", b"1", [1.0], pd.NA])
def test_arena_rank_outcome_maps_give_numbers(found):
    frame = pd.DataFrame({"model_a": ["A", "B"], "model_b": ["B", "C"], "winner": ["W", "L"]})
    for outcome_map in ({"W": 1.0, "L": found}, {"W": 1.0, "L": found}.get):
        with pytest.raises(lg.ComparisonError, match="row 1: the outcome_map makes .* of the label 'L'; it must give a number"):
            adapters.from_arena_rank(frame, outcome_map=outcome_map)


def test_arena_rank_scores_agree_with_the_plain_reader():
    frame = pd.DataFrame(battles_33k())
    assert table(adapters.from_arena_rank(frame)) == table(lg.Comparisons.from_frame(frame, task=None))


# ----------------------------------------------------------------------------------------------------- alpaca_eval


def annotations(preferences=(1.0, 2.0, 1.25, 0.0, None)):
    return [
        {
            "instruction": f"question {i}", "output_1": "a", "generator_1": "gpt4_1106_preview", "dataset": "koala" if i % 2 else "oasst",
            "output_2": "b", "generator_2": "mine", "annotator": "weighted_alpaca_eval_gpt4_turbo", "preference": preference,
            "price_per_example": 0.001, "time_per_example": 0.2,
        }
        for i, preference in enumerate(preferences)
    ]  # fmt: skip


def test_alpaca_eval_preferences():
    votes = adapters.from_alpaca_eval(annotations(), task=None)
    counts = votes.counts.iloc[0]
    assert (counts["model_a"], counts["model_b"]) == ("gpt4_1106_preview", "mine")
    assert (counts["wins"], counts["losses"], counts["ties"], counts["graded"]) == (1, 1, 1, 1)
    assert counts["graded_sum"] == 0.75  # 1.25 is three quarters for the first
    assert votes.n_dropped == 1 and votes.summary().attrs["dropped"] == {"no preference": 1}
    assert votes.summary().attrs["n_clusters"] == 4
    assert list(adapters.from_alpaca_eval(annotations()).tasks) == ["koala", "oasst"]


def test_alpaca_eval_files_of_several_models(tmp_path):
    paths = []
    for name in ("one", "two"):
        paths.append(tmp_path / f"{name}.json")
        paths[-1].write_text(json.dumps([row | {"generator_2": name} for row in annotations()]))
    votes = adapters.from_alpaca_eval(paths)
    assert list(votes.models) == ["gpt4_1106_preview", "one", "two"] and votes.n == 8 and votes.summary().attrs["n_clusters"] == 4


def test_alpaca_eval_refusals():
    with pytest.raises(lg.ComparisonError, match=r"1 preferences are not in \[1, 2\].*3 \(row 1\)"):
        adapters.from_alpaca_eval(annotations((1.0, 3.0)))
    with pytest.raises(lg.ComparisonError, match="1 annotations have no preference"):
        adapters.from_alpaca_eval(annotations(), on_invalid="error")
    with pytest.raises(lg.ComparisonError, match="must be numbers"):
        adapters.from_alpaca_eval(annotations(("m",)))
    with pytest.raises(lg.ComparisonError, match="no votes are left of 2 rows"):
        adapters.from_alpaca_eval(annotations((None, float("nan"))))
    with pytest.raises(lg.ComparisonError, match="need the columns 'generator_1'"):
        adapters.from_alpaca_eval([{"preference": 1}])


# ------------------------------------------------------------------------------------------- lm-evaluation-harness


def samples(scores, *, filters=("none",), metric="exact_match", task_hash="d"):
    return [
        {
            "doc_id": doc, "doc": {"question": f"q{doc}"}, "target": "4", "arguments": {"gen_args_0": {"arg_0": "q"}}, "resps": [["4"]],
            "filtered_resps": ["4"], "filter": name, "metrics": [metric], metric: score, "doc_hash": f"{task_hash}{doc}",
            "prompt_hash": "p", "target_hash": "t",
        }
        for name in filters
        for doc, score in scores.items()
    ]  # fmt: skip


def test_lm_eval_joins_by_document_not_by_position():
    matrix = adapters.from_lm_eval_samples({"big": samples({0: 1.0, 1: 0.0, 2: 1.0}), "small": samples({2: 0.0, 0: 1.0})})
    assert matrix.arms == ("big", "small") and matrix.examples == (0, 1, 2)
    np.testing.assert_array_equal(matrix.scores, [[1, 0, 1], [1, np.nan, 0]])


def test_lm_eval_filters_are_duplicates_until_one_is_chosen(caplog):
    logs = {"m": samples({0: 1.0, 1: 0.0}, filters=("strict-match", "flexible-extract"))}
    with pytest.raises(lg.ResponseError, match="duplicates; choose one with filter=: 'flexible-extract', 'strict-match'"):
        adapters.from_lm_eval_samples(logs)
    with caplog.at_level("INFO", logger="lrgittins"):
        assert adapters.from_lm_eval_samples(logs, filter="strict-match").n_examples == 2
    assert "2 of 4 samples are of the filter 'strict-match'" in caplog.text
    with pytest.raises(lg.ResponseError, match="no filter 'strict'"):
        adapters.from_lm_eval_samples(logs, filter="strict")


def test_lm_eval_tasks_without_the_filter_are_named():
    both = [row | {"task": "gsm8k"} for row in samples({0: 1.0, 1: 0.0}, filters=("strict-match", "flexible-extract"))]
    other = [row | {"task": "mmlu"} for row in samples({0: 1.0})]
    logs = {"big": both + other, "small": both + other}
    with pytest.raises(lg.ResponseError, match=r"2 logs have no .* 'strict-match': task 'mmlu' of model 'big' has 'none'; task 'mmlu' of"):
        adapters.from_lm_eval_samples(logs, filter="strict-match")
    assert adapters.from_lm_eval_samples(logs, filter="strict-match", tasks="gsm8k").n_examples == 2
    one = {"big": both, "small": [row for row in both if row["filter"] != "strict-match"]}
    with pytest.raises(lg.ResponseError, match="1 logs have no .*: task 'gsm8k' of model 'small' has 'flexible-extract'"):
        adapters.from_lm_eval_samples(one, filter="strict-match")


def test_lm_eval_samples_in_csv_files(tmp_path):
    path = tmp_path / "samples.csv"
    path.write_text("doc_id,filter,exact_match,doc_hash\n0,none,1.0,01\n10,none,0.0,1\n2,none,1,NA\n")
    json_rows = [
        {"doc_id": d, "filter": "none", "exact_match": v, "doc_hash": h} for d, v, h in [(0, 1.0, "01"), (10, 0.0, "1"), (2, 1.0, "NA")]
    ]
    matrix = adapters.from_lm_eval_samples({"m": path, "n": json_rows})
    assert matrix.examples == (0, 2, 10) and (matrix.scores[0] == matrix.scores[1]).all()


def write_samples(folder, task, scores, time="2026-07-10T12-00-00.123456", **options):
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"samples_{task}_{time}.jsonl"
    path.write_text("\n".join(json.dumps(row) for row in samples(scores, **options)))
    return path


def test_lm_eval_folder_as_the_harness_makes_it(tmp_path):
    for model in ("org__big", "org__small"):
        write_samples(tmp_path / model, "gsm8k", {0: 1.0, 1: 0.0})
        write_samples(tmp_path / model, "mmlu_high_school", {0: 0.0})
        (tmp_path / model / "results_2026-07-10T12-00-00.123456.json").write_text("{}")
    matrix = adapters.from_lm_eval_samples(tmp_path)
    assert matrix.arms == ("org__big", "org__small") and matrix.examples == ("gsm8k/0", "gsm8k/1", "mmlu_high_school/0")
    assert adapters.from_lm_eval_samples(tmp_path, tasks="gsm8k", cost={"org__big": 2.0, "org__small": 1.0}).examples == (0, 1)
    write_samples(tmp_path / "org__big", "gsm8k", {0: 1.0}, time="2026-07-11T12-00-00.123456")
    with pytest.raises(lg.ResponseError, match="two logs of the task 'gsm8k'"):
        adapters.from_lm_eval_samples(tmp_path)
    with pytest.raises(lg.ResponseError, match="its own files are of one model"):
        adapters.from_lm_eval_samples(tmp_path / "org__small")


def test_lm_eval_metrics():
    two = [row | {"metrics": ["acc", "acc_norm"], "acc": 1.0, "acc_norm": 0.0} for row in samples({0: 1.0, 1: 1.0})]
    with pytest.raises(lg.ResponseError, match="several metrics: 'acc', 'acc_norm'; choose"):
        adapters.from_lm_eval_samples({"m": two})
    assert adapters.from_lm_eval_samples({"m": two}, metric="acc_norm").row_means[0] == 0.0
    with pytest.raises(lg.ResponseError, match="no metric 'f1'"):
        adapters.from_lm_eval_samples({"m": two}, metric="f1")
    old = [{k: v for k, v in row.items() if k not in ("metrics", "filter")} for row in samples({0: 1.0, 1: 0.0})]  # before these fields
    assert adapters.from_lm_eval_samples({"m": old}).row_means[0] == 0.5
    with pytest.raises(lg.ResponseError, match="no number"):
        adapters.from_lm_eval_samples({"m": [row | {"exact_match": [1, 2]} for row in samples({0: 1.0})]})


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ({"a": samples({0: 1.0}), "b": samples({0: 1.0}, task_hash="other")}, "other versions of the data"),
        ({"a": samples({0: 1.0}) * 2}, "duplicate samples .first: model 'a', document 0."),
        ({"a": [{"target": 1}]}, "need the columns 'doc_id'"),
        ({}, "non-empty mapping"),
        ("nowhere", "is not a folder"),
    ],
)
def test_lm_eval_refusals(source, message):
    with pytest.raises(lg.ResponseError, match=message):
        adapters.from_lm_eval_samples(source)


def test_a_board_from_arena_votes():
    rng = np.random.default_rng(0)
    names = np.array(["a", "b", "c", "d"])
    rows = []
    for i in range(400):
        one, two = rng.choice(4, 2, replace=False)
        winner = "model_a" if rng.random() < 1 / (1 + np.exp(two - one)) else "model_b"
        rows.append({"id": f"v{i}", "model_a": names[one], "model_b": names[two], "winner": winner, "category_tag": tag(math=i % 2 == 0)})
    votes = adapters.from_lmarena(rows)
    board = lg.infer_gaps(votes, lg.PerTaskBradleyTerry()).certify(1)
    assert set(board.to_frame()["task"]) == {"math", "overall"} and len(board) == 8


# ------------------------------------------------------------------------------------------------------ command line


def command(*arguments):
    from click.testing import CliRunner

    from lrgittins.cli import cli

    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_check_reads_arena_files(tmp_path):
    path = tmp_path / "arena.json"
    path.write_text(json.dumps(battles_140k()))
    about = json.loads(command("check", path, "--format", "lmarena", "--json", "-q").output)
    assert about["n_clusters"] == 4 and {row["task"] for row in about["tasks"]} >= {"math", "coding", "overall"}
    some = json.loads(command("check", path, "--format", "lmarena", "--task", "math, coding", "--json", "-q").output)
    assert {row["task"] for row in some["tasks"]} == {"math", "coding", "overall"}
    refused = command("check", path, "--format", "lmarena", "--winner", "w")
    assert refused.exit_code == 2 and "--format lmarena knows its columns: leave out --winner" in refused.output


def test_check_reads_alpaca_eval_and_arena_rank_files(tmp_path):
    path = tmp_path / "annotations.json"
    path.write_text(json.dumps(annotations()))
    about = json.loads(command("check", path, "--format", "alpaca-eval", "--single-task", "--json", "-q").output)
    assert about["n"] == 4 and about["dropped"] == {"no preference": 1}
    path = tmp_path / "battles.csv"
    path.write_text("left,right,winner\nA,B,model_a\nB,A,tie\n")
    about = json.loads(command("check", path, "--format", "arena-rank", "--model-a", "left", "--model-b", "right", "--json", "-q").output)
    assert about["n"] == 2 and about["n_models"] == 2


def test_select_reads_sample_logs(tmp_path):
    for k, model in enumerate(("big", "small")):
        write_samples(tmp_path / model, "gsm8k", {doc: float(doc % 3 <= k) for doc in range(30)}, filters=("strict", "flexible"))
    options = ["--format", "lm-eval", "--policy", "ucb-e", "--runs", 1, "--budget", 0.9, "--json", "-q"]
    refused = command("select", tmp_path, *options)
    assert refused.exit_code == 2 and "choose one with --filter" in refused.output
    data = json.loads(command("select", tmp_path, "--filter", "strict", *options).output)
    assert data["matrices"]["responses"] == {"n_arms": 2, "total_cost": 60.0}
    assert command("select", tmp_path, "--filter", "strict").exit_code == 2
