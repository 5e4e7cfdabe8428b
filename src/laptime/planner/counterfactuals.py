"""Settings that take one thing out of a step to see what it costs; where there is no such thing, it is refused."""

from __future__ import annotations

from laptime.errors import UsageError
from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.machine import Device
from laptime.model.workload import Workload
from laptime.planner.own_steps import STEP_FRAMEWORKS

HAS_A_LOADER = ("published", "only")
FLUSHES_ALREADY = ("keras-tf", "keras-jax", "jax")
CAN_FLUSH = ("torch", "keras-torch", "fake")


def check_counterfactuals(framework: str, settings: Settings, device: Device, workload: Workload | None) -> None:
    """Refuse what this framework or device has nothing of, in words."""
    if settings.input == "copy":
        _check_copy(framework, device)
    if settings.denormals == "flush":
        _check_flush(framework, device)
    if settings.reads == "deferred":
        _check_deferred(framework, settings, workload)
    if settings.workers is not None:
        _check_workers(framework, settings, workload)


def read_batch(value: str, framework: str, workload: Workload | None) -> tuple[int | None, int | None]:
    """Give how many items make a batch, or how many batches of a training of somebody's own are one step's."""
    if not value.endswith("x"):
        return int(value), None
    if workload is not None:
        return max(1, int(float(value[:-1]) * workload.batch)), None
    if framework != "torch":
        raise UsageError(
            f"batch={value}: a training of your own has no published batch to multiply, and only torch lanes join "
            "its batches",
            "set the batch in its own data, or race two functions",
        )
    if value == "0.5x":
        raise UsageError(f"batch={value}: batches of a training of your own are joined, and not cut",
                         "set a smaller batch in its own data, and race two functions")  # fmt: skip
    return None, int(value[:-1])


def _check_copy(framework: str, device: Device) -> None:
    if device.kind == "cpu":
        raise UsageError(
            "input=copy: on a processor batches are where they are used, and nothing is copied",
            "leave the lane out, or name input=only: the loader alone",
        )
    if framework == "python":
        raise UsageError(
            "input=copy: laptime cannot place the batches of a framework that it does not know", "name input=only"
        )


def _check_flush(framework: str, device: Device) -> None:
    if device.kind != "cpu":
        raise UsageError(
            f"denormals=flush is a switch of processors, and {framework}/{device.name} is none", "leave it out"
        )
    if framework in FLUSHES_ALREADY:
        raise UsageError(f"denormals=flush: {framework} takes denormal numbers for nought unasked", "leave it out")
    if framework not in CAN_FLUSH:
        raise UsageError("denormals=flush: a step of your own computes as its code says", "set it there")


def _check_deferred(framework: str, settings: Settings, workload: Workload | None) -> None:
    if framework == "fake":
        return
    if framework != "torch":
        raise UsageError(f"reads=deferred: only PyTorch's own lanes can be told stale values, and not {framework}",
                         "leave it out, or take the reads out of its code and race two functions")  # fmt: skip
    if workload is not None:
        raise UsageError(f"reads=deferred: a step of {workload.name} reads nothing from its device", "leave it out")
    if settings.input in NO_TRAINING:
        raise UsageError(f"reads=deferred with input={settings.input}: nothing is computed that could be read",
                         "leave one of the two out")  # fmt: skip
    if settings.execution != "eager":
        raise UsageError(f"reads=deferred with {settings.execution}: what is compiled or captured reads in its own way",
                         "race it eager")  # fmt: skip


def _check_workers(framework: str, settings: Settings, workload: Workload | None) -> None:
    workers, kind = settings.workers, settings.input
    if kind == "fast":
        return
    if workload is not None and framework != "fake" and not workload.reads_files:
        raise UsageError(f"workers={workers}: the arrays of {workload.name} lie in memory, and are read by nobody",
                         "leave workers out")  # fmt: skip
    if workload is None and framework in STEP_FRAMEWORKS:
        raise UsageError(
            f"workers={workers}: the data of a step of your own are iterated as they are", "give them workers there"
        )
    if kind not in HAS_A_LOADER:
        raise UsageError(
            f"workers={workers} with input={kind}: batches that are kept need no loader",
            "leave input out, or leave workers out",
        )
