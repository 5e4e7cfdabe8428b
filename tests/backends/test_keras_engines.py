"""Keras computes with the engine that a lane names: it reads the choice once, when it is imported."""

from __future__ import annotations

import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import laptime

pytest.importorskip("keras")

HOUSE = Path(laptime.__file__).parent
OPENED = """
import sys
from laptime.engine.backends.keras import open_room

assert "keras" not in sys.modules
back_end = open_room({framework!r})
import keras
print(keras.backend.backend())
"""
TOO_EARLY = """
import os
os.environ["KERAS_BACKEND"] = {other!r}
import keras
from laptime.engine.backends.keras import open_room
from laptime.model.errors import LaneError

try:
    open_room({framework!r})
except LaneError as error:
    print(error.says)
"""


def run(program):
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout


@pytest.mark.long
@pytest.mark.parametrize(("framework", "engine"), [("keras-torch", "torch"), ("keras-jax", "jax")])
def test_a_lane_of_keras_has_the_engine_of_its_name(framework, engine):
    """In a process that has nothing in its environment, where Keras takes TensorFlow on its own."""
    if find_spec(engine) is None:
        pytest.skip(f"{engine} is not installed")
    assert run(OPENED.format(framework=framework)).strip() == engine


@pytest.mark.long
def test_an_engine_that_was_chosen_too_late_is_refused():
    """Its figures would be those of another framework."""
    pytest.importorskip("torch")
    told = run(TOO_EARLY.format(framework="keras-torch", other="numpy"))
    assert told.startswith("keras-torch: Keras was imported before its engine was chosen, and computes with numpy")


@pytest.mark.parametrize("places", [["keras/on_tensorflow.py"], ["jax/__init__.py", "jax/backend.py"]])
def test_what_an_engine_reads_when_it_is_imported_is_set_before(places):
    """What it writes, and how much of a card it takes: in the file, or in the package, which is imported first."""
    lines = [
        line
        for place in places
        for line in HOUSE.joinpath("engine", "backends", place).read_text(encoding="utf-8").splitlines()
    ]
    sets = [number for number, line in enumerate(lines) if line.startswith("os.environ")]
    imports = [number for number, line in enumerate(lines) if line.startswith(("import jax", "import tensorflow"))]
    assert sets
    assert imports
    assert max(sets) < min(imports)
