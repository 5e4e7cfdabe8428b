"""Read a user's files, and find image files under a folder. Errors become messages."""

from __future__ import annotations

import errno
import os
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from laptime.disk import check_regular
from laptime.errors import UsageError

REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file would be larger than this process may write",
    errno.EROFS: "it is read-only",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ENOTDIR: "a file is where a folder is needed",
    errno.EEXIST: "a file is where a folder is needed",
    errno.ENOENT: "it is not there",
    errno.ELOOP: "its symbolic links lead in a circle",
    errno.ENAMETOOLONG: "its name is too long",
}
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".webp", ".tif", ".tiff")
IMAGES = f"images ({' '.join(SUFFIXES)})"
MANIFEST = "manifest.json"


def reason_of(error: OSError) -> str:
    return REASONS.get(error.errno or 0) or error.strerror or str(error)


def cannot_read(place: str | os.PathLike[str], error: OSError) -> UsageError:
    return UsageError(f"{place} cannot be read: {reason_of(error)}", "Check the path of --data and its permissions.")


def check_exists(path: Path) -> None:
    """Refuse a path that does not exist or cannot be accessed."""
    try:
        path.stat()
    except FileNotFoundError:
        says = f"--data {path}: there is no such file or folder"
        raise UsageError(says, "Give the path of the data, or leave --data out: then data is made.") from None
    except OSError as error:
        raise cannot_read(path, error) from None
    except ValueError:
        raise UsageError(f"--data {str(path)!r} cannot be a path", "Give the path of a file or folder.") from None


def size_of_regular(path: Path) -> int:
    """Return the size of a regular file without opening it."""
    status = path.stat()
    check_regular(status, status.st_size)
    return status.st_size


@dataclass(frozen=True, slots=True)
class ImageFiles:
    """Image files by their path under a folder, with their sizes in bytes, in the order of their names."""

    sizes: dict[str, int]
    left_out: Counter[str] = field(default_factory=Counter)

    def notes(self) -> tuple[str, ...]:
        """Return notes on what was left out."""
        return tuple(
            f"{count:,} {'file' if count == 1 else 'files'} left out: {kind}"
            for kind, count in sorted(self.left_out.items())
        )


def find_images(root: Path, folders: Iterable[str]) -> ImageFiles:
    """Find all images under these folders of `root`, at any depth."""
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
                    elif name.lower().endswith(SUFFIXES) and _holds(entry.is_file):
                        sizes[name] = entry.stat().st_size
                    elif entry.name != MANIFEST:
                        left_out["of another kind"] += 1
        except OSError as error:
            raise cannot_read(root / place, error) from None
    return ImageFiles(dict(sorted(sizes.items())), left_out)


def list_folder(folder: Path) -> tuple[list[str], Counter[str]]:
    """Return the sorted names of the folders in a folder, and counts of what is left out."""
    left_out: Counter[str] = Counter()
    folders = []
    try:
        with os.scandir(folder) as entries:
            for entry in entries:
                if entry.name.startswith("."):
                    left_out["hidden"] += 1
                elif _holds(entry.is_dir):
                    folders.append(entry.name)
                elif entry.name != MANIFEST:
                    left_out["outside the class folders"] += 1
    except OSError as error:
        raise cannot_read(folder, error) from None
    return sorted(folders), left_out


def _holds(check: Callable[[], bool]) -> bool:
    """Return a check's result; False for a symbolic link that leads in a circle, like for one that leads nowhere."""
    try:
        return check()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False
