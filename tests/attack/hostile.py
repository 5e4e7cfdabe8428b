"""Files that nobody should have to read: one row each, with what writes it."""

from __future__ import annotations

import gzip
import io
import json
import os
import pickle
import random
import socket
import struct
import tarfile
import zlib
from collections.abc import Callable
from pathlib import Path

import numpy as np
from PIL import Image

Write = Callable[[Path], object]
SIDE = 64
HUGE = 1 << 40


def sound(kind: str, side: int = SIDE) -> bytes:
    """Return a sound picture of a kind, as bytes."""
    pixels = np.random.default_rng(0).integers(0, 255, (side, side, 3), np.uint8)
    held = io.BytesIO()
    Image.fromarray(pixels).save(held, kind)
    return held.getvalue()


def write(data: bytes) -> Write:
    return lambda place: place.write_bytes(data)


def write_large(make: Callable[[], bytes]) -> Write:
    """Write what takes long to pack; it is packed where it is used, not where tests are collected."""
    return lambda place: place.write_bytes(make())


def link(target: str) -> Write:
    return lambda place: place.symlink_to(target)


def to_itself(place: Path) -> None:
    place.symlink_to(place.name)


def sparse(place: Path) -> None:
    with place.open("wb") as file:
        file.truncate(HUGE)


def socket_at(place: Path) -> None:
    held = socket.socket(socket.AF_UNIX)
    here = Path.cwd()
    os.chdir(place.parent)  # a socket's address is short
    try:
        held.bind(place.name)
    finally:
        os.chdir(here)
        held.close()


