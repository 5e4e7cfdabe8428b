"""What the settings of a tuning are judged by: how many items they do per second, per joule, or for the money."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.errors import UsageError
from laptime.model.ask import Ask
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.model.plan import PlannedLane
from laptime.model.record import LaneResult
from laptime.questions.job import FAKE
from laptime.questions.tune.aims import Aim, LanePrices
from laptime.questions.tune.reduce import Gain, Rating, find_gain, rate_lanes, weigh
from laptime.run.sensor_selection import SensorSelection

ALPHA = 0.05
NOT_READ = Missing("no instrument was read")
OWN_CLOCK = Missing("fake lanes have a clock of their own, which no reading can be compared with")
POWER_HINT = "`laptime devices` shows the instruments; --for time needs none"


class Objective:
    """The aim of a tuning, and the prices of its lanes."""

    def __init__(self, ask: Ask) -> None:
        self.aim, self._ask = ask.aim, ask

    def needs_power(self, lanes: Sequence[PlannedLane]) -> bool:
        return any(self.aim.needs_power(self._ask.prices_of(lane.device)) for lane in lanes)

    def per_s(self, lane: LaneResult) -> float | Missing:
        """Return how much of the aim's unit a second of a lane takes."""
        power_w = NOT_READ if lane.usage is None else lane.usage.energy.power_w
        return self.aim.per_s(power_w, self._ask.prices_of(lane.device))

    def rate(self, lanes: Sequence[LaneResult], base: str) -> dict[str, Rating]:
        """Return the ratings of lanes against the base; none of those whose figures do not tell what they take."""
        return weigh(rate_lanes(lanes, base), {lane.name: self.per_s(lane) for lane in lanes}, base)

    def compare(self, lane: LaneResult, reference: LaneResult) -> Gain | Missing | None:
        """Return how many times as much a lane does per unit, by the rounds of both; None where there is no round."""
        return find_gain(lane, reference, self.per_s, ALPHA)


def check_objective(ask: Ask, lanes: Sequence[PlannedLane]) -> None:
    """Refuse an aim whose figures are known to be missing: no price of a device, or nothing that reads its power."""
    aim = ask.aim
    for lane in lanes:
        prices = ask.prices_of(lane.device)
        if aim.word == "money":
            _check_price(prices, lane.device)
        if aim.needs_power(prices):
            _check_power(ask, aim, lane)


def _check_price(prices: LanePrices, device: Device) -> None:
    if prices.per_hour is None:
        raise UsageError(
            f"--for money: what an hour of {device.name} costs is not known",
            f"add --rate 0.50 for the machine, or a price for each device: --prices {device.kind}=0.50",
        )
    if not prices.per_hour and not prices.per_kwh:
        raise UsageError(f"--for money: an hour of {device.name} costs 0", "name a price above 0")


def _check_power(ask: Ask, aim: Aim, lane: PlannedLane) -> None:
    if lane.framework == FAKE:
        why: Missing | None = OWN_CLOCK
    else:
        why = SensorSelection(ask.sensors, ask.sensors_hz).why_no_power(lane.device)
    if why is not None:
        raise UsageError(f"--for {aim.word}: the power of {lane.device.name} cannot be read: {why.missing}", POWER_HINT)
