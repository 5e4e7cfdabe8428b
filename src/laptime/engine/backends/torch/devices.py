"""The devices that PyTorch sees, how each is fenced and timed, and its products and copies for measuring limits."""

from __future__ import annotations

import contextlib
import itertools
import platform
import re
import shutil
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import util
from time import perf_counter_ns  # taken now: a user's code comes later, and may replace it
from types import MethodType
from typing import Any

import torch
from torch.cuda import nccl
from torch.optim import Optimizer

from laptime.engine.backends.base import (
    CONVOLUTION,
    COPIED_ELSEWHERE,
    PRODUCT,
    TURNED_IN_PLACE,
    Exercise,
    copy_work,
    product_work,
)
from laptime.engine.backends.cuda import AMPERE, ask_driver
from laptime.engine.pipelines.job import free_memory_bytes
from laptime.model.errors import LaneError
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder
from laptime.model.process import Settings
from laptime.model.quantities import Missing

PRECISION_TYPES = {"fp32": torch.float32, "tf32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}


def list_devices() -> tuple[Device, ...]:
    features = ["bf16", "fp16", "channels_last", "fused"]
    features += ["compile"] if shutil.which("g++") or shutil.which("clang++") else []
    features += ["malloc"] if platform.libc_ver()[0] == "glibc" else []
    details = {"threads": str(torch.get_num_threads()), "vector": torch.backends.cpu.get_cpu_capability()}
    found = [Device("cpu", "cpu", "processor", usable=True, features=tuple(features), details=details)]
    if torch.cuda.is_available():
        driver = ask_driver()
        found += [_cuda_device(index, driver) for index in range(torch.cuda.device_count())]
    else:
        build = "CUDA" if torch.version.cuda else "ROCm" if getattr(torch.version, "hip", None) else ""
        found.append(_absent("cuda", "cuda", _why_no_cuda(build), _build_details(build)))
    if platform.system() == "Darwin":
        if torch.backends.mps.is_available():
            found.append(Device("mps", "mps", "Apple GPU", usable=True, features=("fp16", "channels_last")))
        else:
            found.append(_absent("mps", "mps", "PyTorch finds no Metal device"))
    if hasattr(torch, "xpu") and torch.xpu.is_available():
        found += [_xpu_device(index) for index in range(torch.xpu.device_count())]
    return tuple(found)


def list_versions() -> dict[str, str]:
    """Return PyTorch's version first, then those of its libraries, as far as this build has them."""
    hip = getattr(torch.version, "hip", None)
    cudnn: str | None
    try:
        number = torch.backends.cudnn.version()  # type: ignore[no-untyped-call]
    except RuntimeError as error:  # a library on the path does not fit the build
        cudnn = f"not usable: {str(error).split('. ')[0]}"
    else:
        cudnn = None if number is None else str(number) if hip else cudnn_words(number)
    try:
        exchange = ".".join(map(str, nccl.version()))  # type: ignore[no-untyped-call]
    except (AttributeError, RuntimeError):  # a build for processors only lacks the function inside the module
        exchange = None
    asked = {
        "cuda": torch.version.cuda,
        "hip": hip,
        "miopen" if hip else "cudnn": cudnn,
        "rccl" if hip else "nccl": exchange,
        "onednn": find_onednn(torch.__config__.show()),
    }
    return {"torch": str(torch.__version__), **{name: str(version) for name, version in asked.items() if version}}


def cudnn_words(number: int) -> str:
    """Format 91002 as 9.10.2, and 8902, in the numbering before version 9, as 8.9.2."""
    major, rest = divmod(number, 10_000 if number >= 90_000 else 1000)
    return f"{major}.{rest // 100}.{rest % 100}"


def find_onednn(configuration: str) -> str | None:
    """Find the version in PyTorch's description of its build, which may use the library's former name."""
    found = re.search(r"(?:MKL-DNN|oneDNN) v(\d+(?:\.\d+)*)", configuration)
    return found[1] if found else None


def _cuda_device(index: int, driver: dict[str, str]) -> Device:
    found = torch.cuda.get_device_properties(index)
    capability = (found.major, found.minor)
    features = ["fp16", "channels_last", "fused", "graph", "malloc"]
    features += ["tf32", "bf16"] if capability >= AMPERE else []
    features += ["compile", "compiled_graph"] if util.find_spec("triton") is not None else []
    usable, reason = _try_product(f"cuda:{index}")
    # Older versions of PyTorch report only the UUID, those for ROCm not even that.
    place: list[Any] = [getattr(found, name, None) for name in ("pci_domain_id", "pci_bus_id", "pci_device_id")]
    bus = "" if None in place else "{:04x}:{:02x}:{:02x}".format(*place)
    uuid = str(getattr(found, "uuid", "")).lower()
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
            **({"uuid": uuid} if uuid else {}),
            **({"bus": bus} if bus else {}),
            **_build_details("ROCm" if getattr(torch.version, "hip", None) else "CUDA"),
            **driver,
        },
    )


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
    if not build:
        return {}
    generations = " ".join(torch.cuda.get_arch_list())
    return {"build": build, "architectures": generations} if generations else {"build": build}


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


