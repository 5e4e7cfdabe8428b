"""A training as it was in a commit, or with a patch: a copy of its own; the user's repository is as it was."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from laptime.model.errors import CopyError, ExitCode, UsageError
from laptime.questions.copies import TREES, copies_in_use, copies_of_a_question
from laptime.questions.sources import name_source, place_named_by
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
    with copies_of_a_question():
        yield top


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


def test_a_copy_is_of_one_question_and_is_removed_with_it(repository, tmp_path):
    """Within a question, a word names one copy; the other side, and the next question, have one of their own."""
    trees = tmp_path / "cache" / "laptime" / TREES
    with copies_of_a_question():
        first = place_named_by("git:HEAD:src/train.py:training")
        assert place_named_by("git:HEAD:src/train.py:training") == first
        assert place_named_by("git:HEAD:src/train.py") not in first
        assert len(list(trees.iterdir())) == 2
        assert Path(first.rpartition(":")[0]).stat().st_mode & 0o222 == 0
    assert list(trees.iterdir()) == []
    with copies_of_a_question():
        assert place_named_by("git:HEAD:src/train.py:training") != first


def test_a_copy_in_use_is_never_removed_by_others(repository, tmp_path):
    """Twelve further copies, as an agent's loop makes: the running verdict lost its own."""
    with copies_of_a_question():
        mine = place_named_by("git:HEAD:src/train.py:training")
        program = (
            "from laptime.questions.copies import copies_of_a_question\n"
            "from laptime.questions.sources import place_named_by\n"
            "for _ in range(14):\n"
            "    with copies_of_a_question():\n"
            "        place_named_by('git:HEAD:src/train.py:training')\n"
        )
        subprocess.run([sys.executable, "-c", program], check=True)
        assert content_of(mine) == BEFORE
        assert len(list((tmp_path / "cache" / "laptime" / TREES).iterdir())) == 1


HANGS = """\
import sys
from pathlib import Path
from laptime.questions.copies import copies_of_a_question, copies_in_use

def fill(folder):
    (folder / "half.py").write_text("")
    print("begun", flush=True)
    sys.stdin.read()

with copies_of_a_question():
    copies_in_use().place("word", fill)
"""


def test_what_a_killed_process_left_is_removed_by_the_next(repository, tmp_path):
    trees = tmp_path / "cache" / "laptime" / TREES
    words = [sys.executable, "-c", HANGS]
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as copying:
        assert copying.stdout.readline() == b"begun\n"
        (left,) = trees.iterdir()
        with copies_of_a_question():
            place_named_by("git:HEAD:src/train.py:training")
            assert left.exists(), "it is in use"
        copying.kill()
        copying.wait()
    users = trees / "notes"
    users.mkdir()
    with copies_of_a_question():
        place_named_by("git:HEAD:src/train.py:training")
        assert not left.exists()
    assert list(trees.iterdir()) == [users]


def test_a_copy_that_another_program_removed_is_a_failure_of_laptime(repository):
    with copies_of_a_question():
        copy = Path(place_named_by("git:HEAD:src/train.py:training").rpartition("/src/")[0])
        shutil.rmtree(copy)
        with pytest.raises(CopyError) as lost:
            copies_in_use().check()
    assert lost.value.exit_code == ExitCode.BUG
    assert str(copy.parent) in lost.value.says


PATCH_OF_TRAIN = (
    "--- a/src/train.py\n+++ b/src/train.py\n@@ -1 +1 @@\n"
    "-def training(): return make(2)\n+def training(): return make(3)\n"
)


@pytest.mark.parametrize("word", ["git:HEAD:src/train.py:training", "patch:more.patch:src/train.py:training"])
def test_links_lead_where_they_do_here(repository, word):
    """A tracked link to a folder, one to data that git ignores, and one next to the repository; a ring stays a ring."""
    outside = repository.parent / "outside"
    outside.mkdir()
    (outside / "far.txt").write_text("far")
    for name, target in {"code": "src", "items": "data", "far": "../outside", "ring": "ring"}.items():
        (repository / name).symlink_to(target)
    git(repository, "add", "code", "items", "far", "ring")
    git(repository, *OWN, "commit", "-qm", "links")
    (repository / "more.patch").write_text(PATCH_OF_TRAIN)
    copy = Path(place_named_by(word).rpartition("/src/")[0])
    assert (copy / "code" / "train.py").resolve() == (copy / "src" / "train.py").resolve()
    assert (copy / "items" / "set.bin").read_text() == "items"
    assert (copy / "far" / "far.txt").read_text() == "far"
    assert (copy / "ring").is_symlink()


