"""Made data in the cache: make a set once, make it again if it is not whole, list and remove sets."""

from __future__ import annotations

import contextlib
import os
import threading
from dataclasses import dataclass
from pathlib import Path

from laptime.model.ask import DataSource, MadeSet, SetState
from laptime.model.errors import StoreError, UsageError
from laptime.model.workload import Workload
from laptime.store.disk import cache_folder
from laptime.trainings.data.archive import Manifest, describe_change, read_manifest, reason_of
from laptime.trainings.data.making import (
    MAKING_S,
    NO_LIMIT,
    PART,
    Announce,
    check_ours,
    choose_counts,
    discard,
    is_being_made,
    is_ours,
    is_part,
    items_words,
    list_data_files,
    make_set,
    name_part,
    open_part,
    remove_part,
    remove_stale_parts,
    set_aside,
    size_words,
)
from laptime.trainings.workloads import CATALOGUE

ANOTHER_PLACE = "Make room there, set LAPTIME_CACHE to a folder that can be written, or give --data."
BYTES_PER_ITEM = {"archive": 3_100, "folders": 16_000, "plates": 10_000}  # an average, to predict sizes
_turn = threading.Lock()  # a part is named by its process, so threads make one set at a time


@dataclass(frozen=True, slots=True)
class SetCheck:
    """The result of checking a set's folder. `reason` says what is wrong with it."""

    manifest: Manifest | None
    state: SetState
    reason: str = ""


def data_folder() -> Path:
    return cache_folder() / "data"


def made_sets() -> tuple[MadeSet, ...]:
    """List the sets that laptime made by name, unfinished ones too, but not those that are being made now."""
    folder = data_folder()
    try:
        names = sorted(entry.name for entry in os.scandir(folder) if entry.is_dir())
    except FileNotFoundError:
        return ()
    except OSError as error:
        says = f"the made data in {folder} cannot be listed: {reason_of(error)}"
        raise StoreError(says, "Check its permissions, or set LAPTIME_CACHE to another folder.") from None
    sets: list[MadeSet] = []
    for name in names:
        place = folder / name
        if PART.fullmatch(name):
            is_shown = is_part(place) and not is_being_made(place)
        else:  # a set behind a symbolic link is listed too, because it can be read
            is_shown = is_ours(place) or read_manifest(place) is not None
        if is_shown:
            sets.append(describe_set(place))
    return tuple(sets)


def describe_set(folder: Path) -> MadeSet:
    check = check_set(folder)
    found = check.manifest
    if found is not None and check.state == "whole":
        size = found.bytes
    else:
        size = 0
        for file in folder.rglob("*"):
            with contextlib.suppress(OSError):  # another process may be removing it
                size += file.stat().st_size if file.is_file() else 0
    if found is None:  # only its folder's name shows of which workload it is
        workload = next((name for name in CATALOGUE if name in folder.name), "")
        return MadeSet(folder.name, str(folder), workload, 0, 0, size, check.state)
    return MadeSet(folder.name, str(folder), found.workload, found.train_items, found.test_items, size, check.state)


def check_set(folder: Path) -> SetCheck:
    """Compare the files in a set's folder with its manifest."""
    manifest = read_manifest(folder)
    if manifest is None:
        return SetCheck(None, "half-written", "it was never finished")
    workload = CATALOGUE.get(manifest.workload)
    if not manifest.is_ours or workload is None:
        return SetCheck(manifest, "other version", "it was made by another version of laptime")
    try:
        change = describe_change(manifest.digest, list_data_files(workload.data_layout, folder))
    except UsageError as error:
        change = error.says
    return SetCheck(manifest, "half-written", f"it is damaged, {change}") if change else SetCheck(manifest, "whole")


def remove_set(name: str) -> MadeSet:
    sets = {made_set.name: made_set for made_set in made_sets()}
    folder = data_folder() / name
    if name not in sets:
        if Path(name).name == name and os.path.lexists(folder) and not PART.fullmatch(name):
            check_ours(folder)
        there = ", ".join(sets) or "none"
        raise UsageError(f"there is no made data '{name}'; there is: {there}", "`laptime data list` shows all.")
    try:
        remove_part(set_aside(folder, "removed"))
    except OSError as error:
        says = f"the made data {name} could not be removed from {folder.parent}: {reason_of(error)}"
        raise StoreError(says, "Check the permissions of that folder.") from None
    return sets[name]


