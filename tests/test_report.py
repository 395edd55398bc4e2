"""HTML reports as text: escaping, the claim in words, completeness, atomic writes. `test_report_browser` opens them."""

from __future__ import annotations

import html
import json
import re
import sys
from html.parser import HTMLParser

import numpy as np
import pytest
from click.testing import CliRunner

import lrgittins as lg

from .boards import THREE, simulated, votes

pytest.importorskip("jinja2")
PER_TASK = lg.PerTaskBradleyTerry()
HOSTILE = [
    "<script>alert(1)</script>",
    "\"quoted\" & 'both'",
    "</script><b>bold</b>",
    "line\u2028separator\u2029",
    "right\u202eto left",
    "{{ 7 * 7 }}",
]


class Page(HTMLParser):
    """Tags with their attributes, and the text of each element by tag."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.text: dict[str, list[str]] = {}
        self._open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in ("meta", "link"):
            self._open.append(tag)
        self.text.setdefault(tag, []).append("")

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self._open and self._open[-1] == tag, (tag, self._open[-3:])  # well formed
        self._open.pop()

    def handle_data(self, data):
        if self._open:
            self.text[self._open[-1]][-1] += data


def page_of(result, tmp_path, **options) -> tuple[str, Page]:
    path = tmp_path / "report.html"
    result.to_html(path, **options)
    text = path.read_text(encoding="utf-8")
    return text, Page(text)


def board_of(names, **options):
    """A per-task board of a ring of models."""
    rng = np.random.default_rng(0)
    names = np.array(names, dtype=object)
    a = rng.integers(len(names), size=60 * len(names))
    b = (a + rng.integers(1, len(names), size=len(a))) % len(names)
    return lg.infer_gaps(lg.Comparisons.from_arrays(None, names[a], names[b], (rng.random(len(a)) < 0.5).astype(float)), PER_TASK).certify(
        1, n_draws=500, **options
    )


@pytest.fixture(scope="module")
def inference():
    return lg.infer_gaps(simulated(n=2000)[1], lg.LowRankBradleyTerry(rank=2), calibration="cross-fit")


@pytest.fixture(scope="module")
def comparison():
    rng = np.random.default_rng(1)
    scores = (rng.random((5, 60)) < np.linspace(0.2, 0.9, 5)[:, None]).astype(float)
    matrices = {
        name: lg.ResponseMatrix.from_array(scores[:, start:], arms=["a", "<i>b</i>", "c", "d", "e"])
        for name, start in (("one", 0), ("<two>", 20))
    }
    return lg.compare(matrices, ["gittins", "ucb-e"], n_runs=3, budget=0.5, progress=False)


def test_a_board_is_whole_and_needs_nothing_else(inference, tmp_path):
    board = inference.certify(3)
    text, page = page_of(board, tmp_path)
    frame = board.to_frame()
    rows = [attributes["data-group"] for tag, attributes in page.tags if tag == "tr" and "data-group" in attributes]
    assert rows == frame["task"].tolist()
    values = [attributes["data-value"] for tag, attributes in page.tags if tag == "td" and "data-value" in attributes]
    assert len(values) == 8 * len(frame)
    np.testing.assert_allclose([float(v) for v in values[5::8]], frame["score"])
    assert values[3::8] == frame["model"].tolist() and values[4::8] == frame["certificate"].tolist()
    for wanted in (*board.diagnostics, *board.notes):
        assert html.escape(wanted.replace("_", " ") if wanted in board.diagnostics else wanted) in text
    assert f"lrgittins {lg.__version__}" in text and "cross-fit" in text and "numpy" in text
    outside = [v for _, attributes in page.tags for k, v in attributes.items() if k in ("src", "href", "xlink:href", "action", "data")]
    assert (
        set(outside) <= {"data:,", "#checks"}
        and "data:," in outside
        and "http" not in text.replace("http-equiv", "")
        and "url(" not in text
        and "@import" not in text
    )
    assert ("meta", {"name": "viewport", "content": "width=device-width, initial-scale=1"}) in page.tags


def test_pictures_have_every_interval(inference, tmp_path):
    board = inference.certify(3)
    _, page = page_of(board, tmp_path)
    assert sum(tag == "svg" for tag, _ in page.tags) == 6 + 3  # one a task, three keys of the legend
    kinds = board.to_frame()["certificate"].value_counts()
    drawn = [attributes["class"] for tag, attributes in page.tags if tag == "g" and attributes.get("class") in kinds.index]
    assert {kind: drawn.count(kind) - 1 for kind in kinds.index} == kinds.to_dict()


def test_the_same_board_gives_the_same_bytes(inference, tmp_path):
    board = inference.certify(3)
    first, _ = page_of(board, tmp_path)
    board.to_json(tmp_path / "board.json")
    assert page_of(lg.Leaderboard.read(tmp_path / "board.json"), tmp_path)[0] == first


def test_embedded_data_is_the_board(inference, tmp_path):
    board = inference.certify(3)
    _, page = page_of(board, tmp_path)
    assert json.loads(page.text["script"][0]) == board.to_dict()


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_names_stay_text(name, tmp_path):
    board = board_of([name, "harmless", "other"])
    text, page = page_of(board, tmp_path, title=f"Board of {name}")
    assert [tag for tag, _ in page.tags].count("script") == 2 and "b" not in {tag for tag, _ in page.tags}
    data = json.loads(page.text["script"][0])
    assert name in {row["model"] for row in data["rows"]}
    shown = name.replace("\u202e", "\ufffd").replace("\u2028", "\ufffd").replace("\u2029", "\ufffd")
    assert shown in page.text["bdi"] and f"Board of {shown}" in page.text["bdi"]
    assert not re.search("[\u2028\u2029\u202e]", text) and "49" not in page.text["bdi"]


def test_control_characters_do_not_reach_the_page(tmp_path):
    text, page = page_of(board_of(["bell\x07", "back\x08space", "ok"]), tmp_path)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text) and "bell\ufffd" in page.text["bdi"]


def test_printable_leaves_names_whole():
    from lrgittins.report import printable

    whole = "no\u00a0break, wide\u3000space, \U0001f468\u200d\U0001f469\u200d\U0001f467, \u0645\u06cc\u200c\u062e, soft\u00adhyphen\n\t"
    assert printable(whole) == whole
    for bad in "\x00\x07\r\x1b\x7f\x85\ud800\u061c\u200e\u200f\u202a\u202b\u202c\u202d\u202e\u2066\u2067\u2068\u2069\u2028\u2029":
        assert printable(f"a{bad}b") == "a\ufffdb"


def test_splits_are_kept_and_said(tmp_path):
    from lrgittins._claims import claim_sentences

    inference = lg.infer_gaps(simulated(n=900)[1], lg.LowRankBradleyTerry(rank=1), n_folds=3, n_splits=2)
    board = inference.certify(2, n_draws=500)
    assert board.n_splits == inference.n_splits == 2
    said = "cross-fitting on 3 folds, scores and covariances being the mean of 2 splits."
    assert said in claim_sentences(board)[-1]
    text, _ = page_of(board, tmp_path)
    assert said in text and "3 folds, 2 splits" in text
    board.to_json(tmp_path / "board.json")
    assert lg.Leaderboard.read(tmp_path / "board.json").n_splits == 2
    data = board.to_dict()
    assert data.pop("n_splits") == 2 and lg.Leaderboard.from_dict(data).n_splits == 1  # boards of earlier versions
    with pytest.raises(lg.StateError, match="broken leaderboard"):
        lg.Leaderboard.from_dict(data | {"n_splits": "many"})


def test_elo_and_anchor_are_shown_and_said(inference, tmp_path):
    board = inference.certify(3)
    text, page = page_of(board, tmp_path, scale="elo", anchor=("m02", 1200))
    values = [attributes["data-value"] for tag, attributes in page.tags if tag == "td" and "data-value" in attributes]
    np.testing.assert_allclose([float(v) for v in values[5::8]], board.to_frame(scale="elo", anchor=("m02", 1200))["score"])
    assert "score and std_error in Elo, shifted so that &#39;m02&#39; has 1200 on every task" in text
    with pytest.raises(lg.ParameterError, match="anchor"):
        board.to_html(tmp_path / "x.html", anchor="nobody")
    assert not (tmp_path / "x.html").exists()


# ------------------------------------------------------------------------------------------------- the claim in words

INSIDE = "lies in its rank interval."
EVERY = "the true rank of every model"
CLAIMS = {
    "task": f"For each task taken by itself: with 95 % confidence, simultaneously over all models of this task, {EVERY} {INSIDE}",
    ("task", "t01"): f"With 95 % confidence, simultaneously over all models of the task 't01', {EVERY} {INSIDE}",
    "all": f"With 95 % confidence, simultaneously over all models and all tasks of this board, {EVERY} on every task {INSIDE}",
    "model": f"For each model taken by itself: with 95 % confidence, simultaneously over all tasks, the true rank of this model {INSIDE}",
    ("model", "m03"): f"With 95 % confidence, simultaneously over all tasks, the true rank of 'm03' {INSIDE}",
    "cell": f"For each model on each task taken by itself: with 95 % confidence, its true rank on that task {INSIDE}",
    ("cell", "t01", "m03"): f"With 95 % confidence, the true rank of 'm03' on the task 't01' {INSIDE}",
}


@pytest.mark.parametrize("family", list(CLAIMS), ids=str)
@pytest.mark.parametrize("method", ["max-t", "step-down", "order-statistic"])
def test_claim_of_every_family(inference, family, method):
    from lrgittins._claims import claim_sentences

    sentences = claim_sentences(inference.certify(3, family=family, method=method, n_draws=500))
    assert sentences[0] == CLAIMS[family]
    separate = [sentence for sentence in sentences if "separate claims" in sentence]
    assert len(separate) == (family in ("task", "model", "cell"))
    how = {"max-t": "band of their gap", "step-down": "step-down", "order-statistic": "how many models are above and below"}[method]
    assert any(how in sentence and "500 bootstrap draws" in sentence for sentence in sentences)
    assert sentences[-1].startswith("Standard errors come from cross-fitting on 6 folds")


def test_claim_of_one_sided_certificates_is_about_certificates_only(inference):
    from lrgittins._claims import claim_sentences

    every = claim_sentences(inference.certify(3, family="cell", method="one-sided", n_draws=500))
    one = claim_sentences(inference.certify(3, family=("cell", "t01", "m03"), method="one-sided", n_draws=500, alpha=0.1))
    assert every[0].startswith("For each model on each task taken by itself: with 95 % confidence, its certificate on that task is right")
    assert one[0].startswith("With 90 % confidence, the certificate of 'm03' on the task 't01' is right")
    for sentences in (every, one):
        assert "rank interval" not in sentences[0] and any("do not hold jointly" in sentence for sentence in sentences)


@pytest.mark.parametrize("alpha, level", [(0.05, "95 %"), (0.1, "90 %"), (0.001, "99.9 %"), (0.32, "68 %")])
def test_claim_has_the_level(alpha, level):
    from lrgittins._claims import claim_sentences

    board = lg.infer_gaps(votes(THREE), PER_TASK).certify(1, alpha=alpha, n_draws=20000)
    assert f" {level} confidence" in claim_sentences(board)[0]
    assert claim_sentences(board)[-1].startswith("Standard errors are the robust (sandwich) ones")


def test_claim_of_the_parametric_calibration_says_where_it_ends():
    from lrgittins._claims import claim_sentences

    board = lg.infer_gaps(simulated(n=900)[1], lg.LowRankBradleyTerry(rank=1), calibration="parametric", n_refits=2).certify(2, n_draws=500)
    assert "rests on simulation instead of the theory" in claim_sentences(board)[-1]


def test_a_board_without_draws_claims_nothing(tmp_path):
    text, page = page_of(lg.infer_gaps(votes(THREE), PER_TASK).certify(1, n_draws=0), tmp_path)
    assert "makes no statement of confidence" in text and "certified in the top 1</li>" not in text
    assert not any(tag == "line" and attributes.get("class") is None for tag, attributes in page.tags)  # no intervals drawn


# ---------------------------------------------------------------------------------------------------------- the rest


def test_failed_checks_are_said_at_the_top(inference, tmp_path):
    with pytest.warns(UserWarning, match="too few for a steady critical value"):
        board = inference.certify(3, n_draws=100)
    text, page = page_of(board, tmp_path)
    failed = [name for name, entry in board.diagnostics.items() if entry["status"] == "failed"]
    assert "draws" in failed and text.index("checks failed (") < text.index("<figure")
    assert ("a", {"href": "#checks"}) in page.tags and ("h2", {"id": "checks"}) in page.tags
    good, _ = page_of(lg.infer_gaps(votes({"A:B": (9, 1)}), PER_TASK).certify(1), tmp_path)
    assert "checks failed (" not in good


def test_two_models_one_task(tmp_path):
    _, page = page_of(lg.infer_gaps(votes({"A:B": (9, 1)}), PER_TASK).certify(1), tmp_path)
    assert not any(tag == "select" for tag, _ in page.tags)  # nothing to choose from


def test_comparison_report(comparison, tmp_path):
    text, page = page_of(comparison, tmp_path)
    assert "<i>" not in text
    assert "&lt;i&gt;b&lt;/i&gt;" in text or "the best is e" in text
    assert json.loads(page.text["script"][0]) == comparison.to_dict()
    lines = [attributes["d"] for tag, attributes in page.tags if tag == "path" and attributes.get("class") == "line"]
    assert len(lines) == 3 * 2 + 2  # three pictures of two policies, two keys
    at = comparison.at()
    values = [
        attributes["data-value"]
        for tag, attributes in page.tags
        if tag == "td" and attributes.get("class") == "number" and "data-value" in attributes
    ]
    np.testing.assert_allclose([float(v) for v in values[: len(at)]], at["regret"])
    groups = [attributes["value"] for tag, attributes in page.tags if tag == "option"]
    assert groups == ["one", "<two>", "all", ""]


def test_comparison_curve_ends_where_the_table_says(comparison):
    from lrgittins._report_pictures import curve_picture

    picture = curve_picture(comparison, "one")
    top = float(picture["y_ticks"][-1]["text"])
    at = comparison.at(comparison.budget).query("matrix == 'one'").set_index("policy")["regret"]
    for policy, curve in zip(comparison.policies, picture["curves"], strict=True):
        x, y = map(float, curve["line"].rsplit("L", 1)[1].split(","))
        want = at[policy]
        assert x == picture["right"] and (picture["bottom"] - y) / (picture["bottom"] - picture["top"]) * top == pytest.approx(
            want, abs=0.002 * top
        )


@pytest.mark.parametrize("highest", [1e-9, 0.003, 0.1, 0.2499, 1.0, 7.3, 12345.0])
def test_axis_ticks_are_round_and_reach_beyond(highest):
    from lrgittins._report_pictures import nice_ticks

    ticks = nice_ticks(highest)
    assert ticks[0] == 0.0 and ticks[-1] >= highest * (1 - 1e-9) and ticks[-2] < highest and 4 <= len(ticks) <= 7


@pytest.mark.parametrize("n", [1, 2, 3, 9, 10, 11, 59, 60, 300, 5000])
def test_rank_ticks_are_few_and_have_both_ends(n):
    from lrgittins._report_pictures import rank_ticks

    ticks = rank_ticks(n)
    assert ticks[0] == 1 and ticks[-1] == n and ticks == sorted(set(ticks)) and len(ticks) <= 12


def test_missing_jinja2_names_the_extra(inference, comparison, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)
    for result in (inference.certify(3, n_draws=0), comparison):
        with pytest.raises(lg.MissingExtraError, match=r"lrgittins\[report\]"):
            result.to_html(tmp_path / "x.html")
    assert list(tmp_path.iterdir()) == []


def test_reports_need_no_plotting_library(inference, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    page_of(inference.certify(3, n_draws=0), tmp_path)


def test_a_report_replaces_the_old_one_whole_or_not_at_all(tmp_path, monkeypatch):
    import os

    board = lg.infer_gaps(votes(THREE), PER_TASK).certify(1)
    path = tmp_path / "board.html"
    path.write_text("old")

    def no_space(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", no_space)
    with pytest.raises(OSError, match="No space"):
        board.to_html(path)
    assert path.read_text() == "old" and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("title", ["", "  ", 3])
def test_title_is_checked(title, tmp_path):
    with pytest.raises(lg.ParameterError, match="title"):
        lg.infer_gaps(votes(THREE), PER_TASK).certify(1).to_html(tmp_path / "x.html", title=title)


# ------------------------------------------------------------------------------------------------------ command line


@pytest.fixture
def vote_file(tmp_path):
    path = tmp_path / "votes.csv"
    rows = [
        f"t,{a},{b},{w}"
        for a, b, w in [("A", "B", "model_a"), ("B", "A", "model_a"), ("A", "C", "model_a"), ("C", "B", "model_b"), ("C", "A", "tie")] * 3
    ]
    path.write_text("\n".join(["task,model_a,model_b,winner", *rows, "t,C,B,model_a"]) + "\n")
    return path


def run(*arguments):
    from lrgittins.cli import cli

    return CliRunner().invoke(cli, [str(argument) for argument in arguments])


def test_rank_writes_a_page(vote_file, tmp_path):
    out = tmp_path / "board.html"
    done = run("rank", vote_file, "--estimator", "per-task", "--out", out, "--scale", "elo", "--anchor", "A=1200", "-q")
    assert done.exit_code == 0, done.output
    assert "in Elo, shifted so that &#39;A&#39; has 1200" in out.read_text()


def test_rank_prints_elo(vote_file):
    done = run("rank", vote_file, "--estimator", "per-task", "--scale", "elo", "--anchor", "A", "-q")
    line = next(line for line in done.output.splitlines() if " A " in line)
    assert done.exit_code == 0 and "1000.0" in line
    data = json.loads(run("rank", vote_file, "--estimator", "per-task", "--scale", "elo", "--json", "-q").output)
    assert data["scale"] == "elo" and sum(row["score"] for row in data["rows"]) == pytest.approx(3000)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--anchor", "Z"], "unknown model 'Z'"),
        (["--scale", "elo", "--out", "board.json"], "keep scores in log-odds"),
        (["--out", "board.htm"], "ends? .*name"),
    ],
)
def test_rank_refuses(vote_file, options, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    done = run("rank", vote_file, "--estimator", "per-task", *options)
    assert done.exit_code == 2 and re.search(message, done.output) and not (tmp_path / "board.json").exists()


def test_select_writes_a_page(tmp_path):
    rng = np.random.default_rng(0)
    path = tmp_path / "scores.csv"
    path.write_text("arm,example,score\n" + "".join(f"a{k},{j},{int(rng.random() < 0.3 + 0.1 * k)}\n" for k in range(3) for j in range(30)))
    done = run("select", path, "--runs", 2, "--policy", "ucb-e", "--budget", 0.5, "--out", tmp_path / "page.html", "-q")
    assert done.exit_code == 0, done.output
    assert "Simple regret" in (tmp_path / "page.html").read_text()
