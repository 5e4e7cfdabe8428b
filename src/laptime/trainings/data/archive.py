"""Find CIFAR-10's own python archive, packed or unpacked, and check it against its published digests.

The digests are those of the archive's page (www.cs.toronto.edu/~kriz/cifar.html) and of torchvision.
"""

from __future__ import annotations

import errno
import gzip
import hashlib
import json
import os
import re
import tarfile
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING

from laptime.model.errors import UsageError
from laptime.store.disk import SPECIAL, check_regular, open_regular, read_regular

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


PACKED = "cifar-10-python.tar.gz"
UNPACKED = "cifar-10-batches-py"
PACKED_BYTES = 170_498_071
PACKED_MD5 = "c58f30108f718f92721af3b95e74349a"
TRAIN_FILES = tuple(f"data_batch_{number}" for number in range(1, 6))
TEST_FILES = ("test_batch",)
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
ARCHIVE_MOST_BYTES = 256 * 1024**2  # all batches together have 186 MB, packed or not
FETCH_AGAIN_HINT = "Fetch it again from https://www.cs.toronto.edu/~kriz/cifar.html."


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
        if any((folder / name).exists() for name in (*TRAIN_FILES, *TEST_FILES)):
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
    for name in (*TRAIN_FILES, *TEST_FILES):
        try:
            sizes[name] = size_of_regular(place / name)
        except FileNotFoundError:
            raise UsageError(f"{place} is not whole: {name} is not there", FETCH_AGAIN_HINT) from None
        except OSError as error:
            raise cannot_read(place / name, error) from None
    return sizes


def check_archive(place: Path, md5: Mapping[str, str] = MD5, packed_md5: str = PACKED_MD5) -> None:
    """Compare digests. If a packed file's own digest differs, the files in it are compared."""
    if place.is_file():
        try:
            with open_regular(place, ARCHIVE_MOST_BYTES) as file:
                digest = hashlib.file_digest(file, lambda: hashlib.md5(usedforsecurity=False)).hexdigest()
        except OSError as error:
            raise cannot_read(place, error) from None
        if digest == packed_md5:
            return
    for _ in read_packed_batches(place, (*TRAIN_FILES, *TEST_FILES), md5):
        pass


def read_packed_batches(
    place: Path, names: tuple[str, ...], md5: Mapping[str, str] | None
) -> Iterator[tuple[str, bytes]]:
    """Yield each batch's name and bytes once its digest is checked."""
    missing = set(names)
    for name, data in _packed(place, names) if place.is_file() else _unpacked(place, names):
        if md5 is not None and hashlib.md5(data, usedforsecurity=False).hexdigest() != md5[name]:
            raise UsageError(f"{name} in {place} is not CIFAR-10's: its MD5 is not {md5[name]}", FETCH_AGAIN_HINT)
        missing.discard(name)
        yield name, data
    if missing:
        raise UsageError(f"{place} is not whole: {', '.join(sorted(missing))} is not in it", FETCH_AGAIN_HINT)


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
            open_regular(place, ARCHIVE_MOST_BYTES) as file,
            _AtMost(fileobj=file) as unpacked,
            tarfile.open(fileobj=unpacked, mode="r|") as archive,
        ):
            for member in archive:
                if member.offset_data + member.size > ARCHIVE_MOST_BYTES:  # tarfile would seek to its end
                    raise tarfile.ReadError(f"{member.name} would have {member.size:,} bytes")
                name = wanted.get(member.name.removeprefix("./"))
                if name is None:
                    continue
                if not member.isreg() or member.issparse():  # the size of a link says nothing about its target's
                    raise tarfile.ReadError(f"{member.name}: {SPECIAL}")
                if member.size > LARGEST_BATCH_BYTES:
                    raise tarfile.ReadError(f"{member.name} has {member.size:,} bytes")
                data = archive.extractfile(member)
                yield name, data.read() if data is not None else b""
    except (tarfile.TarError, EOFError, zlib.error, OSError, ValueError, LookupError, OverflowError) as error:
        size = place.stat().st_size
        says = f"{place} cannot be unpacked to its end: it has {size:,} bytes, CIFAR-10's archive {PACKED_BYTES:,}"
        raise UsageError(f"{says} ({error})", FETCH_AGAIN_HINT) from None


