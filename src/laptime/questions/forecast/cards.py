"""What a card would bring, predicted at the end of a race or a `why` on a machine that has none."""

from __future__ import annotations

from dataclasses import replace

from laptime.hardware import find_device, known_devices, known_efficiencies
from laptime.model.forecasting import CardFactor, DeviceForecast, PredictedCards
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.questions import find_question
from laptime.model.record import LaneResult, Record
from laptime.questions.compare.run import FAULTS
from laptime.questions.forecast.lane import NO_LOADER, measure_lane, training_lanes
from laptime.questions.forecast.run import forecast_device

THREE = ("t4", "rtx-4090", "h100-sxm")  # the cheapest to rent, one under a desk, and one of the fastest


def with_cards(record: Record) -> Record:
    """Return a finished record with what common cards would bring, if that can be predicted.

    A prediction that fails must not cost a race its record. A disturbed step predicts nothing.
    """
    if (
        not find_question(record.question).predicts_cards
        or has_card(record.machine)
        or record.ask.on
        or record.distrust
    ):
        return record
    try:
        return replace(record, cards=predict_cards(record))
    except FAULTS:
        return record


def predict_cards(record: Record) -> PredictedCards | None:
    lanes = [each for each in training_lanes(record) if each.device.kind == "cpu"]
    lane = _lane_of(record, lanes)
    measured = None if lane is None else measure_lane(record, lane)
    if measured is None or isinstance(measured, Missing):
        return None
    found = [forecast_device(measured, find_device(each, known_devices()), known_efficiencies()) for each in THREE]
    rows = tuple(_factor_of(each) for each in found if not isinstance(each, Missing) and each.fits)
    known = measured.loader != NO_LOADER
    return PredictedCards(measured.lane.name, rows, loader_is_known=known) if rows else None


def has_card(machine: Machine) -> bool:
    """Whether this machine has anything faster than its processor, used or not."""
    return bool(machine.cards) or any(
        device.usable and device.kind != "cpu" for framework in machine.frameworks for device in framework.devices
    )


def _lane_of(record: Record, lanes: list[LaneResult]) -> LaneResult | None:
    """Return the lane that a `why` is about, or the fastest of a race."""
    if record.question == "why":
        return lanes[0] if lanes and lanes[0] == record.lanes[0] else None
    return max(lanes, key=lambda each: each.items_per_s.median if each.items_per_s else 0.0, default=None)


def _factor_of(found: DeviceForecast) -> CardFactor:
    return CardFactor(found.device.name, found.factor, found.binds)
