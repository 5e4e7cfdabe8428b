"""Image files in Keras lanes: the same pictures as PyTorch's lanes get, by Keras's own loader or by ours."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from rooms_here import HERE, IN_FULL, here

from image_sets import write_set
from laptime.engine.backends import open_backend
from laptime.engine.pipelines import make_job, open_fast_pipeline, open_published_pipeline
from laptime.model.errors import LaneError, TrainingError
from laptime.model.hardware import Flatten, MaxPool
from laptime.model.plan import HeatOrder, Pace, PlannedLane, Subject
from laptime.model.process import Settings
from laptime.model.workload import ProofPlan
from laptime.trainings.data import read_source
from laptime.trainings.workloads import CATALOGUE, find_workload

BATCH = 4
PACE = Pace(1, 1, adaptive=False, measure_s=1.0, window_s=0.1)


@pytest.fixture(scope="module", params=[name for name in HERE if name.startswith("keras")])
def backend(request):
    return open_backend(request.param)


@pytest.fixture(scope="module")
def sources(tmp_path_factory):
    """Return a few files of each kind."""
    folder = tmp_path_factory.mktemp("sets")
    names = ("plates-cnn", "scenes-cnn", "pets-densenet")
    return {name: read_source(find_workload(name), write_set(folder / name, name), 0) for name in names}


@pytest.fixture
def few_layers(monkeypatch):
    """Leave out of the network of scenes, of 42 million weights, all but its ends: its files are read all the same."""
    workload = find_workload("scenes-cnn")
    few = (*workload.layers[:2], MaxPool(8), Flatten(), workload.layers[-1])
    monkeypatch.setitem(CATALOGUE, "scenes-cnn", replace(workload, layers=few))


def job_for(sources, what):
    return make_job(find_workload(what), sources[what], "train", BATCH, 0)


def order_for(backend, sources, what, **settings):
    workload = find_workload(what)
    cpu = next(device for device in backend.devices() if device.name == "cpu")
    lane = PlannedLane(f"{backend.name}/cpu/test", backend.name, cpu, Settings(batch=BATCH, **settings))
    subject = Subject(what, "", workload.parameters, workload.batch, workload.steps_per_lap, 10, "images")
    return HeatOrder(subject, lane, 0, ProofPlan(steps=2, batch=2), PACE, 0, data=sources[what])


def stock_of(what, open_at):
    from laptime.engine.backends.keras.feeds import BatchCache

    return BatchCache(open_at, find_workload(what))


@pytest.mark.parametrize("what", ["plates-cnn", "scenes-cnn", "pets-densenet"])
@pytest.mark.usefixtures("backend")
def test_a_stock_holds_a_pipelines_batches_by_number(sources, what):
    """Asked for out of order, as engines do that look at the first ones twice, and after they were let go of."""
    from laptime.engine.backends.keras.feeds import BATCHES_KEPT

    job = job_for(sources, what)
    plain = open_fast_pipeline(job, 0, 0)
    expected = [(np.array(images), np.array(labels)) for images, labels in (plain() for _ in range(BATCHES_KEPT + 4))]
    stock = stock_of(what, lambda first: open_fast_pipeline(job, 0, first))
    for number in (0, 1, 0, 1, 2, BATCHES_KEPT + 3, BATCHES_KEPT + 2, 1):
        images, labels = stock(number)
        assert images.dtype == np.float32
        np.testing.assert_allclose(images, expected[number][0] / np.float32(255), rtol=1e-6)
        np.testing.assert_array_equal(np.reshape(labels, -1), expected[number][1].reshape(-1))
    assert stock.close() == ()


@pytest.mark.usefixtures("backend")
def test_the_authors_generator_is_keras_own(sources):
    """Its transforms, its threads; on laptime's listing, in whole batches, with labels that are the pictures' own."""
    from laptime.engine.backends.keras.feeds import ImageGenerator

    job = job_for(sources, "scenes-cnn")
    made = ImageGenerator(job, find_workload("scenes-cnn"))
    drawn = made.image_data_generator
    assert (drawn.rotation_range, drawn.shear_range, drawn.horizontal_flip) == (20.0, 0.2, True)
    assert (drawn.zoom_range, drawn.rescale) == (pytest.approx([0.8, 1.2]), 1 / 255)
    assert (made.workers, made.max_queue_size, len(made)) == (12, 10, len(job.paths) // BATCH)
    colors = {}
    for index in range(len(made)):
        images, labels = made[index]
        assert (images.shape, images.dtype, labels.shape) == ((BATCH, 150, 150, 3), np.float32, (BATCH,))
        assert 0 <= images.min() <= images.max() <= 1
        for image, label in zip(images, labels, strict=True):
            colors.setdefault(int(label), []).append(float(image.mean()) * 255)
    assert sorted(colors) == list(range(8))
    for label, seen in colors.items():
        assert seen == pytest.approx([10 + 25 * label] * len(seen), abs=6)


@pytest.mark.usefixtures("backend")
def test_a_file_of_another_kind_ends_the_authors_generator(sources):
    """Keras would hand it to Pillow, and that to Ghostscript."""
    from laptime.engine.backends.keras.feeds import ImageGenerator

    job = job_for(sources, "scenes-cnn")
    wrong = Path(sources["scenes-cnn"].folder).with_name("wrong.jpg")
    Image.new("RGB", (40, 40)).save(wrong, "EPS")
    made = ImageGenerator(replace(job, paths=(str(wrong),) * len(job.paths)), find_workload("scenes-cnn"))
    with pytest.raises(TrainingError, match=r"wrong\.jpg cannot be decoded"):
        made[0]


@pytest.mark.parametrize(
    ("what", "chosen", "workers"),
    here(
        [("plates-cnn", "fast", None), ("plates-cnn", "resident", None)],
        [
            ("plates-cnn", "published", None),
            ("plates-cnn", "cached", None),
            ("scenes-cnn", "published", 2),
        ],
    ),
)
@pytest.mark.usefixtures("few_layers")
def test_fit_trains_on_them(backend, sources, what, chosen, workers):
    """Steps are taken and marked, the loss is a number, and threads and workers end with the runner."""
    runner = backend.build(order_for(backend, sources, what, input=chosen, workers=workers)).start()
    runner.run(2)
    marks = runner.run_marked(3)
    runner.fence()
    assert len(marks) == 4
    assert 0 < runner.loss() < 10
    assert runner.holds == (chosen == "fast")
    assert (runner.ready_batches > 0) == (chosen in {"published", "fast"})
    runner.repeat()
    runner.run(1)
    assert runner.close() == ()


def test_several_steps_are_taken_at_once(backend, sources):
    """Counted as what they are; an epoch, a lap, is a whole number of them. Keras on PyTorch takes one at a time."""
    if backend.name == "keras-torch":
        pytest.skip("the planner refuses it")
    order = order_for(backend, sources, "plates-cnn", input="fast", steps_per_execution=3)
    runner = backend.build(order).start()
    assert runner.stride == 3
    runner.run(6)
    marks = runner.run_marked(9)
    runner.fence()
    assert len(marks) == 4
    assert runner.step_ns(marks) == ()
    assert runner._fit_run.steps_of_epoch() == 15
    assert runner.close() == ()
    learner = backend.build(order).learn()
    learner.begin(0, None)
    learner.reset_score()
    with pytest.raises(LaneError, match="4 steps are no whole number of 3"):
        learner.run(4)
    learner.run(6)
    learner.fence()
    assert learner.score().items == 6 * BATCH
    learner.close()


def test_a_whole_training_goes_on_where_it_was(backend, sources):
    """Whatever an engine had read ahead by the end of the lap: the next lap begins with the batch that is due."""
    order = order_for(backend, sources, "plates-cnn", input="fast")
    unbroken = backend.build(order).learn()
    unbroken.begin(0, None)
    unbroken.reset_score()
    unbroken.run(3)
    state = unbroken.state()
    unbroken.reset_score()
    unbroken.run(3)
    unbroken.fence()
    resumed = backend.build(order).learn()
    resumed.begin(3, state)
    resumed.reset_score()
    resumed.run(3)
    resumed.fence()
    assert resumed.score() == unbroken.score()
    for one, other in zip(resumed.state()["variables"], unbroken.state()["variables"], strict=True):
        np.testing.assert_array_equal(one, other)
    assert (*unbroken.close(), *resumed.close()) == ()


@pytest.mark.skipif(HERE != [IN_FULL], reason="it is our loader on each engine")
def test_a_spoilt_picture_is_passed_over_and_named(backend, sources, tmp_path):
    """By our loader, in a Keras lane as in all others."""
    spoilt = write_set(tmp_path / "plates", "plates-cnn")
    first = min((spoilt / "train").iterdir())
    first.write_bytes(first.read_bytes()[:300])
    source = read_source(find_workload("plates-cnn"), spoilt, 0)
    runner = backend.build(order_for(backend, {"plates-cnn": source}, "plates-cnn", input="fast")).start()
    runner.run(6)
    runner.fence()
    (note,) = runner.close()
    assert first.name in note


@pytest.mark.usefixtures("backend")
def test_the_authors_reading_needs_no_pytorch(sources):
    """pets-densenet's loader was PyTorch's; what it does to an image is done one after another."""
    workload = find_workload("pets-densenet")
    images, labels = open_published_pipeline(workload, job_for(sources, "pets-densenet"), 0)()
    assert (images.shape, images.dtype) == ((BATCH, 224, 224, 3), np.float32)
    assert set(np.reshape(labels, -1)) <= {0, 1}


@pytest.mark.parametrize(
    ("what", "settings"), here([("plates-cnn", {"preset": "best"})], [("scenes-cnn", {}), ("plates-cnn", {})])
)
def test_files_are_read_without_fit(backend, sources, what, settings):
    """By the authors' loader, or by ours where the preset asks for it; nothing is trained."""
    runner = backend.build(order_for(backend, sources, what, input="only", **settings)).start()
    runner.run(3)
    runner.fence()
    assert runner.loss() == 0.0
    assert runner.holds == (settings == {"preset": "best"})
    assert runner.close() == ()
