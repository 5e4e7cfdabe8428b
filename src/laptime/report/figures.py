"""Numbers as people read them: three digits, a unit that fits, nothing cut off."""

from __future__ import annotations

from math import floor, isfinite, log10

from laptime.model.missing import Missing
from laptime.model.record import Estimate

STEP_UNITS = ((1e3, "s"), (1.0, "ms"), (1e-3, "µs"))
SIZE_UNITS = ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB"))


def number(value: float) -> str:
    """Give three significant digits, or all digits before the point where there are more."""
    if not isfinite(value):
        return "not a number"
    rounded = _rounded(value)
    before_point = floor(log10(abs(rounded))) if rounded else 0
    return f"{value:,.{max(0, 2 - before_point)}f}"


def step(ms: float) -> str:
    """Give the time of a step in s, ms or µs."""
    if not isfinite(ms):
        return number(ms)
    per_unit, unit = next((each for each in STEP_UNITS if _rounded(ms) >= each[0]), STEP_UNITS[-1])
    return f"{number(ms / per_unit)} {unit}"


def lap(seconds: float) -> str:
    """Give a time in seconds with their fractions; from a minute on in whole seconds or minutes."""
    if seconds < 0.1:
        return step(seconds * 1e3)
    return f"{number(seconds)} s" if _rounded(seconds) < 60 else duration(seconds)


def duration(seconds: float) -> str:
    """Give a time in whole seconds: `58 s`, `7 min 33 s`, `13 h`."""
    if not isfinite(seconds):
        return "not a number"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return _joined((minutes, "min"), (left, "s"))
    hours, left = divmod(round(seconds / 60), 60)
    return _joined((hours, "h"), (left, "min"))


def about(seconds: float) -> str:
    """Give a time that happens once, and needs two digits only."""
    if not isfinite(seconds) or seconds >= 10:
        return duration(seconds)
    return f"{seconds:.2g} s" if seconds >= 0.0995 else f"{seconds * 1e3:.2g} ms"


def published_lap(seconds: float) -> str:
    """Keep an author's seconds as reported while they are easy to read."""
    return f"{seconds:.3g} s" if seconds < 600 else duration(seconds)


def spread(estimate: Estimate) -> str:
    """Give half the interval in percent of the figure; nothing where there is no interval."""
    if isinstance(estimate.low, Missing) or isinstance(estimate.high, Missing) or not estimate.median:
        return ""
    return f"±{percent((estimate.high - estimate.low) / 2 / estimate.median)}"


def percent(share: float) -> str:
    if not isfinite(share):
        return "not a number"
    return f"{100 * share:.0f} %" if share >= 0.0095 else f"{100 * share:.1f} %"


def factor(ratio: float, like: float | None = None) -> str:
    """Give a factor with as many digits as `like` has, so that an interval matches its figure."""
    size = abs(ratio if like is None else like)
    if not isfinite(ratio):
        return "not a number"
    return f"{ratio:,.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"


def tiny(value: float) -> str:
    """Give one digit and its power of ten: `3e-6`."""
    if not isfinite(value):
        return "not a number"
    digit, _, power = f"{value:.0e}".partition("e")
    return f"{digit}e{int(power)}" if value else "0"


def size(count_bytes: float) -> str:
    """Give bytes in decimal units, as memory is sold."""
    per_unit, unit = next((each for each in SIZE_UNITS if _rounded(count_bytes) >= each[0]), (1.0, "bytes"))
    return f"{number(count_bytes / per_unit)} {unit}"


def whole_size(count_bytes: float) -> str:
    """Give a computer's memory in whole GB."""
    return f"{count_bytes / 1e9:,.0f} GB" if count_bytes >= 1e9 else size(count_bytes)


def _rounded(value: float) -> float:
    """Round before choosing digits and unit, lest 999.6 become 1,000 of the smaller unit."""
    return float(f"{value:.3g}")


def _joined(large: tuple[int, str], small: tuple[int, str]) -> str:
    words = [f"{count} {unit}" for count, unit in (large, small) if count]
    return " ".join(words) or f"0 {small[1]}"
