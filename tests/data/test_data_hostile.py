"""Data that was made to hang a reader, to fill its memory or to lead it elsewhere: refused in words, at once."""

from __future__ import annotations

import contextlib
import gzip
import io
import os
import resource
import tarfile
import threading
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from laptime.model.errors import UsageError
from laptime.trainings.data import archive, list_items, read_source
from laptime.trainings.data.archive import UNPACKED, check_archive
from laptime.trainings.data.scan import PickleRefusedError, read_batch
from laptime.trainings.workloads import CATALOGUE

CIFAR, PETS = CATALOGUE["cifar-cnn"], CATALOGUE["pets-densenet"]
FIRST = f"{UNPACKED}/data_batch_1"
PROMPT_S = 20
NO_FILE = "it is not a regular file"


def promptly(act: Callable[[], object]) -> list[str]:
    """Run it in a thread that a pipe may not hold for ever; return what was refused."""
    said: list[str] = []

    def run() -> None:
        try:
            act()
            said.append("was taken")
        except UsageError as error:
            said.append(error.says)

    runner = threading.Thread(target=run, daemon=True)
    runner.start()
    runner.join(PROMPT_S)
    return said


def header(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 0) -> bytes:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.size = kind, link, size
    return member.tobuf(tarfile.GNU_FORMAT)


def zeros(count: int) -> bytes:
    return bytes(count * 1024**2)


HUGE = 8**20
NEGATIVE = bytearray(header("x", size=HUGE))
NEGATIVE[124:136] = b"\xff" * 10 + b"\xfe\x00"
NEGATIVE[148:156] = b"%06o\0 " % (256 + sum(NEGATIVE[:148]) + sum(NEGATIVE[156:512]))
ARCHIVES = {
    "a link that leads nowhere": (lambda: header(FIRST, tarfile.SYMTYPE, "nowhere"), NO_FILE),
    "a hard link that leads nowhere": (lambda: header(FIRST, tarfile.LNKTYPE, "nowhere"), NO_FILE),
    "a link to itself": (lambda: header(FIRST, tarfile.SYMTYPE, "data_batch_1"), NO_FILE),
    "a hard link to itself": (lambda: header(FIRST, tarfile.LNKTYPE, FIRST), NO_FILE),
    "a link out of it": (lambda: header(FIRST, tarfile.SYMTYPE, "/dev/zero"), NO_FILE),
    "a pipe": (lambda: header(FIRST, tarfile.FIFOTYPE), NO_FILE),
    "a device": (lambda: header(FIRST, tarfile.CHRTYPE), NO_FILE),
    "a folder": (lambda: header(FIRST, tarfile.DIRTYPE), NO_FILE),
    "a file with holes": (lambda: header(FIRST, tarfile.GNUTYPE_SPARSE), NO_FILE),
    "a batch of a size that cannot be": (
        lambda: header(FIRST, size=HUGE),
        "would have 1,152,921,504,606,846,976 bytes",
    ),
    "another file of such a size": (lambda: header("x", size=HUGE), "x would have 1,152,921,504,606,846,976 bytes"),
    "a batch that is too large": (lambda: header(FIRST, size=3 * 1024**2) + zeros(3), "has 3,145,728 bytes"),
    "a negative size": (lambda: bytes(NEGATIVE), "is not whole"),
    "a link to a large file": (
        lambda: header("big", size=30 * 1024**2) + zeros(30) + header(FIRST, tarfile.SYMTYPE, "../big"),
        "big would have 31,457,280 bytes",
    ),
    "a remark of zeros": (
        lambda: header("x", tarfile.XHDTYPE, size=30 * 1024**2) + zeros(30),
        "more than 8,388,608 bytes are packed in it",
    ),
    "a name of zeros": (
        lambda: header("x", tarfile.GNUTYPE_LONGNAME, size=30 * 1024**2) + zeros(30),
        "more than 8,388,608 bytes are packed in it",
    ),
    "nothing": (lambda: b"", "is not whole"),
}


@pytest.fixture
def _small(monkeypatch):
    """Bounds that are reached sooner than those of CIFAR-10."""
    monkeypatch.setattr(archive, "ARCHIVE_MOST_BYTES", 8 * 1024**2)
    monkeypatch.setattr(archive, "LARGEST_BATCH_BYTES", 2 * 1024**2)


