"""Read a folder a class: `train/` and `test/` with class folders each, or class folders only."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np

from laptime.data.scan import Scan, find_parts
from laptime.data.walk import IMAGES, Found, find_images, list_folder
from laptime.errors import UsageError

SHAPE = "A folder a class is expected, with images in each, under train/ and test/ or directly in the folder."


def scan_folders(folder: Path) -> Scan:
    """Find every image; the class folders' sorted names are the classes."""
    parts = ("train", "test") if find_parts(folder) else ("",)
    listed = [list_folder(folder / part) for part in parts]
    for part, (classes, _) in zip(parts, listed, strict=True):
        if not classes:
            raise UsageError(f"there is no class folder in {folder / part}", SHAPE)
    if len(parts) == 2:
        _compare(folder, set(listed[0][0]), set(listed[1][0]))
    classes = listed[0][0]
    found = find_images(folder, [f"{part}/{each}" if part else each for part in parts for each in classes])
    _check_filled(folder, parts, classes, found)
    left_out = sum([left for _, left in listed], Counter[str]())
    return _scan(folder, parts, classes, Found(found.sizes, found.left_out + left_out))


def _compare(folder: Path, train: set[str], test: set[str]) -> None:
    for have, lack, classes in (("train", "test", train - test), ("test", "train", test - train)):
        if classes:
            names = ", ".join(sorted(classes))
            says = f"{folder / have} has a class that {folder / lack} does not have: {names}"
            raise UsageError(says, "train/ and test/ are expected to have the same class folders.")


def _check_filled(folder: Path, parts: tuple[str, ...], classes: list[str], found: Found) -> None:
    filled = {name.rsplit("/", name.count("/") - bool(parts[0]))[0] for name in found.sizes}
    for part in parts:
        for each in classes:
            place = f"{part}/{each}" if part else each
            if place not in filled:
                raise UsageError(f"the class folder {folder / place} has no images in it", f"{IMAGES} are looked for.")


def _scan(folder: Path, parts: tuple[str, ...], classes: list[str], found: Found) -> Scan:
    depth = 1 if parts[0] else 0
    numbers = {name: number for number, name in enumerate(classes)}
    names = tuple(found.sizes)
    labels = np.array([numbers[name.split("/", depth + 1)[depth]] for name in names], np.int64)
    in_test = np.array([name.startswith("test/") for name in names], np.bool_) if depth else None
    return Scan(folder, found.sizes, names, labels, labels, tuple(classes), in_test, found.notes())
