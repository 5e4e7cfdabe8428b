"""The catalogue says what the authors trained, and its weights and data are what every framework can share."""

import tomllib
from pathlib import Path

import numpy as np
import pytest

import laptime.trainings.workloads.catalogue
from laptime.model.errors import UsageError
from laptime.model.workload import Adam
from laptime.trainings.workloads import CATALOGUE, find_workload
from laptime.trainings.workloads.data import make_items, make_weights
from laptime.trainings.workloads.shapes import count_parameters, list_weights

PARAMETERS = {
    "scenes-cnn": 42_520_584,
    "cifar-cnn": 1_337_002,
    "cifar-mlp": 12_230_010,
    "plates-cnn": 264_560,
    "pets-densenet": 6_955_906,
}
PUBLISHED = tomllib.loads(Path(laptime.trainings.workloads.catalogue.__file__).with_name("published.toml").read_text())


def test_the_five_published_trainings_are_there():
    """Nothing more is built in, and nothing less."""
    assert set(PARAMETERS) == set(CATALOGUE)


@pytest.mark.parametrize("name", PARAMETERS)
def test_layers_hold_the_published_number_of_parameters(name):
    """Counted from the layers, not read from the entry."""
    assert count_parameters(CATALOGUE[name]) == PARAMETERS[name] == CATALOGUE[name].parameters


@pytest.mark.parametrize("name", PARAMETERS)
def test_entry_agrees_with_the_published_facts(name):
    """Batch, steps and laps of the entry are those that the authors reported."""
    facts, workload = PUBLISHED[name], CATALOGUE[name]
    batches = facts["batch"] if isinstance(facts["batch"], list) else [facts["batch"]]
    assert workload.batch in batches
    assert facts["laps"] == workload.laps
    assert facts.get("steps_per_lap", workload.steps_per_lap) == workload.steps_per_lap
    assert facts["claim"] == workload.published.claim
    assert [row["device"] for row in facts["results"]] == [each.device for each in workload.published.results]


def test_published_laps_are_read_as_given():
    """The figures behind the 9.6 times."""
    gpu, cpu = CATALOGUE["scenes-cnn"].published.results
    assert gpu.lap_s == (38, 42, 45, 44, 45)
    assert cpu.lap_s == (424, 413, 413, 408, 408)


def test_unknown_workload_names_the_nearest():
    """A typing mistake is answered with what was meant."""
    with pytest.raises(UsageError, match="cifar-cnn"):
        find_workload("cifar-cn")


def test_kerass_epsilon_is_meant_where_the_authors_used_keras():
    """Whose Adam it is decides where epsilon is added."""
    for name in ("scenes-cnn", "cifar-cnn", "plates-cnn"):
        optimizer = CATALOGUE[name].optimizer
        assert isinstance(optimizer, Adam)
        assert (optimizer.epsilon, optimizer.epsilon_placement) == (1e-7, "before")


@pytest.mark.parametrize("name", ["cifar-cnn", "plates-cnn"])
def test_weights_are_the_same_for_a_seed_and_others_for_another(name):
    """Canonical means that everybody draws the same."""
    first, again, other = (make_weights(CATALOGUE[name], seed) for seed in (3, 3, 4))
    assert all(np.array_equal(one, two) for one, two in zip(first, again, strict=True))
    assert not np.array_equal(first[0], other[0])


def test_kernels_are_glorot_uniform_and_biases_zero():
    """Keras's defaults, whatever framework trains: limit sqrt(6 / (fan in + fan out))."""
    kernel, bias = make_weights(CATALOGUE["cifar-mlp"], 0)[:2]
    limit = np.sqrt(6 / (3072 + 3000))
    assert limit == pytest.approx(np.abs(kernel).max(), rel=1e-3)
    assert limit / np.sqrt(3) == pytest.approx(kernel.std(), rel=1e-3)
    assert not bias.any()


def test_a_dense_layer_behind_flatten_knows_the_shape_it_flattens():
    """A framework with channels first has to turn exactly these kernels."""
    flattened = [spec.flattened_from for spec in list_weights(CATALOGUE["plates-cnn"]) if spec.kind == "dense"]
    assert flattened == [(2, 6, 64), None, None]


@pytest.mark.parametrize("name", PARAMETERS)
def test_items_have_the_shapes_and_range_of_the_originals(name):
    """Images in 0..1, one class number an item, eight for a plate."""
    workload = CATALOGUE[name]
    items = make_items(workload, 0, 4)
    assert (4, *workload.image_shape) == items.images.shape
    assert (4, *workload.outputs[:-1]) == items.labels.shape
    assert items.images.dtype == np.float32
    assert 0 <= items.images.min() < items.images.max() <= 1
    assert items.labels.max() < workload.outputs[-1]


def test_an_item_does_not_depend_on_how_many_are_made():
    """The proof's few items are the first of the training's many."""
    few, many = (make_items(CATALOGUE["cifar-cnn"], 5, count) for count in (10, 300))
    assert np.array_equal(few.images, many.images[:10])
    assert np.array_equal(few.labels, many.labels[:10])
