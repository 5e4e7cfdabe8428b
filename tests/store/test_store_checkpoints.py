"""Checkpoints have places of their own, one process at a time is at work on them, and nothing is left behind."""

from __future__ import annotations

import errno
import fcntl
import json
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from laptime.model.errors import StoreError, UsageError
from laptime.store import references


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_every_training_has_a_place_of_its_own(home):
    """By record, lane and seed; names that look alike as files do not meet."""
    given = [("r-1", "torch/cpu", 0), ("r-2", "torch/cpu", 0), ("r-1", "torch-cpu", 0), ("r-1", "torch/cpu", 1)]
    places = [references.path_of(*each) for each in given]
    assert len(set(places)) == 4
    assert all(place.is_relative_to(home / "checkpoints") and place.suffix == ".npz" for place in places)
    assert references.path_of("r-1", "torch/cuda:0/" + "x" * 300, 0).name.isascii()


def test_a_finished_training_leaves_nothing_behind(home):
    """Neither its checkpoint nor the folder."""
    with references.claim("r-1"):
        place = references.path_of("r-1", "torch/cpu", 0)
        place.write_bytes(b"x")
        references.drop(place)
        references.drop(place)
    assert list((home / "checkpoints").iterdir()) == []


def test_what_is_not_finished_stays(home):
    """It is where the training goes on."""
    place = references.path_of("r-1", "torch/cpu", 0)
    with references.claim("r-1"):
        place.write_bytes(b"x")
    assert place.read_bytes() == b"x"


def test_one_process_at_a_time(home):
    """Another is refused in words; once it is free, it may."""
    program = "from laptime.store.references import claim\nwith claim('r-1'):\n    print('mine')"
    with references.claim("r-1"):
        refused = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        with pytest.raises(UsageError, match="r-1 is being trained by another process"), references.claim("r-1"):
            pass
    assert "is being trained by another process" in refused.stderr
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "mine\n"
    )


def test_a_folder_that_cannot_be_made_is_said_before_anything_runs(tmp_path, monkeypatch):
    """A file is in its place."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="no checkpoint can be kept in"), references.claim("r-1"):
        pass


def lock_of(home):
    return home / "checkpoints" / "r-1" / "lock"


def test_a_lock_that_was_removed_while_it_was_waited_for_is_none(home, monkeypatch):
    """Who opened the file just before its owner removed it takes the one that others will open."""
    removed = []

    def flock(descriptor, how):
        if not removed:
            removed.append(lock_of(home).unlink())
            lock_of(home).parent.rmdir()
        return real(descriptor, how)

    real = fcntl.flock
    monkeypatch.setattr(fcntl, "flock", flock)
    with references.claim("r-1"):
        assert lock_of(home).exists()
        with pytest.raises(UsageError, match="by another process"), references.claim("r-1"):
            pass
    assert removed


@pytest.mark.parametrize("has_locks", [True, False])
def test_never_two_at_once(home, monkeypatch, has_locks):
    """Four at it again and again, each removing the empty folder: no two are ever inside together."""
    if not has_locks:
        monkeypatch.setattr(fcntl, "flock", without_locks)
    inside, met, entered = [], [], []
    deadline = time.monotonic() + 60

    def claim_often(number):
        while entered.count(number) < 50 and time.monotonic() < deadline:
            try:
                with references.claim("r-1"):
                    inside.append(number)
                    met.extend(each for each in inside if each != number)
                    entered.append(number)
                    inside.remove(number)
            except UsageError:
                continue

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(claim_often, range(4)))
    assert met == []
    assert [entered.count(number) for number in range(4)] == [50] * 4
    assert list((home / "checkpoints").iterdir()) == []


def without_locks(_descriptor, _how):
    raise OSError(errno.ENOLCK, "No locks available")


@pytest.fixture
def no_locks(monkeypatch):
    monkeypatch.setattr(fcntl, "flock", without_locks)


def test_without_locks_an_owner_that_lives_keeps_others_out(home, no_locks):
    """Its file names it; the way out names the file. Nothing is left behind."""
    with references.claim("r-1"):
        owner = home / "checkpoints" / "r-1" / "owner"
        assert json.loads(owner.read_text())["pid"] == os.getpid()
        with pytest.raises(UsageError, match="by another process") as caught, references.claim("r-1"):
            pass
        assert f"if it is gone, delete {owner}" in caught.value.hint
    assert list((home / "checkpoints").iterdir()) == []


@pytest.mark.parametrize(
    ("changes", "may_live"),
    [
        ({"pid": 2**22 + 1}, False),
        ({"began": "1"}, False),
        ({"host": "elsewhere", "pid": 1}, True),
        ("", True),
        ("{", False),
    ],
)
def test_without_locks_an_owner_that_is_gone_is_replaced(home, no_locks, changes, may_live):
    """By its number, by its start where the number is another's by now; of another machine nobody knows."""
    owner = home / "checkpoints" / "r-1" / "owner"
    with references.claim("r-1"):
        told = json.loads(owner.read_text())
    owner.parent.mkdir(parents=True)
    owner.write_text(changes if isinstance(changes, str) else json.dumps({**told, **changes}))
    if may_live:
        with pytest.raises(UsageError, match="by another process"), references.claim("r-1"):
            pass
        os.utime(owner, (0, 0))
    if may_live and changes:
        owner.unlink()
    with references.claim("r-1"):
        assert json.loads(owner.read_text()) == told


def test_what_the_system_refuses_otherwise_is_said(monkeypatch):
    """A lock that cannot be had for another reason is no reason to go on without one."""

    def refuse(_descriptor, _how):
        raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr(fcntl, "flock", refuse)
    with pytest.raises(StoreError, match=r"kept in .*: Input/output error"), references.claim("r-1"):
        pass
