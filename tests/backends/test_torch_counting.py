"""What a step computes and moves, counted operator by operator, next to what its layers say."""

from __future__ import annotations

import time

import pytest

torch = pytest.importorskip("torch")

from torch import nn  # noqa: E402
from torch.utils.checkpoint import checkpoint  # noqa: E402

from laptime.attach.operators import (  # noqa: E402
    CountingMode,
    counting,
    list_calls,
    moved_bytes,
    size_bytes,
)
from laptime.engine.backends.torch.counting import count_work  # noqa: E402
from laptime.engine.backends.torch.recipe import (  # noqa: E402
    build_network,
    make_loss,
)
from laptime.engine.backends.torch.runners import outermost  # noqa: E402
from laptime.model.hardware import StepOperator  # noqa: E402
from laptime.trainings.workloads import find_workload  # noqa: E402
from laptime.trainings.workloads.shapes import as_operators, list_operators  # noqa: E402


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
    listed = as_operators(mode.found)
    forward, *gradients = (each for each in listed for _ in range(each.calls) if each.flops)
    assert {each.kind for each in (forward, *gradients)} == {kind}
    assert [each.flops for each in gradients] == [forward.flops] * 2
    places = given if isinstance(layer, nn.ConvTranspose2d) else layer(given)
    assert forward.flops == 2 * 2 * places[0, 0].numel() * layer.weight.numel()


def attend(**given):
    """Return the operators of attention, forward and back."""
    query = torch.randn(2, 4, 64, 16, requires_grad=True)
    with counting() as mode:
        nn.functional.scaled_dot_product_attention(query, query, query, **given).sum().backward()
    return [each for each in as_operators(mode.found) if each.flops]


ONE_PRODUCT = 2 * 2 * 4 * 64 * 64 * 16


@pytest.mark.parametrize(
    ("given", "share"),
    [
        ({}, 1.0),
        ({"is_causal": True}, 0.5),
        ({"dropout_p": 0.1}, 1.0),
        ({"is_causal": True, "dropout_p": 0.1}, 0.5),
        ({"attn_mask": torch.ones(64, 64, dtype=torch.bool)}, 1.0),
    ],
)
def test_attention_in_one_pass_is_counted_as_on_a_card(given, share):
    """Two products forward and five backward; half of them where what comes later is skipped. No scores are written."""
    found = attend(**given)
    assert [(each.kind, each.flops) for each in found] == [
        ("flash", 2 * share * ONE_PRODUCT),
        ("flash", 5 * share * ONE_PRODUCT),
    ]
    values_bytes, scores_bytes = 2 * 4 * 64 * 16 * 4, 2 * 4 * 64 * 64 * 4
    assert found[0].bytes < 4 * values_bytes + scores_bytes


def test_attention_that_is_written_out_has_products_of_its_own_kind():
    query = torch.randn(8, 64, 16, requires_grad=True)
    with counting() as mode:
        scores = torch.bmm(query, query.transpose(1, 2)).softmax(-1)
        torch.bmm(scores, query).sum().backward()
    found = [each for each in as_operators(mode.found) if each.flops]
    assert {each.kind for each in found} == {"attention"}
    assert sum(each.calls * each.flops for each in found) == 6 * ONE_PRODUCT


def test_dropout_is_one_operator_each_way_as_on_a_card():
    """Values are read and written, and a mask of a byte each."""
    values = torch.randn(1000, requires_grad=True)
    with counting() as mode:
        nn.Dropout(0.5)(values).backward(torch.ones(1000))
    assert mode.found[("move", 0.0, 9000.0, ())] == 2
    assert sum(mode.found.values()) <= 3, mode.found


