"""A network that only answers: evaluation mode, no gradient, the lane's precision, layout and way of running."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from laptime.backends.base import REFUSALS
from laptime.backends.torch.answering import CHANCE, doubled, part, read_answers
from laptime.backends.torch.carrying import Carrier, host_items, lay_out, mapped
from laptime.backends.torch.devices import peak_bytes
from laptime.backends.torch.precision import Written, set_precision
from laptime.backends.torch.recipe import Own, open_recipe
from laptime.backends.torch.runners import GRAPH_WARMUP_STEPS, Clockwork
from laptime.backends.torch.stepping import (
    AUTOCAST,
    as_float,
    place_network,
    spare_wide_layers_the_casts,
)
from laptime.errors import LaneError
from laptime.model.inference import PROOF_ITEMS, AnswerReference, AnswerRun
from laptime.model.lane import Settings
from laptime.model.missing import Missing
from laptime.model.plan import HeatOrder

Forward = Callable[[Any], Any]


class TorchPredictor:
    """One lane's network, its weights on the device; items are laid out in host memory, batch by batch."""

    def __init__(self, order: HeatOrder) -> None:
        self._settings, self._device = order.lane.settings, torch.device(order.lane.device.name)
        torch.manual_seed(order.seed)
        torch.backends.cudnn.benchmark |= self._settings.preset != "as-written"
        self._recipe = open_recipe(order)
        self._written = Written(self._settings, is_own=isinstance(self._recipe, Own))
        self._written.turn()
        self._forward, self.parameters = self._make(self._settings, self._device)
        self._items = host_items(self._recipe)
        self._carrier = Carrier(self._device, pinned=self._settings.preset != "as-written")
        self.fence = Clockwork(self._device).fence
        self.notes: tuple[str, ...] = (*self._recipe.notes, *self._written.notes(order.lane.device))
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
            self._carrier.to_host(self._through(self._held))

    def let_go(self) -> None:
        self._held = self._through = None
        self._carrier.forget()
        if self._device.type == "cuda":
            torch.cuda.empty_cache()

    def prove(self, precision: str, batch: int) -> AnswerRun:
        """Show the network that is timed in its own precision; in another, one that is run in the same way."""
        own = precision == self._settings.precision
        set_precision(precision)
        try:
            settings = replace(self._settings, precision=precision)  # type: ignore[arg-type]
            forward = self._forward if own else self._make(settings, self._device)[0]
            held = self._laid_out(batch)
            with torch.no_grad():
                answers = self._carrier.to_host(self._way_through(forward, held)(held))
            self.fence()
            return read_answers(precision, answers)
        finally:
            self._written.turn()
            self.let_go()

    def reference(self) -> AnswerReference:
        """Answer in float64 and float32; two float32 runs that part are a network that draws random numbers."""
        self.read_items(PROOF_ITEMS)
        network = self._recipe.answering().eval()
        depth = len(list(network.parameters()))
        with torch.no_grad():
            self._try_one(network)
            held = self._items.cut(self.sizes((PROOF_ITEMS,))[0])
            twin = read_answers("fp32", network(held))
            torch.manual_seed(1)
            again = read_answers("fp32", network(held))
            if not twin.count:
                return AnswerReference(twin, twin, depth, "its answers hold no numbers to compare")
            if part(again, twin) > CHANCE:
                return AnswerReference(twin, twin, depth, "it draws random numbers even when it only answers")
            try:
                exact = read_answers("fp64", network.double()(doubled(held)))
            except (RuntimeError, TypeError, ValueError) as error:
                problem = f"it cannot run in float64: {str(error).splitlines()[0]}"
                return AnswerReference(twin, twin, depth, problem)
        return AnswerReference(exact, twin, depth)

    def _try_one(self, network: nn.Module) -> None:
        """Find out, as the first call of each heat does, whether the network takes another batch than its own."""
        try:
            network(self._items.cut(self.sizes((1,))[0]))
        except REFUSALS:
            if not self._items.keep_whole():
                raise

    def device_memory_bytes(self) -> int | Missing:
        return peak_bytes(self._device)

    def _laid_out(self, batch: int) -> Any:
        channels_last = self._settings.layout == "channels_last"
        pin = self._carrier.pinned
        return mapped(self._items.cut(batch), lambda each: lay_out(each, channels_last=channels_last, pin=pin))

    def _way_through(self, forward: Forward, example: Any) -> Forward:
        """Give the way from a batch on the host to answers on the device."""
        if self._settings.execution == "graph":
            return CapturedForward(forward, example, self._device)
        return lambda held: forward(self._carrier.to_device(held))

    def _make(self, settings: Settings, device: torch.device) -> tuple[Forward, int]:
        network = place_network(self._recipe.answering(), settings, device).eval()
        if settings.precision == "bf16" and device.type == "cpu":
            spare_wide_layers_the_casts(network)
        parameters = sum(each.numel() for each in network.parameters() if each.requires_grad)
        forward = _forward(network, settings, device)
        compiled: Forward = torch.compile(forward, dynamic=False) if settings.execution == "compile" else forward
        return compiled, parameters


def _forward(network: nn.Module, settings: Settings, device: torch.device) -> Forward:
    low = AUTOCAST.get(settings.precision)
    if low is None:
        return network

    def answer(inputs: Any) -> Any:
        with torch.autocast(device.type, dtype=low):
            outputs = network(inputs)
        return as_float(outputs)

    return answer


class CapturedForward:
    """A forward pass as one CUDA graph, on standing buffers; captured by the first call of its batch size."""

    def __init__(self, forward: Forward, example: Any, device: torch.device) -> None:
        if not isinstance(example, Tensor):
            raise LaneError(f"execution=graph takes one tensor, these inputs are {type(example).__name__}", "use eager")
        self._inputs = example.to(device)
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(GRAPH_WARMUP_STEPS):
                forward(self._inputs)
        torch.cuda.current_stream().wait_stream(stream)
        self._graph: Any = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self._answers = forward(self._inputs)

    def __call__(self, held: Any) -> Any:
        self._inputs.copy_(held, non_blocking=True)
        self._graph.replay()
        return self._answers
