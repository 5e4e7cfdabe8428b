"""`laptime verdict`: its first word, its exit code, and the fields that a program reads."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from laptime.questions.verdict.nouns import VerdictFields
from laptime.store.schema import verdict_schema_text

HERE = Path(__file__).parent
CHANGES = HERE / "own_changes.py"
SCHEMA = json.loads((HERE.parents[1] / "docs" / "verdict.schema.json").read_text(encoding="utf-8"))
OWN = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")


def test_the_schema_is_that_of_the_fields():
    assert verdict_schema_text() == (HERE.parents[1] / "docs" / "verdict.schema.json").read_text(encoding="utf-8")


def asked(house, candidate, *words, code):
    return house.done("verdict", f"{CHANGES}:base", f"{CHANGES}:{candidate}", "cpu", *words, "-q", code=code)


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


def test_a_candidate_that_does_not_train_is_discarded_in_words(torch_house):
    answer = asked(torch_house, "broken", code=1)
    assert "DISCARD: it does not train: own_changes.py, line " in answer.err
    assert "RuntimeError: there are no data here" in answer.err
    words = ("verdict", f"{CHANGES}:broken", f"{CHANGES}:base", "cpu", "-q")
    assert "DISCARD" not in torch_house.done(*words, code=3).err


@pytest.mark.long
@pytest.mark.parametrize(
    ("candidate", "word", "cause", "code"),
    [("quicker", "KEEP", "faster", 0), ("slower", "DISCARD", "slower", 1)],
)
def test_a_loader_that_waits_less_or_more(torch_house, candidate, word, cause, code):
    """Both are far from 1, so that few rounds are enough even on a busy machine."""
    fields = asked(torch_house, candidate, "--budget", "4m", "--json", code=code).json
    check_fields(fields)
    assert (fields["verdict"], fields["cause"]) == (word, cause)
    assert fields["low"] < fields["ratio"] < fields["high"]
    assert fields["low"] > 1 or fields["high"] < 1
    assert fields["seconds"] < 240


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
    record = torch_house.kept()
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
