"""Six kinds of places, drawn as a child would: what they are shows in their shapes, hardly in their colours."""

from __future__ import annotations

from laptime.data.drawing.photo import Colour
from laptime.data.drawing.sketch import Sketch


def draw_buildings(sketch: Sketch) -> None:
    """Upright blocks, full of windows."""
    ground = sketch.between(0.8, 1.0)
    for _ in range(sketch.count(3, 7)):
        left, wide = sketch.between(-0.1, 0.9), sketch.between(0.12, 0.3)
        top = sketch.between(0.05, 0.6)
        wall, glass = sketch.near((140, 130, 125)), sketch.near((70, 80, 100))
        sketch.rectangle(left, top, left + wide, ground, wall)
        _draw_windows(sketch, (left, top, left + wide, ground), glass)


def _draw_windows(sketch: Sketch, wall: tuple[float, float, float, float], glass: Colour) -> None:
    left, top, right, bottom = wall
    columns, rows = sketch.count(2, 4), sketch.count(4, 9)
    across, down = (right - left) / columns, (bottom - top) / rows
    for column in range(columns):
        for row in range(rows):
            x, y = left + column * across, top + row * down
            sketch.rectangle(x + across * 0.25, y + down * 0.2, x + across * 0.75, y + down * 0.75, glass)


def draw_street(sketch: Sketch) -> None:
    """A road that runs to a point, with a broken line along its middle and walls beside it."""
    x, y = sketch.between(0.3, 0.7), sketch.between(0.3, 0.55)
    for side in (-0.1, 1.1):
        for _ in range(sketch.count(1, 3)):
            height, reach = sketch.between(-0.2, 0.25), sketch.between(0.2, 0.8)
            edge = (side + (x - side) * reach, height + (y - height) * reach)
            foot = (edge[0], 1.1 + (y - 1.1) * reach)
            sketch.polygon([(side, height), edge, foot, (side, 1.1)], sketch.near((150, 130, 115)))
    left, right = sketch.between(-0.2, 0.2), sketch.between(0.8, 1.2)
    sketch.polygon([(x, y), (left, 1.05), (right, 1.05)], sketch.near((95, 95, 100)))
    middle, paint = (left + right) / 2, sketch.near((230, 225, 200))
    for dash in range(6):
        near, far = 1 - 0.62**dash, 1 - 0.62 ** (dash + 0.5)
        at = [(middle + (x - middle) * each, 1.05 + (y - 1.05) * each) for each in (near, far)]
        sketch.line(at, paint, 0.025 * (1 - near) + 0.003)


def draw_forest(sketch: Sketch) -> None:
    """Many slender trees on dark trunks, one before the other."""
    for number in range(sketch.count(8, 18)):
        foot = 0.55 + 0.5 * (number + sketch.between(0, 4)) / 20
        x, tall, wide = sketch.between(0, 1), sketch.between(0.4, 0.7), sketch.between(0.05, 0.11)
        sketch.rectangle(x - wide * 0.15, foot - tall * 0.4, x + wide * 0.15, foot, sketch.near((80, 60, 40), 25))
        leaves = sketch.near((50, 100, 50))
        for tier in range(3):
            low, high = foot - tall * (0.15 + 0.25 * tier), foot - tall * (0.5 + 0.25 * tier)
            spread = wide * (1 - 0.25 * tier)
            sketch.polygon([(x - spread, low), (x + spread, low), (x, high)], leaves)


def draw_mountain(sketch: Sketch) -> None:
    """A few large peaks with snow on top."""
    for _ in range(sketch.count(2, 4)):
        x, top, half = sketch.between(0.05, 0.95), sketch.between(0.08, 0.45), sketch.between(0.3, 0.6)
        left, right = x - half * sketch.between(0.7, 1.2), x + half * sketch.between(0.7, 1.2)
        rock, snow = sketch.near((110, 100, 95)), sketch.near((235, 238, 245), 20, 0.2)
        sketch.polygon([(left, 1.0), (x, top), (right, 1.0)], rock)
        sketch.polygon([(x, top), (right, 1.0), (x + half * 0.1, 1.0)], sketch.near((80, 75, 80)))
        cap = sketch.between(0.15, 0.3)
        ends = [(x + (edge - x) * cap, top + (1 - top) * cap) for edge in (left, right)]
        sketch.polygon([(x, top), ends[1], (x, top + (1 - top) * cap * 0.6), ends[0]], snow)


def draw_glacier(sketch: Sketch) -> None:
    """A broad tongue of ice, split by crooked cracks."""
    edge = [(share / 5, sketch.between(0.25, 0.5)) for share in range(6)]
    sketch.polygon([(0, 1.05), *edge, (1, 1.05)], sketch.near((205, 225, 238), 25, 0.3))
    for _ in range(sketch.count(7, 14)):
        x, y = sketch.between(0, 1), sketch.between(0.4, 0.7)
        crack = [(x, y)]
        for _ in range(4):
            x, y = x + sketch.between(-0.1, 0.1), y + sketch.between(0.03, 0.12)
            crack.append((x, y))
        sketch.line(crack, sketch.near((95, 145, 185), 35, 0.3), sketch.between(0.008, 0.03))


def draw_sea(sketch: Sketch) -> None:
    """Water below a level horizon, with rows of waves that grow towards us."""
    horizon = sketch.between(0.25, 0.5)
    sketch.rectangle(0, horizon, 1, 1, sketch.near((45, 95, 140)))
    y, crest = horizon, sketch.near((170, 200, 215), 30, 0.3)
    while y < 1:
        depth = (y - horizon) / (1 - horizon)
        y += 0.02 + 0.09 * depth * sketch.between(0.6, 1.3)
        swell, start = 0.005 + 0.02 * depth, sketch.between(0, 1)
        for piece in range(sketch.count(2, 5)):
            x = start + piece * 0.31 - 0.5
            wave = [(x + step * 0.03, y + swell * (1, -1)[step % 2] * (step % 4 > 1)) for step in range(7)]
            sketch.line(wave, crest, 0.006 + 0.012 * depth)
