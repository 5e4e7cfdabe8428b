"""Hooks of PyTorch: fetches, backward passes, optimizer steps, checkpoints, compilations, losses.

Each hook replaces a function by one that calls it and notes when. What hooks note is read back by
`laptime.analysis.script_units`, which knows nothing of PyTorch.
"""

from __future__ import annotations

import sys
from functools import wraps
from struct import pack, unpack
from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent
from .fetches import items_of

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

LOSSES_MOST = 2048  # kept, and not yet read, of one process
OWN = __name__.replace(".", "_")  # marks are per agent, of which a process may have two


def hook_loaders(agent: Agent, module: Any) -> None:
    """Note each batch, each end of a loader, and each start of one."""
    iterator, loader = module._BaseDataLoaderIter, module.DataLoader
    fetch, start = iterator.__next__, loader.__iter__
    note = agent.note
    mark = OWN + "_loader"

    @wraps(fetch)
    def __next__(self):
        if agent.is_off or agent.fetching:
            return fetch(self)
        begin = now_ns()
        try:
            batch = fetch(self)
        except StopIteration:
            note(kinds.END, begin, now_ns(), self.__dict__.get(mark, 0))
            raise
        end = now_ns()
        number = self.__dict__.get(mark, 0)
        note(kinds.FETCH, begin, end, number << kinds.ITEMS_SHIFT | items_of(batch))
        return batch

    @wraps(start)
    def __iter__(self):
        if agent.is_off:
            return start(self)
        begin = now_ns()
        found = start(self)
        end = now_ns()
        try:
            number = self.__dict__.get(mark)
            if number is None:
                number = self.__dict__[mark] = agent.new_number()
            agent.describe_once(number, _describe_loader, self)
            if isinstance(found, iterator):
                found.__dict__[mark] = number
            if not agent.fetching:
                note(kinds.OPEN, begin, end, number)
        except Exception as error:
            agent.failed("loader", error)
        return found

    iterator.__next__ = __next__
    loader.__iter__ = __iter__


def _describe_loader(loader: Any, number: int) -> dict:
    try:
        length = len(loader)
    except Exception:
        length = None
    facts = {
        name: getattr(loader, name, None) for name in ("num_workers", "batch_size", "pin_memory", "prefetch_factor")
    }
    facts["persistent_workers"] = getattr(loader, "persistent_workers", None)
    return {"loader": number, "batches": length, **facts}


def hook_backward(agent: Agent, module: Any) -> None:
    """Note each outermost backward pass, and keep its loss until it can be read without waiting for the device."""
    backward = module.backward
    note = agent.note
    losses = Losses(agent)
    agent.before_flush.append(losses.read)
    compiling = compiling_check()
    running = [False]

    @wraps(backward)
    def watched(tensors, *given, **named):
        if compiling() or running[0] or agent.is_off:  # a checkpointed block runs its own inside of the outer one
            return backward(tensors, *given, **named)
        running[0] = True
        begin = now_ns()
        try:
            result = backward(tensors, *given, **named)
        finally:
            running[0] = False
        end = now_ns()
        note(kinds.BACKWARD, begin, end)
        losses.keep(tensors, end)
        return result

    module.backward = watched


def compiling_check() -> Any:
    """Return the function that says whether TorchDynamo is tracing: it knows it, and leaves out what follows.

    What a compiler builds may have no trace of this file: `fullgraph=True` would fail.
    """
    torch = sys.modules["torch"]
    return lambda: torch.compiler.is_compiling()  # noqa: PLW0108  torch.compiler may not be imported yet


