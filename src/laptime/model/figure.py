"""What a report draws: figures as plain data, with every number that a chart shows, and nothing of how it looks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

BarKind = Literal["lane", "best", "published", "failed"]
BandKind = Literal["warm-up", "disturbed", "part"]
CurveKind = Literal["line", "dots", "steps"]
Point = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of bars. Without a `value` there are only its words; `low` and `high` bound it, where they are known."""

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    words: str = ""
    kind: BarKind = "lane"


@dataclass(frozen=True, slots=True)
class Bars:
    """Values next to each other, on one scale that begins at 0."""

    unit: str
    bars: tuple[Bar, ...]


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one thing. `of_points` is how many there were, if fewer are drawn. Curves of one `label` look alike."""

    label: str
    points: tuple[Point, ...]
    kind: CurveKind = "line"
    of_points: int = 0

    @property
    def is_thinned(self) -> bool:
        return self.of_points > len(self.points)


@dataclass(frozen=True, slots=True)
class Band:
    """A stretch of the horizontal axis that means something."""

    start: float
    end: float
    kind: BandKind
    label: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """An axis; where it is logarithmic, values of 0 and less are not drawn. One that `is_whole` counts: 1, 2, 3."""

    label: str
    is_log: bool = False
    from_zero: bool = False
    is_whole: bool = False


@dataclass(frozen=True, slots=True)
class Plane:
    """Curves over two axes."""

    across: Axis
    up: Axis
    curves: tuple[Curve, ...]
    bands: tuple[Band, ...] = ()

    def by_label(self) -> dict[str, list[Curve]]:
        """Return the curves of each label: one thing may be drawn in several stretches."""
        found: dict[str, list[Curve]] = {}
        for curve in self.curves:
            found.setdefault(curve.label, []).append(curve)
        return found


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a whole, from 0 to 1."""

    label: str
    share: float


@dataclass(frozen=True, slots=True)
class Stack:
    """How wholes divide into parts: each row is a label and its parts."""

    rows: tuple[tuple[str, tuple[Part, ...]], ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words. A column whose head begins with `=` holds numbers, and is set to the right."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Chart = Bars | Plane | Stack | Table


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its title, and a sentence that says what it shows or how to read it."""

    title: str
    chart: Chart
    says: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One record as it is shown to people: the answer, what a reader must know, figures, and how to repeat it."""

    id: str
    title: str
    started: str
    answer: tuple[str, ...]
    notes: tuple[str, ...]
    done: str
    figures: tuple[Figure, ...]
    text: str
    command: str
