"""Copies to a card have a part of their own. There is no card here: a stand-in for PyTorch has tensors that say so."""

from __future__ import annotations

import pytest
from test_attach_pythons import STAND_IN
from watcher import Watcher

pytestmark = pytest.mark.long

COPY_MS, COMPUTE_MS = 4, 2
SCRIPT = f"""
import sys, time
sys.path.insert(0, {str(STAND_IN)!r})
import torch
from torch.utils.data import DataLoader

class Place:
    def __init__(self, name): self.name, self.type = name, name.partition(":")[0]
    def __str__(self): return self.name

def to(self, place):
    time.sleep({COPY_MS / 1e3})
    moved = torch.Tensor(self.value, self.shape)
    moved.device = Place(place)
    return moved

torch.Tensor.to = torch.Tensor.cuda = to
weight = torch.Tensor(0.0, (5,))
weight.device, weight.dtype = Place(sys.argv[1]), "torch.float32"
torch.optim.optimizer.Optimizer.param_groups = ({{"params": [weight]}},)
opt = torch.optim.SGD()
for epoch in range(2):
    for batch in DataLoader([torch.Tensor(0.0, (4,))] * 20):
        if weight.device.type != "cpu":
            batch.to("cuda:0")
        time.sleep({COMPUTE_MS / 1e3})
        torch.Tensor(2.5).backward()
        opt.step()
"""


@pytest.mark.parametrize("place", ["cuda:0", "cpu"])
def test_copies_to_a_card_are_a_part_of_an_iteration(tmp_path, place):
    script = tmp_path / "train.py"
    script.write_text(SCRIPT)
    ended, answer = Watcher(tmp_path).watch("python", str(script), place)
    assert ended.code == 0, ended.err
    (process,) = answer["processes"]
    steady = process["loop"]["steady"]
    assert process["optimizers"][0]["parameters"] == {place: 1}
    assert steady["forward_backward_s"] * 1e3 >= 0.2 * COMPUTE_MS  # a busy machine has no upper end
    parts = [steady[name] for name in steady if name not in {"wall_s", "backward_s"}]
    assert sum(each for each in parts if isinstance(each, float)) == pytest.approx(steady["wall_s"], rel=1e-6)
    if place == "cpu":
        assert "no parameters of an optimizer were seen on a card" in steady["copy_s"]["missing"]
        assert "copying" not in ended.err
    else:
        assert steady["copy_s"] * 1e3 >= 0.4 * COPY_MS
        assert "copying to the card" in ended.err
