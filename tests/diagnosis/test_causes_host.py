"""Processor limits and oddities, changing shapes and poor kernels: each proven, ruled out, or not tested."""

from __future__ import annotations

from dataclasses import replace

import pytest
from cases import CUDA, MACHINE, case_of, lane_of, near, signs_of, steps_windows, trial
from measured import CPU
from timelines import CARD, channel

from laptime.analysis.diagnosis.findings import faults_each_step
from laptime.analysis.diagnosis.lane_readings import read_lane
from laptime.model.quantities import Factor, Missing
from laptime.model.sample import Energy, Noise, Usage
from laptime.questions.why.causes import sum_up
from laptime.questions.why.compute_causes import changing_shapes, poor_kernels, processor_limited, processor_oddities

THROTTLED = channel("host", "cgroup_throttled_s", "s", "counter")
FAULTS = channel("heat", "minor_faults", "faults", "counter")
BUSY = channel(CARD, "busy_percent", "%")
UNTOLD = lane_of(1.0).peak_memory_bytes


def busy_cores(lane, cores):
    """Return the lane with this many of its four cores busy."""
    nothing = [UNTOLD] * 5
    energy = Energy("the processor", *[UNTOLD] * 5)
    return replace(lane, usage=Usage(100 * cores / 4, *nothing, "host", UNTOLD, UNTOLD, UNTOLD, energy))


def faulting(rate, **settings):
    return lane_of(100.0, shown={FAULTS: lambda t: rate * t}, signs=signs_of(denormals=0.0), **settings)


def unasked(threads):
    return replace(CPU, details={"threads": str(threads)})


def throttled(share):
    return lane_of(100.0, shown={THROTTLED: lambda t: share * t})


def wide(name, ratio, high):
    """Return an experiment whose heats vary by more than it gains."""
    return replace(trial(name, ratio), factor=Factor(ratio, ratio**2 / high, high))


