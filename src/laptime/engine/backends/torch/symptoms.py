"""Symptoms of a step that only its own process sees: denormal numbers, and where the host waits for the device.

It is taken in one step that is not timed. What flows backwards shows most: steps were ten times as slow where only 1 %
of the weights' gradients were denormal. It counts on any processor, also on one that computes denormals at full speed.
"""

from __future__ import annotations

import contextlib
import functools
import math
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from types import FrameType
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode

from laptime.engine.backends.torch.batches import tensors
from laptime.model.symptoms import FLOW, GRADIENTS, OUTPUTS, STATISTICS, SUMS, WEIGHTS, DenormalCensus, Site

SAMPLE = 1 << 16  # numbers of a tensor: a share of 0.1 % is then known to an eighth of it
# A number is denormal if all bits of its exponent are 0 and its fraction is not 0.
TORCH_FLOAT_BITS: dict[torch.dtype, tuple[torch.dtype, int, int]] = {
    torch.float32: (torch.int32, 0x7F800000, 0x007FFFFF),
    torch.float64: (torch.int64, 0x7FF0000000000000, 0x000FFFFFFFFFFFFF),
    torch.bfloat16: (torch.int16, 0x7F80, 0x007F),
    torch.float16: (torch.int16, 0x7C00, 0x03FF),
}
TINY = torch.finfo(torch.float32).tiny
LAYERS_NOT_SEEN = "its step was compiled or captured: what flows between its layers was not seen"
NO_LAYERS = "it has no layers that are PyTorch's modules"


def count(values: Tensor) -> Tensor:
    """Count the denormal numbers by their bits: where they are flushed, a comparison also treats them as 0."""
    kind, exponent, fraction = TORCH_FLOAT_BITS[values.dtype]
    bits = values.view(kind)
    return ((bits & exponent == 0) & (bits & fraction != 0)).sum()


def sample(values: Tensor) -> Tensor:
    """Return up to `SAMPLE` evenly spaced numbers, in the order in which they are in memory, so that nothing is copied.

    The spacing shares no divisor with a dimension: else it might meet a single channel or column only.
    """
    values = values.detach()
    for place, stride in enumerate(values.stride()):
        if stride == 0 and values.shape[place]:
            values = values.narrow(place, 0, 1)  # an expanded dimension repeats the same numbers
    order = sorted(range(values.dim()), key=values.stride, reverse=True)
    flat = values.permute(order).reshape(-1)
    spacing = max(1, math.ceil(flat.numel() / SAMPLE))
    while any(math.gcd(spacing, size) > 1 for size in values.shape if size > 1) and spacing > 1:
        spacing += 1
    return flat[::spacing].contiguous()


class DenormalCount:
    """How many numbers of each kind are denormal, summed on their device."""

    def __init__(self) -> None:
        self._found: dict[str, list[tuple[Tensor, float]]] = {}
        self._all: dict[str, int] = {}

    def take(self, kind: str, found: Iterable[Tensor]) -> None:
        for tensor in found:
            if tensor.dtype in TORCH_FLOAT_BITS and tensor.layout == torch.strided and tensor.numel():
                taken = sample(tensor)
                self._found.setdefault(kind, []).append((count(taken), tensor.numel() / taken.numel()))
                self._all[kind] = self._all.get(kind, 0) + tensor.numel()

    def shares(self) -> dict[str, float]:
        """Return the share of each kind, each tensor by its size."""
        return {
            kind: sum(int(number) * stands_for for number, stands_for in found) / self._all[kind]
            for kind, found in self._found.items()
        }


def take_census(stepper: Any, step: Callable[[], object]) -> DenormalCensus:
    """Count in one more step; a compiled or captured one is not taken, and what the last one left is counted."""
    counted = DenormalCount()
    has_layers = any(not any(module.children()) for module in stepper.network.modules())
    if stepper.is_eager:
        with flow_counted(stepper.network, counted):
            step()
    count_held(stepper.network, stepper.optimizer, counted, gradients=not stepper.is_eager)
    parameters = list(stepper.network.parameters())
    devices = [parameter.device.type for parameter in parameters]
    return DenormalCensus(
        counted.shares(),
        tuple(sorted({str(parameter.dtype).removeprefix("torch.") for parameter in parameters})),
        is_flushing(devices[0] if devices else "cpu"),
        (LAYERS_NOT_SEEN if not stepper.is_eager else None) if has_layers else NO_LAYERS,
    )


