"""`laptime verdict`: its first word, its exit code, and the fields that a program reads."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from laptime.planner.groups import OVERRUN
from laptime.questions.verdict.nouns import VerdictFields

HERE = Path(__file__).parent
CHANGES = HERE / "own_changes.py"
SCHEMA = json.loads((HERE.parents[1] / "docs" / "verdict.schema.json").read_text(encoding="utf-8"))
OWN = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")


def asked(house, candidate, *words, code):
    return house.done("verdict", f"{CHANGES}:base", f"{CHANGES}:{candidate}", "cpu", *words, "-q", code=code)


@pytest.mark.long
def test_a_candidate_at_another_rate_is_other_work_after_one_round(torch_house):
    """However fast it is, and however much of the budget is left."""
    fields = asked(torch_house, "another_rate", "--budget", "5m", "--json", code=1).json
    check_fields(fields)
    assert (fields["verdict"], fields["cause"], fields["rounds"]) == ("DISCARD", "other work", 1)
    assert "its loss differs by" in fields["reason"]
    assert fields["seconds"] < 150
    page = torch_house.done("show", fields["record"]).out
    assert page.startswith("DISCARD: it does other work: its loss differs by")
    assert "DISCARD, other work" in torch_house.done("list", "--question", "verdict").out
    assert "DISCARD" in torch_house.done("report", fields["record"], "--format", "md", "-o", "-").out


@pytest.mark.long
def test_a_candidate_that_does_not_train_is_discarded_in_words(torch_house):
    answer = asked(torch_house, "broken", code=1)
    assert "DISCARD: it does not train: own_changes.py, line " in answer.err
    assert "RuntimeError: there are no data here" in answer.err
    words = ("verdict", f"{CHANGES}:broken", f"{CHANGES}:base", "cpu", "-q")
    assert "DISCARD" not in torch_house.done(*words, code=3).err


CHEATS = HERE / "own_cheats.py"
EXAMPLE = HERE.parents[1] / "examples" / "two_trainings.py"


def of_example(house, candidate, *, code):
    words = ("verdict", f"{EXAMPLE}:before", f"{EXAMPLE}:{candidate}", "python/cpu", "--budget", "3m", "--json", "-q")
    fields = house.done(*words, code=code).json
    check_fields(fields)
    return fields


@pytest.mark.long
def test_a_gradient_as_one_product_is_kept(torch_house):
    """It is some twenty times as fast, which rounds enough show on a busy machine, too: intervals are wider there."""
    fields = of_example(torch_house, "after", code=0)
    assert (fields["verdict"], fields["cause"], fields["lane"]) == ("KEEP", "faster", "python/cpu/as-written")
    assert 1 < fields["low"] < fields["ratio"] < fields["high"]
    assert fields["ratio"] > 5
    assert fields["rounds"] >= 4
    assert fields["seconds"] < (1 + OVERRUN) * 180
    answer = torch_house.done("show", fields["record"]).out
    assert answer.startswith(f"KEEP: it is {fields['ratio']:.3f}x ({fields['low']:.3f}-{fields['high']:.3f}) as fast")


def in_session(house, candidate, *, code):
    words = (f"{EXAMPLE}:before", f"{EXAMPLE}:{candidate}", "python/cpu", "--session", "fix/loop", "--budget", "3m")
    fields = house.done("verdict", *words, "--json", "-q", code=code).json
    check_fields(fields)
    return fields


@pytest.mark.long
def test_a_session_confirms_a_gain_counts_its_verdicts_and_is_never_begun_anew_by_damage(torch_house):
    """A KEEP gives its share back, other work spends none; the state is one file that has to be whole."""
    kept = in_session(torch_house, "after", code=0)
    assert (kept["verdict"], kept["session"]["number"], kept["session"]["error"]) == ("KEEP", 1, 0.005)
    assert not kept["session"]["is_spent"]
    assert 1 < kept["low"] < kept["ratio"]
    page = torch_house.done("show", kept["record"]).out
    assert "Verdict 1 of session fix/loop: " in page
    discarded = in_session(torch_house, "careless", code=1)
    assert (discarded["session"]["number"], discarded["session"]["error"]) == (2, 0.005)
    (state,) = (torch_house.home / "sessions").glob("fix-loop-*/state")
    assert b'"verdicts":2,"spent":[]' in state.read_bytes()
    state.write_bytes(state.read_bytes()[:-2])
    words = ("verdict", f"{EXAMPLE}:before", f"{EXAMPLE}:after", "python/cpu", "--session", "fix/loop", "--json", "-q")
    error = torch_house.done(*words, code=2).json["error"]
    assert f"the session fix/loop cannot go on with {state}: it is damaged" in error["says"]
    assert "--session OTHER-NAME" in error["hint"]


@pytest.mark.long
def test_a_verdict_that_is_killed_in_its_fresh_rounds_has_spent_its_share(torch_house):
    words = (f"{EXAMPLE}:before", f"{EXAMPLE}:after", "python/cpu", "--session", "killed", "--budget", "5m")
    with torch_house.start("verdict", *words) as started:
        assert any("confirms a KEEP, round" in line for line in started.stderr)
        started.kill()
    (state,) = (torch_house.home / "sessions").glob("killed-*/state")
    assert b'"verdicts":1,"spent":[1]' in state.read_bytes()


def test_half_of_the_rows_are_other_work_however_fast(torch_house):
    fields = of_example(torch_house, "careless", code=1)
    assert (fields["verdict"], fields["cause"], fields["rounds"]) == ("DISCARD", "other work", 1)


def test_a_clock_that_the_candidate_slows_down_is_not_asked(torch_house):
    """The clock that judges was taken before its code came: it would have seemed twice as fast, and was kept."""
    words = ("verdict", f"{EXAMPLE}:before", f"{CHEATS}:half_clock", "python/cpu", "--budget", "15s", "--json", "-q")
    fields = torch_house.run(*words).json
    check_fields(fields)
    assert fields["verdict"] != "KEEP"
    assert fields["ratio"] is None or fields["ratio"] < 1.5


@pytest.mark.long
def test_a_plain_step_that_trains_no_more_once_it_was_proven_is_other_work(torch_house):
    """It was kept as 300 times as fast: only PyTorch's lanes took a step of the proof again after they were timed."""
    words = (
        "verdict",
        f"{EXAMPLE}:before",
        f"{CHEATS}:trains_no_more",
        "python/cpu",
        "--budget",
        "20s",
        "--json",
        "-q",
    )
    fields = torch_house.done(*words, code=1).json
    assert (fields["verdict"], fields["cause"]) == ("DISCARD", "other work")
    assert (
        "put back to their start after they were timed, own_cheats.py:trains_no_more has a loss of" in fields["reason"]
    )


