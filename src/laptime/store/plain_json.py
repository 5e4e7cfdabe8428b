"""JSON for programs: what it cannot hold, and any plain value as indented text."""

from __future__ import annotations

from math import isfinite
from typing import Any

import msgspec

from laptime.model.visible import encodable

LARGEST_WHOLE = 2**63


def indented(encoded: bytes) -> str:
    """Return the JSON, indented."""
    return msgspec.json.format(encoded, indent=2).decode()


def to_json(values: object) -> str:
    """Return plans, workloads, devices and lists as JSON."""
    return indented(msgspec.json.encode(as_json_holds(msgspec.to_builtins(values))))


def as_json_holds(value: Any) -> Any:
    """Replace what JSON cannot hold: NaN and infinity by a missing value with a reason, invalid text by escapes."""
    if isinstance(value, float):
        return value if isfinite(value) else {"missing": f"not a finite number: {value}"}
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(str(key)): as_json_holds(part) for key, part in value.items()}
    return [as_json_holds(part) for part in value] if has_parts(value) else value


def has_parts(value: Any) -> bool:
    """Whether a list holds more than finite numbers. This must be fast: a record may hold a million steps."""
    if not isinstance(value, list | tuple) or not value:
        return False
    try:
        return not (all(map(isfinite, value)) and min(value) >= -LARGEST_WHOLE and max(value) <= LARGEST_WHOLE)
    except (TypeError, OverflowError):
        return True
