"""The references that the lanes' proofs are compared with (saved, or computed once), and second proofs of lanes."""

from __future__ import annotations

import hashlib
import json
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Protocol, TypeVar

from laptime.analysis.parity import compare_references, judge_parity, may_be_chance
from laptime.engine.run.launchers import LOCAL, Launcher
from laptime.engine.run.scout import Failure, ask_proof, ask_reference
from laptime.engine.run.turns import AnyRunner, Player, Prestarter
from laptime.machine.look import available_memory_bytes
from laptime.model.frameworks import find_framework
from laptime.model.machine import Device
from laptime.model.other_work import OtherWork
from laptime.model.plan import HeatOrder, Pace, Plan, PlannedLane, Subject
from laptime.model.process import NO_TRAINING, ProcessRun, Settings
from laptime.model.quantities import Missing
from laptime.model.sample import Appeal, ProofRun, Reference
from laptime.planner.groups import Need, expect_need, why_no_room
from laptime.planner.plan import name_device
from laptime.planner.settings import KEEP_MEMORY
from laptime.questions.subject import OwnCode

PROOF_VERSION = 6
"""Changes when the networks, the made data or the proof's steps change, so that references are computed again."""
SEEDS_ON = 1_000_003
"""The distance of the second proof's seed from the race's seed."""


@dataclass(frozen=True, slots=True)
class ReferenceCache:
    """How references are loaded and saved, and where a proof's batches are kept while a question runs."""

    recall: Callable[[str], Reference | None]
    keep: Callable[[Reference], object]
    place_batches: Callable[[str], Path] | None = None


class Proof:
    """The float64 reference of each training, with which its lanes are compared. A lane that differs is proven twice.

    A reference that cannot be computed is the reason why, and None where no lane trains.
    """

    def __init__(
        self, cache: ReferenceCache, announce: Callable[[str], None], own_code: OwnCode, launcher: Launcher = LOCAL
    ) -> None:
        self._cache = cache
        self._announce = announce
        self._own_code = own_code
        self._launcher = launcher
        self.references: dict[str, Reference | str | None] = {}
        self._cut: dict[tuple[str, int], Reference | str | None] = {}
        self.appeals: dict[str, Appeal | None] = {}

    def kept_reference(self, training: Subject) -> Reference | None:
        """Return the reference of a training for the record, or None if there is none."""
        found = self.references.get(training.name)
        return found if isinstance(found, Reference) else None

    def make_ready(self, plan: Plan, prestarter: Prestarter | None = None) -> Plan:
        """Find the references that did not come with a resumed record. Return the plan with the files of batches.

        With a prestarter, their processes are forked from those that have imported a framework for the heats.
        """
        plan = place_batches(plan, self._cache)
        for training in plan.subjects:
            if self.references.get(training.name) is None:
                self.references[training.name] = self._find_reference(plan, training, prestarter=prestarter)
        for lane in plan.lanes:
            if self._is_cut(plan, lane) and (plan.subject_of(lane).name, lane.shares) not in self._cut:
                training = plan.subject_of(lane)
                self._cut[training.name, lane.shares] = self._find_reference(plan, training, lane.shares, prestarter)
        return plan

    def reference_for(self, plan: Plan, lane: PlannedLane) -> Reference | str | None:
        """Return what a lane is compared with: for one on several devices, a reference whose batches are cut alike."""
        name = plan.subject_of(lane).name
        return self._cut.get((name, lane.shares)) if self._is_cut(plan, lane) else self.references.get(name)

    def _is_cut(self, plan: Plan, lane: PlannedLane) -> bool:
        """Whether the devices of a lane change its work, because its network computes over a batch."""
        plain = self.references.get(plan.subject_of(lane).name)
        return lane.shares > 1 and isinstance(plain, Reference) and plain.over_batch

    def find_cut(self, plan: Plan, one: PlannedLane, other: PlannedLane) -> Missing | None:
        """Return why two lanes of one training do not do the same work, where a batch is cut for one of them."""
        parts = {lane.shares if self._is_cut(plan, lane) else 1 for lane in (one, other)}
        return None if len(parts) == 1 else Missing("batch norm sees each device's part of a batch alone")

    def find_difference(self, one: Subject, other: Subject) -> OtherWork | Missing | None:
        """Return how the references of two trainings differ; None if they did the same work.

        Scripts have none: the losses of their lanes are compared.
        """
        if one.command and other.command:
            return None
        mine, theirs = (self.references.get(subject.name) for subject in (one, other))
        if not isinstance(mine, Reference) or not isinstance(theirs, Reference):
            return Missing("a reference is missing")
        return compare_references(mine, theirs)

    def hear_appeal(self, plan: Plan, lane: PlannedLane, proofs: Sequence[tuple[ProofRun, ...]]) -> None:
        """Prove a lane that seems to do other work again, from another seed, because one difference may be chance."""
        if proofs and lane.name not in self.appeals:
            self.appeals[lane.name] = self._appeal(plan, lane, proofs)

    def _appeal(self, plan: Plan, lane: PlannedLane, proofs: Sequence[tuple[ProofRun, ...]]) -> Appeal | None:
        training = plan.subject_of(lane)
        reference = self.reference_for(plan, lane)
        if not isinstance(reference, Reference) or not may_be_chance(proofs, reference):
            return None
        if judge_parity(lane.settings, proofs, reference).status != "differs":
            return None
        self._announce(f"{lane.name} seems to do other work: it is proven again from another seed")
        seed = plan.ask.seed + SEEDS_ON
        other = place_batches(replace(plan, ask=replace(plan.ask, seed=seed)), self._cache)
        again = self._find_reference(other, training, reference.shares)
        if not isinstance(again, Reference):
            return None
        order = order_heat(other, lane, plan.pace, -1)
        return Appeal(seed, again, ask_proof(order, plan.ask.patience_s, self._launcher))

    def _find_reference(
        self, plan: Plan, training: Subject, shares: int = 1, prestarter: Prestarter | None = None
    ) -> Reference | str | None:
        """Load a reference, or compute and save it. That of a user's own training may change, so it is not saved.

        A script has none: only itself knows its model.
        """
        lanes = [lane for lane in plan.lanes if plan.subject_of(lane) == training]
        if training.command or all(lane.settings.input in NO_TRAINING for lane in lanes):
            return None
        framework = lanes[0].framework
        key = _reference_key(plan, training, framework, shares)
        recalled = self._cache.recall(key) if key else None
        if recalled is not None:
            return recalled
        of = f" of {training.name}" if plan.others else ""
        sign = partial(self._announce, f"computing the float64 reference of the proof{of}, once")
        sign()
        processor = Device("cpu", "cpu", "the processor", usable=True)
        alike = [
            planned_lane
            for planned_lane in lanes
            if planned_lane.framework == framework and planned_lane.may_fork and not planned_lane.settings.threads
        ]
        is_forked = prestarter is not None and bool(alike)
        environment = (
            alike[0].environment if is_forked else KEEP_MEMORY | name_device(find_framework(framework), processor)
        )
        settings = Settings(input="cached")
        lane = PlannedLane("reference", framework, processor, settings, environment, training=training)
        order = order_heat(plan, lane, plan.pace, -1)
        lane = replace(lane, writes=() if order.kept_batches is None else (order.kept_batches,))
        order = replace(order, lane=lane, shares=shares)
        started = prestarter.take_alone(lane) if prestarter is not None and is_forked else None
        made = ask_reference(order, plan.ask.patience_s, self._launcher, started, sign)
        if isinstance(made, Failure):
            self._own_code.note_failure(lane, made)
            return made.reason
        self._own_code.note_success(lane)
        made = replace(made, key=key or "", shares=shares)
        if key and not made.problem:
            self._cache.keep(made)
        return made