def make_source(workload: Workload, items: int | None, tell: Announce, notify: Announce | None = None) -> DataSource:
    """Return made data, and make it if it is not there: as many items as ten seconds allow, or `items` (0: all).

    An item depends neither on a race's seed nor on the number of items. `tell` is called with how far it is,
    and `notify`, by default the same, with what is large and what is damaged.
    """
    notify = notify or tell
    _check_items(workload, items)
    folder = made_folder_of(workload, items)
    with _turn:
        remove_stale_parts(folder.parent)
        there = _find_whole(workload, folder)
        if there is None and os.path.lexists(folder):
            check_ours(folder)
            reason = check_set(folder).reason or "it is of another workload"
            notify(f"the made data in {folder} cannot be used: {reason}; it is made again")
        manifest = there or _make_folder(workload, items, folder, tell, notify)
    return DataSource(
        folder=str(folder),
        layout=workload.data_layout,
        made=True,
        train_items=manifest.train_items,
        test_items=manifest.test_items,
        classes=workload.classes,
        digest=manifest.digest,
    )


def describe_made(workload: Workload, items: int | None) -> str:
    """Return a sentence on the data that is there or would be made, without making it."""
    _check_items(workload, items)
    folder = made_folder_of(workload, items)
    found = _find_whole(workload, folder)
    if found is not None:
        there = items_words(workload, found.train_items, found.test_items)
        return f"made data: {there}, {size_words(found.bytes)}, in {folder}"
    if os.path.lexists(folder):
        check_ours(folder)
    if items is None:
        what = f"as many {workload.items} as are made in about {MAKING_S:.0f} s"
    else:
        counts = choose_counts(workload, items, 0.0)
        size = (counts.train + counts.test) * BYTES_PER_ITEM[workload.data_layout]
        what = f"{items_words(workload, counts.train, counts.test)}, about {size_words(size)}"
    return f"made data: {what}, will be written to {folder}"


def made_folder_of(workload: Workload, items: int | None) -> Path:
    ending = "" if items is None else "-all" if items == NO_LIMIT else f"-{items}"
    return data_folder() / f"{workload.name}{ending}"


def _check_items(workload: Workload, items: int | None) -> None:
    """Refuse an impossible count before anything is written."""
    if items is not None:
        choose_counts(workload, items, 0.0)


def _make_folder(workload: Workload, items: int | None, folder: Path, tell: Announce, notify: Announce) -> Manifest:
    from laptime.trainings.data.making import open_maker  # noqa: PLC0415  it imports numpy, and other commands need not wait

    part = name_part(folder)
    try:
        open_part(part)
        manifest = make_set(workload, items, part, folder, tell, notify=notify, open_maker=open_maker)
        return _put_in_place(workload, part, folder, manifest)
    except OSError as error:
        says = f"the made data for {workload.name} could not be written to {folder.parent}: {reason_of(error)}"
        raise StoreError(says, ANOTHER_PLACE) from None
    finally:
        discard(part)


def _put_in_place(workload: Workload, part: Path, folder: Path, manifest: Manifest) -> Manifest:
    """Rename the part to the set's folder. If another process finished the same set meanwhile, use that one."""
    found = _find_whole(workload, folder)
    if found is not None:
        return found
    if os.path.lexists(folder):
        discard(set_aside(folder, "replaced"))
    try:
        part.rename(folder)
    except OSError:  # another process took the name meanwhile
        found = _find_whole(workload, folder)
        if found is None:
            raise
        return found
    return manifest


def _find_whole(workload: Workload, folder: Path) -> Manifest | None:
    """Return the manifest of a whole set of this workload, or None."""
    check = check_set(folder)
    manifest = check.manifest
    is_whole = manifest is not None and manifest.workload == workload.name and check.state == "whole"
    return manifest if is_whole else None
