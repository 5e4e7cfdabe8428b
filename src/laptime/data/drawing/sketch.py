"""A pen on a picture, in shares of its width and height."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from laptime.data.drawing.photo import Colour, any_colour, mix, vary

if TYPE_CHECKING:
    from PIL.Image import Image as Picture

Point = tuple[float, float]


class Sketch:
    """Draws on a picture; x and y run from 0 to 1."""

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
        """Give a colour near this one, drawn some way towards any colour: no colour gives a class away."""
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
