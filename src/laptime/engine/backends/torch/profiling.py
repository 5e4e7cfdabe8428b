"""torch.profiler on a lane.

A card's kernels are reported by NVIDIA's CUPTI, which serves one tool at a time. If another tool uses it, or it
refuses, only the processor's side is reported.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Hashable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd import DeviceType  # type: ignore[attr-defined]
from torch.profiler import ProfilerActivity, profile

from laptime.engine.backends.torch.batches import leaves
from laptime.engine.backends.torch.inputs import BatchSource
from laptime.engine.backends.torch.stepping import Stepper
from laptime.engine.backends.torch.symptoms import DenormalCount, SyncDetector, count_compiled, count_held, flow_counted
from laptime.engine.backends.xplane import ON_PROCESSOR, Activity, overlap_ns, sum_device, sum_operators, unite_ns
from laptime.model.process import CollectiveSum
from laptime.model.quantities import Missing
from laptime.model.symptoms import DenormalCensus, DeviceSum, Observed, OperatorSum, StepSymptoms

SIDES = {"cuda": ("CUDA", "CUDA"), "xpu": ("XPU", "XPU")}  # PyTorch's names in two enums: what is watched, where it ran
NO_KERNEL_TOLD = (
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
        device: DeviceSum | Missing
        if self._device.type == "cpu":
            device = ON_PROCESSOR
        elif side is None:
            device = Missing(f"PyTorch's profiler does not watch {self._device.type}")
        else:
            device = sum_device(ran) if ran else Missing(self._refusal or NO_KERNEL_TOLD)
        averages = [average for average in self._session.key_averages() if average.device_type == DeviceType.CPU]
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


def processor_operators(averages: Iterable[Any]) -> tuple[OperatorSum, ...]:
    """Return each operator's own time on the processor, and the memory of the processor that it allocated."""
    return tuple(
        OperatorSum(
            str(average.key),
            "processor",
            int(average.count),
            float(average.self_cpu_time_total) * 1e3,
            float(average.self_cpu_memory_usage),
        )
        for average in averages
        if average.key != OUTSIDE_OPERATORS and not average.is_async
    )


def device_memory(averages: Iterable[Any]) -> dict[str, float]:
    """Return the device memory that each operator allocated, from the calls on the processor that requested it."""
    taken: dict[str, float] = {}
    for average in averages:
        if average.self_device_memory_usage and average.key != OUTSIDE_OPERATORS:
            taken[str(average.key)] = taken.get(str(average.key), 0.0) + float(average.self_device_memory_usage)
    return taken


def list_activities(events: Iterable[Any], side: Any) -> list[Activity]:
    """Find what ran on the device, and the operator that launched each; kernels of a graph have none.

    Named spans that a program marked on the device's timeline are not kernels.
    """
    events = list(events)
    launchers = {
        event.correlation_id(): str(event.name())
        for event in events
        if event.device_type() == DeviceType.CPU
        and event.linked_correlation_id() == 0
        and not str(event.name()).startswith(OF_THE_RUNTIME)
    }
    return [
        Activity(
            str(event.name()),
            float(event.start_ns()),
            float(event.start_ns() + event.duration_ns()),
            launchers.get(event.linked_correlation_id()) if event.linked_correlation_id() else None,
        )
        for event in events
        if event.device_type() == side and not event.is_user_annotation()
    ]


# A PyTorch step in parts: fetch, copy, the rest; with its reads, its compilations and its denormal numbers.

NOTHING_COMPUTED = Missing("this lane has one stage alone, and computes nothing")
READS_NOT_SEEN = Missing("a step that was compiled or captured is not looked into: its reads are its compiler's")


class TorchStepParts:
    """A training after its windows, run part by part."""

    stride = 1

    def __init__(
        self, source: BatchSource, train: Callable[[Any], None], device: torch.device, stepper: Stepper | None
    ) -> None:
        self.fetch = source.fetch
        self.move = source.move
        self.compute = train
        self._device = device
        self._stepper = stepper
        self._bytes = self._arrays = 0
        self._compiled = count_compiled()

    def describe(self, batch: Any) -> Hashable:
        arrays = [leaf for leaf in leaves(batch) if isinstance(leaf, Tensor | np.ndarray)]
        if self._device.type != "cpu":
            copied = [array for array in arrays if not isinstance(array, Tensor) or array.device.type == "cpu"]
            self._bytes += sum(int(array.nbytes) for array in copied)
            self._arrays += len(copied)
        return tuple(tuple(array.shape) for array in arrays)

    def look(self, steps: int, timed: int) -> StepSymptoms:  # noqa: ARG002  copies were counted in `describe`
        """Count reads in some more steps first; then inspect what these steps leave behind."""
        threads = torch.get_num_threads()
        symptoms = StepSymptoms(0, copied_bytes=self._bytes, copied_arrays=float(self._arrays), threads=threads)
        if self._stepper is None:
            return replace(symptoms, reads=NOTHING_COMPUTED, compiles=NOTHING_COMPUTED, denormals=NOTHING_COMPUTED)
        stepper = self._stepper
        counted = DenormalCount()
        reads = READS_NOT_SEEN if not stepper.is_eager else self._watch(stepper, steps, counted)
        count_held(stepper.network, stepper.optimizer, counted, gradients=isinstance(reads, Missing))
        share, whose = DenormalCensus(counted.shares()).worst
        notes = {"denormals": f"of {whose}"} if share else {}
        symptoms = replace(symptoms, denormals=share, notes=notes, compiles=count_compiled() - self._compiled)
        if isinstance(reads, Missing):
            return replace(symptoms, reads=reads)
        return replace(symptoms, reads=reads.total() / steps, sites=reads.sites(steps))

    def _watch(self, stepper: Stepper, steps: int, counted: DenormalCount) -> SyncDetector:
        """Count reads in each of these steps, and the denormal numbers that flow in the first."""
        reads = SyncDetector(self._device)
        for number in range(steps):
            batch = self.move(self.fetch())
            with reads, flow_counted(stepper.network, counted) if number == 0 else contextlib.nullcontext():
                self.compute(batch)
        return reads


