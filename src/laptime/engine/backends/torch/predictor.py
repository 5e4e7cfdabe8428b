"""A network that only answers: its items on the host, the transfer to the device and back, and the lane's execution."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor, nn

from laptime.engine.backends.arrays import CHANCE, make_answers
from laptime.engine.backends.base import BATCH_SIZE_ERRORS
from laptime.engine.backends.items import repeated
from laptime.engine.backends.torch.batches import in_layout, mapped, move_leaf, tensors
from laptime.engine.backends.torch.devices import DeviceClock, LanePrecision, peak_bytes, set_precision
from laptime.engine.backends.torch.recipe import BuiltInRecipe, OwnRecipe, TorchRecipe, call, open_recipe
from laptime.engine.backends.torch.runners import warm_up_for_capture
from laptime.engine.backends.torch.stepping import avoid_weight_casts, count_items, forward_of, place_network
from laptime.model.errors import LaneError
from laptime.model.plan import HeatOrder
from laptime.model.process import Settings
from laptime.model.protocol import PROOF_ITEMS, AnswerReference, AnswerRun
from laptime.model.quantities import Missing

Forward = Callable[[Any], Any]


class TorchPredictor:
    """One lane's network with its weights on the device; items are prepared in host memory, batch by batch."""

    def __init__(self, order: HeatOrder) -> None:
        self._settings = order.lane.settings
        self._device = torch.device(order.lane.device.name)
        torch.manual_seed(order.seed)
        torch.backends.cudnn.benchmark |= self._settings.value_of("cudnn") == "search"
        recipe = open_recipe(order)
        if not isinstance(recipe, TorchRecipe):
            raise LaneError(f"{recipe.name}: a step of your own gives no answers to be timed", "leave --infer out")
        self._recipe = recipe
        self._precision = LanePrecision(self._settings, is_own=isinstance(self._recipe, OwnRecipe))
        self._precision.apply()
        self._forward, self._network = self._make(self._settings, self._device)
        self.parameters = sum(parameter.numel() for parameter in self._network.parameters() if parameter.requires_grad)
        self._items: HostItems = OwnHostItems(recipe) if isinstance(recipe, OwnRecipe) else BuiltInHostItems(recipe)
        self._transfer = Transfer(self._device, pinned=self._settings.preset != "as-written")
        self.fence = DeviceClock(self._device).fence
        self.notes: tuple[str, ...] = (*self._recipe.notes, *self._precision.notes(order.lane.device))
        self._held: Any = None
        self._through: Forward | None = None

    def read_items(self, most: int) -> None:
        self._items.read(most)

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        return self._items.sizes(wanted)

    def keep_whole(self, why: str) -> bool:
        if not self._items.keep_whole():
            return False
        self.notes = (*self.notes, f"it takes no batch but its own, of {self.sizes(())[0]}: {why}")
        return True

    def take(self, batch: int) -> None:
        self.let_go()
        self._held = self._laid_out(batch)

    def call(self) -> None:
        with torch.no_grad():
            if self._through is None:
                self._through = self._way_through(self._forward, self._held)
            self._transfer.to_host(self._through(self._held))

    def let_go(self) -> None:
        self._held = self._through = None
        self._transfer.forget()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def prove(self, precision: str, batch: int) -> AnswerRun:
        """Answer with the timed network at its own precision; at another, with a network that runs in the same way."""
        own = precision == self._settings.precision
        set_precision(precision)
        try:
            settings = replace(self._settings, precision=precision)  # type: ignore[arg-type]
            forward = self._forward if own else self._make(settings, self._device)[0]
            held = self._laid_out(batch)
            with torch.no_grad():
                answers = self._transfer.to_host(self._way_through(forward, held)(held))
            self.fence()
            return read_answers(precision, answers)
        finally:
            self._precision.apply()
            self.let_go()

    def reference(self) -> AnswerReference:
        """Answer in float64 and float32; if two float32 runs differ, the network draws random numbers."""
        self.read_items(PROOF_ITEMS)
        network = self._recipe.answering().eval()
        depth = len(list(network.parameters()))
        with torch.no_grad():
            try:  # like the first call of each heat: the network may accept no other batch size than its own
                call(network, self._items.cut(self.sizes((1,))[0]))
            except BATCH_SIZE_ERRORS:
                if not self._items.keep_whole():
                    raise
            held = self._items.cut(self.sizes((PROOF_ITEMS,))[0])
            twin = read_answers("fp32", call(network, held))
            torch.manual_seed(1)
            again = read_answers("fp32", call(network, held))
            if not twin.count:
                return AnswerReference(twin, twin, depth, "its answers hold no numbers to compare")
            if part(again, twin) > CHANCE:
                return AnswerReference(twin, twin, depth, "it draws random numbers even when it only answers")
            try:
                exact = read_answers("fp64", call(network.double(), doubled(held)))
            except Exception as error:  # noqa: BLE001  whatever a user's model raises that was not written for float64
                return AnswerReference(twin, twin, depth, f"it cannot run in float64: {first_line(error)}")
        return AnswerReference(exact, twin, depth)

    def device_memory_bytes(self) -> int | Missing:
        return peak_bytes(self._device)

    def _laid_out(self, batch: int) -> Any:
        channels_last = self._settings.layout == "channels_last"
        pin = self._transfer.pinned
        return mapped(self._items.cut(batch), lambda tensor: lay_out(tensor, channels_last=channels_last, pin=pin))

    def _way_through(self, forward: Forward, example: Any) -> Forward:
        """Return the function from a batch on the host to answers on the device."""
        if self._settings.is_captured:
            return CapturedForward(forward, example, self._device)
        return lambda held: forward(self._transfer.to_device(held))

    def _make(self, settings: Settings, device: torch.device) -> tuple[Forward, nn.Module]:
        network = place_network(self._recipe.answering(), settings, device).eval()
        if settings.precision == "bf16" and device.type == "cpu":
            avoid_weight_casts(network)
        forward = forward_of(network, settings, device)
        compiled: Forward = torch.compile(forward, dynamic=False) if settings.is_compiled else forward
        return compiled, network