# Taken before the code of a user's training is imported, which may replace what the modules have.
FENCES: dict[str, Callable[..., None]] = {
    name: module.synchronize
    for name, module in (("cuda", torch.cuda), ("xpu", getattr(torch, "xpu", None)), ("mps", torch.mps))
    if module is not None
}


class DeviceClock:
    """How a device is fenced and marked: a processor by the host's clock, an accelerator by its own events."""

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self._module: Any = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None), "mps": torch.mps}.get(device.type)
        self._events: list[Any] = []
        self._used = 0
        # Next to a step of 0.2 ms each call between two steps is seen.
        self.mark: Callable[[], object] = perf_counter_ns if self._module is None else self._record_event

    def fence(self) -> None:
        if self.device.type == "mps":
            FENCES["mps"]()
        elif self._module is not None:
            FENCES[self.device.type](self.device)

    def _record_event(self) -> object:
        # From a pool: making an event costs more than recording it, and a window may need thousands.
        if self._used == len(self._events):
            maker = torch.mps.Event if self.device.type == "mps" else self._module.Event
            self._events.append(maker(enable_timing=True))
        event = self._events[self._used]
        self._used += 1
        event.record()
        return event

    def step_ns(self, marks: Sequence[object]) -> tuple[int, ...]:
        pairs = itertools.pairwise(marks)
        if self._module is None:
            return tuple(after - before for before, after in pairs)  # type: ignore[operator]
        self._used = 0
        return tuple(round(before.elapsed_time(after) * 1e6) for before, after in pairs)  # type: ignore[attr-defined]


