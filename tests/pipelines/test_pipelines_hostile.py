"""Files that are no pictures, or picture bombs: told as damaged, at once, in little memory, and nothing is started."""

from __future__ import annotations

import io
import os
import subprocess
import sys
import threading
import zlib
from pathlib import Path

import numpy as np
import pytest
from pictures import encoded, smooth, write_pictures
from PIL import Image

from laptime.engine.pipelines.decode import (
    FILE_SIGNATURES,
    MOST_PIXELS,
    DamagedImageError,
    check_file,
    decode_small,
    limit_pixels,
    open_plain,
    read_plain,
    read_smoothed,
)
from laptime.store.disk import read_regular


def read_as_keras(path: str) -> Image.Image:
    """Keras opens what it is given as whatever Pillow takes it for."""
    limit = Image.MAX_IMAGE_PIXELS
    try:
        limit_pixels()
        return Image.open(check_file(path)).convert("RGB")
    except (Image.DecompressionBombError, OSError) as error:
        raise DamagedImageError(f"cannot be decoded ({error})") from None
    finally:
        Image.MAX_IMAGE_PIXELS = limit


READERS = {
    "fast": lambda path: decode_small(path, 24, 32),
    "published": open_plain,
    "plain": lambda path: read_plain(path, 24, 32),
    "smoothed": lambda path: read_smoothed(path, 24, 32),
    "a framework's own": read_as_keras,
}

STARTED = """
import os, sys
from PIL import Image
sys.path[:0] = sys.argv[1:2]
from test_pipelines_hostile import READERS
from laptime.engine.pipelines.decode import DamagedImageError
for read in READERS.values():
    try:
        read(sys.argv[2])
        print("was read")
    except DamagedImageError as error:
        print(error)
print(os.path.exists(sys.argv[3]))
try:
    Image.open(sys.argv[2]).load()
except Exception:
    pass
print(os.path.exists(sys.argv[3]))
"""


def test_postscript_that_is_named_as_a_picture_starts_nothing(tmp_path):
    """It is a true EPS, and `gs` leaves a file behind when it is started: by Pillow alone, and by no reader of ours."""
    picture, started, gs = tmp_path / "x.jpg", tmp_path / "started", tmp_path / "bin" / "gs"
    picture.write_bytes(encoded(smooth(0), "EPS"))
    gs.parent.mkdir()
    gs.write_text(f"#!/bin/sh\necho started > {started}\nexit 1\n")
    gs.chmod(0o755)
    environment = {**os.environ, "PATH": f"{gs.parent}{os.pathsep}{os.environ['PATH']}"}
    command = [sys.executable, "-c", STARTED, str(Path(__file__).parent), str(picture), str(started)]
    said = subprocess.run(command, env=environment, capture_output=True, text=True, check=True).stdout.splitlines()
    assert [each.split(" (")[0] for each in said[:-2]] == ["cannot be decoded"] * len(READERS)
    assert said[-2:] == ["False", "True"]


@pytest.mark.parametrize("name", READERS)
def test_other_kinds_than_ours_are_damaged_images(tmp_path, name):
    """Though Pillow could read them."""
    path = tmp_path / "x.jpg"
    for kind in ("PPM", "TGA", "PCX", "ICO", "SGI"):
        path.write_bytes(encoded(smooth(0), kind))
        with pytest.raises(DamagedImageError, match="cannot be decoded"):
            READERS[name](str(path))
    for kind in FILE_SIGNATURES:
        path.write_bytes(encoded(smooth(0), kind))
        READERS[name](str(path))


REFUSED = r"Image size \(\d+ pixels\) exceeds limit of \d+ pixels"


def bomb(kind: str, width: int, height: int) -> bytes:
    """A file that claims a number of pixels; what it really holds is a few."""
    held = bytearray(encoded(smooth(0), kind))
    if kind == "PNG":
        held[16:24] = width.to_bytes(4, "big") + height.to_bytes(4, "big")
        held[29:33] = zlib.crc32(held[12:29]).to_bytes(4, "big")
    else:
        start = held.index(b"\xff\xc0") + 5
        held[start : start + 4] = height.to_bytes(2, "big") + width.to_bytes(2, "big")
    return bytes(held)


