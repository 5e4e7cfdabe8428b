"""Image files -> pixels: the plain way, and one that decodes no more than is needed."""

from __future__ import annotations

import io
import struct
import warnings
from typing import Any

import numpy as np

from laptime.errors import LaneError
from laptime.pipelines.warp import Pixels

LEAST_SIDE = 8
SMALLEST_PART = 8
INSTALL = "pip install 'laptime[images]'"


class SpoiltImageError(Exception):
    """One file gives no picture; it is counted, named and left out."""


def open_plain(path: str) -> Any:
    """Give a file as an RGB picture of Pillow, decoded whole, as the authors' loaders did."""
    pillow = import_pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # a damaged header is told by its picture, not by Pillow's remarks
            picture = _as_rgb(pillow.open(io.BytesIO(_read(path))))
            _check(picture.height, picture.width)
            return picture
    except SpoiltImageError:
        raise
    except Exception as error:  # Pillow's plugins raise whatever their format's parser met
        raise SpoiltImageError(f"cannot be decoded ({_told(error)})") from error


def decode_small(path: str, height: int, width: int) -> Pixels:
    """Give a file's pixels, at a half, a quarter or an eighth where that still is no smaller than what is wanted."""
    held = _read(path)
    decoder = find_decoder()
    if decoder is not None and held[:2] == b"\xff\xd8":
        try:
            return _decode_jpeg(decoder, held, height, width)
        except (ValueError, RuntimeError):
            pass  # it takes neither CMYK nor odd markers; Pillow does, and says what is wrong with the rest
    pillow = import_pillow()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            picture = pillow.open(io.BytesIO(held))
            picture.draft("RGB", (width, height))
            return _checked(np.asarray(_as_rgb(picture)))
    except SpoiltImageError:
        raise
    except Exception as error:
        raise SpoiltImageError(f"cannot be decoded ({_told(error)})") from error


def import_pillow() -> Any:
    try:
        from PIL import Image  # noqa: PLC0415  an extra: needed where files are read, and only there
    except ImportError:
        raise LaneError("reading image files needs Pillow, which is not installed", INSTALL) from None
    return Image


def find_decoder() -> Any:
    """Give simplejpeg where it is installed: libjpeg-turbo with no picture object around it."""
    try:
        import simplejpeg  # noqa: PLC0415
    except ImportError:
        return None
    return simplejpeg


def _decode_jpeg(decoder: Any, held: bytes, height: int, width: int) -> Pixels:
    there_height, there_width, colours, _ = decoder.decode_jpeg_header(held)
    if colours in {"CMYK", "YCCK"}:
        raise ValueError(colours)
    part = smallest_part(there_height, there_width, height, width)
    # Only these parts have a fast path in libjpeg-turbo: five eighths of a picture take longer than all of it.
    least = (there_height // part, there_width // part) if part > 1 else (0, 0)
    quick = {"fastdct": True, "fastupsample": True}  # a tenth of the time for one gray level of 255, on average
    return _checked(decoder.decode_jpeg(held, "RGB", min_height=least[0], min_width=least[1], **quick))


def smallest_part(there_height: int, there_width: int, height: int, width: int) -> int:
    """Give 1, 2, 4 or 8: the smallest part of a picture's sides that is still as large as what is wanted."""
    part = 1
    while part < SMALLEST_PART and there_height >= 2 * part * height and there_width >= 2 * part * width:
        part *= 2
    return part


def _as_rgb(picture: Any) -> Any:
    """Bring any kind of picture to eight bits of red, green and blue; sixteen bits are scaled, not cut off."""
    picture.load()  # opening reads the header only
    if picture.mode.startswith("I") or picture.mode == "F":
        values = np.asarray(picture, np.float32)
        most = 65535.0 if values.max(initial=0.0) > 255 else 255.0
        picture = import_pillow().fromarray((values * (255.0 / most)).clip(0, 255).astype(np.uint8))
    return picture if picture.mode == "RGB" else picture.convert("RGB")


def _read(path: str) -> bytes:
    try:
        with io.FileIO(path) as file:
            return file.readall()
    except OSError as error:
        raise SpoiltImageError(f"cannot be read ({error.strerror or error})") from error


def _checked(pixels: Pixels) -> Pixels:
    _check(*pixels.shape[:2])
    return pixels


def _check(height: int, width: int) -> None:
    if min(height, width) < LEAST_SIDE:
        raise SpoiltImageError(f"is only {width}x{height} pixels")


def _told(error: Exception) -> str:
    if isinstance(error, struct.error):
        return "its header is damaged"
    return str(error).split(" <", 1)[0].splitlines()[0] if str(error) else type(error).__name__
