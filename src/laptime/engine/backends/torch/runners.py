"""Trainings that are ready to be timed: step by step, with deferred reads, as one CUDA graph, or the loader alone."""

from __future__ import annotations

import functools
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, Protocol

import torch
from torch import Tensor
from torch.profiler import ProfilerActivity, profile

from laptime.engine.backends.base import NO_REWINDER, MarkedRunner
from laptime.engine.backends.replay import DataPlace, StateRewinder
from laptime.engine.backends.steps import see_batch
from laptime.engine.backends.torch.devices import DeviceClock
from laptime.engine.backends.torch.inputs import BatchSource
from laptime.engine.backends.torch.judging import take_weights
from laptime.engine.backends.torch.profiling import NOTHING_COMPUTED, TorchStepParts
from laptime.engine.backends.torch.recipe import StepBatch, count_batch_items
from laptime.engine.backends.torch.rewinding import TORCH_LEAVES, generators_of
from laptime.engine.backends.torch.stepping import Stepper, TorchEvaluator
from laptime.engine.backends.torch.symptoms import caller, is_users, take_census
from laptime.machine.core_score import measure_core
from laptime.model.errors import LaneError
from laptime.model.quantities import Missing
from laptime.model.sample import LateStep, SeenBatch, Updates
from laptime.model.symptoms import DenormalCensus

STALE = "reads=deferred: item(), tolist(), float(), int() and bool() of a tensor give its code values of earlier steps"
DEFERRED = ("item", "tolist", "__float__", "__int__", "__bool__")
BatchPlace = tuple[Any, ...]
GRAPH_WARMUP_STEPS = 3


class DeferredRead:
    """What one line of code reads in each step: the newest value that has arrived, while the next is on its way."""

    def __init__(self, first: Tensor, take: Callable[[Tensor], Any], event: Any) -> None:
        self._take = take
        self._event = event
        self._arrived = first.detach().to("cpu", copy=True)  # only the very first value is waited for
        self._coming = torch.empty_like(self._arrived, pin_memory=first.device.type == "cuda")
        self._is_coming = False

    def fits(self, tensor: Tensor) -> bool:
        return tensor.shape == self._arrived.shape and tensor.dtype == self._arrived.dtype

    def value(self) -> Any:
        """Return the newest value that has arrived."""
        if self._is_coming and (self._event is None or self._event.query()):
            self._arrived, self._coming = self._coming, self._arrived
            self._is_coming = False
        return self._take(self._arrived)

    def send(self, tensor: Tensor) -> None:
        """Start to copy the next value, unless one is still on its way."""
        if not self._is_coming:
            self._coming.copy_(tensor.detach(), non_blocking=True)
            if self._event is not None:
                self._event.record()
            self._is_coming = True


