"""Image files -> pixels: decode a whole image, or no more than is needed; and count damaged files.

Every image file that laptime reads is opened here, as one of a few formats. Without a list of formats Pillow accepts
forty, whatever the file's name, and for one of them (PostScript) it starts an interpreter.
"""

from __future__ import annotations

import contextlib
import io
import struct
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np

from laptime.disk import read_regular
from laptime.errors import LaneError, TrainingError
from laptime.model.installation import install_command
from laptime.pipelines.transforms import Pixels

KINDS: dict[str, tuple[bytes, ...]] = {
    "JPEG": (b"\xff\xd8\xff",),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "BMP": (b"BM",),
    "GIF": (b"GIF87a", b"GIF89a"),
    "WEBP": (b"RIFF",),
    "TIFF": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
}
"""How each format begins: those whose suffixes laptime lists, and GIF, which image sets often have under such names."""

BEGINNINGS = tuple(beginning for each in KINDS.values() for beginning in each)

MOST_PIXELS = 2**26
"""More than a camera of 60 megapixels takes; 0.2 GB decoded. A file of 0.5 MB may claim any number of pixels."""

MOST_BYTES = 8 * MOST_PIXELS
"""Four uncompressed channels of sixteen bits."""

LEAST_SIDE = 8
SMALLEST_PART = 8
MOST_SHARE = 0.01
ALWAYS_ALLOWED = 3
NAMED = 3
Bad = tuple[str, str]
"""A file, and why it cannot be used."""


class DamagedImageError(Exception):
    """One file is not a usable image; it is counted, named and left out."""


def open_plain(path: str) -> Any:
    """Return a file as an RGB image of Pillow, decoded whole, as the authors' loaders did."""
    pillow = import_pillow()
    with _in_words():
        picture = _as_rgb(_open(pillow, _read(path)))
        _check_least(picture.height, picture.width)
        return picture


def decode_small(path: str, height: int, width: int) -> Pixels:
    """Return a file's pixels at full, half, quarter or eighth size: the smallest that still covers height and width."""
    held = _read(path)
    decoder = find_decoder()
    if decoder is not None and held[:2] == b"\xff\xd8":
        try:
            return _decode_jpeg(decoder, held, height, width)
        except (ValueError, RuntimeError):
            pass  # it reads neither CMYK nor odd markers; Pillow does, and reports what is wrong with the rest
    pillow = import_pillow()
    with _in_words():
        picture = _open(pillow, held)
        picture.draft("RGB", (width, height))
        return _checked(np.asarray(_as_rgb(picture)))


def check_file(path: str) -> io.BytesIO:
    """Return a file's bytes for a framework's own loader, which accepts any format that Pillow does.

    Only the first bytes are checked, so that the loader is as fast as without laptime.
    """
    held = _read(path)
    if not held.startswith(BEGINNINGS):
        raise DamagedImageError(f"cannot be decoded (it is none of {', '.join(KINDS)})")
    return io.BytesIO(held)


def limit_pixels() -> None:
    """Make Pillow refuse images of more than MOST_PIXELS, whatever code of this process opens them."""
    import_pillow().MAX_IMAGE_PIXELS = MOST_PIXELS // 2  # it warns above this limit, and refuses above twice the limit


