"""The same lanes on each type of nodes of a cluster (`--each`): a plan for each type, joined into one race."""

from __future__ import annotations

from dataclasses import replace
from itertools import chain

from laptime.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.fleet import FleetNode, NodeType
from laptime.model.lane import ON_NODES
from laptime.model.machine import Machine
from laptime.model.plan import Plan, PlannedLane
from laptime.planner.plan import pace_of
from laptime.questions.asking import Prepared, keep_apart, prepare_trainings
from laptime.run.fleet import Fleet
from laptime.run.launchers import Launcher


def prepare_fleet(ask: Ask, launcher: Launcher, fleet: Fleet) -> Prepared:
    """Prepare a race on each type of nodes. A type that cannot run it is left out, with the reason.

    What belongs to no lane, as the reference, runs on the first type that can.
    """
    _refuse_prices(ask, fleet)
    made: list[tuple[NodeType, Prepared]] = []
    nodes = {each.node: each for each in fleet.nodes}
    for kind in fleet.types:
        first = fleet.first_of(kind)
        if first.machine is None:
            continue
        fleet.settle(kind)
        try:
            made.append((kind, prepare_trainings(ask, _without_cards(first.machine), launcher)))
        except UsageError as error:
            nodes |= {each.node: _refused(each, error.says) for each in fleet.nodes if each.of == kind.name}
    fleet.note(tuple(nodes.values()))
    if not made:
        told = "; ".join(dict.fromkeys(f"{each.of}: {each.problem}" for each in fleet.nodes))
        raise UsageError(
            f"--each {ask.each}: no type of nodes can run this: {told}", "laptime devices shows what a machine has"
        )
    fleet.settle(made[0][0])
    return replace(made[0][1], plan=_join(ask, made, launcher, fleet))


def _join(ask: Ask, made: list[tuple[NodeType, Prepared]], launcher: Launcher, fleet: Fleet) -> Plan:
    (_, first), *_ = made
    lanes = tuple(_on(lane, kind) for kind, prepared in made for lane in prepared.plan.lanes)
    alone, pace = pace_of(ask, first.machine, lanes)
    notes = tuple(dict.fromkeys(chain.from_iterable(prepared.plan.notes for _, prepared in made)))
    plan = replace(first.plan, lanes=lanes, alone=alone, pace=pace, notes=notes, nodes=fleet.nodes)
    return keep_apart(plan, launcher.why_alone(lanes))


def _on(lane: PlannedLane, kind: NodeType) -> PlannedLane:
    return replace(lane, name=f"{lane.name}{ON_NODES}{kind.name}", where=kind)


def _without_cards(machine: Machine) -> Machine:
    """Return a machine as others on a cluster are planned with: a lane sees the cards of its place only."""
    return replace(machine, cards=(), absent={})


def _refused(node: FleetNode, says: str) -> FleetNode:
    return replace(node, problem=node.problem or says)


def _refuse_prices(ask: Ask, fleet: Fleet) -> None:
    there = [kind.value for kind in fleet.types]
    unknown = [each.of for each in ask.prices if each.of not in there]
    if unknown:
        raise UsageError(f"--prices {unknown[0]}: no node is of this type", f"there are: {', '.join(there)}")
