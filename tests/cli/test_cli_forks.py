"""Real races whose heats are forked: a later heat that trains something else is refused."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.long

# A file is read once a process. `late` is true from the second process of the lane with one thread on: its first heat,
# which is proven, is honest, and so are the reference and all other processes.
TRAINING = """
import os
from pathlib import Path

import torch
from torch import nn

import laptime

PLACE = Path(__file__).with_name("heats")
is_mine = os.environ.get("OMP_NUM_THREADS") == "1"
late = is_mine and PLACE.exists()
if is_mine:
    PLACE.touch()


def training():
    model = nn.Sequential(nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 4))
    rate = 0.3 if late and {is_planted} else 0.1
    return laptime.Training(
        model=model,
        loss=nn.functional.cross_entropy,
        optimizer=torch.optim.SGD(model.parameters(), lr=rate),
        data=[(torch.randn(32, 32), torch.randint(0, 4, (32,))) for _ in range(8)],
    )
"""


@pytest.fixture
def race(torch_house, tmp_path):
    def run(*, is_planted):
        place = tmp_path / f"own_{is_planted}.py"
        place.write_text(TRAINING.format(is_planted=is_planted), encoding="utf-8")
        lanes = (
            "torch/cpu/best+threads=2",
            "torch/cpu/best+threads=1",
        )  # at its best on one core it has one thread, too
        return torch_house.raced(f"{place}:training", *lanes, "--heats", "3", "--budget", "5s")

    return run


def test_honest_lanes_are_proven_once_and_forked(race):
    """The first two heats have a template of their own: which comes next is a test of tests/run."""
    record = race(is_planted=False)
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same"] * 2
    for lane in record["lanes"]:
        heats = [result["heat"] for result in lane["heats"]]
        assert [bool(heat["proofs"]) for heat in heats] == [True, False, False]
        assert [heat["first_losses"] for heat in heats] == [heats[0]["first_losses"]] * 3
        assert len({heat["process"]["template"]["number"] for heat in heats}) == 2
        assert lane["startup_s"] > 0


def test_a_later_heat_that_trains_something_else_is_refused(race):
    """Its first losses are others, so it is proven as well, and that proof decides for the lane."""
    record = race(is_planted=True)
    first, planted = record["lanes"]
    assert first["parity"]["status"] == "same"
    assert planted["parity"]["status"] == "differs"
    assert [bool(result["heat"]["proofs"]) for result in planted["heats"]] == [True] * 3
    assert any("its first losses are not those of the heat that was proven" in note for note in planted["notes"])
    assert record["answer"]["comparisons"][0]["same_work"] is False
