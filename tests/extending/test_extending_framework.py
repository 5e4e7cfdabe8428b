"""The recipe "A framework": a package outside laptime adds a row and a back end, and a race runs on it."""

from __future__ import annotations

import pytest
from outside_package import install

ROW = """
from laptime.model.frameworks import EngineRow, FrameworkRow

ROW = FrameworkRow(name="toy", backend="toy_backend", engine=EngineRow("toy"), family="toy", imports=("toy",))
"""
BACKEND = """
from laptime.engine.backends.fake import FakeBackend


class ToyBackend(FakeBackend):
    name = "toy"

    def versions(self):
        return {"toy": "0.1"}


def open_room(framework):
    return ToyBackend()
"""
ENTRY_POINTS = """
[laptime.frameworks]
toy = toy_framework:ROW
"""


@pytest.mark.long
def test_a_framework_added_from_outside_races(house):
    """It is scouted, planned and timed in real child processes, and its record names its version."""
    environment = install(house.folder / "site", ENTRY_POINTS, toy_framework=ROW, toy_backend=BACKEND)
    record = house.raced("cifar-mlp", "toy/cpu", "fake/cpu", "--heats", "1", "--budget", "5s", env=environment)
    lane = record["lanes"][0]
    assert (record["exit code"], lane["name"], lane["status"]) == (0, "toy/cpu/as-written", "ok")
    assert lane["framework"] == {"toy": "0.1"}
    assert lane["parity"]["status"] == "same"


def test_without_the_package_there_is_no_such_framework(house):
    """The lane is refused with the frameworks that there are."""
    answer = house.race("cifar-mlp", "toy/cpu")
    assert answer.code == 2
    assert "'toy' is neither a framework nor a device" in answer.err
    assert "frameworks: torch, jax, keras-tf, keras-jax, keras-torch, python; devices" in answer.err
