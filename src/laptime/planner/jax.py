"""What JAX lanes, and Keras's on JAX, cannot be asked for, refused in words before anything runs."""

from __future__ import annotations

from laptime.errors import UsageError
from laptime.model.lane import Settings
from laptime.model.machine import Device, Machine
from laptime.model.workload import Workload


def check_xla_threads(settings: Settings, device: Device, machine: Machine) -> None:
    """XLA's pool is as large as the cores that its process may use."""
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
    check_xla_threads(settings, device, machine)
