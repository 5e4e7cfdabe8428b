"""What ran on a device, from literals: the time that intervals cover, kernels and copies apart, and whose they are."""

from __future__ import annotations

import pytest

from laptime.engine.backends.xplane import Activity, sum_device, sum_operators, unite_ns
from laptime.model.quantities import Missing


@pytest.mark.parametrize(
    ("expected", "intervals"),
    [
        (0, []),
        (10, [(0, 10)]),
        (20, [(0, 10), (10, 20)]),
        (15, [(5, 15), (0, 10)]),
        (10, [(0, 10), (2, 5), (3, 4)]),
        (12, [(0, 10), (20, 22), (1, 2)]),
        (10, [(0, 10), (0, 10), (0, 10)]),
        (3, [(4, 4), (7, 10)]),
    ],
)
def test_what_overlaps_counts_once(expected, intervals):
    assert unite_ns(intervals) == expected


# Two streams: a product and a convolution overlap for 5 of their 30 and 15 ns; a copy runs next to them.
RAN = (
    Activity("gemm", 100, 130, "aten::mm"),
    Activity("conv", 125, 140, "aten::convolution"),
    Activity("gemm", 160, 170, "aten::mm"),
    Activity("Memcpy HtoD (Pageable -> Device)", 0, 90, "aten::copy_"),
    Activity("Memset (Device)", 95, 96, None),
    Activity("graph kernel", 180, 200, None),
)


def test_copies_are_no_kernels():
    """Busy is 40 + 10 + 20 ns; four kernels of 75 ns together."""
    told = sum_device(RAN)
    assert (told.busy_ns, told.kernels, told.kernels_ns) == (70, 4, 75)


def test_time_goes_to_who_launched_it_and_else_to_itself():
    told = {each.name: (each.calls, each.own_ns) for each in sum_operators(RAN, None)}
    assert told == {
        "aten::mm": (2, 40),
        "aten::convolution": (1, 15),
        "aten::copy_": (1, 90),
        "Memset (Device)": (1, 1),
        "graph kernel": (1, 20),
    }
    assert {each.where for each in sum_operators(RAN, None)} == {"device"}
    assert all(isinstance(each.memory_bytes, Missing) for each in sum_operators(RAN, None))


def test_who_only_takes_memory_is_there_too():
    told = {each.name: each for each in sum_operators(RAN, {"aten::mm": 64.0, "aten::empty": 512.0})}
    assert (told["aten::mm"].memory_bytes, told["aten::convolution"].memory_bytes) == (64.0, 0.0)
    assert (told["aten::empty"].calls, told["aten::empty"].own_ns, told["aten::empty"].memory_bytes) == (0, 0, 512.0)
