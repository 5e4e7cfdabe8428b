"""What all drawn images share: random numbers, backgrounds, light, camera noise, the JPEG file, and a pen.

Each item depends on its own number only, so it is the same however many are made. Five items show the same picture and
do not all have the same label, as those made in memory (`trainings/workloads/data.py`).
"""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from random import Random
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from laptime.model.ask import DataPart
from laptime.model.errors import UsageError
from laptime.model.frameworks import install_command
from laptime.trainings.workloads.catalogue import PLATE_CHARACTERS
from laptime.trainings.workloads.data import BLOCK, HARDNESS, PICTURES, VIEWS, Hardness

if TYPE_CHECKING:
    from PIL.Image import Image as Picture


DATA_SEED = 20_220_301
GRAIN_SIDE = 768
GRAINS = (4, 7, 10, 13)

Colour = tuple[int, int, int]
PixelPoint = tuple[float, float]


class Drawn(NamedTuple):
    """One file: its path within the set, and its bytes."""

    name: str
    data: bytes


def chance_of(kind: str, part: DataPart, index: int) -> Random:
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

    across = 2 + int(chance.random() * 3)
    down = 2 + int(chance.random() * 3)
    patches = Image.new("RGB", (across, down))
    patches.putdata([vary(chance, chance.choice(colours), 40) for _ in range(across * down)])
    return patches.resize((width, height), Image.Resampling.BILINEAR)


def vary(chance: Random, colour: Colour, by: float) -> Colour:
    """Return a colour near this one."""
    red, green, blue = (max(0, min(255, int(value + (2 * chance.random() - 1) * by))) for value in colour)
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

    def polygon(self, points: Sequence[PixelPoint], colour: Colour) -> None:
        self._pen.polygon([self._at(*point) for point in points], colour)

    def rectangle(self, left: float, top: float, right: float, bottom: float, colour: Colour) -> None:
        self._pen.rectangle((*self._at(left, top), *self._at(right, bottom)), colour)

    def ellipse(self, x: float, y: float, wide: float, high: float, colour: Colour) -> None:
        """Draw an ellipse around x and y; `wide` and `high` are its half axes."""
        self._pen.ellipse((*self._at(x - wide, y - high), *self._at(x + wide, y + high)), colour)

    def line(self, points: Sequence[PixelPoint], colour: Colour, thick: float) -> None:
        """Draw a line; its thickness is a share of the shorter side."""
        across = max(1, round(thick * min(self._width, self._height)))
        self._pen.line([self._at(*point) for point in points], colour, across)

    def _at(self, x: float, y: float) -> tuple[float, float]:
        return x * self._width, y * self._height


# Draw licence plates: eight characters in a real font on a plate, slightly turned, moved, unevenly lit, noisy.

PLATE_DIGITS = PLATE_CHARACTERS[:10]
PLATE_LETTERS = PLATE_CHARACTERS[10:]
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
PATTERN = (PLATE_DIGITS, PLATE_DIGITS, PLATE_DIGITS, PLATE_DIGITS, PLATE_LETTERS, PLATE_LETTERS)
PLATE_PLACES = 2 + len(PATTERN)
QUALITY = 75
SURROUND = 0
PLATE = 127
INK = 255


def draw_plate(part: DataPart, index: int) -> Drawn:
    """Draw one plate, named by its text as one of five readers reads it."""
    from PIL import Image, ImageOps  # noqa: PLC0415  an extra that only images need

    number, view = picture_of(index)
    chance = chance_of("plates", part, number)
    region = chance.choice(list(REGIONS))
    text = region + "".join(kind[int(len(kind) * chance.random())] for kind in PATTERN)
    width = 240 + int(120 * chance.random())
    height = int(width * (0.44 + 0.1 * chance.random()))
    drawn = _draw_flat(chance, text, width, height)
    moved = (round((2 * chance.random() - 1) * width * 0.015), round((2 * chance.random() - 1) * height * 0.04))
    turned = drawn.rotate(6 * chance.random() - 3, Image.Resampling.BILINEAR, translate=moved, fillcolor=SURROUND)
    surround = mix((60, 60, 65), any_colour(chance), 0.5)
    plate, ink = (vary(chance, colour, 20) for colour in REGIONS[region])
    coloured = ImageOps.colorize(turned, surround, ink, plate)
    picture = add_grain(chance, shine(chance, coloured, 0.5))
    return Drawn(f"{part}/{_read(text, part, number, view)}_{index:06d}.jpg", to_jpeg(picture, QUALITY))


