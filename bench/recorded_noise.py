"""Rounds of real races that results and records hold, by machine: how far each was from its race's mean.

`bench/verdict.py --recorded` draws from them. What differs from round to round on a real machine has long tails, and
goes on for some rounds: so blocks of rounds are drawn, and for a gate two lanes of the same race, which had one base.
"""

from __future__ import annotations

import gzip
import json
import math
import statistics
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from common import ROOT

PLACES = (ROOT / "bench" / "results", ROOT / "board" / "records", ROOT / "docs" / "pictures")
LEAST_ROUNDS = 3
WIDEST = 0.15  # of a real race whose rounds are drawn from: wider ones had a base that changed its work
BLOCK = 4  # rounds that are drawn together, at most


@dataclass(frozen=True, slots=True)
class RecordedRace:
    """The lanes of a race, each with how far its rounds were from their mean, as logarithms."""

    machine: str
    away: tuple[tuple[float, ...], ...]

    @property
    def rounds(self) -> int:
        return len(self.away[0])


def read_races() -> dict[str, list[RecordedRace]]:
    """Return the races that are kept, by their machine, each machine with its number of cores."""
    found: dict[str, list[RecordedRace]] = {}
    seen: set[tuple[float, ...]] = set()
    for place in (path for folder in PLACES for path in sorted(folder.glob("*.json*"))):
        for value, machine in _records_in(_read(place), None):
            for race in _races_of(value, machine):
                if race.away[0] not in seen:  # a race may be kept in two places
                    seen.add(race.away[0])
                    found.setdefault(race.machine, []).append(race)
    return found


def _read(place: Path) -> Any:
    data = place.read_bytes()
    return json.loads(gzip.decompress(data) if place.suffix == ".gz" else data)


def _records_in(value: Any, machine: Any) -> Iterator[tuple[list[Any], Any]]:
    """Return the comparisons of each race, with the machine that is written around it.

    A record has a list of its comparisons. Other lists of results hold one of each race.
    """
    if isinstance(value, dict):
        own = value.get("machine")
        machine = own if isinstance(own, dict) and "processor" in own else machine
        if isinstance(value.get("comparisons"), list):
            yield value["comparisons"], machine
        elif "ratios" in value:
            yield [value], machine
        value = [each for name, each in value.items() if name != "comparisons"]
    for each in value if isinstance(value, list) else []:
        yield from _records_in(each, machine)


def _races_of(comparisons: list[Any], machine: Any) -> Iterator[RecordedRace]:
    """Return the lanes that took turns with the same reference, in races that ran on one machine that is named."""
    kept = [each for each in comparisons if isinstance(each, dict) and each.get("in_turns") and each.get("ratios")]
    if machine is None or not kept:
        return
    rounds = min(len(each["ratios"]) for each in kept)
    away = [_away(each["ratios"][:rounds]) for each in kept] if rounds >= LEAST_ROUNDS else []
    away = [each for each in away if statistics.pstdev(each) <= WIDEST]
    if away:
        has_card = any("cuda" in each["lane"] for each in kept)
        yield RecordedRace(_name(machine, has_card=has_card), tuple(away))


def _away(ratios: list[float]) -> tuple[float, ...]:
    """Return the distances from the mean. Few rounds are nearer to their own mean than to the true one."""
    logs = [math.log(ratio) for ratio in ratios]
    wider = math.sqrt(len(logs) / (len(logs) - 1))
    return tuple(wider * (log - statistics.fmean(logs)) for log in logs)


def _name(machine: dict[str, Any], *, has_card: bool) -> str:
    processor = machine["processor"]
    name = processor["name"].replace("(R)", "").replace(" Processor", "")
    host = f"{processor['cores_usable']} cores of {name}"
    return f"NVIDIA H100, {host}" if has_card else host


def spread_of(races: list[RecordedRace]) -> float:
    """Return the spread of the rounds that are drawn."""
    return statistics.pstdev(each for race in races for lane in race.away for each in lane)


def draw(races: list[RecordedRace], rounds: int, random: np.random.Generator) -> np.ndarray:
    """Return the noise of two lanes in these rounds: blocks of real rounds, of two lanes of a race where it has two."""
    blocks: list[np.ndarray] = []
    left = rounds
    while left > 0:
        race = races[random.integers(len(races))]
        lanes = random.permutation(len(race.away))[:2]
        length = min(int(random.integers(1, BLOCK + 1)), race.rounds, left)
        first = int(random.integers(race.rounds - length + 1))
        block = np.array([race.away[lane][first : first + length] for lane in lanes])
        if len(block) == 1:
            other = races[random.integers(len(races))].away[0]
            block = np.vstack([block, random.choice(other, length)])
        blocks.append(block)
        left -= length
    return np.hstack(blocks)
