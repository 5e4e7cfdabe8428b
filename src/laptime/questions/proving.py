"""What every lane's proof is held against: recalled where it was kept, else computed once; and a second opinion."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace

from laptime.analysis.parity import judge_parity, may_be_chance
from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, Plan, PlannedLane
from laptime.model.sample import Appeal, ProofRun, Reference
from laptime.planner.presets import KEEP_MEMORY, name_device
from laptime.run.scout import ask_proof, ask_reference

PROOF_VERSION = 3
"""Changes when the networks, the made data or the proof's steps do, so that kept references are made anew."""
SEEDS_ON = 1_000_003
"""How far from the race's own seed the second proof's is."""


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


def hear_appeal(
    plan: Plan,
    lane: PlannedLane,
    proofs: Sequence[tuple[ProofRun, ...]],
    reference: Reference | str | None,
    shelf: Shelf,
) -> Appeal | None:
    """Prove a lane again, from another seed, that seems to do other work; nobody is accused by one chance event."""
    if not isinstance(reference, Reference) or not may_be_chance(proofs, reference):
        return None
    if judge_parity(lane.settings, proofs, reference).status != "differs":
        return None
    shelf.announce(f"{lane.name} seems to do other work: it is proven again from another seed")
    seed = plan.ask.seed + SEEDS_ON
    other = replace(plan, ask=replace(plan.ask, seed=seed))
    again = find_reference(other, shelf)
    if not isinstance(again, Reference):
        return None
    return Appeal(seed, again, ask_proof(order_heat(other, lane, plan.pace, -1), plan.ask.patience_s))


def find_reference(plan: Plan, shelf: Shelf) -> Reference | str | None:
    """Recall the float64 reference, or have it computed and kept; a user's own may change, so is not kept."""
    if all(lane.settings.input in NO_TRAINING for lane in plan.lanes):
        return None
    framework = plan.lanes[0].framework
    key = _reference_key(plan, framework)
    recalled = shelf.recall(key) if key else None
    if recalled is not None:
        return recalled
    shelf.announce("computing the float64 reference of the proof, once")
    processor = Device("cpu", "cpu", "the processor", usable=True)
    environment = KEEP_MEMORY | name_device(framework, processor)
    lane = PlannedLane("reference", framework, processor, Settings(input="cached"), environment)
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
