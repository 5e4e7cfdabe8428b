"""One suite for every back end that is installed: what the loop relies on holds for each of them alike."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from rooms_here import HERE, INSTALLED, KERAS_ROOMS, STEP_ROOMS, TOGETHER

from laptime.engine.backends import open_backend
from laptime.engine.heat.work import break_down_steps
from laptime.model.errors import LaptimeError
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.workload import ProofPlan
from laptime.trainings.workloads import CATALOGUE, find_workload

WORKLOAD = "cifar-mlp"
PUBLISHED = find_workload(WORKLOAD)
# With 30 units in its first layer for 3,000: most of a suite's time would go into twelve million weights.
SMALL = tuple(replace(layer, units=30) if layer == PUBLISHED.layers[1] else layer for layer in PUBLISHED.layers)
PARAMETERS = 3_072 * 30 + 30 + 30 * 1_000 + 1_000 + 1_000 * 10 + 10
BATCH = 4
PROOF = ProofPlan(steps=3, batch=2)


@pytest.fixture(scope="module", autouse=True)
def small():
    with pytest.MonkeyPatch.context() as patched:
        patched.setitem(CATALOGUE, WORKLOAD, replace(PUBLISHED, layers=SMALL, parameters=PARAMETERS))
        yield


@pytest.fixture(scope="module", params=HERE)
def backend(request):
    """Open each back end once: it is what a child does."""
    return open_backend(request.param)


@pytest.fixture(scope="module")
def order(backend):
    """Order a small heat of cifar-mlp on the processor."""
    workload = find_workload(WORKLOAD)
    cpu = next(device for device in backend.devices() if device.name == "cpu")
    lane = PlannedLane(f"{backend.name}/cpu/batch={BATCH}", backend.name, cpu, Settings(batch=BATCH))
    subject = Subject(WORKLOAD, "", workload.parameters, workload.batch, workload.steps_per_lap, 10, "images")
    pace = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)
    return HeatOrder(subject, lane, 0, PROOF, pace, 0)


@pytest.fixture(scope="module")
def training(backend, order):
    return backend.build(order)


@pytest.fixture(scope="module")
def proof(training):
    """Take it once: most of a suite's time would go into taking it again."""
    return training.prove("fp32")


def test_every_room_is_tested_or_not_installed():
    """A new back end is held to this contract by being listed among the rooms."""
    assert sorted(INSTALLED) == sorted([*TOGETHER, *KERAS_ROOMS, *STEP_ROOMS])
    assert HERE


def test_it_knows_its_name_and_its_versions(backend):
    """Its own version comes first, then those of what it uses."""
    assert backend.name in INSTALLED
    assert all(name and version for name, version in backend.versions().items())
    assert next(iter(backend.versions())) == backend.name.partition("-")[0]


def test_it_sees_the_processor_and_says_why_it_cannot_use_a_device(backend):
    """Every device has a name of its own, and one that cannot be used has its reason."""
    devices = backend.devices()
    assert ("cpu", True) in [(each.kind, each.usable) for each in devices]
    assert len({each.name for each in devices}) == len(devices)
    assert all(each.usable or each.reason for each in devices)


def test_its_clock_goes_forward(backend):
    """Whole nanoseconds, never backwards."""
    before, after = backend.clock(), backend.clock()
    assert isinstance(before, int)
    assert before <= after


def test_what_it_builds_is_the_catalogues_network(backend, order, monkeypatch):
    """The same number of parameters, the batch that was ordered, the published steps of a lap."""
    monkeypatch.setitem(CATALOGUE, WORKLOAD, PUBLISHED)
    training = backend.build(order)
    assert (training.parameters, training.items_per_step, training.steps_per_lap) == (12_230_010, BATCH, 1563)
    assert isinstance(training.notes, tuple)


def test_a_workload_that_is_not_there_cannot_be_built(backend, order):
    """It is refused in words."""
    unknown = replace(order, subject=replace(order.subject, name="nonsense"))
    with pytest.raises(LaptimeError, match="unknown workload 'nonsense'"):
        backend.build(unknown)


def test_a_proof_takes_the_steps_that_the_order_names(proof):
    """Each step has a finite loss, and something has moved."""
    assert (proof.precision, len(proof.losses)) == ("fp32", PROOF.steps)
    assert all(map(math.isfinite, (*proof.losses, proof.start, proof.shrink, *proof.moves)))
    assert proof.start > 0
    assert all(move > 0 for move in proof.moves)


