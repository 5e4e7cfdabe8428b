"""Lanes whose devices share each step in one process: what their process is started with, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import pytest
from planner_machines import CPU, machine_with, plan_for

from laptime.model.errors import UsageError
from laptime.model.machine import Device, Framework

NAMES = ("keras-tf", "keras-jax", "keras-torch", "jax", "python")
FEATURES = ("bf16", "compile", "malloc")
CARDS = tuple(Device(f"cuda:{number}", "cuda", "a card", usable=True, features=FEATURES) for number in range(2))
DEVICES = (Device("cpu", "cpu", "the processor", usable=True, features=FEATURES), *CARDS)


def machine(usable=6):
    seen = machine_with(CPU, usable=usable)
    return replace(seen, frameworks=(*seen.frameworks, *(Framework(name, "3", {name: "3"}, DEVICES) for name in NAMES)))


def planned(lane, what="my.py:training", usable=6):
    return plan_for(machine(usable), lane, what=what).lanes[0]


def test_xla_makes_devices_of_the_processor(monkeypatch):
    """Next to flags that the user has, and with two threads a device at least."""
    monkeypatch.delenv("XLA_FLAGS", raising=False)
    monkeypatch.delenv("NPROC", raising=False)
    two = "--xla_force_host_platform_device_count=2"
    assert planned("jax/2xcpu").environment == {"XLA_FLAGS": two}
    assert planned("keras-jax/2xcpu/weak", usable=2).environment == {"XLA_FLAGS": two, "NPROC": "4"}
    assert [planned(lane).environment for lane in ("jax/cpu", "jax/2xcuda", "keras-tf/2xcpu")] == [{}] * 3
    monkeypatch.setenv("XLA_FLAGS", "--xla_dump_to=/tmp/x")
    monkeypatch.setenv("NPROC", "3")
    assert planned("jax/2xcpu").environment == {"XLA_FLAGS": f"--xla_dump_to=/tmp/x {two}", "NPROC": "4"}


def test_one_process_has_all_cores():
    """Its devices do not share them out, as processes do."""
    assert planned("keras-jax/2xcpu/best", "cifar-mlp").settings.threads == 6
    assert planned("keras-tf/3xcpu/weak+threads=6").settings.threads == 6
    assert planned("torch/2xcpu", "cifar-mlp").settings.threads == 3
    assert (planned("jax/2xcpu").batches_a_step, planned("jax/2xcpu/weak").batches_a_step) == (1, 2)


@pytest.mark.parametrize("lane", ["jax/2xcuda", "keras-jax/2xcuda/best", "keras-tf/2xcuda/best", "keras-tf/2xcpu"])
def test_several_devices_share_a_step(lane):
    """What is best for one card and not possible on two is left out."""
    assert len(planned(lane).devices) == 2


@pytest.mark.parametrize(
    ("lane", "what", "says"),
    [
        ("keras-torch/2xcpu", "cifar-mlp", "2xcpu: laptime trains keras-torch on one device a lane"),
        ("python/2xcpu", "my.py:training", "2xcpu: laptime trains python on one device a lane"),
        ("jax/2xcpu", "cifar-mlp", "its lanes run steps of your own"),
        ("jax/2xcpu/ddp", "my.py:training", "ddp is of PyTorch, and jax shares a step out itself"),
        ("jax/2xcpu/sync=none", "my.py:training", "this lane is one process"),
        ("jax/7xcpu", "my.py:training", "7xcpu: 7 devices would share 6 cores"),
        ("keras-tf/2xcuda/compile", "cifar-mlp", "compile on 2xcuda: XLA does not compile what the devices"),
        ("keras-tf/2xcuda/steps_per_execution=4", "cifar-mlp", "steps_per_execution=4 on 2xcuda: TensorFlow takes one"),
        ("keras-jax/2xcuda/input=copy", "cifar-mlp", "input=copy on 2xcuda: Keras copies a batch within its step"),
        ("keras-jax/3xcpu/batch=32", "cifar-mlp", "a batch of 32 cannot be shared out to 3 devices"),
    ],
)
def test_what_they_cannot_do_is_refused(lane, what, says):
    with pytest.raises(UsageError) as caught:
        planned(lane, what)
    assert says in caught.value.says
    assert caught.value.hint
