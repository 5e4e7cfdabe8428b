"""`laptime verdict DIR change.patch`: which training of a folder is meant, and what is said where that is not clear."""

from __future__ import annotations

import os
import subprocess

import pytest

from laptime.model.errors import UsageError
from laptime.questions.verdict.speed import pair_of

TRAINING = "import laptime\n\ndef {name}():\n    return laptime.Training(step=1)\n"
PATCH = "--- a/{file}\n+++ b/{file}\n@@ -1 +1 @@\n-import laptime\n+import laptime as it\n"


@pytest.fixture
def work(tmp_path, monkeypatch):
    """A folder that is in no repository, with one file that trains, one that helps, and a patch of the first."""
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.parent))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "train.py").write_text(TRAINING.format(name="training"))
    (tmp_path / "src" / "parts.py").write_text("def loss(): ...\n")
    (tmp_path / "src" / "broken.py").write_text("def (:\n")
    (tmp_path / "change.patch").write_text(PATCH.format(file="train.py"))
    return tmp_path


def test_the_one_training_of_a_folder_is_meant(work):
    pair = pair_of("src", "change.patch")
    assert pair == ("src/train.py:training", "patch:change.patch:src/train.py:training")
    (work / "change.patch").write_text(PATCH.format(file="parts.py"))
    assert pair_of("src", "change.patch") == pair


def test_of_several_trainings_it_is_the_one_that_the_patch_changes(work):
    (work / "src" / "other.py").write_text(TRAINING.format(name="another"))
    assert pair_of("src", "change.patch")[0] == "src/train.py:training"
    (work / "change.patch").write_text(PATCH.format(file="parts.py"))
    with pytest.raises(UsageError) as refused:
        pair_of("src", "change.patch")
    assert refused.value.says == "src has 2 trainings: src/other.py:another, src/train.py:training"
    assert refused.value.hint == "name one: laptime verdict src/other.py:another change.patch"


def test_where_nothing_makes_a_training_it_is_the_script_that_the_patch_changes(work):
    (work / "src" / "train.py").write_text("import torch\n")
    assert pair_of("src", "change.patch") == ("src/train.py", "patch:change.patch:src/train.py")
    (work / "change.patch").write_text(PATCH.format(file="train.py") + PATCH.format(file="parts.py"))
    with pytest.raises(UsageError, match=r"has 2 scripts that the patch changes: src/parts.py, src/train.py"):
        pair_of("src", "change.patch")
    (work / "change.patch").write_text(PATCH.format(file="gone.py"))
    with pytest.raises(UsageError, match=r"change.patch changes no script in it"):
        pair_of("src", "change.patch")


def test_among_trainings_a_script_that_the_patch_changes_has_a_guard(work):
    (work / "src" / "other.py").write_text(TRAINING.format(name="another"))
    (work / "src" / "loop.py").write_text('if __name__ == "__main__":\n    print()\n')
    (work / "change.patch").write_text(PATCH.format(file="loop.py"))
    assert pair_of("src", "change.patch") == ("src/loop.py", "patch:change.patch:src/loop.py")


def test_in_a_repository_files_that_git_ignores_are_no_candidates(work):
    subprocess.run(["git", "init", "-q", "."], cwd=work, check=True)
    (work / "src" / "old").mkdir()
    (work / "src" / "old" / "train.py").write_text(TRAINING.format(name="older"))
    (work / "change.patch").write_text(PATCH.format(file="src/parts.py"))
    with pytest.raises(UsageError, match=r"src/old/train.py:older, src/train.py:training"):
        pair_of("src", "change.patch")
    (work / ".gitignore").write_text("old/\n")
    assert pair_of("src", "change.patch")[0] == "src/train.py:training"


def test_a_patch_that_is_not_there_is_refused(work):
    with pytest.raises(UsageError, match=r"there is no patch gone.patch"):
        pair_of("src", "gone.patch")


def test_a_pipe_a_device_and_a_ring_of_links_in_a_folder_are_left_out(work):
    """A ring of links was a bug of laptime, with a traceback."""
    os.mkfifo(work / "src" / "pipe.py")
    (work / "src" / "zero.py").symlink_to("/dev/zero")
    (work / "src" / "ring.py").symlink_to("ring.py")
    (work / "change.patch").write_text(PATCH.format(file="ring.py") + PATCH.format(file="train.py"))
    (work / "src" / "other.py").write_text(TRAINING.format(name="another"))
    assert pair_of("src", "change.patch")[0] == "src/train.py:training"


@pytest.mark.parametrize("kind", ["pipe", "device"])
def test_a_patch_that_is_no_regular_file_is_refused_at_once(work, kind):
    """A pipe was waited for without end, and a link to /dev/zero filled the memory."""
    (work / "change.patch").unlink()
    make = {"pipe": os.mkfifo, "device": lambda place: place.symlink_to("/dev/zero")}
    make[kind](work / "change.patch")
    with pytest.raises(UsageError) as refused:
        pair_of("src", "change.patch")
    assert refused.value.says == "the patch change.patch cannot be read: it is not a regular file"


def test_a_null_byte_in_the_name_of_a_file_names_none(work):
    (work / "change.patch").write_text(PATCH.format(file="train\0.py"))
    assert pair_of("src", "change.patch")[0] == "src/train.py:training"
