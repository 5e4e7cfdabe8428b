"""Steps of one's own in JAX, by the command that users type; the examples that the README names."""

from __future__ import annotations

from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("example", "lanes"),
    [("jax_training.py", ("jax/cpu", "jax/cpu/input=resident")), ("equinox_training.py", ("jax/cpu",))],
)
def test_an_example_is_raced_and_proven(torch_house, example, lanes):
    """With its data as it comes, and on the device."""
    record = torch_house.raced(f"{EXAMPLES / example}:training", *lanes, "--heats", "1", "--budget", "5s")
    assert {(lane["status"], lane["parity"]["status"]) for lane in record["lanes"]} == {("ok", "same")}
    assert {lane["items_per_step"] for lane in record["lanes"]} == {128}
    assert list(record["lanes"][0]["framework"]) == ["jax", "jaxlib"]
    assert all(lane["step_ms"]["median"] > 0 for lane in record["lanes"])


def test_a_step_in_a_torch_lane_says_where_it_runs(torch_house):
    done = torch_house.done("race", f"{EXAMPLES / 'jax_training.py'}:training", "torch/cpu", "--quiet", code=3)
    said = " ".join(done.out.split())
    assert "gives a step function, which JAX lanes run, and python lanes in any other framework" in said
    assert "(race it on jax/cpu or python/cpu)" in said


def test_a_workload_of_ours_is_refused_in_a_jax_lane(torch_house):
    """Keras's lanes run it in JAX."""
    done = torch_house.done("race", "cifar-mlp", "jax/cpu", code=2)
    assert "its lanes run steps of your own" in done.err
    assert "laptime race cifar-mlp keras-jax" in done.err
