"""What all drawn pictures share: chance, backgrounds, light, the grain of a camera, and the JPEG file."""

from __future__ import annotations

import io
from functools import cache
from random import Random
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from laptime.errors import UsageError
from laptime.model.dataset import Part

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

DATA_SEED = 20_220_301
GRAIN_SIDE = 768
GRAINS = (4, 7, 10, 13)

Colour = tuple[int, int, int]


class Drawn(NamedTuple):
    """One file: its path within the set, and its bytes."""

    name: str
    data: bytes


def chance_of(kind: str, part: Part, index: int) -> Random:
    """Give the chance that draws one item; it knows nothing of other items, threads or races."""
    return Random(f"{DATA_SEED}/{kind}/{part}/{index}")


def check_pillow(what: str) -> None:
    """Refuse early, and say what to install."""
    try:
        from PIL import Image, ImageFont  # noqa: F401, PLC0415  an extra that only pictures need
    except ImportError as error:
        says = f"{what} needs Pillow, which cannot be imported ({error})"
        raise UsageError(says, "pip install 'laptime[images]'") from None


def background(chance: Random, width: int, height: int, colours: tuple[Colour, ...]) -> Picture:
    """Paint soft patches of these colours, as out of focus."""
    from PIL import Image  # noqa: PLC0415

    across, down = 2 + int(chance.random() * 3), 2 + int(chance.random() * 3)
    patches = Image.new("RGB", (across, down))
    patches.putdata([vary(chance, chance.choice(colours), 40) for _ in range(across * down)])
    return patches.resize((width, height), Image.Resampling.BILINEAR)


def vary(chance: Random, colour: Colour, by: float) -> Colour:
    """Give a colour near this one."""
    red, green, blue = (max(0, min(255, int(each + (2 * chance.random() - 1) * by))) for each in colour)
    return red, green, blue


def mix(one: Colour, other: Colour, share: float) -> Colour:
    red, green, blue = (int(a + (b - a) * share) for a, b in zip(one, other, strict=True))
    return red, green, blue


def any_colour(chance: Random) -> Colour:
    return int(chance.random() * 256), int(chance.random() * 256), int(chance.random() * 256)


def shine(chance: Random, picture: Picture, darkest: float) -> Picture:
    """Light a picture unevenly; `darkest` is the least share of light that falls anywhere."""
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
    """Make one large sheet of noise, partly the same in all three colours; pieces of it are as good as new noise."""
    from PIL import Image  # noqa: PLC0415

    random = np.random.default_rng([DATA_SEED, strength])
    shape = (GRAIN_SIDE, GRAIN_SIDE, 1)
    sheet = random.normal(128, GRAINS[strength], shape) + random.normal(0, GRAINS[strength] / 3, (*shape[:2], 3))
    return Image.fromarray(sheet.clip(0, 255).astype(np.uint8))
