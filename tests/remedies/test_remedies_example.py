"""The example of a cached dataset, by the command that its page names."""

from __future__ import annotations

from pathlib import Path

import pytest

pytestmark = pytest.mark.long

EXAMPLE = Path(__file__).parents[2] / "examples" / "cached_training.py"
LEAST = 1.5  # on the busiest machine; bench/cached.py measures it


def test_the_cached_training_is_faster_and_does_the_same(torch_house):
    """Each is proven against float64; both train the same network on the same images."""
    torch_house.is_brief = False  # the first lap of a cached dataset is as slow as any, and has to be over
    whats = (f"{EXAMPLE}:{function}" for function in ("training", "cached_training"))
    record = torch_house.raced(*whats, "torch/cpu", "--heats", "1", "--budget", "3s")
    plain, cached = record["lanes"]
    assert record["exit code"] == 0
    assert [(lane["status"], lane["parity"]["status"]) for lane in (plain, cached)] == [("ok", "same")] * 2
    assert plain["items_per_step"] == cached["items_per_step"] == 16
    assert plain["step_ms"]["median"] > LEAST * cached["step_ms"]["median"]
    first, second = (lane["heats"][0]["heat"]["proofs"][0]["losses"] for lane in (plain, cached))
    assert first == pytest.approx(second, rel=1e-5)
