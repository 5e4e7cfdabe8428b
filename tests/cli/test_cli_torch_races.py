"""Short real races in PyTorch, by the command that users type."""

import json
import shutil
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


@pytest.mark.long
def test_a_real_race_proves_the_same_work_and_gives_a_factor(torch_house):
    """As written, and at its best: two lanes of one proven training; the best has what it says that it sets.

    Each heat is started as users start it, and imports PyTorch.
    """
    lanes = ("torch/cpu", "torch/cpu/best")
    record = torch_house.raced("cifar-cnn", *lanes, "--heats", "1", "--budget", "5s", starts="cold")
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same"] * 2
    assert record["workload"]["parameters"] == 1_337_002
    assert record["lanes"][0]["parity"]["worst"] < 1e-6
    for lane in record["lanes"]:
        assert len(lane["heats"]) == 1
        assert lane["lap_s"]["median"] == pytest.approx(lane["step_ms"]["median"] * 500 / 1000, rel=0.3)
        assert lane["items_per_s"]["median"] == pytest.approx(100_000 / lane["step_ms"]["median"])
        assert lane["startup_s"] > lane["heats"][0]["heat"]["process"]["phases_s"]["import"] > 0.2
        assert all(len(result["heat"]["windows"]) >= 3 for result in lane["heats"])
        assert all(result["heat"]["losses"][-1] < 2.4 for result in lane["heats"])
    settings = record["lanes"][1]["settings"]
    assert (settings["layout"], settings["optimizer"], settings["malloc"]) == ("channels_last", "fused", "keep")
    machine = record["machine"]
    assert settings["threads"] == max(1, machine["processor"]["cores_usable"] - machine["cores_taken"])
    assert all(each["pairs"] == 1 and each["same_work"] for each in record["answer"]["comparisons"])
    if has_card(record["machine"]):
        assert record["cards"] is None
    else:
        check_cards(record, torch_house.done("show", record["id"], "--details").out)


def has_card(machine):
    devices = [device for framework in machine["frameworks"] for device in framework["devices"]]
    return bool(machine["cards"]) or any(each["usable"] and each["kind"] != "cpu" for each in devices)


def check_cards(record, page):
    """Where a machine has no card, what some would bring the faster lane is predicted."""
    cards = record["cards"]
    if any(each["rule"] == "not reliable" for each in record["findings"]):  # the tests next to it may disturb it
        assert cards is None
        return
    rates = {lane["name"]: lane["items_per_s"]["median"] for lane in record["lanes"]}
    assert cards["lane"] == max(rates, key=rates.get)
    assert [each["card"] for each in cards["rows"]] == ["NVIDIA T4", "NVIDIA GeForce RTX 4090", "NVIDIA H100 SXM5 80GB"]
    assert cards["loader_is_known"]
    assert 1 < cards["rows"][0]["factor"]["middle"] < cards["rows"][2]["factor"]["middle"]
    assert "Cards, as predicted: T4 " in page


@pytest.mark.long
def test_settings_are_reachable_by_name_in_the_example_of_a_training_of_ones_own(torch_house):
    """Each is carried to the child, and the lane finishes. With no instruments, nothing is read; fp16 strays.

    torch.compile needs g++ for the processor, and is refused where there is no compiler.
    """
    example = f"{ROOT / 'examples' / 'own_training.py'}:training"
    has_compiler = bool(shutil.which("g++") or shutil.which("clang++"))
    words = ("--heats", "1", "--budget", "2s", "--sensors", "none")
    if not has_compiler:
        refused = torch_house.done("race", example, "torch/cpu/compile", *words, "--quiet", code=2)
        assert "needs a compiler" in refused.err
    lanes = [f"torch/cpu/{each}" for each in ("fp16+threads=1+pinning=cores+onednn=off", *(["compile"] * has_compiler))]
    record = torch_house.raced(example, *lanes, *words)
    assert [(lane["name"], lane["status"]) for lane in record["lanes"]] == [(lane, "ok") for lane in lanes]
    assert {lane["parity"]["status"] for lane in record["lanes"]} == {"same"}
    assert record["lanes"][0]["parity"]["strays"] > record["lanes"][0]["parity"]["worst"]
    assert {result["heat"]["process"]["timeline"] for lane in record["lanes"] for result in lane["heats"]} == {None}
    assert {lane["usage"] for lane in record["lanes"]} == {None}
    page = torch_house.done("show", record["id"], "--details").out
    assert "54,277 parameters" in page
    assert lanes[0] in page
    # One step was counted next to the reference, so that a forecast knows its operators.
    work = record["reference"]["work"]
    assert {each["kind"] for each in work["operators"]} == {"product", "move", "update"}
    assert work["flops"] == 2 * 128 * 512 * (2 * 100 + 3 * 5)
    told = json.loads(torch_house.done("forecast", record["id"], lanes[0], "--on", "t4", "--json").out)
    assert (told["what"], told["laps"]) == ("own_training.py:training", 1)
    lap, row = record["lanes"][0]["lap_s"], told["rows"][0]
    assert told["per"] == ("1,000 steps" if lap is None else "lap")  # none is stated where its heats differ too much
    longer = row["step_ms"]["middle"] / record["lanes"][0]["step_ms"]["median"]
    assert row["step_ms"]["high"] > 1.5 * row["step_ms"]["low"], "a network of which no step was fitted"
    assert row["lap_s"]["middle"] == pytest.approx(
        row["step_ms"]["middle"] if lap is None else longer * lap["median"], rel=0.001
    )
    # What the counted step held, besides the least that CUDA takes: weights, gradients and two moments at least.
    memory = row["memory_bytes"]
    assert 450_000_000 + 4 * 4 * 54_277 / 1.06 < memory["low"] < memory["middle"] < memory["high"] < 2_200_000_000
    assert "T4 would take" in torch_house.done("forecast", record["id"], lanes[0], "--on", "t4").out


def test_the_example_of_dict_batches_is_raced_where_no_lane_is_named(torch_house):
    """As models of Hugging Face take them: no loss is given. As written and at its best, as for any of your own."""
    example = f"{ROOT / 'examples' / 'dict_training.py'}:training"
    record = torch_house.raced(example, "--heats", "1", "--budget", "2s", starts="torch")
    assert [lane["name"] for lane in record["lanes"]] == ["torch/cpu/as-written", "torch/cpu/best"]
    assert [(lane["status"], lane["parity"]["status"]) for lane in record["lanes"]] == [("ok", "same")] * 2
    assert {lane["items_per_step"] for lane in record["lanes"]} == {32}
