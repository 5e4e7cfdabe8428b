"""The work of a step: operations as PyTorch's own counter has them, bytes as they are added up by hand."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

from laptime.engine.backends.torch.recipe import build_network, make_loss
from laptime.model.hardware import Conv, Dense, Dropout, Flatten, MaxPool, Relu
from laptime.model.workload import Adam, Sgd
from laptime.trainings.workloads import CATALOGUE
from laptime.trainings.workloads.shapes import count_step
from long_cases import cases

LARGEST = "pets-densenet"

SMALL = replace(
    CATALOGUE["cifar-cnn"],
    image_shape=(6, 8, 3),
    layers=(Conv(4, 3, "relu"), MaxPool(), Relu(), Flatten(), Dropout(0.5), Dense(5)),
    optimizer=Sgd(),
)
# 4 x 6 places of 4 filters that read 3 x 3 x 3 values; 5 units that read the 2 x 3 x 4 values of the pool.
CONV, DENSE = 4 * 6 * 4 * 27, 5 * 24
CONV_WEIGHTS, DENSE_WEIGHTS = 27 * 4 + 4, 24 * 5 + 5
OUTPUTS = 4 * 6 * 4 + 24 + 5
IMAGE = 6 * 8 * 3


def counted_by_torch(workload, batch):
    """Count a step of the real network; on PyTorch's "meta" device, which computes shapes alone."""
    with torch.device("meta"):
        network = build_network(workload)
        height, width, channels = workload.image_shape
        images = torch.empty(batch, channels, height, width)
        labels = torch.zeros(batch, *workload.outputs[:-1], dtype=torch.int64)
    with FlopCounterMode(display=False) as counter:
        make_loss(workload)(network(images), labels).backward()
    return counter.get_total_flops()


@pytest.mark.parametrize("batch", [None, 3])
@pytest.mark.parametrize("name", cases(*(each for each in CATALOGUE if each != LARGEST), long=[LARGEST]))
def test_operations_are_those_that_pytorch_counts(name, batch):
    """To the last one, forward and backward, at the published batch and another."""
    workload = CATALOGUE[name]
    items = batch or workload.batch
    assert counted_by_torch(workload, items) == count_step(workload, items).flops


def test_operations_of_a_small_network_by_hand():
    """Two a multiplication; the first layer's gradient is of its weights alone, the others' of their inputs too."""
    operations = 10 * 2 * (2 * CONV + 3 * DENSE)
    assert operations == count_step(SMALL, 10).flops


@pytest.mark.parametrize(("precision", "size"), [("fp32", 4), ("tf32", 4), ("bf16", 2), ("fp16", 2)])
def test_bytes_of_a_small_network_by_hand(precision, size):
    """Weights 5 times with SGD, the later layer's once more; outputs 4 times, in the lane's precision; images twice."""
    state = 4 * (5 * CONV_WEIGHTS + 6 * DENSE_WEIGHTS)
    assert state + 10 * (size * 4 * OUTPUTS + 4 * 2 * IMAGE) == count_step(SMALL, 10, precision).bytes


def test_adams_moments_are_moved_too():
    """Two more arrays, each read and written in float32, whatever the batch and the precision."""
    weights = CONV_WEIGHTS + DENSE_WEIGHTS
    for precision in ("fp32", "bf16"):
        plain, adam = (
            count_step(replace(SMALL, optimizer=optimizer), 7, precision).bytes for optimizer in (Sgd(), Adam())
        )
        assert 4 * 4 * weights == adam - plain


def test_densenets_block_counts_each_layer_within():
    """Operations and bytes grow with the batch by the items' share alone; the state is what no items would move."""
    workload = CATALOGUE["pets-densenet"]
    one, two = (count_step(workload, batch) for batch in (1, 2))
    assert one.flops * 2 == two.flops
    first = 7 * 7 * 3 * 64
    assert 2 * one.bytes - two.bytes == 4 * (10 * workload.parameters - first)
