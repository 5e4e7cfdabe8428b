"""Scan a folder of images (a folder for each class, or plates named by their text), and divide it into train and test.

Class folders are in `train/` and `test/`, or directly in the folder. A plate's file name begins with its text, as in
`AB12CD34.jpg` or `AB12CD34_night.png`.
"""

from __future__ import annotations

import io
import pickle
import re
import struct
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np
import numpy.typing as npt

from laptime.model.errors import UsageError
from laptime.trainings.data.archive import (
    FETCH_AGAIN_HINT,
    IMAGES,
    ArchiveArrays,
    ImageFiles,
    find_images,
    list_folder,
    read_packed_batches,
)
from laptime.trainings.workloads.catalogue import CIFAR_CLASSES, PLATE_CHARACTERS

FileLabels = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
FOLDERS_EXPECTED = (
    "A folder a class is expected, with images in each, under train/ and test/ or directly in the folder."
)
TEXT = re.compile(r"([0-9A-Z]{8})(?:[_.-].*)?", re.ASCII | re.DOTALL)
SKIPPED_AT_MOST = 0.01
NAMING = "A name is expected to begin with the plate's text, eight characters of 0-9A-Z: AB12CD34.jpg, AB12CD34_2.jpg."
SPLIT_KEY = 0x5911


@dataclass(frozen=True, slots=True, eq=False)
class Scan:
    """All items of a folder in a fixed order. `in_test` is None if the folder has no `train` and `test`.

    `strata` is each item's group: a split keeps groups in proportion. It is the class, or 0 if there are no classes.
    """

    folder: Path
    sizes: Mapping[str, int]
    names: tuple[str, ...]
    labels: FileLabels
    strata: FileLabels
    classes: tuple[str, ...]
    in_test: Mask | None
    notes: tuple[str, ...] = ()


def find_parts(folder: Path) -> bool:
    return (folder / "train").is_dir() and (folder / "test").is_dir()


def scan_folders(folder: Path) -> Scan:
    """Find every image. The classes are the sorted names of the class folders."""
    parts = ("train", "test") if find_parts(folder) else ("",)
    listed = [list_folder(folder / part) for part in parts]
    for part, (classes, _) in zip(parts, listed, strict=True):
        if not classes:
            raise UsageError(f"there is no class folder in {folder / part}", FOLDERS_EXPECTED)
    if len(parts) == 2:
        train = set(listed[0][0])
        test = set(listed[1][0])
        for have, lack, lacking in (("train", "test", train - test), ("test", "train", test - train)):
            if lacking:
                says = f"{folder / have} has a class that {folder / lack} does not have: {', '.join(sorted(lacking))}"
                raise UsageError(says, "train/ and test/ are expected to have the same class folders.")
    classes = listed[0][0]
    class_folders = [f"{part}/{name}" if part else name for part in parts for name in classes]
    images = find_images(folder, class_folders)
    depth = 1 if parts[0] else 0  # of the class folders
    filled = {name.rsplit("/", name.count("/") - depth)[0] for name in images.sizes}
    for place in class_folders:
        if place not in filled:
            raise UsageError(f"the class folder {folder / place} has no images in it", f"{IMAGES} are looked for.")
    numbers = {name: number for number, name in enumerate(classes)}
    names = tuple(images.sizes)
    labels = np.array([numbers[name.split("/", depth + 1)[depth]] for name in names], np.int64)
    in_test = np.array([name.startswith("test/") for name in names], np.bool_) if depth else None
    left_out = sum([left for _, left in listed], images.left_out)
    notes = ImageFiles(images.sizes, left_out).notes()
    return Scan(folder, images.sizes, names, labels, labels, tuple(classes), in_test, notes)


def scan_plates(folder: Path) -> Scan:
    """Find every image and take its labels from its name. A few names without a text are skipped, with a note."""
    parts = ("train", "test") if find_parts(folder) else ("",)
    images = find_images(folder, parts)
    for part in parts:
        if not any(name.startswith(f"{part}/" if part else "") for name in images.sizes):
            raise UsageError(f"there are no images in {folder / part}", f"{IMAGES} are looked for.")
    texts = {name: text for name in images.sizes if (text := text_of(name))}
    wrong = [name for name in images.sizes if name not in texts]
    notes = images.notes()
    if wrong:
        first = ", ".join(wrong[:3]) + (" ..." if len(wrong) > 3 else "")
        items = len(images.sizes)
        says = f"{len(wrong):,} of {items:,} images in {folder} are not named by a plate's text: {first}"
        if len(wrong) > items * SKIPPED_AT_MOST:
            raise UsageError(f"{says} (up to {SKIPPED_AT_MOST:.0%} are skipped)", NAMING)
        notes = (*notes, f"{says}; skipped")
    names = tuple(texts)
    in_test = np.array([name.startswith("test/") for name in names], np.bool_) if parts[0] else None
    strata = np.zeros(len(names), np.int64)
    return Scan(folder, images.sizes, names, labels_of(texts.values()), strata, tuple(PLATE_CHARACTERS), in_test, notes)


