"""What PyTorch sees of this machine, and what each device can do."""

from __future__ import annotations

import platform
import re
import shutil
from importlib import util
from typing import Any

import torch
from torch.cuda import nccl

from laptime.backends.cuda import ask_driver
from laptime.model.machine import Device
from laptime.model.missing import Missing

AMPERE = (8, 0)


def list_devices() -> tuple[Device, ...]:
    return (_processor(), *_cuda(), *_mps(), *_xpu())


def list_versions() -> dict[str, str]:
    """Give PyTorch's version first, then those of what it stands on, as far as this build has them."""
    hip = getattr(torch.version, "hip", None)
    asked = {
        "cuda": torch.version.cuda,
        "hip": hip,
        "miopen" if hip else "cudnn": _ask_cudnn(is_nvidia=not hip),
        "rccl" if hip else "nccl": _ask_nccl(),
        "onednn": find_onednn(torch.__config__.show()),
    }
    return {"torch": str(torch.__version__), **{name: str(version) for name, version in asked.items() if version}}


def _ask_cudnn(*, is_nvidia: bool) -> str | None:
    """A library on the path that does not fit the build makes PyTorch raise; its first sentence says what is wrong."""
    try:
        number = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        return f"not usable: {str(error).split('. ')[0]}"
    return None if number is None else cudnn_words(number) if is_nvidia else str(number)


def cudnn_words(number: int) -> str:
    """Write 91002 as 9.10.2, and as before version 9 counted, 8902 as 8.9.2."""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _ask_nccl() -> str | None:
    """A build for processors only has no such function inside, whatever stands around it."""
    try:
        return ".".join(map(str, nccl.version()))  # type: ignore[no-untyped-call]
    except (AttributeError, RuntimeError):
        return None


def find_onednn(configuration: str) -> str | None:
    """Find the version in PyTorch's own words; it still writes the library's former name."""
    found = re.search(r"(?:MKL-DNN|oneDNN) v(\d+(?:\.\d+)*)", configuration)
    return found[1] if found else None


def _processor() -> Device:
    features = ["bf16", "fp16", "channels_last", "fused"]
    features += ["compile"] if shutil.which("g++") or shutil.which("clang++") else []
    features += ["malloc"] if platform.libc_ver()[0] == "glibc" else []
    details = {"threads": str(torch.get_num_threads()), "vector": torch.backends.cpu.get_cpu_capability()}
    return Device("cpu", "cpu", "processor", usable=True, features=tuple(features), details=details)


def _cuda() -> list[Device]:
    if not torch.cuda.is_available():
        build = "CUDA" if torch.version.cuda else "ROCm" if getattr(torch.version, "hip", None) else ""
        return [_absent("cuda", "cuda", _why_no_cuda(build), _build_details(build))]
    driver = ask_driver()
    return [_cuda_device(index, driver) for index in range(torch.cuda.device_count())]


def _cuda_device(index: int, driver: dict[str, str]) -> Device:
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
            **_identity(found),
            **_build_details("ROCm" if getattr(torch.version, "hip", None) else "CUDA"),
            **driver,
        },
    )


def _identity(found: Any) -> dict[str, str]:
    """Say which card it is; older versions of PyTorch tell the UUID alone, and ROCm's neither."""
    place: list[Any] = [getattr(found, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    bus = "" if None in place else "{:04x}:{:02x}:{:02x}".format(*place)
    uuid = str(getattr(found, "uuid", "")).lower()
    return {name: told for name, told in (("uuid", uuid), ("bus", bus)) if told}


def _try_product(name: str) -> tuple[bool, str | None]:
    """A card that is listed may still refuse to work: a small product tells."""
    try:
        ones = torch.ones(64, 64, device=name)
        exact = float((ones @ ones).sum().item()) == 64.0**3
    except Exception as error:  # noqa: BLE001  whatever the driver raises is the reason
        return False, str(error).splitlines()[0]
    return exact, None if exact else "a small product came out wrong"


def _why_no_cuda(build: str) -> str:
    """PyTorch says why when it is made to begin: no driver, one that is too old, no card, a library that fails."""
    if not build:
        return f"this PyTorch ({torch.__version__}) is a build without CUDA"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001  whatever it raises is the reason
        return f"PyTorch has {build} and finds no usable device: {str(error).splitlines()[0]}"
    return f"PyTorch has {build} but finds no usable device or driver"


def _build_details(build: str) -> dict[str, str]:
    """Say for whose cards this PyTorch was built, and for which generations of them."""
    generations = " ".join(torch.cuda.get_arch_list()) if build else ""
    return {name: told for name, told in (("build", build), ("architectures", generations)) if told}


def _mps() -> list[Device]:
    if platform.system() != "Darwin":
        return []
    if not torch.backends.mps.is_available():
        return [_absent("mps", "mps", "PyTorch finds no Metal device")]
    return [Device("mps", "mps", "Apple GPU", usable=True, features=("fp16", "channels_last"))]


def _xpu() -> list[Device]:
    if not (hasattr(torch, "xpu") and torch.xpu.is_available()):
        return []
    return [_xpu_device(index) for index in range(torch.xpu.device_count())]


def _xpu_device(index: int) -> Device:
    found = torch.xpu.get_device_properties(index)
    memory = getattr(found, "total_memory", None)
    driver = str(getattr(found, "driver_version", ""))
    return Device(
        name=f"xpu:{index}",
        kind="xpu",
        label=torch.xpu.get_device_name(index),
        usable=True,
        memory_bytes=Missing("this PyTorch does not tell") if memory is None else int(memory),
        features=("bf16", "fp16", "channels_last"),
        details={"driver": driver} if driver else {},
    )


def peak_bytes(device: torch.device) -> int | Missing:
    """Give the most that PyTorch's allocator held on a device."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if device.type == "cpu":
        return Missing("the processor's memory is the process's own")
    return Missing(f"PyTorch keeps no peak for {device.type}")


def _absent(name: str, kind: str, reason: str, details: dict[str, str] | None = None) -> Device:
    return Device(name, kind, "-", usable=False, reason=reason, memory_bytes=Missing(reason), details=details or {})  # type: ignore[arg-type]