class DeferredReads:
    """Defers reads in the user's own code while entered for a step; other reads are unchanged.

    A read is identified by its line, its place in the line, and its count within the step. So a loop that reads until a
    condition is met ends as it did in the step before.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._events: Any = {"cuda": torch.cuda, "xpu": getattr(torch, "xpu", None), "mps": torch.mps}.get(device.type)
        self._real: dict[str, Any] = {}
        self._readings: dict[BatchPlace, DeferredRead] = {}
        self._times: Counter[BatchPlace] = Counter()
        self._is_open = False

    def begin(self) -> None:
        """Replace the methods of all tensors."""
        for name in DEFERRED:
            self._real[name] = vars(Tensor).get(name)
            setattr(Tensor, name, self._deferring(name, getattr(Tensor, name)))

    def end(self) -> None:
        for name, real in self._real.items():
            if real is None:
                delattr(Tensor, name)
            else:
                setattr(Tensor, name, real)
        self._real.clear()

    def __enter__(self) -> None:
        self._times.clear()
        self._is_open = True

    def __exit__(self, *_error: object) -> None:
        self._is_open = False

    def _deferring(self, name: str, real: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
        @functools.wraps(real)
        def deferring(tensor: Tensor) -> Any:
            if not self._is_open or tensor.device.type != self._device.type:
                return real(tensor)
            frame = caller()
            if not is_users(frame):
                return real(tensor)
            line = (name, frame.f_code, frame.f_lasti)
            self._times[line] += 1
            return self._read((*line, self._times[line]), tensor, real)

        return deferring

    def _read(self, place: BatchPlace, tensor: Tensor, real: Callable[[Tensor], Any]) -> Any:
        reading = self._readings.get(place)
        if reading is None or not reading.fits(tensor):
            event = self._events.Event() if self._events is not None else None
            reading = self._readings[place] = DeferredRead(tensor, real, event)
        value = reading.value()
        reading.send(tensor)
        return value


class TorchRunner(MarkedRunner):
    """What all runners do with their loader and their device. The step breakdown inspects `looked_into`."""

    looked_into: Any = None

    def __init__(self, source: BatchSource, clock: DeviceClock) -> None:
        self._source = source
        self._device_clock = clock
        self._seen: Any = None
        self.ready_batches = source.ready_batches
        self.holds = source.holds
        self.fence = clock.fence
        self.step_ns = clock.step_ns
        self.mark = clock.mark

    def repeat(self) -> None:
        self._source.repeat()

    def train(self, batch: Any) -> None:
        """Start one update on a batch that is in its place; a lane with only one stage trains nothing."""

    def step_seen(self) -> None:
        self._seen = batch = self._source()
        self.train(batch)

    def take_seen(self) -> SeenBatch | None:
        batch = self._seen
        self._seen = None
        return None if batch is None else see_batch(batch, count_batch_items(batch, batch))

    def parts(self) -> TorchStepParts:
        return TorchStepParts(self._source, self.train, self._device_clock.device, self.looked_into)

    def census(self) -> DenormalCensus | Missing:
        if self.looked_into is None:
            return NOTHING_COMPUTED
        batch = self._source()
        census = take_census(self.looked_into, lambda: self.train(batch))
        return replace(census, items=count_batch_items(batch, batch))

    def updates(self) -> Updates | None:
        """Read PyTorch's own counts of changes in place, and the steps that its optimizer has counted.

        A fused optimizer has the second alone. A graph that is replayed does not count its changes.
        """
        stepper = self.looked_into
        if stepper is None or not stepper.counts_updates:
            return None
        groups = stepper.optimizer.param_groups
        weights = (weight for group in groups for weight in group["params"] if not weight.is_inference())
        changes = sum(weight._version for weight in weights)  # noqa: SLF001  there is no other way
        steps = [state["step"] for state in stepper.optimizer.state.values() if isinstance(state.get("step"), Tensor)]
        changes += int(torch.stack(steps).sum()) if steps else 0
        return Updates(changes, sum(float(group["lr"]) for group in groups))

    def weights(self) -> Any | None:
        return None if self.looked_into is None else take_weights(self.looked_into.network)

    def take_late_step(self) -> LateStep | None:
        return None if self.looked_into is None else self.looked_into.take_late_step()

    def close(self) -> tuple[str, ...]:
        self._source.close()
        return self._source.notes()


class TimedStepper(Protocol):
    """A training that takes one step on a batch and returns its loss."""

    @property
    def precision(self) -> str: ...

    def held(self) -> Any:
        """Return the state that its steps change."""

    def hold(self, state: Any) -> None:
        """Take such a state."""

    def as_timed(self) -> Callable[[StepBatch], Any]:
        """Return what takes the timed steps."""


class EagerRunner(TorchRunner):
    """One step after another, as in a training loop."""

    def __init__(
        self,
        stepper: TimedStepper,
        source: BatchSource,
        clock: DeviceClock,
        evaluator: TorchEvaluator | None,
    ) -> None:
        super().__init__(source, clock)
        self.looked_into = stepper
        self._take_step = stepper.as_timed()
        self._next_batch: Callable[[], Any] = source.fetch if source.in_place else source
        self._own_batches = self._next_batch
        self.evaluator = evaluator
        self.place: Callable[[int], DataPlace] | None = None
        self._loss: Any = None

    def step(self) -> None:
        self._loss = self._take_step(self._next_batch())

    def rewinder(self) -> StateRewinder | Missing:
        if self.place is None:
            return NO_REWINDER
        stepper = self.looked_into
        device = self._device_clock.device
        return StateRewinder(
            TORCH_LEAVES, generators_of(device), stepper.held, stepper.hold, self.place, self._feed, self._run_again,
            stepper.precision,
        )  # fmt: skip

    def _feed(self, supply: Callable[[], Any] | None) -> None:
        self._next_batch = supply or self._own_batches

    def _run_again(self, steps: int) -> None:
        self.run(steps)
        self.fence()

    def train(self, batch: Any) -> None:
        self._loss = self._take_step(batch)

    def loss(self) -> float:
        return float(self._loss.detach() if isinstance(self._loss, Tensor) else self._loss)


class DeferredRunner(EagerRunner):
    """The same, but the step's code gets values of earlier steps wherever it reads one from the device."""

    def __init__(
        self,
        stepper: TimedStepper,
        source: BatchSource,
        clock: DeviceClock,
        evaluator: TorchEvaluator | None,
    ) -> None:
        super().__init__(stepper, source, clock, evaluator)
        self._deferred = deferred = DeferredReads(clock.device)
        deferred.begin()
        take_step = self._take_step

        def take_deferred(batch: StepBatch) -> Any:
            with deferred:
                return take_step(batch)

        self._take_step = take_deferred

    def close(self) -> tuple[str, ...]:
        self._deferred.end()
        return super().close()