KEPT_NEXT_TO_ITSELF = """
import os, sys
sys.path.insert(0, {examples!r})
from two_trainings import before

def honest():
    return before()

def appends():
    open({base!r}, "a").write("import time; time.sleep(1)")
    return before()
"""


def test_a_candidate_that_writes_to_the_base_is_stopped_and_told_so(torch_house, tmp_path):
    """It was kept: the sleep that it appended slowed every later heat of the base."""
    mine = tmp_path / "mine.py"
    mine.write_text(KEPT_NEXT_TO_ITSELF.format(examples=str(EXAMPLE.parent), base=str(mine)))
    text = mine.read_text()
    words = ("verdict", f"{mine}:honest", f"{mine}:appends", "python/cpu", "--budget", "20s", "-q")
    answer = torch_house.done(*words, code=3)
    assert mine.read_text() == text
    assert "UNDECIDED: it does not train: mine.py, line 10, in appends: OSError: [Errno 30]" in answer.err or (
        "PermissionError: [Errno 13]" in answer.err
    )
    assert "In a verdict, a training can write temporary files alone, and has no network." in answer.err


@pytest.mark.long
@pytest.mark.parametrize("lane", ["cpu", "cpu/compile"])
def test_workers_temporary_files_and_a_compiler_work_in_a_verdict(torch_house, lane):
    """Honest trainings, with all that the sandbox lets them have. What is compiled is compiled in each heat."""
    words = ("verdict", f"{CHANGES}:with_workers", f"{CHANGES}:with_workers_too", lane, "--budget", "30s", "--json")
    fields = torch_house.run(*words, "-q").json
    check_fields(fields)
    assert fields["cause"] not in {"sandbox", "failed", "other work", "unproven"}, fields["reason"]


@pytest.mark.long
def test_a_loader_that_waits_longer_is_slower(torch_house):
    fields = asked(torch_house, "slower", "--budget", "4m", "--json", code=1).json
    check_fields(fields)
    assert (fields["verdict"], fields["cause"]) == ("DISCARD", "slower")
    assert fields["low"] < fields["ratio"] < fields["high"] < 1


@pytest.mark.long
def test_a_gate_between_two_commits_finds_what_became_slower(torch_house, tmp_path, monkeypatch):
    """The base races itself, too; the files of the repository stay as they are."""
    shutil.copy(CHANGES, tmp_path / "train.py")
    commit(tmp_path, "first")
    text = (tmp_path / "train.py").read_text()
    (tmp_path / "train.py").write_text(text.replace("wait_s: float = 0.01", "wait_s: float = 0.04"))
    commit(tmp_path, "second")
    words = ("verdict", "git:HEAD~1:train.py:base", "git:HEAD", "cpu", "--gate", "--budget", "4m", "-q")
    answer = torch_house.done(*words, code=1, cwd=tmp_path)
    page = " ".join(answer.out.split())
    assert page.startswith("DISCARD: it is slower: 0.")
    assert "The base against itself: " in page
    assert "HEAD:train.py:base does the same work as HEAD~1:train.py:base." in page
    record = torch_house.done("show", "latest", "--json").json
    assert len(record["lanes"]) == 3
    assert record["answer"]["verdict"]["twin"]["low"] < 1.1
    assert git(tmp_path, "status", "--porcelain") == ""


def commit(folder, name):
    if not (folder / ".git").exists():
        git(folder, "init", "-q")
    git(folder, "add", "train.py")
    git(folder, *OWN, "commit", "-qm", name)


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def check_fields(fields):
    """Compare the fields with the schema that laptime comes with."""
    msgspec.convert(fields, VerdictFields, strict=True)
    assert list(fields) == SCHEMA["required"] == list(SCHEMA["properties"])
