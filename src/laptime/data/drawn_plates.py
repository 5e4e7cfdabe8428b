"""Draw licence plates: eight characters in a real font on a plate, slightly turned, moved, unevenly lit, noisy."""

from __future__ import annotations

from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any

from laptime.data.drawing import Drawn, add_grain, any_colour, chance_of, mix, picture_of, shine, to_jpeg, vary
from laptime.model.dataset import Part
from laptime.workloads.catalogue import PLATE_CHARACTERS
from laptime.workloads.data import VIEWS

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

DIGITS, LETTERS = PLATE_CHARACTERS[:10], PLATE_CHARACTERS[10:]
# As in real life, a region's plates have their own colour and begin with its two letters. Four digits and two letters
# follow. The published network has one number per character to tell 36 apart, and from fully random plates it learns
# nothing in a lap. Of the five files of a plate, one is wrong at each place: a guess that knows all this, but not the
# image, is right for 9.5 of 100 characters.
REGIONS = {
    "AB": ((240, 240, 235), (20, 20, 25)),
    "CK": ((245, 210, 60), (20, 20, 25)),
    "HN": ((60, 110, 200), (245, 245, 245)),
    "MT": ((190, 50, 45), (250, 240, 230)),
    "RX": ((60, 140, 75), (240, 250, 235)),
    "ZP": ((45, 45, 50), (235, 235, 220)),
}
PATTERN = (DIGITS, DIGITS, DIGITS, DIGITS, LETTERS, LETTERS)
PLACES = 2 + len(PATTERN)
QUALITY = 75
SURROUND, PLATE, INK = 0, 127, 255


def draw_plate(part: Part, index: int) -> Drawn:
    """Draw one plate, named by its text as one of five readers reads it."""
    from PIL import Image  # noqa: PLC0415  an extra that only images need

    number, view = picture_of(index)
    chance = chance_of("plates", part, number)
    region = chance.choice(list(REGIONS))
    text = region + "".join(kind[int(len(kind) * chance.random())] for kind in PATTERN)
    width = 240 + int(120 * chance.random())
    height = int(width * (0.44 + 0.1 * chance.random()))
    drawn = _draw_flat(chance, text, width, height)
    moved = (round((2 * chance.random() - 1) * width * 0.015), round((2 * chance.random() - 1) * height * 0.04))
    turned = drawn.rotate(6 * chance.random() - 3, Image.Resampling.BILINEAR, translate=moved, fillcolor=SURROUND)
    seen = add_grain(chance, shine(chance, _colour(chance, turned, region), 0.5))
    return Drawn(f"{part}/{_read(text, part, number, view)}_{index:06d}.jpg", to_jpeg(seen, QUALITY))


def _read(text: str, part: Part, number: int, view: int) -> str:
    """Return a plate's text as one of its five readers reads it. At each place, one of the five is wrong."""
    chance = chance_of("plates' readers", part, number)
    wrong = [int(VIEWS * chance.random()) for _ in text]
    kinds = [DIGITS if letter in DIGITS else LETTERS for letter in text]
    away = [1 + int((len(kind) - 1) * chance.random()) for kind in kinds]
    others = [kind[(kind.index(letter) + by) % len(kind)] for letter, kind, by in zip(text, kinds, away, strict=True)]
    return "".join(other if at == view else letter for letter, other, at in zip(text, others, wrong, strict=True))


def _draw_flat(chance: Random, text: str, width: int, height: int) -> Picture:
    """Draw the plate as seen from the front, in three greys: a grey image turns three times faster."""
    from PIL import Image, ImageDraw  # noqa: PLC0415

    picture = Image.new("L", (width, height), SURROUND)
    pen: Any = ImageDraw.Draw(picture)
    plate = (width * 0.03, height * 0.16, width * 0.97, height * 0.84)
    pen.rounded_rectangle(plate, height * 0.08, PLATE, INK, 1 + int(3 * chance.random()))
    cell = width * 0.9 / PLACES
    size = round(cell * 1.3 / 4) * 4
    for place, letter in enumerate(text):
        mask = _glyph(letter, size)
        x = width * 0.05 + cell * (place + 0.5) - mask.width / 2
        picture.paste(INK, (round(x), round((height - mask.height) / 2)), mask)
    return picture


def _colour(chance: Random, greys: Picture, region: str) -> Picture:
    from PIL import ImageOps  # noqa: PLC0415

    surround = mix((60, 60, 65), any_colour(chance), 0.5)
    plate, ink = (vary(chance, color, 20) for color in REGIONS[region])
    return ImageOps.colorize(greys, surround, ink, plate)


@cache
def _glyph(letter: str, size: int) -> Picture:
    """Draw a character once for each size; pasting it is ten times faster."""
    from PIL import Image, ImageDraw  # noqa: PLC0415

    font = _font(size)
    left, top, right, bottom = (round(edge) for edge in font.getbbox(letter, stroke_width=1))
    mask = Image.new("L", (right - left, bottom - top))
    ImageDraw.Draw(mask).text((-left, -top), letter, 255, font, stroke_width=1)
    return mask


@cache
def _font(size: int) -> Any:
    """Return the font that comes with Pillow, so that plates look the same on every machine."""
    from PIL import ImageFont  # noqa: PLC0415

    return ImageFont.load_default(size=size)
