"""A missing value with its reason, so that an unknown value is never shown as zero."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Missing:
    """A value that could not be read; `missing` says why."""

    missing: str
