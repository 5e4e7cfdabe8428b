"""Heats as literals: windows with the time of a step in milliseconds, and what their proofs found."""

from __future__ import annotations

from dataclasses import replace

from laptime.model.ask import Ask
from laptime.model.machine import Device
from laptime.model.plan import Pace, Plan, PlannedLane, Subject
from laptime.model.process import Dnf, ProcessRun, Settings
from laptime.model.sample import Heat, ProofRun, Reference, Window
from laptime.model.workload import ProofPlan

CPU = Device("cpu", "cpu", "processor", usable=True)
SUBJECT = Subject("cifar-cnn", "", 1_337_002, 100, 500, 10, "images")
STEPS = 10


def planned(name: str = "torch/cpu/as-written", **settings: object) -> PlannedLane:
    return PlannedLane(name, "torch", CPU, Settings(**settings))


def plan_of(*lanes: PlannedLane, subject: Subject = SUBJECT) -> Plan:
    pace = Pace(3, 5, adaptive=True, measure_s=2.0, window_s=0.2)
    return Plan(Ask(), subject, lanes, ProofPlan(), pace)


def windows_of(*steps_ms: float, flags: dict[int, str] | None = None) -> tuple[Window, ...]:
    """Return windows of ten steps, one after another; `flags` names the disturbed ones."""
    windows, now_ns = [], 1_000
    for place, step_ms in enumerate(steps_ms):
        step_ns = round(step_ms * 1e6)
        end_ns = now_ns + STEPS * step_ns
        windows.append(Window(now_ns, end_ns, STEPS, (step_ns,) * STEPS, None, (flags or {}).get(place)))
        now_ns = end_ns
    return tuple(windows)


def changed(made, **changes):
    """Return a heat or a training with changes, those of its process among them."""
    of_process = {name: changes.pop(name) for name in ProcessRun.__slots__ if name in changes}
    return replace(made, process=replace(made.process, **of_process), **changes)


def heat_of(step_ms: float, number: int = 0, **changes: object) -> Heat:
    """Return a quiet heat of five windows; a `dnf` takes its windows away."""
    given = {
        "lane": "torch/cpu/as-written",
        "order": number,
        "round": number,
        "status": "ok",
        "items_per_step": 100,
        "steps_per_lap": 500,
        "phases_s": {"start": 0.5, "import": 1.0, "build": 0.25, "proof": 9.0, "first step": 0.3, "timing": 2.0},
        "first_step_ns": 300_000_000,
        "windows": windows_of(*[step_ms] * 5),
        "losses": (2.3,) * 5,
        "proofs": (proof(),),
        "versions": {"torch": "2.13.0"},
    }
    told = {**given, **changes}
    process = ProcessRun(**{name: told.pop(name) for name in ProcessRun.__slots__ if name in told})
    return Heat(process, **told)


def failed(number: int = 0, phase: str = "build") -> Heat:
    return heat_of(1.0, number, status="dnf", windows=(), proofs=(), dnf=Dnf(phase, "planted failure"))


def proof(precision: str = "fp32", loss: float = 0.0, move: float = 0.0, **changes: object) -> ProofRun:
    """Return a run whose losses and movements are off by these relative errors."""
    given = {
        "losses": tuple(each * (1 + loss) for each in (2.3, 2.2, 2.1)),
        "start": 10.0,
        "shrink": -1e-8,
        "moves": tuple(each * (1 + move) for each in (0.5, 0.25, 0.125)),
    }
    return ProofRun(precision, **{**given, **changes})


def reference(**changes: object) -> Reference:
    given = {"key": "", "exact": proof("fp64"), "twin": proof(loss=5e-8), "depth": 4, "weights": 1_337_002}
    return Reference(**{**given, **changes})


def with_heat(result, **changes):
    """Return a result whose heat returned something else."""
    return replace(result, heat=replace(result.heat, **changes))
