"""Durations and shares as users write them: 90, 60s, 2m, 1.5h; 3% or 0.03."""

from __future__ import annotations

import re

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
