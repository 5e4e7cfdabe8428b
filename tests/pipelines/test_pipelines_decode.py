"""Thirty kinds of image files that go wrong or are merely odd: each is taken, or told in words."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest
from pictures import encoded, smooth
from PIL import Image

from laptime.engine.pipelines.decode import DamagedImageError, decode_small, open_plain, smallest_part
from laptime.model.frameworks import install_command

SOUND = encoded(smooth(0), quality=95)
PNG = encoded(smooth(0), "PNG")
SIXTEEN = smooth(0)[:, :, 0].astype(np.uint16) * 257


def sixteen_bits() -> bytes:
    return encoded(SIXTEEN, "PNG")


BROKEN = {
    "empty": b"",
    "one byte": b"\xff",
    "only the first marker": SOUND[:2],
    "the header alone": SOUND[:160],
    "a text": b"this is not a picture\n" * 40,
    "a web page": b"<!DOCTYPE html><html><body>404</body></html>",
    "all zeros": bytes(4096),
    "all ones": b"\xff" * 4096,
    "random bytes": np.random.default_rng(0).bytes(4096),
    "a jpeg marker, then noise": b"\xff\xd8\xff\xe0" + np.random.default_rng(1).bytes(2000),
    "a png cut off in its header": PNG[:20],
    "a png cut off in its data": PNG[: len(PNG) // 2],
    "a png with a changed byte": PNG[:60] + bytes([PNG[60] ^ 0xFF]) + PNG[61:],
    "a zip": b"PK\x03\x04" + bytes(200),
    "a pdf": b"%PDF-1.7\n" + bytes(200),
    "a gif cut off": encoded(smooth(0), "GIF")[:40],
    "a pointer to a large file": b"version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 12345\n",
    "one pixel": encoded(smooth(0, 1, 1)),
    "a line": encoded(smooth(0, 1, 300)),
    "seven pixels wide": encoded(smooth(0, 300, 7)),
    "one pixel, png": encoded(smooth(0, 1, 1), "PNG"),
}
ODD = {
    "grayscale": encoded(smooth(0), mode="L", quality=95),
    "cmyk": encoded(smooth(0), mode="CMYK", quality=95),
    "a png named jpg": PNG,
    "a palette": encoded(smooth(0), "PNG", mode="P"),
    "with transparency": encoded(smooth(0), "PNG", mode="RGBA"),
    "sixteen bits": sixteen_bits(),
    "progressive": encoded(smooth(0), quality=95, progressive=True),
    "bmp": encoded(smooth(0), "BMP"),
    "tiff": encoded(smooth(0), "TIFF"),
    "webp": encoded(smooth(0), "WEBP", quality=95),
    "with bytes after its end": SOUND + b"more" * 10,
    "with a broken note in its head": SOUND[:2] + b"\xff\xe1\x00\x10Exif\x00\x00" + b"\xff" * 8 + SOUND[2:],
    "one color": encoded(np.full((60, 80, 3), 9, np.uint8)),
    "very wide": encoded(smooth(0, 20, 2000)),
}


def test_the_corpus_is_as_large_as_promised():
    assert len(BROKEN) + len(ODD) >= 30


@pytest.fixture
def written(tmp_path):
    def write(held: bytes) -> str:
        path = tmp_path / "picture.jpg"
        path.write_bytes(held)
        return str(path)

    return write


@pytest.mark.parametrize("name", BROKEN)
@pytest.mark.parametrize("decode", [lambda path: decode_small(path, 24, 32), open_plain], ids=["fast", "published"])
def test_a_broken_file_is_told_in_words(written, name, decode):
    """Never another error, never a half picture, and one line that says why."""
    with pytest.raises(DamagedImageError, match=r"cannot be decoded|is only \d+x\d+ pixels") as caught:
        decode(written(BROKEN[name]))
    assert "\n" not in str(caught.value)
    assert " at 0x" not in str(caught.value)


@pytest.mark.parametrize("name", ODD)
def test_an_odd_file_is_taken_by_both_alike(written, name):
    """Whatever its kind, it becomes eight bits of red, green and blue."""
    path = written(ODD[name])
    fast = decode_small(path, 24, 32)
    plain = np.asarray(open_plain(path))
    assert fast.dtype == np.uint8
    assert fast.shape[2] == 3
    shrunk = np.asarray(Image.fromarray(plain).resize(fast.shape[1::-1], Image.Resampling.BOX))
    assert np.abs(fast.astype(int) - shrunk).mean() < 4


def test_sixteen_bits_are_scaled_and_not_cut_off(written):
    """A bright picture stays as bright as it was."""
    pixels = decode_small(written(sixteen_bits()), 24, 32)
    assert np.abs(pixels[:, :, 0].astype(int) - smooth(0)[:, :, 0]).max() <= 1


@pytest.mark.parametrize("share", [0.3, 0.6, 0.9])
def test_a_jpeg_that_is_cut_off_is_not_taken_for_whole(written, share):
    """Its lower part would be gray, and nobody would know."""
    path = written(SOUND[: int(len(SOUND) * share)])
    for decode in (lambda: decode_small(path, 24, 32), lambda: open_plain(path)):
        with pytest.raises(DamagedImageError):
            decode()


def test_what_cannot_be_read_is_told(tmp_path):
    """A folder, a missing file, one without permission."""
    for path in (tmp_path, tmp_path / "gone.jpg"):
        with pytest.raises(DamagedImageError, match="cannot be read"):
            decode_small(str(path), 24, 32)
    secret = tmp_path / "secret.jpg"
    secret.write_bytes(SOUND)
    secret.chmod(0)
    if os.access(secret, os.R_OK):
        pytest.skip("this user may read everything")
    with pytest.raises(DamagedImageError, match="cannot be read"):
        decode_small(str(secret), 24, 32)


@pytest.mark.parametrize(
    ("there", "wanted", "part"),
    [((60, 80), (24, 32), 2), ((47, 80), (24, 32), 1), ((400, 400), (24, 32), 8), ((24, 32), (24, 32), 1)],
)
def test_a_picture_is_decoded_no_larger_than_needed_and_no_smaller(there, wanted, part, written):
    """At a half, a quarter or an eighth: what libjpeg-turbo does fast."""
    assert smallest_part(*there, *wanted) == part
    decoded = decode_small(written(encoded(smooth(0, *there))), *wanted)
    assert decoded.shape[:2] == (-(-there[0] // part), -(-there[1] // part))


def test_pillow_alone_gives_the_same_picture(written):
    """Where simplejpeg is not installed, nothing but the speed differs."""
    path = written(encoded(smooth(0, 200, 300), quality=95))
    code = (
        "import sys; sys.modules['simplejpeg'] = None\n"
        "from laptime.engine.pipelines.decode import decode_small\n"
        f"sys.stdout.buffer.write(decode_small({path!r}, 40, 40).tobytes())"
    )
    alone = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True).stdout
    both = decode_small(path, 40, 40)
    off = np.abs(np.frombuffer(alone, np.uint8).reshape(both.shape).astype(int) - both)
    assert off.mean() < 1


def test_without_pillow_it_says_what_to_install():
    code = (
        "import sys; sys.modules['PIL'] = None\n"
        "from laptime.model.errors import LaneError\n"
        "from laptime.engine.pipelines.decode import open_plain\n"
        "try: open_plain('x')\n"
        "except LaneError as error: print(error)"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, text=True).stdout
    assert "needs Pillow" in said
    assert install_command("images") in said
