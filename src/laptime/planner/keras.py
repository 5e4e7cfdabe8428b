"""What Keras's `fit` and JAX lanes cannot be asked for, refused in words before anything runs."""

from __future__ import annotations

from laptime.errors import UsageError
from laptime.model.lane import Settings
from laptime.model.machine import Device, Machine
from laptime.model.workload import Workload

CACHED = "leave it out, or name input=cached: without shuffling"


def check_keras(
    framework: str, settings: Settings, device: Device, machine: Machine, workload: Workload | None
) -> None:
    """Refuse what no engine, or not this one, has a word for."""
    if not framework.startswith("keras-"):
        return
    if workload is None:
        raise UsageError(
            f"{framework}: a training of your own is raced on torch lanes in this version", "leave the Keras lanes out"
        )
    if settings.input == "only":
        raise UsageError(
            "input=only: Keras's fit cannot be had without its training", "race torch lanes with input=only"
        )
    if settings.input == "fast" and not workload.reads_files:
        raise UsageError(
            f"input=fast: {workload.name}'s arrays lie in memory, and Keras's fit cuts them itself", CACHED
        )
    if framework == "keras-torch" and settings.steps_per_execution not in {None, 1}:
        at_once = settings.steps_per_execution
        raise UsageError(f"steps_per_execution={at_once}: on PyTorch Keras takes one step at a time", "leave it out")
    if framework == "keras-jax":
        _check_xla_threads(settings, device, machine)


def _check_xla_threads(settings: Settings, device: Device, machine: Machine) -> None:
    usable = machine.processor.cores_usable
    if device.kind == "cpu" and settings.threads not in {None, usable}:
        raise UsageError(
            f"threads={settings.threads}: XLA takes as many threads as it may use cores, here {usable}",
            "leave threads out, or start laptime on fewer cores: taskset -c 0 laptime ...",
        )


def check_jax(framework: str, settings: Settings, device: Device, machine: Machine, workload: Workload | None) -> None:
    """Refuse what a step function of somebody's own leaves no room for."""
    if framework != "jax":
        return
    if workload is not None:
        raise UsageError(
            f"jax: {workload.name} has no form in JAX alone; its lanes run steps of your own",
            f"laptime race {workload.name} keras-jax, or a function that returns laptime.Training(step=...)",
        )
    if settings.input == "only":
        raise UsageError("input=only: a step of your own is timed with its data", "race input=resident beside it")
    _check_xla_threads(settings, device, machine)


def check_answers(framework: str, name: str) -> None:
    """Refuse inference: only PyTorch's lanes answer so far."""
    if framework.startswith("keras-") or framework == "jax":
        raise UsageError(f"--infer: {name} cannot be asked; answers are timed on torch lanes in this version",
                         "leave the other lanes out")  # fmt: skip
