"""Steps that were measured on known devices, and what they say of other steps on the same card, or on its relatives.

What a prediction is off belongs in part to the card with its host and framework: of two trainings on one card that one
source measured, the errors go together. So a card that was measured here, or that a board has rows of, moves what is
predicted of other trainings there, and narrows their range. Where nothing of its architecture was fitted, so do its
relatives. A card that the fit has seen is predicted by the fit alone: more of it gains nothing
(bench/forecast_left_out.py --only seen; docs/decisions/0051-a-measured-card-moves-its-forecast.md).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

from laptime.model.hardware import Efficiencies, KnownDevice, Regime, StepOperator
from laptime.model.quantities import Missing, percent, times
from laptime.model.record import Record
from laptime.questions.forecast.lane import WITHOUT_LOADER, is_built_in, measure_lane, training_lanes
from laptime.questions.forecast.reduce import architecture_of, forecast_step, regime_of, seen_regime
from laptime.trainings.workloads import find_workload

# Correlations of what is off where the fit has not seen the card, or its architecture.
SAME_CARD = 0.5  # of two trainings on one card
RELATIVES = 0.4  # of two cards of one architecture
FAR_OFF = math.log(2)  # what is off by more is no matter of the card: something else slowed that step
ORIGINS_NAMED = 3

Match = Callable[[str], KnownDevice | None]
"""Returns the device that a label means, if it is known."""


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """A measured step on a known device, and where it was measured. With `has_loader` it may wait for its batches."""

    what: str
    operators: tuple[StepOperator, ...]
    precision: str
    execution: str
    device: KnownDevice
    ms: float
    source: str
    has_loader: bool = False


def recorded_steps(record: Record, match: Match) -> Iterator[MeasuredStep]:
    """Yield the steps of a record's lanes on known devices, the core of their host as fast as it was there."""
    for lane in training_lanes(record):
        device = match(lane.device.label)
        found = measure_lane(record, lane)
        if device is None or isinstance(found, Missing):
            continue
        yield MeasuredStep(
            found.what,
            found.operators,
            found.precision,
            found.execution,
            replace(device, core_score=found.core_score),
            found.step_ms,
            record.id,
            has_loader=lane.settings.input not in WITHOUT_LOADER
            and (not is_built_in(found.what) or find_workload(found.what).reads_files),
        )


@dataclass(frozen=True, slots=True)
class Correction:
    """How many times as long as predicted a step on a card takes, by others there, and the share of its spread left."""

    times: float = 1.0
    share: float = 1.0
    notes: tuple[str, ...] = ()


def learn_from(
    seen: Sequence[MeasuredStep], device: KnownDevice, precision: str, execution: str, known: Efficiencies
) -> Correction:
    """Return what measured steps say of another step in such arithmetic on a card."""
    found = regime_of(device, precision)
    if isinstance(found, Missing) or device.short in known.cards.get(found[0], ()):
        return Correction()
    alike = [
        step
        for step in seen
        if not step.has_loader
        and (step.execution == "eager") == (execution == "eager")  # else its host is off, and not the card
        and seen_as(step.device, step.precision) == found[0]
    ]
    on_it = [step for step in alike if step.device.short == device.short]
    if on_it:
        return _taken_over(on_it, SAME_CARD, lambda step: step.what, "trainings measured there", known)
    if seen_regime(device, precision, known) is not None:
        return Correction()
    relatives = [step for step in alike if architecture_of(step.device) == architecture_of(device)]
    return _taken_over(
        relatives, RELATIVES, lambda step: step.device.short, "cards of its architecture measured", known
    )


def seen_as(device: KnownDevice, precision: str) -> Regime | None:
    found = regime_of(device, precision)
    return None if isinstance(found, Missing) else found[0]


def _taken_over(
    steps: Sequence[MeasuredStep],
    correlation: float,
    one_of: Callable[[MeasuredStep], str],
    are_what: str,
    known: Efficiencies,
) -> Correction:
    """Return how much of the mean error of such steps another one has, and how much of its spread that explains.

    Errors are alike, each two of them with one correlation. So the mean of `count` is taken over in part, the more the
    more they are: it is the best linear prediction of one more value.
    """
    offs: dict[str, list[float]] = {}
    origins: dict[str, None] = {}
    left_out = 0
    for step in steps:
        found = forecast_step(step.operators, step.device, step.precision, step.execution, known)
        if isinstance(found, Missing):
            continue
        off = math.log(step.ms / 1e3 / found.step_s)
        if abs(off) <= FAR_OFF:
            offs.setdefault(one_of(step), []).append(off)
            origins[step.source] = None
        else:
            left_out += 1
    notes = (f"{left_out} measured there was off by more than twofold, and is left out",) if left_out else ()
    if not offs:
        return Correction(notes=notes)
    count = len(offs)
    taken = correlation * count / (1 + (count - 1) * correlation)
    moved = math.exp(taken * fmean(map(fmean, offs.values())))
    share = math.sqrt(1 - correlation * taken)
    named = ", ".join([*origins][:ORIGINS_NAMED]) + (", ..." if len(origins) > ORIGINS_NAMED else "")
    says = f"taken as {times(moved)} as long, range narrower by {percent(1 - share)}: {are_what}: {count} ({named})"
    return Correction(moved, share, (says, *notes))
