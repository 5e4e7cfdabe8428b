"""The nouns hold still, stand on the standard library alone, and never show an absence as a zero."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import sys
from dataclasses import FrozenInstanceError, is_dataclass
from pathlib import Path

import pytest

from laptime import model
from laptime.model.ask import Ask
from laptime.model.machine import Device
from laptime.model.quantities import Missing
from laptime.model.workload import ProofPlan

MODULES = [each.name for each in pkgutil.iter_modules(model.__path__, "laptime.model.")]
NOUNS = sorted(
    {
        noun
        for name in MODULES
        for noun in vars(importlib.import_module(name)).values()
        if isinstance(noun, type) and is_dataclass(noun) and noun.__module__ == name
    },
    key=lambda noun: noun.__name__,
)


@pytest.mark.parametrize("noun", NOUNS, ids=lambda noun: noun.__name__)
def test_every_noun_is_frozen_and_slotted(noun):
    """What one stage hands to the next cannot be changed behind its back."""
    assert noun.__dataclass_params__.frozen
    assert hasattr(noun, "__slots__")


@pytest.mark.parametrize("name", MODULES)
def test_the_nouns_stand_on_the_standard_library(name):
    """A record outlives the code that made it, and the libraries under that."""
    tree = ast.parse(Path(importlib.import_module(name).__file__).read_text(encoding="utf-8"))
    named = [node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    named += [alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names]
    assert {each.split(".")[0] for each in named} <= sys.stdlib_module_names | {"laptime"}


def test_an_ask_cannot_be_changed():
    """What was asked is in the record as it was asked."""
    ask = Ask()
    with pytest.raises(FrozenInstanceError):
        ask.what = "another"


def test_an_ask_of_nothing_is_the_default_race():
    """cifar-cnn on whatever is there, for a minute, to within 5 %."""
    assert Ask("cifar-cnn", (), None, 60.0, 0.05, 0, pretrained=False, patience_s=600.0, watchdog_s=60.0) == Ask()


def test_memory_that_nobody_reported_is_missing_with_its_reason():
    """Never a zero, never a bare None."""
    assert Device("cpu", "cpu", "processor", usable=True).memory_bytes == Missing("not reported")


@pytest.mark.parametrize(("step", "scale"), [(0, 4e-4), (1, 1e-4), (9, 1e-4)])
def test_the_first_step_of_the_proof_weighs_four_times_as_much(step, scale):
    """The loss is multiplied before its gradient is taken."""
    assert scale == pytest.approx(ProofPlan(loss_scale=1e-4).scale_of(step))
