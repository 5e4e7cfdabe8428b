"""What all figures with an interval share, whatever a record calls the figure itself."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from laptime.model.missing import Missing


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
