"""The memory of a step: by hand for a small network, and what PyTorch itself keeps for the backward pass."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from laptime.engine.backends.torch.recipe import build_network
from laptime.model.hardware import Conv, Dense, Dropout, Flatten, MaxPool, Relu
from laptime.model.process import Settings
from laptime.model.workload import Adam, ProofPlan, Sgd
from laptime.trainings.workloads import CATALOGUE, find_workload
from laptime.trainings.workloads.shapes import count_heat_memory, count_kept, count_step_memory
from long_cases import cases

SMALL = replace(
    CATALOGUE["cifar-cnn"],
    image_shape=(6, 8, 3),
    layers=(Conv(4, 3, "relu"), MaxPool(), Relu(), Flatten(), Dropout(0.5), Dense(5)),
    optimizer=Sgd(),
    proof=ProofPlan(steps=2, batch=1),
    items_made=30,
)
IMAGE, CONV, POOL = 4 * 6 * 8 * 3, 4 * 4 * 6 * 4, 4 * 2 * 3 * 4
CONV_WEIGHTS, DENSE_WEIGHTS = 4 * (27 * 4 + 4), 4 * (24 * 5 + 5)
STATE = CONV_WEIGHTS + DENSE_WEIGHTS


def kept_by_torch(workload, batch):
    """Return the size of all tensors that PyTorch keeps, each once; on its "meta" device, which computes shapes."""
    with torch.device("meta"):
        network = build_network(workload)
        height, width, channels = workload.image_shape
        images = torch.empty(batch, channels, height, width)
    weights = {each.untyped_storage()._cdata for each in network.parameters()}
    kept = {}

    def keep(tensor):
        storage = tensor.untyped_storage()
        if storage._cdata not in weights:
            kept[storage._cdata] = storage
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(keep, lambda tensor: tensor):
        outputs = network(images)
    assert outputs.requires_grad
    return sum(each.nbytes() for each in kept.values())


@pytest.mark.parametrize("name", cases(*CATALOGUE, "plates-cnn@0.5", long=["pets-densenet@0.25"]))
def test_a_step_keeps_for_each_item_what_pytorch_keeps(name):
    """To the last byte; what does not grow with the batch (means of a batch norm) is not counted."""
    workload = find_workload(name)
    assert kept_by_torch(workload, 3) - kept_by_torch(workload, 2) == count_kept(workload, 1, "cpu")


def test_a_step_on_a_card_by_hand():
    """The most is held as the rectifier's gradient is made: image, its output, and the gradients of both sides."""
    assert count_step_memory(SMALL, 10, "cuda") == 10 * (IMAGE + 3 * CONV) + STATE + DENSE_WEIGHTS
    assert count_step_memory(SMALL, 0, "cuda") == 2 * STATE, "after the last gradient, weights and gradients"


def test_adam_keeps_two_averages_and_copies_the_largest_array_twice():
    adam = replace(SMALL, optimizer=Adam())
    assert count_step_memory(adam, 0, "cuda") == 4 * STATE + 2 * DENSE_WEIGHTS


def test_on_a_processor_a_convolution_is_computed_on_copies():
    """As its weights' gradient is made: image, the output's gradient, and a copy of each. All blocks are small."""
    assert count_step_memory(SMALL, 10, "cpu") == 10 * 2 * (IMAGE + CONV) + 2 * STATE


def test_small_blocks_are_not_returned_while_large_ones_are():
    """From 32 MiB on: image and convolution are above it, what comes after the pooling is below."""
    batch = 100_000
    indices, mask, classes = 2 * POOL, POOL, 4 * 5
    small = indices + 2 * POOL + mask + POOL + classes
    assert batch * (2 * (IMAGE + CONV) + small) + 2 * STATE == count_step_memory(SMALL, batch, "cpu")


def test_a_heat_also_holds_its_items_what_the_loader_has_ready_and_the_proof():
    """Items in memory are there twice as they are made; batches of image files are queued by the authors' loader."""
    held = count_step_memory(SMALL, 10, "cpu")
    assert 30 * IMAGE + held == count_heat_memory(SMALL, Settings(batch=10), "cpu")
    on_card = count_step_memory(SMALL, 10, "cuda")
    assert on_card == count_heat_memory(SMALL, Settings(batch=10), "cuda"), "they are not in the card's memory"
    many = replace(SMALL, items_made=1_000)
    assert count_heat_memory(many, Settings(batch=10), "cpu") == 2 * 1_000 * IMAGE
    files = replace(SMALL, loader="threads")
    assert 20 * 10 * IMAGE + held == count_heat_memory(files, Settings(batch=10), "cpu")
    assert held == count_heat_memory(files, Settings(batch=10, input="cached"), "cpu")
    proven = 2 * IMAGE + STATE + max(count_step_memory(SMALL, 1, "cuda"), 2 * STATE + 4 * DENSE_WEIGHTS)
    assert proven == count_heat_memory(SMALL, Settings(batch=1), "cuda")
