"""PyTorch's products and its copy, really measured at a small size."""

from __future__ import annotations

import pytest
import torch

from laptime.engine import wire
from laptime.engine.backends.base import CONVOLUTION, COPIED_ELSEWHERE, PRODUCT, TURNED_IN_PLACE
from laptime.engine.backends.torch.backend import open_room
from laptime.engine.backends.torch.devices import TorchExercises, read_switches, set_switches
from laptime.engine.heat.gauge import run_gauge
from laptime.model.hardware import COPY_EXERCISE, PeakOrder
from laptime.model.machine import Device

CPU = Device("cpu", "cpu", "processor", usable=True)
ROWS = 48


class Notebook:
    """A line to nobody: writes down what was said."""

    def __init__(self) -> None:
        self.said: list[wire.FromChild] = []

    def say(self, message: wire.FromChild) -> None:
        self.said.append(message)

    def listen(self) -> wire.FromParent:
        return wire.Enough()


@pytest.fixture(autouse=True)
def switches():
    """Leave PyTorch's switches as they were."""
    left = read_switches()
    yield
    set_switches(left)


def test_a_real_processor_shows_its_rates():
    """Between what any processor has and what none has; bytes are counted as read and as written."""
    line = Notebook()
    run_gauge(open_room(), PeakOrder("torch", CPU, ("fp32",), 256, 32_000_000), line)
    told = {message.limit: message for message in line.said if isinstance(message, wire.Rated)}
    assert [each.reason for each in told.values()] == [None, None]
    assert 1e8 < told["fp32"].peak.median_per_s <= told["fp32"].peak.best_per_s < 1e14
    assert 1e8 < told[COPY_EXERCISE].peak.best_per_s < 1e13
    assert told["fp32"].peak.by == f"torch {torch.__version__}"
    assert "of 256 rows" in told["fp32"].peak.of


@pytest.mark.parametrize(("precision", "near"), [("fp32", 1e-5), ("bf16", 3e-2), ("fp16", 3e-3)])
def test_both_ways_are_whole_products(precision, near):
    """Each gives what float64 has of the same matrices: none leaves anything out."""
    exercises = TorchExercises(CPU)
    assert exercises.products == (PRODUCT, CONVOLUTION)
    left, right = _drawn(precision)
    torch.manual_seed(7)
    product = exercises.product(precision, PRODUCT, ROWS)
    torch.testing.assert_close(product.once().double(), left @ right, rtol=near, atol=near * ROWS)
    torch.manual_seed(7)
    convolution = exercises.product(precision, CONVOLUTION, ROWS)
    answered = convolution.once().double().reshape(ROWS, ROWS).t()
    torch.testing.assert_close(answered, left @ right.t(), rtol=near, atol=near * ROWS)
    assert product.work == convolution.work == 2 * ROWS**3


def test_a_copy_is_one():
    """All bytes arrive elsewhere, or are turned where they are; each counts twice."""
    exercises = TorchExercises(CPU)
    copied, turned = (exercises.copy(way, 4096) for way in (COPIED_ELSEWHERE, TURNED_IN_PLACE))
    assert (copied.once().sum(), turned.once().sum(), turned.once().sum()) == (1024, -1024, 1024)
    assert copied.work == turned.work == 2 * 4096


def _drawn(precision):
    """Draw the matrices that the exercise draws."""
    kind = {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]
    torch.manual_seed(7)
    return tuple(torch.randn(ROWS, ROWS).to(kind).double() for _ in range(2))
