"""Which folders laptime made. Nothing else in the folder of made data is renamed, removed or shown as a set.

A folder gets a mark file when it is created, before anything else is in it. While a process makes or removes it, its
name holds that process. A name alone is no proof, and neither is a mark under another name.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
from pathlib import Path

from laptime.data.files import MANIFEST
from laptime.data.manifest import read_manifest
from laptime.disk import host, is_in_work, read_regular
from laptime.errors import StoreError

MARK = ".made-by-laptime"
MARKED = b"laptime made this folder, and may remove it with all that is in it.\n"
PART = re.compile(
    r"\..+\.(?:making|replaced|removed)\.(?P<host>[A-Za-z0-9-]{1,60})\.part-(?P<pid>[0-9]{1,10})", re.DOTALL
)
ELSEWHERE = "Move or rename it, or set LAPTIME_CACHE to another folder."


def is_ours(folder: Path) -> bool:
    """Whether laptime made this folder: it has the mark or, if an older laptime made it, a manifest."""
    return not folder.is_symlink() and (_is_marked(folder) or read_manifest(folder) is not None)


def check_ours(folder: Path) -> None:
    """Raise StoreError for a folder that laptime did not make."""
    if folder.is_symlink():
        raise StoreError(f"{folder} is a symbolic link, which laptime neither replaces nor removes", ELSEWHERE)
    if not is_ours(folder):
        kind = "folder" if folder.is_dir() else "file"
        raise StoreError(f"laptime did not make the {kind} {folder}, so it neither replaces nor removes it", ELSEWHERE)


def name_part(folder: Path, why: str = "making") -> Path:
    """Return the path of this process's part, next to a set: a folder that is not a set yet, or no longer one."""
    return folder.with_name(f".{folder.name}.{why}.{host()}.part-{os.getpid()}")


def open_part(part: Path) -> None:
    """Make a part's folder and mark it. Remove what an earlier process with the same number left there."""
    discard(part)
    part.mkdir(parents=True)
    (part / MARK).write_bytes(MARKED)


def set_aside(folder: Path, why: str) -> Path:
    """Rename a folder that laptime made to a part of this process, and return the part."""
    check_ours(folder)
    if PART.fullmatch(folder.name):
        return folder
    part = name_part(folder, why)
    discard(part)
    folder.rename(part)
    return part


def is_part(place: Path) -> bool:
    """Whether this is a part that laptime left: it has a part's name, and has the mark or is empty."""
    if PART.fullmatch(place.name) is None or place.is_symlink() or not place.is_dir():
        return False
    return is_ours(place) or _is_empty(place)


def is_being_made(place: Path) -> bool:
    """Whether another process still makes this part. For a process on another machine, the part's age decides."""
    matched = PART.fullmatch(place.name)
    if matched is None:
        return False
    if matched["host"] == host() and int(matched["pid"]) == os.getpid():
        return False
    try:
        return is_in_work(matched, place.stat().st_mtime)
    except OSError:  # it was removed meanwhile
        return True


def remove_stale_parts(folder: Path) -> None:
    """Remove the parts that dead processes left."""
    with contextlib.suppress(OSError):
        for place in [Path(entry) for entry in os.scandir(folder) if PART.fullmatch(entry.name)]:
            if not is_being_made(place):
                discard(place)


def discard(part: Path) -> None:
    """Try to remove a part. If that fails, a later run tries again."""
    with contextlib.suppress(OSError):
        if is_part(part):
            remove_part(part)


def remove_part(part: Path) -> None:
    """Remove a part, its mark last: if this process is killed, the rest can still be recognized."""
    last = (part / MANIFEST, part / MARK)
    for place in part.iterdir():
        if place in last:
            continue
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()
    for place in last:
        place.unlink(missing_ok=True)
    part.rmdir()


def _is_marked(folder: Path) -> bool:
    try:
        return read_regular(folder / MARK, len(MARKED)) == MARKED
    except OSError:
        return False


def _is_empty(folder: Path) -> bool:
    try:
        return next(folder.iterdir(), None) is None
    except OSError:
        return False
