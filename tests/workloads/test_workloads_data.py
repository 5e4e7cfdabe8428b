"""Made data: a function of its number, above chance, and as hard as its table says, whatever trains on it."""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict

import numpy as np
import old_made_data
import pytest

from laptime.trainings.workloads import CATALOGUE, find_workload
from laptime.trainings.workloads.data import BLOCK, VIEWS, least_loss, make_items, make_test_items, most_accuracy

PHOTOGRAPHS = ("cifar-cnn", "cifar-mlp", "scenes-cnn", "pets-densenet")


def count_of(workload):
    """Return how many items to look at: of large images, one block."""
    return BLOCK if workload.image_shape[0] > 100 else 2 * BLOCK


def group_by_picture(items):
    """Return the items of each picture, by its bytes."""
    found = defaultdict(list)
    for place, image in enumerate(items.images):
        found[hashlib.sha256(image.tobytes()).digest()].append(place)
    return list(found.values())


def probe(items, tested, columns):
    """Return how often a linear network is right about test items: ridge regression on classes."""
    mean, classes = columns(items).mean(0), int(items.labels.max()) + 1
    pixels, wanted = columns(items) - mean, np.eye(classes)[items.labels]
    weights = np.linalg.solve(pixels.T @ pixels + 10 * np.eye(pixels.shape[1]), pixels.T @ wanted)
    return float((((columns(tested) - mean) @ weights).argmax(1) == tested.labels).mean())


def coarse(items):
    """Return the means of squares of an image, 8 x 8 of them."""
    count, height, width, channels = items.images.shape
    cut = items.images[:, : height // 8 * 8, : width // 8 * 8]
    return cut.reshape(count, 8, height // 8, 8, width // 8, channels).mean((2, 4)).reshape(count, -1)


@pytest.mark.parametrize("name", CATALOGUE)
def test_no_network_gets_below_the_least_loss(name):
    """Not even one that knows each picture by heart: items that are equal, to the last bit, have different labels."""
    workload = find_workload(name)
    items = make_items(workload, 3, count_of(workload))
    labels = items.labels.reshape(len(items.labels), -1)
    groups = group_by_picture(items)
    assert {VIEWS} == {len(group) for group in groups}
    losses, right = [], []
    for group in groups:
        for slot in range(labels.shape[1]):
            votes = Counter(labels[group, slot].tolist())
            losses += [-np.log(votes[each] / VIEWS) for each in labels[group, slot].tolist()]
            right.append(max(votes.values()) / VIEWS)
    slack = 0.35 if name == "pets-densenet" else 0.06  # chance decides which pictures are doubtful
    assert np.mean(losses) == pytest.approx(least_loss(workload), rel=slack)
    assert np.mean(right) == pytest.approx(most_accuracy(workload), abs=0.03)


def test_bounds_that_are_known():
    """Of five items 3, 1 and 1: 0.6 right, and a loss of 0.950; in 3 of 10 pictures 4 and 1: 0.94 and 0.150."""
    mlp, pets = find_workload("cifar-mlp"), find_workload("pets-densenet")
    assert (most_accuracy(mlp), least_loss(mlp)) == (pytest.approx(0.6), pytest.approx(0.9503, abs=1e-4))
    assert (most_accuracy(pets), least_loss(pets)) == (pytest.approx(0.94), pytest.approx(0.1501, abs=1e-4))
    assert least_loss(find_workload("cifar-mlp@0.25")) == least_loss(mlp)


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_no_line_separates_the_classes(name):
    """A linear network is right more often than by chance, and less often than the doubtful labels alone allow."""
    workload = find_workload(name)
    items, tested = make_items(workload, 0, count_of(workload)), make_test_items(workload, 0, BLOCK)
    share = probe(items, tested, coarse)
    chance = 1 / workload.outputs[-1]
    assert chance * 1.15 < share < most_accuracy(workload) - 0.02


def test_a_line_separates_the_classes_of_the_data_that_was_made_before():
    """So that the test above can fail."""
    workload = find_workload("cifar-cnn")
    items = old_made_data.make_items(workload, 0, 2 * BLOCK)
    tested = old_made_data.make_test_items(workload, 0, BLOCK)
    assert probe(items, tested, coarse) > 0.97


def test_plates_can_be_read_a_character_at_a_time():
    """The pattern of a character is the same in each of the eight places; one label of five is wrong in each."""
    images, labels = [], []
    for make in (make_items, make_test_items):
        items = make(find_workload("plates-cnn"), 0, 2 * BLOCK)
        images.append(
            items.images.reshape(-1, 64, 8, 16, 3).transpose(0, 2, 1, 3, 4).reshape(len(items.labels) * 8, -1)
        )
        labels.append(items.labels.reshape(-1))
    means = np.stack([images[0][labels[0] == label].mean(0) for label in range(36)])
    guesses = (images[1] @ means.T * 2 - (means**2).sum(1)).argmax(1)
    assert 0.4 < (guesses == labels[1]).mean() < 0.8


@pytest.mark.parametrize("name", PHOTOGRAPHS)
def test_the_pictures_of_a_class_vary(name):
    """Two pictures of a class are nearly as far apart as two of different classes."""
    items = make_items(find_workload(name), 0, BLOCK)
    firsts = [group[0] for group in group_by_picture(items)]
    pixels, labels = coarse(items)[firsts], items.labels[firsts]
    far = ((pixels[:, None] - pixels[None]) ** 2).sum(-1)
    alike = labels[:, None] == labels[None]
    other = ~np.eye(len(labels), dtype=bool)
    assert far[alike & other].min() > 0
    assert far[alike & other].mean() > 0.6 * far[~alike].mean()


def test_an_archive_holds_the_items_that_are_made_in_memory():
    """Of the seed of all made sets: one definition of an item."""
    pytest.importorskip("PIL")
    from laptime.trainings.data.drawing import DATA_SEED
    from laptime.trainings.data.making import draw_arrays

    items = make_items(find_workload("cifar-mlp"), DATA_SEED, 300)
    rows, labels = draw_arrays("train", 100, 300)
    images = rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1).astype(np.float32) * np.float32(1 / 255)
    assert (labels == items.labels[100:]).all()
    assert (images == items.images[100:]).all()


def test_items_are_the_same_in_every_version():
    """A changed item changes every kept reference: raise PROOF_VERSION, and MAKER of made sets."""
    digest = hashlib.sha256()
    for name in CATALOGUE:
        items = make_items(find_workload(name), 1, 8)
        digest.update((items.images * 255).round().astype(np.uint8).tobytes() + items.labels.tobytes())
    assert digest.hexdigest()[:16] == "c7c79a033801c0ba"
