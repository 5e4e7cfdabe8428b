"""What a report draws: figures as plain data, with every number that a chart shows, and nothing of how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

BarKind = Literal["lane", "best", "published", "failed"]
BandKind = Literal["warm-up", "disturbed", "part"]
CurveKind = Literal["line", "dots", "steps", "predicted"]
Point = tuple[float, float]
Ends = tuple[float, float]


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
    """Values next to each other, on one scale that begins at 0. What others `reported` is on a scale of its own.

    Values that are thousands of times apart are on a logarithmic scale (`is_log`).
    """

    unit: str
    bars: tuple[Bar, ...]
    reported: tuple[Bar, ...] = ()
    is_log: bool = False


FAR_APART = 30.0  # times from the shortest to the longest bar


def are_far_apart(bars: Sequence[Bar]) -> bool:
    """Whether only a logarithmic scale would show the shortest next to the longest."""
    values = [bar.value for bar in bars if bar.value is not None and bar.value > 0]
    return bool(values) and max(values) > FAR_APART * min(values)


@dataclass(frozen=True, slots=True)
class ShownFactor:
    """How many times as fast one lane is as the reference, between which ends, and in each round."""

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    rounds: tuple[float, ...] = ()
    words: str = ""


@dataclass(frozen=True, slots=True)
class Factors:
    """Factors on one logarithmic axis, with a line at 1: the reference."""

    reference: str
    factors: tuple[ShownFactor, ...]


@dataclass(frozen=True, slots=True)
class ShownTurn:
    """Some steps of a lane in a row, in seconds from the first turn of its round. A disturbance is named by `flag`."""

    label: str
    start_s: float
    end_s: float
    ms: float
    flag: str = ""


@dataclass(frozen=True, slots=True)
class ShownRound:
    """The turns of all lanes in one round, and the factor that it gave for each lane."""

    number: int
    turns: tuple[ShownTurn, ...]
    factors: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Turns:
    """What happened when: the turns of all lanes on one clock, and below them the factor of each round."""

    unit: str
    rounds: tuple[ShownRound, ...]
    factors: Factors

    @property
    def labels(self) -> list[str]:
        """The lanes, each once."""
        return list(dict.fromkeys(turn.label for each in self.rounds for turn in each.turns))


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one thing. `of_points` is how many there were, if fewer are drawn. Curves of one `label` look alike.

    `ends` bound each point upwards and downwards, None where they are not known; it is empty where none are.
    """

    label: str
    points: tuple[Point, ...]
    kind: CurveKind = "line"
    of_points: int = 0
    ends: tuple[Ends | None, ...] = ()

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
    """Rows of words. A head that begins with `=` is of numbers, set to the right; one with a backtick is of code."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


Chart = Bars | Factors | Turns | Plane | Stack | Table


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its title, and a sentence that says how to read it. One that is `more` is folded."""

    title: str
    chart: Chart
    says: str = ""
    more: bool = False


def folded(*figures: Figure) -> list[Figure]:
    """Return figures that a report folds."""
    return [replace(each, more=True) for each in figures]


@dataclass(frozen=True, slots=True)
class GlanceFact:
    """A few words that stand out, and what they mean; or a command to type."""

    title: str
    says: str
    is_command: bool = False


@dataclass(frozen=True, slots=True)
class Glance:
    """The answer in one number, between which ends it is, the sentence that says of what, and up to four facts."""

    number: str
    ends: str
    sentence: str
    facts: tuple[GlanceFact, ...] = ()


@dataclass(frozen=True, slots=True)
class Report:
    """One record as it is shown to people: the answer, what a reader must know, figures, and how to repeat it.

    `distrust` says why it is not reliable, if so. Without a `glance`, the answer is its sentences alone. The `lanes`
    have the same colours in all figures.
    """

    id: str
    question: str
    title: str
    machine: str
    started: str
    answer: tuple[str, ...]
    notes: tuple[str, ...]
    done: str
    figures: tuple[Figure, ...]
    text: str
    command: str
    distrust: tuple[str, ...] = ()
    glance: Glance | None = None
    lanes: tuple[str, ...] = ()
