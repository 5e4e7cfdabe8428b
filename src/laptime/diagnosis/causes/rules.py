"""The fifteen causes in the order in which they are judged."""

from __future__ import annotations

from collections.abc import Callable

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.device import changing_shapes, poor_kernels
from laptime.diagnosis.causes.host import processor_limited, processor_oddities
from laptime.diagnosis.causes.placement import not_on_device
from laptime.diagnosis.causes.stages import (
    copy_to_device,
    host_waits,
    input_pipeline,
    outside_step,
    several_devices,
    too_little_work,
)
from laptime.diagnosis.causes.state import clocks_lowered, memory_full, shared
from laptime.diagnosis.causes.trust import measuring_error
from laptime.model.why import Verdict

Rule = Callable[[Case], Verdict]

# Can the figures be trusted, is it on the device, in what state is that; then where the time goes, and then within it.
CAUSES: tuple[Rule, ...] = (
    measuring_error,
    not_on_device,
    memory_full,
    shared,
    clocks_lowered,
    outside_step,
    input_pipeline,
    copy_to_device,
    host_waits,
    too_little_work,
    several_devices,
    processor_limited,
    processor_oddities,
    changing_shapes,
    poor_kernels,
)


def judge_causes(case: Case) -> tuple[Verdict, ...]:
    return tuple(rule(case) for rule in CAUSES)
