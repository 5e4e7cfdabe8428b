"""The items of a source, for whoever trains on them; a folder that changed since it was looked at is refused."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from laptime.data import archive
from laptime.data.listed import Arrays, Listing
from laptime.data.source import scan_layout
from laptime.data.tally import describe_change
from laptime.errors import LaneError, UsageError
from laptime.model.dataset import DataSource, Part

WHILE_RUNNING = "Leave the folder as it is while a race runs, and race again."


def list_items(source: DataSource, part: Part) -> Listing:
    """List the items of a part of class folders or plates."""
    from laptime.data.split import choose_test  # noqa: PLC0415  numpy is 80 ms that other commands need not wait for

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
    return Listing(paths, scan.labels[places])


def read_arrays(source: DataSource, part: Part) -> Arrays:
    """Read all images of a part of CIFAR-10's archive."""
    from laptime.data.batches import read_part  # noqa: PLC0415  numpy, as above

    place = Path(source.folder)
    names = archive.TEST if part == "test" else archive.TRAIN
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
