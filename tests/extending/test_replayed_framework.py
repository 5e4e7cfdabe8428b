"""The framework `python` once more: its folder and its row. Without them nothing knows that steps can run alone."""

from __future__ import annotations

import pytest
from replay import ask, check_all_else_works, copy_without, files_naming

PLACES = {"engine/backends/python": (), "model/frameworks.py": ("python",)}
NAMED_IN_A_HINT = {"engine/backends/keras/own_model.py"}  # "race it on jax/cpu or python/cpu"

KNOWN = """
import ast
import json

from laptime.cli.help import lanes_text
from laptime.model.errors import UsageError
from laptime.model.frameworks import all_frameworks, find_framework, step_families
from laptime.model.plan import OwnBatches, OwnTraining
from laptime.planner.lanes import parse_lane
from laptime.planner.refusals import refuse_kind
from laptime.questions.subject import family_in, find_subject


def said(make):
    try:
        return make()
    except UsageError as error:
        return [error.says, error.hint]


steps = OwnTraining("step", "list", takes_workers=False, batches=OwnBatches("no list"), has_fence=False)
with open("no_training.py", "w") as file:
    file.write("import numpy\\n")
print(json.dumps({
    "frameworks": list(all_frameworks()),
    "step families": sorted(step_families()),
    "family": [family_in(ast.parse(f"import {name}"), gives_step=True) for name in ("numpy", "jax", "torch")],
    "lane": said(lambda: parse_lane("python/cpu").framework),
    "refused": said(lambda: refuse_kind(find_framework("keras-tf"), steps, "my.py:training"))[1],
    "in help": "python" in lanes_text().partition("Frameworks:")[2].partition("Presets")[0],
    "as for jax": [bool(row.training_lines) for row in all_frameworks().values() if row.name == "jax"],
    "no training": "optimizer=optimizer" in said(lambda: find_subject("no_training.py"))[1],
}))
"""
OTHERS = ["torch", "jax", "keras-tf", "keras-jax", "keras-torch"]


@pytest.fixture(scope="module")
def without(tmp_path_factory):
    return copy_without(tmp_path_factory.mktemp("source"), PLACES)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path, monkeypatch):
    """Let the programs write their files in a folder of their own."""
    monkeypatch.chdir(tmp_path)


def test_it_is_in_two_places():
    """`python` is also a program, a version and what binds a forecast: only words of the framework are looked for."""
    found = files_naming("python/cpu", "backends.python", 'family="python"', 'family == "python"', 'name="python"')
    assert {place for place in found if not place.startswith("engine/backends/python/")} == {
        "model/frameworks.py",
        *NAMED_IN_A_HINT,
    }


@pytest.mark.long
def test_with_them_a_step_function_runs_alone():
    assert ask(KNOWN) == {
        "frameworks": [*OTHERS, "python", "fake"],
        "step families": ["jax", "python", "torch"],
        "family": ["python", "jax", "torch"],
        "lane": "python",
        "refused": "race it on python/cpu, or on torch/cpu or jax/cpu if it is theirs",
        "in help": True,
        "as for jax": [True],
        "no training": True,
    }


def test_without_its_two_places_nothing_knows_it(without):
    found = ask(KNOWN, without)
    says, hint = found.pop("lane")
    assert says == "lane 'python/cpu': 'python' is neither a framework nor a device"
    assert hint.startswith("frameworks: torch, jax, keras-tf, keras-jax, keras-torch; devices: ")
    assert found == {
        "frameworks": [*OTHERS, "fake"],
        "step families": ["jax", "torch"],
        "family": [None, "jax", "torch"],
        "refused": "race it on torch/cpu or jax/cpu if it is theirs",
        "in help": False,
        "as for jax": [True],
        "no training": True,
    }


@pytest.mark.long
def test_all_else_works_without_it(without, tmp_path):
    check_all_else_works(without, tmp_path)
