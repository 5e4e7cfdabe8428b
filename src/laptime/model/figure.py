"""What a report draws: figures as plain data, with every number that a chart shows, and nothing of how it looks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from laptime.model.quantities import percent

BarKind = Literal["lane", "best", "published", "failed"]
BandKind = Literal["warm-up", "disturbed", "part", "crossover"]
CurveKind = Literal["line", "dots", "marked", "banded", "steps", "predicted"]
FactorKind = Literal["", "kept", "left", "confirmed"]
Point = tuple[float, float]
Ends = tuple[float, float]


@dataclass(frozen=True, slots=True)
class Bar:
    """One row of bars. Without a `value` there are only its words; `low` and `high` bound it, where they are known.

    It has the colour of the lane `of`, or of the lane that is its label.
    """

    label: str
    value: float | None
    low: float | None = None
    high: float | None = None
    words: str = ""
    kind: BarKind = "lane"
    of: str = ""

    @property
    def lane(self) -> str:
        return self.of or self.label


@dataclass(frozen=True, slots=True)
class Bars:
    """Values next to each other, on one scale that begins at 0. What others `reported` is on a scale of its own.

    Values that are thousands of times apart are on a logarithmic scale (`is_log`).
    """

    unit: str
    bars: tuple[Bar, ...]
    reported: tuple[Bar, ...] = ()
    is_log: bool = False


BARS_FAR_APART = 30.0  # times from the shortest to the longest bar


def are_far_apart(bars: Sequence[Bar]) -> bool:
    """Whether only a logarithmic scale would show the shortest next to the longest."""
    values = [bar.value for bar in bars if bar.value is not None and bar.value > 0]
    return bool(values) and max(values) > BARS_FAR_APART * min(values)


@dataclass(frozen=True, slots=True)
class ShownFactor:
    """How many times as fast one lane is as the reference, between which ends, and in each round.

    Of a search, the `kind` says whether it was kept, or is what fresh heats confirmed. It has the colour of the lane
    `of`, or of the lane that is its label.
    """

    label: str
    value: float
    low: float | None = None
    high: float | None = None
    rounds: tuple[float, ...] = ()
    words: str = ""
    kind: FactorKind = ""
    of: str = ""

    @property
    def lane(self) -> str:
        return self.of or self.label


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
        return list(dict.fromkeys(turn.label for shown_round in self.rounds for turn in shown_round.turns))


@dataclass(frozen=True, slots=True)
class Curve:
    """Points of one thing. `of_points` is how many there were, if fewer are drawn. Curves of one `label` look alike.

    One that is "marked" is a line with a dot at each point; one that is "banded" also has its ends as a band.
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

    def words(self, most: int) -> str:
        """Return the label and that it is logarithmic, in at most this many letters if it can be."""
        if not self.is_log:
            return self.label
        whole = f"{self.label}, logarithmic"
        return whole if len(whole) <= most else f"{self.label}, log"


@dataclass(frozen=True, slots=True)
class Plane:
    """Curves over two axes. A line is drawn `at` a value that curves are compared with."""

    across: Axis
    up: Axis
    curves: tuple[Curve, ...]
    bands: tuple[Band, ...] = ()
    at: float | None = None

    def by_label(self) -> dict[str, list[Curve]]:
        """Return the curves of each label: one thing may be drawn in several stretches."""
        found: dict[str, list[Curve]] = {}
        for curve in self.curves:
            found.setdefault(curve.label, []).append(curve)
        return found


@dataclass(frozen=True, slots=True)
class Part:
    """A share of a whole, from 0 to 1; `low` and `high` bound it, where they are known."""

    label: str
    share: float
    low: float | None = None
    high: float | None = None

    @property
    def words(self) -> str:
        """The share, and between which ends it is."""
        if self.low is None or self.high is None:
            return percent(self.share)
        digits = int(100 * (self.high - self.low) < 1)
        return f"{percent(self.share)} ({100 * self.low:.{digits}f}-{100 * self.high:.{digits}f} %)"


@dataclass(frozen=True, slots=True)
class Stack:
    """How wholes divide into parts: each row is a label and its parts."""

    rows: tuple[tuple[str, tuple[Part, ...]], ...]


@dataclass(frozen=True, slots=True)
class ShownSpan:
    """A stretch of time, on the clock of its chart."""

    start: float
    end: float


@dataclass(frozen=True, slots=True)
class GanttRow:
    """When one thing was done. It has the colour of the `part` of this number in a whole that is drawn above."""

    label: str
    spans: tuple[ShownSpan, ...]
    part: int
    words: str = ""


@dataclass(frozen=True, slots=True)
class Gantt:
    """What was done when, on one clock from 0 to `length`: a row for each thing."""

    unit: str
    length: float
    rows: tuple[GanttRow, ...]


@dataclass(frozen=True, slots=True)
class Table:
    """Rows of words. A head that begins with `=` is of numbers, set to the right; one with a backtick is of code."""

    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


RowsChart = Bars | Factors | Turns | Stack | Gantt
Chart = RowsChart | Plane | Table


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart with its title, and a sentence that says how to read it. One that is `more` is folded."""

    title: str
    chart: Chart
    says: str = ""
    more: bool = False


def folded(*figures: Figure) -> list[Figure]:
    """Return figures that a report folds."""
    return [replace(figure, more=True) for figure in figures]


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
    have the same colours in all figures. An HTML page alone has `text`, its page in all details, and `record`, as JSON.
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
    record: str = ""
