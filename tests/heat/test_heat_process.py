"""The child as a process: it says hello, obeys one order, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from dataclasses import replace

import pytest

from laptime.engine import wire
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.workload import ProofPlan

CPU = Device("cpu", "cpu", "fake processor", usable=True)
LANE = PlannedLane("fake/cpu/as-written", "fake", CPU, Settings())
SUBJECT = Subject("cifar-cnn", "", 1_337_002, 100, 500, 10, "images")
ORDER = HeatOrder(SUBJECT, LANE, 0, ProofPlan(steps=4), Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.2), 0)
PATIENCE_S = 20.0


class Talk:
    """A child and the two ends of its pipes, as the parent holds them."""

    def __init__(self, folder) -> None:
        to_child, self.write_fd = os.pipe()
        read_fd, from_child = os.pipe()
        self.stderr = folder / "stderr.txt"
        with self.stderr.open("wb") as noise:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "laptime.engine.heat", str(to_child), str(from_child)],
                pass_fds=(to_child, from_child),
                start_new_session=True,
                stdin=subprocess.DEVNULL,
                stdout=noise,
                stderr=noise,
                env={
                    **os.environ,
                    "LAPTIME_FAKE": str(folder / "fake.toml") if folder.joinpath("fake.toml").exists() else "1",
                },
            )
        os.close(to_child)
        os.close(from_child)
        self._lines = os.fdopen(read_fd, "rb")

    def say(self, message: wire.FromParent) -> None:
        os.write(self.write_fd, wire.write(message))

    def hear(self) -> wire.FromChild:
        return wire.read_from_child(self._lines.readline())

    def hear_phase(self, name: str) -> None:
        while not (isinstance(message := self.hear(), wire.Phase) and message.name == name):
            pass

    def hear_all(self) -> list[wire.FromChild]:
        return [wire.read_from_child(line) for line in self._lines]

    def hang_up(self) -> None:
        """Close the pipe, as the system does for a parent that was killed."""
        if self.write_fd >= 0:
            os.close(self.write_fd)
        self.write_fd = -1

    def end(self) -> None:
        self.hang_up()
        self._lines.close()
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()


@pytest.fixture
def child(tmp_path):
    """Start a child without any order yet."""
    talk = Talk(tmp_path)
    yield talk
    talk.end()


def test_the_child_speaks_first(child):
    """It gives its version and its process number before it was asked anything."""
    assert wire.Hello(wire.WIRE_VERSION, child.process.pid) == child.hear()


def test_a_scout_says_what_a_framework_sees(child):
    """Its version and its devices, usable or not."""
    child.say(wire.Look("fake"))
    seen = child.hear_all()[-1]
    assert seen.versions == {"fake": "1"}
    assert [(each.name, each.usable) for each in seen.devices] == [("cpu", True), ("cuda:0", True), ("cuda:1", False)]
    assert child.process.wait(PATIENCE_S) == 0


def test_a_reference_is_the_same_work_in_float64(child):
    """One exact run, and a float32 twin next to it."""
    child.say(wire.Refer(ORDER))
    reference = child.hear_all()[-1].reference
    assert (reference.exact.precision, reference.twin.precision) == ("fp64", "fp32")
    assert len(reference.exact.losses) == 4


def test_a_heat_is_run_to_its_end(child):
    """The last word of a finished heat is how much memory it held."""
    child.say(wire.Run(ORDER))
    while not isinstance(child.hear(), wire.Ready):
        pass
    child.say(wire.Enough())
    phase, finished = child.hear_all()
    assert phase.name == "end"
    assert finished.peak_memory_bytes > 1_000_000
    assert child.process.wait(PATIENCE_S) == 0


@pytest.mark.parametrize(
    ("message", "reason", "kind"),
    [
        (wire.Look("nonsense"), "no back end for 'nonsense'; there are: torch, jax", "LaneError"),
        (wire.Enough(), "expected an order, heard Enough", "WireError"),
        (
            wire.Run(replace(ORDER, subject=replace(SUBJECT, name="nonsense"))),
            "unknown workload 'nonsense'",
            "UsageError",
        ),
    ],
)
def test_an_order_that_cannot_be_obeyed_fails_in_words(child, message, reason, kind):
    """The child says what was wrong with it, and ends with 1."""
    child.say(message)
    failed = child.hear_all()[-1]
    assert failed.reason.startswith(reason)
    assert failed.kind == kind
    assert child.process.wait(PATIENCE_S) == 1
    assert child.stderr.read_text() == ""


def test_a_child_without_an_order_ends_with_its_parent(child):
    """When the pipe is closed there is nobody left to work for."""
    child.hear()
    child.hang_up()
    assert child.process.wait(PATIENCE_S) == -signal.SIGKILL


def test_a_child_that_hangs_ends_with_its_parent_all_the_same(tmp_path):
    """Whatever the training is doing: the thread that listens is another one."""
    (tmp_path / "fake.toml").write_text('["fake/*"]\nfail = { how = "hang", phase = "build" }\n')
    child = Talk(tmp_path)
    try:
        child.say(wire.Run(ORDER))
        child.hear_phase("build")
        began_s = time.monotonic()
        child.hang_up()
        assert child.process.wait(PATIENCE_S) == -signal.SIGKILL
        assert time.monotonic() - began_s < 20.0
    finally:
        child.end()
