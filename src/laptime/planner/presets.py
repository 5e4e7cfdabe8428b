"""Fill in a lane's settings: what its preset gives on this device, then what was named; refuse what cannot be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

from laptime.errors import UsageError
from laptime.model.lane import Lane, Layout, Malloc, Settings
from laptime.model.machine import Device, Machine
from laptime.model.network import Conv
from laptime.model.workload import Workload
from laptime.planner.counterfactuals import check_counterfactuals, read_batch
from laptime.planner.keras import check_keras
from laptime.planner.own_steps import check_steps

# glibc gives freed memory back to the system and faults it in again in the next step; these thresholds keep it.
KEEP_MEMORY = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 32),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 36),
    "MALLOC_TOP_PAD_": str(64 << 20),
}
FROM_FILES = {"published", "fast", "only"}
FIELDS = {"lr": "learning_rate"}
FAST_BF16 = {"avx512_bf16", "amx_bf16", "bf16", "sve_bf16"}


@dataclass(frozen=True, slots=True)
class Given:
    """What the presets need to know of the subject: a user's training tells nothing before it is built."""

    workload: Workload | None
    reads_images: bool = True

    @property
    def may_convolve(self) -> bool:
        return self.workload is None or any(isinstance(layer, Conv) for layer in self.workload.layers)

    @property
    def reads_files(self) -> bool:
        return self.workload is not None and self.workload.reads_files


def fill_settings(lane: Lane, device: Device, machine: Machine, given: Given) -> Settings:
    """Give every setting of the lane on this device."""
    settings = _named(lane, _preset(lane, device, machine, given), given)
    _refuse(lane.framework, settings, device, machine, given)
    return settings


def environment_for(framework: str, settings: Settings, device: Device) -> dict[str, str]:
    """Give the variables that must be set before the child starts."""
    environment = name_device(framework, device)
    if settings.malloc == "keep":
        environment |= KEEP_MEMORY
    if settings.threads is not None and device.kind == "cpu":
        environment |= {"OMP_NUM_THREADS": str(settings.threads), "MKL_NUM_THREADS": str(settings.threads)}
    return environment


def name_device(framework: str, device: Device) -> dict[str, str]:
    """A plain function is placed by nobody but its own code, which reads here where it is wanted."""
    return {"LAPTIME_DEVICE": device.name} if framework == "python" else {}


def _preset(lane: Lane, device: Device, machine: Machine, given: Given) -> Settings:
    written = Settings(preset=lane.preset)
    if lane.preset == "as-written":
        return written
    layout: Layout = "channels_last" if given.may_convolve and "channels_last" in device.features else "framework"
    best = replace(written, layout=layout, optimizer="fused" if "fused" in device.features else "framework")
    if given.reads_files:
        best = replace(best, input="fast")
    if device.kind == "cpu":
        malloc: Malloc = "keep" if "malloc" in device.features else "system"
        best = replace(best, malloc=malloc, threads=machine.processor.cores_usable)
    else:
        best = replace(best, execution=_fastest_execution(device, given))
        stays = given.reads_files or lane.framework == "python"  # nobody can place the batches of a plain function
        best = best if stays else replace(best, input="resident")
    return replace(best, precision=_lowest_precision(device, machine)) if lane.preset == "fastest" else best


def _fastest_execution(device: Device, given: Given) -> Any:
    """A graph takes fixed shapes and no word between host and device: that holds for our networks; others compile."""
    wanted = ("compile",) if given.workload is None else ("graph", "compile")
    return next((each for each in wanted if each in device.features), "eager")


def _lowest_precision(device: Device, machine: Machine) -> Any:
    """Reduced precision where the device has units for it: emulated, it would be slower and not only coarser."""
    if device.kind == "cpu":
        return "bf16" if FAST_BF16 & set(machine.processor.features) else "fp32"
    return next((each for each in ("bf16", "tf32", "fp16") if each in device.features), "fp32")


def _named(lane: Lane, settings: Settings, given: Given) -> Settings:
    for key, value in lane.overrides:
        named: Any = value
        if key in {"threads", "workers", "steps_per_execution"}:
            named = int(value)
        if key == "batch":
            named, joined = read_batch(value, lane.framework, given.workload)
            settings = replace(settings, joined=joined)
        if key == "lr":
            named = float(value)
        settings = replace(settings, **{FIELDS.get(key, key): named})
    return settings


def _refuse(framework: str, settings: Settings, device: Device, machine: Machine, given: Given) -> None:
    """Say in words what this device cannot do, before anything runs."""
    check_steps(framework, settings, device, machine, given.workload)
    for key in ("precision", "execution", "layout", "optimizer"):
        value = getattr(settings, key)
        if value not in {"fp32", "eager", "framework"} and value not in device.features:
            raise UsageError(f"{value} cannot be had on {framework}/{device.name}: {_why_not(value, device)}",
                             f"it can do: {', '.join(device.features)}")  # fmt: skip
    if settings.malloc == "keep" and "malloc" not in device.features:
        raise UsageError(f"malloc=keep is a setting of glibc, which {machine.system} does not use", "leave it out")
    cores = machine.processor.cores_visible
    if settings.threads is not None and settings.threads > cores:
        raise UsageError(f"threads={settings.threads}: this machine has {cores} cores", f"1 to {cores}")
    if settings.precision == "fp16" and settings.execution == "graph" and settings.optimizer != "fused":
        raise UsageError("fp16+graph: without a fused optimizer the loss scaler waits for the device in each step",
                         "add fused, or leave graph out")  # fmt: skip
    if settings.steps_per_execution is not None and not framework.startswith("keras-"):
        raise UsageError(f"steps_per_execution={settings.steps_per_execution}: that is a word of Keras's, and not of "
                         f"{framework}'s", "race it in a Keras lane, or name graph or compile here")  # fmt: skip
    check_counterfactuals(framework, settings, device, given.workload)
    _refuse_input(settings, given)
    check_keras(framework, settings, device, machine, given.workload)


def _why_not(value: str, device: Device) -> str:
    reasons = {
        "tf32": "it is a mode of NVIDIA GPUs from Ampere (compute capability 8.0) on",
        "graph": "CUDA graphs need a CUDA device",
        "compile": "torch.compile needs a compiler on this machine (g++ for the processor, triton for CUDA)",
        "fp16": "its arithmetic is not to be had there",
        "bf16": "its arithmetic is not to be had there (NVIDIA GPUs have it from Ampere on)",
    }
    return device.details.get(f"no {value}", reasons.get(value, "the framework does not offer it there"))


def _refuse_input(settings: Settings, given: Given) -> None:
    if given.workload is None:
        if settings.batch is not None:
            raise UsageError("batch=N: a training of your own brings its batches with it", "set it in its data")
        if settings.learning_rate is not None:
            raise UsageError("lr=X: a training of your own brings its optimizer with it", "set the rate there")
        if settings.input == "fast":
            raise UsageError("input=fast: laptime cannot replace the loader of a training of your own", "cached?")
    elif given.reads_files and settings.input in FROM_FILES and not given.reads_images:
        raise UsageError(
            f"input={settings.input}: {given.workload.name} reads image files, and Pillow is not installed",
            "pip install 'laptime[images]', or name input=cached: decoded images made in memory",
        )