def test_frozen_weights_have_no_gradients_to_compute():
    """Of five products, the gradient of the first layer's weights is one, and that of the second's another."""
    first, second = nn.Linear(64, 64, bias=False), nn.Linear(64, 64, bias=False)
    for frozen, products in (((), 5), ((first,), 3), ((second,), 4), ((first, second), 2)):
        for layer in (first, second):
            layer.weight.requires_grad_(requires_grad=layer not in frozen)
        rows = torch.randn(16, 64)
        with counting() as mode:
            answers = second(first(rows)).sum()
            if answers.requires_grad:
                answers.backward()
        assert mode.flops == products * 2 * 16 * 64 * 64, frozen


def test_checkpointed_layers_are_computed_twice():
    layers, rows = nn.Sequential(nn.Linear(64, 64), nn.Tanh(), nn.Linear(64, 64)), torch.randn(16, 64)
    rows.requires_grad_()
    flops = []
    for again in (False, True):
        with counting() as mode:
            made = checkpoint(layers, rows, use_reentrant=False) if again else layers(rows)
            made.sum().backward()
        flops.append(mode.flops / (2 * 16 * 64 * 64))
    assert flops == [6, 7], "what the last layer makes is not needed again"


def test_a_sparse_gradient_updates_the_rows_that_it_has():
    """Three rows of a thousand: a gradient is read, and weights and both sums are read and written."""
    table = nn.Embedding(1000, 8, sparse=True)
    optimizer = torch.optim.SparseAdam(table.parameters())
    for _ in range(2):
        optimizer.zero_grad()
        with counting() as mode:
            table(torch.tensor([1, 2, 3])).sum().backward()
            optimizer.step()
    (update,) = (each for each in as_operators(mode.found) if each.kind == "update")
    assert update.bytes == 3 * (8 * 4 + 8) + 2 * 3 * 3 * 8 * 4


def test_products_of_16_bits_are_told_apart():
    rows, layer = torch.randn(16, 64), nn.Linear(64, 64)
    with counting() as mode, torch.autocast("cpu", torch.bfloat16):
        layer(rows)
    assert mode.narrow == mode.flops > 0


LAYER_BYTES, VALUE_BYTES, LAYERS = 256 * 256 * 4, 64 * 256 * 4, 4


def held_in(gradients, **optimizer):
    """Return the parts of a step of four layers: in its passes, and in its update."""
    network = nn.Sequential(*(nn.Linear(256, 256, bias=False) for _ in range(LAYERS)))
    optimizer, rows = torch.optim.AdamW(network.parameters(), **optimizer), torch.randn(64, 256)

    def step():
        if gradients == "freed":
            optimizer.zero_grad()
        loss = network(rows).square().mean()
        if gradients == "late":
            optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if gradients == "kept":
            optimizer.zero_grad(set_to_none=False)

    step()
    with counting() as mode:
        step()
    parts = mode.memory.parts()
    return mode.memory, parts["passes"], parts["update"]


def test_what_a_step_holds_is_followed():
    """Weights, two moments and the batch were there; the step makes activations and gradients, and frees them."""
    memory, passes, update = held_in("freed", fused=True)
    whole = LAYERS * LAYER_BYTES
    assert update[:3] == [whole, pytest.approx(2 * whole, abs=LAYERS * 512), whole]
    assert passes[:2] == update[:2]
    assert VALUE_BYTES <= passes[3] == update[3] <= VALUE_BYTES + 512
    assert LAYERS * LAYER_BYTES <= passes[2] + passes[4] < LAYERS * LAYER_BYTES + 7 * VALUE_BYTES
    assert update[4] < VALUE_BYTES
    assert memory.kept_bytes() > 0


def test_gradients_that_a_step_frees_late_are_held_next_to_its_activations():
    """Freed before the passes, they grow as activations shrink."""
    passes = {gradients: held_in(gradients, fused=True)[1] for gradients in ("freed", "late", "kept")}
    for gradients in ("late", "kept"):
        assert passes[gradients][2] == LAYERS * LAYER_BYTES
        assert passes[gradients][4] >= LAYERS * VALUE_BYTES
        assert sum(passes[gradients]) > sum(passes["freed"])


