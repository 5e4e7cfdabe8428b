"""Items in memory, and a test set batch after batch: each once, always the same, not in the order of classes."""

from __future__ import annotations

import numpy as np
import pytest
from pictures import encoded

from laptime.engine.pipelines.making import read_batches, read_items
from laptime.trainings.data import read_source
from laptime.trainings.workloads import find_workload

SCENES = find_workload("scenes-cnn")
EACH = 3


@pytest.fixture(scope="module")
def source(tmp_path_factory):
    """Return three test images a class, each of a gray of its own."""
    folder = tmp_path_factory.mktemp("scenes")
    for part in ("train", "test"):
        for label, name in enumerate(SCENES.classes):
            place = folder / part / name
            place.mkdir(parents=True)
            for number in range(EACH):
                gray = 5 + 10 * (EACH * label + number)
                (place / f"{number}.png").write_bytes(encoded(np.full((20, 20, 3), gray, np.uint8), "PNG"))
    return read_source(SCENES, folder, 0)


def grays(items):
    return np.rint(items.images.mean((1, 2, 3)) * 255).astype(int).tolist()


@pytest.mark.parametrize("batch", [1, 5, 24, 100])
def test_every_item_comes_once_with_its_label(source, batch):
    """A last batch that is not full holds what is left, and nothing twice."""
    chunks = list(read_batches(SCENES, source, "test", None, batch))
    seen = [gray for chunk in chunks for gray in grays(chunk)]
    labels = [label for chunk in chunks for label in chunk.labels.tolist()]
    assert sorted(seen) == [5 + 10 * number for number in range(EACH * 8)]
    assert labels == [(gray - 5) // (10 * EACH) for gray in seen]
    assert max(len(chunk.labels) for chunk in chunks) == min(batch, EACH * 8)


def test_the_first_items_are_of_several_classes_and_always_the_same(source):
    """Files lie sorted by class; the first ten of them would be three classes."""
    items = read_items(SCENES, source, "test", 10)
    assert items.images.shape == (10, 150, 150, 3)
    assert items.images.dtype == np.float32
    assert len(set(items.labels.tolist())) > 3
    assert grays(items) == grays(read_items(SCENES, source, "test", None))[:10]
