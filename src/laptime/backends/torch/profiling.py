"""torch.profiler on a lane.

A card's kernels are reported by NVIDIA's CUPTI, which serves one tool at a time. If another tool uses it, or it
refuses, only the processor's side is reported.
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

SIDES = {"cuda": ("CUDA", "CUDA"), "xpu": ("XPU", "XPU")}  # PyTorch's names in two enums: what is watched, where it ran
ON_PROCESSOR = Missing("this lane computes on the processor")
NOTHING_TOLD = (
    "PyTorch's profiler told of no kernel: another tool may hold the card's profiling interface (CUPTI serves one at a "
    "time), or the driver keeps it to the administrator"
)
OUTSIDE_OPERATORS = "[memory]"  # memory that was freed between two operators belongs to none
OF_THE_RUNTIME = ("cuda", "cu", "hip")  # calls that launch kernels; they have their own series of ids


class TorchProfiler:
    """Watches the thread that starts it, and the threads in which PyTorch computes gradients."""

    by = f"torch.profiler of PyTorch {torch.__version__}"
    sees_memory = True

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._session: Any = None
        self._refusal: str | None = None
        if device.type == "cuda":
            # CUDA graphs that were captured before do not survive a teardown of CUPTI between two sessions.
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
        self._session = profile(activities=activities, profile_memory=self.sees_memory)
        self._session.start()

    def _side(self) -> tuple[Any, Any] | None:
        """Return PyTorch's names for the lane's device; None for a device that its profiler does not watch."""
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
    """Return each operator's own time on the processor, and the memory of the processor that it allocated."""
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
    """Return the device memory that each operator allocated, from the calls on the processor that requested it."""
    taken: dict[str, float] = {}
    for each in averages:
        if each.self_device_memory_usage and each.key != OUTSIDE_OPERATORS:
            taken[str(each.key)] = taken.get(str(each.key), 0.0) + float(each.self_device_memory_usage)
    return taken


def list_activities(events: Iterable[Any], side: Any) -> list[Activity]:
    """Find what ran on the device, and the operator that launched each; kernels of a graph have none.

    Named spans that a program marked on the device's timeline are not kernels.
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
