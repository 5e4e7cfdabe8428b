"""The same training in several frameworks, each in a process of its own, by the command that users type.

A whole training in Keras is next to PyTorch's, in test_cli_watched.py.
"""

from __future__ import annotations

import pytest

from long_cases import cases

# Keras on PyTorch is raced against PyTorch's own loop in test_cli_files.py.
ENGINES = {"keras-tf": "tensorflow", "keras-jax": "jax"}


@pytest.mark.parametrize("names", cases(["keras-tf"], long=[[*ENGINES]]), ids=["one engine", "all engines"])
def test_a_race_across_frameworks_proves_the_same_work(torch_house, names):
    """PyTorch's own loop and Keras on its engines, against one float64 reference; versions are in the record."""
    record = torch_house.raced("cifar-mlp", "torch/cpu", *names, "--heats", "1", "--budget", "2s")
    proven = [(lane["parity"]["status"], lane["status"]) for lane in record["lanes"]]
    assert proven == [("same", "ok")] * (1 + len(names))
    assert all(lane["parity"]["worst"] < lane["parity"]["tolerance"] / 2 for lane in record["lanes"])
    for lane, name in zip(record["lanes"][1:], names, strict=True):
        engine = ENGINES[name]
        assert lane["name"] == f"{name}/cpu/as-written"
        assert list(lane["framework"])[:2] == ["keras", engine]
        (result,) = lane["heats"]
        assert lane["step_ms"]["median"] > 1
        assert result["heat"]["first_step_ns"] > 0
        assert bool(result["heat"]["windows"][0]["step_ns"]) == (name != "keras-jax")
    assert {each["lane"].split("/")[0] for each in record["answer"]["comparisons"]} == set(names)