def is_flushing(device: str) -> bool:
    """Whether the thread that trains treats denormal numbers as 0; a card computes them at full speed."""
    return device == "cpu" and int(count(torch.full((1,), TINY) / 2)) == 0


def count_held(network: nn.Module, optimizer: Any, counted: DenormalCount, *, gradients: bool = True) -> None:
    """Count in everything that a step leaves behind."""
    weights = list(network.parameters())
    counted.take(WEIGHTS, weights)
    if gradients:
        counted.take(GRADIENTS, (weight.grad for weight in weights if weight.grad is not None))
    counted.take(SUMS, _tensors(optimizer.state))
    counted.take(STATISTICS, network.buffers())


def _tensors(held: Any) -> Iterator[Tensor]:
    if isinstance(held, Tensor):
        yield held
    elif isinstance(held, dict):
        for part in held.values():
            yield from _tensors(part)


@contextlib.contextmanager
def flow_counted(network: nn.Module, counted: DenormalCount) -> Iterator[None]:
    """Count in the outputs of each layer, in the gradients that flow back to them, and in those of the weights.

    The hooks are on outputs and weights, not on modules: hooks of a module refuse outputs that the next layer changes
    in place. A weight's gradient is counted as soon as it is there: a training may clear it at the end of its step.
    """

    def look(_module: Any, _inputs: Any, outputs: Any) -> None:
        for tensor in tensors(outputs):
            counted.take(OUTPUTS, [tensor])
            if tensor.requires_grad and not tensor.is_leaf:  # a hook on a leaf would stay
                tensor.register_hook(lambda gradient: counted.take(FLOW, [gradient]))  # type: ignore[no-untyped-call]

    def look_at_gradient(weight: Tensor) -> None:
        if weight.grad is not None:
            counted.take(GRADIENTS, [weight.grad])

    hooks = [module.register_forward_hook(look) for module in network.modules() if not any(module.children())]
    hooks += [
        parameter.register_post_accumulate_grad_hook(look_at_gradient)  # type: ignore[no-untyped-call]
        for parameter in network.parameters()
        if parameter.requires_grad and parameter.is_leaf
    ]
    try:
        yield
    finally:
        for hook in hooks:
            hook.remove()


# Finds where the host waits for the device: each read of a tensor's value, and the code that reads it.

TORCH_FOLDER = f"{Path(torch.__file__).parent}/"
OUR_FOLDER = f"{Path(__file__).parents[3]}/"
# All methods of a tensor that return a value to the host, and how users write them.
READERS = {
    "item": ".item()",
    "tolist": ".tolist()",
    "__float__": "float()",
    "__int__": "int()",
    "__bool__": "bool()",
    "__index__": "int()",
    "cpu": ".cpu()",
    "numpy": ".numpy()",
    "__array__": ".numpy()",
    "__repr__": "print",
    "__format__": "print",
}
SITES_MOST = 20
# Operators that wait for the device themselves: the host needs a value, or a shape that depends on values.
WAITING_OPERATORS = {
    "_local_scalar_dense": ".item()",
    "nonzero": "nonzero",
    "masked_select": "a mask",
    "_unique2": "unique",
}
COPY_OPERATORS = {"_to_copy", "copy_"}


def is_users(frame: FrameType) -> bool:
    file = frame.f_code.co_filename
    return not file.startswith((TORCH_FOLDER, OUR_FOLDER, "<"))


def name_place(start: FrameType) -> str:
    """Return the file and line of the user's code; if the stack has none, those of PyTorch's code."""
    frame: FrameType | None = start
    while frame is not None and not is_users(frame):
        frame = frame.f_back
    if frame is not None:
        return f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
    frame = start
    while frame is not None and not frame.f_code.co_filename.startswith(TORCH_FOLDER):
        frame = frame.f_back
    frame = frame or start
    return f"torch/{frame.f_code.co_filename.removeprefix(TORCH_FOLDER)}:{frame.f_lineno}"


