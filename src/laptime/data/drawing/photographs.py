"""Made photographs in class folders: eight kinds of scenes, and cats and dogs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from laptime.data.drawing.animals import draw_cat, draw_dog, draw_pet_cat, draw_pet_dog
from laptime.data.drawing.photo import Drawn, add_grain, any_colour, background, chance_of, mix, shine, to_jpeg
from laptime.data.drawing.places import (
    draw_buildings,
    draw_forest,
    draw_glacier,
    draw_mountain,
    draw_sea,
    draw_street,
)
from laptime.data.drawing.sketch import Sketch
from laptime.model.dataset import Part

SKY = (165, 190, 215)


@dataclass(frozen=True, slots=True)
class Kind:
    """A set of photographs: what is on them by class, how long their sides are, and how they are kept."""

    name: str
    motifs: dict[str, Callable[[Sketch], None]]
    shortest: int
    longest: int
    quality: int

    def draw(self, part: Part, index: int) -> Drawn:
        """Draw one photograph; classes take turns, so that any number of items has them all."""
        chance = chance_of(self.name, part, index)
        classes = tuple(self.motifs)
        label = classes[index % len(classes)]
        width, height = self._sides(chance.random(), chance.random(), chance.random())
        sky = (mix(SKY, any_colour(chance), 0.5), any_colour(chance))
        picture = background(chance, width, height, sky)
        sketch = Sketch(picture, chance)
        _clutter(sketch, sketch.count(1, 5))
        self.motifs[label](sketch)
        _clutter(sketch, sketch.count(0, 2))
        picture = add_grain(chance, shine(chance, picture, 0.45))
        return Drawn(f"{part}/{label}/{index:06d}.jpg", to_jpeg(picture, self.quality))

    def _sides(self, length: float, shape: float, turn: float) -> tuple[int, int]:
        """Choose a longer and a shorter side, lying or standing."""
        longer = self.shortest + (self.longest - self.shortest) * (0.3 + 0.7 * length)
        shorter = max(self.shortest, longer * (0.6 + 0.4 * shape))
        wide, high = (longer, shorter) if turn < 0.6 else (shorter, longer)
        return round(wide), round(high)


def _clutter(sketch: Sketch, count: int) -> None:
    """Draw shapes that mean nothing."""
    for _ in range(count):
        x, y, wide, high = (sketch.chance.random() for _ in range(4))
        colour = any_colour(sketch.chance)
        if wide < 0.5:
            sketch.ellipse(x, y, wide * 0.2, high * 0.1, colour)
        else:
            sketch.line([(x, y), (wide * 2 - 1, high)], colour, 0.01)


SCENES = Kind(
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
)
PETS = Kind(name="pets", motifs={"cats": draw_pet_cat, "dogs": draw_pet_dog}, shortest=200, longest=320, quality=80)
