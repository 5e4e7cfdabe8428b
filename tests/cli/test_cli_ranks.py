"""Real processes that train one network together in PyTorch: the same work, the batch of each, and what ends them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

CORES = os.cpu_count() or 1
pytestmark = pytest.mark.skipif(CORES < 2, reason="two processes need two cores")
OWN = Path(__file__).with_name("own_ranks.py")
QUICK = ("--heats", "1", "--budget", "2s", "--sensors", "none")


def raced(house, *words):
    record = house.done("race", *words, *QUICK, "--json", "-q", is_wide=True).json
    return {lane["name"].removeprefix("torch/"): lane for lane in record["lanes"]}


def words_of(text):
    return " ".join(text.split())


@pytest.mark.long
def test_several_processes_do_the_work_of_one_and_each_loads_its_own_items(torch_house):
    lanes = ("torch/cpu/threads=1", "torch/2xcpu", "torch/2xcpu/weak", "torch/2xcpu/fsdp", "torch/2xcpu/sync=none")
    found = raced(torch_house, f"{OWN}:from_loader", *lanes)
    status = {name: (lane["parity"]["status"], lane["items_per_step"]) for name, lane in found.items()}
    assert status == {
        "cpu/threads=1": ("same", 32),
        "2xcpu/as-written": ("same", 32),
        "2xcpu/weak": ("same", 64),
        "2xcpu/fsdp": ("same", 32),
        "2xcpu/sync=none": ("unproven", 32),
    }
    assert found["2xcpu/sync=none"]["parity"]["reason"] == "sync=none exchanges no gradients, on purpose"
    for name, steps in (("2xcpu/as-written", 8), ("2xcpu/weak", 4)):
        lap_ms = found[name]["lap_s"]["median"] * 1e3
        assert steps / 2 < lap_ms / found[name]["step_ms"]["median"] < 1.5 * steps
    result = found["2xcpu/weak"]["heats"][0]
    assert [each["rank"] for each in result["heat"]["ranks"]] == [0, 1]
    assert len(result["heat"]["exchanges"]) == 2
    assert all(len(window["ranks"]["rank_ns"]) == 2 for window in result["heat"]["windows"])
    assert all(window["ranks"]["slowest_ns"] >= max(window["ranks"]["rank_ns"]) for window in result["heat"]["windows"])
    memory = [each["peak_memory_bytes"] for each in result["heat"]["ranks"]]
    assert found["2xcpu/weak"]["peak_memory_bytes"] >= sum(memory)


@pytest.mark.long
def test_a_scale_profiles_the_exchange_and_batch_norm_has_a_reference_of_its_own(torch_house):
    """Batches are kept, so that no further experiments are raced."""
    words = ("scale", f"{OWN}:with_norms", "torch/cpu/threads=1+input=cached", "--devices", "2", "--strong")
    record = torch_house.done(*words, *QUICK, "--json", "-q", is_wide=True).json
    one, two, alone = record["lanes"]
    assert [each["parity"]["status"] for each in (one, two)] == ["same", "same"]
    assert "sees each of 2 parts of a batch alone" in two["notes"][-1]
    assert not any("parts of a batch" in note for note in one["notes"])
    first, second = two["heats"][0]["heat"]["ranks"]
    seen = first["collectives"]
    assert seen["by"].startswith("torch.profiler of PyTorch")
    assert 0 < seen["exposed_ns"] <= seen["in_progress_ns"] <= seen["step_ns"]
    assert second["collectives"] is None
    assert alone["heats"][0]["heat"]["ranks"][0]["collectives"] is None
    (curve,) = record["answer"]["scaling"]["curves"]
    assert curve["profiled"]["exposed"]["value"] == pytest.approx(seen["exposed_ns"] / seen["step_ns"])
    assert set(curve["absent"]) == {"held_out"}


@pytest.mark.long
def test_a_rank_that_falls_ends_the_heat_with_its_reason(torch_house):
    """One that ends without a word is in test_cli_scale.py. This heat starts as users start it."""
    words = ("race", f"{OWN}:raises", "torch/2xcpu", *QUICK, "-q")
    answer = torch_house.done(*words, code=3, starts="cold", is_wide=True)
    assert "rank 1: ValueError: planted in rank 1" in words_of(answer.out)
