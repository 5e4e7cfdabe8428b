"""Checkpoints have places of their own, one process at a time is at work on them, and nothing is left behind."""

from __future__ import annotations

import subprocess
import sys

import pytest

from laptime.errors import StoreError, UsageError
from laptime.store import checkpoints


@pytest.fixture(autouse=True)
def home(tmp_path, monkeypatch):
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


def test_every_training_has_a_place_of_its_own(home):
    """By record, lane and seed; names that look alike as files do not meet."""
    given = [("r-1", "torch/cpu", 0), ("r-2", "torch/cpu", 0), ("r-1", "torch-cpu", 0), ("r-1", "torch/cpu", 1)]
    places = [checkpoints.path_of(*each) for each in given]
    assert len(set(places)) == 4
    assert all(place.is_relative_to(home / "checkpoints") and place.suffix == ".npz" for place in places)
    assert checkpoints.path_of("r-1", "torch/cuda:0/" + "x" * 300, 0).name.isascii()


def test_a_finished_training_leaves_nothing_behind(home):
    """Neither its checkpoint nor the folder."""
    with checkpoints.claim("r-1"):
        place = checkpoints.path_of("r-1", "torch/cpu", 0)
        place.write_bytes(b"x")
        checkpoints.drop(place)
        checkpoints.drop(place)
    assert list((home / "checkpoints").iterdir()) == []


def test_what_is_not_finished_stays(home):
    """It is where the training goes on."""
    place = checkpoints.path_of("r-1", "torch/cpu", 0)
    with checkpoints.claim("r-1"):
        place.write_bytes(b"x")
    assert place.read_bytes() == b"x"


def test_one_process_at_a_time(home):
    """Another is refused in words; once it is free, it may."""
    program = "from laptime.store.checkpoints import claim\nwith claim('r-1'):\n    print('mine')"
    with checkpoints.claim("r-1"):
        refused = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
        with pytest.raises(UsageError, match="r-1 is being trained by another process"), checkpoints.claim("r-1"):
            pass
    assert "is being trained by another process" in refused.stderr
    assert (
        subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout == "mine\n"
    )


def test_a_folder_that_cannot_be_made_is_said_before_anything_runs(tmp_path, monkeypatch):
    """A file stands in its place."""
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "file"))
    with pytest.raises(StoreError, match="no checkpoint can be kept in"), checkpoints.claim("r-1"):
        pass
