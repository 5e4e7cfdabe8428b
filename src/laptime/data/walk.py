"""Find the image files under a folder; what is left out is counted, never passed over in silence."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from laptime.data.faults import cannot_read

SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
IMAGES = f"images ({' '.join(SUFFIXES)})"
MANIFEST = "manifest.json"


@dataclass(frozen=True, slots=True)
class Found:
    """Image files by their path under a folder, with their sizes in bytes, in the order of their names."""

    sizes: dict[str, int]
    left_out: Counter[str] = field(default_factory=Counter)

    def notes(self) -> tuple[str, ...]:
        """Say what was left out."""
        return tuple(
            f"{count:,} {'file' if count == 1 else 'files'} left out: {kind}"
            for kind, count in sorted(self.left_out.items())
        )


def find_images(root: Path, folders: Iterable[str]) -> Found:
    """Find all images under these folders of `root`, however deep."""
    sizes: dict[str, int] = {}
    left_out: Counter[str] = Counter()
    waiting = list(folders)
    while waiting:
        place = waiting.pop()
        try:
            with os.scandir(root / place) as entries:
                for entry in entries:
                    name = f"{place}/{entry.name}" if place else entry.name
                    if entry.name.startswith("."):
                        left_out["hidden"] += 1
                    elif entry.is_dir(follow_symlinks=False):
                        waiting.append(name)
                    elif name.lower().endswith(SUFFIXES) and entry.is_file():
                        sizes[name] = entry.stat().st_size
                    elif entry.name != MANIFEST:
                        left_out["of another kind"] += 1
        except OSError as error:
            raise cannot_read(root / place, error) from None
    return Found(dict(sorted(sizes.items())), left_out)


def list_folder(folder: Path) -> tuple[list[str], Counter[str]]:
    """Give the names of the folders in a folder, sorted, and count the files beside them that are left out."""
    left_out: Counter[str] = Counter()
    folders = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    left_out["hidden"] += 1
                elif entry.is_dir():
                    folders.append(entry.name)
                elif entry.name != MANIFEST:
                    left_out["outside the class folders"] += 1
    except OSError as error:
        raise cannot_read(folder, error) from None
    return sorted(folders), left_out