# How long a collective was in progress in the steps that torch.profiler saw, and how long nothing was computed then.
#
# On a card, collectives are the kernels of NCCL, and computing is every other kernel. On a processor, gloo's threads
# mark each collective from its start to its end, and computing is what the operators of the other threads take. Spans
# around operators (a module's forward, a node of the backward pass, an optimizer's step) may hold waiting, and do not
# count.

COMPILED_HIDES_OPERATORS = Missing("compiled code on a processor does not name its operators to PyTorch's profiler")
NO_COLLECTIVE = Missing("PyTorch's profiler told of no collective")
CARD_COLLECTIVES = "nccl"
PROCESSOR_COLLECTIVES = "gloo:"
# Operators that start a collective, or wait for it.
COLLECTIVE_CALLS = ("c10d::", "c10d_functional::", "_c10d_functional::")
AROUND_OPERATORS = ("autograd::", "torch::", "torch.")  # what calls operators, and hooks that start collectives
Spans = list[tuple[float, float]]


class TorchExchangeProfiler(TorchProfiler):
    """torch.profiler, asked only about collectives."""

    sees_memory = False

    def collectives(self) -> CollectiveSum | Missing:
        events = list(self._session.profiler.kineto_results.events())
        if self._device.type == "cpu":
            return sum_on_processor(events)
        side = self._side()
        if self._device.type != "cuda" or side is None:
            return Missing(f"which kernels exchange on {self._device.type} is not known")
        ran = list_activities(events, side[1])
        return sum_on_card(ran) if ran else Missing(self._refusal or NO_KERNEL_TOLD)


def sum_on_card(ran: Iterable[Activity]) -> CollectiveSum | Missing:
    """Compare the kernels of NCCL with all others."""
    exchange: Spans = []
    computing: Spans = []
    for activity in ran:
        if activity.is_kernel:
            spans = exchange if activity.name.lower().startswith(CARD_COLLECTIVES) else computing
            spans.append((activity.start_ns, activity.end_ns))
    if not exchange:
        return NO_COLLECTIVE
    in_progress_ns = unite_ns(exchange)
    return CollectiveSum(in_progress_ns, max(0.0, in_progress_ns - overlap_ns(exchange, computing)))


def sum_on_processor(events: Iterable[Any]) -> CollectiveSum | Missing:
    """Compare gloo's collectives with the operators of the threads that are not gloo's.

    A call that starts a collective belongs to it, with all operators that it calls in turn.
    """
    events = [event for event in events if event.device_type() == DeviceType.CPU]
    exchange = [event for event in events if str(event.name()).startswith(PROCESSOR_COLLECTIVES)]
    if not exchange:
        return NO_COLLECTIVE
    calls = [event for event in events if str(event.name()).startswith(COLLECTIVE_CALLS)]
    of_gloo = {event.start_thread_id() for event in exchange} - {call.start_thread_id() for call in calls}
    computing = _spans(event for event in events if _computes(event) and event.start_thread_id() not in of_gloo)
    in_calls = _spans(calls)
    in_progress = [*_spans(exchange), *in_calls]
    in_progress_ns = unite_ns(in_progress)
    hidden_ns = overlap_ns(in_progress, computing) - overlap_ns(in_calls, computing)
    return CollectiveSum(in_progress_ns, max(0.0, in_progress_ns - hidden_ns))


def _computes(event: Any) -> bool:
    name = str(event.name())
    around = (
        event.is_user_annotation()
        or event.is_async()
        or name.startswith((*AROUND_OPERATORS, *COLLECTIVE_CALLS, PROCESSOR_COLLECTIVES))
    )
    return "::" in name and not around


def _spans(events: Iterable[Any]) -> Spans:
    return [(float(event.start_ns()), float(event.start_ns() + event.duration_ns())) for event in events]