def test_no_program_of_the_repositorys_settings_runs(repository, tmp_path):
    """Neither hooks, nor a monitor of files, nor a filter; those that the user has for all repositories do."""
    ran = tmp_path / "ran"
    program = tmp_path / "program"
    program.write_text(f"#!/bin/sh\necho $0 >> {ran}\ncat\n")
    program.chmod(0o755)
    for hook in ("post-index-change", "post-checkout", "reference-transaction"):
        shutil.copy(program, repository / ".git" / "hooks" / hook)
    (repository / ".gitattributes").write_text("*.py filter=own\n*.txt filter=mine\n")
    (repository / "note.txt").write_text("as it is\n")
    git(repository, "add", ".gitattributes", "note.txt")
    git(repository, *OWN, "commit", "-qm", "filters")
    settings = {"core.fsmonitor": program, "filter.own.smudge": program, "filter.own.required": "true"}
    for name, value in settings.items():
        git(repository, "config", name, str(value))
    (repository / "more.patch").write_text(PATCH_OF_TRAIN)
    ran.unlink(missing_ok=True)
    assert content_of(place_named_by("git:HEAD:src/train.py:training")) == BEFORE
    assert content_of(place_named_by("patch:more.patch:src/train.py:training")) == AFTER.replace("2", "3")
    assert not ran.exists(), ran.read_text()


def test_a_filter_of_the_user_runs(repository, tmp_path, monkeypatch):
    users = tmp_path / "users.config"
    users.write_text('[filter "mine"]\n\tsmudge = tr a-z A-Z\n')
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(users))
    (repository / ".gitattributes").write_text("*.txt filter=mine\n")
    (repository / "note.txt").write_text("small\n")
    git(repository, "add", ".gitattributes", "note.txt")
    git(repository, *OWN, "commit", "-qm", "filters")
    git(repository, "config", "filter.mine.smudge", "false")
    copy = Path(place_named_by("git:HEAD:src/train.py:training").rpartition("/src/")[0])
    assert (copy / "note.txt").read_text() == "SMALL\n"


def test_a_sparse_work_tree_and_the_variables_of_a_hook_leave_nothing_out(repository, monkeypatch):
    (repository / "other").mkdir()
    (repository / "other" / "part.py").write_text("")
    git(repository, "add", "other")
    git(repository, *OWN, "commit", "-qm", "other")
    git(repository, "sparse-checkout", "set", "src")
    assert not (repository / "other").exists()
    monkeypatch.setenv("GIT_DIR", "nowhere")
    monkeypatch.setenv("GIT_INDEX_FILE", "nowhere/index")
    copy = Path(place_named_by("git:HEAD:src/train.py:training").rpartition("/src/")[0])
    assert (copy / "other" / "part.py").exists()


def test_a_full_disk_is_said_of_the_cache(repository, tmp_path):
    """It named the file that was read."""
    (repository / "data.bin").write_bytes(bytes(20_000))
    (repository / "more.patch").write_text(PATCH_OF_TRAIN)
    program = (
        "import resource; resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))\n"
        "from laptime.questions.sources import place_named_by\n"
        "place_named_by('patch:more.patch:src/train.py:f')"
    )
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    says, hint = ran.stderr.splitlines()[-2:]
    trees = tmp_path / "cache" / "laptime" / TREES
    assert says.endswith(
        f"patch:more.patch:src/train.py:f could not be copied to {trees}: "
        "a file would be larger than this process may write"
    )
    assert "LAPTIME_CACHE" in hint
    assert list(trees.iterdir()) == []


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
