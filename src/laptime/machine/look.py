"""Put together the machine: processor, memory, container, and which frameworks are installed."""

from __future__ import annotations

import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata, util
from pathlib import Path

import psutil

from laptime.machine.cards import Cards
from laptime.machine.processor import look_at_processor
from laptime.machine.surroundings import look_at_surroundings
from laptime.machine.twice import find_twice
from laptime.machine.use import look_at_use
from laptime.model.machine import Framework, Machine
from laptime.sensors import cgroup

MODULES = {
    "torch": ("torch",),
    "jax": ("jax",),
    "keras-tf": ("keras", "tensorflow"),
    "keras-jax": ("keras", "jax"),
    "keras-torch": ("keras", "torch"),
}
LEAST = {"torch": "2.6", "keras": "3.6", "jax": "0.4.35"}  # as the extras in pyproject.toml have it
FAKE = "LAPTIME_FAKE"


def look_at_machine() -> Machine:
    """Describe this computer; what the frameworks see is asked of scouts, later."""
    return Machine(
        processor=look_at_processor(),
        memory_bytes=psutil.virtual_memory().total,
        memory_limit_bytes=cgroup.memory_limit_bytes(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        container=_container(),
        frameworks=_installed(),
    )


def look_around(machine: Machine, folders: Sequence[Path] = ()) -> Machine:
    """Add what is looked at only where somebody wants to know: what there is to do now, what hides devices, and on
    which disks some folders lie.
    """
    around = look_at_surroundings(container=machine.container, folders=folders)
    return replace(machine, use=look_at_use(), surroundings=around)


def add_cards(machine: Machine, found: Cards) -> Machine:
    """Add cards, and where there are any what may stand between them and a program."""
    around = machine.surroundings
    if around is None and any(each.computes for each in found.cards):
        around = look_at_surroundings(container=machine.container)
    return replace(machine, cards=found.cards, absent=found.absent, surroundings=around)


def _installed() -> tuple[Framework, ...]:
    found = [
        _framework(name, modules)
        for name, modules in MODULES.items()
        if all(util.find_spec(module) is not None for module in modules)
    ]
    found.append(Framework("python", platform.python_version()))  # it calls steps of users' own, and is always there
    if os.environ.get(FAKE):
        found.append(Framework("fake", "1"))
    return tuple(found)


def _framework(name: str, modules: tuple[str, ...]) -> Framework:
    module = modules[0]
    version, least = _version(module), LEAST[module]
    notes = tuple(filter(None, map(find_twice, (*modules, *(["jaxlib"] if "jax" in modules else [])))))
    if _numbers(version) and _numbers(version) < _numbers(least):
        problem = f"{module} {version} is too old: laptime needs {least} or newer"
        return Framework(name, version, problem=problem, notes=notes)
    return Framework(name, version, notes=notes)


def _numbers(version: str) -> tuple[int, ...]:
    """Give the first two numbers of a version; nothing where it is not told."""
    return tuple(int(each) for each in version.split(".")[:2] if each.isdecimal())


def _version(module: str) -> str:
    try:
        return metadata.version(module)
    except metadata.PackageNotFoundError:
        return "unknown"


def _container() -> str | None:
    if Path("/.dockerenv").exists():
        return "docker"
    if Path("/run/.containerenv").exists():
        return "podman"
    return os.environ.get("container")  # systemd-nspawn, LXC and others set it  # noqa: SIM112
