"""Image files -> pixels: decode a whole image, or no more than is needed; and count damaged files.

Every image file that laptime reads is opened here, as one of a few formats. Without a list of formats Pillow accepts
forty, whatever the file's name, and for one of them (PostScript) it starts an interpreter.
"""

from __future__ import annotations

import contextlib
import io
import math
import struct
import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from laptime.engine.pipelines.job import BatchOrder, Labels, LoaderJob, rng_of
from laptime.model.errors import LaneError, TrainingError
from laptime.model.frameworks import install_command
from laptime.store.disk import read_regular
from laptime.trainings.workloads.data import Floats

FILE_SIGNATURES: dict[str, tuple[bytes, ...]] = {
    "JPEG": (b"\xff\xd8\xff",),
    "PNG": (b"\x89PNG\r\n\x1a\n",),
    "BMP": (b"BM",),
    "GIF": (b"GIF87a", b"GIF89a"),
    "WEBP": (b"RIFF",),
    "TIFF": (b"II*\0", b"MM\0*", b"II+\0", b"MM\0+"),
}
"""How each format begins: those whose suffixes laptime lists, and GIF, which image sets often have under such names."""

BEGINNINGS = tuple(beginning for file_signature in FILE_SIGNATURES.values() for beginning in file_signature)

MOST_PIXELS = 2**26
"""More than a camera of 60 megapixels takes; 0.2 GB decoded. A file of 0.5 MB may claim any number of pixels."""

IMAGE_MOST_BYTES = 8 * MOST_PIXELS
"""Four uncompressed channels of sixteen bits."""

LEAST_SIDE = 8
SMALLEST_PART = 8
MOST_SHARE = 0.01
ALWAYS_ALLOWED = 3
DAMAGED_NAMED = 3
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
        raise DamagedImageError(f"cannot be decoded (it is none of {', '.join(FILE_SIGNATURES)})")
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
    except struct.error as error:
        raise DamagedImageError("cannot be decoded (its header is damaged)") from error
    except Exception as error:
        reason = str(error).split(" <", 1)[0].splitlines()[0] if str(error) else type(error).__name__
        raise DamagedImageError(f"cannot be decoded ({reason})") from error


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
        return read_regular(path, IMAGE_MOST_BYTES)
    except OSError as error:
        raise DamagedImageError(f"cannot be read ({error.strerror or error})") from error


def _open(pillow: Any, held: bytes) -> Any:
    """Open an image by its header. Refuse it before decoding if its format is not listed or it is too large."""
    picture = pillow.open(io.BytesIO(held), formats=tuple(FILE_SIGNATURES))
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
        named = [f"{path} {reason}" for path, reason in list(self._reasons.items())[:DAMAGED_NAMED]]
        more = len(self._reasons) - len(named)
        return "; ".join(named) + (f"; and {more} more" if more else "")


# Turn and resize images: the random transforms of scenes-cnn as one affine map, and scikit-image's resize, which
# plates-cnn uses.
#
# Keras's ImageDataGenerator drew for each image: a rotation within 20 degrees, a shear within 0.2 (degrees, in that
# class), a zoom of each axis from 0.8 to 1.2, and a horizontal flip half of the time. Beyond the edge, the last pixel
# is repeated. The authors of plates-cnn wrote `resize(imread(file), (64, 128))`, as Keras's documentation of Sequence
# does: a Gaussian blur with a sigma of (shrink factor - 1) / 2, then linear interpolation, both mirrored at the edge.

ROTATION_DEGREES = 20.0
SHEAR_DEGREES = 0.2
ZOOM_LEAST, ZOOM_MOST = 0.8, 1.2
TRANSFORM_RANGES = (
    (-ROTATION_DEGREES, ROTATION_DEGREES),
    (-SHEAR_DEGREES, SHEAR_DEGREES),
    (ZOOM_LEAST, ZOOM_MOST),
    (ZOOM_LEAST, ZOOM_MOST),
    (0.0, 1.0),
)
Matrix = tuple[tuple[float, float], tuple[float, float]]
Pixels = npt.NDArray[np.uint8]
PIXEL = np.dtype("V3")
FRACTION_BITS = 16
ONE = 1 << FRACTION_BITS
Doubles = npt.NDArray[np.float64]
CUT_AT = 4.0  # standard deviations


