"""Findings about steps themselves: a slow beginning, pauses between them, and what taking them apart has shown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from laptime.diagnosis.seen import Seen
from laptime.diagnosis.steps import find_pauses, slow_starts
from laptime.model.lane import Input
from laptime.model.missing import Missing
from laptime.model.record import Finding, LaneResult
from laptime.model.signs import Signs

SLOW_START = 1.5
HEATS_LEAST = 2
PAUSES = 0.05
DENORMAL = 0.01
LOADED = 0.05
ALONE = 0.8  # of a step; a loader that takes less alone may work while the step computes
READY: tuple[Input, ...] = ("cached", "resident", "one")


def slow_at_first(seen: Seen) -> Finding | None:
    """Who times from the first step on counts in what is over after some seconds."""
    starts = slow_starts(seen.lane)
    if len(starts) < HEATS_LEAST or min(starts) < SLOW_START:
        return None
    return Finding(
        "slow at first",
        f"{seen.lane.name}: in the first window of every heat a step took {min(starts):.1f} times what it took later.",
        {"times": starts},
        "A timing of one's own that starts with the first step counts that in; these figures do not.",
        "proven",
    )


def pauses_between_steps(seen: Seen) -> Finding | None:
    """What is done at a lap's end, or every so many steps."""
    pauses = find_pauses(seen.lane)
    if pauses is None or pauses.share < PAUSES:
        return None
    return Finding(
        "pauses between steps",
        f"{seen.lane.name}: every {pauses.every:.0f} steps there was a pause of {pauses.pause_ms:.0f} ms, "
        f"{100 * pauses.share:.0f} % of the time.",
        {"share": pauses.share, "every_steps": pauses.every, "pause_ms": pauses.pause_ms},
        "Validate and save less often; keep a loader's workers from lap to lap (persistent_workers=True).",
        "likely",
    )


def denormal_numbers(seen: Seen) -> Finding | None:
    """They take many processors a hundred times as long."""
    told = _sign(seen, "denormals")
    if told is None or told < DENORMAL or seen.lane.device.kind != "cpu":
        return None
    return Finding(
        "denormal numbers",
        f"{seen.lane.name}: {100 * told:.0f} % of its weights and gradients are next to nought (denormal).",
        {"share": told},
        "Race denormals=flush beside it.",
        "likely",
    )


def values_read_each_step(seen: Seen) -> Finding | None:
    """On a processor a value is there at once; a device has to come so far first, and then has nothing to do."""
    told = _sign(seen, "reads")
    if told is None or told < 1 or seen.lane.device.kind == "cpu":
        return None
    return Finding(
        "values read",
        f"{seen.lane.name}: the host asked the device for a value {told:.0f} times a step, and waited for it.",
        {"reads_per_step": told},
        "Race reads=deferred beside it; read losses and metrics every so many steps.",
        "likely",
    )


def shapes_that_compile(seen: Seen) -> Finding | None:
    compiles = _sign(seen, "compiles")
    if compiles is None or compiles < 1:
        return None
    shapes = _sign(seen, "shapes") or 1
    return Finding(
        "compiled anew",
        f"{seen.lane.name}: its steps were compiled {compiles:.0f} times more, with {shapes:.0f} shapes of batch.",
        {"compiles": compiles, "shapes": shapes},
        "Give batches one shape: pad them, or drop a lap's last one.",
        "likely",
    )


def loaders_beside(lanes: Sequence[LaneResult]) -> tuple[Finding, ...]:
    """Where the same lane was raced without its loader, or its loader alone, the loader's share is known."""
    found = (_loader_of(lane, lanes) for lane in lanes if lane.status == "ok" and lane.step_ms is not None)
    return tuple(each for each in found if each is not None)


def _loader_of(lane: LaneResult, lanes: Sequence[LaneResult]) -> Finding | None:
    if lane.settings.input in {*READY, "only", "copy"} or lane.step_ms is None:
        return None
    ready = next((each for each in lanes if _is_it_with(lane, each, *READY)), None)
    if ready is not None and ready.step_ms is not None:
        share = 1 - ready.step_ms.median / lane.step_ms.median
        high, low = ready.step_ms.high, lane.step_ms.low
        proven = not isinstance(high, Missing) and not isinstance(low, Missing) and high < low
        how = f"{ready.name} takes {ready.step_ms.median:.3g} ms a step, and it {lane.step_ms.median:.3g}"
        return _of_loader(lane, share, how, proven=proven) if proven and share >= LOADED else None
    alone = next((each for each in lanes if _is_it_with(lane, each, "only")), None)
    if alone is None or alone.step_ms is None:
        return None
    share = alone.step_ms.median / lane.step_ms.median
    how = f"alone it takes {alone.step_ms.median:.3g} ms of {lane.step_ms.median:.3g}"
    return _of_loader(lane, min(share, 1.0), how, proven=False) if share >= ALONE else None


def _of_loader(lane: LaneResult, share: float, how: str, *, proven: bool) -> Finding:
    return Finding(
        "loader",
        f"{lane.name}: its loader takes {100 * share:.0f} % of a step ({how}).",
        {"share": share},
        "laptime why tells what each remedy gains.",
        "proven" if proven else "likely",
    )


def _is_it_with(lane: LaneResult, other: LaneResult, *inputs: Input) -> bool:
    """Tell whether another lane is this one but for its input."""
    if other.step_ms is None or other.status != "ok" or other.items_per_step != lane.items_per_step:
        return False
    kin = lane.name.split("/")[0] == other.name.split("/")[0] and lane.device == other.device
    same = replace(other.settings, input=lane.settings.input) == lane.settings
    return kin and same and other.settings.input in inputs


def _sign(seen: Seen, name: str) -> float | None:
    """Give a sign of the first heat that has some; nothing, where steps were not taken apart."""
    signs: Signs | None = next((heat.signs for heat in seen.lane.heats if heat.signs is not None), None)
    told = None if signs is None else getattr(signs, name)
    return None if told is None or isinstance(told, Missing) else float(told)