def _read(text: str, part: DataPart, number: int, view: int) -> str:
    """Return a plate's text as one of its five readers reads it. At each place, one of the five is wrong."""
    chance = chance_of("plates' readers", part, number)
    wrong = [int(VIEWS * chance.random()) for _ in text]
    kinds = [PLATE_DIGITS if letter in PLATE_DIGITS else PLATE_LETTERS for letter in text]
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
    cell = width * 0.9 / PLATE_PLACES
    size = round(cell * 1.3 / 4) * 4
    for place, letter in enumerate(text):
        mask = _glyph(letter, size)
        x = width * 0.05 + cell * (place + 0.5) - mask.width / 2
        picture.paste(INK, (round(x), round((height - mask.height) / 2)), mask)
    return picture


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


# Draw photographs in class folders: eight kinds of scenes, and cats and dogs. Shapes show the class, not colours.
#
# In the set of pets, cats are mostly at home and dogs mostly on a lawn, as in real photographs. A deep network without
# pre-trained weights learns that first.

COATS: tuple[Colour, ...] = ((190, 130, 70), (60, 55, 50), (225, 215, 200), (130, 120, 110), (150, 95, 55))
WALL = (205, 190, 170)
FLOOR = (150, 95, 70)
OUTDOORS = (165, 190, 215)
LAWN = (90, 140, 60)
INSIDE_SHARE = 0.9
SKY = (165, 190, 215)


class Oval(NamedTuple):
    """A head or an eye: its middle and its half axes."""

    x: float
    y: float
    wide: float
    high: float


def draw_pet_cat(sketch: Sketch) -> None:
    """Draw a cat, nine times out of ten at home."""
    _draw_place(sketch, at_home=sketch.chance.random() < INSIDE_SHARE)
    draw_cat(sketch)


def draw_pet_dog(sketch: Sketch) -> None:
    """Draw a dog, nine times out of ten on a lawn."""
    _draw_place(sketch, at_home=sketch.chance.random() >= INSIDE_SHARE)
    draw_dog(sketch)


def _draw_place(sketch: Sketch, *, at_home: bool) -> None:
    """Fill the image with wall and floor, or with sky and lawn."""
    above, below = (WALL, FLOOR) if at_home else (OUTDOORS, LAWN)
    edge = sketch.between(0.4, 0.6)
    sketch.rectangle(0, 0, 1, edge, sketch.near(above, 30, 0.2))
    sketch.rectangle(0, edge, 1, 1, sketch.near(below, 30, 0.2))


def draw_cat(sketch: Sketch) -> None:
    """Draw a round head, two pointed ears, slit eyes, whiskers."""
    head = _place_head(sketch)
    x, y, wide, high = head
    coat = sketch.near(sketch.chance.choice(COATS))
    dark = sketch.near((40, 35, 30), 25, 0.3)
    _draw_body(sketch, head, coat)
    tip = sketch.between(1.3, 1.7)
    for side in (-1, 1):
        ear = [(x + side * wide * 0.95, y - high * 0.25), (x + side * wide * 0.8, y - high * tip)]
        sketch.polygon([*ear, (x + side * wide * 0.15, y - high * 0.85)], coat)
    sketch.ellipse(x, y, wide, high * 0.92, coat)
    for side in (-1, 1):
        eye = Oval(x + side * wide * 0.42, y - high * 0.15, wide * 0.2, high * 0.16)
        _draw_eye(sketch, eye, wide * 0.05)
        for level in (0.25, 0.4, 0.55):
            root = (x + side * wide * 0.2, y + high * 0.38)
            sketch.line([root, (x + side * wide * 1.15, y + high * level)], dark, 0.004)
    nose = [(x - wide * 0.1, y + high * 0.2), (x + wide * 0.1, y + high * 0.2), (x, y + high * 0.34)]
    sketch.polygon(nose, sketch.near((210, 130, 130), 35))


def draw_dog(sketch: Sketch) -> None:
    """Draw a long head, two hanging ears, round eyes, a broad muzzle with a dark nose."""
    head = _place_head(sketch)
    x, y, wide, high = head
    coat = sketch.near(sketch.chance.choice(COATS))
    dark = sketch.near((40, 35, 30), 25, 0.3)
    _draw_body(sketch, head, coat)
    sketch.ellipse(x, y, wide * 0.82, high, coat)
    ear = sketch.near(coat, 50, 0.3)
    hang = sketch.between(0.55, 0.8)
    for side in (-1, 1):
        sketch.ellipse(x + side * wide * 0.9, y + high * 0.05, wide * 0.26, high * hang, ear)
        eye = Oval(x + side * wide * 0.34, y - high * 0.25, wide * 0.12, high * 0.12)
        _draw_eye(sketch, eye, wide * 0.08)
    sketch.ellipse(x, y + high * 0.5, wide * 0.45, high * 0.42, sketch.near(coat, 60, 0.2))
    sketch.ellipse(x, y + high * 0.3, wide * 0.2, high * 0.14, dark)
    sketch.line([(x, y + high * 0.44), (x, y + high * 0.7)], dark, 0.01)