def text_of(name: str) -> str | None:
    """Return the plate's text at the beginning of a file name, or None."""
    matched = TEXT.fullmatch(PurePosixPath(name).stem)
    return matched.group(1) if matched else None


def labels_of(texts: Iterable[str]) -> FileLabels:
    """Return each character's number among the 36."""
    letters = np.frombuffer("".join(texts).encode(), np.uint8).reshape(-1, 8)
    numbers = np.zeros(256, np.int64)
    numbers[np.frombuffer(PLATE_CHARACTERS.encode(), np.uint8)] = np.arange(len(PLATE_CHARACTERS))
    return numbers[letters]


def count_test(scan: Scan, train_published: int, test_published: int) -> int:
    """Return how many items the test gets. Each class, of at least two items, is in both parts."""
    share = test_published / (train_published + test_published)
    items = len(scan.names)
    groups = len(np.unique(scan.strata))
    return min(max(groups, round(items * share)), items - groups)


def choose_test(scan: Scan, tests: int, seed: int) -> Mask:
    """Choose the test items. The choice does not depend on the order in which the disk lists them."""
    chosen = np.zeros(len(scan.names), np.bool_)
    counts = np.bincount(scan.strata)
    for stratum, count in enumerate(tests_per_class(counts, tests)):
        places = np.flatnonzero(scan.strata == stratum)
        order = np.random.default_rng([seed, SPLIT_KEY, stratum]).permutation(len(places))
        chosen[places[order[:count]]] = True
    return chosen


def tests_per_class(counts: FileLabels, tests: int) -> list[int]:
    """Return each class's number of test items: at least one, never all, and exactly `tests` in total."""
    wished = counts * (tests / counts.sum())
    shares = np.clip(wished.astype(np.int64), 1, counts - 1)
    while shares.sum() != tests:
        step = 1 if shares.sum() < tests else -1
        may = shares < counts - 1 if step > 0 else shares > 1
        shares[np.argmax(np.where(may, (wished - shares) * step, -np.inf))] += step
    return [int(share) for share in shares]


# Read and write the batches of CIFAR-10's archive: pickles as Python 2 wrote them. Reading one runs none of its code.
#
# Every name in a pickle is looked up in a table of stand-ins, which only store their arguments. A name that is not in
# the table is an error. The arrays are then built here, from plain bytes.

Value = bytes | int | Sequence[bytes] | Sequence[int] | npt.NDArray[np.uint8]
ArchiveTable = Mapping[bytes, Value]
PIXELS = 3 * 32 * 32


class PickleRefusedError(Exception):
    """A pickle names something that a batch of images does not need, or it is not a pickle."""


class PickledArray:
    """Replaces an array or its dtype while a pickle is read."""

    def __init__(self, *given: Any) -> None:
        self.given = given
        self.state: tuple[Any, ...] = ()

    def __setstate__(self, state: object) -> None:
        self.state = state if isinstance(state, tuple) else ()


def _as_bytes(text: object, _encoding: object = None) -> bytes:
    """Replace `codecs.encode`, with which Python 3 writes bytes for Python 2."""
    return text.encode("latin-1") if isinstance(text, str) else b""


STAND_INS: dict[tuple[str, str], Any] = {
    ("numpy.core.multiarray", "_reconstruct"): PickledArray,
    ("numpy._core.multiarray", "_reconstruct"): PickledArray,
    ("numpy", "ndarray"): PickledArray,
    ("numpy", "dtype"): PickledArray,
    ("_codecs", "encode"): _as_bytes,
}


class _Reader(pickle._Unpickler):  # noqa: SLF001  the C one allocates 64 GB for nine bytes with a large memo index
    """Python's unpickler in pure Python, as fast here, without BYTEARRAY8, which allocates before it reads bytes."""

    dispatch = {  # noqa: RUF012  as in its base class
        code: act
        for code, act in pickle._Unpickler.dispatch.items()  # noqa: SLF001
        if code != pickle.BYTEARRAY8[0]
    }

    def find_class(self, module_name: str, global_name: str) -> Any:
        try:
            return STAND_INS[module_name, global_name]
        except KeyError:
            raise PickleRefusedError(f"it asks for {module_name}.{global_name}") from None

    def persistent_load(self, pid: Any) -> Any:
        raise PickleRefusedError(f"it asks for an object {pid!r} from elsewhere")


