"""Figures as they are printed: each is an interval, as wide as its last digit."""

from __future__ import annotations

import re
from dataclasses import dataclass

SECONDS = {"µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0, "h": 3600.0}
ONE = r"[\d,]+(?:\.\d+)? (?:µs|ms|s|min|h)\b"
TIME = rf"{ONE}(?: {ONE})?"


@dataclass(frozen=True)
class Printed:
    """A figure that was printed, and how far the value behind it may be from it."""

    low: float
    high: float

    def times(self, other: Printed | float) -> Printed:
        like = other if isinstance(other, Printed) else Printed(other, other)
        return Printed(self.low * like.low, self.high * like.high)

    def over(self, other: Printed) -> Printed:
        return Printed(self.low / other.high, self.high / other.low)

    def agrees(self, other: Printed) -> bool:
        return self.low <= other.high * (1 + 1e-9) and other.low <= self.high * (1 + 1e-9)


def number(text: str) -> Printed:
    """Read 153, 1.79, 1,043 or 0.652: half of the last digit is not known."""
    value, _, decimals = text.replace(",", "").partition(".")
    half = 0.5 * 10 ** -len(decimals)
    return Printed(float(f"{value}.{decimals or 0}") - half, float(f"{value}.{decimals or 0}") + half)


def time(text: str) -> Printed:
    """Read `81.7 ms` or `1 min 20 s` in seconds."""
    found = re.findall(r"([\d,]+(?:\.\d+)?) (µs|ms|s|min|h)", text)
    exact = sum(float(value.replace(",", "")) * SECONDS[unit] for value, unit in found[:-1])
    value, unit = found[-1]
    last = number(value).times(SECONDS[unit])
    return Printed(exact + last.low, exact + last.high)


def find(pattern: str, text: str) -> re.Match[str] | None:
    """Find a pattern in which <time> is a time and <number> a number."""
    whole = pattern.replace("<time>", f"({TIME})").replace("<number>", r"([\d,]+(?:\.\d+)?)")
    return re.search(whole, text)
