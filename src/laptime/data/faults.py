"""What the system refused, in words, and the errors that are made of it."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from laptime.errors import UsageError

REASONS = {
    errno.ENOSPC: "the disk is full",
    errno.EDQUOT: "the disk quota is used up",
    errno.EFBIG: "a file would be larger than this process may write",
    errno.EROFS: "it is read-only",
    errno.EACCES: "no permission",
    errno.EPERM: "no permission",
    errno.ENOTDIR: "a file stands where a folder is needed",
    errno.EEXIST: "a file stands where a folder is needed",
    errno.ENOENT: "it is not there",
    errno.ELOOP: "its symbolic links lead in a circle",
    errno.ENAMETOOLONG: "its name is too long",
}


def reason_of(error: OSError) -> str:
    return REASONS.get(error.errno or 0) or error.strerror or str(error)


def cannot_read(place: str | os.PathLike[str], error: OSError) -> UsageError:
    return UsageError(f"{place} cannot be read: {reason_of(error)}", "Check the path of --data and its permissions.")


def check_exists(path: Path) -> None:
    """Refuse a path where nothing is, or that may not be looked at."""
    try:
        path.stat()
    except FileNotFoundError:
        says = f"--data {path}: there is no such file or folder"
        raise UsageError(says, "Give the path of the data, or leave --data out: then data is made.") from None
    except OSError as error:
        raise cannot_read(path, error) from None
    except ValueError:
        raise UsageError(f"--data {str(path)!r} cannot be a path", "Give the path of a file or folder.") from None