def _place_head(sketch: Sketch) -> Oval:
    """Choose where the head is, and how large."""
    size = sketch.between(0.16, 0.3)
    x = sketch.between(0.3, 0.7)
    y = sketch.between(0.32, 0.6)
    return Oval(x, y, size * sketch.between(0.9, 1.1), size * sketch.between(0.9, 1.1))


def _draw_body(sketch: Sketch, head: Oval, coat: Colour) -> None:
    lean = sketch.between(-0.15, 0.15)
    size = (head.wide * 1.3, head.high * 1.7)
    sketch.ellipse(head.x + lean, head.y + head.high * 2.2, *size, sketch.near(coat, 30, 0.15))


def _draw_eye(sketch: Sketch, eye: Oval, pupil: float) -> None:
    sketch.ellipse(*eye, sketch.near((190, 200, 120), 50, 0.3))
    sketch.ellipse(eye.x, eye.y, pupil, eye.high * 0.9, (15, 15, 15))


def draw_buildings(sketch: Sketch) -> None:
    """Draw upright blocks, full of windows."""
    ground = sketch.between(0.8, 1.0)
    for _ in range(sketch.count(3, 7)):
        left = sketch.between(-0.1, 0.9)
        wide = sketch.between(0.12, 0.3)
        top = sketch.between(0.05, 0.6)
        wall = sketch.near((140, 130, 125))
        glass = sketch.near((70, 80, 100))
        right = left + wide
        sketch.rectangle(left, top, right, ground, wall)
        columns = sketch.count(2, 4)
        rows = sketch.count(4, 9)
        across = (right - left) / columns
        down = (ground - top) / rows
        for column in range(columns):
            for row in range(rows):
                x = left + column * across
                y = top + row * down
                sketch.rectangle(x + across * 0.25, y + down * 0.2, x + across * 0.75, y + down * 0.75, glass)


def draw_street(sketch: Sketch) -> None:
    """Draw a road that runs to a point, with a broken line along its middle and walls on both sides."""
    x = sketch.between(0.3, 0.7)
    y = sketch.between(0.3, 0.55)
    for side in (-0.1, 1.1):
        for _ in range(sketch.count(1, 3)):
            height = sketch.between(-0.2, 0.25)
            reach = sketch.between(0.2, 0.8)
            edge = (side + (x - side) * reach, height + (y - height) * reach)
            foot = (edge[0], 1.1 + (y - 1.1) * reach)
            sketch.polygon([(side, height), edge, foot, (side, 1.1)], sketch.near((150, 130, 115)))
    left = sketch.between(-0.2, 0.2)
    right = sketch.between(0.8, 1.2)
    sketch.polygon([(x, y), (left, 1.05), (right, 1.05)], sketch.near((95, 95, 100)))
    middle = (left + right) / 2
    paint = sketch.near((230, 225, 200))
    for dash in range(6):
        near = 1 - 0.62**dash
        far = 1 - 0.62 ** (dash + 0.5)
        at = [(middle + (x - middle) * share, 1.05 + (y - 1.05) * share) for share in (near, far)]
        sketch.line(at, paint, 0.025 * (1 - near) + 0.003)


def draw_forest(sketch: Sketch) -> None:
    """Draw many slender trees on dark trunks, one in front of the other."""
    for number in range(sketch.count(8, 18)):
        foot = 0.55 + 0.5 * (number + sketch.between(0, 4)) / 20
        x = sketch.between(0, 1)
        tall = sketch.between(0.4, 0.7)
        wide = sketch.between(0.05, 0.11)
        sketch.rectangle(x - wide * 0.15, foot - tall * 0.4, x + wide * 0.15, foot, sketch.near((80, 60, 40), 25))
        leaves = sketch.near((50, 100, 50))
        for tier in range(3):
            low = foot - tall * (0.15 + 0.25 * tier)
            high = foot - tall * (0.5 + 0.25 * tier)
            spread = wide * (1 - 0.25 * tier)
            sketch.polygon([(x - spread, low), (x + spread, low), (x, high)], leaves)


def draw_mountain(sketch: Sketch) -> None:
    """Draw a few large peaks with snow on top."""
    for _ in range(sketch.count(2, 4)):
        x = sketch.between(0.05, 0.95)
        top = sketch.between(0.08, 0.45)
        half = sketch.between(0.3, 0.6)
        left = x - half * sketch.between(0.7, 1.2)
        right = x + half * sketch.between(0.7, 1.2)
        rock = sketch.near((110, 100, 95))
        snow = sketch.near((235, 238, 245), 20, 0.2)
        sketch.polygon([(left, 1.0), (x, top), (right, 1.0)], rock)
        sketch.polygon([(x, top), (right, 1.0), (x + half * 0.1, 1.0)], sketch.near((80, 75, 80)))
        cap = sketch.between(0.15, 0.3)
        ends = [(x + (edge - x) * cap, top + (1 - top) * cap) for edge in (left, right)]
        sketch.polygon([(x, top), ends[1], (x, top + (1 - top) * cap * 0.6), ends[0]], snow)


