"""Numbers as text: three digits, and a unit that fits."""

from __future__ import annotations

from math import isfinite, nan

from laptime.model import digits
from laptime.model.missing import Missing
from laptime.model.record import Estimate

WIDE = 0.5  # half an interval, as a share of its figure


number, step, size = digits.number, digits.step, digits.size  # shared by all rooms


def lap(seconds: float) -> str:
    """Return a time in seconds and fractions of them, or milliseconds; from a minute on as a duration."""
    if seconds < 0.1:
        return step(seconds * 1e3)
    return f"{number(seconds)} s" if digits.rounded(seconds) < 60 else duration(seconds)


def duration(seconds: float) -> str:
    """Return a time in whole seconds: `58 s`, `7 min 33 s`, `13 h`."""
    if not isfinite(seconds):
        return "not a number"
    minutes, left = divmod(round(seconds), 60)
    if minutes < 60:
        return _joined((minutes, "min"), (left, "s"))
    hours, left = divmod(round(seconds / 60), 60)
    return _joined((hours, "h"), (left, "min"))


def rough(value: float) -> str:
    """Return two digits of what was predicted: `1.5`, `15`, `150`, `0.000063`."""
    return digits.plain(float(f"{value:.2g}"))


def whole_minutes(seconds: float) -> str:
    """Return a time as an option takes it: `2m`."""
    return f"{max(1, round(seconds / 60))}m"


def about(seconds: float) -> str:
    """Return a time with two digits only, for what happens once."""
    if not isfinite(seconds) or seconds >= 10:
        return duration(seconds)
    return f"{seconds:.2g} s" if seconds >= 0.0995 else f"{seconds * 1e3:.2g} ms"


def published_lap(seconds: float) -> str:
    """Return a published lap in seconds, with three digits; from 10 minutes on as a duration."""
    return f"{seconds:.3g} s" if seconds < 600 else duration(seconds)


def training_lap(seconds: float) -> str:
    """Return a lap's time, in seconds up to 10 minutes, so that similar laps differ."""
    return lap(seconds) if seconds < 60 else published_lap(seconds)


def spread(estimate: Estimate) -> str:
    """Return half the interval in percent of the figure, or "" if there is no interval.

    Half an interval that is more than half of the figure says nothing that a percentage could.
    """
    if isinstance(estimate.low, Missing) or isinstance(estimate.high, Missing) or not estimate.median:
        return ""
    if (estimate.high - estimate.low) / 2 > WIDE * estimate.median:
        return "(varies too much)"
    return f"±{percent((estimate.high - estimate.low) / 2 / estimate.median)}"


def percent(share: float) -> str:
    if not isfinite(share):
        return "not a number"
    return f"{100 * share:.0f} %" if share >= 0.0095 else f"{100 * share:.1f} %"


def factor(ratio: float, like: float | None = None) -> str:
    """Return a factor with as many decimals as `like` has, so that an interval matches its figure."""
    size = abs(ratio if like is None else like)
    if not isfinite(ratio):
        return "not a number"
    return f"{ratio:,.{2 if size < 9.995 else 1 if size < 99.95 else 0}f}"


def four_places(value: float | Missing | None) -> str:
    """Return a loss or a share with four decimals, as published curves have them."""
    return "-" if value is None or isinstance(value, Missing) else f"{value:.4f}"


def tiny(value: float) -> str:
    """Return one digit and a power of ten: `3e-6`."""
    if not isfinite(value):
        return "not a number"
    digit, _, power = f"{value:.0e}".partition("e")
    return f"{digit}e{int(power)}" if value else "0"


def whole_size(count_bytes: float) -> str:
    """Return a computer's memory in whole GB."""
    return f"{count_bytes / 1e9:,.0f} GB" if count_bytes >= 1e9 else size(count_bytes)


def over(value: float, by: float) -> float:
    """Divide, and return NaN for a division by 0, which a damaged record may ask for."""
    return value / by if by else nan


def _joined(large: tuple[int, str], small: tuple[int, str]) -> str:
    words = [f"{count} {unit}" for count, unit in (large, small) if count]
    return " ".join(words) or f"0 {small[1]}"
