"""One suite for the predictors of every back end: what the loop of inference relies on holds for each alike."""

from __future__ import annotations

from dataclasses import replace

import pytest
from rooms_here import HERE, INSTALLED, KERAS_ROOMS, STEP_ROOMS, TOGETHER

from laptime.engine.backends import open_backend
from laptime.engine.heat.inference import CALLS_LEAST, run_inference
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.protocol import INFER_BATCHES, InferOrder, InferPace
from laptime.model.workload import ProofPlan
from laptime.questions.infer.reduce import answer_distance, judge_answers
from laptime.trainings.workloads import find_workload

WORKLOAD = "cifar-cnn"
PACE = InferPace(1, 0.02, 0.004, 30.0, (1, 8), calls_min=5, windows_min=3)


class Listener:
    """Keeps all that a heat says."""

    def __init__(self):
        self.said = []

    def say(self, message):
        self.said.append(message)

    def listen(self):
        raise AssertionError("a heat of inference asks nothing")

    def of(self, name):
        return [each for each in self.said if type(each).__name__ == name]


@pytest.fixture(scope="module", params=HERE)
def backend(request):
    return open_backend(request.param)


@pytest.fixture(scope="module")
def order(backend):
    """Order cifar-cnn on the processor."""
    workload = find_workload(WORKLOAD)
    cpu = next(device for device in backend.devices() if device.name == "cpu")
    lane = PlannedLane(f"{backend.name}/cpu/as-written", backend.name, cpu, Settings())
    subject = Subject(WORKLOAD, "", workload.parameters, workload.batch, workload.steps_per_lap, 10, "images")
    pace = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)
    return HeatOrder(subject, lane, 0, ProofPlan(steps=2, batch=2), pace, 0)


@pytest.fixture(scope="module")
def reference(backend, order):
    return backend.predict(order).reference()


@pytest.fixture(scope="module")
def heard(backend, order):
    """Run one short heat."""
    line = Listener()
    run_inference(backend, InferOrder(order, PACE), line)
    return line


def test_every_room_is_tested_or_not_installed():
    """A new back end is held to this contract by being listed among the rooms."""
    assert sorted(INSTALLED) == sorted([*TOGETHER, *KERAS_ROOMS, *STEP_ROOMS])


def test_it_has_the_parameters_of_the_workload(backend, order):
    """The same network as is trained."""
    assert backend.predict(order).parameters == find_workload(WORKLOAD).parameters


def test_its_answers_are_those_of_the_reference(backend, order, reference):
    """Within float32's rounding; and of another batch size, they are the same."""
    predictor = backend.predict(order)
    predictor.read_items(8)
    run = predictor.prove("fp32", 8)
    assert judge_answers([(run,)], reference).status == "same"
    assert (run.precision, reference.exact.precision, reference.problem) == ("fp32", "fp64", None)


@pytest.mark.parametrize("change", [{"layout": "channels_last"}, {"precision": "bf16"}])
def test_honest_lanes_are_not_accused(backend, order, reference, change):
    """Another layout is the same work, and bf16 strays no further than its rounding explains."""
    settings = replace(order.lane.settings, **change)
    predictor = backend.predict(replace(order, lane=replace(order.lane, settings=settings)))
    predictor.read_items(8)
    proofs = tuple(predictor.prove(precision, 8) for precision in dict.fromkeys(("fp32", settings.precision)))
    assert judge_answers([proofs], reference).status == "same"


def test_calls_may_be_repeated_at_any_size(backend, order):
    """Up and down again; the proof in between changes nothing of it."""
    predictor = backend.predict(order)
    predictor.read_items(64)
    for batch in (1, 64, 8):
        predictor.take(batch)
        predictor.call()
        predictor.call()
        predictor.fence()
        before = predictor.prove("fp32", 8)
    predictor.let_go()
    assert answer_distance(predictor.prove("fp32", 8), before) == 0


def test_items_are_cut_as_is_wanted(backend, order):
    """A built-in workload takes every batch, and has no other way."""
    predictor = backend.predict(order)
    predictor.read_items(max(INFER_BATCHES))
    assert predictor.sizes(INFER_BATCHES) == INFER_BATCHES
    assert not predictor.keep_whole("it was refused")


def test_a_heat_says_its_phases_in_order(heard):
    """Nothing is computed before the first call; the proof comes after it."""
    phases = [each.name for each in heard.of("Phase")]
    assert phases == ["build", "items", "first call", "proof", "single calls", "batch 1", "batch 8", "end"]
    times = [each.at_ns for each in heard.of("Phase")]
    assert times == sorted(times)


def test_a_heat_measures_calls_and_windows(heard):
    """At least as many as were asked for."""
    (first,), (calls,) = heard.of("FirstCall"), heard.of("Calls")
    assert first.ns > 0
    assert first.items == 1
    assert len(calls.ns) >= CALLS_LEAST
    assert [(each.batch, each.reason) for each in heard.of("BatchDone")] == [(1, None), (8, None)]
    assert len(heard.of("Closed")) >= 2 * PACE.windows_min