def png(width: int, height: int, rows: bytes, kind: tuple[int, int] = (8, 2)) -> bytes:
    """Return a PNG that says it has these sides, whatever is in it."""

    def chunk(kind: bytes, data: bytes) -> bytes:
        return struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))

    header = struct.pack(">IIBBBBB", width, height, *kind, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + chunk(b"IDAT", zlib.compress(rows, 9)) + chunk(b"IEND", b"")


def jpeg_with_sides(width: int, height: int) -> bytes:
    data = bytearray(sound("JPEG"))
    at = data.index(b"\xff\xc0")
    data[at + 5 : at + 9] = struct.pack(">HH", height, width)
    return bytes(data)


def text_bomb() -> bytes:
    return b"\x00\x00\x00\x10zTXtk\x00\x00" + zlib.compress(bytes(1 << 24)) + b"0000"


POSTSCRIPT = (
    b"%!PS-Adobe-3.0 EPSF-3.0\n%%BoundingBox: 0 0 64 64\n%%EndComments\n(gs) (w) file closefile showpage\n%%EOF\n"
)

BLACK_OR_WHITE = (1, 0)  # one bit a pixel, gray

IMAGES: dict[str, Write] = {
    "empty": write(b""),
    "one byte": write(b"\xff"),
    "PostScript": write(POSTSCRIPT),
    "PostScript behind DOS bytes": write(
        struct.pack("<IIIIIIIH", 0xC6D3D0C5, 32, len(POSTSCRIPT), 0, 0, 0, 0, 0) + POSTSCRIPT
    ),
    "text": write(b"not a picture\n" * 100),
    "zeros": write(bytes(4096)),
    "JPEG cut off": write(sound("JPEG")[:400]),
    "JPEG of 65,535 by 65,535": write(jpeg_with_sides(65535, 65535)),
    "JPEG of no height": write(jpeg_with_sides(64, 0)),
    "JPEG markers only": write(b"\xff\xd8" + b"\xff\xe1\xff\xff" * 100),
    "JPEG and junk": write(sound("JPEG") + os.urandom(4096)),
    "PNG of 60,000 by 60,000": write(png(60_000, 60_000, bytes(1000))),
    "PNG bomb": write_large(lambda: png(30_000, 30_000, bytes(200_000_000))),
    "PNG bomb just under Pillow's bound": write_large(
        lambda: png(13_000, 13_000, bytes(13_000 * 1_626), BLACK_OR_WHITE)
    ),
    "PNG of 2**31 sides": write(png((1 << 31) - 1, (1 << 31) - 1, b"")),
    "PNG of one pixel": write(png(1, 1, b"\x00\x00\x00\x00")),
    "PNG with text bomb": write_large(lambda: sound("PNG")[:33] + text_bomb()),
    "GIF": write(sound("GIF")),
    "BMP of huge sides": write(
        b"BM" + struct.pack("<IIIIiiHHIIIIII", 100, 0, 54, 40, 1 << 30, 1 << 30, 1, 24, 0, 0, 0, 0, 0, 0)
    ),
    "TIFF in a circle": write(b"II*\x00\x08\x00\x00\x00\x00\x00\x08\x00\x00\x00"),
    "TIFF of many tags": write(b"II*\x00\x08\x00\x00\x00\xff\xff" + os.urandom(2000)),
    "PSD": write(b"8BPS\x00\x01" + bytes(6) + struct.pack(">HIIHH", 3, 30_000, 30_000, 8, 3)),
    "WebP header": write(b"RIFF\xff\xff\xff\xffWEBPVP8L" + bytes(40)),
    "ICNS": write(b"icns\xff\xff\xff\xff" + bytes(64)),
    "FITS": write(b"SIMPLE  =                    T" + b" " * 3000),
    "a link to nowhere": link("nowhere.jpg"),
    "a link to itself": to_itself,
    "a link to /dev/zero": link("/dev/zero"),
    "a link to /dev/stdin": link("/dev/stdin"),
    "a link to a folder": link("."),
    "a FIFO": os.mkfifo,
    "a socket": socket_at,
    "a folder": lambda place: place.mkdir(),
    "no permission": lambda place: (place.write_bytes(sound("JPEG")), place.chmod(0)),
    "a terabyte of nothing": sparse,
}
NAMES = (
    "\x1b]0;owned\x07.jpg",
    "two\nlines.jpg",
    "\u202egpj.exe.jpg",
    "-rf.jpg",
    "a" * 251 + ".jpg",
    os.fsdecode(b"\xff\xfe.jpg"),
    "%s%n{0}.jpg",
    "[bold red]x[/].jpg",
)


def tar(add: Callable[[tarfile.TarFile], object]) -> bytes:
    held = io.BytesIO()
    with tarfile.open(fileobj=held, mode="w:gz", compresslevel=1) as archive:
        add(archive)
    return held.getvalue()


def member(
    name: str, kind: bytes = tarfile.REGTYPE, target: str = "", data: bytes = b"", size: int | None = None
) -> Write:
    """Add one member, which may say of itself what is not so."""

    def add(archive: tarfile.TarFile) -> None:
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, target, len(data) if size is None else size
        archive.addfile(info, io.BytesIO(data) if size is None else None)

    return add


INSIDE = "cifar-10-batches-py/data_batch_1"


class Runs:
    """A pickle that would run a command."""

    def __reduce__(self) -> tuple[object, tuple[str]]:
        return os.system, ("touch ran",)


ARCHIVES: dict[str, Write] = {
    "empty": write(b""),
    "not packed": write(b"cifar" * 1000),
    "cut off": write(tar(member(INSIDE, data=bytes(100_000)))[:60]),
    "empty tar": write(tar(lambda _archive: None)),
    "a link to nowhere in it": write(tar(member(INSIDE, tarfile.SYMTYPE, "nowhere"))),
    "a link to itself in it": write(tar(member(INSIDE, tarfile.SYMTYPE, "data_batch_1"))),
    "a hard link to itself in it": write(tar(member(INSIDE, tarfile.LNKTYPE, INSIDE))),
    "a link to /etc/passwd in it": write(tar(member(INSIDE, tarfile.SYMTYPE, "/etc/passwd"))),
    "a FIFO in it": write(tar(member(INSIDE, tarfile.FIFOTYPE))),
    "a device in it": write(tar(member(INSIDE, tarfile.CHRTYPE))),
    "a folder in it": write(tar(member(INSIDE, tarfile.DIRTYPE))),
    "a member of a terabyte": write(tar(member(INSIDE, size=HUGE))),
    "a member that is no size": write(tar(member(INSIDE, size=-1 & 0o77777777777))),
    "a way out": write(tar(member("../../" + INSIDE, data=b"x"))),
    "a pickle that runs": write(tar(member(INSIDE, data=pickle.dumps(Runs())))),
    "a pickle nested deep": write(tar(member(INSIDE, data=b"\x80\x02" + b"]" * 200_000 + b"a" * 199_999 + b"."))),
    "a pickle of a huge list": write(tar(member(INSIDE, data=b"\x80\x04\x95\xff\xff\xff\xff\xff\xff\xff\x7f."))),
    "a gzip bomb": write_large(lambda: gzip.compress(bytes(300_000_000), 9)),
    "a FIFO": os.mkfifo,
    "a link to /dev/zero": link("/dev/zero"),
    "a link to itself": to_itself,
    "a link to nowhere": link("nowhere.tar.gz"),
    "a terabyte of nothing": sparse,
}

NESTED = "[" * 100_000
DEEP = "(" * 5_000
SOURCES: dict[str, Write] = {
    "empty": write(b""),
    "null bytes": write(b"\x00" * 100),
    "binary": write(os.urandom(1000)),
    "not UTF-8": write(b"x = '\xff\xfe'\n"),
    "another coding that is not there": write(b"# coding: klingon\nx = 1\n"),
    "UTF-16": write("def training(): ...\n".encode("utf-16")),
    "nested brackets": write(DEEP.encode()),
    "nested sums": write(b"x = " + b"1+" * 50_000 + b"1\n"),
    "nested lists": write(NESTED.encode()),
    "nested blocks": write("".join(" " * depth + "if 1:\n" for depth in range(200)).encode()),
    "an endless line": write(b"x = '" + b"a" * 10_000_000 + b"'\n"),
    "half a string": write(b"x = '''"),
    "a FIFO": os.mkfifo,
    "a folder": lambda place: place.mkdir(),
    "a link to itself": to_itself,
    "a link to /dev/zero": link("/dev/zero"),
    "a link to nowhere": link("nowhere.py"),
    "a terabyte of nothing": sparse,
    "no permission": lambda place: (place.write_bytes(b"def training(): ...\n"), place.chmod(0)),
}

WHOLE = {
    "workload": "cifar-cnn",
    "train_items": 10,
    "test_items": 10,
    "bytes": 1,
    "digest": "x",
    "schema": 1,
    "maker": 1,
}
MANIFESTS: dict[str, Write] = {
    "empty": write(b""),
    "not JSON": write(b"{"),
    "nested deep": write(NESTED.encode()),
    "a list": write(b"[]"),
    "another program's": write(b'{"name": "my-app", "version": "1.0", "manifest_version": 3}'),
    "a path for a workload": write(json.dumps({**WHOLE, "workload": "../../x"}).encode()),
    "an escape for a workload": write(json.dumps({**WHOLE, "workload": "\x1b]0;owned\x07"}).encode()),
    "numbers past all": write(json.dumps({**WHOLE, "train_items": 10**400}).encode()),
    "words for numbers": write(json.dumps({**WHOLE, "bytes": "many"}).encode()),
    "not UTF-8": write(b'{"workload": "\xff"}'),
    "a FIFO": os.mkfifo,
    "a folder": lambda place: place.mkdir(),
    "a link to itself": to_itself,
    "a link to /dev/zero": link("/dev/zero"),
    "a terabyte of nothing": sparse,
}


def flipped(data: bytes, rng: random.Random) -> bytes:
    """Return the same with some bytes changed, taken out or doubled."""
    changed = bytearray(data)
    for _ in range(rng.choice((1, 1, 4, 32))):
        at = rng.randrange(len(changed))
        match rng.randrange(4):
            case 0:
                changed[at] ^= 1 << rng.randrange(8)
            case 1:
                changed[at] = rng.choice((0, 255, 127, 128))
            case 2:
                del changed[at : at + rng.randrange(1, 64)]
            case _:
                changed[at:at] = changed[at : at + rng.randrange(1, 64)]
        if not changed:
            break
    return bytes(changed)