def test_an_optimizer_that_a_card_runs_at_once_copies_all_its_weights():
    """PyTorch does so on a card by default, and never on a processor. Its groups stay as they are."""
    copied = {how: held_in("freed", **given)[2][4] for how, given in (("", {}), ("one by one", {"foreach": False}))}
    assert LAYERS * LAYER_BYTES <= copied[""] < LAYERS * LAYER_BYTES + VALUE_BYTES
    assert copied["one by one"] < LAYERS * LAYER_BYTES, "of two weights at once"
    optimizer = torch.optim.AdamW(nn.Linear(2, 2).parameters())
    with counting():
        optimizer.step()
    assert optimizer.param_groups[0]["foreach"] is None


def test_what_the_iteration_before_left_is_held_until_it_is_freed():
    """A script that still names its last answers holds them while it makes the next ones."""
    layer, rows, answers = nn.Linear(256, 4 * 256, bias=False), torch.randn(64, 256), None

    def step(*, keeps):
        nonlocal answers
        answers = answers if keeps else None
        with torch.no_grad():
            answers = layer(rows)

    made = []
    for keeps in (False, True):
        step(keeps=keeps)
        with counting() as mode:
            step(keeps=keeps)
        made.append(mode.memory.parts()["passes"][4])
    assert made == [4 * VALUE_BYTES, 2 * 4 * VALUE_BYTES]


def test_weights_that_do_not_learn_are_weights_without_moments_or_gradients():
    frozen, learned = nn.Linear(256, 256, bias=False).requires_grad_(False), nn.Linear(256, 8, bias=False)
    optimizer = torch.optim.Adam(learned.parameters(), fused=True)

    def step():
        optimizer.zero_grad()
        learned(frozen(torch.randn(64, 256))).sum().backward()
        optimizer.step()

    step()
    with counting() as mode:
        step()
    weights, moments, gradients, *_ = mode.memory.parts()["update"]
    assert weights == LAYER_BYTES + 8 * 256 * 4
    assert 2 * 8 * 256 * 4 <= moments <= 2 * 8 * 256 * 4 + 512
    assert gradients == 8 * 256 * 4


@torch.library.custom_op("laptime_tests::doubled", mutates_args=())
def doubled(values: torch.Tensor) -> torch.Tensor:
    return values * 2


def test_an_operator_of_somebody_else_is_counted_by_its_bytes():
    with CountingMode() as mode:
        doubled(torch.ones(100))
    assert ("unknown", 0.0, 800.0, ()) in mode.found


def test_only_what_is_chosen_of_a_table_is_read():
    table, rows = torch.zeros(1000, 8), torch.tensor([1, 2])
    (found,) = list_calls(torch.ops.aten.embedding.default, (table, rows), {}, table[rows])
    assert found == ("move", 0.0, 2 * 2 * 8 * 4 + 2 * 8, ())


def test_small_moves_are_one_and_nothing_else_is_folded():
    counted = {
        ("product", 1.0, 1e6, ()): 1, ("move", 0.0, 100.0, ()): 7, ("update", 0.0, 100.0, ()): 1,
        ("move", 0.0, 6000.0, ()): 1,
    }  # fmt: skip
    assert as_operators(counted) == (
        StepOperator("product", 1.0, 1e6),
        StepOperator("update", 0.0, 100.0),
        StepOperator("move", 0.0, 6000.0),
        StepOperator("move", 0.0, 700.0),
    )
    assert as_operators({}) == ()


def test_what_no_agent_counts_is_refused():
    with pytest.raises(ValueError, match="no such operator: wish"):
        as_operators({("wish", 1.0, 1.0, ()): 1})


def test_batches_of_other_shapes_say_by_how_much_steps_differ():
    network = nn.Linear(8, 8)
    batches = iter([torch.randn(10, 8), torch.randn(15, 8)])
    assert count_work(lambda batch: network(batch).sum().backward(), lambda: next(batches)).varies == pytest.approx(0.5)