class _AtMost(gzip.GzipFile):
    """A gzip file that unpacks at most ARCHIVE_MOST_BYTES: a small file can hold endless zeros."""

    def read(self, size: int | None = -1) -> bytes:
        data = super().read(size)
        if self.tell() > ARCHIVE_MOST_BYTES:
            raise tarfile.ReadError(f"more than {ARCHIVE_MOST_BYTES:,} bytes are packed in it")
        return data


# The manifest of a made set, written last, and its digest of the files' names and sizes.
#
# A set without a manifest is half-written. For the digest, each name is hashed to a number below a prime. The digest is
# the number of files, the sum of these numbers, and their sum weighted by the sizes. So the difference of two digests
# shows what changed. If one file was added, the difference is that file's part. If one file grew, the difference
# divided by that file's number is a small number of bytes.

PRIME = 2**61 - 1
LARGEST_CHANGE_BYTES = 2**40
ARCHIVE_SCHEMA = 1
MOST_MANIFEST_BYTES = 10_000
DIGEST = re.compile(r"[0-9]+-[0-9a-f]{16}-[0-9a-f]{16}")
MAKER = 4  # incremented when an item is drawn differently: older sets are then made again


@dataclass(frozen=True, slots=True)
class FilesDigest:
    count: int
    names: int
    weights: int

    def __str__(self) -> str:
        return f"{self.count}-{self.names:016x}-{self.weights:016x}"


def digest_files(files: Mapping[str, int]) -> FilesDigest:
    """Return the digest of files, given as sizes by name. Their order does not matter."""
    names = weights = 0
    for name, size in files.items():
        number = _number(name)
        names += number
        weights += number * size
    return FilesDigest(len(files), names % PRIME, weights % PRIME)


def describe_change(before: str, files: Mapping[str, int]) -> str | None:
    """Return a sentence on how the files differ from an earlier digest, or None if they do not."""
    now = digest_files(files)
    if str(now) == before:
        return None
    try:
        old_count, old_names, old_weights = before.split("-")
        more = now.count - int(old_count)
        names = (now.names - int(old_names, 16)) % PRIME
        weights = (now.weights - int(old_weights, 16)) % PRIME
    except ValueError:
        return "its digest is of another kind"
    if more == 0 and names:
        return "at least one file has another name"
    if more == 0:
        for name, size in files.items():
            grown = weights * pow(_number(name), -1, PRIME) % PRIME
            grown = grown if grown < PRIME // 2 else grown - PRIME
            if abs(grown) < LARGEST_CHANGE_BYTES and size >= grown:
                return f"{name} has {size:,} bytes and had {size - grown:,}"
        return "several files have another size"
    if more == 1:
        for name, size in files.items():
            if _number(name) == names and names * size % PRIME == weights:
                return f"{name} was added"
        return "one file was added, and others changed"
    if more == -1:
        size = -weights * pow(-names, -1, PRIME) % PRIME if names else PRIME
        return f"one file of {size:,} bytes was removed" if size < LARGEST_CHANGE_BYTES else "one file was removed"
    return f"{more:,} files were added" if more > 0 else f"{-more:,} files were removed"


def _number(name: str) -> int:
    return 1 + int.from_bytes(hashlib.blake2b(os.fsencode(name), digest_size=8).digest(), "big") % (PRIME - 1)


@dataclass(frozen=True, slots=True)
class Manifest:
    workload: str
    train_items: int
    test_items: int
    bytes: int
    digest: str
    schema: int = ARCHIVE_SCHEMA
    maker: int = MAKER

    @property
    def is_ours(self) -> bool:
        """Whether this version of laptime made the set."""
        return (self.schema, self.maker) == (ARCHIVE_SCHEMA, MAKER)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """Return a folder's manifest, or None if it has none, or one that is damaged or another program's."""
    try:
        read = json.loads(read_regular(folder / MANIFEST, MOST_MANIFEST_BYTES))
        manifest = Manifest(**{field.name: read[field.name] for field in fields(Manifest)})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    words = (manifest.workload, manifest.digest)
    numbers = (manifest.train_items, manifest.test_items, manifest.bytes, manifest.schema, manifest.maker)
    sound = all(type(word) is str for word in words) and all(type(number) is int for number in numbers)
    return manifest if sound and DIGEST.fullmatch(manifest.digest) else None


# Read a user's files, and find image files under a folder. Errors become messages.

WRITING_REASONS = {
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
    return WRITING_REASONS.get(error.errno or 0) or error.strerror or str(error)


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
