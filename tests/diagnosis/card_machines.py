"""Machines as literals: a card, a framework that should use it, and what is around them."""

from __future__ import annotations

from dataclasses import fields, replace
from typing import Any

from laptime.model.machine import Card, CardProcess, Device, DeviceNode, Framework, HostEnvironment, Machine, Processor
from laptime.model.quantities import Missing

NOT_TOLD = Missing("not told")
UUID = "GPU-aaaaaaaa-0000-0000-0000-000000000001"
BUS = "0000:3b:00"
NODE = DeviceNode("/dev/nvidia0", "0666", "root", "root", may_open=True)
OTHERS = (CardProcess(4711, 70_000_000_000),)


def card(**told: Any) -> Card:
    """Return an NVIDIA H100 that its driver knows, but for what is said otherwise."""
    blank: dict[str, Any] = {each.name: NOT_TOLD for each in fields(Card)}
    usual: dict[str, Any] = {
        "uuid": UUID,
        "bus": BUS,
        "name": "NVIDIA H100",
        "driver": "570.86",
        "cuda": "12.8",
        "capability": "9.0",
        "memory_bytes": 80_000_000_000,
        "memory_used_bytes": 500_000_000,
        "mig": False,
        "processes": (),
        "parent": None,
        "maker": "NVIDIA",
        "reason": None,
        "module": "nvidia",
        "computes": True,
    }
    return Card(**{**blank, **usual, **told})


def framework(name: str = "torch", *, reason: str = "finds no device", **details: str) -> Framework:
    """Return a framework that is built for CUDA 12.8 and has no usable card."""
    versions = {"keras-tf": "tensorflow", "keras-jax": "jax"}.get(name, name)
    absent = Device("cuda", "cuda", "-", usable=False, reason=reason, details={"build": "CUDA", **details})
    processor = Device("cpu", "cpu", "processor", usable=True)
    return Framework(name, "2.13.0", {versions: "2.13.0", "cuda": "12.8"}, (processor, absent))


def for_processors(name: str) -> Framework:
    usual = framework(name)
    devices = tuple(replace(each, details={}) for each in usual.devices)
    return replace(usual, versions={name: "2.13.0+cpu"}, devices=devices)


def using(name: str = "torch", uuid: str = UUID) -> Framework:
    """Return a framework whose first card is the one with this UUID."""
    usual = framework(name)
    device = Device("cuda:0", "cuda", "NVIDIA H100", usable=True, details={"uuid": uuid} if uuid else {})
    return replace(usual, devices=(usual.devices[0], device))


def machine(
    *cards: Card,
    frameworks: tuple[Framework, ...] = (),
    nodes: tuple[DeviceNode, ...] = (NODE,),
    container: str | None = None,
    virtual: str | None = None,
    absent: dict[str, Missing] | None = None,
    variables: dict[str, str] | None = None,
    **around: Any,
) -> Machine:
    chip = Processor("a processor", "x86_64", 8, 8, Missing("no processor quota is set"))
    surroundings = HostEnvironment(
        nodes=nodes, variables=variables or {}, container=container, virtual=virtual, **around
    )
    return Machine(
        processor=chip,
        memory_bytes=32_000_000_000,
        memory_limit_bytes=Missing("no memory limit is set"),
        system="Linux 6.8",
        python="3.11",
        container=container,
        frameworks=frameworks or (framework(),),
        cards=cards,
        absent=absent or {},
        surroundings=surroundings,
    )
