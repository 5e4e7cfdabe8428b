"""Find CIFAR-10's own python archive, packed or unpacked, and check it against its published digests.

The digests are those of the archive's page (www.cs.toronto.edu/~kriz/cifar.html) and of torchvision.
"""

from __future__ import annotations

import gzip
import hashlib
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from laptime.data.files import cannot_read, size_of_regular
from laptime.disk import SPECIAL, open_regular, read_regular
from laptime.errors import UsageError

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

PACKED = "cifar-10-python.tar.gz"
UNPACKED = "cifar-10-batches-py"
PACKED_BYTES = 170_498_071
PACKED_MD5 = "c58f30108f718f92721af3b95e74349a"
TRAIN = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST = ("test_batch",)
META = "batches.meta"
MD5 = {
    "data_batch_1": "c99cafc152244af753f735de768cd75f",
    "data_batch_2": "d4bba439e000b95fd0a9bffe97cbabec",
    "data_batch_3": "54ebc095f3ab1f0389bbae665268c751",
    "data_batch_4": "634d18415352ddfa80567beed471001a",
    "data_batch_5": "482c414d41f54cd18b22e5b47cb7c3cb",
    "test_batch": "40351d587109b95175f43aff81a1287e",
}
LARGEST_BATCH_BYTES = 64 * 1024**2  # each is about half of this
MOST_BYTES = 256 * 1024**2  # all batches together have 186 MB, packed or not
AGAIN = "Fetch it again from https://www.cs.toronto.edu/~kriz/cifar.html."


@dataclass(frozen=True, slots=True, eq=False)
class ArchiveArrays:
    """Decoded images as (item, height, width, channel), and their class numbers."""

    images: npt.NDArray[np.uint8]
    labels: npt.NDArray[np.int64]


def find_archive(path: Path) -> Path:
    """Return the packed file, or the folder of batches, at or in `path`."""
    if path.is_file():
        return path
    for folder in (path, path / UNPACKED):
        if any((folder / name).exists() for name in (*TRAIN, *TEST)):
            return folder
    if (path / PACKED).is_file():
        return path / PACKED
    expected = f"{PACKED}, or the folder {UNPACKED} that is in it"
    raise UsageError(f"{path} does not hold CIFAR-10", f"Its python archive is expected: {expected}.")


def list_batches(place: Path) -> dict[str, int]:
    """Return the files of the archive with their sizes; a UsageError names a missing one."""
    if place.is_file():
        return {place.name: place.stat().st_size}
    sizes = {}
    for name in (*TRAIN, *TEST):
        try:
            sizes[name] = size_of_regular(place / name)
        except FileNotFoundError:
            raise UsageError(f"{place} is not whole: {name} is not there", AGAIN) from None
        except OSError as error:
            raise cannot_read(place / name, error) from None
    return sizes


def check_archive(place: Path, md5: Mapping[str, str] = MD5, packed_md5: str = PACKED_MD5) -> None:
    """Compare digests. If a packed file's own digest differs, the files in it are compared."""
    if place.is_file() and _md5_of(place) == packed_md5:
        return
    for _ in read_batches(place, (*TRAIN, *TEST), md5):
        pass


def read_batches(place: Path, names: tuple[str, ...], md5: Mapping[str, str] | None) -> Iterator[tuple[str, bytes]]:
    """Yield each batch's name and bytes once its digest is checked."""
    missing = set(names)
    for name, data in _packed(place, names) if place.is_file() else _unpacked(place, names):
        if md5 is not None and hashlib.md5(data, usedforsecurity=False).hexdigest() != md5[name]:
            raise UsageError(f"{name} in {place} is not CIFAR-10's: its MD5 is not {md5[name]}", AGAIN)
        missing.discard(name)
        yield name, data
    if missing:
        raise UsageError(f"{place} is not whole: {', '.join(sorted(missing))} is not in it", AGAIN)


def _unpacked(place: Path, names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    for name in names:
        try:
            yield name, read_regular(place / name, LARGEST_BATCH_BYTES)
        except OSError as error:
            raise cannot_read(place / name, error) from None


def _packed(place: Path, names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Unpack in memory: nothing is written to disk, and no link in the archive is followed."""
    wanted = {f"{UNPACKED}/{name}": name for name in names}
    try:
        with (
            open_regular(place, MOST_BYTES) as file,
            _AtMost(fileobj=file) as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|") as archive,
        ):
            for member in archive:
                if member.offset_data + member.size > MOST_BYTES:  # tarfile would seek to its end
                    raise tarfile.ReadError(f"{member.name} would have {member.size:,} bytes")
                name = wanted.get(member.name.removeprefix("./"))
                if name is not None:
                    yield name, _extract(archive, member)
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, LookupError, OverflowError) as error:
        size = place.stat().st_size
        says = f"{place} cannot be unpacked to its end: it has {size:,} bytes, CIFAR-10's archive {PACKED_BYTES:,}"
        raise UsageError(f"{says} ({error})", AGAIN) from None


def _extract(archive: tarfile.TarFile, member: tarfile.TarInfo) -> bytes:
    """Return a regular file's bytes. Refuse a link: its size says nothing about that of its target."""
    if not member.isreg() or member.issparse():
        raise tarfile.ReadError(f"{member.name}: {SPECIAL}")
    if member.size > LARGEST_BATCH_BYTES:
        raise tarfile.ReadError(f"{member.name} has {member.size:,} bytes")
    file = archive.extractfile(member)
    return file.read() if file is not None else b""


class _AtMost(gzip.GzipFile):
    """A gzip file that unpacks at most MOST_BYTES: a small file can hold endless zeros."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if self.tell() > MOST_BYTES:
            raise tarfile.ReadError(f"more than {MOST_BYTES:,} bytes are packed in it")
        return data


def _md5_of(place: Path) -> str:
    try:
        with open_regular(place, MOST_BYTES) as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise cannot_read(place, error) from None
