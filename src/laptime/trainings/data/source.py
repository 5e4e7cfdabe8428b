"""Read the data that `--data PATH` names, or that laptime made: checked, counted and listed for a training.

Importing numpy takes 80 ms, and `laptime list` should not wait for it. So functions import it here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laptime.model.ask import DataPart, DataSource
from laptime.model.errors import LaneError, UsageError
from laptime.model.workload import Workload
from laptime.store.disk import name_in_utf8
from laptime.trainings.data import archive
from laptime.trainings.data.archive import (
    ArchiveArrays,
    Manifest,
    cannot_read,
    check_exists,
    describe_change,
    digest_files,
    read_manifest,
)

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from laptime.trainings.data.scan import Scan

WHILE_RUNNING = "Leave the folder as it is while a race runs, and race again."


@dataclass(frozen=True, slots=True, eq=False)
class ListedItems:
    """Paths of all images of one part in a fixed order, and their labels: (item,), or (item, slot) for plates."""

    paths: tuple[str, ...]
    labels: npt.NDArray[np.int64]


def read_source(workload: Workload, path: Path, seed: int) -> DataSource:
    """Check the data at `path` and return its source; a UsageError says what is wrong.

    The seed divides a folder that has no `train` and `test`.
    """
    path = path.absolute()
    name_in_utf8(path, "Rename the folder, or give another path to it.")
    check_exists(path)
    if workload.data_layout == "archive":
        return _read_archive(workload, path)
    if not path.is_dir():
        raise UsageError(f"--data {path} is a file", f"{workload.name} reads a folder of images.")
    return _from_scan(workload, scan_layout(workload.data_layout, path), seed)


def scan_layout(layout: str, folder: Path) -> Scan:
    from laptime.trainings.data.scan import scan_folders, scan_plates  # noqa: PLC0415

    try:
        return scan_folders(folder) if layout == "folders" else scan_plates(folder)
    except OSError as error:
        raise cannot_read(folder, error) from None


def _from_scan(workload: Workload, scan: Scan, seed: int) -> DataSource:
    from laptime.trainings.data.scan import count_test  # noqa: PLC0415

    outputs = workload.outputs[-1]
    if len(scan.classes) != outputs:
        named = ", ".join(scan.classes[:12]) + (" ..." if len(scan.classes) > 12 else "")
        says = f"labels that do not fit the network: {scan.folder} has {len(scan.classes)} class folders ({named})"
        raise UsageError(f"{says}, and {workload.name} has {outputs} outputs", "One folder for each is expected.")
    items = len(scan.names)
    if scan.in_test is None:
        for stratum in sorted(set(scan.strata.tolist())):
            if int((scan.strata == stratum).sum()) < 2:  # every class must be in train and in test
                where = scan.folder / scan.classes[stratum] if len(scan.classes) < 36 else scan.folder
                says = f"{where} has one image only: it cannot be divided into train and test"
                raise UsageError(says, "At least two are needed, better some hundreds.")
        tests = count_test(scan, workload.train_items, workload.test_items)
    else:
        tests = int(scan.in_test.sum())
    manifest = read_manifest(scan.folder)
    if manifest is not None:
        _check_whole(scan.folder, manifest, scan.sizes)
    return DataSource(
        folder=str(scan.folder),
        layout=workload.data_layout,
        made=manifest is not None,
        train_items=items - tests,
        test_items=tests,
        classes=scan.classes,
        digest=str(digest_files(scan.sizes)),
        split_seed=seed if scan.in_test is None else None,
        notes=scan.notes,
    )


def _check_whole(folder: Path, manifest: Manifest, sizes: Mapping[str, int]) -> None:
    """Refuse a folder that laptime made and that has changed since."""
    change = describe_change(manifest.digest, sizes)
    if change is not None:
        hint = (
            f"`laptime data make {manifest.workload}` makes the data again; without manifest.json it is read as it is."
        )
        raise UsageError(f"the made data in {folder} is damaged: {change}", hint)


def _read_archive(workload: Workload, path: Path) -> DataSource:
    place = archive.find_archive(path)
    sizes = archive.list_batches(place)
    manifest = read_manifest(place) if place.is_dir() else None
    if manifest is None:
        archive.check_archive(place)
    else:
        _check_whole(place, manifest, sizes)
    return DataSource(
        folder=str(place),
        layout="archive",
        made=manifest is not None,
        train_items=manifest.train_items if manifest else workload.train_items,
        test_items=manifest.test_items if manifest else workload.test_items,
        classes=workload.classes,
        digest=str(digest_files(sizes)),
    )


def list_items(source: DataSource, part: DataPart) -> ListedItems:
    """List the items of one part of class folders or plates. Raise LaneError if they changed since the race began."""
    from laptime.trainings.data.scan import choose_test  # noqa: PLC0415

    try:
        scan = scan_layout(source.layout, Path(source.folder))
    except UsageError as error:
        raise _changed(source, error.says) from None
    _check_unchanged(source, scan.sizes)
    in_test = scan.in_test
    if in_test is None:
        in_test = choose_test(scan, source.test_items, source.split_seed or 0)
    places = (in_test if part == "test" else ~in_test).nonzero()[0]
    paths = tuple(os.path.join(source.folder, scan.names[place]) for place in places)  # noqa: PTH118  105,000 of them
    return ListedItems(paths, scan.labels[places])


def read_arrays(source: DataSource, part: DataPart) -> ArchiveArrays:
    """Read all images of one part of CIFAR-10's archive. Raise LaneError if they changed since the race began."""
    from laptime.trainings.data.scan import read_part  # noqa: PLC0415

    place = Path(source.folder)
    names = archive.TEST_FILES if part == "test" else archive.TRAIN_FILES
    try:
        _check_unchanged(source, archive.list_batches(place))
        return read_part(place, names, None if source.made else archive.MD5)
    except OSError as error:
        raise _changed(source, str(error)) from None
    except UsageError as error:
        raise _changed(source, error.says) from None


def _check_unchanged(source: DataSource, sizes: Mapping[str, int]) -> None:
    change = describe_change(source.digest, sizes)
    if change is not None:
        raise _changed(source, change)


def _changed(source: DataSource, how: str) -> LaneError:
    return LaneError(f"the data in {source.folder} changed since the race looked at it: {how}", WHILE_RUNNING)
