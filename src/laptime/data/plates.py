"""Read plates: images in a folder or tree, each named by its text, as in `AB12CD34.jpg` or `AB12CD34_night.png`."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path, PurePosixPath

import numpy as np

from laptime.data.scan import Labels, Scan, find_parts
from laptime.data.walk import IMAGES, Found, find_images
from laptime.errors import UsageError
from laptime.workloads.catalogue import PLATE_CHARACTERS

TEXT = re.compile(r"([0-9A-Z]{8})(?:[_.-].*)?", re.ASCII | re.DOTALL)
SKIPPED_AT_MOST = 0.01
NAMING = "A name is expected to begin with the plate's text, eight characters of 0-9A-Z: AB12CD34.jpg, AB12CD34_2.jpg."


def scan_plates(folder: Path) -> Scan:
    """Find every image and take its labels from its name; a few names that are no text are skipped and counted."""
    parts = ("train", "test") if find_parts(folder) else ("",)
    found = find_images(folder, parts)
    _check_filled(folder, parts, found)
    texts = {name: text for name in found.sizes if (text := text_of(name))}
    wrong = [name for name in found.sizes if name not in texts]
    notes = found.notes() + _judge(folder, wrong, len(found.sizes))
    names = tuple(texts)
    in_test = np.array([name.startswith("test/") for name in names], np.bool_) if parts[0] else None
    strata = np.zeros(len(names), np.int64)
    return Scan(folder, found.sizes, names, labels_of(texts.values()), strata, tuple(PLATE_CHARACTERS), in_test, notes)


def text_of(name: str) -> str | None:
    """Give the plate's text that a file is named by."""
    matched = TEXT.fullmatch(PurePosixPath(name).stem)
    return matched.group(1) if matched else None


def labels_of(texts: Iterable[str]) -> Labels:
    """Give the number of each character among the 36."""
    letters = np.frombuffer("".join(texts).encode(), np.uint8).reshape(-1, 8)
    numbers = np.zeros(256, np.int64)
    numbers[np.frombuffer(PLATE_CHARACTERS.encode(), np.uint8)] = np.arange(len(PLATE_CHARACTERS))
    return numbers[letters]


def _check_filled(folder: Path, parts: tuple[str, ...], found: Found) -> None:
    for part in parts:
        if not any(name.startswith(f"{part}/" if part else "") for name in found.sizes):
            raise UsageError(f"there are no images in {folder / part}", f"{IMAGES} are looked for.")


def _judge(folder: Path, wrong: list[str], items: int) -> tuple[str, ...]:
    """Skip a few wrong names with a note; refuse many."""
    if not wrong:
        return ()
    first = ", ".join(wrong[:3]) + (" ..." if len(wrong) > 3 else "")
    says = f"{len(wrong):,} of {items:,} images in {folder} are not named by a plate's text: {first}"
    if len(wrong) > items * SKIPPED_AT_MOST:
        raise UsageError(f"{says} (up to {SKIPPED_AT_MOST:.0%} are skipped)", NAMING)
    return (f"{says}; skipped",)