class GraphRunner(TorchRunner):
    """The whole step (forward, backward, update) recorded once as a CUDA graph and replayed on each new batch."""

    def __init__(
        self, stepper: Stepper, source: BatchSource, clock: DeviceClock, evaluator: TorchEvaluator | None
    ) -> None:
        super().__init__(source, clock)
        self.looked_into = stepper
        self.evaluator = evaluator
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
    """A step on fixed buffers, warmed up on a side stream as PyTorch requires, then captured."""

    def __init__(self, stepper: Stepper, example: StepBatch) -> None:
        self._stepper = stepper
        is_row = isinstance(example, tuple | list)
        if not is_row or [isinstance(part, Tensor) for part in example] != [True, True]:
            kinds = f"({', '.join(type(part).__name__ for part in example)})" if is_row else type(example).__name__
            raise LaneError(f"execution=graph takes batches of two tensors, this training's are {kinds}", "use eager")
        self._inputs = example[0].clone()
        self._targets = example[1].clone()
        self._graph: Any = None
        self.loss: Tensor
        warm_up_for_capture(lambda: self._stepper((self._inputs, self._targets)))

    def feed(self, batch: StepBatch) -> None:
        self._inputs.copy_(batch[0], non_blocking=True)
        self._targets.copy_(batch[1], non_blocking=True)

    def capture(self) -> None:
        """Record the step; nothing is computed. Call it again when what was recorded has changed."""
        self._graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self._graph):
            self.loss = self._stepper((self._inputs, self._targets)).detach()

    def replay(self) -> None:
        self._graph.replay()


def warm_up_for_capture(run: Callable[[], object]) -> None:
    """Run a few times on a separate stream, as PyTorch requires before a capture."""
    stream = torch.cuda.Stream()  # type: ignore[no-untyped-call]
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(GRAPH_WARMUP_STEPS):
            run()
    torch.cuda.current_stream().wait_stream(stream)


class TorchLoaderRunner(TorchRunner):
    """The loader without training: it shows the ceiling that the loader sets.

    On a processor, the last part of the loader's work is to convert a batch (bytes to floats, a layout); on an
    accelerator, the copy is a separate stage.
    """

    evaluator = None

    def __init__(self, source: BatchSource, clock: DeviceClock) -> None:
        super().__init__(source, clock)
        self._take = source if clock.device.type == "cpu" else source.fetch

    def step(self) -> None:
        self._take()

    def step_seen(self) -> None:
        self.step()

    def loss(self) -> float:
        """Return 0: there is no loss, and the loop only checks that it is finite."""
        return 0.0


class TorchCopyRunner(TorchLoaderRunner):
    """Moves batches from host memory to the device, and does nothing with them."""

    def __init__(self, source: BatchSource, clock: DeviceClock) -> None:
        super().__init__(source, clock)
        self._take = source
        self._batch: Any = None

    def step(self) -> None:
        self._batch = self._take()


# How long a step's own Python computes between its operators, which no faster device makes shorter.

USUAL_S = 25e-6  # between two operators of a plain training: its Python, autograd, and the profiler itself
PLAINLY_MORE = 1.5  # times the usual: less is not told from it
FLUSH_OFTEN = 3  # steps at most, of which the least counts
FLUSH_PATIENCE_S = 1.0  # for all of them


def time_between(step: Callable[[Any], object], batch: Any) -> tuple[float, float]:
    """Return the seconds of a step in which no operator ran, beyond the usual, and how fast one core was meanwhile.

    The seconds are 0 unless they are half as much more than usual. Operators on a processor run one after another, so
    what is between them is Python, or waits.
    """
    found: list[tuple[float, float]] = []
    began_s = time.perf_counter()
    while len(found) < FLUSH_OFTEN and (not found or time.perf_counter() - began_s < FLUSH_PATIENCE_S):
        score = measure_core()
        with profile(activities=[ProfilerActivity.CPU]) as profiled:
            starts_s = time.perf_counter()
            step(batch)
            took_s = time.perf_counter() - starts_s
        spans = list(
            outermost(
                (event.time_range.start, event.time_range.end)
                for event in profiled.events()
                # operators; what autograd calls one in has a name of its own
                if "::" in event.name and not event.name.startswith("autograd::")
            )
        )
        usual_s = USUAL_S * len(spans)
        between_s = took_s - sum(end - start for start, end in spans) / 1e6
        more_s = between_s - usual_s if between_s > PLAINLY_MORE * usual_s else 0.0
        found.append((more_s, (score + measure_core()) / 2))
    return min(found)


def outermost(spans: Iterable[tuple[float, float]]) -> Iterable[tuple[float, float]]:
    """Yield the spans that lie in no other one, as they follow."""
    end = float("-inf")
    for start, stop in sorted(spans, key=lambda span: (span[0], -span[1])):
        if stop > end:
            yield max(start, end), stop
            end = stop
