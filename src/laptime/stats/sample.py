"""Order statistics of one sample, so that a few disturbed steps cannot change a result."""

from __future__ import annotations

from collections.abc import Sequence
from math import floor, isfinite

# The median absolute deviation of normal noise, times this, is its standard deviation.
MAD_TO_SD = 1.4826


def median(values: Sequence[float]) -> float:
    """Return the middle value; up to half of the sample may be wrong without moving it far."""
    return _quantile_of_sorted(_sorted(values), 0.5)


def quantile(values: Sequence[float], q: float) -> float:
    """Return the value below which a share `q` of the sample is, interpolated linearly between neighbours."""
    if not 0 <= q <= 1:
        raise ValueError(f"a quantile between 0 and 1 is needed, not {q}")
    return _quantile_of_sorted(_sorted(values), q)


def mad(values: Sequence[float]) -> float:
    """Return the median absolute deviation: a spread that outliers cannot inflate."""
    ordered = _sorted(values)
    centre = _quantile_of_sorted(ordered, 0.5)
    # The distances fall, then rise: Python's sort merges two such runs in linear time.
    return _quantile_of_sorted(sorted(abs(value - centre) for value in ordered), 0.5)


def _sorted(values: Sequence[float]) -> list[float]:
    """Sort a copy; reject a sample that has no order or no middle."""
    if len(values) == 0:
        raise ValueError("an empty sample has no median, quantile or spread")
    if not all(map(isfinite, values)):
        raise ValueError("a sample with NaN or infinite values has no order; remove them and say why")
    return sorted(values)


def _quantile_of_sorted(ordered: list[float], q: float) -> float:
    """Interpolate a quantile between two neighbours; rounding never puts it outside them."""
    position = q * (len(ordered) - 1)
    below = floor(position)
    low, high = ordered[below], ordered[min(below + 1, len(ordered) - 1)]
    share = position - below
    return min(max(low * (1 - share) + high * share, low), high)
