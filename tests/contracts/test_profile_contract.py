"""One suite for every back end: what its profiler reports of a known network, and what it leaves behind."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

import pytest
from rooms_here import HERE

from laptime.engine import wire
from laptime.engine.backends import open_backend
from laptime.engine.heat import profile as profiling
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.symptoms import ProfileOrder
from laptime.model.workload import ProofPlan
from laptime.trainings.workloads import find_workload

WORKLOAD = "cifar-cnn"
BATCH = 8  # that of the learner contract: an engine that keeps what it compiled compiles it once
HEAVY = ("conv", "dot", "mm", "matmul", "product")  # how frameworks call convolutions and products
CONVOLUTIONS = 6  # of the network
XLA = ("keras-tf", "keras-jax")


class Listener:
    def __init__(self) -> None:
        self.said: list[wire.FromChild] = []

    def say(self, message: wire.FromChild) -> None:
        self.said.append(message)

    def listen(self) -> wire.FromParent:
        raise AssertionError("nothing is asked in a profile")


@pytest.fixture(scope="module", params=HERE)
def framework(request):
    return request.param


@pytest.fixture(scope="module", autouse=True)
def brief():
    """Warm up and time plain steps for a moment: how exact the figures are is the machine's affair."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(profiling, "PROFILE_WARM_S", 0.1)
        patched.setattr(profiling, "PLAIN_WINDOW_S", 0.02)
        yield


@pytest.fixture(scope="module")
def profile(framework, tmp_path_factory):
    """Profile a small batch of cifar-cnn once: six convolutions are most of its step, wherever it runs."""
    folder = tmp_path_factory.mktemp("profile")
    workload, backend = find_workload(WORKLOAD), open_backend(framework)
    cpu = next(device for device in backend.devices() if device.name == "cpu")
    lane = PlannedLane(f"{framework}/cpu/batch={BATCH}", framework, cpu, Settings(batch=BATCH))
    subject = Subject(WORKLOAD, "", workload.parameters, workload.batch, workload.steps_per_lap, 10, "images")
    heat = HeatOrder(subject, lane, 0, ProofPlan(steps=3, batch=2), Pace(1, 1, False, 1.0, 0.1), 0)
    line = Listener()
    profiling.run_profile(backend, ProfileOrder(heat, str(folder / "trace.json.gz"), str(folder), 5, 0.5), line)
    told = [message.profile for message in line.said if isinstance(message, wire.Profiled)]
    return told[-1]


def test_the_sum_of_operators_is_within_reason_of_the_step(profile):
    """Where one thread reports all, they cannot take more than the step; XLA's threads each report their own."""
    own_ms = sum(each.own_ms for each in profile.operators if each.where == "processor")
    assert 0.5 * profile.profiled_ms < own_ms < 1.05 * profile.profiled_ms * (os.cpu_count() or 1)
    assert all(each.own_ms >= 0 and each.calls >= 0 for each in profile.operators)


def test_heavy_operators_are_named_counted_and_lead_the_list(framework, profile):
    """How many milliseconds an operator takes is the machine's affair, busy as it is here; that it is seen is not."""
    heavy = [each for each in profile.operators if any(word in each.name.lower() for word in HEAVY)]
    calls = 2 if framework == "fake" else 2 * CONVOLUTIONS  # forwards and backwards
    assert sum(each.calls for each in heavy if each.own_ms > 0) >= calls
    assert any(each in heavy for each in profile.operators[:8])
    assert [each.own_ms for each in profile.operators] == sorted(
        (each.own_ms for each in profile.operators), reverse=True
    )


def test_the_profilers_cost_is_measured(profile):
    """A step with it and a step without were timed; how they compare is the machine's affair, busy as it is here."""
    assert profile.steps >= 3
    assert profile.plain_ms > 0
    assert profile.profiled_ms > 0
    assert profile.cost == pytest.approx(profile.profiled_ms / profile.plain_ms)


def test_memory_is_told_where_it_can_be(framework, profile):
    """XLA takes memory for a whole step at once, and no operator asks for any."""
    told = [each.memory_bytes for each in profile.operators]
    if framework in XLA:
        assert all(isinstance(each, Missing) and each.missing for each in told)
    else:
        assert max(each for each in told if not isinstance(each, Missing)) > 100_000


def test_a_processors_lane_has_no_device_beside_it(profile):
    for each in (profile.device_busy, profile.device_ms, profile.kernels, profile.kernel_mean_us):
        assert isinstance(each, Missing)
        assert "processor" in each.missing


def test_the_trace_opens(profile):
    """Packed JSON of Chrome's, with events that have a time and a length, those of heavy operators among them."""
    events = json.loads(gzip.decompress(Path(profile.trace).read_bytes()))["traceEvents"]
    timed = [each for each in events if each.get("ph") == "X"]
    assert len(timed) > 10
    assert all(each["dur"] >= 0 for each in timed)
    assert any(any(word in str(each).lower() for word in HEAVY) for each in timed)


def test_work_is_counted_or_said_not_to_be(framework, profile):
    if framework in {"torch", "fake"}:
        assert profile.work.flops > 0
        assert profile.work.bytes > 0
        assert profile.work.how
    else:
        assert profile.work is None
        assert profile.absent["work"].missing