CASES = {
    "a quota, proven by fewer threads": (
        processor_limited, "proven", "the container's quota of 4 cores held it back for 40 % of the time; with as many",
        lambda: case_of(throttled(0.4), trial("threads", 1.6)),
    ),
    "a quota alone is likely": (
        processor_limited, "likely", "held it back for 40 %",
        lambda: case_of(throttled(0.4)),
    ),
    "a quota in the windows' own noise": (
        processor_limited, "likely", "held it back for 25 % of the time",
        lambda: case_of(lane_of(100.0, windows=steps_windows(*[[100.0] * 4] * 5, noise=Noise(0.0, 0.5, 100.0)))),
    ),
    "threads that share cores, proven": (
        processor_limited, "proven", "16 threads share 4 cores; with as many threads as cores it is 2.50x",
        lambda: case_of(lane_of(100.0, threads=16), trial("threads", 2.5)),
    ),
    "a quota that fewer threads do not fix is likely": (
        processor_limited, "likely", "for 40 % of the time; with as many threads as cores it is 0.80x",
        lambda: case_of(throttled(0.4), trial("threads", 0.8)),
    ),
    "fewer threads than cores are likely before anything was tried": (
        processor_limited, "likely", "it takes 1 thread",
        lambda: case_of(replace(throttled(0.0), device=unasked(1))),
    ),
    "what a framework takes by default counts": (
        processor_limited, "likely", "16 threads share 4 cores",
        lambda: case_of(replace(lane_of(100.0), device=unasked(16))),
    ),
    "what the training's own code took counts more": (
        processor_limited, "likely", "16 threads share 4 cores",
        lambda: case_of(replace(lane_of(100.0, signs=signs_of(threads=16)), device=unasked(4))),
    ),
    "two heats that tell nothing": (
        processor_limited, "not tested", "too few heats to tell: with as many threads as cores it is 1.33x (0.00 to 9",
        lambda: case_of(throttled(0.0), wide("threads", 1.33, 9661.0)),
    ),
    "a gain whose interval holds 1 says nothing": (
        processor_limited, "not tested", "too few heats to tell: with as many threads as cores it is 1.21x (0.64",
        lambda: case_of(throttled(0.0), wide("threads", 1.21, 2.28)),
    ),
    "as many threads as cores are no crowd": (
        processor_limited, "ruled out", "held it back for 0 % of the time, 4 threads for 4 cores",
        lambda: case_of(replace(throttled(0.0), device=unasked(4)), trial("threads", 1.21)),
    ),
    "one thread by the framework's own word, proven": (
        processor_limited, "proven", "it takes 1 thread; with as many threads as cores it is 2.00x",
        lambda: case_of(replace(faulting(100), device=unasked(1)), trial("threads", 2.0)),
    ),
    "threads as there are cores": (
        processor_limited, "ruled out", "with as many threads as cores it is 1.00x",
        lambda: case_of(throttled(0.0), trial("threads", 1.0)),
    ),
    "nothing was tried": (
        processor_limited, "not tested", "held it back for 0 % of the time; no experiment was made",
        lambda: case_of(lane_of(100.0)),
    ),
    "denormals, proven": (
        processor_oddities, "proven", "30 % of the weights and gradients are denormal numbers; with denormals treated",
        lambda: case_of(lane_of(100.0, signs=signs_of(denormals=0.3)), trial("flush", 6.0)),
    ),
    "memory given back, proven": (
        processor_oddities,
        "proven",
        "49,998 page faults a step fetch 205 MB again; with freed memory kept it is 2.00x",
        lambda: case_of(faulting(500_000), trial("keep", 2.0)),
    ),
    "memory given back is likely by its faults": (
        processor_oddities, "likely", "49,998 page faults a step",
        lambda: case_of(faulting(500_000)),
    ),
    "one thread, proven": (
        processor_limited, "proven", "1 of 4 cores are busy; with as many threads as cores it is 3.00x",
        lambda: case_of(busy_cores(faulting(100), 1.0), trial("threads", 3.0)),
    ),
    "no oddity": (
        processor_oddities, "ruled out", "denormal numbers; 10 page faults a step",
        lambda: case_of(busy_cores(faulting(100), 3.6), trial("keep", 1.0)),
    ),
    "oddities that were not looked at": (
        processor_oddities, "not tested", "denormals were not counted",
        lambda: case_of(lane_of(100.0)),
    ),
    "a card is no processor": (
        processor_oddities, "not testable here", "cuda:0 computes this training",
        lambda: case_of(lane_of(100.0, device=CUDA)),
    ),
    "one shape gains what shapes cost": (
        changing_shapes, "proven", "7 shapes of batch and 5 compilations in 10 steps; on one batch again and again",
        lambda: case_of(
            lane_of(100.0, signs=signs_of(shapes=7, compiles=5)), trial("one", 5.0), trial("compute", 1.05, 0.01)
        ),
    ),
    "compilations are likely to cost": (
        changing_shapes, "likely", "5 compilations in 10 steps",
        lambda: case_of(lane_of(100.0, signs=signs_of(shapes=7, compiles=5))),
    ),
    "what batches that are ready gain as well is not the shapes'": (
        changing_shapes, "ruled out", "7 shapes of batch",
        lambda: case_of(lane_of(100.0, signs=signs_of(shapes=7, compiles=0)), trial("one", 5.0), trial("compute", 5.0)),
    ),
    "one shape": (
        changing_shapes, "ruled out", "1 shape of batch and 0 compilations in 10 steps",
        lambda: case_of(lane_of(100.0, signs=signs_of(shapes=1, compiles=0))),
    ),
    "shapes that were not looked at": (
        changing_shapes, "not testable here", "a built-in workload has one shape of batch",
        lambda: case_of(lane_of(100.0), trial("one", absent="a built-in workload has one shape of batch")),
    ),
    "another precision proves poor kernels": (
        poor_kernels, "proven", "12 % of what the device's products allow, so 8.33x at the very most; in TF32 it is",
        lambda: case_of(
            replace(lane_of(100.0, device=CUDA, shown={BUSY: lambda _: 99.0}), roofline=near(0.12)),
            trial("tf32", 3.0), stages={"compute": 99.0},
        ),
    ),
    "far from the peak is likely": (
        poor_kernels, "likely", "12 % of what the device's products allow",
        lambda: case_of(replace(lane_of(100.0), roofline=near(0.12)), stages={"compute": 99.0}),
    ),
    "near the peak": (
        poor_kernels, "ruled out", "80 % of what the device's memory allows",
        lambda: case_of(replace(lane_of(100.0), roofline=near(0.8, "memory")), stages={"compute": 99.0}),
    ),
    "a layout that gains little": (
        poor_kernels, "ruled out", "in channels-last layout it is 1.10x",
        lambda: case_of(lane_of(100.0), trial("layout", 1.1), stages={"compute": 99.0}),
    ),
    "a loader hides what kernels cost": (
        poor_kernels, "ruled out", "computing takes 10 % of a step only",
        lambda: case_of(lane_of(100.0), trial("layout", 2.0), stages={"loader": 90.0, "compute": 10.0}),
    ),
    "kernels that nothing was tried on": (
        poor_kernels, "not tested", "is not known; nothing pointed to it",
        lambda: case_of(lane_of(100.0), trial("layout", reason="nothing pointed to it"), stages={"compute": 99.0}),
    ),
}  # fmt: skip


