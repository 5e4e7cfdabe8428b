"""Holds a script that is raced at the end of an iteration until the parent lets it go on, and replays its batches.

The hooks of this file are set around those that note events, so that nothing of a hold is in an iteration's time. An
iteration ends with an optimizer's step, or with a batch of Keras. Where an iteration has several steps, the parent
finds out how many. Where no optimizer steps, backward passes are counted.
"""

from __future__ import annotations

import sys
from functools import wraps
from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent
from .fetches import items_of
from .keras_setting import report_steps_at_once
from .torch_hooks import LOADER, wrap_steps

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any


BACKWARDS_WITHOUT_STEP = 64  # backward passes without any step of an optimizer: the script changes its weights itself
BY_STEP = "step"
BY_BATCH = "batch"
BY_WORK = "worked"
BY_BACKWARD = "backward"
BY_FETCH = "fetch"
NEVER_AGAIN = 1 << 62
MEASURED_HOLDS = 10  # the first ones, at which the lengths of the weights are reported
MEASURED_ARRAYS = 1000  # of more, only the length of all together


class Hold:
    """Counts the ends of iterations of one process, and asks the parent after as many as it said."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kind: Any = None
        self._left = 1
        self._backwards = 0
        self._since_ns = 0
        self.logs: Any = None  # of Keras's last batch
        self._loss: Any = None  # of the last backward pass before a hold
        self._optimizers: list = []
        self._holds = 0
        self._count: Any = None  # what counts the operators of an iteration, while it does
        self.replay = Replay(agent, self.fetched)

    def passed(self, kind: str) -> None:
        """Count an end of an iteration, and hold where it is the last that may pass. Hooks call this: it never raises.

        If it fails, the parent hears no more of this process, and the script goes on.
        """
        try:
            if kind != BY_FETCH:
                self.replay.trained()
            if self._agent.is_off:
                return
            if kind != self._kind:
                if kind != BY_FETCH and self._kind is not None and self._kind != BY_BACKWARD:
                    return
                self._kind = kind  # which is counted from now on
            self._left -= 1
            if self._left <= 0:
                self._ask()
        except Exception:
            self._agent.disable()

    def passed_backward(self) -> None:
        """Count a backward pass. It ends an iteration only where nothing else does."""
        self._backwards += self._kind is None
        if self._kind == BY_BACKWARD or self._backwards >= BACKWARDS_WITHOUT_STEP:
            self.passed(BY_BACKWARD)

    def keep_loss(self, tensors: Any) -> None:
        """Keep the loss of an iteration that ends in a hold, where it is read. This never raises."""
        if self._left > 1:
            return
        try:
            if isinstance(tensors, (list, tuple)):
                tensors = tensors[0] if len(tensors) == 1 else None
            self._loss = tensors.detach() if tensors is not None and tensors.numel() == 1 else None
        except Exception:
            self._loss = None

    def stepped(self, optimizer: Any) -> None:
        """Note an optimizer, while the lengths of its weights are wanted."""
        if self._holds < MEASURED_HOLDS and not any(known is optimizer for known in self._optimizers):
            self._optimizers.append(optimizer)

    def passed_batch(self) -> None:
        """Count a batch of `laptime.steps`. It ends an iteration where no optimizer does."""
        self.passed(BY_WORK)

    def fetched(self) -> None:
        """Count a fetch of a loader that runs alone."""
        self.passed(BY_FETCH)

    def _begin_count(self) -> None:
        """Count operators from now on, where PyTorch computes. An old version has none of what that needs."""
        try:
            if "torch" in sys.modules:
                from .operators import counting

                self._count = counting()
                self._counted = self._count.__enter__()
        except Exception as error:
            self._count = None
            self._agent.failed("count", error)

    def _end_count(self) -> Any:
        """Return what was counted since the last hold; None if nothing was."""
        count = self._count
        self._count = None
        if count is None:
            return None
        from .operators import as_facts

        count.__exit__(None, None, None)
        return as_facts(self._counted)

    def _ask(self) -> None:
        work = self._end_count()
        wait_for_devices()
        at_ns = now_ns()
        self._holds += 1
        lengths = lengths_of(self._optimizers) if self._holds <= MEASURED_HOLDS else None
        if self._holds == MEASURED_HOLDS:
            self._optimizers = []
        try:
            loss = float(self.logs["loss"] if self._loss is None else self._loss.item())
        except Exception:
            loss = None
        self._loss = None
        answer = self._agent.ask(
            held=self._kind,
            since_ns=self._since_ns,
            at_ns=at_ns,
            idle_ns=self.replay.take_idle_ns(),
            loss=loss,
            lengths=lengths,
            device_bytes=device_memory(),
            peak_bytes=peak_memory(),
            threads=threads(),
            taken=self._agent.keras_steps,
            shapes=self.replay.shapes,
            redrawn=self.replay.redrawn,
            work=work,
        )
        what, self._left, batches = answer or (kinds.FREE, NEVER_AGAIN, 0)
        if what == kinds.FREE:
            self._left = NEVER_AGAIN
        elif what == kinds.REPLAY:
            self.replay.begin(batches)
        elif what == kinds.LOADER_ALONE:
            self.replay.run_alone = True
        elif what == kinds.FETCH_AGAIN:
            self.replay.fetch_again()
        elif what == kinds.TIME_LINES and self._agent.lines is not None:
            self._agent.lines.begin_soon()
        elif what == kinds.COUNT_WORK:
            self._begin_count()
        self._since_ns = now_ns()


def wait_for_devices() -> None:
    """Wait until all devices are done with what was started: a window ends when its work has ended."""
    try:
        torch: Any = sys.modules.get("torch")
        jax: Any = sys.modules.get("jax")
        tensorflow: Any = sys.modules.get("tensorflow")
        for name in ("cuda", "xpu"):
            device = getattr(torch, name, None)
            if device is not None and device.is_initialized():
                is_capturing = getattr(device, "is_current_stream_capturing", None)
                if is_capturing is None or not is_capturing():
                    device.synchronize()
        if getattr(torch, "mps", None) is not None and torch.backends.mps.is_available():
            torch.mps.synchronize()
        if jax is not None and hasattr(jax, "live_arrays"):
            jax.block_until_ready(jax.live_arrays())
        if tensorflow is not None and tensorflow.config.get_visible_devices("GPU"):
            tensorflow.test.experimental.sync_devices()
    except Exception:
        pass  # it is half imported, or has none of these: then nothing runs there


def device_memory() -> Any:
    """Return the most bytes that PyTorch held on a card; None if it uses none."""
    try:
        cuda = sys.modules["torch"].cuda
        return cuda.max_memory_reserved() if cuda.is_initialized() else None
    except Exception:
        return None


def peak_memory() -> Any:
    """Return the most bytes that this process held."""
    try:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    except Exception:
        return None


def threads() -> Any:
    """Return with how many threads PyTorch computes; None without it."""
    try:
        return sys.modules["torch"].get_num_threads()
    except Exception:
        return None


def lengths_of(optimizers: list) -> Any:
    """Return the length of each array that these optimizers train; None where that would need other processes."""
    try:
        torch: Any = sys.modules["torch"]
        groups = [group for optimizer in optimizers for group in optimizer.param_groups]
        arrays = [array for group in groups for array in group["params"]]
        if not arrays or any(type(array) not in (torch.Tensor, torch.nn.Parameter) for array in arrays):
            return None
        lengths = [float(torch.linalg.vector_norm(array.detach(), dtype=torch.float64)) for array in arrays]
        if any(length - length != 0 for length in lengths):  # not finite, for which JSON has no word
            return None
        return lengths if len(lengths) <= MEASURED_ARRAYS else [sum(length**2 for length in lengths) ** 0.5]
    except Exception:  # a device without float64, or an optimizer of the script's own
        return None


def hold_optimizers(agent: Agent, module: Any) -> None:
    """Hold after a step. A step inside of another one is part of it."""
    hold = agent.hold
    is_inside = False

    def held(step: Any) -> Any:
        @wraps(step)
        def watched(*given, **named):
            nonlocal is_inside
            if is_inside or agent.is_off:
                return step(*given, **named)
            before = agent.steps
            is_inside = True
            try:
                result = step(*given, **named)
            finally:
                is_inside = False
            if agent.steps != before:  # else a compiler is tracing it
                hold.stepped(given[0] if given else None)
                hold.passed(BY_STEP)
            return result

        return watched

    wrap_steps(agent, module.Optimizer, held)


def hold_scaler(agent: Agent, module: Any) -> None:
    """Count the steps that a gradient scaler leaves out."""
    scaler = module.GradScaler
    step = scaler.step

    @wraps(step)
    def watched(self, optimizer, *given, **named):
        before = agent.steps
        result = step(self, optimizer, *given, **named)
        if agent.steps == before:
            agent.hold.passed(BY_STEP)
        return result

    scaler.step = watched


def hold_backward(agent: Agent, module: Any) -> None:
    """Count backward passes, for scripts without an optimizer."""
    backward = module.backward

    @wraps(backward)
    def watched(*given, **named):
        result = backward(*given, **named)
        agent.hold.keep_loss(given[0] if given else named.get("tensors"))
        agent.hold.passed_backward()
        return result

    module.backward = watched


def hold_batches(agent: Agent, module: Any) -> None:
    """Hold after a batch of Keras, and after its callbacks."""
    listed = module.CallbackList
    hold = agent.hold
    begin_training: Any = getattr(listed, "on_train_begin", None)
    end = listed.on_train_batch_end

    def begun(self, *given, **named):
        try:
            report_steps_at_once(agent, self)
        except Exception as error:
            agent.failed("steps at once", error)
        return begin_training(self, *given, **named)

    @wraps(end)
    def watched(self, batch, logs=None):
        hold.logs = logs
        result = end(self, batch, logs)
        hold.passed(BY_BATCH)
        return result

    if begin_training is not None:
        listed.on_train_begin = wraps(begin_training)(begun)
    listed.on_train_batch_end = watched


# The ceilings of a script that is not changed: its training without its loader, and its loader without the training.
#
# For the first, the loader that trains gives the same few batches again and again. For the second, the script is kept
# inside of a fetch, and the loader goes on as if the script fetched one batch after another.

REPLAYED_MOST_BYTES = 1 << 28  # of batches that are kept
SHAPES_MOST = 64
# Items that are fetched again, as in engine/heat/work.py: how many, how often, and for how long at most
AGAIN_ITEMS = 8
AGAIN_TIMES = 4
AGAIN_NS = 1_000_000_000


class Replay:
    """What the fetches of the loader that trains do: fetch, replay, or run alone."""

    def __init__(self, agent: Agent, fetched: Any) -> None:
        self._agent = agent
        self._fetched = fetched
        self._last = 0  # the loader that was fetched from last: a step that follows trains on its batches
        self._trained: set = set()
        self._loaders: dict = {}
        self.run_alone = False
        self._wanted = 0
        self._kept: list = []
        self._iterators: dict = {}  # of the loaders whose batches are replayed
        self._idle_ns = 0
        self._shapes: set = set()
        self.redrawn: Any = None  # whether an item differs when it is fetched again, once that was asked

    @property
    def shapes(self) -> int:
        """How many different shapes the batches had that are trained on."""
        return len(self._shapes)

    def begin(self, batches: int) -> None:
        """Keep the next batches of the loader that trains, as many as this, and replay them from then on."""
        self._wanted = batches

    def fetch_again(self) -> None:
        """Fetch some items of the data set that trains several times, and note whether they differ.

        Only items by number: to walk through other data would take it from the script.
        """
        for number in self._trained & set(self._loaders):
            dataset = getattr(self._loaders[number], "dataset", None)
            if hasattr(dataset, "__getitem__") and hasattr(dataset, "__len__"):
                self.redrawn = find_redrawn(dataset)
                return

    def trained(self) -> None:
        """Note that a batch was trained on. A script may make a new loader for each epoch."""
        self._trained.add(self._last)

    def take_idle_ns(self) -> int:
        """Return for how long a loader that runs alone was started again since the last call."""
        idle_ns = self._idle_ns
        self._idle_ns = 0
        return idle_ns

    def next(self, iterator: Any, fetch: Any) -> Any:
        """Return the next batch that the script gets from this iterator."""
        try:
            number = self._last = iterator.__dict__.get(LOADER, 0)
            is_trained = number in self._trained
            is_used = is_trained and number in self._loaders and (self._wanted > 0 or self.run_alone)
            is_replayed = is_used and not self.run_alone and len(self._kept) >= self._wanted
        except Exception:
            self._agent.disable()
            return fetch(iterator)
        if is_used and self.run_alone:
            self._go_on_alone(iterator, fetch, self._loaders[number])
        if is_replayed:
            return self._again(iterator, fetch, number)
        batch = fetch(iterator)
        try:
            if is_used:
                self._keep(batch)
            elif is_trained and len(self._shapes) < SHAPES_MOST:
                self._shapes.add(tuple(tuple(tensor.shape) for tensor in _tensors_in(batch)))
        except Exception:
            self._agent.disable()
        return batch

    def start(self, loader: Any, start: Any) -> Any:
        """Return an iterator of a loader. Once its batches are replayed, it starts no more workers."""
        try:
            begin = now_ns()
            iterator = self._iterators.get(loader.__dict__.get(LOADER))
            if iterator is not None:
                iterator._num_yielded = 0
                self._agent.note(kinds.LOADER_OPEN, begin, now_ns(), iterator.__dict__[LOADER])
                return iterator
        except Exception:
            self._agent.disable()
        found = start(loader)
        if LOADER in loader.__dict__:
            self._loaders[loader.__dict__[LOADER]] = loader
        return found

    def _keep(self, batch: Any) -> None:
        kept = KeptBatch(batch)
        self._kept.append(kept)
        if kept.bytes * (len(self._kept) + 1) > REPLAYED_MOST_BYTES:
            self._wanted = len(self._kept)

    def _again(self, iterator: Any, fetch: Any, number: int) -> Any:
        begin = now_ns()
        try:
            self._iterators[number] = iterator
            loader = self._loaders[number]
            try:
                length = len(loader)
            except Exception:
                length = None
            is_over = length is not None and iterator._num_yielded >= length
            if not is_over:
                kept = self._kept[iterator._num_yielded % len(self._kept)]
                iterator._num_yielded += 1
                batch = kept.give()
        except Exception:
            self._agent.disable()
            return fetch(iterator)
        if is_over:
            self._agent.note(kinds.LOADER_END, begin, now_ns(), number)
            raise StopIteration
        self._agent.note(kinds.FETCH, begin, now_ns(), number << kinds.ITEMS_SHIFT | items_of(batch))
        return batch

    def _go_on_alone(self, iterator: Any, fetch: Any, loader: Any) -> None:
        """Fetch until the process is ended: the script gets no further batch."""
        while not self._agent.is_off:
            try:
                fetch(iterator)
            except StopIteration:
                begin = now_ns()
                iterator = iter(loader)
                self._idle_ns += now_ns() - begin
                continue
            self._fetched()


def find_redrawn(dataset: Any) -> Any:
    """Return whether any of some items differs when it is fetched again, within a second; None if that fails."""
    if type(dataset) in (list, tuple):
        return False  # it holds its items
    try:
        began = now_ns()
        for number in range(min(AGAIN_ITEMS, len(dataset))):
            first = _values_in(dataset[number])
            for _ in range(AGAIN_TIMES - 1):
                if _values_in(dataset[number]) != first:
                    return True
                if now_ns() - began > AGAIN_NS:
                    return False
    except Exception:  # it is used in workers only, or has no such number
        return None
    return False


def _values_in(item: Any) -> list:
    if isinstance(item, dict):
        item = list(item.values())
    if isinstance(item, (list, tuple)):
        return [value for part in item for value in _values_in(part)]
    if isinstance(item, (bool, int, float, str, bytes)):
        return [item]
    array = item.detach().cpu().numpy() if hasattr(item, "detach") else item
    return [array.tobytes()] if hasattr(array, "tobytes") else []


class KeptBatch:
    """A batch that is given again and again. If the script changed its values, they are put back first."""

    def __init__(self, batch: Any) -> None:
        self._batch = batch
        self._tensors = [(tensor, tensor.detach().clone()) for tensor in _tensors_in(batch)]
        self._versions = self._versions_now()
        self.bytes = sum(tensor.numel() * tensor.element_size() for tensor, _ in self._tensors)

    def give(self) -> Any:
        if self._versions_now() != self._versions:
            for tensor, before in self._tensors:
                tensor.detach().copy_(before)
            self._versions = self._versions_now()
        return self._batch

    def _versions_now(self) -> list:
        return [tensor._version for tensor, _ in self._tensors]


def _tensors_in(batch: Any) -> list:
    if hasattr(batch, "element_size") and hasattr(batch, "_version"):
        return [batch]
    if isinstance(batch, dict):
        batch = list(batch.values())
    if isinstance(batch, (list, tuple)):
        return [tensor for part in batch for tensor in _tensors_in(part)]
    inner = getattr(batch, "data", None)  # a batch of tokens, as tokenizers make them
    return _tensors_in(inner) if isinstance(inner, dict) else []


def hold_loaders(agent: Agent, module: Any) -> None:
    """Let the fetches of data loaders go through the replay."""
    iterator = module._BaseDataLoaderIter
    loader = module.DataLoader
    fetch = iterator.__next__
    start = loader.__iter__
    replay = agent.hold.replay

    @wraps(fetch)
    def __next__(self):
        return fetch(self) if agent.is_off else replay.next(self, fetch)

    @wraps(start)
    def __iter__(self):
        return start(self) if agent.is_off else replay.start(self, start)

    iterator.__next__ = __next__
    loader.__iter__ = __iter__
