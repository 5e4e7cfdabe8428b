"""The census of denormal numbers: what it counts, what of large tensors, and that it leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import planted_orders
import pytest
import torch
from torch import nn

from laptime.engine.backends.torch.backend import TorchTraining
from laptime.engine.backends.torch.symptoms import SAMPLE, DenormalCount, sample, take_census
from laptime.model.process import Settings
from laptime.model.quantities import Missing
from laptime.model.symptoms import FLOW, GRADIENTS, OUTPUTS, SUMS, WEIGHTS

FILE = str(Path(__file__).with_name("own_memorised.py"))
TINY = 1e-40


def runner_of(function, **settings):
    return TorchTraining(planted_orders.own_order(FILE, function, Settings(**settings))).start()


class Stepper:
    """A network whose loss is as small as wanted, with what a census looks at."""

    is_eager = True

    def __init__(self, scale: float, network: nn.Module) -> None:
        self.network, self._scale = network, scale
        self.optimizer = torch.optim.SGD(network.parameters(), lr=0.0, momentum=0.9)

    def step(self) -> None:
        self.optimizer.zero_grad()
        (self.network(torch.ones(8, 16)).sum() * self._scale).backward()
        self.optimizer.step()
        self.optimizer.zero_grad()  # as some trainings do at the end of a step


@pytest.fixture(scope="module")
def memorised():
    """Return the censuses of a training that memorises its batches, early and late."""
    before = torch.get_num_threads()
    runner = runner_of("memorised", threads=1)
    runner.run(2)
    early = runner.census()
    runner.run(120)
    late = runner.census()
    torch.set_num_threads(before)
    return early, late


def test_a_training_that_memorises_its_batches_has_denormal_numbers(memorised):
    """On any processor: they flow back through its layers, while weights and outputs have none."""
    early, late = memorised
    assert set(early.shares) == {WEIGHTS, GRADIENTS, SUMS, OUTPUTS, FLOW}
    assert (early.worst[0], early.costs) == (0.0, False)
    assert late.costs
    assert late.worst[1] in {GRADIENTS, FLOW, SUMS}
    assert (late.shares[WEIGHTS], late.shares[OUTPUTS]) == (0.0, 0.0)
    assert (late.types, late.flushed, late.unseen) == (("float32",), False, None)


def test_what_flows_back_is_counted_where_a_step_clears_its_gradients():
    """Also through a layer that changes its input in place."""
    network = nn.Sequential(nn.Linear(16, 16), nn.ReLU(inplace=True), nn.Linear(16, 4))
    stepper = Stepper(TINY, network)
    found = take_census(stepper, stepper.step)
    assert found.shares[FLOW] > 0.5  # the rest is 0
    assert found.shares[GRADIENTS] > 0.2
    assert not any(each._backward_hooks or each._forward_hooks for each in network.modules())
    assert not any(each._post_accumulate_grad_hooks for each in network.parameters())
    stepper = Stepper(1.0, network)
    assert take_census(stepper, stepper.step).shares[FLOW] == 0.0


def test_a_step_that_was_compiled_is_not_taken():
    """What it left behind is counted all the same."""
    stepper = Stepper(1.0, nn.Sequential(nn.Linear(16, 4)))
    stepper.is_eager = False
    found = take_census(stepper, lambda: pytest.fail("a step was taken"))
    assert set(found.shares) == {WEIGHTS}
    assert "compiled or captured" in found.unseen


@pytest.mark.parametrize(
    "shape",
    [(3, 5), (SAMPLE,), (64, 128, 16, 16), (512, 1024), (2, 3, 300, 301)],
    ids=lambda shape: "x".join(map(str, shape)),
)
def test_a_sample_of_a_tensor_has_its_share(shape):
    """Wherever the denormal numbers are: all in one channel, in one row, or anywhere."""
    for layout in (torch.contiguous_format, torch.channels_last if len(shape) == 4 else torch.contiguous_format):
        values = torch.ones(shape).contiguous(memory_format=layout)
        assert sample(values).numel() <= SAMPLE
        values.select(1 if len(shape) > 1 else 0, 0).mul_(TINY)
        exact = float((values < 0.5).float().mean())
        counted = DenormalCount()
        counted.take("values", [values])
        assert counted.shares()["values"] == pytest.approx(exact, rel=0.15, abs=1e-4)


def test_an_expanded_tensor_is_not_copied():
    """As the gradient of a sum is: one number, a million times."""
    assert sample(torch.full((1,), TINY).expand(1000, 1000)).numel() == 1


def test_a_lane_that_trains_nothing_has_no_census():
    assert isinstance(runner_of("memorised", input="only").census(), Missing)


def test_a_census_counts_the_items_of_its_batch(memorised):
    """So a batch that becomes smaller after the proof is seen."""
    assert [each.items for each in memorised] == [32, 32]