class CapturedForward:
    """A forward pass as one CUDA graph on fixed buffers; captured by the first call of its batch size."""

    def __init__(self, forward: Forward, example: Any, device: torch.device) -> None:
        if not isinstance(example, Tensor):
            raise LaneError(f"execution=graph takes one tensor, these inputs are {type(example).__name__}", "use eager")
        self._inputs = example.to(device)
        warm_up_for_capture(lambda: forward(self._inputs))
        self._graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._answers = forward(self._inputs)

    def __call__(self, held: Any) -> Any:
        self._inputs.copy_(held, non_blocking=True)
        self._graph.replay()
        return self._answers


def read_answers(precision: str, answers: Any) -> AnswerRun:
    """Return the floating-point numbers of all tensors, one after another, in the form that a proof compares."""
    floats = (tensor for tensor in tensors(answers) if tensor.is_floating_point())
    found = [torch.empty(0, dtype=torch.float64), *floats]
    return make_answers(precision, torch.cat([tensor.detach().cpu().double().flatten() for tensor in found]).numpy())


def part(one: AnswerRun, other: AnswerRun) -> float:
    """Return how far two answers differ, relative to the second."""
    size = math.hypot(*other.values) or 1e-30
    return math.dist(one.values, other.values) / size if len(one.values) == len(other.values) else math.inf


def first_line(error: Exception) -> str:
    """Return the first line of an error's message, or its kind if it has none."""
    return (str(error).splitlines() or [type(error).__name__])[0]


def doubled(value: Any) -> Any:
    return mapped(value, lambda tensor: tensor.double() if tensor.is_floating_point() else tensor)


class HostItems(Protocol):
    """Items that can be cut into batches."""

    def read(self, most: int) -> None: ...

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]: ...

    def keep_whole(self) -> bool: ...

    def cut(self, batch: int) -> Any: ...


class BuiltInHostItems:
    """Items of a built-in workload's test set, made in memory or decoded from the user's data folder."""

    def __init__(self, recipe: BuiltInRecipe) -> None:
        self._recipe = recipe
        self._images = torch.empty(0)

    def read(self, most: int) -> None:
        """Read this many items, repeating them where the test set has fewer."""
        if len(self._images) < most:
            found = repeated(self._recipe.test_items(most), most)
            self._images = torch.from_numpy(np.ascontiguousarray(found.images)).permute(0, 3, 1, 2)

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        return wanted

    def keep_whole(self) -> bool:
        return False

    def cut(self, batch: int) -> Tensor:
        return self._images[:batch].contiguous()


class OwnHostItems:
    """The inputs of the first batch of a user's training, cut or repeated to the wanted size."""

    def __init__(self, recipe: OwnRecipe) -> None:
        self._recipe = recipe
        self._inputs: Any = None
        self._own = 1
        self._whole = False

    def read(self, most: int) -> None:
        """Read the first batch, once; larger batches repeat its items."""
        if self._inputs is not None or not most:
            return
        self._inputs, _ = self._recipe.split(self._recipe.first_batch())
        lengths: set[int] = set()
        mapped(self._inputs, lambda tensor: lengths.add(count_items(tensor) if tensor.dim() else 0))
        self._own = max(lengths, default=1) or 1
        self._whole = len(lengths) != 1 or 0 in lengths

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        return (self._own,) if self._whole else wanted

    def keep_whole(self) -> bool:
        """Use the batch uncut from now on; return whether it was cut before."""
        was_cut = not self._whole
        self._whole = True
        return was_cut

    def cut(self, batch: int) -> Any:
        if self._whole:
            return self._inputs
        chosen = torch.arange(batch) % self._own
        return mapped(self._inputs, lambda tensor: tensor.index_select(0, chosen))


class Transfer:
    """Moves batches to the device and answers back.

    As written, it does this as most programs do; at a lane's best, it uses pinned memory on both ways, so that nothing
    waits before the fence.
    """

    def __init__(self, device: torch.device, *, pinned: bool) -> None:
        self._device = device
        self.pinned = pinned and device.type == "cuda"
        self._buffers: dict[tuple[Any, ...], Tensor] = {}
        self._place = 0

    def to_device(self, value: Any) -> Any:
        if self._device.type == "cpu":
            return value
        move = partial(move_leaf, device=self._device)
        return mapped(value, lambda tensor: tensor.to(self._device, non_blocking=self.pinned), move, moves=True)

    def to_host(self, value: Any) -> Any:
        if self._device.type == "cpu":
            return value
        self._place = 0
        return mapped(value, self._into_buffer if self.pinned else Tensor.cpu)

    def forget(self) -> None:
        self._buffers.clear()

    def _into_buffer(self, answer: Tensor) -> Tensor:
        """Copy each answer of a call into its own fixed buffer."""
        self._place += 1
        key = (self._place, answer.shape, answer.dtype)
        if key not in self._buffers:
            self._buffers[key] = torch.empty_like(answer, device="cpu", pin_memory=True)
        return self._buffers[key].copy_(answer, non_blocking=True)


def lay_out(value: Tensor, *, channels_last: bool, pin: bool) -> Tensor:
    """Return a tensor in the lane's layout, in pinned memory if `pin` is set."""
    placed = in_layout(value, channels_last=channels_last)
    return placed.pin_memory() if pin and placed.layout == torch.strided else placed
