"""Values with what belongs to them: a reason where one is missing, an interval, and durations and shares as users write
them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from decimal import Decimal
from math import floor, isfinite, log10
from typing import TYPE_CHECKING

HOUR_S = 3600.0

UNITS_S = {"": 1.0, "ms": 1e-3, "s": 1.0, "m": 60.0, "min": 60.0, "h": 3600.0, "d": 86400.0}


def parse_duration(text: str) -> float:
    """Return the seconds. Raise ValueError, in words, for what is not a duration."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)([a-z]*)", text.strip())
    if not found or found[2] not in UNITS_S:
        raise ValueError(f"'{text}' is not a length of time; such as 60s, 2m or 1h")
    return float(found[1]) * UNITS_S[found[2]]


def parse_share(text: str) -> float:
    """Return a share from 0 to 1. Raise ValueError, in words, for what is not a share."""
    found = re.fullmatch(r"(\d+(?:\.\d+)?)(%?)", text.strip())
    if not found:
        raise ValueError(f"'{text}' is not a share; such as 3% or 0.03")
    share = float(found[1]) / (100 if found[2] else 1)
    if share > 1 and not found[2]:
        raise ValueError(f"'{text}' is {share:.0%}; did you mean {text}%?")
    return share


# Numbers formatted for people, for every room that writes a sentence: never `1e+03`.

SIZE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))
STEP_UNITS = ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"))


def number(value: float) -> str:
    """Three significant digits, or all digits before the decimal point where there are more."""
    if not isfinite(value):
        return "not a number"
    shown = rounded(value)
    before_point = floor(log10(abs(shown))) if shown else 0
    return f"{value:,.{max(0, 2 - before_point)}f}"


def brief(value: float) -> str:
    """A number without trailing zeros: 3, 0.25, 1,000."""
    if not isfinite(value):
        return "not a number"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def plain(value: float) -> str:
    """All digits of a number, never with a power of ten: 0.000063, 0.4637, 1,500."""
    return f"{Decimal(str(value)).normalize():,f}" if isfinite(value) else "not a number"


def step(ms: float) -> str:
    """The time of a step in s, ms or µs."""
    if not isfinite(ms):
        return number(ms)
    per_unit, unit = next((step_unit for step_unit in STEP_UNITS if rounded(ms) >= step_unit[0]), STEP_UNITS[-1])
    return f"{number(ms / per_unit)} {unit}"


def size(count_bytes: float) -> str:
    """Bytes in decimal units, as memory is sold."""
    per_unit, unit = next(
        (size_unit for size_unit in SIZE_UNITS if rounded(count_bytes) >= size_unit[0]), (1.0, "bytes")
    )
    return f"{number(count_bytes / per_unit)} {unit}"


def rounded(value: float) -> float:
    """Round to three digits before choosing the unit, so that 999.6 ms does not become 1,000 ms."""
    return float(f"{value:.3g}")


def times(ratio: float) -> str:
    """Two digits after the decimal point, fewer for a large factor."""
    size = abs(ratio)
    return f"{ratio:,.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}x"


def percent(share: float) -> str:
    """Whole percent; below one, a digit after the point, so that little is not nothing."""
    if not isfinite(share):
        return "not a number"
    return f"{100 * share:.0f} %" if abs(share) >= 0.0095 or not share else f"{100 * share:.1f} %"


def taken(ms: float) -> str:
    """A time with three digits and a unit that fits."""
    per_unit, unit = next((step_unit for step_unit in STEP_UNITS if rounded(ms) >= step_unit[0]), STEP_UNITS[-1])
    return f"{brief(ms / per_unit)} {unit}"


def count(value: float) -> str:
    """A count that may be a mean."""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def cores(count: float) -> str:
    number = few(count)
    return f"{number} core{'s' * (number != '1')}"


def few(count: float) -> str:
    """A small number that may be a mean; next to nothing is 0."""
    return brief(count) if count >= 10 else f"{count if count >= 0.005 else 0:.2g}"


# A missing value with its reason, so that an unknown value is never shown as zero.


@dataclass(frozen=True, slots=True)
class Missing:
    """A value that could not be read; `missing` says why."""

    missing: str


# What all figures with an interval share, whatever a record calls the figure itself.


class IntervalFigure:
    """A figure whose true value is between `low` and `high`, which are missing where nothing shows a spread.

    Each kind is a frozen dataclass with its own name for the figure: `median`, `ratio`, `middle`.
    """

    __slots__ = ()
    if TYPE_CHECKING:  # these are fields of each kind, at their place in its record
        low: float | Missing
        high: float | Missing

    @property
    def ends(self) -> tuple[float, float] | None:
        """Both ends, or None where there is no interval."""
        return None if isinstance(self.low, Missing) or isinstance(self.high, Missing) else (self.low, self.high)

    @property
    def drawn_ends(self) -> tuple[float | None, float | None]:
        """Both ends, as a bar or a cell takes them."""
        return self.ends or (None, None)

    @property
    def half(self) -> float | None:
        """Half of the interval, in the unit of the figure."""
        return None if self.ends is None else (self.ends[1] - self.ends[0]) / 2

    def is_above(self, bound: float) -> bool:
        """Whether the whole interval is above a bound; False where there is no interval."""
        return self.ends is not None and self.ends[0] > bound

    def is_below(self, bound: float) -> bool:
        """Whether the whole interval is below a bound; False where there is no interval."""
        return self.ends is not None and self.ends[1] < bound


@dataclass(frozen=True, slots=True)
class Estimate(IntervalFigure):
    """A figure with its interval; `low` and `high` are missing where a single heat cannot provide them."""

    median: float
    low: float | Missing
    high: float | Missing
    p95: float | Missing = field(default_factory=lambda: Missing("not asked of this figure"))


@dataclass(frozen=True, slots=True)
class Bounded(IntervalFigure):
    """A figure, and how far the true value may be from it; missing where one round alone was run."""

    value: float
    low: float | Missing
    high: float | Missing


@dataclass(frozen=True, slots=True)
class Factor(IntervalFigure):
    """A factor on the items per second of the lane in question; `low` and `high` bound it."""

    ratio: float
    low: float | Missing
    high: float | Missing
