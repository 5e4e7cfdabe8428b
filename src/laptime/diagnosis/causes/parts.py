"""Where a step's time goes, and the speed of each stage alone: the loader, the copy to the device, the computing."""

from __future__ import annotations

from laptime.diagnosis.causes.case import NOT_MEASURED, Case
from laptime.model.missing import Missing
from laptime.model.record import Estimate
from laptime.model.why import Ceiling, Part, PartOf, Stage

STAGES: tuple[Stage, ...] = ("loader", "copy", "compute")
NO_COPY = Missing("a lane on the processor copies nothing to a device")


def split(case: Case) -> tuple[Part, ...]:
    """Give the parts of a step, pauses between steps with it; together they are 1.

    Each stage is asked what it takes alone, the computing first: what is worked on meanwhile costs a step nothing, so
    that of the copy and then of the loader counts only what is still left of the step.
    """
    whole_ms = case.whole_ms()
    parts: list[Part] = []
    left = 1.0
    for of, share in _claims(case, whole_ms) if whole_ms else ():
        given = min(max(share, 0.0), left)
        left -= given
        parts += [Part(of, given)] if given > 0 else []
    return (*_in_order(parts), Part("unattributed", left))


def share_of(case: Case, of: PartOf) -> float:
    """Give one part's share, nothing where it has none."""
    return next((part.share for part in split(case) if part.of == of), 0.0)


def stage_share(case: Case, stage: Stage) -> float | Missing:
    """Give how much of a step a stage alone takes, whatever is worked on meanwhile; it may be more than 1."""
    whole_ms, alone = case.whole_ms(), case.stage_ms(stage)
    if isinstance(alone, Missing):
        return alone
    return alone / whole_ms if whole_ms else NOT_MEASURED


def ceilings(case: Case) -> tuple[Ceiling, ...]:
    """Give the speed of each stage alone; of two at least the slowest binds."""
    told = {stage: _rate(case, stage) for stage in STAGES}
    known = {stage: rate.median for stage, rate in told.items() if isinstance(rate, Estimate)}
    slowest = min(known.items(), key=lambda pair: pair[1])[0] if len(known) > 1 else None
    return tuple(_ceiling(case, stage, rate, binds=stage == slowest) for stage, rate in told.items())


def _claims(case: Case, whole_ms: float) -> list[tuple[PartOf, float]]:
    """Give what each part would take, in the order in which they are served."""
    pauses = case.pauses()
    compute, copy, loader = (case.stage_ms(stage) for stage in ("compute", "copy", "loader"))
    if isinstance(compute, Missing) and not isinstance(wait := case.apart_ms("loader"), Missing):
        loader = wait  # a loader that works beside the step may take long and cost nothing
    computing = 0.0 if isinstance(compute, Missing) else min(1.0, compute / whole_ms)
    idle = min(computing, _idle(case, computing))
    return [
        ("outside", 0.0 if pauses is None else pauses.share),
        ("compute", computing - idle),
        ("host", idle),
        ("copy", 0.0 if isinstance(copy, Missing) else copy / whole_ms),
        ("loader", 0.0 if isinstance(loader, Missing) else loader / whole_ms),
    ]


def _idle(case: Case, computing: float) -> float:
    """Give the share of a step in which it computed and the device had nothing to do: it waited for the host."""
    resident = case.ceilings_lanes.get("compute")
    busy = Missing("no such lane") if resident is None else case.busy(resident)
    if not isinstance(busy, Missing):
        return computing * (1 - min(1.0, busy))
    busy = case.busy()
    return 0.0 if isinstance(busy, Missing) else max(0.0, computing - busy)


def _in_order(parts: list[Part]) -> list[Part]:
    """Set the parts in the order in which a batch comes by them."""
    order: tuple[PartOf, ...] = ("loader", "copy", "compute", "host", "outside")
    return sorted(parts, key=lambda part: order.index(part.of))


def _rate(case: Case, stage: Stage) -> Estimate | Missing:
    if stage == "copy" and case.on_processor:
        return NO_COPY
    lane = case.ceilings_lanes.get(stage)
    if lane is None:
        trial = case.trials.get(stage)
        absent = None if trial is None else trial.experiment.absent
        return absent or Missing(trial.reason if trial is not None and trial.reason else NOT_MEASURED.missing)
    if lane.status != "ok" or lane.items_per_s is None:
        return Missing(lane.reason or "no heat of it finished")
    return lane.items_per_s


def _ceiling(case: Case, stage: Stage, rate: Estimate | Missing, *, binds: bool) -> Ceiling:
    lane = case.ceilings_lanes.get(stage)
    name = None if lane is None else lane.name
    if isinstance(rate, Missing):
        return Ceiling(stage, rate, rate, rate, binds, name)
    return Ceiling(stage, rate.median, rate.low, rate.high, binds, name)
