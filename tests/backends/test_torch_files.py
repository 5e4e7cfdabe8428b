"""Pixels from files become tensors on the device: floats from 0 to 1 in the lane's layout, with labels that fit."""

from __future__ import annotations

import shutil
from dataclasses import replace

import numpy as np
import planted_orders
import pytest
import torch
from PIL import Image

from image_sets import write_set
from laptime.engine.backends.torch.inputs import BatchWarp, FileBatchSource, is_published, open_source
from laptime.engine.backends.torch.recipe import BuiltInRecipe
from laptime.engine.pipelines import make_job, open_fast_pipeline
from laptime.engine.pipelines.job import workers_for
from laptime.model.process import Settings
from laptime.trainings.data import read_source
from laptime.trainings.workloads import find_workload
from long_cases import cases

CPU = torch.device("cpu")


@pytest.fixture(scope="module", params=cases("scenes-cnn", long=["plates-cnn", "pets-densenet"]))
def what(request):
    return request.param


@pytest.fixture(scope="module")
def data(what, tmp_path_factory):
    folder = write_set(tmp_path_factory.mktemp("sets") / what, what)
    return read_source(find_workload(what), folder, 0)


def source(what, data, first=0, **settings):
    chosen = Settings(batch=8, **settings)
    order = planted_orders.built_in_order(what, chosen)
    recipe = BuiltInRecipe(order)
    recipe.data = data
    return open_source(recipe, chosen, CPU, 0, first=first)


@pytest.mark.long
@pytest.mark.parametrize("layout", ["framework", "channels_last"])
@pytest.mark.parametrize(
    ("kind", "workers"),
    [("published", None), ("published", 2), ("fast", 0), ("fast", 1), ("cached", None), ("resident", None)],
)
def test_every_loader_gives_the_networks_batches(what, data, kind, workers, layout):
    """Whichever loader: shape, type, range, layout, and a label that is the picture's."""
    workload = find_workload(what)
    taken = source(what, data, input=kind, workers=workers, layout=layout)
    form = torch.channels_last if layout == "channels_last" else torch.contiguous_format
    try:
        for _ in range(5):
            images, labels = taken()
            assert tuple(images.shape) == (8, 3, *workload.image_shape[:2])
            assert (images.dtype, labels.dtype) == (torch.float32, torch.int64)
            assert images.is_contiguous(memory_format=form)
            assert 0 <= float(images.min()) <= float(images.max()) <= 1
            if workload.data_layout == "folders":
                colors = images.mean((1, 2, 3)) * 255
                assert torch.equal(labels, torch.round((colors - 10) / 25).long())
            else:
                assert tuple(labels.shape) == (8, 8)
                assert 0 <= int(labels.min()) <= int(labels.max()) < 36
    finally:
        taken.close()


def test_images_are_turned_in_whole_batches_where_the_lane_says_so(tmp_path):
    """On the device, a batch is turned as a whole after it was read; on the host, each image as it is read."""
    workload = find_workload("scenes-cnn")
    slopes = np.linspace(0, 255, 150, dtype=np.uint8)
    for number, name in enumerate(workload.classes):
        place = tmp_path / "train" / name / "slope.png"
        place.parent.mkdir(parents=True)
        Image.fromarray(np.stack([np.tile(slopes, (150, 1))] * 3, -1) // (number + 1)).save(place)
    shutil.copytree(tmp_path / "train", tmp_path / "test")
    slope = read_source(workload, tmp_path, 0)
    on_host = source("scenes-cnn", slope, input="fast", workers=0)
    on_device = source("scenes-cnn", slope, input="fast", workers=0, extra={"augment": "device"})
    still = open_fast_pipeline(replace(make_job(workload, slope, "train", 8, 0), turned=False), 0, 0)
    try:
        images, labels = on_device()
        expected = BatchWarp(0, 0)(torch.from_numpy(still()[0].copy()).permute(0, 3, 1, 2) / 255)
        assert torch.allclose(images, expected, atol=1e-6)
        by_itself, known = on_host()
        assert torch.equal(labels, known)
        off = (by_itself - images).abs().mean()
        assert 0 < off < 0.02, "the nearest pixel in place of a mean of four"
    finally:
        on_host.close()
        on_device.close()
        still.close()


@pytest.mark.parametrize("kind", ["published", "fast"])
def test_a_batch_is_known_by_its_number(what, data, kind):
    """Beginning at batch four gives batch four: a training that goes on sees what it would have seen."""
    whole, later = source(what, data, input=kind), source(what, data, 4, input=kind)
    try:
        batches = [tuple(each.clone() for each in whole()) for _ in range(6)]
        for number in (4, 5):
            images, labels = later()
            assert torch.equal(images, batches[number][0])
            assert torch.equal(labels, batches[number][1])
    finally:
        whole.close()
        later.close()


def test_the_batch_before_is_not_written_over(what, data):
    """The loader fills its memory again, and the training may still hold what it was given."""
    taken = source(what, data, input="fast", workers=1)
    try:
        images, labels = taken()
        kept = images.clone(), labels.clone()
        for _ in range(6):
            taken()
        assert torch.equal(images, kept[0])
        assert torch.equal(labels, kept[1])
    finally:
        taken.close()


def test_the_loader_alone_is_that_of_the_preset():
    assert is_published(Settings(input="only"))
    assert not is_published(Settings(input="only", preset="best"))
    assert not is_published(Settings(input="fast"))


@pytest.mark.parametrize(("workers", "device", "expected"), [(3, "cpu", 3), (0, "cuda", 0), (None, "cpu", 0)])
def test_workers_are_as_many_as_named(workers, device, expected):
    assert workers_for(Settings(workers=workers), device) == expected


def test_an_accelerator_leaves_one_core_to_the_training():
    assert 1 <= workers_for(Settings(), "cuda") <= 16


class Floats:
    """A pipeline whose batches are floats already."""

    ready_batches = 3
    holds = False

    def __call__(self):
        return np.full((2, 4, 6, 3), 0.5, np.float32), np.array([[1], [2]])

    def notes(self):
        return ("said",)

    def close(self):
        pass


def test_floats_are_not_scaled_again():
    taken = FileBatchSource(Floats(), CPU, channels_last=True)
    images, labels = taken()
    assert float(images.mean()) == 0.5
    assert labels.tolist() == [1, 2]
    assert (taken.ready_batches, taken.notes()) == (3, ("said",))
