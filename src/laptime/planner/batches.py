"""How a lane names its batch and its learning rate."""

from __future__ import annotations

import re
from typing import Any

from laptime.errors import UsageError
from laptime.model.lane import Settings
from laptime.model.plan import OwnBatches
from laptime.planner.facts import LaneFacts
from laptime.planner.setting import is_count

LARGEST_RATE = 100.0
HALF = "0.5x"


def is_batch(value: str) -> bool:
    return value == HALF or is_count(value.removesuffix("x"))


def is_rate(value: str) -> bool:
    written = re.fullmatch(r"(?=\.?[0-9])[0-9]{0,3}\.?[0-9]{0,9}(e-?[0-9]{1,2})?", value)
    return written is not None and 0 < float(value) <= LARGEST_RATE


def cuts_batches(value: str) -> bool:
    """Whether a value of `batch` makes other batches of a user's own data. `2x` joins them as they are."""
    return value == HALF or not value.endswith("x")


def as_batch(text: str, lane: LaneFacts) -> dict[str, Any]:
    """Return the items of a batch, or how many batches of a user's own training are joined into one step."""
    if not text.endswith("x"):
        return {"batch": int(text)}
    if lane.workload is not None:
        return {"batch": max(1, int(float(text[:-1]) * lane.workload.batch))}
    _refuse_other_lanes(text, lane)
    if text != HALF:
        return {"joined": int(text[:-1])}
    batches = (
        OwnBatches("how many items they have is not known") if lane.subject.own is None else lane.subject.own.batches
    )
    if batches.batch is None or batches.batch < 2:
        why = batches.uncut or "they have one item"
        raise UsageError(*OwnBatches.refusal(text, lane.subject.name, why))
    return {"batch": batches.batch // 2}


def refuse_batch(settings: Settings, lane: LaneFacts) -> None:
    """Refuse another batch of a training of your own where laptime cannot make it: the rule of every question.

    What its function returns is not known where it failed for a reason that a lane will show. Then the lane's own
    process refuses the batch, in the same words.
    """
    if lane.workload is not None or settings.batch is None:
        return
    text, own = str(settings.batch), lane.subject.own
    _refuse_other_lanes(text, lane)
    why = None if own is None else own.batches.why_not(settings.batch)
    if why is not None:
        raise UsageError(*OwnBatches.refusal(text, lane.subject.name, why))


def _refuse_other_lanes(text: str, lane: LaneFacts) -> None:
    if not lane.row.changes_own_steps:
        why = f"only torch lanes cut and join them, and not {lane.framework}"
        raise UsageError(*OwnBatches.refusal(text, lane.subject.name, why))