def test_a_proof_is_the_same_from_the_same_seed(backend, order, training, proof):
    """Twice in one training, and once more in another."""
    runs = [proof, training.prove("fp32"), backend.build(order).prove("fp32")]
    assert {runs[0].losses} == {run.losses for run in runs}
    assert {runs[0].moves} == {run.moves for run in runs}


def test_a_proof_says_in_which_precision_it_was(training, proof):
    """And a reduced one strays further than float32, but not far."""
    run = training.prove("bf16")
    strays = max(abs(loss - wanted) / abs(wanted) for loss, wanted in zip(run.losses, proof.losses, strict=True))
    assert (run.precision, proof.precision) == ("bf16", "fp32")
    assert 0 < strays < 0.05


def test_a_reference_is_the_same_work_in_float64(training, proof):
    """An exact run and a float32 twin, of as many steps and arrays as the proof."""
    reference = training.reference()
    assert (reference.exact.precision, reference.twin.precision) == ("fp64", "fp32")
    assert reference.problem is None
    assert (reference.weights, reference.depth > 0) == (PARAMETERS, True)
    for each in (reference.exact, reference.twin):
        assert (len(each.losses), len(each.moves)) == (PROOF.steps, len(proof.moves))
        assert each.losses == pytest.approx(proof.losses, rel=1e-5)
        assert each.start == pytest.approx(proof.start, rel=1e-6)


def test_a_runner_steps_and_marks(backend, training):
    """Between two fences each mark is a point of the work, and the spans are what steps took; or there is none."""
    runner = training.start()
    runner.fence()
    began_ns = backend.clock()
    marks = runner.run_marked(5 * runner.stride)
    runner.fence()
    took_ns = backend.clock() - began_ns
    spans = runner.step_ns(marks)
    assert len(spans) in {0, 5}
    assert all(isinstance(span, int) and span > 0 for span in spans)
    assert sum(spans) <= took_ns
    assert math.isfinite(runner.loss())
    assert runner.ready_batches >= 0
    runner.close()


def test_a_runner_may_be_started_again(training):
    """Each start is a training of its own, and is closed on its own."""
    for _ in range(2):
        runner = training.start()
        runner.run(runner.stride)
        runner.fence()
        assert runner.loss() > 0
        runner.close()


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_its_device_can_be_exercised(backend, order, precision):
    """Products in every way that it has, and a copy, again and again; each time counts the same work."""
    exercises = backend.exercises(order.lane.device)
    assert exercises.by.split(" ")[0] in {*backend.versions(), "tensorflow", "jax", "torch"}
    made = [exercises.product(precision, way, 64) for way in exercises.products]
    made += [exercises.copy(way, 1 << 16) for way in exercises.copies]
    for exercise in made:
        exercise.once()
        exercise.once()
        exercise.fence()
    products = len(exercises.products)
    assert 0 < products < len(made)
    assert {exercise.work for exercise in made[:products]} == {2 * 64**3}
    assert {exercise.work for exercise in made[products:]} <= {2 << 16, 3 << 16}
    free = exercises.free_bytes
    assert free.missing if isinstance(free, Missing) else free > 0


def test_memory_is_a_size_or_an_absence_with_its_reason(training):
    """Nothing unknown is shown as zero."""
    held = training.device_memory_bytes()
    assert held.missing if isinstance(held, Missing) else held > 0


@pytest.mark.parametrize("kind", ["only", "one"])
def test_a_built_in_runs_without_its_loader_or_without_its_training(backend, order, kind):
    """The loader alone has no loss; one batch has, again and again."""
    lane = replace(order.lane, settings=Settings(batch=BATCH, input=kind))
    runner = backend.build(replace(order, lane=lane)).start()
    for _ in range(2):
        runner.run(runner.stride * 3)
        runner.fence()
    assert math.isfinite(runner.loss())
    if backend.name != "fake":
        assert (runner.loss() > 0) == (kind == "one")
    assert runner.close() == ()


def test_a_step_is_taken_apart_after_the_windows(backend, training):
    """As far as the back end can; what it cannot has its reason."""
    runner = training.start()
    runner.run(runner.stride)
    signs = break_down_steps(backend.clock, runner.fence, runner.parts())
    assert signs.steps >= 3
    parts = [signs.wait_ns, signs.copy_ns, signs.compute_ns, signs.reads, signs.shapes, signs.compiles, signs.denormals]
    assert all(each.missing if isinstance(each, Missing) else each >= 0 for each in parts)
    assert runner.close() == ()