@pytest.mark.parametrize("name", READERS)
@pytest.mark.parametrize("kind", ["PNG", "JPEG"])
def test_too_many_pixels_are_a_damaged_image(tmp_path, kind, name):
    """Of each kind, by each reader, with simplejpeg too: all lanes leave the same files out."""
    path = tmp_path / "x.jpg"
    side = int(MOST_PIXELS**0.5) + 1
    path.write_bytes(bomb(kind, side, side))
    with pytest.raises(
        DamagedImageError, match=rf"has {side:,}x{side:,} pixels, and at most {MOST_PIXELS:,} are|{REFUSED}"
    ):
        READERS[name](str(path))
    path.write_bytes(bomb(kind, 60_000, 60_000))
    with pytest.raises(DamagedImageError, match=f"has 60,000x60,000 pixels|{REFUSED}"):
        READERS[name](str(path))


@pytest.mark.long
def test_a_bomb_costs_no_memory(tmp_path):
    """A few kilobytes that would be half a gigabyte of pixels: each reader refuses it by its header."""
    path = tmp_path / "x.png"
    held = io.BytesIO()
    Image.new("1", (12_000, 12_000)).save(held, "PNG")
    path.write_bytes(held.getvalue())
    code = (
        "import resource, sys; sys.path[:0] = sys.argv[1:2]\n"
        "from test_pipelines_hostile import READERS\n"
        "from laptime.engine.pipelines.decode import DamagedImageError\n"
        "before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss\n"
        "for read in READERS.values():\n"
        "    try: read(sys.argv[2]); print('was read')\n"
        "    except DamagedImageError: pass\n"
        "print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) < 50_000)"
    )
    command = [sys.executable, "-c", code, str(Path(__file__).parent), str(path)]
    assert subprocess.run(command, capture_output=True, text=True, check=True).stdout == "True\n"


@pytest.mark.parametrize("name", READERS)
def test_what_is_no_file_is_not_waited_for(tmp_path, name):
    """A pipe without a writer, a device without an end, links that lead to either, nowhere or in a circle."""
    os.mkfifo(tmp_path / "pipe.jpg")
    places = {
        "zero.jpg": "/dev/zero",
        "linked.jpg": "pipe.jpg",
        "nowhere.jpg": "gone.jpg",
        "circle.jpg": "circle.jpg",
        "folder.jpg": ".",
    }
    for place, target in places.items():
        (tmp_path / place).symlink_to(target)
    said: list[str] = []

    def read_all() -> None:
        for place in ("pipe.jpg", *places):
            try:
                READERS[name](str(tmp_path / place))
            except DamagedImageError as error:
                said.append(str(error))

    reader = threading.Thread(target=read_all, daemon=True)
    reader.start()
    reader.join(20)
    assert [each for each in said if "cannot be read" in each] == said
    assert len(said) == 1 + len(places)


def test_a_file_that_is_too_large_is_not_read(tmp_path):
    """It need not be as large as it says."""
    path = tmp_path / "x.jpg"
    with path.open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(DamagedImageError, match=r"cannot be read \(it has 1,099,511,627,776 bytes, and at most"):
        decode_small(str(path), 24, 32)
    with pytest.raises(OSError, match="at most 10 are read"):
        read_regular(path, 10)


def test_a_large_picture_is_still_read(tmp_path):
    """As large as one of a camera of sixty megapixels; none is refused that any loader could have to read."""
    assert MOST_PIXELS > 9_504 * 6_336
    (path,) = write_pictures(tmp_path, 1, height=1_000, width=6_000)
    assert decode_small(path, 24, 32).shape == (125, 750, 3)
    assert np.asarray(open_plain(path)).shape == (1_000, 6_000, 3)
