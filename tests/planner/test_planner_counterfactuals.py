"""Settings that take one thing out of a step: filled in where they mean something, refused in words elsewhere."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_machines import AMPERE, CPU, machine_with, plan_for

from laptime.model.errors import UsageError
from laptime.model.machine import Device, Framework

OWN = "my.py:training"


def settings_of(device, lane, what):
    return plan_for(machine_with(device), lane, what=what).lanes[0].settings


@pytest.mark.parametrize(
    ("device", "lane", "what", "told"),
    [
        (AMPERE, "cuda/input=copy", "cifar-cnn", {"input": "copy"}),
        (AMPERE, "cuda/input=copy", OWN, {"input": "copy"}),
        (CPU, "cpu/input=one", "cifar-cnn", {"input": "one"}),
        (CPU, "cpu/input=one", OWN, {"input": "one"}),
        (CPU, "cpu/denormals=flush", "cifar-cnn", {"denormals": "flush"}),
        (CPU, "cpu/denormals=keep", OWN, {"denormals": "keep"}),
        (CPU, "cpu/reads=deferred", OWN, {"reads": "deferred"}),
        (AMPERE, "cuda/reads=deferred+input=resident", OWN, {"reads": "deferred", "input": "resident"}),
        (CPU, "cpu/workers=2", OWN, {"workers": 2, "input": "published"}),
        (CPU, "cpu/workers=0+input=only", OWN, {"workers": 0, "input": "only"}),
        (CPU, "cpu/batch=4x", OWN, {"joined": 4, "batch": None}),
        (CPU, "cpu/batch=4x", "cifar-cnn", {"joined": None, "batch": 400}),
        (CPU, "cpu/batch=0.5x", "cifar-cnn", {"joined": None, "batch": 50}),
    ],
)
def test_a_setting_is_filled_in(device, lane, what, told):
    """A built-in's batch is multiplied; of a training of your own, N batches are joined."""
    found = settings_of(device, lane, what)
    assert told == {name: getattr(found, name) for name in told}


@pytest.mark.parametrize(
    ("device", "lane", "what", "says"),
    [
        (
            CPU,
            "cpu/input=copy",
            OWN,
            "input=copy: on a processor batches are where they are used, and nothing is copied",
        ),
        (AMPERE, "cuda/denormals=flush", OWN, "denormals=flush is a switch of processors, and torch/cuda:0 is none"),
        (CPU, "cpu/reads=deferred", "cifar-cnn", "reads=deferred: a step of cifar-cnn reads nothing from its device"),
        (CPU, "cpu/reads=deferred+input=only", OWN, "reads=deferred with input=only: nothing is computed"),
        (AMPERE, "cuda/reads=deferred+compile", OWN, "reads=deferred with compile: what is compiled or captured"),
        (AMPERE, "cuda/reads=deferred+graph", OWN, "reads=deferred with graph: what is compiled or captured"),
        (CPU, "cpu/workers=2+input=one", OWN, "workers=2 with input=one: batches that are kept need no loader"),
    ],
)
def test_what_means_nothing_is_refused(device, lane, what, says):
    """With the way out."""
    with pytest.raises(UsageError) as caught:
        settings_of(device, lane, what)
    assert caught.value.says.startswith(says)
    assert caught.value.hint


def test_a_fake_lane_takes_what_a_real_one_would():
    """So that what looks for causes can be tried without a card."""
    card = Device("cuda:0", "cuda", "fake accelerator", usable=True, features=("malloc",))
    cpu = Device("cpu", "cpu", "fake processor", usable=True, features=("malloc",))
    machine = replace(machine_with(CPU), frameworks=(Framework("fake", "1", {"fake": "1"}, (cpu, card)),))
    lanes = ("fake/cuda/input=copy", "fake/cuda/reads=deferred", "fake/cpu/denormals=flush", "fake/cpu/input=one")
    assert [lane.name for lane in plan_for(machine, *lanes, what="cifar-cnn").lanes] == [
        "fake/cuda:0/input=copy",
        "fake/cuda:0/reads=deferred",
        "fake/cpu/denormals=flush",
        "fake/cpu/input=one",
    ]
