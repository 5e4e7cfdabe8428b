"""Lanes with one thing taken out of a step, by the command that users type: timed where they can be, else in words."""

from __future__ import annotations

from pathlib import Path

import pytest

CHANCES = Path(__file__).parents[1] / "backends" / "own_chances.py"
SHORT = ("--heats", "1", "--budget", "2s")
STAGES = '["fake/*"]\nloader_ms = 30.0\ncopy_ms = 2.0\ncompute_ms = 8.0\n'


def words_of(answer):
    return " ".join((answer.out + answer.err).split())


def test_each_stage_alone_is_a_lane(house):
    """On the virtual clock their figures are exact; one that trains nothing is not proven."""
    house.script(STAGES)
    kinds = ("published", "cached", "resident", "one", "copy", "only")
    record = house.raced("cifar-cnn", *(f"fake/cuda/input={kind}" for kind in kinds), "--heats", "1")
    assert [lane["step_ms"]["median"] for lane in record["lanes"]] == pytest.approx([40.0, 10.0, 8.0, 8.0, 2.0, 30.0])
    unproven = [lane["parity"]["reason"] for lane in record["lanes"] if lane["parity"]["status"] == "unproven"]
    assert unproven == ["input=copy trains nothing", "input=only trains nothing"]


def test_a_word_gains_what_the_script_says(house):
    """By the items of its own batch."""
    house.script(STAGES + 'gains = { "denormals=flush" = 4.0, "batch=4x" = { loader = 2.0 } }\n')
    lanes = ("fake/cpu", "fake/cpu/denormals=flush", "fake/cpu/batch=4x", "fake/cpu/batch=0.5x")
    record = house.raced("cifar-cnn", *lanes, "--heats", "1")
    assert [lane["step_ms"]["median"] for lane in record["lanes"]] == pytest.approx([40.0, 34.0, 100.0, 20.0])
    assert [lane["items_per_step"] for lane in record["lanes"]] == [100, 100, 400, 50]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("fake/cpu/input=copy",), "input=copy: on a processor batches are where they are used, and nothing is copied"),
        (("fake/cpu", "fake/cpu/input=copy"), "leave the lane out, or name input=only: the loader alone"),
        (("fake/cuda/input=copy", "--full"), "laptime train: fake/cuda:0/input=copy trains nothing, it only copies"),
        (("fake/cuda/input=copy", "--infer"), "laptime infer: fake/cuda:0/input=copy only copies, and answers nothing"),
        (("fake/cuda/reads=deferred", "--full"), "laptime train: fake/cuda:0/reads=deferred reads old values"),
        (("fake/cuda/reads=deferred", "--infer"), "laptime infer: fake/cuda:0/reads=deferred defers what a step reads"),
        (("fake/cuda/denormals=flush",), "denormals=flush is a switch of processors, and fake/cuda:0 is none"),
    ],
)
def test_what_means_nothing_is_refused(house, words, says):
    """Before anything runs."""
    assert says in words_of(house.done("race", "cifar-cnn", *words, code=2))


@pytest.mark.long
def test_a_training_of_ones_own_is_raced_in_all_its_ways(house):
    """Each lane finishes, and those that train do the same work; a joined batch has more items.

    Its batches are shuffled, and changed by numbers that the system draws: all lanes read those that were kept, and
    at the end there are none left. Its loss reads values; where they are deferred, it is said that they are stale.
    """
    settings = ("input=one+denormals=flush", "workers=1+input=only", "batch=2x+workers=2+reads=deferred")
    house.fake, house.longest_s = "", 400
    function = f"{CHANCES}:turned_by_the_system_and_read"
    record = house.raced(function, *(f"torch/cpu/{each}" for each in settings), *SHORT)
    assert [lane["status"] for lane in record["lanes"]] == ["ok"] * len(settings), record["lanes"]
    proven = [lane["parity"]["status"] for lane in record["lanes"]]
    assert proven == ["same", "unproven", "same"]
    assert [lane["items_per_step"] for lane in record["lanes"]] == [8, 8, 16]
    assert list(house.cache.rglob("*.tmp")) == []
    *others, deferred = (" ".join(lane["notes"]) for lane in record["lanes"])
    assert "values of earlier steps" in deferred
    assert not any("values of earlier steps" in each for each in others)
