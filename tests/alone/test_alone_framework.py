"""Whatever is installed is enough: with one framework alone, as with all, races run and what is absent is said.

`make test-matrix` runs this in environments that hold PyTorch, TensorFlow or JAX alone; `make test` in the full one.
"""

from __future__ import annotations

import importlib.util
import json

import pytest

from laptime import api
from laptime.api import showing
from laptime.model.ask import Ask
from laptime.model.errors import UsageError
from laptime.model.frameworks import FRAMEWORKS
from laptime.planner import make_plan
from laptime.questions.subject import find_subject

pytestmark = pytest.mark.long

MODULES = {row.name: row.modules for row in FRAMEWORKS if row.modules}
OURS = ("torch", "keras-tf", "keras-jax", "keras-torch")
HERE = [name for name, modules in MODULES.items() if all(map(importlib.util.find_spec, modules))]
ABSENT = [name for name in MODULES if name not in HERE]
ENGINES = {"keras-tf": "tensorflow", "keras-jax": "jax", "keras-torch": "torch", "torch": "torch"}


@pytest.fixture(scope="module")
def machine():
    """Ask every framework once, each in a process of its own."""
    return api.devices()


@pytest.fixture(scope="module")
def rows(machine):
    return [row for row in json.loads(showing.to_json(showing.device_rows(machine))) if row["framework"] is not None]


def plan(machine, **asked):
    return make_plan(Ask(what="cifar-mlp", **asked), machine, *find_subject("cifar-mlp"))


def test_what_is_installed_is_listed_with_its_processor(rows):
    """And nothing else is."""
    assert {row["framework"] for row in rows} - {"fake"} == {*HERE, "python"}
    usable = {row["framework"] for row in rows if row["kind"] == "cpu" and row["usable"]}
    assert usable - {"fake"} == {*HERE, "python"}


@pytest.mark.long
def test_every_framework_here_is_planned(machine):
    lanes = {lane.framework for lane in plan(machine, every=True).lanes if "/cpu" in lane.name}
    assert lanes - {"fake"} == set(HERE) & set(OURS)


@pytest.mark.skipif(len(HERE) > 3, reason="with all of them available, tests/cli races them side by side")
@pytest.mark.parametrize("name", [name for name in HERE if name in OURS])
def test_a_framework_races_and_is_proven_with_no_other_beside_it(torch_house, name):
    """As written against its best, with a float64 reference that it has computed itself."""
    words = (f"{name}/cpu", f"{name}/cpu/best", "--heats", "1", "--budget", "3s")
    record = torch_house.raced("cifar-mlp", *words)
    assert [(lane["status"], lane["parity"]["status"]) for lane in record["lanes"]] == [("ok", "same")] * 2
    assert ENGINES[name] in record["lanes"][0]["framework"]


@pytest.mark.parametrize("name", ABSENT)
def test_an_absent_framework_is_refused_with_the_way_to_get_it(torch_house, name):
    done = torch_house.done("race", "cifar-mlp", f"{name}/cpu", code=2, starts="cold")  # no server has it prepared
    assert f"{name} is not installed here" in done.err
    assert "pip install" in done.err


@pytest.mark.parametrize("name", HERE)
def test_a_card_that_is_not_there_is_refused_before_anything_runs(machine, rows, name):
    """With what its framework says of itself, and what there is."""
    cards = [row for row in rows if row["framework"] == name and row["kind"] == "cuda"]
    if any(row["usable"] for row in cards):
        pytest.skip("there is a card")
    (absent,) = cards
    with pytest.raises(UsageError) as caught:
        plan(machine, lanes=(f"{name}/cuda",))
    assert caught.value.says == f"device cuda is not there for {name}: {absent['reason']}"
    assert caught.value.hint == "usable here: cpu"