@dataclass(frozen=True, slots=True)
class Turn:
    """What was drawn for one image; angles in degrees."""

    rotation: float
    shear: float
    zoom_x: float
    zoom_y: float
    flip: bool


STILL = Turn(0.0, 0.0, 1.0, 1.0, flip=False)


def draw_turns(rng: np.random.Generator, count: int) -> list[Turn]:
    """Draw the transforms of `count` images from the published ranges."""
    least, most = np.array(TRANSFORM_RANGES).T
    drawn = least + (most - least) * rng.random((count, len(TRANSFORM_RANGES)))
    return [Turn(angle, lean, x, y, flip=side < 0.5) for angle, lean, x, y, side in drawn.tolist()]


def matrix_of(turn: Turn) -> Matrix:
    """Return the map from an output's (row, column), counted from the centre, to the input's: turn, shear, zoom, flip.

    Keras writes its matrices for (x, y) and swaps the axes before use; so does this function. In Keras the flip comes
    last; from output to input it comes first.
    """
    angle = math.radians(turn.rotation)
    lean = math.radians(turn.shear)
    # Rotation times shear, multiplied out
    x_by_x = math.cos(angle)
    x_by_y = -math.sin(angle + lean)
    y_by_x = math.sin(angle)
    y_by_y = math.cos(angle + lean)
    side = -1.0 if turn.flip else 1.0
    return (
        (y_by_y * turn.zoom_y, y_by_x * turn.zoom_x * side),
        (x_by_y * turn.zoom_y, x_by_x * turn.zoom_x * side),
    )


class NearestWarp(threading.local):
    """Maps images of any size to one size. Each thread has its own scratch memory.

    An image is first stretched to the wanted size. Stretching and turning are one map, computed in integers of 1/65,536
    of a pixel. Each pixel is moved as a whole: three bytes at once.
    """

    def __init__(self, rows: int, columns: int) -> None:
        super().__init__()
        self._down = np.arange(rows) - (rows - 1) / 2
        self._across = np.arange(columns) - (columns - 1) / 2
        self._y = np.empty((rows, columns), np.int32)
        self._x = np.empty((rows, columns), np.int32)
        self._index = np.empty((rows, columns), np.int64)

    def __call__(self, source: Pixels, matrix: Matrix, out: Pixels) -> None:
        height, width = source.shape[:2]
        rows, columns = self._index.shape
        (a, b), (c, d) = matrix
        self._place(self._y, (a * height / rows, b * height / columns), height)
        self._place(self._x, (c * width / rows, d * width / columns), width)
        np.multiply(self._y, width, out=self._y)
        np.add(self._y, self._x, out=self._index)
        pixels = np.ascontiguousarray(source).reshape(-1).view(PIXEL)
        pixels.take(self._index, out=out.reshape(rows, columns * 3).view(PIXEL), mode="clip")

    def _place(self, place: npt.NDArray[np.int32], along: tuple[float, float], size: int) -> None:
        """Write each output pixel's place on one axis of the source to `place`, clipped at the edges."""
        by_row = (along[0] * ONE * self._down).astype(np.int32)
        # The centre of an image is half a pixel from its middle pixels, so rounding down finds the nearest pixel.
        by_column = (along[1] * ONE * self._across + ONE * size / 2).astype(np.int32)
        np.add(by_row[:, None], by_column[None, :], out=place)
        np.right_shift(place, FRACTION_BITS, out=place)
        place.clip(0, size - 1, out=place)


