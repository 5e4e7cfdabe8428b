"""The made default: drawn once, kept in the cache folder, noticed and made anew where it is not whole."""

from __future__ import annotations

from pathlib import Path

from laptime.data.faults import reason_of
from laptime.data.making import ALL, MAKING_S, Tell, choose_counts, make_set
from laptime.data.manifest import Manifest
from laptime.data.sets import data_folder, discard, look, name_part, remove_stale
from laptime.data.words import count_words, size_words
from laptime.errors import StoreError
from laptime.model.dataset import DataSource
from laptime.model.workload import Workload

ANOTHER_PLACE = "Make room there, set LAPTIME_CACHE to a folder that can be written, or give --data."
BYTES_PER_ITEM = {"archive": 3_100, "folders": 16_000, "plates": 10_000}  # of a file on average, to foretell sizes


def make_source(workload: Workload, items: int | None, tell: Tell) -> DataSource:
    """Give made data, which is made now if it is not there: as many items as take ten seconds, or `items` (0: all).

    Neither a race's seed nor the number of items changes an item. `tell` hears what lasts, what is large, and what
    was found damaged.
    """
    _check_items(workload, items)
    folder = place_of(workload, items)
    remove_stale()
    if folder.exists():
        seen = look(folder)
        if seen.manifest is not None and _serves(workload, seen.manifest) and seen.state == "whole":
            return _source(workload, folder, seen.manifest)
        tell(f"the made data in {folder} cannot be used: {seen.reason or 'it is of another workload'}; it is made anew")
    return _source(workload, folder, _make(workload, items, folder, tell))


def describe_made(workload: Workload, items: int | None) -> str:
    """Say in a sentence what is there or would be made, without making it."""
    _check_items(workload, items)
    folder = place_of(workload, items)
    seen = look(folder)
    if seen.manifest is not None and seen.state == "whole":
        there = count_words(workload, seen.manifest.train_items, seen.manifest.test_items)
        return f"made data: {there}, {size_words(seen.manifest.bytes)}, in {folder}"
    if items is None:
        what = f"as many {workload.items} as are made in about {MAKING_S:.0f} s"
    else:
        counts = choose_counts(workload, items, 0.0)
        size = (counts.train + counts.test) * BYTES_PER_ITEM[workload.data_layout]
        what = f"{count_words(workload, counts.train, counts.test)}, about {size_words(size)}"
    return f"made data: {what}, will be written to {folder}"


def place_of(workload: Workload, items: int | None) -> Path:
    ending = "" if items is None else "-all" if items == ALL else f"-{items}"
    return data_folder() / f"{workload.name}{ending}"


def _check_items(workload: Workload, items: int | None) -> None:
    """Refuse a count that cannot be before anything is written."""
    if items is not None:
        choose_counts(workload, items, 0.0)


def _make(workload: Workload, items: int | None, folder: Path, tell: Tell) -> Manifest:
    part = name_part(folder)
    try:
        discard(part)
        part.mkdir(parents=True)
        manifest = make_set(workload, items, part, folder, tell)
        return _put_in_place(workload, part, folder, manifest)
    except OSError as error:
        says = f"the made data for {workload.name} could not be written to {folder.parent}: {reason_of(error)}"
        raise StoreError(says, ANOTHER_PLACE) from None
    finally:
        discard(part)


def _put_in_place(workload: Workload, part: Path, folder: Path, manifest: Manifest) -> Manifest:
    """Rename once; a set that somebody else finished meanwhile is as good as ours."""
    if folder.exists():
        seen = look(folder)
        if seen.manifest is not None and _serves(workload, seen.manifest) and seen.state == "whole":
            return seen.manifest
        old = name_part(folder, "replaced")
        folder.rename(old)
        discard(old)
    part.rename(folder)
    return manifest


def _serves(workload: Workload, manifest: Manifest) -> bool:
    return manifest.workload == workload.name


def _source(workload: Workload, folder: Path, manifest: Manifest) -> DataSource:
    return DataSource(
        folder=str(folder),
        layout=workload.data_layout,
        made=True,
        train_items=manifest.train_items,
        test_items=manifest.test_items,
        classes=workload.classes,
        digest=manifest.digest,
    )
