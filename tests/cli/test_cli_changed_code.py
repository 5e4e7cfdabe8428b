"""A race of trainings of your own whose code becomes another meanwhile: its rounds are not of one training."""

from __future__ import annotations

from pathlib import Path

import pytest

TRAINING = (Path(__file__).parents[2] / "examples" / "numpy_training.py").read_text(encoding="utf-8")
SPOILS = """
from pathlib import Path

with Path(__file__).with_name("base.py").open("a") as base:
    base.write("# changed\\n")
"""


@pytest.mark.long
def test_code_that_changes_during_a_race_is_named(house):
    """By whomever: an editor, or a training that slows the one next to it."""
    (house.folder / "base.py").write_text(TRAINING)
    (house.folder / "honest.py").write_text(TRAINING)
    (house.folder / "spoils.py").write_text(TRAINING + SPOILS)

    def same_work(other):
        words = ("base.py:training", f"{other}.py:training", "python/cpu", "--heats", "2", "--budget", "5s")
        (comparison,) = house.raced(*words)["answer"]["comparisons"]
        return comparison["same_work"]

    assert same_work("honest") is True
    assert same_work("spoils") == {"missing": "base.py was changed during the race"}