def is_reference_known(cache: ReferenceCache, plan: Plan) -> bool:
    """Whether the reference of the first training was computed and saved before."""
    key = _reference_key(plan, plan.subject, plan.lanes[0].framework, 1)
    return key is not None and cache.recall(key) is not None


def order_heat(plan: Plan, lane: PlannedLane, pace: Pace, number: int, seed: int | None = None) -> HeatOrder:
    """Return the order that a child needs to build and prove this lane."""
    wanted = plan.ask.seed if seed is None else seed
    training = plan.subject_of(lane)
    return HeatOrder(
        training,
        lane,
        wanted,
        plan.proof,
        pace,
        number,
        plan.ask.pretrained,
        plan.data_of(lane),
        plan.ask.seed,
        kept_batches=plan.kept_batches.get(training.name) if wanted == plan.ask.seed else None,
    )


def place_batches(plan: Plan, cache: ReferenceCache) -> Plan:
    """Set the file that keeps the proof's batches of a training's own data: drawn once, the same for all its lanes."""
    if cache.place_batches is None:
        return plan
    own = [training for training in plan.subjects if training.function is not None]
    places = (str(cache.place_batches(f"{plan.ask.seed}-{number}")) for number in range(len(own)))
    return replace(plan, kept_batches=dict(zip((training.name for training in own), places, strict=True)))


def _reference_key(plan: Plan, training: Subject, framework: str, shares: int = 1) -> str | None:
    if not training.is_built_in:
        return None
    what = [
        PROOF_VERSION,
        framework,
        training.name,
        plan.ask.seed,
        plan.ask.pretrained,
        asdict(plan.proof),
        shares,
    ]
    return f"{training.name}-{hashlib.sha256(json.dumps(what).encode()).hexdigest()[:16]}"


# Run the heats of a round alive at once, in groups that fit into memory, with the first lane in each group.

R = TypeVar("R", bound=AnyRunner)


