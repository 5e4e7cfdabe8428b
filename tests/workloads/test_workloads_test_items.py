"""Test items that are made: of the same classes as those of the training, and none of them ever trained on."""

from __future__ import annotations

import numpy as np
import pytest

from laptime.trainings.workloads import CATALOGUE, find_workload
from laptime.trainings.workloads.data import make_items, make_test_items


def test_no_test_item_is_a_training_item():
    """The same patterns, seen in another way; the mean of a class is about the same."""
    workload = find_workload("cifar-cnn")
    trained, tested = make_items(workload, 0, 600), make_test_items(workload, 0, 600)
    assert not {each.tobytes() for each in tested.images} & {each.tobytes() for each in trained.images}
    for number in range(10):
        means = [items.images[items.labels == number].mean(0) for items in (trained, tested)]
        assert np.abs(means[0] - means[1]).mean() < 0.05


def test_a_test_item_does_not_depend_on_how_many_are_made():
    """The first ones are the first ones."""
    workload = find_workload("plates-cnn")
    few, more = make_test_items(workload, 3, 5), make_test_items(workload, 3, 300)
    assert (few.images == more.images[:5]).all()
    assert (few.labels == more.labels[:5]).all()
    assert few.labels.shape == (5, 8)


@pytest.mark.parametrize("name", CATALOGUE)
def test_there_are_no_more_than_a_modest_memory_holds(name):
    """256 MB; all of CIFAR-10's, and all that the protocols of scenes-cnn look at."""
    workload = find_workload(name)
    count = workload.test_items_made
    assert 0 < count * 4 * np.prod(workload.image_shape) <= 256 << 20
    assert count <= workload.test_items
    assert name not in {"cifar-cnn", "cifar-mlp", "scenes-cnn"} or count >= workload.validation_items
