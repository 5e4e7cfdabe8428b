"""What every lane's proof is held against: recalled where it was kept, else computed once."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

from laptime.model.lane import Settings
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, Plan, PlannedLane
from laptime.model.sample import Reference
from laptime.planner.presets import KEEP_MEMORY
from laptime.run.scout import ask_reference

PROOF_VERSION = 2
"""Changes when the networks, the made data or the proof's steps do, so that kept references are made anew."""


@dataclass(frozen=True, slots=True)
class Shelf:
    """Where references are kept, and who is told that one is being computed."""

    recall: Callable[[str], Reference | None]
    keep: Callable[[Reference], object]
    announce: Callable[[str], None]


def order_heat(plan: Plan, lane: PlannedLane, pace: Pace, number: int, seed: int | None = None) -> HeatOrder:
    """Give what a child needs to build and prove this lane."""
    wanted = plan.ask.seed if seed is None else seed
    return HeatOrder(
        plan.subject, lane, wanted, plan.proof, pace, number, plan.ask.pretrained, plan.data, plan.ask.seed
    )


def find_reference(plan: Plan, shelf: Shelf) -> Reference | str | None:
    """Recall the float64 reference, or have it computed and kept; a user's own may change, so is not kept."""
    if all(lane.settings.input == "only" for lane in plan.lanes):
        return None
    framework = plan.lanes[0].framework
    key = _reference_key(plan, framework)
    recalled = shelf.recall(key) if key else None
    if recalled is not None:
        return recalled
    shelf.announce("computing the float64 reference of the proof, once")
    processor = Device("cpu", "cpu", "the processor", usable=True)
    lane = PlannedLane("reference", framework, processor, Settings(input="cached"), KEEP_MEMORY)
    made = ask_reference(order_heat(plan, lane, plan.pace, -1), plan.ask.patience_s)
    if isinstance(made, str):
        return made
    made = replace(made, key=key or "")
    if key and not made.problem:
        shelf.keep(made)
    return made


def _reference_key(plan: Plan, framework: str) -> str | None:
    if plan.subject.file is not None:
        return None
    what = [
        PROOF_VERSION,
        framework,
        plan.subject.name,
        plan.ask.seed,
        plan.ask.pretrained,
        asdict(plan.proof),
    ]
    return f"{plan.subject.name}-{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]}"
