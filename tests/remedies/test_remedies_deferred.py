"""A meter asks for a number only when it is read; what it says is what `item()` in each step would have said."""

from __future__ import annotations

import subprocess
import sys
from importlib import util

import numpy as np
import pytest
import torch

import laptime
from laptime.model.errors import UsageError


class OnDevice:
    """An array of one number on a device that counts how often a program waits for it."""

    waits = 0
    shape = ()
    dtype = "float32"

    def __init__(self, value):
        self.value = value

    def __add__(self, other):
        return OnDevice(self.value + (other.value if isinstance(other, OnDevice) else other))

    __radd__ = __add__

    def __mul__(self, other):
        return OnDevice(self.value * other)

    def __float__(self):
        type(self).waits += 1
        return float(self.value)


def test_nobody_waits_until_it_is_read():
    """A hundred steps, read at every 50th: two readings, and in each the sum and the last value."""
    meter = laptime.Deferred(every=50)
    OnDevice.waits = 0
    told = [meter.add(OnDevice(step)) for step in range(1, 101)]
    assert [step for step, reading in enumerate(told, 1) if reading] == [50, 100]
    assert OnDevice.waits == 4
    assert (told[49].steps, told[49].mean, told[49].last) == (50, 25.5, 50)
    assert (told[99].steps, told[99].mean, told[99].last) == (100, 50.5, 100)


def test_reading_changes_nothing_and_a_reset_begins_anew():
    meter = laptime.Deferred()
    for value in (1.0, 2.0, 6.0):
        assert meter.add(value) is None
    assert meter.read() == meter.read()
    assert (meter.read().mean, meter.read().last, meter.read().steps) == (3, 6, 3)
    meter.reset()
    meter.add(5)
    assert (meter.read().mean, meter.read().steps) == (5, 1)


def test_batches_of_different_sizes_weigh_as_much_as_they_hold():
    meter = laptime.Deferred()
    meter.add(torch.tensor(1.0), items=30)
    meter.add(torch.tensor(4.0), items=10)
    assert meter.read().mean == 1.75


def test_a_loss_leaves_its_gradients_behind():
    """What is kept holds no graph, and is a copy: the same tensor may be filled again by the next step."""
    weights = torch.ones(3, requires_grad=True)
    meter = laptime.Deferred()
    loss = (weights * 2).sum()
    meter.add(loss)
    assert not meter._waiting.requires_grad
    buffer = torch.tensor([0.0])
    for value in (1.0, 2.0, 3.0):
        buffer.fill_(value)
        meter.add(buffer)
    buffer.fill_(100)
    assert (meter.read().mean, meter.read().last) == (3.0, 3.0)


@pytest.mark.parametrize(
    "values",
    [
        [1, 2, 3, 6],
        [1.5, 2.5],
        [np.float32(1.5), np.float64(2.5)],
        [np.array(1.5), np.array([2.5])],
        [np.bool_(True), np.bool_(False)],
        [torch.tensor(3), torch.tensor(4)],
        [torch.tensor(True), torch.tensor(True), torch.tensor(False)],
        [torch.tensor([[1.5]]), torch.tensor(2.5, dtype=torch.float64)],
        [torch.tensor(256.0, dtype=torch.bfloat16)] * 300,
        [torch.tensor(2000.0, dtype=torch.float16)] * 100,
        [torch.tensor(0.1)] * 3 + [float("nan")],
    ],
    ids=str,
)
def test_the_mean_is_that_of_the_numbers(values):
    """Numbers and arrays of one; half precision overflows or stays the same in a sum, and does not here."""
    meter = laptime.Deferred()
    for value in values:
        meter.add(value)
    numbers = [float(value if np.ndim(value) == 0 else np.ravel(value)[0]) for value in values]
    assert meter.read().mean == pytest.approx(sum(numbers) / len(numbers), nan_ok=True)
    assert meter.read().last == pytest.approx(numbers[-1], nan_ok=True)


def test_long_sums_stay_exact():
    """Single precision would have lost the fifth digit; the sum goes to the host at each reading."""
    meter = laptime.Deferred(every=100)
    for _ in range(20_000):
        meter.add(torch.tensor(0.1))
    assert meter.read().mean == pytest.approx(float(torch.tensor(0.1)), rel=1e-6)


@pytest.mark.parametrize(
    ("value", "says"),
    [
        (torch.ones(3), r"Tensor of shape \(3,\), expected one number"),
        (np.ones((2, 2)), r"ndarray of shape \(2, 2\)"),
        ("0.5", "a meter was given str"),
        (None, "a meter was given NoneType"),
    ],
)
def test_what_is_no_number_is_refused(value, says):
    with pytest.raises(UsageError, match=says):
        laptime.Deferred().add(value)


@pytest.mark.parametrize("every", [0, -1, 2.5, True])
def test_readings_lie_a_whole_number_of_steps_apart(every):
    with pytest.raises(UsageError, match="how many steps lie between two readings"):
        laptime.Deferred(every=every)


def test_an_empty_meter_says_so():
    with pytest.raises(UsageError, match="before anything was added"):
        laptime.Deferred().read()


ALONE = {
    "jax": "import jax.numpy as np; value = lambda number, kind: np.asarray(number, kind)",
    "tensorflow": "import tensorflow as tf; value = lambda number, kind: tf.constant(number, kind)",
}
PROGRAM = """\
import laptime
{make}
for kind in ("float32", "bfloat16", "float16"):
    meter = laptime.Deferred(every=2)
    told = [meter.add(value(number, kind)) for number in (1.0, 2.0, 3.0, 2050.0)]
    assert (told[0], told[2]) == (None, None)
    assert (told[1].mean, told[1].last) == (1.5, 2.0), told
    assert told[3].mean == (6 + float(value(2050.0, kind))) / 4, (kind, told)
meter = laptime.Deferred()
meter.add(value(7, "int32")); meter.add(value([8], "int32"))
assert meter.read().mean == 7.5
print("as it should be")
"""


@pytest.mark.long
@pytest.mark.parametrize("framework", ALONE)
def test_arrays_of_other_frameworks(framework):
    """In a process of their own; Keras's losses are those of its engine."""
    if util.find_spec(framework) is None:
        pytest.skip(f"there is no {framework} here")
    program = PROGRAM.format(make=ALONE[framework])
    ended = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=120)
    assert ended.returncode == 0, ended.stderr[-2000:]
    assert ended.stdout == "as it should be\n"


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="PyTorch sees no card here")
@pytest.mark.filterwarnings("ignore:Synchronization debug mode is a prototype")
def test_a_card_is_not_waited_for():
    """PyTorch raises where a program waits for the card, when it is set to."""
    meter = laptime.Deferred()
    losses = torch.arange(10.0, device="cuda")
    torch.cuda.set_sync_debug_mode("error")
    try:
        for place in range(10):
            meter.add(losses[place], items=2)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    assert meter.read().mean == 4.5
