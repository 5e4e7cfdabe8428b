"""What a training script takes from laptime comes alone: no framework, and not the rest of the house."""

from __future__ import annotations

import inspect
import json
import subprocess
import sys
from pathlib import Path

import pytest

import laptime

DOCS = Path(__file__).parents[2] / "docs" / "remedies.md"
FRAMEWORKS = {"torch", "keras", "jax", "tensorflow"}
REMEDIES = [name for name, place in laptime.PUBLIC_PLACES.items() if place.startswith("remedies.")]
TELL = "import json, sys, laptime; laptime.{name}; print(json.dumps(sorted(sys.modules)))"


def modules_after(name):
    ended = subprocess.run(
        [sys.executable, "-c", TELL.format(name=name)], capture_output=True, text=True, check=True, timeout=60
    )
    return set(json.loads(ended.stdout))


@pytest.mark.parametrize("name", REMEDIES)
def test_a_remedy_opens_nothing_else(name):
    """Neither a framework nor laptime's own engine; and a script that takes none opens none."""
    seen = modules_after(name)
    assert not seen & FRAMEWORKS
    assert not {
        each for each in seen if each.startswith(("laptime.api", "laptime.engine.backends", "laptime.questions"))
    }
    without = modules_after("Training")
    assert not {each for each in without if each.startswith("laptime.remedies")}
    assert "numpy" not in without


@pytest.mark.parametrize("name", REMEDIES)
def test_a_remedy_is_public_and_told_of(name):
    """In the list of names, with a docstring, and on its page."""
    assert name in laptime.__all__
    assert len(inspect.getdoc(getattr(laptime, name))) > 200
    assert f"laptime.{name}(" in DOCS.read_text(encoding="utf-8")


def test_the_page_speaks_of_all_fifteen_causes():
    """In a table with a row each."""
    rows = [line for line in DOCS.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    numbers = {cell.strip() for line in rows for cell in line.split("|")[1].split(",")}
    assert {str(number) for number in range(1, 16)} <= numbers