def test_a_verdict_tells_a_quota_from_a_crowd():
    """Both limit the processor; the way out is another."""
    quota, crowd = case_of(throttled(0.4)), case_of(lane_of(100.0, threads=16), trial("threads", 2.5))
    assert "the container's quota holds this training back (likely)" in sum_up(quota, [processor_limited(quota)])[0]
    assert "threads that the processor has no cores for hold" in sum_up(crowd, [processor_limited(crowd)])[0]


@pytest.mark.parametrize("name", CASES)
def test_a_cause_stands_as_its_figures_say(name):
    rule, standing, says, make = CASES[name]
    verdict = rule(make())
    assert (verdict.standing, says in verdict.says or verdict.says) == (standing, True)


@pytest.mark.parametrize(
    ("measured_ns", "used_ns", "share"),
    [(50.0, 50.0, None), (5_000.0, 5_000.0, 0.25), (Missing("no clock"), 700, None), (1_001.0, 1_001.0, 0.05005)],
)
def test_a_finding_and_a_cause_reckon_with_one_cost_of_a_page_fault(measured_ns, used_ns, share):
    """The one that a heat measured, else the usual one; 10,000 faults a step on four threads, both or neither."""
    signs = signs_of(denormals=0.0, fault_ns=measured_ns)
    lane = lane_of(100.0, shown={FAULTS: lambda t: 100_000 * t}, signs=signs)
    found = faults_each_step(read_lane(lane, MACHINE))
    told = processor_oddities(case_of(lane)).evidence["memory given back"]
    assert told["fault_ns"] == used_ns
    if share is None:
        assert (found, told["standing"]) == (None, "ruled out")
        return
    assert (found.evidence["fault_ns"], told["standing"]) == (used_ns, "likely")
    assert found.evidence["share"] == pytest.approx(share, rel=1e-3)
    assert found.evidence["faults_per_step"] == told["faults_per_step"]


def test_an_oddity_is_named():
    """Three oddities are one cause: the one that weighs is reported, the others' figures are kept."""
    verdict = processor_oddities(case_of(faulting(500_000), trial("keep", 2.0), trial("flush", 1.0)))
    assert verdict.evidence["oddity"] == "memory given back"
    assert verdict.evidence["denormal numbers"]["standing"] == "ruled out"


def test_launches_that_a_larger_batch_shares_are_no_poor_kernels():
    """Compiling gains there, too: it is not counted twice."""
    alone = poor_kernels(case_of(lane_of(100.0), trial("compile", 1.5), stages={"compute": 99.0}))
    little = poor_kernels(
        case_of(lane_of(100.0), trial("compile", 1.5), trial("batch 2x", 1.8), stages={"compute": 99.0})
    )
    assert (alone.standing, little.standing) == ("proven", "not tested")
