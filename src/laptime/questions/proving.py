"""The references that the lanes' proofs are compared with (saved, or computed once), and second proofs of lanes."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from laptime.analysis.parity import judge_parity, may_be_chance
from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder, Pace, Plan, PlannedLane
from laptime.model.sample import Appeal, ProofRun, Reference
from laptime.planner.plan import name_device
from laptime.planner.settings import KEEP_MEMORY
from laptime.questions.own_code import OwnCode
from laptime.run.scout import Failure, ask_proof, ask_reference

PROOF_VERSION = 4
"""Changes when the networks, the made data or the proof's steps change, so that references are computed again."""
SEEDS_ON = 1_000_003
"""The distance of the second proof's seed from the race's seed."""


@dataclass(frozen=True, slots=True)
class ReferenceCache:
    """How references are loaded and saved, and where the batches of a seed's proof are kept while a question runs."""

    recall: Callable[[str], Reference | None]
    keep: Callable[[Reference], object]
    place_batches: Callable[[int], Path] | None = None


class Proof:
    """The float64 reference that the lanes of a job are compared with. A lane that differs is proven twice."""

    def __init__(self, cache: ReferenceCache, announce: Callable[[str], None], own_code: OwnCode) -> None:
        self._cache, self._announce, self._own_code = cache, announce, own_code
        self.reference: Reference | str | None = None
        self.appeals: dict[str, Appeal | None] = {}

    @property
    def kept_reference(self) -> Reference | None:
        """The reference for the record, or None if there is none."""
        return self.reference if isinstance(self.reference, Reference) else None

    def make_ready(self, plan: Plan) -> Plan:
        """Find the reference, unless it came with a resumed record. Return the plan with the file of its batches."""
        plan = place_batches(plan, self._cache)
        if self.reference is None:
            self.reference = self._find_reference(plan)
        return plan

    def hear_appeal(self, plan: Plan, lane: PlannedLane, proofs: Sequence[tuple[ProofRun, ...]]) -> None:
        """Prove a lane that seems to do other work again, from another seed, because one difference may be chance."""
        if proofs and lane.name not in self.appeals:
            self.appeals[lane.name] = self._appeal(plan, lane, proofs)

    def _appeal(self, plan: Plan, lane: PlannedLane, proofs: Sequence[tuple[ProofRun, ...]]) -> Appeal | None:
        reference = self.reference
        if not isinstance(reference, Reference) or not may_be_chance(proofs, reference):
            return None
        if judge_parity(lane.settings, proofs, reference).status != "differs":
            return None
        self._announce(f"{lane.name} seems to do other work: it is proven again from another seed")
        seed = plan.ask.seed + SEEDS_ON
        other = place_batches(replace(plan, ask=replace(plan.ask, seed=seed)), self._cache)
        again = self._find_reference(other)
        if not isinstance(again, Reference):
            return None
        return Appeal(seed, again, ask_proof(order_heat(other, lane, plan.pace, -1), plan.ask.patience_s))

    def _find_reference(self, plan: Plan) -> Reference | str | None:
        """Load the reference, or compute and save it. That of a user's own training may change, so it is not saved."""
        if all(lane.settings.input in NO_TRAINING for lane in plan.lanes):
            return None
        framework = plan.lanes[0].framework
        key = _reference_key(plan, framework)
        recalled = self._cache.recall(key) if key else None
        if recalled is not None:
            return recalled
        self._announce("computing the float64 reference of the proof, once")
        processor = Device("cpu", "cpu", "the processor", usable=True)
        environment = KEEP_MEMORY | name_device(framework, processor)
        lane = PlannedLane("reference", framework, processor, Settings(input="cached"), environment)
        made = ask_reference(order_heat(plan, lane, plan.pace, -1), plan.ask.patience_s)
        if isinstance(made, Failure):
            self._own_code.note_failure(lane, made)
            return made.reason
        self._own_code.note_success()
        made = replace(made, key=key or "")
        if key and not made.problem:
            self._cache.keep(made)
        return made


def order_heat(plan: Plan, lane: PlannedLane, pace: Pace, number: int, seed: int | None = None) -> HeatOrder:
    """Return the order that a child needs to build and prove this lane."""
    wanted = plan.ask.seed if seed is None else seed
    return HeatOrder(
        plan.subject,
        lane,
        wanted,
        plan.proof,
        pace,
        number,
        plan.ask.pretrained,
        plan.data,
        plan.ask.seed,
        kept_batches=plan.kept_batches if wanted == plan.ask.seed else None,
    )


def place_batches(plan: Plan, cache: ReferenceCache) -> Plan:
    """Set the file that keeps the proof's batches of a user's own data: drawn once, and the same for all lanes."""
    if plan.subject.file is None or cache.place_batches is None:
        return plan
    return replace(plan, kept_batches=str(cache.place_batches(plan.ask.seed)))


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
