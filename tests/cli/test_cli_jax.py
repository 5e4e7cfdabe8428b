"""Steps of your own in JAX, by the command that users type; the examples that the README names."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("example", "lane"),
    [
        ("jax_training.py", "jax/cpu/input=resident"),
        pytest.param("equinox_training.py", "jax/cpu", marks=pytest.mark.long),
    ],
)
def test_an_example_is_raced_and_proven(torch_house, example, lane):
    """With its data on the device, and as it comes."""
    record = torch_house.raced(f"{EXAMPLES / example}:training", lane, "--heats", "1", "--budget", "2s")
    assert {(lane["status"], lane["parity"]["status"]) for lane in record["lanes"]} == {("ok", "same")}
    assert {lane["items_per_step"] for lane in record["lanes"]} == {128}
    assert list(record["lanes"][0]["framework"]) == ["jax", "jaxlib"]
    assert all(lane["step_ms"]["median"] > 0 for lane in record["lanes"])


def test_a_workload_of_ours_is_refused_in_a_jax_lane(torch_house):
    """Keras's lanes run it in JAX."""
    done = torch_house.done("race", "cifar-mlp", "jax/cpu", code=2)
    assert "its lanes run steps of your own" in done.err
    assert "laptime race cifar-mlp keras-jax" in done.err


@pytest.mark.long
@pytest.mark.skipif(Path("/dev/nvidia0").exists(), reason="there is a card")
def test_a_build_for_cards_that_finds_none_says_that_it_computes_on_the_processor(torch_house):
    """JAX goes on without a word where its CUDA plugin fails, as this one that is planted does."""
    plugin = torch_house.folder / "planted" / "jax_plugins" / "xla_cuda12"
    plugin.mkdir(parents=True)
    source = "def initialize():\n    raise RuntimeError('Unable to load CUDA. Is it installed?')\n"
    (plugin / "__init__.py").write_text(source, encoding="utf-8")
    folders = [str(torch_house.folder / "planted"), *filter(None, [os.environ.get("PYTHONPATH")])]
    env, what = {"PYTHONPATH": os.pathsep.join(folders)}, f"{EXAMPLES / 'jax_training.py'}:training"
    said = " ".join(torch_house.done("race", what, "jax", "--dry-run", env=env).out.split())
    assert "jax/cpu/as-written" in said
    assert "this build is for CUDA and sees no card: it computes on the processor" in said
    done = torch_house.done("race", what, "jax/cuda", code=2, env=env)
    assert "JAX's plugin xla_cuda12 is installed and finds no card or driver" in done.err
