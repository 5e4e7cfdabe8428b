"""A card's side of PyTorch's profiler, from events as they are told."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

torch = pytest.importorskip("torch")

from torch.autograd import DeviceType  # noqa: E402

from laptime.engine.backends.torch.profiling import (  # noqa: E402  # noqa: E402
    NO_KERNEL_TOLD,
    TorchProfiler,
    device_memory,
    list_activities,
    processor_operators,
)
from laptime.engine.backends.xplane import (  # noqa: E402
    sum_device,
    sum_operators,
)
from laptime.model.quantities import Missing  # noqa: E402


@dataclass(frozen=True)
class Told:
    """An event in the form in which PyTorch's own come: everything is asked for by a call."""

    said: str
    side: DeviceType
    begins: int
    takes: int
    number: int = 0
    linked: int = 0
    marked: bool = False

    def name(self):
        return self.said

    def device_type(self):
        return self.side

    def start_ns(self):
        return self.begins

    def duration_ns(self):
        return self.takes

    def correlation_id(self):
        return self.number

    def linked_correlation_id(self):
        return self.linked

    def is_user_annotation(self):
        return self.marked


CPU, CUDA = DeviceType.CPU, DeviceType.CUDA
# A step's worth, as PyTorch reports it: operators have numbers, runtime calls and kernels are linked to them. The
# graph's launch has a number of CUPTI's own, which happens to be that of no operator's.
STEP = (
    Told("aten::convolution", CPU, 0, 900, number=7),
    Told("cudaLaunchKernel", CPU, 10, 5, number=501, linked=7),
    Told("sm90_xmma_fprop", CUDA, 100, 400, number=501, linked=7),
    Told("cudaMemcpyAsync", CPU, 20, 5, number=502, linked=8),
    Told("aten::copy_", CPU, 15, 30, number=8),
    Told("Memcpy HtoD (Pageable -> Device)", CUDA, 50, 40, number=502, linked=8),
    Told("Optimizer.step#Adam.step", CUDA, 100, 700, number=9, linked=9, marked=True),
    Told("cudaGraphLaunch", CPU, 600, 5, number=503),
    Told("triton_poi_fused", CUDA, 450, 150, number=503),
)


def test_kernels_are_given_to_the_operator_that_launched_them():
    """A span that a user named is no kernel, and a graph's kernels stand for themselves."""
    ran = list_activities(STEP, CUDA)
    assert [(each.name, each.cause, each.start_ns, each.end_ns) for each in ran] == [
        ("sm90_xmma_fprop", "aten::convolution", 100, 500),
        ("Memcpy HtoD (Pageable -> Device)", "aten::copy_", 50, 90),
        ("triton_poi_fused", None, 450, 600),
    ]
    device = sum_device(ran)
    assert (device.busy_ns, device.kernels, device.kernels_ns) == (500, 2, 550)
    assert [each.name for each in sum_operators(ran, None)] == ["aten::convolution", "aten::copy_", "triton_poi_fused"]


def test_another_cards_kind_of_events_is_left_alone():
    assert list_activities(STEP, DeviceType.XPU) == []


@dataclass(frozen=True)
class Average:
    key: str
    count: int
    self_cpu_time_total: float
    self_cpu_memory_usage: int
    self_device_memory_usage: int
    is_async: bool = False


AVERAGES = (
    Average("aten::empty", 4, 2.5, 4096, 0),
    Average("aten::empty", 2, 1.0, 0, 512),
    Average("[memory]", 9, 0.0, -4096, -512),
    Average("waits elsewhere", 1, 0.0, 0, 0, is_async=True),
)


def test_memory_outside_of_operators_is_nobodys():
    """Microseconds become nanoseconds; what is given back between two operators is left out."""
    told = processor_operators(AVERAGES)
    assert [(each.name, each.calls, each.own_ns, each.memory_bytes) for each in told] == [
        ("aten::empty", 4, 2500.0, 4096.0),
        ("aten::empty", 2, 1000.0, 0.0),
    ]
    assert device_memory(AVERAGES) == {"aten::empty": 512.0}


@pytest.mark.filterwarnings("ignore:CUDA is not available")
def test_a_card_that_tells_of_no_kernel_is_said_to():
    """Here there is none: a profiler that has to watch one sees the processor alone, and a note reports it."""
    if torch.cuda.is_available():
        pytest.skip("there is a card here")
    profiler = TorchProfiler(torch.device("cuda:0"))
    profiler.start()
    torch.ones(64, 64) @ torch.ones(64, 64)
    profiler.stop()
    seen = profiler.read()
    assert isinstance(seen.device, Missing)
    assert seen.notes == (seen.device.missing,)
    assert seen.device.missing == NO_KERNEL_TOLD or "cannot watch cuda" in seen.device.missing
    assert "aten::mm" in {each.name for each in seen.operators if each.where == "processor"}