def caller(depth: int = 1) -> FrameType:
    """Return the frame that called the caller, or one further back."""
    return sys._getframe(depth + 1)  # noqa: SLF001  inspect's function for this takes a hundred times as long


class SyncDetector:
    """Counts reads while entered; on a processor only those in the user's own code, since no read waits there."""

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._real: dict[str, Any] = {}
        self._found: Counter[tuple[str, str]] = Counter()
        self._is_within = False
        self._mode = SyncDispatch(self, device) if device.type != "cpu" else None

    def __enter__(self) -> Self:
        self._real = {name: vars(Tensor)[name] for name in READERS if name in vars(Tensor)}
        inherited = {name: getattr(Tensor, name) for name in READERS if name not in self._real}
        for name, real in (self._real | inherited).items():
            setattr(Tensor, name, self._watched(real, READERS[name]))
        if self._mode is not None:
            self._mode.__enter__()  # type: ignore[no-untyped-call]
        return self

    def __exit__(self, *error: object) -> None:
        if self._mode is not None:
            self._mode.__exit__(*error)  # type: ignore[no-untyped-call]
        for name in READERS:
            if name in self._real:
                setattr(Tensor, name, self._real[name])
            else:
                delattr(Tensor, name)

    def total(self) -> int:
        return self._found.total()

    def sites(self, steps: int) -> tuple[Site, ...]:
        return tuple(Site(where, what, times / steps) for (where, what), times in self._found.most_common(SITES_MOST))

    def note(self, frame: FrameType, what: str) -> None:
        """Count a read, but not the reads that it makes internally."""
        if not self._is_within:
            self._found[name_place(frame), what] += 1

    def _watched(self, real: Callable[..., Any], what: str) -> Callable[..., Any]:
        @functools.wraps(real)
        def watched(tensor: Tensor, *arguments: Any, **words: Any) -> Any:
            frame = caller()
            here = self._device.type
            # PyTorch's optimizers read their own step count on the host, which does not wait.
            if self._is_within or tensor.device.type != here or (here == "cpu" and not is_users(frame)):
                return real(tensor, *arguments, **words)
            self.note(frame, what)
            self._is_within = True
            try:
                return real(tensor, *arguments, **words)
            finally:
                self._is_within = False

        return watched


class SyncDispatch(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Sees each operator call that can wait for an accelerator, in PyTorch's own code too."""

    def __init__(self, reads: SyncDetector, device: torch.device) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._reads = reads
        self._device = device

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        what = self._what_waits(func.overloadpacket.__name__, args, kwargs or {})
        if what is not None:
            self._reads.note(caller(), what)
        return func(*args, **(kwargs or {}))

    def _what_waits(self, name: str, args: Any, words: dict[str, Any]) -> str | None:
        """Return what the host waits for, as users write it, or None."""
        if not args or not isinstance(args[0], Tensor):
            return None
        is_there = args[0].device.type == self._device.type
        if name == "index":
            has_mask = any(isinstance(index, Tensor) and index.dtype == torch.bool for index in args[1])
            return "a mask" if is_there and has_mask else None
        if name in WAITING_OPERATORS:
            return WAITING_OPERATORS[name] if is_there else None
        if name not in COPY_OPERATORS:
            return None
        # Whether something is copied from the device to the host, and the host waits for it.
        source = args[0]
        to = words.get("device")
        waits = not words.get("non_blocking")
        if name == "copy_":
            source = args[1]
            to = args[0].device
            waits = waits and not (len(args) > 2 and args[2])
        is_home = to is not None and torch.device(to).type == "cpu"
        comes_home = waits and is_home and isinstance(source, Tensor) and source.device.type != "cpu"
        return ".cpu()" if comes_home else None


def count_compiled() -> int:
    """Return how many graphs PyTorch's compiler has made in this process, here or in a user's own code."""
    compiler = sys.modules.get("torch._dynamo.utils")
    return int(compiler.counters["stats"]["unique_graphs"]) if compiler is not None else 0