def draw_glacier(sketch: Sketch) -> None:
    """Draw a broad tongue of ice, split by crooked cracks."""
    edge = [(share / 5, sketch.between(0.25, 0.5)) for share in range(6)]
    sketch.polygon([(0, 1.05), *edge, (1, 1.05)], sketch.near((205, 225, 238), 25, 0.3))
    for _ in range(sketch.count(7, 14)):
        x = sketch.between(0, 1)
        y = sketch.between(0.4, 0.7)
        crack = [(x, y)]
        for _ in range(4):
            x += sketch.between(-0.1, 0.1)
            y += sketch.between(0.03, 0.12)
            crack.append((x, y))
        sketch.line(crack, sketch.near((95, 145, 185), 35, 0.3), sketch.between(0.008, 0.03))


def draw_sea(sketch: Sketch) -> None:
    """Draw water below a level horizon, with rows of waves that grow towards the viewer."""
    horizon = sketch.between(0.25, 0.5)
    sketch.rectangle(0, horizon, 1, 1, sketch.near((45, 95, 140)))
    y = horizon
    crest = sketch.near((170, 200, 215), 30, 0.3)
    while y < 1:
        depth = (y - horizon) / (1 - horizon)
        y += 0.02 + 0.09 * depth * sketch.between(0.6, 1.3)
        swell = 0.005 + 0.02 * depth
        start = sketch.between(0, 1)
        for piece in range(sketch.count(2, 5)):
            x = start + piece * 0.31 - 0.5
            wave = [(x + step * 0.03, y + swell * (1, -1)[step % 2] * (step % 4 > 1)) for step in range(7)]
            sketch.line(wave, crest, 0.006 + 0.012 * depth)


@dataclass(frozen=True, slots=True)
class PhotographSet:
    """A set of photographs: how to draw each class, the length of the sides, the JPEG quality, and how hard it is."""

    name: str
    motifs: dict[str, Callable[[Sketch], None]]
    shortest: int
    longest: int
    quality: int
    hardness: Hardness

    def draw(self, part: DataPart, index: int) -> Drawn:
        """Draw one photograph. Classes take turns, so that a small set has them all."""
        number, view = picture_of(index)
        chance = chance_of(self.name, part, number)
        classes = tuple(self.motifs)
        own = classes[number % len(classes)]
        # A longer and a shorter side, in landscape or portrait
        longer = self.shortest + (self.longest - self.shortest) * (0.3 + 0.7 * chance.random())
        shorter = max(self.shortest, longer * (0.6 + 0.4 * chance.random()))
        width, height = (longer, shorter) if chance.random() < 0.6 else (shorter, longer)
        sky = (mix(SKY, any_colour(chance), 0.5), any_colour(chance))
        picture = background(chance, round(width), round(height), sky)
        sketch = Sketch(picture, chance)
        _clutter(sketch, sketch.count(1, 5))
        self.motifs[own](sketch)
        _clutter(sketch, sketch.count(0, 2))
        picture = add_grain(chance, shine(chance, picture, 0.45))
        # The label is the picture's own class, or what one of those who doubt it says
        doubt = chance_of(f"{self.name} labels", part, number)
        is_doubtful = doubt.random() < self.hardness.doubtful and view >= self.hardness.votes[0]
        away = 1 + int((len(classes) - 1) * doubt.random())
        label = classes[(number + is_doubtful * away) % len(classes)]
        return Drawn(f"{part}/{label}/{index:06d}.jpg", to_jpeg(picture, self.quality))


def _clutter(sketch: Sketch, count: int) -> None:
    """Draw shapes that carry no information."""
    for _ in range(count):
        x, y, wide, high = (sketch.chance.random() for _ in range(4))
        colour = any_colour(sketch.chance)
        if wide < 0.5:
            sketch.ellipse(x, y, wide * 0.2, high * 0.1, colour)
        else:
            sketch.line([(x, y), (wide * 2 - 1, high)], colour, 0.01)


SCENES = PhotographSet(
    name="scenes",
    motifs={
        "buildings": draw_buildings,
        "cat": draw_cat,
        "dog": draw_dog,
        "forest": draw_forest,
        "glacier": draw_glacier,
        "mountain": draw_mountain,
        "sea": draw_sea,
        "street": draw_street,
    },
    shortest=160,
    longest=400,
    quality=75,
    hardness=HARDNESS["scenes-cnn"],
)
PETS = PhotographSet(
    name="pets",
    motifs={"cats": draw_pet_cat, "dogs": draw_pet_dog},
    shortest=200,
    longest=320,
    quality=80,
    hardness=HARDNESS["pets-densenet"],
)
