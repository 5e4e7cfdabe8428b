"""What Keras's `fit` cannot be asked for, refused in words before anything runs."""

from __future__ import annotations

from laptime.errors import UsageError
from laptime.model.lane import Settings
from laptime.model.machine import Device, Machine
from laptime.model.workload import Workload
from laptime.planner.jax import check_xla_threads
from laptime.planner.own_steps import STEP_FRAMEWORKS

CACHED = "leave it out, or name input=cached: without shuffling"


def check_keras(
    framework: str, settings: Settings, device: Device, machine: Machine, workload: Workload | None
) -> None:
    """Refuse what no engine, or not this one, has a word for."""
    if not framework.startswith("keras-"):
        return
    if settings.input == "fast" and workload is not None and not workload.reads_files:
        raise UsageError(
            f"input=fast: {workload.name}'s arrays lie in memory, and Keras's fit cuts them itself", CACHED
        )
    if framework == "keras-torch" and settings.steps_per_execution not in {None, 1}:
        at_once = settings.steps_per_execution
        raise UsageError(f"steps_per_execution={at_once}: on PyTorch Keras takes one step at a time", "leave it out")
    if framework == "keras-jax":
        check_xla_threads(settings, device, machine)


def check_answers(framework: str, name: str, *, is_own: bool) -> None:
    """Refuse inference where nobody knows what an answer is: in a step, or in a Keras model of somebody's own."""
    if framework in STEP_FRAMEWORKS:
        raise UsageError(f"--infer: {name} takes steps of your own, and a step gives no answers", "leave its lanes out")
    if is_own and framework.startswith("keras-"):
        raise UsageError(f"--infer: {name} cannot be asked; of trainings of your own only torch lanes answer so far",
                         "leave the Keras lanes out")  # fmt: skip
