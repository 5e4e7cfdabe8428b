"""Numbers formatted for people, for every room that writes a sentence: never `1e+03`."""

from __future__ import annotations

from decimal import Decimal
from math import floor, isfinite, log10

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
    per_unit, unit = next((each for each in STEP_UNITS if rounded(ms) >= each[0]), STEP_UNITS[-1])
    return f"{number(ms / per_unit)} {unit}"


def size(count_bytes: float) -> str:
    """Bytes in decimal units, as memory is sold."""
    per_unit, unit = next((each for each in SIZE_UNITS if rounded(count_bytes) >= each[0]), (1.0, "bytes"))
    return f"{number(count_bytes / per_unit)} {unit}"


def rounded(value: float) -> float:
    """Round to three digits before choosing the unit, so that 999.6 ms does not become 1,000 ms."""
    return float(f"{value:.3g}")


def times(ratio: float) -> str:
    """Two digits after the decimal point, fewer for a large factor."""
    size = abs(ratio)
    return f"{ratio:,.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}x"


def percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.0095 or share <= 0 else f"{100 * share:.1f} %"


def taken(ms: float) -> str:
    """A time with three digits and a unit that fits."""
    per_unit, unit = next((each for each in STEP_UNITS if rounded(ms) >= each[0]), STEP_UNITS[-1])
    return f"{brief(ms / per_unit)} {unit}"


def count(value: float) -> str:
    """A count that may be a mean."""
    return f"{value:,.0f}" if value >= 10 or value == round(value) else f"{value:.1f}"


def cores(count: float) -> str:
    said = few(count)
    return f"{said} core{'s' * (said != '1')}"


def few(count: float) -> str:
    """A small number that may be a mean; next to nothing is 0."""
    return brief(count) if count >= 10 else f"{count if count >= 0.005 else 0:.2g}"
