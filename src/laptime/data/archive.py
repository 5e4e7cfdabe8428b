"""Find CIFAR-10's own python archive, packed or unpacked, and hold it against its published digests.

The digests are those that the archive's page (www.cs.toronto.edu/~kriz/cifar.html) and torchvision give.
"""

from __future__ import annotations

import hashlib
import tarfile
import zlib
from collections.abc import Iterator, Mapping
from pathlib import Path

from laptime.data.faults import cannot_read
from laptime.errors import UsageError

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
LARGEST_BATCH_BYTES = 256 * 1024**2
AGAIN = "Fetch it again from https://www.cs.toronto.edu/~kriz/cifar.html."


def find_archive(path: Path) -> Path:
    """Give the packed file or the folder of batches that `path` means."""
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
    """Give the files that make up the archive, with their sizes; one that is missing is named."""
    if place.is_file():
        return {place.name: place.stat().st_size}
    sizes = {}
    for name in (*TRAIN, *TEST):
        try:
            sizes[name] = (place / name).stat().st_size
        except FileNotFoundError:
            raise UsageError(f"{place} is not whole: {name} is not there", AGAIN) from None
        except OSError as error:
            raise cannot_read(place / name, error) from None
    return sizes


def check_archive(place: Path, md5: Mapping[str, str] = MD5, packed_md5: str = PACKED_MD5) -> None:
    """Compare digests; a packed file that was packed anew is unpacked to compare what is in it."""
    if place.is_file() and _md5_of(place) == packed_md5:
        return
    for _ in read_batches(place, (*TRAIN, *TEST), md5):
        pass


def read_batches(place: Path, names: tuple[str, ...], md5: Mapping[str, str] | None) -> Iterator[tuple[str, bytes]]:
    """Give each batch's bytes when they are found right."""
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
            yield name, (place / name).read_bytes()
        except OSError as error:
            raise cannot_read(place / name, error) from None


def _packed(place: Path, names: tuple[str, ...]) -> Iterator[tuple[str, bytes]]:
    """Unpack in memory: nothing that an archive says is written anywhere."""
    wanted = {f"{UNPACKED}/{name}": name for name in names}
    try:
        with tarfile.open(place, "r:gz") as archive:
            for member in archive:
                name = wanted.get(member.name.removeprefix("./"))
                file = archive.extractfile(member) if name and member.size <= LARGEST_BATCH_BYTES else None
                if name and file is not None:
                    yield name, file.read()
    except (tarfile.TarError, EOFError, zlib.error, OSError) as error:
        size = place.stat().st_size
        says = f"{place} cannot be unpacked to its end: it has {size:,} bytes, CIFAR-10's archive {PACKED_BYTES:,}"
        raise UsageError(f"{says} ({error})", AGAIN) from None


def _md5_of(place: Path) -> str:
    try:
        with place.open("rb") as file:
            return hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
    except OSError as error:
        raise cannot_read(place, error) from None
