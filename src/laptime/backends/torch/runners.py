"""Trainings that stand ready to be timed: step by step, as one CUDA graph, or the loader alone."""

from __future__ import annotations

import itertools
import time
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from laptime.backends.stepwise import Marked
from laptime.backends.torch.apart import TorchApart
from laptime.backends.torch.deferring import Deferred
from laptime.backends.torch.evaluation import Examiner
from laptime.backends.torch.inputs import Source
from laptime.backends.torch.recipe import Batch
from laptime.backends.torch.stepping import Stepper
from laptime.errors import LaneError

GRAPH_WARMUP_STEPS = 3


class Clockwork:
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


class Clocked(Marked):
    """What all of them do with their loader and their device. `looked_into` is whose step there is to look into."""

    looked_into: Stepper | None = None

    def __init__(self, source: Source, clockwork: Clockwork) -> None:
        self._source, self._clockwork = source, clockwork
        self.ready_batches, self.holds = source.ready_batches, source.holds
        self.fence, self.step_ns = clockwork.fence, clockwork.step_ns

    def mark(self) -> object:
        return self._clockwork.mark()

    def repeat(self) -> None:
        self._source.repeat()

    def train(self, batch: Any) -> None:
        """Start one update on a batch that lies where it is used; a lane of one stage alone trains nothing."""

    def apart(self) -> TorchApart:
        return TorchApart(self._source, self.train, self._clockwork.device, self.looked_into)

    def close(self) -> tuple[str, ...]:
        self._source.close()
        return self._source.notes()


class EagerRunner(Clocked):
    """One step after another, as a training loop has it."""

    def __init__(self, stepper: Stepper, source: Source, clockwork: Clockwork, examiner: Examiner) -> None:
        super().__init__(source, clockwork)
        self._stepper = self.looked_into = stepper
        self.examiner = examiner
        self._loss: Tensor | None = None

    def step(self) -> None:
        self._loss = self._stepper(self._source())

    def train(self, batch: Any) -> None:
        self._loss = self._stepper(batch)

    def loss(self) -> float:
        assert self._loss is not None
        return float(self._loss.item())


class DeferredRunner(EagerRunner):
    """The same, with a step's code told values of earlier steps wherever it reads one from the device."""

    def __init__(self, stepper: Stepper, source: Source, clockwork: Clockwork, examiner: Examiner) -> None:
        super().__init__(stepper, source, clockwork, examiner)
        self._deferred = Deferred(clockwork.device)
        self._deferred.begin()

    def step(self) -> None:
        self.train(self._source())

    def train(self, batch: Any) -> None:
        with self._deferred:
            super().train(batch)

    def close(self) -> tuple[str, ...]:
        self._deferred.end()
        return super().close()


class GraphRunner(Clocked):
    """The whole step (forward, backward, update) recorded once as a CUDA graph and replayed on each new batch."""

    def __init__(self, stepper: Stepper, source: Source, clockwork: Clockwork, examiner: Examiner) -> None:
        super().__init__(source, clockwork)
        self.looked_into, self.examiner = stepper, examiner
        self._graph = CapturedStep(stepper, source())
        self._graph.capture()

    def step(self) -> None:
        self.train(self._source())

    def train(self, batch: Any) -> None:
        self._graph.feed(batch)
        self._graph.replay()

    def loss(self) -> float:
        return float(self._graph.loss.item())


class CapturedStep:
    """A step on standing buffers, warmed up beside the main stream as PyTorch asks, then captured."""

    def __init__(self, stepper: Stepper, example: Batch) -> None:
        self._stepper = stepper
        if not all(isinstance(each, Tensor) for each in example):
            kinds = ", ".join(type(each).__name__ for each in example)
            raise LaneError(f"execution=graph takes batches of two tensors, this training's are ({kinds})", "use eager")
        self._inputs, self._targets = example[0].clone(), example[1].clone()
        self._graph: Any = None
        self.loss: Tensor
        self._warm_up()

    def feed(self, batch: Batch) -> None:
        self._inputs.copy_(batch[0], non_blocking=True)
        self._targets.copy_(batch[1], non_blocking=True)

    def capture(self) -> None:
        """Record the step; nothing is computed. May be called again when what is recorded has changed."""
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self.loss = self._stepper((self._inputs, self._targets))

    def replay(self) -> None:
        self._graph.replay()

    def _warm_up(self) -> None:
        stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
        stream.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(stream):
            for _ in range(GRAPH_WARMUP_STEPS):
                self._stepper((self._inputs, self._targets))
        torch.cuda.current_stream().wait_stream(stream)


class LoaderRunner(Clocked):
    """The loader with no training behind it: the ceiling that it sets.

    On a processor what brings a batch to its place (floats of bytes, a layout) is the loader's last part; on an
    accelerator the copy is a stage of its own.
    """

    examiner = None

    def __init__(self, source: Source, clockwork: Clockwork) -> None:
        super().__init__(source, clockwork)
        self._take = source if clockwork.device.type == "cpu" else source.fetch

    def step(self) -> None:
        self._take()

    def loss(self) -> float:
        """There is none; a constant that is finite keeps the loop's question simple."""
        return 0.0


class CopyRunner(LoaderRunner):
    """Batches of host memory brought to the device, and nothing done with them."""

    def __init__(self, source: Source, clockwork: Clockwork) -> None:
        super().__init__(source, clockwork)
        self._take = source
        self._batch: Any = None

    def step(self) -> None:
        self._batch = self._take()