@pytest.mark.usefixtures("_small")
@pytest.mark.parametrize("name", ARCHIVES)
def test_a_hostile_archive_is_refused_in_words(tmp_path, name):
    """No link is followed, nothing is looked for at the end of a size, and what is unpacked has a bound."""
    write, said = ARCHIVES[name]
    place = tmp_path / archive.PACKED
    with gzip.open(place, "wb", 1) as file:
        file.write(write() + bytes(1024))
    (sentence,) = promptly(lambda: check_archive(place))
    assert said in sentence
    assert "\n" not in sentence


@pytest.mark.usefixtures("_small")
def test_what_is_unpacked_stays_small(tmp_path):
    """A remark of zeros is read as one text; no more of it than the bound comes into memory."""
    place = tmp_path / archive.PACKED
    with gzip.open(place, "wb", 1) as file:
        file.write(header("x", tarfile.XHDTYPE, size=3000 * 1024**2))
        for _ in range(200):
            file.write(zeros(1))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    (sentence,) = promptly(lambda: check_archive(place))
    assert "more than 8,388,608 bytes" in sentence
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


@pytest.mark.parametrize("name", ["data_batch_1", "test_batch"])
@pytest.mark.parametrize("target", [None, "/dev/zero", "gone", "itself", "pipe"])
def test_a_batch_that_is_no_file_is_refused(tmp_path, name, target):
    """A pipe, a device, and links to them: reading them would never end."""
    for each in (*archive.TRAIN_FILES, *archive.TEST_FILES):
        (tmp_path / each).write_bytes(b"x")
    place = tmp_path / name
    place.unlink()
    os.mkfifo(tmp_path / "pipe")
    if target is None:
        os.mkfifo(place)
    else:
        place.symlink_to(name if target == "itself" else target)
    (sentence,) = promptly(lambda: read_source(CIFAR, tmp_path, 0))
    reason = {"gone": "is not there", "itself": "lead in a circle"}.get(target or "", NO_FILE)
    assert name in sentence
    assert reason in sentence


@pytest.mark.parametrize(
    "hostile",
    [
        b"\x80\x02}r" + (30_000_000).to_bytes(4, "little") + b".",
        b"\x80\x02}p30000000\n.",
        b"\x80\x05\x96" + (1 << 34).to_bytes(8, "little") + b"abc.",
        b"\x80\x04\x8e" + (1 << 34).to_bytes(8, "little") + b"abc.",
        b"\x80\x02\x8b" + (2**31 - 1).to_bytes(4, "little") + b"abc.",
    ],
)
def test_a_short_pickle_takes_little_memory(hostile):
    """Though it names a place far away, or a size."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with contextlib.suppress(PickleRefusedError):
        assert read_batch(hostile) == {}
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 60_000


def test_a_pipe_or_a_device_is_no_data(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", Path("/dev/zero")):
        for workload in (CIFAR, PETS):
            (sentence,) = promptly(lambda path=path, workload=workload: read_source(workload, path, 0))
            assert str(path) in sentence


def test_odd_things_in_class_folders_are_left_out_and_counted(tmp_path):
    """Links that lead nowhere or in a circle, pipes, devices: none ends the look, and none is an item."""
    held = io.BytesIO()
    Image.new("RGB", (40, 40)).save(held, "JPEG")
    for part in ("train", "test"):
        for name in ("cats", "dogs"):
            (tmp_path / part / name).mkdir(parents=True)
            for number in range(2):
                (tmp_path / part / name / f"{number}.jpg").write_bytes(held.getvalue())
    odd = tmp_path / "train" / "cats"
    os.mkfifo(odd / "pipe.jpg")
    for name, target in (
        ("a.jpg", "a.jpg"),
        ("b.jpg", "gone"),
        ("c.jpg", "/dev/zero"),
        ("up", ".."),
        ("d.jpg", "pipe.jpg"),
    ):
        (odd / name).symlink_to(target)
    (tmp_path / "train" / "circle").symlink_to("circle")
    os.mkfifo(tmp_path / "manifest.json")
    found = []
    assert promptly(lambda: found.append(read_source(PETS, tmp_path, 0))) == ["was taken"]
    assert (found[0].train_items, found[0].test_items) == (4, 4)
    assert found[0].notes == ("6 files left out: of another kind", "1 file left out: outside the class folders")
    assert len(list_items(found[0], "train").paths) == 4
