"""When a collective was in progress, and when nothing was computed then: from events as PyTorch's profiler has them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import DeviceType  # noqa: E402

from laptime.engine.backends.torch.profiling import NO_COLLECTIVE, TorchExchangeProfiler, sum_on_card, sum_on_processor  # noqa: E402
from laptime.engine.backends.xplane import Activity  # noqa: E402
from laptime.model.quantities import Missing  # noqa: E402

MAIN, GLOO = 1, 3


@dataclass(frozen=True)
class Told:
    """An event in the form in which PyTorch's own come: everything is asked for by a call."""

    said: str
    begins: int
    ends: int
    thread: int = MAIN
    marked: bool = False

    def name(self):
        return self.said

    def device_type(self):
        return DeviceType.CPU

    def start_ns(self):
        return self.begins

    def duration_ns(self):
        return self.ends - self.begins

    def start_thread_id(self):
        return self.thread

    def is_async(self):
        return self.said.startswith("gloo:")

    def is_user_annotation(self):
        return self.marked


# A step of DistributedDataParallel: the second product hides a part of the exchange; a hook of the backward pass waits
# for the rest. Spans around it do not compute.
STEP = (
    Told("DistributedDataParallel.forward", 0, 100, marked=True),
    Told("aten::linear", 0, 100),
    Told("aten::addmm", 5, 95),
    Told("autograd::engine::evaluate_function: torch::autograd::AccumulateGrad", 100, 500),
    Told("torch::autograd::AccumulateGrad", 100, 500),
    Told("c10d::allreduce_", 100, 120),
    Told("aten::empty", 105, 110),
    Told("gloo:all_reduce", 110, 400, GLOO),
    Told("aten::mm", 150, 250),
    Told("Optimizer.step#SGD.step", 380, 500, marked=True),
    Told("aten::_foreach_add_", 410, 490),
)


def test_what_gloo_does_while_nothing_is_computed_is_exposed():
    """The call that starts a collective belongs to it, with the memory that it allocates."""
    found = sum_on_processor(STEP)
    assert (found.in_progress_ns, found.exposed_ns) == (300, 200)


def test_operators_of_gloos_own_threads_compute_nothing():
    own = (Told("aten::copy_", 260, 400, GLOO), Told("aten::div_", 390, 400, GLOO))
    assert sum_on_processor((*STEP, *own)) == sum_on_processor(STEP)


def test_two_collectives_at_once_are_in_progress_once():
    second = (Told("c10d::allreduce_", 300, 310), Told("gloo:all_reduce", 305, 450, GLOO + 1))
    found = sum_on_processor((*STEP, *second))
    assert (found.in_progress_ns, found.exposed_ns) == (350, 350 - 100 - 40)


def test_a_span_that_begins_on_the_thread_that_computes_hides_no_operator():
    """So earlier versions of PyTorch record it."""
    moved = tuple(Told(each.said, each.begins, each.ends, MAIN, each.marked) for each in STEP)
    assert sum_on_processor(moved) == sum_on_processor(STEP)


def test_a_card_compares_the_kernels_of_nccl_with_all_others():
    ran = (
        Activity("sm90_xmma_gemm", 0, 100),
        Activity("ncclDevKernel_AllReduce_Sum_f32_RING_LL", 80, 200),
        Activity("ncclKernel_AllGather_RING_LL_Sum_int8_t", 300, 340),
        Activity("vectorized_elementwise_kernel", 150, 180),
        Activity("Memcpy HtoD (Pinned -> Device)", 185, 200),
    )
    found = sum_on_card(ran)
    assert (found.in_progress_ns, found.exposed_ns) == (160, 160 - 20 - 30)


def test_what_was_not_seen_is_missing():
    assert sum_on_card([Activity("sm90_xmma_gemm", 0, 100)]) == NO_COLLECTIVE
    assert sum_on_processor([each for each in STEP if not each.said.startswith("gloo:")]) == NO_COLLECTIVE
    watched = TorchExchangeProfiler(torch.device("cpu"))
    watched.start()
    torch.ones(3).sum()
    watched.stop()
    assert isinstance(watched.collectives(), Missing)
