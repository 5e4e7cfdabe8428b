"""One heat's windows -> its class, where its steady part starts, and its median step."""

from __future__ import annotations

from laptime.model.missing import Missing
from laptime.model.record import HeatResult
from laptime.model.sample import Heat, Window
from laptime.stats import find_steady, median

QUIET_LEAST = 3


def summarise_heat(heat: Heat) -> HeatResult:
    """Give a heat as it is kept, with the conclusions that it alone allows."""
    counted = quiet_windows(heat.windows)
    steady = find_steady([step_ms(window) for window in counted])
    usable = counted[steady.start :]
    return HeatResult(
        order=heat.order,
        round=heat.round,
        status=heat.status,
        steady=steady.kind,
        steady_from=heat.windows.index(usable[0]) if usable else 0,
        step_ms=_middle_step_ms(usable, heat.burst) if usable and heat.status == "ok" else None,
        first_step_ms=heat.first_step_ns / 1e6 if heat.first_step_ns is not None else None,
        phases_s=heat.phases_s,
        windows=heat.windows,
        losses=heat.losses,
        examination=heat.examination,
        fresh=heat.fresh,
        burst=heat.burst,
        proofs=heat.proofs,
        readings={
            "peak_memory_bytes": _as_float(heat.peak_memory_bytes),
            "device_memory_bytes": _as_float(heat.device_memory_bytes),
        },
        notes=heat.notes,
        dnf=heat.dnf,
        timeline=heat.timeline,
        signs=heat.signs,
    )


def _middle_step_ms(windows: tuple[Window, ...], burst: int | None) -> float:
    """Give the median; how much waiting for a loader that works in bursts falls into a window is chance: the mean."""
    return median([step_ms(window) for window in windows]) if burst is None else _mean_ms(windows)


def quiet_windows(windows: tuple[Window, ...]) -> tuple[Window, ...]:
    """Leave out disturbed windows where enough undisturbed ones are left; a heat disturbed throughout keeps all."""
    quiet = tuple(window for window in windows if window.flag is None)
    return quiet if len(quiet) >= QUIET_LEAST else windows


def steady_windows(heat: HeatResult) -> tuple[Window, ...]:
    """Give the windows that count: undisturbed where enough are, and from the steady part on."""
    start_ns = heat.windows[heat.steady_from].start_ns if heat.windows else 0
    return tuple(window for window in quiet_windows(heat.windows) if window.start_ns >= start_ns)


def mean_step_ms(heat: HeatResult) -> float:
    """Give the mean step of the windows that count, each window for as many steps as it holds."""
    return _mean_ms(steady_windows(heat))


def step_ms(window: Window) -> float:
    """Give a window's mean step: from fence to fence, so that nothing of it is left out."""
    return (window.end_ns - window.start_ns) / window.steps / 1e6


def _mean_ms(windows: tuple[Window, ...]) -> float:
    return sum(window.end_ns - window.start_ns for window in windows) / sum(window.steps for window in windows) / 1e6


def _as_float(value: int | Missing) -> float | Missing:
    return value if isinstance(value, Missing) else float(value)