def warp_linear(image: npt.NDArray[np.float32], matrix: Matrix) -> npt.NDArray[np.float32]:
    """Turn an image within its own size, channel by channel, with linear interpolation, as the authors' loader did."""
    height, width, channels = image.shape
    rows, columns = np.mgrid[0:height, 0:width].astype(np.float64)
    rows -= height / 2 - 0.5
    columns -= width / 2 - 0.5
    (a, b), (c, d) = matrix
    y = a * rows + b * columns + (height / 2 - 0.5)
    x = c * rows + d * columns + (width / 2 - 0.5)
    above = np.floor(y)
    left = np.floor(x)
    share_down = y - above
    share_right = x - left
    top = np.clip(above, 0, height - 1).astype(np.intp)
    bottom = np.clip(above + 1, 0, height - 1).astype(np.intp)
    near = np.clip(left, 0, width - 1).astype(np.intp)
    far = np.clip(left + 1, 0, width - 1).astype(np.intp)
    turned = np.empty_like(image)
    for channel in range(channels):
        plane = image[:, :, channel]
        upper = plane[top, near] * (1 - share_right) + plane[top, far] * share_right
        lower = plane[bottom, near] * (1 - share_right) + plane[bottom, far] * share_right
        turned[:, :, channel] = upper * (1 - share_down) + lower * share_down
    return turned


def resize_smoothly(image: Doubles, height: int, width: int) -> Doubles:
    """Resize an image of (row, column, channel), as scikit-image does."""
    for axis, size in enumerate((height, width)):
        there = image.shape[axis]
        blurred = _blur(image, axis, max(0.0, (there / size - 1) / 2))
        places = (np.arange(size) + 0.5) * (there / size) - 0.5
        below = np.floor(places).astype(np.int64)
        share = (places - below).reshape([-1 if other == axis else 1 for other in range(image.ndim)])
        lower = blurred.take(_mirrored(below, there), axis)
        upper = blurred.take(_mirrored(below + 1, there), axis)
        image = lower * (1 - share) + upper * share
    return image


def _blur(image: Doubles, axis: int, sigma: float) -> Doubles:
    reach = int(CUT_AT * sigma + 0.5)
    if sigma == 0 or reach == 0:
        return image
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / sigma) ** 2)
    weights /= weights.sum()
    size = image.shape[axis]
    wide = image.take(_mirrored(np.arange(-reach, size + reach), size), axis)
    parts = [wide[step : step + size] if axis == 0 else wide[:, step : step + size] for step in range(2 * reach + 1)]
    blurred: Doubles = parts[reach] * weights[reach]
    both = np.empty_like(blurred)
    for step in range(reach):  # the weights are the same on both sides
        np.add(parts[step], parts[-1 - step], out=both)
        both *= weights[step]
        blurred += both
    return blurred


def _mirrored(places: npt.NDArray[np.int64], size: int) -> npt.NDArray[np.int64]:
    """Mirror places beyond an edge; the edge itself is not repeated."""
    if size == 1:
        return np.zeros_like(places)
    around = 2 * (size - 1)
    folded = np.abs(places) % around
    near: npt.NDArray[np.int64] = np.minimum(folded, around - folded)
    return near


# The authors' own ways of reading files, as slow as they were.
#
# scenes-cnn: Keras's ImageDataGenerator. Pillow decodes the whole image and resizes it to the nearest pixel; four
# random transforms and the scaling are applied one image at a time, all in one interpreter. Twelve threads each make a
# whole batch, and ten batches are queued. plates-cnn: a Sequence. It reads one image after another in the training's
# own process when the batch is due. An image is decoded whole and resized by scikit-image, as in the example of Keras's
# documentation of Sequence. pets-densenet: PyTorch's DataLoader, which is in the torch room. What it does to one image
# is here; lanes without PyTorch read one image after another.

KERAS_THREADS = 12
KERAS_QUEUE = 10
TRIES = 50
MadeItem = tuple[Floats, Labels]
ReadStill = Callable[[str, int, int], Floats]
PassOver = Callable[[str, str], None]


def read_turned(path: str, turn: Turn, height: int, width: int) -> Floats:
    """Read one training image of scenes-cnn."""
    pillow = import_pillow()
    picture = open_plain(path)
    if picture.size != (width, height):
        picture = picture.resize((width, height), pillow.Resampling.NEAREST)
    image = warp_linear(np.asarray(picture, np.float32), matrix_of(turn))
    image *= np.float32(1 / 255)
    return image


def read_smoothed(path: str, height: int, width: int) -> Floats:
    """Read one image of plates-cnn."""
    image = np.asarray(open_plain(path)) / 255.0
    return resize_smoothly(image, height, width).astype(np.float32)


