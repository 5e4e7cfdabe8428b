"""The sets that were made: where they lie, whether they are whole, and how they are removed."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import platformdirs

from laptime.data.faults import reason_of
from laptime.data.making import list_data_files
from laptime.data.manifest import Manifest, read_manifest
from laptime.data.tally import describe_change
from laptime.disk import host, is_alive
from laptime.errors import StoreError, UsageError
from laptime.workloads import CATALOGUE

State = Literal["whole", "half-written", "other version"]
PART = re.compile(r"(?:\..*\.(?P<host>[A-Za-z0-9-]+)|.*)\.part-(?P<pid>\d+)")
ABANDONED_AFTER_S = 24 * 3600


@dataclass(frozen=True, slots=True)
class MadeSet:
    name: str
    folder: str
    workload: str
    train_items: int
    test_items: int
    bytes: int
    state: State


@dataclass(frozen=True, slots=True)
class Look:
    """What is found at a set's place; `reason` says what is wrong with it."""

    manifest: Manifest | None
    state: State
    reason: str = ""


def data_folder() -> Path:
    """Give the folder of all made data."""
    named = os.environ.get("LAPTIME_CACHE")
    cache = Path(named).expanduser() if named else Path(platformdirs.user_cache_dir("laptime"))
    return cache.absolute() / "data"


def made_sets() -> tuple[MadeSet, ...]:
    """List all sets by name, those too that were never finished; one that is being made now is not listed."""
    folder = data_folder()
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except FileNotFoundError:
        return ()
    except OSError as error:
        says = f"the made data in {folder} cannot be listed: {reason_of(error)}"
        raise StoreError(says, "Check its permissions, or set LAPTIME_CACHE to another folder.") from None
    return tuple(describe_set(folder / name) for name in names if not is_being_made(folder / name))


def describe_set(folder: Path) -> MadeSet:
    seen = look(folder)
    found = seen.manifest
    if found is None or seen.state != "whole":
        size = _size_of(folder)
        counts = (found.train_items, found.test_items) if found else (0, 0)
        workload = found.workload if found else _workload_of(folder.name)
        return MadeSet(folder.name, str(folder), workload, *counts, size, seen.state)
    return MadeSet(
        folder.name, str(folder), found.workload, found.train_items, found.test_items, found.bytes, seen.state
    )


def _size_of(folder: Path) -> int:
    """Sum up what lies there, though somebody may be removing it."""
    size = 0
    for file in folder.rglob("*"):
        with contextlib.suppress(OSError):
            size += file.stat().st_size if file.is_file() else 0
    return size


def look(folder: Path) -> Look:
    """Hold what lies in a set's folder against its manifest."""
    manifest = read_manifest(folder)
    if manifest is None:
        return Look(None, "half-written", "it was never finished")
    workload = CATALOGUE.get(manifest.workload)
    if not manifest.is_ours or workload is None:
        return Look(manifest, "other version", "it was made by another version of laptime")
    try:
        change = describe_change(manifest.digest, list_data_files(workload.data_layout, folder))
    except UsageError as error:
        change = error.says
    return Look(manifest, "half-written", f"it is damaged, {change}") if change else Look(manifest, "whole")


def remove_set(name: str) -> MadeSet:
    """Remove a set and give what it was."""
    sets = {each.name: each for each in made_sets()}
    if name not in sets:
        there = ", ".join(sets) or "none"
        raise UsageError(f"there is no made data '{name}'; there is: {there}", "`laptime data list` shows all.")
    folder = Path(sets[name].folder)
    try:
        aside = name_part(folder, "removed")
        folder.rename(aside)
        shutil.rmtree(aside)
    except OSError as error:
        says = f"the made data {name} could not be removed from {folder.parent}: {reason_of(error)}"
        raise StoreError(says, "Check the permissions of that folder.") from None
    return sets[name]


def name_part(folder: Path, why: str = "making") -> Path:
    """Name a folder beside a set for this process: what is in it is no set yet, or no set any more."""
    return folder.with_name(f".{folder.name}.{why}.{host()}.part-{os.getpid()}")


def remove_stale() -> None:
    """Remove what processes that died while making have left."""
    for place in data_folder().glob("*.part-*"):
        if not is_being_made(place):
            discard(place)


def discard(place: Path) -> None:
    """Remove a folder, or a file that stands in its place; what cannot be removed is tried again the next time."""
    with contextlib.suppress(OSError):
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place, ignore_errors=True)
        else:
            place.unlink(missing_ok=True)


def is_being_made(place: Path) -> bool:
    """Judge by the maker's process where it can be seen, and by age where it runs on another machine."""
    matched = PART.fullmatch(place.name)
    if matched is None:
        return False
    if matched["host"] not in {None, host()}:
        return _age_s(place) < ABANDONED_AFTER_S
    return int(matched["pid"]) != os.getpid() and is_alive(int(matched["pid"]))


def _age_s(place: Path) -> float:
    try:
        return time.time() - place.stat().st_mtime
    except OSError:
        return 0.0


def _workload_of(name: str) -> str:
    """Give the workload that an unfinished set was meant for."""
    return next((each for each in CATALOGUE if each in name), "")
