"""Denormal numbers are flushed in every thread that computes: the switch is a thread's own. Each in its own process."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

pytestmark = pytest.mark.long

HERE = Path(__file__).parent
FILE = str(HERE / "own_counterfactuals.py")
# PyTorch is imported once, and has computed nothing where the processes part.
BUILD = """
import os, sys
import planted_orders, torch, torch._dynamo
from laptime.engine.backends import open_backend
from laptime.model.errors import LaneError
from laptime.model.process import Settings
for kind, is_late in (("keep", False), ("flush", False), ("flush", True)):
    if os.fork():
        os.wait()
        continue
    if is_late:
        torch.set_num_threads(2)
        torch.ones(512, 512) @ torch.ones(512, 512)
    order = planted_orders.own_order({file!r}, "tiny", Settings(threads=2, denormals=kind))
    try:
        open_backend("torch").build(order)
    except LaneError as error:
        print(error.says)
    else:
        rows, small = torch.full((512, 512), 1e-30), torch.full((512, 512), 1e-10)
        many = torch.full((1 << 20,), 1e-30)
        print(sum(int(each.view(torch.int32).count_nonzero()) for each in (rows @ small, many * 1e-10)))
    sys.stdout.flush()
    os._exit(0)
"""

KERAS = """
import planted_orders
from laptime.engine.backends import open_backend
from laptime.model.process import Settings
room = open_backend("keras-torch")
room.build(planted_orders.built_in_order("cifar-cnn", Settings(denormals="flush")))
from laptime.engine.backends.torch.devices import keeps_denormals
print(room._one_thread(keeps_denormals))
"""


@pytest.fixture(scope="module")
def built():
    """Build a lane in each way, each in a process of its own. Return what they print."""
    command = [sys.executable, "-c", BUILD.format(file=FILE)]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=240, cwd=HERE)
    assert ended.returncode == 0, ended.stderr
    return dict(zip(("keep", "flush", "late"), ended.stdout.splitlines(), strict=True))


@pytest.mark.parametrize(("kind", "left"), [("keep", (1 << 18) + (1 << 20)), ("flush", 0)])
def test_all_threads_flush(built, kind, left):
    """Of two large products on two threads all is left without the switch, and nothing with it."""
    assert int(built[kind]) == left


@pytest.mark.long
@pytest.mark.skipif(find_spec("keras") is None, reason="there is no Keras here")
def test_keras_flushes_in_the_one_thread_in_which_it_computes():
    """And so do the threads that help it there."""
    ended = subprocess.run(
        [sys.executable, "-c", KERAS], capture_output=True, text=True, check=False, timeout=120, cwd=HERE
    )
    assert (ended.returncode, ended.stdout.split()) == (0, ["False"]), ended.stderr


def test_threads_that_were_there_before_are_told_of(built):
    """A product before the switch has started them, and they keep what they had."""
    assert "denormals=flush did not reach all threads of PyTorch" in built["late"]
