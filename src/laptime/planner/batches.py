"""How a lane names its batch and its learning rate."""

from __future__ import annotations

import re
from typing import Any

from laptime.errors import UsageError
from laptime.planner.facts import LaneFacts
from laptime.planner.setting import is_count

LARGEST_RATE = 100.0


def is_batch(value: str) -> bool:
    return value == "0.5x" or is_count(value.removesuffix("x"))


def is_rate(value: str) -> bool:
    written = re.fullmatch(r"(?=\.?[0-9])[0-9]{0,3}\.?[0-9]{0,9}(e-?[0-9]{1,2})?", value)
    return written is not None and 0 < float(value) <= LARGEST_RATE


def as_batch(text: str, lane: LaneFacts) -> dict[str, Any]:
    """Return the items of a batch, or how many batches of a user's own training are joined into one step."""
    if not text.endswith("x"):
        return {"batch": int(text)}
    if lane.workload is not None:
        return {"batch": max(1, int(float(text[:-1]) * lane.workload.batch))}
    if not lane.row.changes_own_steps:
        raise UsageError(
            f"batch={text}: a training of your own has no published batch to multiply, and only torch lanes join "
            "its batches",
            "set the batch in its own data, or race two functions",
        )
    if text == "0.5x":
        raise UsageError(
            "batch=0.5x: batches of a training of your own are joined, and not cut",
            "set a smaller batch in its own data, and race two functions",
        )
    return {"joined": int(text[:-1])}