class TorchExercises:
    copies = (COPIED_ELSEWHERE, TURNED_IN_PLACE)

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
        kind = PRECISION_TYPES[precision]
        left, right = (torch.randn(rows, rows, device=self._device).to(kind) for _ in range(2))
        if way == CONVOLUTION:
            # The left matrix is an image of one line whose pixels are its rows, the right one is the filters.
            image = left.t().reshape(1, rows, 1, rows).to(memory_format=torch.channels_last)
            filters = right.reshape(rows, rows, 1, 1).to(memory_format=torch.channels_last)
            return Exercise(lambda: torch.conv2d(image, filters), self._fence, product_work(rows))
        into = torch.empty(rows, rows, dtype=kind, device=self._device)
        return Exercise(lambda: torch.mm(left, right, out=into), self._fence, product_work(rows))

    def copy(self, way: str, size_bytes: int) -> Exercise:
        source = torch.ones(size_bytes // 4, device=self._device)
        if way == TURNED_IN_PLACE:
            return Exercise(source.neg_, self._fence, copy_work(source.nbytes))
        into = torch.zeros_like(source)
        return Exercise(lambda: into.copy_(source), self._fence, copy_work(source.nbytes))


# What float32 means: PyTorch's switches that let float32 products and convolutions use TF32 or bf16.
#
# PyTorch has two APIs for the same switches, and raises an error when one reads what the other has set. The processor's
# switch for denormal numbers is here too: they are too small for full precision, and often 100 times as slow.

HAS_NEW_WORDS = hasattr(torch.backends.cuda.matmul, "fp32_precision")  # from PyTorch 2.9 on
EXACT = "ieee"
TF32 = "tf32"
# For a product of denormal numbers only, of which each thread gets rows.
DENORMAL_ROWS = 256
DENORMAL_FACTOR = 1e-30
DENORMAL_FACTOR_2 = 1e-10
EXERCISE_NUMBERS = 1 << 20


@dataclass(frozen=True, slots=True)
class Switches:
    """The state of the switches: TF32 in products and convolutions by the old API, and each place of the new API."""

    old: tuple[bool, bool] | None
    new: tuple[str, ...]

    def take_tf32(self) -> bool:
        """Whether products or convolutions would use TF32 on a card that supports it."""
        return bool(self.in_tf32())

    def in_tf32(self) -> tuple[str, ...]:
        """Return what would use TF32 on a card that supports it: products, and what cuDNN computes."""
        products, by_cudnn = self.old or (False, False)
        found = {
            "products": products or TF32 in self.new[1:2],
            "convolutions and recurrent layers": by_cudnn or TF32 in self.new[2:5],
        }
        return tuple(name for name, is_so in found.items() if is_so)


def read_switches() -> Switches:
    """Return the state of the switches: PyTorch's defaults, or what a user's code has set."""
    old = None
    with contextlib.suppress(RuntimeError):
        old = (torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    return Switches(old, tuple(place.fp32_precision for place in _places()))


def set_switches(wanted: Switches) -> None:
    """Restore the switches, general ones before specific ones."""
    if wanted.old is not None:
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = wanted.old
    for place, word in zip(_places(), wanted.new, strict=True):
        place.fp32_precision = word


def set_precision(precision: str) -> None:
    """Set what float32 means: by default, PyTorch's convolutions use TF32 on NVIDIA GPUs."""
    tf32 = precision == "tf32"
    torch.backends.cuda.matmul.allow_tf32 = tf32
    torch.backends.cudnn.allow_tf32 = tf32
    for place in _places()[1:]:
        place.fp32_precision = TF32 if tf32 and place not in _of_processor() else EXACT
    if HAS_NEW_WORDS and precision == "bf16":
        _of_processor()[1].fp32_precision = "bf16"


class LanePrecision:
    """Sets the switches for a lane's training: by its settings, or in a user's own float32 as the user set them."""

    def __init__(self, settings: Settings, *, is_own: bool) -> None:
        self._settings = settings
        self._left = read_switches() if is_own and settings.precision == "fp32" else None

    def apply(self) -> None:
        """Set the switches again: the proof has changed them."""
        if self._left is None:
            compute_as(self._settings)
        else:
            set_switches(self._left)
            take_switches(self._settings)

    def notes(self, device: Device) -> tuple[str, ...]:
        """Return a note where float32 means TF32, since the proof is taken without it."""
        if self._left is None or TF32 not in device.features or not self._left.take_tf32():
            return ()
        what = ", ".join(self._left.in_tf32())
        return (f"in TF32, as PyTorch and this code have it: {what}; its proof is taken in float32 proper",)


def _places() -> list[Any]:
    """Return the places of the switches: for all, for products and convolutions on cards, and for the processor."""
    if not HAS_NEW_WORDS:
        return []
    backends: Any = torch.backends
    cudnn = backends.cudnn
    return [backends, backends.cuda.matmul, cudnn, cudnn.conv, cudnn.rnn, *_of_processor()]


def _of_processor() -> list[Any]:
    mkldnn: Any = torch.backends.mkldnn
    return [mkldnn, mkldnn.matmul, mkldnn.conv, mkldnn.rnn]


def flush_denormals() -> None:
    """Make all threads treat denormal numbers as 0.

    The switch belongs to a thread, and a new thread inherits it from the thread that starts it. So it is set before
    PyTorch starts its threads; then a test shows whether it reached them all.
    """
    if not torch.set_flush_denormal(True):
        raise LaneError("denormals=flush: PyTorch has no such switch on this processor", "leave it out")
    if keeps_denormals():
        raise LaneError(
            "denormals=flush did not reach all threads of PyTorch, some were there before",
            "keep the file's own products inside of its function, or call torch.set_flush_denormal(True) in it",
        )


def keeps_denormals() -> bool:
    """Whether any thread still computes with denormal numbers: products may have their own threads."""
    rows = (DENORMAL_ROWS, DENORMAL_ROWS)
    product = torch.full(rows, DENORMAL_FACTOR) @ torch.full(rows, DENORMAL_FACTOR_2)
    scaled = torch.full((EXERCISE_NUMBERS,), DENORMAL_FACTOR) * DENORMAL_FACTOR_2
    return any(bool(tensor.view(torch.int32).any()) for tensor in (product, scaled))


# Deep copies of PyTorch's optimizers with all that they hold.

OPTIMIZER_HOOKS = "_optimizer_"
WRAPPED = "_wrapped_by_lr_sched"


@contextlib.contextmanager
def whole_optimizers() -> Iterator[None]:
    """Copy an optimizer's own attributes too: PyTorch leaves them out, and LBFGS cannot go on without its parameters.

    Functions that an optimizer holds are left out all the same. A schedule wraps the step of its optimizer, to know
    whether it was called, and the wrapper would step the original: the copy gets one of its own.
    """
    real: Any = Optimizer.__getstate__

    def get_whole_state(optimizer: Optimizer) -> dict[str, Any]:
        held = {
            key: value
            for key, value in vars(optimizer).items()
            if not key.startswith(OPTIMIZER_HOOKS) and not callable(value)
        }
        if hasattr(optimizer.step, WRAPPED):
            held["step"] = MethodType(_step, optimizer)
        return {**held, **real(optimizer)}

    Optimizer.__getstate__ = get_whole_state  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Optimizer.__getstate__ = real  # type: ignore[method-assign]


def _step(optimizer: Any, *arguments: Any, **words: Any) -> Any:
    """Step as the optimizer's class does, and note it for the optimizer's schedule."""
    optimizer._opt_called = True  # noqa: SLF001  where a schedule looks
    return type(optimizer).step(optimizer, *arguments, **words)


setattr(_step, WRAPPED, True)


# What a lane sets for its whole process: its device, threads, denormal numbers, precision and seed.


SWITCHES: dict[str, Callable[[str], None]] = {}


def switch(apply: Callable[[str], None]) -> Callable[[str], None]:
    """Have a function called with the value of the setting that has its name, where a lane has that setting."""
    SWITCHES[apply.__name__] = apply
    return apply


@switch
def onednn(value: str) -> None:
    if value == "off":
        torch.backends.mkldnn.enabled = False  # type: ignore[assignment]  # it is a property of the module


def take_switches(settings: Settings) -> None:
    for name, value in settings.extra.items():
        if name in SWITCHES:
            SWITCHES[name](value)


def compute_as(settings: Settings) -> None:
    """Set what float32 means for a lane, then its own switches: one of them may say otherwise of some operators."""
    set_precision(settings.precision)
    take_switches(settings)


def take_device(order: HeatOrder) -> None:
    _take_threads(order.lane.settings)
    if order.lane.settings.denormals == "flush":
        flush_denormals()
    take_switches(order.lane.settings)
    if order.lane.device.kind == "cuda":
        torch.cuda.set_device(order.lane.device.name)


def set_up(settings: Settings, precision: LanePrecision, seed: int) -> None:
    """Set threads, precision and seed again: a user's function and the proof may have changed them."""
    _take_threads(settings)
    precision.apply()
    torch.manual_seed(seed)
    torch.backends.cudnn.benchmark |= settings.value_of("cudnn") == "search"


def _take_threads(settings: Settings) -> None:
    """Set the lane's number of threads again, in case the user's own code changed it."""
    if settings.threads is not None:
        torch.set_num_threads(settings.threads)
