"""A race of trainings of your own whose code becomes another meanwhile: its rounds are not of one training."""

from __future__ import annotations

from pathlib import Path

import pytest

TRAINING = (Path(__file__).parents[2] / "examples" / "numpy_training.py").read_text(encoding="utf-8")
# A whole comment more at each import, or once: while the race is still prepared, the function is called.
SPOILS = """
from pathlib import Path

base = Path(__file__).with_name("base.py")
if {when}:
    base.write_text(base.read_text() + "# changed\\n")
"""


@pytest.mark.long
def test_code_that_changes_during_a_race_is_named(house):
    """By whomever: an editor, or a training that slows the one next to it."""
    (house.folder / "base.py").write_text(TRAINING)
    (house.folder / "spoils.py").write_text(TRAINING + SPOILS.format(when="True"))
    (house.folder / "spoils_once.py").write_text(TRAINING + SPOILS.format(when="'# changed' not in base.read_text()"))

    def same_work(other):
        words = ("base.py:training", f"{other}.py:training", "python/cpu", "--heats", "2", "--budget", "5s")
        (comparison,) = house.raced(*words)["answer"]["comparisons"]
        return comparison["same_work"]

    for other in ("spoils_once", "spoils"):
        assert same_work(other) == {"missing": "during the race, base.py holds something else"}
        (house.folder / "base.py").write_text(TRAINING)
