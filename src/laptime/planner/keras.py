"""What Keras's `fit` cannot be asked for, refused in words before anything runs."""

from __future__ import annotations

from laptime.errors import UsageError
from laptime.model.lane import Settings
from laptime.model.machine import Device, Machine
from laptime.model.workload import Workload

CACHED = "input=cached: decoded images in memory"


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
    if settings.input in {"resident", "only"}:
        raise UsageError(f"input={settings.input}: Keras's fit takes its batches from host memory", CACHED)
    if workload.reads_files and settings.input != "cached":
        raise UsageError(
            f"input={settings.input}: Keras lanes read no image files in this version, and {workload.name} does",
            f"{CACHED}; for all lanes of the race, so that they do the same",
        )
    usable = machine.processor.cores_usable
    if framework == "keras-jax" and device.kind == "cpu" and settings.threads not in {None, usable}:
        raise UsageError(
            f"threads={settings.threads}: XLA takes as many threads as it may use cores, here {usable}",
            "leave threads out, or start laptime on fewer cores: taskset -c 0 laptime ...",
        )


def check_answers(framework: str, name: str) -> None:
    """Refuse inference: only PyTorch's lanes answer so far."""
    if framework.startswith("keras-"):
        raise UsageError(f"--infer: {name} cannot be asked; answers are timed on torch lanes in this version",
                         "leave the Keras lanes out")  # fmt: skip
