"""Run the heats of a round alive at once, in groups that fit into memory, with the first lane in each group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeVar

from laptime.machine.processor import available_memory_bytes
from laptime.model.missing import Missing
from laptime.model.plan import Plan, PlannedLane
from laptime.model.process import ProcessRun
from laptime.planner.duets import Need, expect_need, why_no_room
from laptime.run.turns import AnyRunner, Player

R = TypeVar("R", bound=AnyRunner)


class Crew(Protocol[R]):
    """How a question runs heats of lanes. All heats of a group have the same round number."""

    def line_up(self, lanes: Sequence[PlannedLane]) -> None:
        """Hear which lanes come next."""

    def make(self, lane: PlannedLane, place: int) -> Player[R]:
        """Return a heat that has not begun; `place` others were made for its group before."""

    def join(self, lane: PlannedLane, player: Player[R]) -> None:
        """Bring a heat to where its turns begin."""

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
    try:
        for lane in (first, *others):
            if players and (why := _why_no_room(lane, [player for _, player in players], crew.known(lane))):
                crew.pass_over(lane, why)
                continue
            player = crew.make(lane, len(players))
            players.append((lane, player))
            crew.join(lane, player)
        crew.play([player for _, player in players])
        for lane, player in players:
            crew.keep(lane, player, number)
    except BaseException:
        for _, player in players:
            player.abandon()
        raise
    return [lane for lane, _ in players[1:]]


def _why_no_room(lane: PlannedLane, players: Sequence[Player[R]], known: ProcessRun | None) -> str | None:
    """Return why a lane's heat does not fit next to those that are alive. A cluster gives each a place of its own."""
    if players[0].node is not None:
        return None
    held = [Need(each.device, each.resident_bytes, each.runner.device_memory_bytes) for each in players]
    if known is None or isinstance(known.peak_memory_bytes, Missing):
        need = expect_need(lane.device, held)
    else:
        need = Need(lane.device, known.peak_memory_bytes, known.device_memory_bytes)
    return why_no_room(need, held, available_memory_bytes())
