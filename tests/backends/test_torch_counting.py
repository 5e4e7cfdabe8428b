"""What a step computes and moves, counted operator by operator, next to what its layers say."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402

from laptime.backends.torch.counting import (  # noqa: E402
    CountingMode,
    count_work,
    fold_small,
    list_calls,
    moved_bytes,
    size_bytes,
)
from laptime.backends.torch.recipe import (  # noqa: E402
    build_network,
    make_loss,
)
from laptime.backends.torch.runners import outermost  # noqa: E402
from laptime.model.hardware import StepOperator  # noqa: E402
from laptime.workloads import find_workload  # noqa: E402
from laptime.workloads.shapes import list_operators  # noqa: E402


def test_the_products_of_a_step_are_counted():
    """Two dense layers, forward and back: 2 operations a weight and item, and 4 in the second layer's gradients.

    The first layer has no gradient of its inputs.
    """
    network = nn.Sequential(nn.Linear(64, 32, bias=False), nn.ReLU(), nn.Linear(32, 8, bias=False))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    rows = torch.randn(16, 64)

    def step(rows):
        optimizer.zero_grad(set_to_none=True)
        network(rows).square().mean().backward()
        optimizer.step()

    work = count_work(step, lambda: rows)
    assert work.flops == 2 * 16 * (2 * 64 * 32 + 3 * 32 * 8)
    # At least the weights and their gradients, once each, and the rows twice.
    assert work.bytes > 4 * (2 * (64 * 32 + 32 * 8) + 2 * 16 * 64)


def test_what_python_computes_between_operators_is_timed():
    """A wait of 20 ms, which no card makes shorter. A plain step has no more than the usual."""
    network = nn.Sequential(*(nn.Linear(64, 64) for _ in range(20)))
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)

    def step(rows):
        optimizer.zero_grad(set_to_none=True)
        network(rows).square().mean().backward()
        optimizer.step()

    def slow(rows):
        step(rows)
        time.sleep(0.02)

    rows = torch.randn(16, 64)
    assert count_work(step, lambda: rows).python_s == 0
    slowed = count_work(slow, lambda: rows)
    assert 0.01 < slowed.python_s < 0.04
    assert 300 < slowed.core_score < 6_000, "as public scores of cores are"
    assert list(outermost([(0, 9), (1, 4), (2, 3), (10, 12), (11, 13)])) == [(0, 9), (10, 12), (12, 13)]


SQUARE = torch.zeros(16, 16)
ROW = torch.zeros(16)
ATEN = torch.ops.aten
WHOLE = 16 * 16 * 4


@pytest.mark.parametrize(
    ("expected", "func", "args"),
    [
        (3 * WHOLE, ATEN.mm.default, (SQUARE, SQUARE)),
        (2 * WHOLE + 64, ATEN.add.Tensor, (SQUARE, ROW)),
        (3 * WHOLE, ATEN.add_.Tensor, (SQUARE, SQUARE)),
        (2 * WHOLE, ATEN.copy_.default, (SQUARE, SQUARE)),
        (WHOLE, ATEN.zero_.default, (SQUARE,)),
        (WHOLE, ATEN.zeros_like.default, (SQUARE,)),
        (0, ATEN.t.default, (SQUARE,)),
        (0, ATEN.view.default, (SQUARE, [256])),
        (0, ATEN.empty_like.default, (SQUARE,)),
        (3 * WHOLE, ATEN._foreach_add_.List, ([SQUARE], [SQUARE])),
    ],
)
def test_bytes_are_of_what_is_read_and_written(expected, func, args):
    assert moved_bytes(func, args, {}, func(*args)) == expected


def test_what_is_spread_over_a_shape_lies_in_memory_once():
    assert size_bytes(ROW.expand(16, 16)) == 64


def counted(network, optimizer, loss, batch, *, by_closure=False):
    """Count a step, with the loss computed in a closure that the optimizer calls, or before it."""

    def forward(given):
        optimizer.zero_grad(set_to_none=True)
        found = loss(network(given[0]), given[1])
        found.backward()
        return found

    def step(given):
        if by_closure:
            optimizer.step(lambda: forward(given))
        else:
            forward(given)
            optimizer.step()

    return count_work(step, lambda: batch)


def test_the_operators_of_a_step_are_those_of_its_layers():
    """The same operations, nearly the same bytes and calls; the update is one operator, whatever it calls."""
    workload = find_workload("cifar-cnn")
    network = build_network(workload)
    optimizer = torch.optim.Adam(network.parameters())
    batch = torch.randn(8, 3, 32, 32), torch.randint(0, 10, (8,))
    work = counted(network, optimizer, make_loss(workload), batch)
    listed = list_operators(workload, 8)
    assert sum(each.calls * each.flops for each in work.operators) == sum(each.flops for each in listed) == work.flops
    in_all = sum(each.calls * each.bytes for each in work.operators)
    assert in_all == pytest.approx(sum(each.bytes for each in listed), rel=0.15)
    assert sum(each.calls for each in work.operators) == pytest.approx(len(listed), abs=4)
    (update,) = (each for each in work.operators if each.kind == "update")
    assert update.bytes == pytest.approx(next(each.bytes for each in listed if each.kind == "update"), rel=0.001)
    assert {each.kind for each in work.operators} == {"narrow", "medium", "product", "move", "update"}


def test_a_closure_that_the_optimizer_calls_is_no_update():
    network = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 8))
    batch = torch.randn(16, 64), torch.randn(16, 8)
    plain, closed = (
        counted(network, torch.optim.SGD(network.parameters(), lr=0.1), nn.functional.mse_loss, batch, by_closure=each)
        for each in (False, True)
    )
    assert sorted(map(str, plain.operators)) == sorted(map(str, closed.operators))


@pytest.mark.parametrize(
    ("layer", "shape", "kind"),
    [
        (nn.Conv2d(129, 64, 3), (2, 129, 9, 9), "conv"),
        (nn.Conv2d(128, 64, 3), (2, 128, 9, 9), "medium"),
        (nn.Conv2d(64, 128, 3), (2, 64, 9, 9), "narrow"),
        (nn.Conv2d(32, 64, 1), (2, 32, 9, 9), "pointwise"),
        (nn.Conv2d(32, 64, 3, groups=32), (2, 32, 9, 9), "grouped"),
        (nn.Conv1d(3, 8, 5), (2, 3, 99), "narrow"),
        (nn.Conv2d(3, 8, 1), (2, 3, 9, 9), "narrow"),
        (nn.Conv2d(160, 64, 1, stride=2), (2, 160, 9, 9), "strided"),
        (nn.ConvTranspose2d(160, 16, 3, stride=2), (2, 160, 9, 9), "direct"),
        (nn.Conv2d(160, 64, (1, 7)), (2, 160, 9, 9), "direct"),
    ],
)
def test_a_convolution_takes_as_many_operations_for_each_gradient(layer, shape, kind):
    given = torch.randn(shape, requires_grad=True)
    with CountingMode() as mode:
        layer(given).sum().backward()
    forward, *gradients = (each for each, calls in mode.found.items() for _ in range(calls) if each.flops)
    assert {each.kind for each in (forward, *gradients)} == {kind}
    assert [each.flops for each in gradients] == [forward.flops] * 2
    places = given if isinstance(layer, nn.ConvTranspose2d) else layer(given)
    assert forward.flops == 2 * 2 * places[0, 0].numel() * layer.weight.numel()


def test_attention_on_a_processor_is_counted():
    """Two products forward and five backward, which torch.utils.flop_counter knows by the names of a card alone."""
    query = torch.randn(2, 4, 64, 16, requires_grad=True)
    with CountingMode() as mode:
        nn.functional.scaled_dot_product_attention(query, query, query).sum().backward()
    found = [each.flops for each in mode.found if each.kind == "attention"]
    one = 2 * 2 * 4 * 64 * 64 * 16
    assert found == [2 * one, 5 * one]


@torch.library.custom_op("laptime_tests::doubled", mutates_args=())
def doubled(values: torch.Tensor) -> torch.Tensor:
    return values * 2


def test_an_operator_of_somebody_else_is_counted_by_its_bytes():
    with CountingMode() as mode:
        doubled(torch.ones(100))
    assert StepOperator("unknown", 0.0, 800.0) in mode.found


def test_only_what_is_chosen_of_a_table_is_read():
    table, rows = torch.zeros(1000, 8), torch.tensor([1, 2])
    (found,) = list_calls(torch.ops.aten.embedding.default, (table, rows), {}, table[rows])
    assert found == StepOperator("move", 0.0, 2 * 2 * 8 * 4 + 2 * 8)


def test_small_moves_are_one_and_nothing_else_is_folded():
    large, small = StepOperator("product", 1.0, 1e6), StepOperator("move", 0.0, 100.0, calls=7)
    update, move = StepOperator("update", 0.0, 100.0), StepOperator("move", 0.0, 6000.0)
    assert fold_small((large, small, update, move)) == (large, update, move, StepOperator("move", 0.0, 700.0))
    assert fold_small(()) == ()


def test_batches_of_other_shapes_say_by_how_much_steps_differ():
    network = nn.Linear(8, 8)
    batches = iter([torch.randn(10, 8), torch.randn(15, 8)])
    assert count_work(lambda batch: network(batch).sum().backward(), lambda: next(batches)).varies == pytest.approx(0.5)
