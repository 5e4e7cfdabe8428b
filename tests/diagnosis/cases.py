"""Cases as literals: a lane of three heats, its stages alone, what was tried, and what instruments and process told."""

from __future__ import annotations

from dataclasses import replace

from measured import CPU, heat_of, plan_of, planned, windows_of
from timelines import timeline

from laptime.analysis.heats import summarise_heat
from laptime.analysis.lanes import summarise_lane
from laptime.model.hardware import DevicePeaks, Peak, Roofline, StepWork
from laptime.model.machine import Device, Machine, Processor
from laptime.model.quantities import Factor, Missing
from laptime.model.sample import Noise, Window
from laptime.model.symptoms import StepSymptoms
from laptime.questions.why.causes import all_experiments
from laptime.questions.why.facts import WhyFacts
from laptime.questions.why.nouns import Experiment, Trial

CUDA = Device("cuda:0", "cuda", "a card", usable=True, memory_bytes=80_000_000_000)
MACHINE = Machine(
    Processor("a processor", "x86_64", 4, 4, 4.0), 16_000_000_000, 8_000_000_000, "Linux 6.1", "3.11.7", None
)
QUIET = Noise(0.05, 0.5, 0.0)
APART = (-0.01, 0.0, 0.01)
DID = {row.name: row.did for row in all_experiments()}


def lane_of(step_ms, *, device=CPU, shown=None, signs=None, windows=None, burst=None, **settings):
    """Return a lane of three heats a hundredth apart; `shown` is what instruments read, `windows` each heat's."""
    place = "cuda:0" if device.kind == "cuda" else "cpu"
    lane = replace(planned(f"torch/{place}/as-written", **settings), device=device)
    heats = tuple(
        _heat(step_ms * (1 + off), number, windows, shown, signs=signs, burst=burst) for number, off in enumerate(APART)
    )
    return summarise_lane(
        plan_of(lane), lane, tuple(map(summarise_heat, heats)), None, cores=MACHINE.processor.cores_usable
    )


def _heat(step_ms, number, windows, shown, **told):
    given = windows_of(*[step_ms] * 5) if windows is None else windows
    quiet = tuple(each if each.noise is not None else replace(each, noise=QUIET) for each in given)
    line = None if shown is None else timeline(shown)
    return heat_of(step_ms, number, windows=quiet, timeline=line, **told)


def steps_windows(*windows, noise=QUIET):
    """Return windows of these steps, each in milliseconds."""
    made, now_ns = [], 1_000
    for steps in windows:
        ns = tuple(round(step * 1e6) for step in steps)
        made.append(Window(now_ns, now_ns + sum(ns), len(ns), ns, noise))
        now_ns += sum(ns)
    return tuple(made)


def trial(name, ratio=None, half=0.02, *, absent=None, reason=None, failed=False, **experiment):
    """Return an experiment that came out so, or did not for a reason."""
    given = {"cause": "a cause", "says": name, "settings": (), "did": DID.get(name, ""), **experiment}
    tried = Experiment(name, absent=None if absent is None else Missing(absent), **given)
    if ratio is None:
        return Trial(tried, f"torch/cpu/{name}" if failed else None, None, reason)
    return Trial(tried, f"torch/cpu/{name}", Factor(ratio, ratio * (1 - half), ratio * (1 + half)))


def case_of(lane, *trials, stages=None, **changes):
    """Return a case; `stages` are the milliseconds of each stage alone."""
    alone = {stage: lane_of(ms, device=lane.device) for stage, ms in (stages or {}).items()}
    known = {each.experiment.name: each for each in trials}
    return WhyFacts(lane, changes.pop("machine", MACHINE), known, ceilings_lanes=alone, **changes)


def signs_of(steps=10, **told):
    return StepSymptoms(steps, **told)


def near(share, binds="products"):
    """Return a roofline of which the lane comes so near."""
    peak = Peak(1e12, 1e12, "torch 2.13.0")
    peaks = DevicePeaks("a", "a card", "", "2026-11-22", {"fp32": peak, "copy": peak})
    return Roofline("fp32", StepWork(1e9, 1e6, "counted"), 1e11, 1e9, share, 0.01, binds, share, peaks)