@contextlib.contextmanager
def _in_words() -> Iterator[None]:
    """Turn whatever Pillow raises into a DamagedImageError, and ignore its warnings."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    except DamagedImageError:
        raise
    except Exception as error:
        raise DamagedImageError(f"cannot be decoded ({_told(error)})") from error


def import_pillow() -> Any:
    try:
        from PIL import Image  # noqa: PLC0415  an extra, needed only to read image files
    except ImportError:
        raise LaneError("reading image files needs Pillow, which is not installed", install_command("images")) from None
    return Image


def find_decoder() -> Any:
    """Return simplejpeg (a thin wrapper of libjpeg-turbo), or None if it is not installed."""
    try:
        import simplejpeg  # noqa: PLC0415
    except ImportError:
        return None
    return simplejpeg


def _decode_jpeg(decoder: Any, held: bytes, height: int, width: int) -> Pixels:
    there_height, there_width, colours, _ = decoder.decode_jpeg_header(held)
    _check_most(there_height, there_width)
    if colours in {"CMYK", "YCCK"}:
        raise ValueError(colours)
    part = smallest_part(there_height, there_width, height, width)
    # libjpeg-turbo is fast only for these parts: five eighths of an image take longer than the whole image.
    least = (there_height // part, there_width // part) if part > 1 else (0, 0)
    fast = {"fastdct": True, "fastupsample": True}  # a tenth of the time, for one gray level of 255 on average
    return _checked(decoder.decode_jpeg(held, "RGB", min_height=least[0], min_width=least[1], **fast))


def smallest_part(there_height: int, there_width: int, height: int, width: int) -> int:
    """Return the divisor 1, 2, 4 or 8 that makes the image smallest and still at least height by width."""
    part = 1
    while part < SMALLEST_PART and there_height >= 2 * part * height and there_width >= 2 * part * width:
        part *= 2
    return part


def _as_rgb(picture: Any) -> Any:
    """Convert any image to 8-bit RGB. Sixteen bits are scaled, not clipped."""
    picture.load()  # opening reads the header only
    if picture.mode.startswith("I") or picture.mode == "F":
        values = np.asarray(picture, np.float32)
        most = 65535.0 if values.max(initial=0.0) > 255 else 255.0
        picture = import_pillow().fromarray((values * (255.0 / most)).clip(0, 255).astype(np.uint8))
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _read(path: str) -> bytes:
    try:
        return read_regular(path, MOST_BYTES)
    except OSError as error:
        raise DamagedImageError(f"cannot be read ({error.strerror or error})") from error


def _open(pillow: Any, held: bytes) -> Any:
    """Open an image by its header. Refuse it before decoding if its format is not listed or it is too large."""
    picture = pillow.open(io.BytesIO(held), formats=tuple(KINDS))
    _check_most(picture.height, picture.width)
    return picture


def _checked(pixels: Pixels) -> Pixels:
    _check_least(*pixels.shape[:2])
    return pixels


def _check_least(height: int, width: int) -> None:
    if min(height, width) < LEAST_SIDE:
        raise DamagedImageError(f"is only {width}x{height} pixels")


def _check_most(height: int, width: int) -> None:
    if height * width > MOST_PIXELS:
        raise DamagedImageError(f"has {width:,}x{height:,} pixels, and at most {MOST_PIXELS:,} are decoded")


def _told(error: Exception) -> str:
    if isinstance(error, struct.error):
        return "its header is damaged"
    return str(error).split(" <", 1)[0].splitlines()[0] if str(error) else type(error).__name__


class DamagedImages:
    """The damaged images so far. Up to 1 % of the items, or 3 if that is more, may be damaged."""

    def __init__(self, items: int) -> None:
        self._allowed = max(ALWAYS_ALLOWED, int(items * MOST_SHARE))
        self._items = items
        self._reasons: dict[str, str] = {}

    def add(self, path: str, reason: str) -> None:
        """Count a file once, however often it is read. Raise TrainingError if there are too many."""
        self._reasons.setdefault(path, reason)
        if len(self._reasons) > self._allowed or len(self._reasons) >= self._items:
            raise TrainingError(
                f"{len(self._reasons)} of {self._items:,} images cannot be used: {self._named()}",
                f"up to {self._allowed} are left out; repair or remove these files",
            )

    def notes(self) -> tuple[str, ...]:
        """Return a note on how many images were left out, and which."""
        if not self._reasons:
            return ()
        return (f"left out {len(self._reasons)} of {self._items:,} images: {self._named()}",)

    def _named(self) -> str:
        named = [f"{path} {reason}" for path, reason in list(self._reasons.items())[:NAMED]]
        more = len(self._reasons) - len(named)
        return "; ".join(named) + (f"; and {more} more" if more else "")
