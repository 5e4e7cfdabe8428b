"""Steps of your own in any framework, by the command that users type; the examples that the README names."""

from __future__ import annotations

from importlib import util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"
LOOP = f"{EXAMPLES / 'torch_loop.py'}:training"
NUMPY = f"{EXAMPLES / 'numpy_training.py'}:training"
FAULTS = Path(__file__).with_name("own_faults.py")
SHORT = ("--heats", "1", "--budget", "1s")
JAX = ("jax/cpu",) * bool(util.find_spec("jax"))


def words_of(answer):
    return " ".join((answer.out + answer.err).split())


@pytest.mark.parametrize(
    ("example", "lanes", "versions"),
    [
        pytest.param(
            "numpy_training.py", ("python/cpu", "python/cpu/best", *JAX), ["python", "numpy"], marks=pytest.mark.long
        ),
        ("torch_loop.py", ("python/cpu", "torch/cpu/best"), ["python", "numpy", "torch"]),
    ],
)
def test_an_example_is_raced_and_proven(torch_house, example, lanes, versions):
    """With each step's time, since a processor is done when a step returns.

    Lanes of two kinds are held against each other: what NumPy has done in one, JAX has in the other, from one file.
    """
    record = torch_house.raced(f"{EXAMPLES / example}:training", *lanes, *SHORT)
    assert record["exit code"] == 0
    assert {(lane["status"], lane["parity"]["status"]) for lane in record["lanes"]} == {("ok", "same")}
    assert {lane["items_per_step"] for lane in record["lanes"]} == {128}
    assert list(record["lanes"][0]["framework"]) == versions
    window = record["lanes"][0]["heats"][0]["heat"]["windows"][0]
    assert len(window["step_ns"]) == window["steps"]


def test_a_planted_difference_is_told(torch_house):
    """The same function, whose rate is a tenth more in the second lane."""
    record = torch_house.raced(f"{FAULTS}:other_rate", "python/cpu", "python/cpu/threads=1", *SHORT)
    assert record["exit code"] == 4
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same", "differs"]


@pytest.mark.parametrize(
    ("function", "phase", "reason", "sound_lanes"),
    [
        ("raises_at_batch_3", "proof", ", in lap: OSError: batch 3 cannot be read", ()),
        ("ends_early", "timing", "data gave no batch in lap 2, after 1 that had some", ()),
        ("asks_too_much", "build", "out of memory: Unable to allocate 64.0 PiB", ()),
        pytest.param("hangs", "proof", "no message for 3 s; stopped", ("python/cpu",), marks=pytest.mark.long),
    ],
)
def test_data_that_fail_are_that_lanes_failure(torch_house, function, phase, reason, sound_lanes):
    """With the reason and the phase; a lane next to it finishes and is proven."""
    lanes = ("python/cpu/threads=1", *sound_lanes)
    record = torch_house.raced(f"{FAULTS}:{function}", *lanes, *SHORT, "--patience", "3s")
    faulty, *others = record["lanes"]
    assert (record["exit code"], faulty["status"]) == (3, "dnf")
    assert faulty["heats"][0]["heat"]["process"]["dnf"]["phase"] == phase
    assert reason in faulty["reason"]
    assert [(sound["status"], sound["parity"]["status"]) for sound in others] == [("ok", "same")] * len(sound_lanes)


@pytest.mark.long
def test_data_without_an_end_have_no_lap_and_are_raced(torch_house):
    """Kept batches are as many as fit a while."""
    lanes = ("python/cpu/threads=1", "python/cpu/threads=1+input=cached")
    record = torch_house.raced(f"{FAULTS}:never_ends", *lanes, *SHORT)
    assert [each["pairs"] for each in record["answer"]["comparisons"]] == [1]
    assert [(lane["status"], lane["parity"]["status"]) for lane in record["lanes"]] == [("ok", "same")] * 2


def test_code_that_fails_is_told_once_by_its_place_and_is_told_its_device(torch_house):
    """Both lanes would fail in the same way: the race ends before the first of them, and keeps no record."""
    before = torch_house.files()
    lanes = ("python/cpu", "python/cpu/input=cached")
    done = torch_house.done("race", f"{FAULTS}:where_it_is", *lanes, *SHORT, "--quiet", code=3)
    said, source = done.err.splitlines()
    assert said.startswith("laptime: own_faults.py, line ")
    assert said.endswith(", in where_it_is: ValueError: LAPTIME_DEVICE is cpu")
    assert source.endswith(""" | raise ValueError(f"LAPTIME_DEVICE is {os.environ.get('LAPTIME_DEVICE')}")""")
    assert (done.out, torch_house.files()) == ("", before)


def test_a_card_that_is_not_there_is_refused(torch_house):
    """Nobody's framework is asked for it."""
    if list(Path("/dev").glob("nvidia[0-9]*")):
        pytest.skip("there is a card here")
    done = torch_house.done("race", NUMPY, "python/cuda", code=2)
    assert "device cuda is not there for python: there is no NVIDIA card here" in words_of(done)


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("cifar-mlp", "python/cpu"), "python: cifar-mlp is raced in a framework; its lanes run steps of your own"),
        ((NUMPY, "python/cpu/input=resident"), "laptime cannot place the batches of a framework that it does not know"),
        ((NUMPY, "python/cpu/input=copy"), "input=copy: on a processor batches are where they are used"),
        ((NUMPY, "python/cpu/bf16"), "bf16: a step of your own has the precision that its code gives it"),
        (
            (NUMPY, "python/cpu", "--full", "--laps", "1"),
            "laptime train: python/cpu/as-written is of a step function, which",
        ),
        ((NUMPY, "python/cpu", "--infer"), "laptime infer: python/cpu/as-written takes steps of your own"),
        pytest.param(
            (NUMPY, "jax/cpu", "--full", "--laps", "1"),
            "laptime train: jax/cpu/as-written is of a step function, which is",
            marks=pytest.mark.long,
        ),
        ((LOOP, "torch/cpu/bf16"), "bf16: a step of your own has the precision that its code gives it"),
        pytest.param(
            (LOOP, "torch/cpu", "--infer"),
            "laptime infer: torch/cpu/as-written takes steps of your own",
            marks=pytest.mark.long,
        ),
    ],
)
def test_what_a_plain_step_cannot_be_asked_for_is_refused(torch_house, words, says):
    """Before anything runs."""
    if "jax/cpu" in words:
        pytest.importorskip("jax", reason="there is no JAX here")
    assert says in words_of(torch_house.done("race", *words, code=2))


@pytest.mark.long
def test_a_file_that_gives_a_step_is_planned_for_it(torch_house):
    """Where no lane is named: in PyTorch, if it imports that. Its best says what is left to its code."""
    for example, framework in (("numpy_training.py", "python"), ("torch_loop.py", "torch")):
        rows = torch_house.done("race", f"{EXAMPLES / example}:training", "--dry-run", "--json").json["lanes"]
        assert [row["name"] for row in rows] == [f"{framework}/cpu/as-written", f"{framework}/cpu/best"]
    note = rows[1]["notes"][0]
    assert note.startswith("best of a step of your own sets threads, memory and input; layout, optimizer and comp")
    assert (rows[1]["settings"]["layout"], rows[1]["settings"]["optimizer"]) == ("framework", "framework")
