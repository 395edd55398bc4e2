"""Saved states: exact resume (A19), and every way in which a file can fail to fit."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import lrgittins as lg
from tests.test_policies_gittins import bernoulli

SCORES = bernoulli(5, 40, seed=11)
MAKERS: dict[str, Callable[[], Any]] = {
    "gittins": lambda: lg.GittinsPolicy(5, 40, batch_size=4, cost=[1.0, 0.5, 2.0, 0.0, 1.5], cost_scale=1e-3, random_state=5),
    "annealed": lambda: lg.GittinsPolicy(5, 40, batch_size=8, cost_scale=5e-2, anneal=True, batch_schedule="constant"),
    "learning": lambda: lg.GittinsPolicy(5, 40, batch_size=8, prior="empirical-bayes", batch_schedule="constant"),
    "latent": lambda: lg.GittinsPolicy(
        5, [40, 30, 40, 20, 40], batch_size=10, batch_schedule="constant", target="latent", prior=(50, 400), score_range=(0, 100),
        example_order="per-arm", recommendation="mean", roots="auto", random_state=np.random.Generator(np.random.MT19937(4)),
    ),
    "ucb-e": lambda: lg.UCBE(5, 40, batch_size=3, a=0.5),
    "ucb-e-lrf": lambda: lg.LowRankUCBE(5, 40, batch_size=3, warmup=0.1, ensemble=8),
    "prompteval": lambda: lg.PromptEvalBAI(5, 40, budget=150, batch_size=3),
    "sysrs": lambda: lg.SySRs(5, 40, budget=150, cap=False, batch_size=3),
}  # fmt: skip
every_policy = pytest.mark.parametrize("make", MAKERS.values(), ids=MAKERS)


def answer(policy: Any, pull: lg.Pull) -> np.ndarray:
    return SCORES[pull.arm, list(pull.examples)] * policy.score_range[1]


def step(policy: Any, count: int) -> list[lg.Pull]:
    pulls = []
    while len(pulls) < count and (pull := policy.ask()) is not None:
        policy.tell(pull, answer(policy, pull))
        pulls.append(pull)
    return pulls


@every_policy
@pytest.mark.parametrize("n_pending", [0, 3])
def test_a19_a_split_run_is_the_unbroken_run(make: Callable[[], Any], n_pending: int, tmp_path: Path) -> None:
    def first_half(policy: Any) -> list[lg.Pull]:
        step(policy, 12)
        return [pull for pull in (policy.ask() for _ in range(n_pending)) if pull is not None]

    straight, split = make(), make()
    pulls, same_pulls = first_half(straight), first_half(split)
    split.save(tmp_path / "state.json")
    resumed = type(split).load(tmp_path / "state.json")
    assert resumed.pending == tuple(pulls) and pulls == same_pulls
    assert (resumed.spent, resumed.reserved, resumed.status) == (straight.spent, straight.reserved, straight.status)
    assert resumed._generator.bit_generator.state["state"].keys() == straight._generator.bit_generator.state["state"].keys()
    assert resumed._generator.random() == straight._generator.random()
    for policy in (straight, resumed):
        for pull in reversed(pulls):
            policy.tell(pull, answer(policy, pull))
    assert step(straight, 10**6) == step(resumed, 10**6)
    assert straight.posterior().equals(resumed.posterior())
    assert straight.recommend() == resumed.recommend() or np.isnan(straight.recommend().std)
    assert straight.spent == resumed.spent and straight.fingerprint == resumed.fingerprint
    for name in ("should_stop", "stop_reason", "status", "n_told", "example_order"):
        assert getattr(straight, name) == getattr(resumed, name)


def test_a19_in_a_new_process(tmp_path: Path) -> None:
    path = tmp_path / "state.json"
    policy = MAKERS["gittins"]()
    step(policy, 25)
    policy.save(path)
    code = (
        "import sys, lrgittins as lg\n"
        "policy = lg.GittinsPolicy.load(sys.argv[1])\n"
        "print(policy.ask().token, repr(policy.spent), policy.recommend().arm)\n"
    )
    root = Path(__file__).resolve().parents[1]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(root), os.environ.get("PYTHONPATH", "")])}
    out = subprocess.run([sys.executable, "-c", code, str(path)], capture_output=True, text=True, env=environment, cwd=root, check=True)
    assert out.stdout.split() == [policy.ask().token, repr(policy.spent), str(policy.recommend().arm)]


@every_policy
def test_saving_twice_gives_the_same_state_and_strict_json(make: Callable[[], Any]) -> None:
    policy = make()
    step(policy, 9)
    policy.ask()
    state = policy.to_state()
    text = json.dumps(state, allow_nan=False)
    again = type(policy).from_state(json.loads(text))
    assert json.dumps(again.to_state(), sort_keys=True) == json.dumps(state, sort_keys=True)


def test_failures_attachments_and_closed_pulls_survive(tmp_path: Path) -> None:
    policy = lg.GittinsPolicy(["a", "b"], 6, examples=list("uvwxyz"), batch_size=2, max_retries=1)
    policy.attach("a", "v", 0.5, cost=0.25)
    lost = policy.ask()
    policy.release(lost)
    for _ in range(3):
        pull = policy.ask()
        policy.tell(pull, None, status="error")
    policy.end("interrupted")
    policy.save(tmp_path / "s.json")
    again = lg.GittinsPolicy.load(tmp_path / "s.json")
    assert again.cells() == policy.cells() and again.cells()["attached"] == 1 and again.stop_reason == "interrupted"
    assert again.posterior().equals(policy.posterior())
    with pytest.raises(lg.StateError, match="released"):
        again.tell(lost, [1.0] * len(lost.examples))
    assert again.attach("a", "v", 0.5, cost=0.25) is False and again.spent == policy.spent
    assert again.ask() == policy.ask()


def edited(state: dict[str, Any], *path: Any, value: Any) -> dict[str, Any]:
    out = json.loads(json.dumps(state))
    place = out
    for name in path[:-1]:
        place = place[name]
    if value is KeyError:
        del place[path[-1]]
    else:
        place[path[-1]] = value
    return out


EDITS = [
    (("format",), "something", "format"),
    (("schema",), 99, "schema.*newer.*upgrade"),
    (("schema",), "1", "schema"),
    (("policy",), "UCBE", "policy.*UCBE"),
    (("digest",), "0" * 64, "digest"),
    (("setup", "arms", 0), "other", "arms"),
    (("setup", "arms"), [0, 1], "setup"),
    (("setup", "cost", 1), 7.0, "cost"),
    (("setup", "cost", 1), -7.0, "cost"),
    (("setup", "n_examples"), [39] * 5, "setup"),
    (("setup", "options", "cost_scale"), 1.0, "options"),
    (("setup", "options", "prior_mean"), 0.9, "prior"),
    (("setup", "options", "surprise"), 1, "surprise"),
    (("setup", "order", "base64"), "!!", "order"),
    (("tie_order",), [0, 0, 1, 2, 3], "tie_order"),
    (("tie_order",), [1, 0, 2, 3, 4], "order"),
    (("counters", "spent"), 123.0, "digest"),
    (("cells", 0, "told_scores", 0), 0.123, "digest"),
    (("generator",), "PCG64", "generator"),
    *[((name,), KeyError, name) for name in ("cells", "pending", "own", "fingerprint", "generator", "counters", "digest")],
]


@pytest.mark.parametrize(("path", "value", "words"), EDITS, ids=[f"{'.'.join(map(str, p))}={v}"[:40] for p, v, _ in EDITS])
def test_a_state_that_does_not_fit_names_the_field(path: tuple[Any, ...], value: Any, words: str) -> None:
    policy = MAKERS["gittins"]()
    step(policy, 4)
    policy.ask()
    with pytest.raises(lg.StateError, match=words):
        lg.GittinsPolicy.from_state(edited(policy.to_state(), *path, value=value))


@pytest.mark.parametrize(
    ("path", "value", "words"),
    [
        (("cells", 0, "told"), [0, 0], "cells"),
        (("cells", 0, "told"), [0], "cells"),
        (("cells", 0, "told_scores", 0), 3.0, "cells"),
        (("cells", 0, "arm"), 77, "cells"),
        (("cells", 0, "told", 0), 4000, "cells"),
        (("cells", 0, "told", 0), -1, "cells"),
        (("pending", 0, "positions"), [0], "pending"),
        (("pending", 0, "token"), KeyError, "pending.*token"),
        (("generator", "bit_generator"), "os", "generator"),
        (("own", "halvings"), -3, "own"),
        (("own", "planned_cost"), [1.0], "own"),
        (("failures",), [[0, 99, 9]], "failures"),
    ],
)
def test_states_forged_with_a_fitting_digest_are_refused_too(path: tuple[Any, ...], value: Any, words: str) -> None:
    from lrgittins.policies.state import _digest

    policy = MAKERS["gittins"]()
    step(policy, 4)
    pull = policy.ask()
    assert pull is not None
    forged = edited(policy.to_state(), *path, value=value)
    arm = forged["pending"][0].get("arm")
    if path[0] == "pending" and value == [0] and not any(c["arm"] == arm and 0 in c["told"] for c in forged["cells"]):
        forged["pending"][0]["arm"] = next(c["arm"] for c in forged["cells"] if c["told"])
    forged["digest"] = _digest(forged)
    with pytest.raises(lg.StateError, match=words):
        lg.GittinsPolicy.from_state(forged)


@pytest.mark.parametrize("content", ["", "{", "[]", "null", "3", '{"format": NaN}', "\x00\x01"])
def test_files_that_are_no_state(content: str, tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    path.write_text(content)
    with pytest.raises(lg.StateError):
        lg.GittinsPolicy.load(path)


def test_half_a_file_and_no_file(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    policy = MAKERS["ucb-e"]()
    policy.save(path)
    text = path.read_bytes()
    for keep in (1, len(text) // 2, len(text) - 1):
        path.write_bytes(text[:keep])
        with pytest.raises(lg.StateError, match="cut off"):
            lg.UCBE.load(path)
    path.write_bytes(b"\xff\xfe" + text)
    with pytest.raises(lg.StateError, match="UTF-8"):
        lg.UCBE.load(path)
    with pytest.raises(lg.StateError, match="no saved state"):
        lg.UCBE.load(tmp_path / "absent.json")


def test_a_failed_write_leaves_the_old_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "s.json"
    policy = MAKERS["ucb-e"]()
    policy.save(path)
    before = path.read_bytes()
    step(policy, 2)

    def refuse(*_: Any) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", refuse)
    with pytest.raises(OSError, match="disk full"):
        policy.save(path)
    assert path.read_bytes() == before and [p.name for p in tmp_path.iterdir()] == ["s.json"]


@pytest.mark.skipif(os.name != "posix", reason="permissions are those of POSIX")
def test_a_state_and_its_rename_are_flushed_and_it_gets_the_permissions_of_any_new_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    done: list[str] = []
    fsync, rename = os.fsync, os.replace
    monkeypatch.setattr("os.fsync", lambda handle: (done.append("flush"), fsync(handle))[1])
    monkeypatch.setattr("os.replace", lambda old, new: (done.append("rename"), rename(old, new))[1])
    before = os.umask(0o027)
    try:
        MAKERS["ucb-e"]().save(tmp_path / "s.json")
    finally:
        os.umask(before)
    assert (tmp_path / "s.json").stat().st_mode & 0o777 == 0o640
    assert done == ["flush", "rename", "flush"] and os.listdir(tmp_path) == ["s.json"]


def test_load_compares_with_what_the_caller_works_on(tmp_path: Path) -> None:
    path = tmp_path / "s.json"
    policy = lg.GittinsPolicy(["a", "b"], 4, examples=list("wxyz"), cost=[1.0, 2.0], prior=(0.4, 0.02))
    policy.save(path)
    same = {"arms": ["a", "b"], "n_examples": 4, "examples": list("wxyz"), "cost": {"b": 2.0, "a": 1.0}, "prior_mean": 0.4}
    lg.GittinsPolicy.load(path, **same, prior_variance=[0.02, 0.02], noise_variance=0.25)
    other = {"arms": ["b", "a"], "n_examples": 5, "examples": None, "cost": 1.0, "prior_mean": 0.5, "prior_variance": 0.03, "seed": 1}
    for name, value in other.items():
        with pytest.raises(lg.StateError, match=name):
            lg.GittinsPolicy.load(path, **{name: value})


def test_labels_that_json_cannot_hold_are_refused_at_save(tmp_path: Path) -> None:
    policy = lg.UCBE([("a", 1), ("b", 2)], 3)
    assert policy.ask().arm in [("a", 1), ("b", 2)]
    with pytest.raises(lg.StateError, match="arms"):
        policy.save(tmp_path / "s.json")
    assert list(tmp_path.iterdir()) == []
