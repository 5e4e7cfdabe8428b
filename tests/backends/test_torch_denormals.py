"""Denormal numbers are flushed in every thread that computes: the switch is a thread's own. Each in its own process."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
BUILD = """
import planted_orders, torch
from laptime.backends.torch.backend import TorchBackend
from laptime.model.lane import Settings
{before}
order = planted_orders.own_order({file!r}, "tiny", Settings(threads=2, denormals={kind!r}))
TorchBackend().build(order)
rows, small = torch.full((512, 512), 1e-30), torch.full((512, 512), 1e-10)
many = torch.full((1 << 20,), 1e-30)
print(sum(int(each.view(torch.int32).count_nonzero()) for each in (rows @ small, many * 1e-10)))
"""


def built(kind, before=""):
    code = BUILD.format(file=str(HERE / "own_counterfactuals.py"), kind=kind, before=before)
    command = [sys.executable, "-c", code]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=120, cwd=HERE)


@pytest.mark.parametrize(("kind", "left"), [("keep", (1 << 18) + (1 << 20)), ("flush", 0)])
def test_all_threads_flush(kind, left):
    """Of two large products on two threads all is left without the switch, and nothing with it."""
    ended = built(kind)
    assert ended.returncode == 0, ended.stderr
    assert int(ended.stdout) == left


def test_threads_that_were_there_before_are_told_of():
    """A product before the switch has started them, and they keep what they had."""
    ended = built("flush", "torch.set_num_threads(2); torch.ones(512, 512) @ torch.ones(512, 512)")
    assert ended.returncode == 1
    assert "denormals=flush did not reach all threads of PyTorch" in ended.stderr
