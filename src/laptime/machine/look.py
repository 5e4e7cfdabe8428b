"""Describe the machine: processor, memory, container, and which frameworks are installed."""

from __future__ import annotations

import mmap
import os
import platform
from collections.abc import Sequence
from dataclasses import replace
from importlib import metadata, util
from pathlib import Path

import psutil

from laptime.core_score import measure_core
from laptime.machine.cards import Cards
from laptime.machine.duplicate_installs import find_duplicate_installs
from laptime.machine.host_environment import read_host_environment
from laptime.machine.processor import look_at_processor, read_use
from laptime.model.frameworks import FrameworkRow, all_frameworks
from laptime.model.machine import Framework, Machine
from laptime.sensors import cgroup


def look_at_machine() -> Machine:
    """Describe this computer; scouts ask later what the frameworks see."""
    return Machine(
        processor=look_at_processor(),
        memory_bytes=_memory_bytes(),
        memory_limit_bytes=cgroup.memory_limit_bytes(),
        system=f"{platform.system()} {platform.release()}",
        python=platform.python_version(),
        container=_container(),
        frameworks=_installed(),
        page_bytes=mmap.PAGESIZE,
    )


def time_core(machine: Machine) -> Machine:
    """Time one core. Of several moments the fastest counts: what is busy with other work now may not be later."""
    before = machine.processor.core_score or 0.0
    return replace(machine, processor=replace(machine.processor, core_score=max(before, measure_core())))


def _memory_bytes() -> int:
    """Return the size of the memory; ask the C library where psutil has no /proc to read."""
    try:
        return int(psutil.virtual_memory().total)
    except (OSError, RuntimeError):
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")


def look_around(machine: Machine, folders: Sequence[Path] = ()) -> Machine:
    """Add what is only needed for some questions.

    That is the current load, what hides devices, and the file systems of some folders.
    """
    around = read_host_environment(container=machine.container, folders=folders)
    return replace(machine, use=read_use(), surroundings=around)


def add_cards(machine: Machine, found: Cards) -> Machine:
    """Add cards, and if any of them computes, what may be between them and a program."""
    around = machine.surroundings
    if around is None and any(each.computes for each in found.cards):
        around = read_host_environment(container=machine.container)
    return replace(machine, cards=found.cards, absent=found.absent, surroundings=around)


def _installed() -> tuple[Framework, ...]:
    return tuple(
        _framework(row)
        for row in all_frameworks().values()
        if (not row.switch or os.environ.get(row.switch)) and all(map(util.find_spec, row.modules))
    )


def _framework(row: FrameworkRow) -> Framework:
    """Describe an installed framework; one without packages is always installed."""
    if not row.packages:
        return Framework(row.name, platform.python_version() if row.is_opaque else "1")
    package = row.packages[0]
    version, least = _version(package.name), package.least
    notes = tuple(filter(None, map(find_duplicate_installs, row.packages)))
    if _numbers(version) and _numbers(version) < _numbers(least):
        problem = f"{package.name} {version} is too old: laptime needs {least} or newer"
        return Framework(row.name, version, problem=problem, notes=notes)
    return Framework(row.name, version, notes=notes)


def _numbers(version: str) -> tuple[int, ...]:
    """Return the first two numbers of a version; nothing where it is unknown."""
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
