"""What PyTorch sees of this machine, and what each device can do."""

from __future__ import annotations

import platform
import shutil
from importlib import util

import torch

from laptime.model.machine import Device
from laptime.model.missing import Missing

AMPERE = (8, 0)


def list_devices() -> tuple[Device, ...]:
    return (_processor(), *_cuda(), *_mps(), *_xpu())


def list_versions() -> dict[str, str]:
    """Give PyTorch's version first, then what it stands on."""
    versions = {"torch": str(torch.__version__)}
    if torch.version.cuda:
        versions["cuda"] = torch.version.cuda
    if getattr(torch.version, "hip", None):
        versions["hip"] = str(torch.version.hip)
    if torch.backends.cudnn.is_available():  # type: ignore[no-untyped-call]
        versions["cudnn"] = str(torch.backends.cudnn.version())  # type: ignore[no-untyped-call]
    return versions


def _processor() -> Device:
    features = ["bf16", "fp16", "channels_last", "fused"]
    features += ["compile"] if shutil.which("g++") or shutil.which("clang++") else []
    features += ["malloc"] if platform.libc_ver()[0] == "glibc" else []
    details = {"threads": str(torch.get_num_threads()), "vector": torch.backends.cpu.get_cpu_capability()}
    return Device("cpu", "cpu", "processor", usable=True, features=tuple(features), details=details)


def _cuda() -> list[Device]:
    if not torch.cuda.is_available():
        return [_absent("cuda", "cuda", _why_no_cuda())]
    return [_cuda_device(index) for index in range(torch.cuda.device_count())]


def _cuda_device(index: int) -> Device:
    found = torch.cuda.get_device_properties(index)
    capability = (found.major, found.minor)
    features = ["fp16", "channels_last", "fused", "graph", "malloc"]
    features += ["tf32", "bf16"] if capability >= AMPERE else []
    features += ["compile"] if util.find_spec("triton") is not None else []
    usable, reason = _try_product(f"cuda:{index}")
    return Device(
        name=f"cuda:{index}",
        kind="cuda",
        label=found.name,
        usable=usable,
        reason=reason,
        memory_bytes=found.total_memory,
        features=tuple(features),
        details={
            "capability": f"{found.major}.{found.minor}",
            "multiprocessors": str(found.multi_processor_count),
            "uuid": str(getattr(found, "uuid", "")),
        },
    )


def _try_product(name: str) -> tuple[bool, str | None]:
    """A card that is listed may still refuse to work: a small product tells."""
    try:
        ones = torch.ones(64, 64, device=name)
        exact = float((ones @ ones).sum().item()) == 64.0**3
    except Exception as error:  # noqa: BLE001  whatever the driver raises is the reason
        return False, str(error).splitlines()[0]
    return exact, None if exact else "a small product came out wrong"


def _why_no_cuda() -> str:
    if torch.version.cuda is None and getattr(torch.version, "hip", None) is None:
        return f"this PyTorch ({torch.__version__}) is a build without CUDA"
    return "PyTorch has CUDA but finds no usable device or driver"


def _mps() -> list[Device]:
    if platform.system() != "Darwin":
        return []
    if not torch.backends.mps.is_available():
        return [_absent("mps", "mps", "PyTorch finds no Metal device")]
    return [Device("mps", "mps", "Apple GPU", usable=True, features=("fp16", "channels_last"))]


def _xpu() -> list[Device]:
    if not (hasattr(torch, "xpu") and torch.xpu.is_available()):
        return []
    names = [torch.xpu.get_device_name(index) for index in range(torch.xpu.device_count())]
    return [
        Device(f"xpu:{index}", "xpu", label, usable=True, features=("bf16", "fp16", "channels_last"))
        for index, label in enumerate(names)
    ]


def _absent(name: str, kind: str, reason: str) -> Device:
    return Device(name, kind, "-", usable=False, reason=reason, memory_bytes=Missing(reason))  # type: ignore[arg-type]
