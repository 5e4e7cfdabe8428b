"""Keras models of one's own, by the command that users type; the example that the README names."""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parents[2]
EXAMPLE = ROOT / "examples" / "keras_training.py"
OWN = ROOT / "tests" / "contracts" / "own_keras.py"


def test_a_compiled_model_is_raced_in_keras_where_no_lane_is_named(torch_house):
    """Its file says what it is written for; as written and at its best."""
    record = torch_house.raced(f"{EXAMPLE}:training", "--heats", "1", "--budget", "5s")
    assert [lane["name"] for lane in record["lanes"]] == ["keras-tf/cpu/as-written", "keras-tf/cpu/best"]
    assert {(lane["status"], lane["parity"]["status"]) for lane in record["lanes"]} == {("ok", "same")}
    assert {lane["items_per_step"] for lane in record["lanes"]} == {32}
    assert all(lane["lap_s"]["median"] > 180 * lane["step_ms"]["median"] / 1e3 for lane in record["lanes"])
    assert record["workload"]["parameters"] == 54_277


def test_engines_are_held_against_each_other(torch_house):
    """From the same weights; another rate on one of them is found."""
    lanes = ("keras-torch/cpu", "keras-jax/cpu")
    record = torch_house.raced(f"{OWN}:other_rate_on_jax", *lanes, "--heats", "1", "--budget", "3s")
    assert [lane["parity"]["status"] for lane in record["lanes"]] == ["same", "differs"]
    assert record["exit code"] == 4


def test_a_loader_that_hangs_ends_its_own_lane(torch_house):
    """In words, when patience is at its end."""
    words = ("--heats", "1", "--budget", "3s", "--watchdog", "2s", "--patience", "15s")
    record = torch_house.raced(f"{OWN}:never_ends_on_jax", "keras-jax/cpu", *words)
    (lane,) = record["lanes"]
    assert lane["status"] == "dnf"
    assert "hung: no word for" in lane["reason"]
    assert record["exit code"] == 3


def test_a_compiled_model_is_trained_whole(torch_house):
    """Lap by lap; it has no test of its own."""
    record = torch_house.raced(f"{EXAMPLE}:training", "keras-jax/cpu", "--full", "--laps", "2")
    (run,) = record["full"]["runs"]
    assert (run["status"], len(run["laps"])) == ("ok", 2)
    assert run["laps"][1]["score"]["accuracy"] > run["laps"][0]["score"]["accuracy"] > 0.5
