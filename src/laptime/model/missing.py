"""Absence with its reason, so that nothing unknown is ever shown as zero."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Missing:
    """A reading that could not be had; `missing` says why."""

    missing: str
