"""`laptime doctor`, and a race, where two cards are here and PyTorch is a build for processors."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from scripted_cards import FIRST, SECOND, cards, lines

pytestmark = pytest.mark.framework
EXAMPLE = f"{Path(__file__).parents[3] / 'examples' / 'dict_training.py'}:training"  # it is small, and so is its proof
PLACES = ((FIRST, "00000000:3B:00.0"), (SECOND, "00000000:5E:00.0"))
# PyTorch alone is installed.
TORCH_ALONE = """\
from importlib import util

there = util.find_spec
util.find_spec = lambda name, package=None: (
    None if name.partition(".")[0] in {"keras", "jax", "tensorflow"} else there(name, package)
)
"""


@pytest.fixture(scope="module")
def scripted(library, tmp_path_factory, torch_house):
    """Return any command on that machine."""
    folder = tmp_path_factory.mktemp("two")
    (folder / "machine").write_text(lines(cards(*PLACES)))
    (folder / "sitecustomize.py").write_text(TORCH_ALONE)
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    hidden = {"LD_LIBRARY_PATH": str(library), "LAPTIME_TEST_NVML": str(folder / "machine"), "PYTHONPATH": path}
    return lambda *words, **more: torch_house.done(*words, env=hidden, **more)


@pytest.mark.long
def test_each_card_has_its_cause_and_its_command(scripted):
    """Exit code 5, since not every device can be used; the processor is tried, and works."""
    told = scripted("devices", "--check", "--json", code=5).json
    unused = told["unused"]
    assert [(each["about"], each["cause"]) for each in unused] == [
        ("NVIDIA H200 (0000:3b:00) in torch", "cpu build"),
        ("NVIDIA H200 (0000:5e:00) in torch", "cpu build"),
    ]
    assert {each["command"] for each in unused} == {
        "pip uninstall -y torch && pip install torch  # on Linux the default build is for CUDA"
    }
    (tried,) = told["trials"]
    assert (tried["framework"], tried["device"]) == ("torch", "cpu")
    assert tried["product"]["best_per_s"] > 1e9


@pytest.mark.long
def test_a_race_says_first_that_a_card_is_not_used(scripted):
    """Above its figures, both cards in one line."""
    page = scripted("race", EXAMPLE, "torch/cpu", "--heats", "1", "--budget", "1s", "--quiet").out.splitlines()
    said = next(place for place, line in enumerate(page) if "(0000:3b:00) and 1 more are not used in torch" in line)
    table = next(place for place, line in enumerate(page) if line.startswith("  torch/cpu "))
    assert said < table
    assert "is a build for processors only. pip uninstall -y torch" in " ".join(map(str.strip, page[said : said + 3]))
