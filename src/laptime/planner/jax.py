"""What lanes on JAX, and Keras's on JAX, cannot be asked for, refused in words before anything runs."""

from __future__ import annotations

from laptime.errors import UsageError
from laptime.model.lane import Settings
from laptime.model.machine import Device, Machine


def check_xla_threads(settings: Settings, device: Device, machine: Machine) -> None:
    """XLA's pool is as large as the cores that its process may use."""
    usable = machine.processor.cores_usable
    if device.kind == "cpu" and settings.threads not in {None, usable}:
        raise UsageError(
            f"threads={settings.threads}: XLA takes as many threads as it may use cores, here {usable}",
            "leave threads out, or start laptime on fewer cores: taskset -c 0 laptime ...",
        )
