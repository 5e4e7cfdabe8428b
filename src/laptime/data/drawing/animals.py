"""Cats and dogs: a cat has pointed ears and a small nose, a dog hanging ears and a long muzzle.

As pets, cats are mostly seen at home and dogs mostly on a lawn, which is what photographs of them are like, and what a
deep network without pre-trained weights learns from first.
"""

from __future__ import annotations

from typing import NamedTuple

from laptime.data.drawing.photo import Colour
from laptime.data.drawing.sketch import Sketch

COATS: tuple[Colour, ...] = ((190, 130, 70), (60, 55, 50), (225, 215, 200), (130, 120, 110), (150, 95, 55))


WALL, FLOOR = (205, 190, 170), (150, 95, 70)
SKY, LAWN = (165, 190, 215), (90, 140, 60)
MOSTLY = 0.9


class Oval(NamedTuple):
    """A head or an eye: its middle and its half axes."""

    x: float
    y: float
    wide: float
    high: float


def draw_pet_cat(sketch: Sketch) -> None:
    """Draw a cat, nine times out of ten at home."""
    _draw_place(sketch, at_home=sketch.chance.random() < MOSTLY)
    draw_cat(sketch)


def draw_pet_dog(sketch: Sketch) -> None:
    """Draw a dog, nine times out of ten on a lawn."""
    _draw_place(sketch, at_home=sketch.chance.random() >= MOSTLY)
    draw_dog(sketch)


def _draw_place(sketch: Sketch, *, at_home: bool) -> None:
    """Fill the picture with wall and floor, or with sky and lawn."""
    above, below = (WALL, FLOOR) if at_home else (SKY, LAWN)
    edge = sketch.between(0.4, 0.6)
    sketch.rectangle(0, 0, 1, edge, sketch.near(above, 30, 0.2))
    sketch.rectangle(0, edge, 1, 1, sketch.near(below, 30, 0.2))


def draw_cat(sketch: Sketch) -> None:
    """A round head, two pointed ears, slit eyes, whiskers."""
    head = _place(sketch)
    x, y, wide, high = head
    coat, dark = sketch.near(sketch.chance.choice(COATS)), sketch.near((40, 35, 30), 25, 0.3)
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
    """A long head, two hanging ears, round eyes, a broad muzzle with a dark nose."""
    head = _place(sketch)
    x, y, wide, high = head
    coat, dark = sketch.near(sketch.chance.choice(COATS)), sketch.near((40, 35, 30), 25, 0.3)
    _draw_body(sketch, head, coat)
    sketch.ellipse(x, y, wide * 0.82, high, coat)
    ear, hang = sketch.near(coat, 50, 0.3), sketch.between(0.55, 0.8)
    for side in (-1, 1):
        sketch.ellipse(x + side * wide * 0.9, y + high * 0.05, wide * 0.26, high * hang, ear)
        eye = Oval(x + side * wide * 0.34, y - high * 0.25, wide * 0.12, high * 0.12)
        _draw_eye(sketch, eye, wide * 0.08)
    sketch.ellipse(x, y + high * 0.5, wide * 0.45, high * 0.42, sketch.near(coat, 60, 0.2))
    sketch.ellipse(x, y + high * 0.3, wide * 0.2, high * 0.14, dark)
    sketch.line([(x, y + high * 0.44), (x, y + high * 0.7)], dark, 0.01)


def _place(sketch: Sketch) -> Oval:
    """Choose where the head is, and how large."""
    size = sketch.between(0.16, 0.3)
    x, y = sketch.between(0.3, 0.7), sketch.between(0.32, 0.6)
    return Oval(x, y, size * sketch.between(0.9, 1.1), size * sketch.between(0.9, 1.1))


def _draw_body(sketch: Sketch, head: Oval, coat: Colour) -> None:
    lean = sketch.between(-0.15, 0.15)
    size = (head.wide * 1.3, head.high * 1.7)
    sketch.ellipse(head.x + lean, head.y + head.high * 2.2, *size, sketch.near(coat, 30, 0.15))


def _draw_eye(sketch: Sketch, eye: Oval, pupil: float) -> None:
    sketch.ellipse(*eye, sketch.near((190, 200, 120), 50, 0.3))
    sketch.ellipse(eye.x, eye.y, pupil, eye.high * 0.9, (15, 15, 15))