def read_plain(path: str, height: int, width: int) -> Floats:
    """Read one image of pets-densenet: decoded whole, resized linearly, scaled."""
    pillow = import_pillow()
    picture = open_plain(path)
    if picture.size != (width, height):
        picture = picture.resize((width, height), pillow.Resampling.BILINEAR)
    return np.asarray(picture, np.float32) / np.float32(255)


class AuthorsReader:
    """Makes batch number N in the authors' way, one image after another. Damaged images are skipped."""

    def __init__(self, job: LoaderJob, read_still: ReadStill, pass_over: PassOver) -> None:
        self._job = job
        self._pass_over = pass_over
        self._order = BatchOrder(len(job.paths), job.batch, job.seed)
        self._labels = np.array(job.labels, np.int64)
        self._read_still = read_still

    def __call__(self, number: int) -> MadeItem:
        chosen = self._order(number)
        turns = draw_turns(rng_of(self._job.seed, number), len(chosen))
        read = [self._sound_one(int(item), turn) for item, turn in zip(chosen, turns, strict=True)]
        return np.stack([image for image, _ in read]), self._labels[[item for _, item in read]]

    def _sound_one(self, item: int, turn: Turn) -> tuple[Floats, int]:
        job = self._job
        for further in range(TRIES):
            index = (item + further) % len(job.paths)
            try:
                if job.turned:
                    return read_turned(job.paths[index], turn, job.height, job.width), index
                return self._read_still(job.paths[index], job.height, job.width), index
            except DamagedImageError as error:
                self._pass_over(job.paths[index], str(error))
        raise TrainingError(f"{TRIES} images one after another cannot be used, from {job.paths[item]} on")


class AuthorsBatchMaker:
    """The same in a worker process, into slots that hold floats."""

    def __init__(self, job: LoaderJob) -> None:
        self._bad: list[Bad] = []
        read_still = read_plain if job.way == "plain" else read_smoothed
        self._read = AuthorsReader(job, read_still, lambda path, reason: self._bad.append((path, reason)))

    def __call__(self, number: int, images: Floats, labels: Labels) -> list[Bad]:
        """Make batch `number`. Return the files that were skipped."""
        self._bad.clear()
        images[:], found = self._read(number)
        labels[:] = found.reshape(labels.shape)
        return list(self._bad)


class _AuthorsLoader:
    """What the authors' loaders share. They hold no images, so making a batch again costs the same."""

    holds = False

    def __init__(self, job: LoaderJob, read_still: ReadStill) -> None:
        self._damaged = DamagedImages(len(job.paths))
        self._read = AuthorsReader(job, read_still, self._damaged.add)

    def repeat(self) -> None:
        """Do nothing: no images are held."""

    def notes(self) -> tuple[str, ...]:
        return self._damaged.notes()


class OneByOneLoader(_AuthorsLoader):
    """Makes a batch when it is due, in the training's own process and thread."""

    ready_batches = 0

    def __init__(self, job: LoaderJob, first: int, read_still: ReadStill = read_smoothed) -> None:
        super().__init__(job, read_still)
        self._number = first

    def __call__(self) -> MadeItem:
        made = self._read(self._number)
        self._number += 1
        return made

    def close(self) -> None:
        """Do nothing: only memory is held."""


class QueuedLoader(_AuthorsLoader):
    """Makes the coming batches in threads of the training's own process, and returns them in order."""

    def __init__(self, job: LoaderJob, first: int, threads: int = KERAS_THREADS, queue: int = KERAS_QUEUE) -> None:
        super().__init__(job, read_smoothed)
        self._next = first
        self.ready_batches = queue
        self._pool = ThreadPoolExecutor(threads, "generator")
        self._queue: deque[Future[MadeItem]] = deque()
        for _ in range(queue):
            self._ask()

    def __call__(self) -> MadeItem:
        made = self._queue.popleft().result()
        self._ask()
        return made

    def close(self) -> None:
        self._pool.shutdown(wait=False, cancel_futures=True)

    def _ask(self) -> None:
        self._queue.append(self._pool.submit(self._read, self._next))
        self._next += 1