class Losses:
    """Losses that wait to be read. On a card, each is copied on a stream of its own once its step is done."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kept: list = []
        self._every, self._seen = 1, 0
        self._stream: Any = None  # of the card, so that reading a loss waits for no step

    def keep(self, tensors: Any, at_ns: int) -> None:
        """Keep a scalar loss; of very many, every second, fourth ... one."""
        try:
            self._seen += 1
            if self._seen % self._every or self._agent.is_off:
                return
            if isinstance(tensors, (list, tuple)):
                tensors = tensors[0] if len(tensors) == 1 else None
            if tensors is None or tensors.numel() != 1:
                return
            device = tensors.device.type
            if device not in ("cpu", "cuda"):
                return
            mark = self._mark() if device == "cuda" else None
            if device == "cpu" or mark is not None:
                self._kept.append((tensors.detach(), mark, at_ns))
            if len(self._kept) > LOSSES_MOST:
                self._kept = self._kept[::2]
                self._every *= 2
        except Exception as error:
            self._fail(error)

    def read(self) -> None:
        """Note the losses whose device is done with them."""
        try:
            waiting = []
            for loss, mark, at_ns in self._kept:
                if at_ns < self._agent.began_ns:
                    continue
                if mark is not None and not mark.query():
                    waiting.append((loss, mark, at_ns))
                    continue
                bits = unpack("<q", pack("<d", self._value_of(loss, mark)))[0]
                self._agent._events.extend((kinds.LOSS, at_ns, at_ns, bits))
            self._kept = waiting
        except Exception as error:
            self._fail(error)

    def _mark(self) -> Any:
        """Return an event after which the loss is there; None while a graph is captured, where nothing can be read."""
        cuda = sys.modules["torch"].cuda
        if cuda.is_current_stream_capturing():
            return None
        mark = cuda.Event()
        mark.record()
        return mark

    def _value_of(self, loss: Any, mark: Any) -> float:
        if mark is None:
            return loss.item()
        cuda = sys.modules["torch"].cuda
        if self._stream is None:
            self._stream = cuda.Stream(loss.device)
        with cuda.stream(self._stream):
            return loss.item()

    def _fail(self, error: Exception) -> None:
        self._kept, self._every = [], 1 << 62
        self._agent.failed("loss", error)


def hook_optimizers(agent: Agent, module: Any) -> None:
    """Note each step of each optimizer. A step inside of another one (a subclass calls its parent's) is part of it."""
    note = agent.note
    compiling = compiling_check()
    mark = OWN + "_optimizer"
    open_steps: list = []  # (optimizer, the frame that called this hook, when the step began)

    def before(optimizer, _given, _named):
        if compiling() or agent.is_off:
            return
        try:
            frame = sys._getframe(1)
            if open_steps and not _is_within(open_steps[0][1], frame):
                open_steps.clear()  # a step that raised never came to its end
            open_steps.append((optimizer, frame, now_ns()))
        except Exception as error:
            agent.failed("optimizer", error)

    def after(optimizer, _given, _named):
        if compiling() or not open_steps:
            return
        try:
            _, _, begin = open_steps.pop()
            if open_steps:
                return
            end = now_ns()
            agent.steps += 1
            number = optimizer.__dict__.get(mark)
            if number is None:
                number = optimizer.__dict__[mark] = agent.new_number()
            agent.describe_once(number, _describe_optimizer, optimizer)
            note(kinds.STEP, begin, end, number)
        except Exception as error:
            open_steps.clear()
            agent.failed("optimizer", error)

    module.register_optimizer_step_pre_hook(before)
    module.register_optimizer_step_post_hook(after)


def _is_within(outer: Any, frame: Any) -> bool:
    while frame is not None:
        if frame is outer:
            return True
        frame = frame.f_back
    return False


def _describe_optimizer(optimizer: Any, number: int) -> dict:
    devices: dict = {}
    kinds_of: set = set()
    for group in optimizer.param_groups:
        for each in group["params"]:
            name = str(each.device)
            devices[name] = devices.get(name, 0) + each.numel()
            kinds_of.add(str(each.dtype).replace("torch.", ""))
    name = type(optimizer).__name__
    return {"optimizer": number, "name": name, "parameters": devices, "dtypes": sorted(kinds_of)}


def hook_scaler(agent: Agent, module: Any) -> None:
    """Note the steps that a gradient scaler leaves out."""
    scaler = module.GradScaler
    step = scaler.step

    @wraps(step)
    def watched(self, optimizer, *given, **named):
        begin = now_ns()
        before = agent.steps
        result = step(self, optimizer, *given, **named)
        if agent.steps == before:
            agent.note(kinds.SKIP, begin, now_ns())
        return result

    scaler.step = watched


def hook_saving(agent: Agent, module: Any) -> None:
    """Note each checkpoint."""
    module.save = _noted(agent, module.save, kinds.SAVE)


def hook_safetensors(agent: Agent, module: Any) -> None:
    """Note each checkpoint that safetensors writes."""
    module.save_file = _noted(agent, module.save_file, kinds.SAVE)


def hook_compiler(agent: Agent, module: Any) -> None:
    """Note when TorchDynamo compiles."""
    began = []

    def on_begin(*_given: Any) -> None:
        began.append(now_ns())

    def on_end(*_given: Any) -> None:
        if began:
            agent.note(kinds.COMPILE, began.pop(), now_ns())

    module.on_compile_start(on_begin)
    module.on_compile_end(on_end)


def _noted(agent: Agent, function, kind: int):
    @wraps(function)
    def watched(*given, **named):
        begin = now_ns()
        try:
            return function(*given, **named)
        finally:
            agent.note(kind, begin, now_ns())

    return watched
