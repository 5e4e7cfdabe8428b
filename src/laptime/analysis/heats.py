"""One heat's windows -> its class, where its steady part starts, its median step; two heats -> their ratio."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, log
from statistics import variance

from laptime.model.record import HeatResult, LaneResult
from laptime.model.sample import Heat, Window
from laptime.stats import find_steady, median, pseudomedian

QUIET_LEAST = 3
DUETS_LEAST = 2


def summarise_heat(heat: Heat) -> HeatResult:
    """Return a heat as it is saved, with the conclusions that this heat alone allows."""
    counted = quiet_windows(heat.windows)
    steady = find_steady([step_ms(window) for window in counted])
    usable = counted[steady.start :]
    return HeatResult(
        process=heat.process,
        order=heat.order,
        round=heat.round,
        steady=steady.kind,
        steady_from=heat.windows.index(usable[0]) if usable else 0,
        step_ms=_middle_step_ms(usable, heat.burst) if usable and heat.process.status == "ok" else None,
        first_step_ms=heat.first_step_ns / 1e6 if heat.first_step_ns is not None else None,
        windows=heat.windows,
        losses=heat.losses,
        examination=heat.examination,
        fresh=heat.fresh,
        burst=heat.burst,
        proofs=heat.proofs,
        signs=heat.signs,
        census=heat.census,
        ranks=heat.ranks,
        exchanges=heat.exchanges,
    )


def _middle_step_ms(windows: tuple[Window, ...], burst: int | None) -> float:
    """Return the median step of the windows; with a loader that works in bursts, the mean.

    How much of the waiting for such a loader falls into one window is chance.
    """
    return median([step_ms(window) for window in windows]) if burst is None else _mean_ms(windows)


def quiet_windows(windows: tuple[Window, ...]) -> tuple[Window, ...]:
    """Leave out disturbed windows, if enough undisturbed ones are left.

    Otherwise keep all windows except those in which the heat was halted, whose time means nothing.
    """
    quiet = tuple(window for window in windows if window.flag is None)
    if len(quiet) >= QUIET_LEAST:
        return quiet
    return tuple(window for window in windows if window.noise is None or window.noise.halted is None) or windows


def steady_windows(heat: HeatResult) -> tuple[Window, ...]:
    """Return the windows that count: undisturbed if there are enough, and from the start of the steady part on."""
    start_ns = heat.windows[heat.steady_from].start_ns if heat.windows else 0
    return tuple(window for window in quiet_windows(heat.windows) if window.start_ns >= start_ns)


def mean_step_ms(heat: HeatResult) -> float:
    """Return the mean step of the windows that count, each window weighted by its steps."""
    return _mean_ms(steady_windows(heat))


def step_ms(window: Window) -> float:
    """Return a window's mean step, from fence to fence, so that it includes everything."""
    return (window.end_ns - window.start_ns) / window.steps / 1e6


def pairs_of_heats(lane: LaneResult, reference: LaneResult) -> list[tuple[HeatResult, HeatResult]]:
    """Return the heats that both lanes finished in the same round: those that took turns, if there are at least two.

    Two heats one after another differ by what the machine did meanwhile.
    """
    theirs = {heat.round: heat for heat in reference.heats if heat.step_ms is not None}
    ours = [heat for heat in lane.heats if heat.step_ms is not None and heat.round in theirs]
    pairs = [(heat, theirs[heat.round]) for heat in sorted(ours, key=lambda heat: heat.round)]
    duets = [pair for pair in pairs if took_turns(*pair)]
    return duets if len(duets) >= DUETS_LEAST else pairs


def took_turns(heat: HeatResult, other: HeatResult) -> bool:
    """Whether two heats of a round were alive at once and took turns."""
    return all(each.windows and each.windows[0].turn is not None for each in (heat, other))


def step_ratio(heat: HeatResult, reference: HeatResult) -> float:
    """Return how many times as long a step of the reference takes as one of the heat, by the turns that both count.

    A pair of turns meets the same state of the machine, so it is their ratio that has to be steady, and not the heats.
    Their pseudomedian leaves out what disturbed single turns, and loses little where none was. A loader that works in
    bursts makes single turns differ by chance: then it is the ratio of the means.
    """
    ours, theirs = windows_by_turn(heat), windows_by_turn(reference)
    turns = sorted(ours.keys() & theirs.keys())
    if len(turns) < QUIET_LEAST:
        assert heat.step_ms is not None
        assert reference.step_ms is not None
        return reference.step_ms / heat.step_ms
    ratios = [step_ms(theirs[each]) / step_ms(ours[each]) for each in turns]
    if heat.burst is not None or reference.burst is not None:
        steady = turns[find_steady(ratios).start :]
        return _mean_ms([theirs[each] for each in steady]) / _mean_ms([ours[each] for each in steady])
    return ratio_of_turns(ratios)


def noise_of_ratio(heat: HeatResult, reference: HeatResult) -> float:
    """Return the variance of the logarithm of their ratio, by how much the ratios of single turns differ; 0 without."""
    ours, theirs = windows_by_turn(heat), windows_by_turn(reference)
    ratios = [step_ms(theirs[each]) / step_ms(ours[each]) for each in sorted(ours.keys() & theirs.keys())]
    logs = _steady_logs(ratios) if len(ratios) >= QUIET_LEAST else []
    return variance(logs) / len(logs) if len(logs) > 1 else 0.0


def ratio_of_turns(ratios: Sequence[float]) -> float:
    """Return the pseudomedian of the ratios of turns, on the logarithmic scale, from where they are steady."""
    return exp(pseudomedian(_steady_logs(ratios)))


def _steady_logs(ratios: Sequence[float]) -> list[float]:
    return [log(each) for each in ratios[find_steady(ratios).start :]]


def windows_by_turn(heat: HeatResult) -> dict[int, Window]:
    return {window.turn: window for window in quiet_windows(heat.windows) if window.turn is not None}


def _mean_ms(windows: Sequence[Window]) -> float:
    return sum(window.end_ns - window.start_ns for window in windows) / sum(window.steps for window in windows) / 1e6
