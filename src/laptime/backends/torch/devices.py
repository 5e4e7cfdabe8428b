"""The devices that PyTorch sees, how each is fenced and timed, and its products and copies for measuring limits."""

from __future__ import annotations

import itertools
import platform
import re
import shutil
import time
from collections.abc import Sequence
from importlib import util
from typing import Any

import torch
from torch import Tensor
from torch.cuda import nccl

from laptime.backends.base import CONVOLUTION, ELSEWHERE, IN_PLACE, PRODUCT, Exercise, copy_work, product_work
from laptime.backends.cuda import ask_driver
from laptime.backends.torch.precision import set_precision
from laptime.model.machine import Device
from laptime.model.missing import Missing
from laptime.pipelines.job import free_memory_bytes

AMPERE = (8, 0)
TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def list_devices() -> tuple[Device, ...]:
    return (_processor(), *_cuda(), *_mps(), *_xpu())


def list_versions() -> dict[str, str]:
    """Return PyTorch's version first, then those of its libraries, as far as this build has them."""
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
    """Return the version, or why there is none: PyTorch raises if a library on the path does not fit the build."""
    try:
        number = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        return f"not usable: {str(error).split('. ')[0]}"
    return None if number is None else cudnn_words(number) if is_nvidia else str(number)


def cudnn_words(number: int) -> str:
    """Format 91002 as 9.10.2, and 8902, in the numbering before version 9, as 8.9.2."""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def _ask_nccl() -> str | None:
    """Return the version, or None: a build for processors only lacks the function inside the module."""
    try:
        return ".".join(map(str, nccl.version()))  # type: ignore[no-untyped-call]
    except (AttributeError, RuntimeError):
        return None


def find_onednn(configuration: str) -> str | None:
    """Find the version in PyTorch's description of its build, which may use the library's former name."""
    found = re.search(r"(?:MKL-DNN|oneDNN) v(\d+(?:\.\d+)*)", configuration)
    return found[1] if found else None


def _processor() -> Device:
    features = ["bf16", "fp16", "channels_last", "fused", "dropout", "onednn", "pinning", "augment"]
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
    features = ["fp16", "channels_last", "fused", "graph", "malloc", "cudnn", "augment"]
    features += ["tf32", "bf16"] if capability >= AMPERE else []
    features += ["compile", "compiled_graph"] if util.find_spec("triton") is not None else []
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
    """Identify the card: older versions of PyTorch report only the UUID, those for ROCm not even that."""
    place: list[Any] = [getattr(found, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    bus = "" if None in place else "{:04x}:{:02x}:{:02x}".format(*place)
    uuid = str(getattr(found, "uuid", "")).lower()
    return {name: told for name, told in (("uuid", uuid), ("bus", bus)) if told}


def _try_product(name: str) -> tuple[bool, str | None]:
    """Try a small product: a card that is listed may still refuse to work."""
    try:
        ones = torch.ones(64, 64, device=name)
        exact = float((ones @ ones).sum().item()) == 64.0**3
    except Exception as error:  # noqa: BLE001  whatever the driver raises is the reason
        return False, str(error).splitlines()[0]
    return exact, None if exact else "a small product came out wrong"


def _why_no_cuda(build: str) -> str:
    """Return PyTorch's reason when it initializes CUDA: no driver, an old driver, no card, a library that fails."""
    if not build:
        return f"this PyTorch ({torch.__version__}) is a build without CUDA"
    try:
        torch.cuda.init()  # type: ignore[no-untyped-call]
    except Exception as error:  # noqa: BLE001  whatever it raises is the reason
        return f"PyTorch has {build} and finds no usable device: {str(error).splitlines()[0]}"
    return f"PyTorch has {build} but finds no usable device or driver"


def _build_details(build: str) -> dict[str, str]:
    """Return for which vendor's cards this PyTorch was built, and for which generations of them."""
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
    """Return the most memory that PyTorch's allocator held on a device."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    if device.type == "cpu":
        return Missing("the processor's memory is the process's own")
    return Missing(f"PyTorch keeps no peak for {device.type}")


def _absent(name: str, kind: str, reason: str, details: dict[str, str] | None = None) -> Device:
    return Device(name, kind, "-", usable=False, reason=reason, memory_bytes=Missing(reason), details=details or {})  # type: ignore[arg-type]


class DeviceClock:
    """How a device is fenced and marked: a processor by the host's clock, an accelerator by its own events."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._module: Any = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None), "mps": torch.mps}.get(device.type)
        self._events: list[Any] = []
        self._used = 0

    def fence(self) -> None:
        if self.device.type == "mps":
            torch.mps.synchronize()
        elif self._module is not None:
            self._module.synchronize(self.device)

    def mark(self) -> object:
        if self._module is None:
            return time.perf_counter_ns()
        event = self._next_event()
        event.record()
        return event

    def step_ns(self, marks: Sequence[object]) -> tuple[int, ...]:
        pairs = itertools.pairwise(marks)
        if self._module is None:
            return tuple(after - before for before, after in pairs)  # type: ignore[operator]
        self._used = 0
        return tuple(round(before.elapsed_time(after) * 1e6) for before, after in pairs)  # type: ignore[attr-defined]

    def _next_event(self) -> Any:
        """Take an event from the pool: making one costs more than recording it, and a window may need thousands."""
        if self._used == len(self._events):
            maker = torch.mps.Event if self.device.type == "mps" else self._module.Event
            self._events.append(maker(enable_timing=True))
        self._used += 1
        return self._events[self._used - 1]


class TorchExercises:
    copies = (ELSEWHERE, IN_PLACE)

    def __init__(self, device: Device) -> None:
        self.by = f"torch {torch.__version__}"
        self._device = torch.device(device.name)
        self._fence = DeviceClock(self._device).fence

    @property
    def free_bytes(self) -> int | Missing:
        if self._device.type == "cuda":
            return int(torch.cuda.mem_get_info(self._device)[0])
        return free_memory_bytes() if self._device.type == "cpu" else Missing(f"PyTorch reports none of {self._device}")

    @property
    def products(self) -> tuple[str, ...]:
        """On a processor, oneDNN's convolutions can use wider vectors than the library behind PyTorch's products."""
        return (PRODUCT, CONVOLUTION) if self._device.type == "cpu" else (PRODUCT,)

    def product(self, precision: str, way: str, rows: int) -> Exercise:
        set_precision("tf32" if precision == "tf32" else "fp32")
        kind = TYPES[precision]
        left, right = (torch.randn(rows, rows, device=self._device).to(kind) for _ in range(2))
        if way == CONVOLUTION:
            return self._convolution(left, right, rows)
        into = torch.empty(rows, rows, dtype=kind, device=self._device)
        return Exercise(lambda: torch.mm(left, right, out=into), self._fence, product_work(rows))

    def _convolution(self, left: Tensor, right: Tensor, rows: int) -> Exercise:
        """Use the left matrix as an image of one line whose pixels are its rows, and the right one as the filters."""
        image = left.t().reshape(1, rows, 1, rows).to(memory_format=torch.channels_last)
        filters = right.reshape(rows, rows, 1, 1).to(memory_format=torch.channels_last)
        return Exercise(lambda: torch.conv2d(image, filters), self._fence, product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:
        source = torch.ones(size_bytes // 4, device=self._device)
        if way == IN_PLACE:
            return Exercise(source.neg_, self._fence, copy_work(source.nbytes))
        into = torch.zeros_like(source)
        return Exercise(lambda: into.copy_(source), self._fence, copy_work(source.nbytes))
