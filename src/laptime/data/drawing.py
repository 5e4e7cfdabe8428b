"""What all drawn images share: random numbers, backgrounds, light, camera noise, the JPEG file, and a pen.

Each item depends on its own number only, so it is the same however many are made. Five items show the same picture and
do not all have the same label, as those made in memory (`workloads/data.py`).
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laptime.errors import UsageError
from laptime.model.dataset import Part
from laptime.model.installation import install_command
from laptime.workloads.data import BLOCK, PICTURES

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

DATA_SEED = 20_220_301
GRAIN_SIDE = 768
GRAINS = (4, 7, 10, 13)

Colour = tuple[int, int, int]
Point = tuple[float, float]


class Drawn(NamedTuple):
    """One file: its path within the set, and its bytes."""

    name: str
    data: bytes


def chance_of(kind: str, part: Part, index: int) -> Random:
    """Return the random generator of one item. It does not depend on other items, threads or races."""
    return Random(f"{DATA_SEED}/{kind}/{part}/{index}")


def picture_of(index: int) -> tuple[int, int]:
    """Return the number of the picture that an item shows, and which of the picture's five items it is, from 0."""
    block, place = divmod(index, BLOCK)
    return block * PICTURES + place % PICTURES, place // PICTURES


def check_pillow(what: str) -> None:
    """Raise UsageError early if Pillow is missing, with the command that installs it."""
    try:
        from PIL import Image, ImageFont  # noqa: F401, PLC0415  an extra that only images need
    except ImportError as error:
        says = f"{what} needs Pillow, which cannot be imported ({error})"
        raise UsageError(says, install_command("images")) from None


def background(chance: Random, width: int, height: int, colours: tuple[Colour, ...]) -> Picture:
    """Paint soft patches of these colours, like an out-of-focus background."""
    from PIL import Image  # noqa: PLC0415

    across, down = 2 + int(chance.random() * 3), 2 + int(chance.random() * 3)
    patches = Image.new("RGB", (across, down))
    patches.putdata([vary(chance, chance.choice(colours), 40) for _ in range(across * down)])
    return patches.resize((width, height), Image.Resampling.BILINEAR)


def vary(chance: Random, colour: Colour, by: float) -> Colour:
    """Return a colour near this one."""
    red, green, blue = (max(0, min(255, int(each + (2 * chance.random() - 1) * by))) for each in colour)
    return red, green, blue


def mix(one: Colour, other: Colour, share: float) -> Colour:
    red, green, blue = (int(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def any_colour(chance: Random) -> Colour:
    return int(chance.random() * 256), int(chance.random() * 256), int(chance.random() * 256)


def shine(chance: Random, picture: Picture, darkest: float) -> Picture:
    """Light an image unevenly. `darkest` is the smallest share of light at any place."""
    from PIL import Image, ImageChops  # noqa: PLC0415

    light = Image.new("L", (2, 2))
    light.putdata([int(255 * (darkest + (1 - darkest) * chance.random())) for _ in range(4)])
    spread = light.resize(picture.size, Image.Resampling.BILINEAR)
    return ImageChops.multiply(picture, Image.merge("RGB", (spread, spread, spread)))


def add_grain(chance: Random, picture: Picture, coarse: int = len(GRAINS)) -> Picture:
    """Add noise of one of the first `coarse` strengths."""
    from PIL import ImageChops  # noqa: PLC0415

    grain = _grain(int(chance.random() * coarse))
    left = int(chance.random() * (GRAIN_SIDE - picture.width))
    top = int(chance.random() * (GRAIN_SIDE - picture.height))
    cut = grain.crop((left, top, left + picture.width, top + picture.height))
    return ImageChops.add(picture, cut, 1, -128)


def to_jpeg(picture: Picture, quality: int) -> bytes:
    file = io.BytesIO()
    picture.save(file, "JPEG", quality=quality)
    return file.getvalue()


@cache
def _grain(strength: int) -> Picture:
    """Make a large sheet of noise, partly equal in all three colours. Pieces of it are as good as new noise."""
    from PIL import Image  # noqa: PLC0415

    random = np.random.default_rng([DATA_SEED, strength])
    shape = (GRAIN_SIDE, GRAIN_SIDE, 1)
    sheet = random.normal(128, GRAINS[strength], shape) + random.normal(0, GRAINS[strength] / 3, (*shape[:2], 3))
    return Image.fromarray(sheet.clip(0, 255).astype(np.uint8))


class Sketch:
    """Draws on an image; x and y run from 0 to 1."""

    def __init__(self, picture: Picture, chance: Random) -> None:
        from PIL import ImageDraw  # noqa: PLC0415

        self.chance = chance
        self._pen: Any = ImageDraw.Draw(picture)
        self._width, self._height = picture.size

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self.chance.random()

    def count(self, low: int, high: int) -> int:
        return low + int((high - low + 1) * self.chance.random())

    def near(self, colour: Colour, by: float = 45, stray: float = 0.45) -> Colour:
        """Return a colour near this one, mixed with a random one, so that colour does not reveal a class."""
        return mix(vary(self.chance, colour, by), any_colour(self.chance), stray * self.chance.random())

    def polygon(self, points: Sequence[Point], colour: Colour) -> None:
        self._pen.polygon([self._at(*point) for point in points], colour)

    def rectangle(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        self._pen.rectangle((*self._at(left, top), *self._at(right, bottom)), colour)

    def ellipse(self, x: float, y: float, wide: float, high: float, colour: Colour) -> None:
        """Draw an ellipse around x and y; `wide` and `high` are its half axes."""
        self._pen.ellipse((*self._at(x - wide, y - high), *self._at(x + wide, y + high)), colour)

    def line(self, points: Sequence[Point], colour: Colour, thick: float) -> None:
        """Draw a line; its thickness is a share of the shorter side."""
        across = max(1, round(thick * min(self._width, self._height)))
        self._pen.line([self._at(*point) for point in points], colour, across)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return x * self._width, y * self._height
