"""A training as it was in a commit, or with a patch: a copy of its own; the user's repository is as it was."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from laptime.errors import UsageError
from laptime.questions.sources import KEPT_TREES, TREES, name_source, place_named_by
from laptime.questions.subject import find_subjects

BEFORE = "def training(): return make(1)\n"
AFTER = "def training(): return make(2)\n"
# An identity of no person, for this repository alone.
OWN = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")


@pytest.fixture
def repository(tmp_path, monkeypatch):
    """A repository of one commit, whose training was changed since; data that git ignores; and a cache of its own."""
    top = tmp_path / "work"
    (top / "src").mkdir(parents=True)
    (top / "src" / "train.py").write_text(BEFORE)
    (top / ".gitignore").write_text("data/\n")
    (top / "data").mkdir()
    (top / "data" / "set.bin").write_text("items")
    git(top, "init", "-q")
    git(top, "add", "--all")
    git(top, *OWN, "commit", "-qm", "first")
    (top / "src" / "train.py").write_text(AFTER)
    monkeypatch.setenv("LAPTIME_CACHE", str(tmp_path / "cache"))
    monkeypatch.chdir(top)
    return top


def git(folder, *words):
    return subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True, text=True).stdout


def content_of(place):
    file, _, function = place.rpartition(":")
    assert function == "training"
    return Path(file).read_text(encoding="utf-8")


def test_a_commit_is_copied_and_nothing_is_changed_here(repository):
    """Neither the files nor git's index, which a checkout would touch."""
    before = git(repository, "status", "--porcelain")  # it may itself refresh the index
    index = (repository / ".git" / "index").read_bytes()
    assert content_of(place_named_by("git:HEAD:src/train.py:training")) == BEFORE
    assert (repository / ".git" / "index").read_bytes() == index
    assert git(repository, "status", "--porcelain") == before == " M src/train.py\n"
    assert content_of("src/train.py:training") == AFTER


def test_a_path_is_from_this_folder(repository, monkeypatch):
    monkeypatch.chdir(repository / "src")
    assert content_of(place_named_by("git:HEAD:train.py:training")) == BEFORE


def test_what_git_ignores_is_not_in_a_copy(repository):
    copy = place_named_by("git:HEAD:src/train.py:training").rpartition("/src/")[0]
    assert (repository / "data" / "set.bin").exists()
    assert sorted(subprocess.run(["ls", "-A", copy], capture_output=True, text=True, check=True).stdout.split()) == [
        ".gitignore",
        "src",
    ]


def test_a_patch_is_applied_to_a_copy_of_what_is_here(repository):
    """What was changed and not committed is part of it."""
    (repository / "more.patch").write_text(
        "--- a/src/train.py\n+++ b/src/train.py\n@@ -1 +1 @@\n-def training(): return make(2)\n"
        "+def training(): return make(3)\n"
    )
    assert content_of(place_named_by("patch:more.patch:src/train.py:training")) == AFTER.replace("2", "3")
    assert content_of("src/train.py:training") == AFTER


def test_a_copy_is_made_once_and_old_ones_go(repository, tmp_path):
    first = place_named_by("git:HEAD:src/train.py:training")
    assert place_named_by("git:HEAD:src/train.py:training") == first
    for number in range(KEPT_TREES + 2):
        (repository / "src" / "train.py").write_text(f"def training(): return make({number + 10})\n")
        git(repository, *OWN, "commit", "-qam", f"number {number}")
        assert f"make({number + 10})" in content_of(place_named_by("git:HEAD:src/train.py:training"))
    assert len(list((tmp_path / "cache" / "laptime" / TREES).iterdir())) == KEPT_TREES


@pytest.mark.parametrize(
    ("word", "says"),
    [
        ("git:nope:src/train.py:training", "git:nope: there is no such commit in "),
        ("git:--output=x:src/train.py:training", "there is no such commit in "),
        ("git:HEAD:src/other.py:training", "there is no file src/other.py in that commit"),
        ("git:HEAD:../train.py:training", "../train.py is not in "),
        ("git:HEAD", "'git:HEAD' names a commit and no training"),
        ("git::train.py", "names no commit"),
        ("patch:none.patch:src/train.py:training", "there is no patch none.patch"),
        ("patch:.gitignore:src/train.py:training", "does not apply"),
        ("patch:more.patch", "names no patch and training"),
    ],
)
def test_what_cannot_be_copied_is_refused_in_words(repository, word, says):
    with pytest.raises(UsageError) as refused:
        place_named_by(word)
    assert says in str(refused.value)
    assert refused.value.hint
    assert git(repository, "status", "--porcelain") == " M src/train.py\n"


def test_outside_of_a_repository_a_commit_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    with pytest.raises(UsageError, match="this folder is in no git repository"):
        place_named_by("git:HEAD:train.py:training")


def test_a_page_calls_a_training_as_it_was_typed(repository):
    assert name_source("git:HEAD~2:src/train.py:training", "train.py:training") == "HEAD~2:train.py:training"
    found = find_subjects(("git:HEAD:src/train.py:training", "src/train.py:training"))
    assert [subject.name for subject, _ in found] == ["HEAD:train.py:training", "train.py:training"]
    assert found[0][0].file != found[1][0].file
