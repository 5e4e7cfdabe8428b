"""What one round of a scale shows: the steps of its lanes, measured in turns, and where a step's time goes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from laptime.analysis.heats import steady_windows, step_ratio
from laptime.model.ranks import Exchange
from laptime.model.record import HeatResult, LaneResult
from laptime.questions.scale.nouns import LostTo, Mode, Role, ScaleLane
from laptime.stats import median


@dataclass(frozen=True, slots=True)
class AloneRanks:
    """What the ranks take that exchange nothing, in milliseconds a step: each one, and the slowest of each step."""

    rank_ms: tuple[float, ...]
    slowest_ms: float
    draws: tuple[float, ...]

    @property
    def usual_ms(self) -> float:
        """What a rank takes: the median of all but the slowest."""
        return median(sorted(self.rank_ms)[:-1] or self.rank_ms)

    @property
    def straggler_ms(self) -> float:
        """How much longer than the others the slowest rank takes."""
        return max(self.rank_ms) - self.usual_ms

    @property
    def waiting_ms(self) -> float:
        """How much longer the slowest rank of each single step takes than the slowest rank does."""
        return max(0.0, self.slowest_ms - max(self.rank_ms))

    @property
    def all_ms(self) -> float:
        """What a step takes until the last rank is done."""
        return self.usual_ms + self.straggler_ms + self.waiting_ms


@dataclass(frozen=True, slots=True)
class ScaleRound:
    """One round of one curve, in milliseconds a step. `count` is the largest count of devices."""

    mode: Mode
    count: int
    one_ms: float
    several_ms: Mapping[int, float]
    alone: AloneRanks | None
    part_ms: float | None
    one_ready_ms: float | None
    alone_ready: AloneRanks | None
    exchanges: Mapping[int, tuple[Exchange, ...]]

    @property
    def computing_ms(self) -> float:
        """What a device would take if nothing were lost."""
        return self.one_ms if self.mode == "weak" else self.one_ms / self.count

    @property
    def smaller_batch_ms(self) -> float:
        return 0.0 if self.part_ms is None else self.part_ms - self.computing_ms

    @property
    def loader_ms(self) -> float:
        """How much more of a step the loaders take on all devices than on one.

        That is what ready batches gain: also where a loader is slow in one rank, or in another one in each step.
        """
        if self.alone is None or self.one_ready_ms is None or self.alone_ready is None:
            return 0.0
        on_one = self.one_ms - self.one_ready_ms
        if self.mode == "strong":
            on_one /= self.count
        return max(0.0, self.alone.all_ms - self.alone_ready.all_ms - max(0.0, on_one))

    @property
    def apart(self) -> AloneRanks | None:
        """The ranks as they differ by their computing: on ready batches, if these were raced."""
        return self.alone if self.alone_ready is None else self.alone_ready

    def parts_ms(self) -> dict[LostTo, float]:
        """Return where the time of a step on all devices goes. The parts add up to the step."""
        step_ms, alone, apart = self.several_ms[self.count], self.alone, self.apart
        if alone is None or apart is None:
            return {"computing": self.computing_ms, "exchange": step_ms - self.computing_ms}
        loader = self.loader_ms
        known = self.computing_ms + self.smaller_batch_ms + loader + apart.straggler_ms + apart.waiting_ms
        return {
            "computing": self.computing_ms,
            "smaller batch": self.smaller_batch_ms,
            "host": alone.all_ms - known,
            "loader": loader,
            "straggler": apart.straggler_ms,
            "waiting": apart.waiting_ms,
            "exchange": step_ms - alone.all_ms,
        }


def rounds_of(roles: Sequence[ScaleLane], lanes: Mapping[str, LaneResult]) -> list[ScaleRound]:
    """Return the rounds in which one device and the largest count both finished a heat."""
    named: dict[tuple[Role, int], LaneResult] = {(each.role, each.devices): lanes[each.name] for each in roles}
    most = max((count for role, count in named if role == "several"), default=0)
    if not most:
        return []
    heats = {key: _by_round(lane) for key, lane in named.items()}
    both = heats["one", 1].keys() & heats["several", most].keys()
    return [_round(roles[0].mode, most, number, heats) for number in sorted(both)]


def ranks_alone(heat: HeatResult, times: float) -> AloneRanks | None:
    """Return what the ranks of a heat took; `times` corrects its step to that of its turns."""
    windows = [window for window in steady_windows(heat) if window.ranks is not None]
    if not windows:
        return None
    steps = sum(window.steps for window in windows)
    per_step = times / steps / 1e6
    told = [window.ranks for window in windows if window.ranks is not None]
    rank_ns = [sum(column) for column in zip(*(each.rank_ns for each in told), strict=True)]
    draws = [ns for window in windows for ns in window.step_ns]
    middle = sum(draws) / len(draws) if draws else 0.0
    return AloneRanks(
        tuple(each * per_step for each in rank_ns),
        sum(each.slowest_ns for each in told) * per_step,
        tuple(each / middle for each in draws) if middle else (),
    )


def _by_round(lane: LaneResult) -> dict[int, HeatResult]:
    return {heat.round: heat for heat in lane.heats if heat.step_ms is not None}


def _round(
    mode: Mode, most: int, number: int, heats: Mapping[tuple[Role, int], Mapping[int, HeatResult]]
) -> ScaleRound:
    one = heats["one", 1][number]
    assert one.step_ms is not None
    one_ms = one.step_ms

    def find(role: Role, count: int) -> HeatResult | None:
        return heats.get((role, count), {}).get(number)

    def taken(heat: HeatResult | None) -> float | None:
        return None if heat is None else one_ms * step_ratio(one, heat)

    alone, ready = find("alone", most), find("several ready", most)
    several = {count: each[number] for (role, count), each in heats.items() if role == "several" and number in each}
    return ScaleRound(
        mode,
        most,
        one_ms,
        {count: one_ms * step_ratio(one, heat) for count, heat in several.items()},
        _alone(alone, taken(alone)),
        taken(find("part", 1)),
        taken(find("one ready", 1)),
        _alone(ready, taken(ready)),
        {count: heat.exchanges for count, heat in several.items() if heat.exchanges},
    )


def _alone(heat: HeatResult | None, step_ms: float | None) -> AloneRanks | None:
    if heat is None or step_ms is None or heat.step_ms is None:
        return None
    return ranks_alone(heat, step_ms / heat.step_ms)
