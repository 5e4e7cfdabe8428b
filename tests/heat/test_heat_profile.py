"""A lane's steps under a profiler, driven on the fake back end's virtual clock: how many, what they cost, the trace."""

from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest

from laptime.engine import wire
from laptime.engine.backends.fake import FakeBackend
from laptime.engine.heat.profile import run_profile
from laptime.model.hardware import StepWork
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.symptoms import Profile, ProfileOrder
from laptime.model.workload import ProofPlan

CPU = Device("cpu", "cpu", "fake processor", usable=True)
CARD = Device("cuda:0", "cuda", "fake accelerator", usable=True)
SUBJECT = Subject("cifar-cnn", "", 1_337_002, 100, 500, 10, "images")
PACE = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)


class Listener:
    """A line to nobody that writes down what was said."""

    def __init__(self) -> None:
        self.said: list[wire.FromChild] = []

    def say(self, message: wire.FromChild) -> None:
        self.said.append(message)

    def listen(self) -> wire.FromParent:
        raise AssertionError("nothing is asked in a profile")


@pytest.fixture
def run(tmp_path, monkeypatch):
    """Profile a fake lane; give all that was said."""

    def profiled(device: Device = CPU, script: str = "", trace: Path | None = None, **asked: float) -> list[object]:
        place = tmp_path / "fake.toml"
        place.write_text(script or '["fake/*"]\nspread = 0.0\n')
        monkeypatch.setenv("LAPTIME_FAKE", str(place))
        lane = PlannedLane(f"fake/{device.name}/as-written", "fake", device, Settings())
        heat = HeatOrder(SUBJECT, lane, 0, ProofPlan(steps=4), PACE)
        line = Listener()
        (tmp_path / "scratch").mkdir(exist_ok=True)
        order = ProfileOrder(heat, str(trace or tmp_path / "trace.json.gz"), str(tmp_path / "scratch"), **asked)
        run_profile(FakeBackend(), order, line)
        return line.said

    return profiled


def profile_of(said) -> Profile:
    last = [message for message in said if isinstance(message, wire.Profiled)][-1]
    assert last.profile is not None
    return last.profile


def test_the_profilers_cost_is_told(run):
    """100 ms a step without it, a quarter more under it."""
    profile = profile_of(run())
    assert (profile.plain_ms, profile.profiled_ms) == pytest.approx((100.0, 125.0))
    assert profile.cost == pytest.approx(1.25)


@pytest.mark.parametrize(
    ("expected", "step_ms", "asked"),
    [(20, 10, {}), (20, 100, {}), (3, 1000, {}), (4, 500, {}), (5, 100, {"steps": 5}), (10, 100, {"seconds": 1.0})],
)
def test_as_many_steps_are_profiled_as_take_two_seconds(run, expected, step_ms, asked):
    """Three at least, twenty at most, unless something else is asked for."""
    assert profile_of(run(script=f'["*"]\nstep_ms = {step_ms}\n', **asked)).steps == expected


def test_operators_are_those_of_one_step_and_add_up_to_it(run):
    """Heaviest first; one profiler's window of steps is reported as a step's mean."""
    profile = profile_of(run())
    assert [each.name for each in profile.operators] == ["fake::convolution", "fake::product", "fake::update"]
    assert sum(each.own_ms for each in profile.operators) == pytest.approx(profile.profiled_ms)
    assert profile.operators[0].memory_bytes == pytest.approx(4_000_000)
    assert isinstance(profile.device_busy, Missing)
    assert "processor" in profile.device_busy.missing


def test_a_card_has_kernels_beside_the_processors_operators(run):
    """Half of the time a kernel runs: 12.5 ms a step take 6.25 on the card."""
    profile = profile_of(run(CARD))
    assert profile.device_busy == pytest.approx(0.5)
    assert profile.device_ms == pytest.approx(6.25)
    assert profile.kernels == pytest.approx(3)
    assert profile.kernel_mean_us == pytest.approx(6250 / 3)
    assert {each.where for each in profile.operators} == {"processor", "device"}


def test_the_trace_is_packed_and_opens(run, tmp_path):
    """Chrome's events, written whole where they were ordered, and nothing else left next to them."""
    profile = profile_of(run())
    assert profile.trace == str(tmp_path / "trace.json.gz")
    told = json.loads(gzip.decompress(Path(profile.trace).read_bytes()))["traceEvents"]
    assert "kernel of fake::product" in {each["name"] for each in told}
    assert [each.name for each in tmp_path.glob(".*")] == []


def test_a_trace_that_cannot_be_written_costs_no_profile(run, tmp_path):
    (tmp_path / "a file").write_text("")
    profile = profile_of(run(trace=tmp_path / "a file" / "trace.json.gz"))
    assert isinstance(profile.trace, Missing)
    assert "could not be written" in profile.trace.missing
    assert profile.operators


def test_work_is_counted_after_the_profile_was_told(run):
    """What the counting ends cannot take the profile with it."""
    said = run()
    first, last = [message.profile for message in said if isinstance(message, wire.Profiled)]
    assert (first.work, list(first.absent)) == (None, ["work"])
    assert (type(last.work), last.absent) == (StepWork, {})


def test_a_failed_counting_is_absent_with_its_reason(run):
    profile = profile_of(run(script='["*"]\nfail = { how = "memory", phase = "work" }\n'))
    assert profile.work is None
    assert profile.absent["work"].missing == "counting ended in MemoryError: planted: 64 GiB asked, 24 GiB there"


def test_phases_are_told_in_order_and_nothing_is_proven(run):
    said = run()
    phases = [message.name for message in said if isinstance(message, wire.Phase)]
    assert phases == ["build", "first step", "warm-up", "profile", "work", "end"]
    assert not [message for message in said if isinstance(message, wire.Proved | wire.Closed)]
    (first,) = [message for message in said if isinstance(message, wire.FirstStep)]
    assert first.ns == 300_000_000
