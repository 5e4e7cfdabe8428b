"""Only those frameworks are scouted that a race is about."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from planner_machines import CPU, OWN, machine_with, plan_for, subject_of

from laptime.model.ask import Ask
from laptime.model.frameworks import find_framework, step_families
from laptime.model.machine import Framework, Machine
from laptime.planner.groups import split_processor
from laptime.planner.lanes import frameworks_asked
from laptime.trainings.workloads import find_workload

CIFAR = subject_of(find_workload("cifar-cnn"))
ALL = ("torch", "jax", "keras-tf", "keras-jax", "keras-torch", "python")


def machine(*names: str) -> Machine:
    return replace(machine_with(CPU), frameworks=tuple(Framework(name, "3.15", {}, (CPU,)) for name in names or ALL))


def own(written_for: str | None):
    return replace(OWN, written_for=written_for)


@pytest.mark.parametrize(
    ("lanes", "frameworks"),
    [
        ((), ("torch",)),
        (("cpu", "cpu/best"), ("torch",)),
        (("fake/cpu", "cpu", "fake/cuda"), ("fake", "torch")),
    ],
)
def test_only_the_frameworks_that_are_named_are_scouted(lanes, frameworks):
    """In the order in which they were named; PyTorch where none was."""
    assert frameworks == frameworks_asked(Ask(lanes=lanes), machine(), CIFAR)


@pytest.mark.parametrize(
    ("written_for", "installed", "framework"),
    [
        (None, ALL, "torch"),
        ("torch", ALL, "torch"),
        ("jax", ALL, "jax"),
        ("python", ALL, "python"),
        ("keras", ALL, "keras-tf"),
        ("keras", ("torch", "keras-jax", "keras-torch"), "keras-jax"),
        ("keras", (), "keras-tf"),
    ],
)
def test_a_file_is_raced_in_what_it_is_written_for(written_for, installed, framework, monkeypatch):
    """Keras with the engine that it would take itself, of those that are there."""
    monkeypatch.delenv("KERAS_BACKEND", raising=False)
    assert frameworks_asked(Ask(), machine(*installed), own(written_for)) == (framework,)


def test_keras_own_variable_names_the_engine(monkeypatch):
    """As it does in a script."""
    monkeypatch.setenv("KERAS_BACKEND", "torch")
    assert frameworks_asked(Ask(), machine(), own("keras")) == ("keras-torch",)


@pytest.mark.parametrize(
    ("subject", "frameworks"),
    [
        (CIFAR, ("torch", "keras-tf", "keras-jax", "keras-torch")),
        (own(None), ALL[:-1]),
        (own("python"), ("python",)),
        (own("keras"), ("keras-tf", "keras-jax", "keras-torch")),
        (own("jax"), ("jax",)),
    ],
)
def test_every_framework_that_can_run_it(subject, frameworks):
    """A step is no form of ours; a user's file has the form that it has."""
    assert frameworks_asked(Ask(every=True), machine(), subject) == frameworks


def test_a_users_keras_file_is_planned_as_keras_takes_it():
    """What laptime cannot replace is refused, as in other frameworks."""
    (lane,) = plan_for(machine(), "keras-tf/cpu/input=cached", what="mine").lanes
    assert (lane.framework, lane.settings.input) == ("keras-tf", "cached")


def test_a_planned_lane_has_the_row_of_its_framework_and_a_record_its_name():
    """No stage asks the table again, and the table of another version may have other rows."""
    (lane,) = plan_for(machine_with(CPU), "torch/cpu").lanes
    assert (lane.row, lane.row.name) == (find_framework("torch"), "torch")
    assert {"framework": "torch"}.items() <= msgspec.to_builtins(lane).items()
    assert "row" not in msgspec.to_builtins(lane)


def test_what_runs_steps_and_what_splits_a_processor_is_in_the_rows():
    assert step_families() == {"torch", "jax", "python"}
    for name in ("jax", "keras-jax"):
        assert "XLA_FLAGS" in split_processor(find_framework(name), (CPU, CPU), 4)
    assert split_processor(find_framework("keras-tf"), (CPU, CPU), 4) == {}
