"""Planes of JAX's and TensorFlow's profilers as literals: own times, a card's streams, a Chrome trace."""

from __future__ import annotations

import json

import pytest

from laptime.engine.backends.xplane import (
    NOTHING_TOLD,
    XEvent,
    XLine,
    XPlane,
    chrome_trace,
    host_operators,
    observe,
    operator_of,
    own_times,
)
from laptime.model.quantities import Missing
from laptime.model.symptoms import DeviceSum

OUTER = XEvent("outer", 0, 100, {"hlo_op": "while.1"})
INNER = XEvent("inner", 10, 30, {"hlo_op": "dot.2"})
DEEPER = XEvent("deeper", 15, 5, {"hlo_op": "add.3"})
LATER = XEvent("later", 60, 20, {"hlo_op": "dot.2"})
AFTER = XEvent("after", 100, 7, {"hlo_op": "dot.2"})
WAITING = XEvent("ThunkExecutor::Execute (wait for completion)", 0, 500)
HOST = XPlane(
    "/host:CPU", (XLine("worker 1", (DEEPER, AFTER, OUTER, LATER, INNER, WAITING)), XLine("worker 2", (AFTER,)))
)
CARD = XPlane(
    "/device:GPU:0",
    (
        XLine("Stream #13(Compute)", (XEvent("gemm_kernel", 200, 50, {"hlo_op": "dot.2"}), XEvent("loop", 240, 40))),
        XLine("Stream #14(MemcpyH2D)", (XEvent("MemcpyH2D", 150, 30),)),
        XLine("XLA Modules", (XEvent("jit_step", 0, 1000),)),
    ),
)


def test_time_within_another_event_is_not_ones_own():
    """100 less 30 and 20; 30 less 5; and what begins as another ends is next to it."""
    told = {event.name: own for event, own in own_times((DEEPER, AFTER, OUTER, LATER, INNER))}
    assert told == {"outer": 50, "inner": 25, "deeper": 5, "later": 20, "after": 7}


def test_operators_are_added_up_over_threads():
    """A runtime's waiting is no operator; the card's plane is not the processor's."""
    told = {each.name: (each.calls, each.own_ns) for each in host_operators((HOST, CARD))}
    assert told == {"while.1": (1, 50), "dot.2": (4, 25 + 20 + 7 + 7), "add.3": (1, 5)}


@pytest.mark.parametrize(
    ("expected", "name"),
    [
        ("FusedConv2D sequential_1/re_lu_1/Relu", "StatefulPartitionedCall/sequential_1/re_lu_1/Relu:_FusedConv2D"),
        ("MatMul gradient_tape/dense_1/MatMul/MatMul_1", "gradient_tape/dense_1/MatMul/MatMul_1:MatMul"),
        ("GatherV2 GatherV2_1", "GatherV2_1:GatherV2"),
        ("", "EagerLocalExecute: __inference_multi_step_on_iterator_861"),
        ("", "ExecutorState::Process"),
        ("", "Iterator::Root::Prefetch::ParallelMapV2::Zip[0]::FlatMap"),
        ("", "end: multiply_subtract_fusion.1"),
    ],
)
def test_tensorflow_names_operators_by_place_and_kind(expected, name):
    """As TensorFlow 2.21 reports them; what its runtime does around them is none."""
    assert operator_of(XEvent(name, 0, 1)) == expected


def test_a_card_is_told_by_its_streams():
    """Two kernels that overlap by 10 of 90; the copy is an operator, and no kernel; derived lines count for nothing."""
    seen = observe((HOST, CARD), on_card=True)
    assert seen.device == DeviceSum(80, 2, 90)
    on_card = {each.name: each.own_ns for each in seen.operators if each.where == "device"}
    assert on_card == {"dot.2": 50, "loop": 40, "MemcpyH2D": 30}
    assert seen.notes == ()


def test_a_card_of_which_nothing_is_told_is_absent_with_the_reason():
    seen = observe((HOST,), on_card=True)
    assert (seen.device, seen.notes) == (NOTHING_TOLD, (NOTHING_TOLD.missing,))
    assert isinstance(observe((HOST,), on_card=False).device, Missing)


def test_the_trace_is_chromes():
    """Names of processes and threads, and each event in microseconds from the first."""
    told = json.loads(json.dumps(chrome_trace((HOST, CARD))))["traceEvents"]
    named = [each["args"]["name"] for each in told if each["name"] == "process_name"]
    assert named == ["/host:CPU", "/device:GPU:0"]
    kernel = next(each for each in told if each["name"] == "gemm_kernel")
    assert (kernel["ph"], kernel["pid"], kernel["tid"], kernel["ts"], kernel["dur"]) == ("X", 2, 1, 0.2, 0.05)
    assert kernel["args"] == {"hlo_op": "dot.2"}


def test_no_planes_make_an_empty_trace():
    assert chrome_trace(())["traceEvents"] == []
