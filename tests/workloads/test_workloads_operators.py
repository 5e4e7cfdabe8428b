"""The operators of a step multiply as much as the whole step does, and are as many as a framework launches."""

from __future__ import annotations

import pytest

from laptime.trainings.workloads import CATALOGUE, find_workload
from laptime.trainings.workloads.shapes import OperatorList, count_step, list_operators


@pytest.mark.parametrize("name", [*CATALOGUE, "cifar-mlp@0.5"])
def test_they_multiply_as_much_as_the_step(name):
    """The first layer's input needs no gradient."""
    workload = find_workload(name)
    operators = list_operators(workload, 16)
    assert sum(each.flops for each in operators) == count_step(workload, 16).flops


def test_values_of_two_bytes_move_half_as_much_and_weights_are_cast():
    workload = CATALOGUE["cifar-cnn"]
    wide, narrow = (list_operators(workload, 100, precision) for precision in ("fp32", "bf16"))
    of_convolutions = [sum(each.bytes for each in found if each.kind == "medium") for found in (wide, narrow)]
    assert of_convolutions[1] > 0
    assert of_convolutions[0] == 2 * of_convolutions[1]
    assert len(narrow) == len(wide) + 1


def test_a_dense_layer_is_three_products_and_an_update():
    """Forward, the gradient of its input, that of its weights; Adam reads and writes seven values a weight."""
    found = OperatorList(8, 4, first_needs_gradient=True)
    found.product("product", 200, 10, 20, 220)
    found.update("adam")
    *products, update = found.found
    assert [(each.kind, each.flops, each.bytes) for each in products] == [("product", 3200, 4 * (240 + 220))] * 3
    assert (update.kind, update.flops, update.bytes) == ("update", 0, 7 * 4 * 220)
