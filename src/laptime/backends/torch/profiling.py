"""torch.profiler on a lane: operators by their own time and memory, and on a card the kernels that each launched.

A card's kernels come from NVIDIA's CUPTI, which serves one tool at a time: where it is taken, or refuses, the
processor's side is told alone.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import torch
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from laptime.backends.kernels import Activity, sum_device, sum_operators
from laptime.model.missing import Missing
from laptime.model.profile import DeviceSum, Observed, OperatorSum

SIDES = {"cuda": ("CUDA", "CUDA"), "xpu": ("XPU", "XPU")}  # in PyTorch's two lists: what is watched, where it ran
ON_PROCESSOR = Missing("this lane computes on the processor")
NOTHING_TOLD = (
    "PyTorch's profiler told of no kernel: another tool may hold the card's profiling interface (CUPTI serves one at a "
    "time), or the driver keeps it to the administrator"
)
OUTSIDE_OPERATORS = "[memory]"  # what was given back between two operators is nobody's
OF_THE_RUNTIME = ("cuda", "cu", "hip")  # calls that launch kernels, and have numbers of a series of their own


class TorchProfiler:
    """Watches the thread that starts it, and the threads that PyTorch takes a gradient in."""

    by = f"torch.profiler of PyTorch {torch.__version__}"

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._session: Any = None
        self._refusal: str | None = None
        if device.type == "cuda":
            # Graphs that were captured before do not survive that CUPTI is taken down between two sessions.
            os.environ.setdefault("TEARDOWN_CUPTI", "0")
            os.environ.setdefault("DISABLE_CUPTI_LAZY_REINIT", "1")

    def start(self) -> None:
        side = self._side()
        if side is not None and self._refusal is None:
            try:
                self._begin([ProfilerActivity.CPU, side[0]])
            except RuntimeError as error:
                self._refusal = f"PyTorch's profiler cannot watch {self._device.type}: {error}"
            else:
                return
        self._begin([ProfilerActivity.CPU])

    def stop(self) -> None:
        self._session.stop()

    def read(self) -> Observed:
        events = list(self._session.profiler.kineto_results.events())
        side = self._side()
        ran = [] if side is None else list_activities(events, side[1])
        device = self._sum_device(ran)
        averages = [each for each in self._session.key_averages() if each.device_type == DeviceType.CPU]
        operators = processor_operators(averages)
        if isinstance(device, DeviceSum):
            operators += sum_operators(ran, device_memory(averages))
        notes = (device.missing,) if isinstance(device, Missing) and side is not None else ()
        return Observed(operators, device, notes)

    def write_trace(self, path: Path) -> None:
        self._session.export_chrome_trace(str(path))

    def _begin(self, activities: list[Any]) -> None:
        self._session = profile(activities=activities, profile_memory=True)
        self._session.start()

    def _side(self) -> tuple[Any, Any] | None:
        """Give PyTorch's words for the lane's device; none for a processor, or a device that it does not watch."""
        watched, ran = SIDES.get(self._device.type, ("", ""))
        if not (hasattr(ProfilerActivity, watched) and hasattr(DeviceType, ran)):
            return None
        return getattr(ProfilerActivity, watched), getattr(DeviceType, ran)

    def _sum_device(self, ran: list[Activity]) -> DeviceSum | Missing:
        if self._device.type == "cpu":
            return ON_PROCESSOR
        if self._side() is None:
            return Missing(f"PyTorch's profiler does not watch {self._device.type}")
        if not ran:
            return Missing(self._refusal or NOTHING_TOLD)
        return sum_device(ran)


def processor_operators(averages: Iterable[Any]) -> tuple[OperatorSum, ...]:
    """Give each operator's own time on the processor, and what it took of the processor's memory."""
    return tuple(
        OperatorSum(
            str(each.key),
            "processor",
            int(each.count),
            float(each.self_cpu_time_total) * 1e3,
            float(each.self_cpu_memory_usage),
        )
        for each in averages
        if each.key != OUTSIDE_OPERATORS and not each.is_async
    )


def device_memory(averages: Iterable[Any]) -> dict[str, float]:
    """Give what each operator took of the device's memory, by the processor's calls that asked for it."""
    taken: dict[str, float] = {}
    for each in averages:
        if each.self_device_memory_usage and each.key != OUTSIDE_OPERATORS:
            taken[str(each.key)] = taken.get(str(each.key), 0.0) + float(each.self_device_memory_usage)
    return taken


def list_activities(events: Iterable[Any], side: Any) -> list[Activity]:
    """Find what ran on the device, and the operator that launched each; a graph's kernels were launched by nobody.

    Spans that somebody marked on the device's time line by a name are no kernels.
    """
    events = list(events)
    launchers = {
        each.correlation_id(): str(each.name())
        for each in events
        if each.device_type() == DeviceType.CPU
        and each.linked_correlation_id() == 0
        and not str(each.name()).startswith(OF_THE_RUNTIME)
    }
    return [
        Activity(
            str(each.name()),
            float(each.start_ns()),
            float(each.start_ns() + each.duration_ns()),
            launchers.get(each.linked_correlation_id()) if each.linked_correlation_id() else None,
        )
        for each in events
        if each.device_type() == side and not each.is_user_annotation()
    ]
