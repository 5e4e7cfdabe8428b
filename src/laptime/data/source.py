"""Read what `--data PATH` names, or what laptime made: found sound, counted, and given a digest."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from laptime.data import archive
from laptime.data.faults import cannot_read, check_exists
from laptime.data.manifest import Manifest, read_manifest
from laptime.data.tally import describe_change, take_tally
from laptime.errors import UsageError
from laptime.model.dataset import DataSource
from laptime.model.workload import Workload

if TYPE_CHECKING:
    from laptime.data.scan import Scan


def read_source(workload: Workload, path: Path, seed: int) -> DataSource:
    """Look at the data at `path` and give where its items lie, or say what is wrong with them.

    The seed divides a folder that has no train and test of its own.
    """
    path = path.expanduser().absolute()
    check_exists(path)
    if workload.data_layout == "archive":
        return _read_archive(workload, path)
    if not path.is_dir():
        raise UsageError(f"--data {path} is a file", f"{workload.name} reads a folder of images.")
    return _from_scan(workload, scan_layout(workload.data_layout, path), seed)


def scan_layout(layout: str, folder: Path) -> Scan:
    """Look at a folder of images."""
    from laptime.data.folders import scan_folders  # noqa: PLC0415  numpy is 80 ms that other commands need not wait for
    from laptime.data.plates import scan_plates  # noqa: PLC0415

    try:
        return scan_folders(folder) if layout == "folders" else scan_plates(folder)
    except OSError as error:
        raise cannot_read(folder, error) from None


def _from_scan(workload: Workload, scan: Scan, seed: int) -> DataSource:
    from laptime.data.split import count_test  # noqa: PLC0415  numpy, as above

    _check_labels(workload, scan)
    items = len(scan.names)
    if scan.in_test is None:
        _check_divisible(scan)
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
        digest=str(take_tally(scan.sizes)),
        split_seed=seed if scan.in_test is None else None,
        notes=scan.notes,
    )


def _check_whole(folder: Path, manifest: Manifest, sizes: Mapping[str, int]) -> None:
    """Refuse a folder that laptime made and that is not as it was made."""
    change = describe_change(manifest.digest, sizes)
    if change is not None:
        hint = f"`laptime data make {manifest.workload}` makes data anew; without manifest.json it is read as it is."
        raise UsageError(f"the made data in {folder} is damaged: {change}", hint)


def _check_labels(workload: Workload, scan: Scan) -> None:
    outputs = workload.outputs[-1]
    if len(scan.classes) != outputs:
        named = ", ".join(scan.classes[:12]) + (" ..." if len(scan.classes) > 12 else "")
        says = f"labels that do not fit the network: {scan.folder} has {len(scan.classes)} class folders ({named})"
        raise UsageError(f"{says}, and {workload.name} has {outputs} outputs", "One folder for each is expected.")


def _check_divisible(scan: Scan) -> None:
    """Each class must be in train and in test."""
    for stratum in sorted(set(scan.strata.tolist())):
        if int((scan.strata == stratum).sum()) < 2:
            where = scan.folder / scan.classes[stratum] if len(scan.classes) < 36 else scan.folder
            says = f"{where} has one image only: it cannot be divided into train and test"
            raise UsageError(says, "At least two are needed, better some hundreds.")


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
        digest=str(take_tally(sizes)),
    )