class Crew(Protocol[R]):
    """How a question runs heats of lanes. All heats of a group have the same round number."""

    def line_up(self, lanes: Sequence[PlannedLane]) -> None:
        """Hear which lanes come next."""

    def make(self, lane: PlannedLane, place: int) -> Player[R]:
        """Return a heat that has not begun; `place` others were made for its group before."""

    @property
    def builds_at_once(self) -> int:
        """How many heats may build at the same time."""

    def begin(self, lane: PlannedLane, player: Player[R]) -> None:
        """Start a heat, which builds then."""

    def join(self, lane: PlannedLane, player: Player[R]) -> None:
        """Bring a heat that has begun to where its turns begin."""

    def pass_over(self, lane: PlannedLane, why: str) -> None:
        """Hear why a lane is not in this group."""

    def play(self, players: Sequence[Player[R]]) -> None:
        """Let the heats of a group take turns."""

    def keep(self, lane: PlannedLane, player: Player[R], number: int) -> None:
        """End a heat and keep it."""

    def run_alone(self, lane: PlannedLane, number: int) -> None:
        """Run a heat without others, and keep it."""

    def known(self, lane: PlannedLane) -> ProcessRun | None:
        """Return an earlier process of the lane that finished, if there is one."""

    def next_number(self) -> int:
        """Return the number of a new round."""


def run_together(lanes: Sequence[PlannedLane], crew: Crew[R]) -> None:
    """Run a heat of each lane, alive at once where memory allows."""
    first, *waiting = lanes
    while waiting:
        crew.line_up([first, *waiting])
        number = crew.next_number()
        beside = _run_group(first, waiting, crew, number)
        waiting = [lane for lane in waiting if lane not in beside]
        if not beside:  # none fits next to the first
            crew.line_up(waiting)
            for lane in waiting:
                crew.run_alone(lane, number)
            return


def say_why_alone(plan: Plan, alone: Mapping[str, str]) -> tuple[str, ...]:
    """Say why heats did not take turns; `alone` holds the reason for each lane that did not with the first one."""
    names = [lane.name for lane in plan.lanes]
    if plan.alone is not None:
        return (f"the heats ran one after another: {plan.alone}",) if len(names) > 1 else ()
    return tuple(f"{name} and {names[0]} did not take turns: {why}" for name, why in alone.items())


def _run_group(first: PlannedLane, others: Sequence[PlannedLane], crew: Crew[R], number: int) -> list[PlannedLane]:
    """Run the first lane, and with it all others that fit; return these others."""
    players: list[tuple[PlannedLane, Player[R]]] = []
    building: deque[tuple[PlannedLane, Player[R]]] = deque()
    at_once = crew.builds_at_once if crew.known(first) else 1  # before that, what a heat holds is not known
    try:
        for lane in (first, *others):
            if players and (why := _why_no_room(lane, players, crew)):
                crew.pass_over(lane, why)
                continue
            player = crew.make(lane, len(players))
            players.append((lane, player))
            building.append((lane, player))
            crew.begin(lane, player)
            if len(building) == at_once:
                _join_first(building, crew)
        while building:
            _join_first(building, crew)
        crew.play([player for _, player in players])
        for lane, player in players:
            crew.keep(lane, player, number)
    except BaseException:
        for _, player in players:
            player.abandon()
        raise
    return [lane for lane, _ in players[1:]]


def _join_first(building: deque[tuple[PlannedLane, Player[R]]], crew: Crew[R]) -> None:
    """Bring the first to where its turns begin, once nothing runs next to it."""
    for _, player in building:
        player.build()
    crew.join(*building.popleft())


def _why_no_room(lane: PlannedLane, players: Sequence[tuple[PlannedLane, Player[R]]], crew: Crew[R]) -> str | None:
    """Return why a lane's heat does not fit next to those that are alive. A cluster gives each a place of its own."""
    if players[0][1].node is not None:
        return None
    held: list[Need] = []
    to_come = 0
    for other, player in players:
        earlier = crew.known(other)
        most = [player.peak_bytes, *([earlier.peak_memory_bytes] if earlier is not None else [])]
        peak = max(size for size in most if not isinstance(size, Missing))
        need = Need(player.device, peak, player.resident_bytes, player.runner.device_memory_bytes)
        if not player.has_joined and held:  # it still builds, and will hold as much as those before
            expected = expect_need(
                player.device, held, max(peak, *(process.memory_bytes for process in held)), keeps=True
            )
            to_come += expected.memory_bytes - need.waiting_bytes
            need = expected
        held.append(need)
    free = available_memory_bytes()
    free = free if isinstance(free, Missing) else free - to_come
    known = crew.known(lane)
    before = Missing("it has not run yet") if known is None else known.peak_memory_bytes
    need = expect_need(lane.device, held, before, keeps=lane.settings.malloc == "keep")
    if known is not None and not isinstance(before, Missing):
        need = replace(need, device_memory_bytes=known.device_memory_bytes)
    return why_no_room(need, held, free)