def read_batch(data: bytes) -> dict[str, Any]:
    """Return a batch's contents. Keys are text, arrays are uint8, other strings stay bytes."""
    try:
        read = _Reader(io.BytesIO(data), encoding="bytes").load()
    except PickleRefusedError:
        raise
    except Exception as error:  # noqa: BLE001  a damaged pickle can raise anything, and it always means the same
        raise PickleRefusedError(f"it is no whole pickle ({type(error).__name__}: {error})") from None
    if not isinstance(read, dict):
        raise PickleRefusedError(f"it holds a {type(read).__name__} and not a table of pictures and labels")
    batch: dict[str, Any] = {}
    for key, value in read.items():
        name = key.decode("latin-1") if isinstance(key, bytes) else str(key)
        batch[name] = _array(value) if isinstance(value, PickledArray) else value
    return batch


def _array(taken: PickledArray) -> npt.NDArray[np.uint8]:
    """Build a uint8 array from the state in numpy's own pickle: version, shape, type, order, bytes."""
    try:
        _, shape, kind, by_column, data = taken.state
        data = data.encode("latin-1") if isinstance(data, str) else data
        if kind.given[0] not in {b"u1", "u1"} or by_column:
            raise PickleRefusedError("its pictures are not rows of bytes")
        return np.frombuffer(data, np.uint8).reshape(shape)
    except (ValueError, TypeError, AttributeError, IndexError) as error:
        raise PickleRefusedError(f"its pictures cannot be put together ({error})") from None


def write_batch(table: ArchiveTable) -> bytes:
    """Write a table as Python 2 does, so that every reader of the real batches can read it."""
    items = b"".join(_put(key) + _put(value) for key, value in table.items())
    return pickle.PROTO + b"\x02" + pickle.EMPTY_DICT + pickle.MARK + items + pickle.SETITEMS + pickle.STOP


def _put(value: Value) -> bytes:
    if isinstance(value, bytes):
        return pickle.BINSTRING + struct.pack("<i", len(value)) + value
    if isinstance(value, int):
        return pickle.BININT + struct.pack("<i", value)
    if isinstance(value, np.ndarray):
        kind = b"cnumpy\ndtype\n" + _tuple(_put(b"u1"), _put(0), _put(1)) + pickle.REDUCE
        nothing = pickle.NONE
        kind += _tuple(_put(3), _put(b"|"), nothing, nothing, nothing, _put(-1), _put(-1), _put(0)) + pickle.BUILD
        empty = b"cnumpy.core.multiarray\n_reconstruct\n"
        empty += _tuple(b"cnumpy\nndarray\n", _tuple(_put(0)), _put(b"b")) + pickle.REDUCE
        shape = _tuple(*map(_put, value.shape))
        return empty + _tuple(_put(1), shape, kind, pickle.NEWFALSE, _put(value.tobytes())) + pickle.BUILD
    return pickle.EMPTY_LIST + pickle.MARK + b"".join(map(_put, value)) + pickle.APPENDS


def _tuple(*parts: bytes) -> bytes:
    return pickle.MARK + b"".join(parts) + pickle.TUPLE


def read_part(place: Path, names: tuple[str, ...], md5: Mapping[str, str] | None) -> ArchiveArrays:
    """Read some batches into one array. Without `md5` no digest is checked."""
    parts = {name: _arrays_of(place, name, data) for name, data in read_packed_batches(place, names, md5)}
    rows = np.concatenate([parts[name][0] for name in names])
    images = np.ascontiguousarray(rows.reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1))
    return ArchiveArrays(images, np.concatenate([parts[name][1] for name in names]))


def _arrays_of(place: Path, name: str, data: bytes) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int64]]:
    try:
        batch = read_batch(data)
        labels = np.array(batch["labels"], np.int64)
        rows = batch["data"].reshape(len(labels), PIXELS)
    except PickleRefusedError as error:
        raise UsageError(f"{name} in {place} is no batch of CIFAR-10: {error}", FETCH_AGAIN_HINT) from None
    except (KeyError, ValueError, TypeError, AttributeError, OverflowError):
        raise UsageError(
            f"{name} in {place} is no batch of CIFAR-10: pictures or labels are missing", FETCH_AGAIN_HINT
        ) from None
    if labels.ndim != 1 or not ((labels >= 0) & (labels < len(CIFAR_CLASSES))).all():
        raise UsageError(
            f"{name} in {place} is no batch of CIFAR-10: its labels are not {len(CIFAR_CLASSES)} classes",
            FETCH_AGAIN_HINT,
        )
    return rows, labels
