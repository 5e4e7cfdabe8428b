"""What a page says of a race on several types of nodes: how these differ, what a lap costs on each, and the nodes."""

from __future__ import annotations

from collections.abc import Iterator

from laptime.model.fleet import FleetNode
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.questions import RaceAnswer
from laptime.model.record import LaneResult, Record
from laptime.pages.layout import wrap
from laptime.pages.numbers import number
from laptime.pages.words import joined, machine_words, short_name

HOUR_S = 3600


def fleet_words(record: Record) -> list[str]:
    """Return how the versions on the nodes differ, and which nodes were left out: for the top of the page."""
    nodes = nodes_of(record)
    differing = [_differing(what, nodes, record) for what in _facts_of(nodes, record)]
    out: dict[str, list[str]] = {}
    for each in nodes:
        if each.problem is not None:
            out.setdefault(f"{each.of}: {each.problem}", []).append(each.node)
    told = [f"{len(ids)} node{'s' * (len(ids) != 1)} left out, {says}" for says, ids in out.items()]
    said = list(filter(None, differing))
    return [*([f"The nodes differ: {'; '.join(said)}."] if said else []), *(f"{each.rstrip('.')}." for each in told)]


def price_words(record: Record) -> list[str]:
    """Return which type is the cheapest for a lap, and which the fastest."""
    costs = {lane.name: cost for lane in record.lanes if (cost := lap_cost(lane, record)) is not None}
    if not costs:
        return []
    laps = {lane.name: lane.lap_s.median for lane in record.lanes if lane.name in costs and lane.lap_s is not None}
    cheapest, fastest = min(costs, key=costs.__getitem__), min(laps, key=laps.__getitem__)
    said = f"A lap is cheapest on {short_name(cheapest)} ({number(costs[cheapest])})"
    if all(each.verdict == "not distinguishable" for each in record.answer.comparisons):
        return [f"{said}; none was found to be faster."]
    if cheapest == fastest:
        return [f"{said}, which is also the fastest."]
    return [f"{said}, and fastest on {short_name(fastest)} ({number(costs[fastest])})."]


def lap_cost(lane: LaneResult, record: Record) -> float | None:
    """Return what the time of a lap costs at its type's price, or None where no price was given."""
    price = next((each.per_hour for each in record.ask.prices if lane.where and each.of == lane.where.value), None)
    return None if price is None or lane.lap_s is None else price * lane.lap_s.median / HOUR_S


def cost_cell(lane: LaneResult, record: Record) -> str:
    cost = lap_cost(lane, record)
    return "-" if cost is None else number(cost)


def node_lines(record: Record, width: int) -> list[str]:
    """Return a line a node: its type, its name, and what it has."""
    lines: list[str] = []
    for each in nodes_of(record):
        seen = [] if each.machine is None else [machine_words(each.machine), *_told(each.machine, record)]
        said = [
            f"{each.of}: {each.host or 'its name is not known'}",
            each.node[:12],
            *seen,
            *filter(None, [each.problem]),
        ]
        lines += wrap(", ".join(said), width, "  ")
    return lines


def nodes_of(record: Record) -> tuple[FleetNode, ...]:
    return record.answer.nodes if isinstance(record.answer, RaceAnswer) else ()


def _told(machine: Machine, record: Record) -> list[str]:
    return [f"{what} {value}" for what, value in dict(_facts(machine, record)).items()]


def _facts(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
    """Return the versions that may make two nodes differ: Python, the frameworks of the lanes, drivers of cards."""
    raced = {name for lane in record.lanes for name in (lane.name.partition("/")[0], *lane.framework)}
    for each in machine.frameworks:
        if each.name in raced:
            yield from ({each.name: each.version} | each.versions | {"python": machine.python}).items()
    drivers = sorted({card.driver for card in machine.cards if not isinstance(card.driver, Missing)})
    if drivers:
        yield "driver", " and ".join(drivers)


def _facts_of(nodes: tuple[FleetNode, ...], record: Record) -> list[str]:
    found = (what for each in nodes if each.machine is not None for what, _ in _facts(each.machine, record))
    return list(dict.fromkeys(found))


def _differing(what: str, nodes: tuple[FleetNode, ...], record: Record) -> str:
    """Return the values of one fact on each type, or "" if all nodes have the same."""
    of: dict[str, list[str]] = {}
    for each in nodes:
        if each.machine is not None and each.problem is None:
            value = dict(_facts(each.machine, record)).get(what, "none")
            of.setdefault(value, []).append(each.of)
    if len(of) < 2:
        return ""
    return f"{what} {joined([f'{value} on {joined([*dict.fromkeys(on)])}' for value, on in of.items()])}"
