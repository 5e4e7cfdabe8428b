"""How long a collective was in progress in the steps that torch.profiler saw, and how long nothing was computed then.

On a card, collectives are the kernels of NCCL, and computing is every other kernel. On a processor, gloo's threads mark
each collective from its start to its end, and computing is what the operators of the other threads take. Spans around
operators (a module's forward, a node of the backward pass, an optimizer's step) may hold waiting, and do not count.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from torch.autograd import DeviceType  # type: ignore[attr-defined]

from laptime.backends.kernels import Activity, overlap_ns, unite_ns
from laptime.backends.torch.profiling import NOTHING_TOLD, TorchProfiler, list_activities
from laptime.model.missing import Missing
from laptime.model.ranks import CollectiveSum

COMPILED = Missing("compiled code on a processor does not name its operators to PyTorch's profiler")
NO_COLLECTIVE = Missing("PyTorch's profiler told of no collective")
ON_CARD, ON_PROCESSOR = "nccl", "gloo:"
CALLS = ("c10d::", "c10d_functional::", "_c10d_functional::")  # operators that start a collective, or wait for it
AROUND = ("autograd::", "torch::", "torch.")  # what calls operators, and hooks that start collectives
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
        return sum_on_card(ran) if ran else Missing(self._refusal or NOTHING_TOLD)


def sum_on_card(ran: Iterable[Activity]) -> CollectiveSum | Missing:
    """Compare the kernels of NCCL with all others."""
    kernels = [each for each in ran if each.is_kernel]
    exchange = [(each.start_ns, each.end_ns) for each in kernels if each.name.lower().startswith(ON_CARD)]
    computing = [(each.start_ns, each.end_ns) for each in kernels if not each.name.lower().startswith(ON_CARD)]
    if not exchange:
        return NO_COLLECTIVE
    in_progress_ns = unite_ns(exchange)
    return CollectiveSum(in_progress_ns, max(0.0, in_progress_ns - overlap_ns(exchange, computing)))


def sum_on_processor(events: Iterable[Any]) -> CollectiveSum | Missing:
    """Compare gloo's collectives with the operators of the threads that are not gloo's.

    A call that starts a collective belongs to it, with all operators that it calls in turn.
    """
    events = [each for each in events if each.device_type() == DeviceType.CPU]
    exchange = [each for each in events if str(each.name()).startswith(ON_PROCESSOR)]
    if not exchange:
        return NO_COLLECTIVE
    calls = [each for each in events if str(each.name()).startswith(CALLS)]
    of_gloo = {each.start_thread_id() for each in exchange} - {each.start_thread_id() for each in calls}
    computing = _spans(each for each in events if _computes(each) and each.start_thread_id() not in of_gloo)
    in_calls = _spans(calls)
    in_progress = [*_spans(exchange), *in_calls]
    in_progress_ns = unite_ns(in_progress)
    hidden_ns = overlap_ns(in_progress, computing) - overlap_ns(in_calls, computing)
    return CollectiveSum(in_progress_ns, max(0.0, in_progress_ns - hidden_ns))


def _computes(event: Any) -> bool:
    name = str(event.name())
    around = event.is_user_annotation() or event.is_async() or name.startswith((*AROUND, *CALLS, ON_PROCESSOR))
    return "::" in name and not around


def _spans(events: Iterable[Any]) -> Spans:
    return [(float(each.start_ns()), float(each.start_ns() + each.duration_ns())) for each in events]
