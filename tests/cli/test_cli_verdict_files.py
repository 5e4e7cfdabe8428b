"""A candidate that changes the base's files, what a training may write next to itself, and copies that are lost."""

from __future__ import annotations

import ctypes
import shutil
import subprocess
import sys
from functools import cache

import pytest

from laptime.questions.copies import TREES

OWN = ("-c", "user.name=tests", "-c", "user.email=tests@localhost")
# One step is slow enough to be timed; both sides import it from a module next to them.
PARTS = """\
import numpy as np
KERNEL = 2 * np.eye(64, dtype=np.float32)
BATCHES = [np.full((32, 64), 1 + each, np.float32) for each in range(8)]

def step(kernel, rows):
    errors = rows @ kernel - rows
    return kernel - 1e-6 * (rows.T @ errors), float((errors**2).mean())
"""
TRAIN = """\
import laptime
from parts import BATCHES, KERNEL, step

def training():
    return laptime.Training(step=step, state=KERNEL, data=BATCHES)
"""
# Written when it is imported, and so before the base's next process imports it.
SLOWS = """
from pathlib import Path
SLEEP = "\\nimport time\\nreal = step\\ndef step(*given):\\n    time.sleep(0.002)\\n    return real(*given)\\n"
for place in {places}:
    if "SLEEP" not in place.read_text() and "time.sleep" not in place.read_text():
        place.chmod(0o600)
        place.write_text(place.read_text() + SLEEP)
"""
HERE, COPIES = '[Path(__file__).with_name("parts.py")]', 'Path(__file__).parents[1].glob("*/parts.py")'


@pytest.fixture
def work(torch_house, tmp_path, monkeypatch):
    """A repository with one training, and its module."""
    (tmp_path / "parts.py").write_text(PARTS)
    (tmp_path / "train.py").write_text(TRAIN)
    monkeypatch.chdir(tmp_path)
    git(tmp_path, "init", "-q")
    commit(tmp_path)
    monkeypatch.setattr(torch_house, "folder", tmp_path)
    return tmp_path


def commit(folder):
    git(folder, "add", "--all")
    git(folder, *OWN, "commit", "-qm", "work")


def git(folder, *words):
    subprocess.run(["git", *words], cwd=folder, check=True, capture_output=True)


def check_base(house, base, candidate):
    """See that a change of the base is refused, or found where no sandbox refuses it."""
    answer = house.run("verdict", base, candidate, "python/cpu", "--budget", "12s", "--json", "-q")
    if has_sandbox():
        assert answer.code == 3
        assert "UNDECIDED: it does not train: new.py" in answer.err or "train.py" in answer.err
        assert "a training can write temporary files alone" in answer.err
    else:
        assert answer.code == 1
        assert (answer.json["verdict"], answer.json["cheat"]) == ("DISCARD", "changed base")


@cache
def has_sandbox():
    """Whether this kernel has one."""
    if not sys.platform.startswith("linux"):
        return False
    return ctypes.CDLL(None).syscall(444, None, ctypes.c_size_t(0), 1) > 0  # landlock_create_ruleset, its version


def test_a_candidate_that_slows_the_bases_module_is_discarded_by_its_name(torch_house, work):
    (work / "new.py").write_text(TRAIN + SLOWS.format(places=HERE))
    check_base(torch_house, "train.py:training", "new.py:training")
    assert "SLEEP" not in (work / "parts.py").read_text() or not has_sandbox()


@pytest.mark.long
def test_a_candidate_that_slows_the_copy_of_the_bases_commit_is_discarded(torch_house, work):
    """The copy stayed so, and was used again by each later verdict on that commit."""
    (work / "train.py").write_text(TRAIN + SLOWS.format(places=COPIES))
    commit(work)
    check_base(torch_house, "git:HEAD~1:train.py:training", "git:HEAD")
    (work / "train.py").write_text(TRAIN + "# the same\n")
    commit(work)
    fields = torch_house.run(
        "verdict", "git:HEAD~2:train.py:training", "git:HEAD", "python/cpu", "--budget", "12s", "--json", "-q"
    ).json
    assert fields["verdict"] != "KEEP"
    assert fields["cheat"] is None
    assert list((torch_house.cache / TREES).iterdir()) == []


@pytest.mark.long
def test_a_training_that_keeps_a_cache_next_to_itself_is_not_accused(torch_house, work):
    writes = "\nfrom pathlib import Path\nPath(__file__).with_name('cache.bin').write_bytes(bytes(100))\n"
    (work / "train.py").write_text(TRAIN + writes)
    commit(work)
    (work / "train.py").write_text(TRAIN + writes + "# the same\n")
    commit(work)
    words = ("git:HEAD~1:train.py:training", "git:HEAD", "python/cpu", "--budget", "12s", "--json", "-q")
    fields = torch_house.run("verdict", *words).json
    assert fields.get("verdict", "UNDECIDED") != "KEEP"
    assert fields.get("cheat") is None, fields


@pytest.mark.long
def test_a_copy_that_is_lost_is_a_failure_of_laptime_and_no_verdict(torch_house, work):
    """It said DISCARD: the candidate could not be read any more."""
    process = torch_house.start(
        "verdict", "git:HEAD:train.py:training", "train.py:training", "python/cpu", "--budget", "30s", cwd=work
    )
    torch_house.read_until(process, "round 1")
    for copy in (torch_house.cache / TREES).iterdir():
        shutil.rmtree(copy)
    answer = torch_house.finish(process)
    assert answer.code == 70
    assert "the copy of git:HEAD:train.py:training is gone from " in answer.err
    assert "DISCARD" not in answer.out + answer.err


@pytest.mark.long
def test_no_copy_is_left_by_a_verdict_that_is_terminated(torch_house, work):
    words = ("verdict", "git:HEAD:train.py:training", "train.py:training", "python/cpu", "--budget", "60s")
    process = torch_house.start(*words, cwd=work)
    torch_house.read_until(process, "round 1")
    assert len(list((torch_house.cache / TREES).iterdir())) == 1
    process.terminate()
    assert torch_house.finish(process).code == 143
    assert list((torch_house.cache / TREES).iterdir()) == []
