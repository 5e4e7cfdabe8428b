"""A checkpoint comes back as it was written, or says why it cannot; none of it is code."""

from __future__ import annotations

import numpy as np
import pytest

from laptime.model.errors import LaneError, UsageError
from laptime.model.protocol import Evaluation, LapResult, Score
from laptime.model.quantities import Missing
from laptime.store.checkpoint import Checkpoint, count_laps, read_checkpoint, write_checkpoint

IDENTITY = {"workload": "cifar-cnn", "lane": "torch/cpu/as-written", "seed": 7, "steps a lap": 5}
LAPS = (
    LapResult(1, 5, 0.1 + 0.2, Score(500, 2.3, 0.1), fresh=True, validation=Evaluation(Score(10, 1 / 3, 0.5), 1.5)),
    LapResult(2, 5, 0.25, Score(500, 1.1, Missing("no classes")), checkpoint_s=0.01),
)
STATE = {
    "network": {"0.weight": np.arange(6, dtype=np.float32).reshape(2, 3), "steps": np.array(3)},
    "optimizer": {"state": {0: {"step": np.float32([1.0])[0:1]}}, "groups": [{"betas": (0.9, 0.999), "foreach": None}]},
    "scaler": None,
    "random": {"cpu": np.arange(5_056, dtype=np.uint8)},
}


@pytest.fixture
def place(tmp_path):
    path = tmp_path / "deep" / "lane.npz"
    write_checkpoint(path, Checkpoint(IDENTITY, LAPS, STATE))
    return path


def test_it_comes_back_as_it_was(place):
    """Laps to the last digit, arrays with their types and shapes, numbers as keys, tuples as tuples."""
    held = read_checkpoint(place, IDENTITY)
    assert held.laps == LAPS
    assert held.state["optimizer"]["groups"] == [{"betas": (0.9, 0.999), "foreach": None}]
    assert held.state["scaler"] is None
    assert list(held.state["optimizer"]["state"]) == [0]
    for part, name in (("network", "0.weight"), ("network", "steps"), ("random", "cpu")):
        written, read = STATE[part][name], held.state[part][name]
        assert (written.dtype, written.shape) == (read.dtype, read.shape)
        assert (written == read).all()


def test_nothing_is_left_beside_it(place):
    """The temporary file has become the file."""
    assert [each.name for each in place.parent.iterdir()] == ["lane.npz"]


def test_a_later_one_takes_its_place(place):
    """One file a training: the last lap's."""
    write_checkpoint(place, Checkpoint(IDENTITY, LAPS[:1], {}))
    assert read_checkpoint(place, IDENTITY).laps == LAPS[:1]


def test_a_write_that_fails_leaves_the_old_one(place, monkeypatch):
    """A disk that is full halfway through costs no lap that was kept."""

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(np, "savez", full)
    with pytest.raises(OSError, match="No space left"):
        write_checkpoint(place, Checkpoint(IDENTITY, (), {}))
    monkeypatch.undo()
    assert read_checkpoint(place, IDENTITY).laps == LAPS
    assert [each.name for each in place.parent.iterdir()] == ["lane.npz"]


def test_it_holds_no_pickle(place):
    """Plain arrays only: reading it runs no code."""
    with np.load(place, allow_pickle=False) as stored:
        assert all(stored[name].dtype.kind in "fiub" for name in stored.files)


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[: len(data) // 2],
        lambda data: b"nonsense" * 100,
        lambda data: data[:300] + bytes([data[300] ^ 1]) + data[301:],
    ],
    ids=["empty", "half", "nonsense", "one bit"],
)
def test_a_damaged_one_is_refused_with_the_way_out(place, spoil):
    """The error names the file and says what to do."""
    place.write_bytes(spoil(place.read_bytes()))
    with pytest.raises(LaneError, match=r"lane\.npz cannot be read") as caught:
        read_checkpoint(place, IDENTITY)
    assert caught.value.hint == "delete it; `laptime resume ID --again` then trains from lap 1"
    with pytest.raises(LaneError, match=r"lane\.npz cannot be read"):
        count_laps(place)


def test_its_laps_are_counted_without_its_arrays(place):
    """All of the file is checked on the way."""
    assert count_laps(place) == len(LAPS)


def test_a_pickle_in_its_place_is_refused(tmp_path):
    """An array of objects is not opened."""
    path = tmp_path / "lane.npz"
    np.savez(path, np.array([{"a": 1}], dtype=object))
    with pytest.raises(LaneError, match="cannot be read"):
        read_checkpoint(path, IDENTITY)


@pytest.mark.parametrize(
    ("key", "value"), [("lane", "torch/cpu/best"), ("seed", 8), ("steps a lap", 6), ("workload", "cifar-mlp")]
)
def test_that_of_another_training_is_refused(place, key, value):
    """A curve that is two trainings' is none."""
    with pytest.raises(LaneError, match=f"is of another training: {key} .*, expected {value}"):
        read_checkpoint(place, {**IDENTITY, key: value})


@pytest.mark.parametrize("read", [count_laps, lambda path: read_checkpoint(path, IDENTITY)])
def test_that_of_a_newer_laptime_is_refused(place, read):
    """What it holds may mean something else; it is not damaged, and the message does not ask to delete it."""
    with np.load(place) as stored:
        arrays = {name: stored[name] for name in stored.files}
    page = arrays["arr_0"].tobytes().replace(b'"version":1', b'"version":9').replace(b'"laps"', b'"rounds"')
    np.savez(place, **{**arrays, "arr_0": np.frombuffer(page, np.uint8)})
    with pytest.raises(UsageError, match="has version 9, this laptime reads 1") as caught:
        read(place)
    assert "upgrade" in caught.value.hint


def test_a_state_that_no_array_can_hold_is_refused(tmp_path):
    """Better said when it is written than found out when it is needed."""
    with pytest.raises(LaneError, match="holds set, which a checkpoint cannot"):
        write_checkpoint(tmp_path / "lane.npz", Checkpoint(IDENTITY, (), {"a": {1, 2}}))
