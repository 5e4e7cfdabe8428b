"""Hooks of PyTorch: fetches, backward passes, optimizer steps, checkpoints, compilations, losses.

Each hook replaces a function by one that calls it and notes when. What hooks note is read back by
`laptime.analysis.script_units`, which knows nothing of PyTorch.
"""

from __future__ import annotations

import sys
from _thread import get_ident
from functools import wraps
from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent, pack_event
from .fetches import items_of
from .losses import Losses

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

FETCH, BACKWARD, STEP, ITEMS_SHIFT = kinds.FETCH, kinds.BACKWARD, kinds.STEP, kinds.ITEMS_SHIFT
OWN = __name__.replace(".", "_")  # marks are per agent, of which a process may have two
LOADER = OWN + "_loader"  # the number of a loader, on itself and on its iterators


def hook_loaders(agent: Agent, module: Any) -> None:
    """Note each batch, each end of a loader, and each start of one."""
    iterator, loader = module._BaseDataLoaderIter, module.DataLoader
    fetch, start = iterator.__next__, loader.__iter__
    note, keep = agent.note, agent.keep
    mark = LOADER

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
        try:
            end = now_ns()
            kind, thread = FETCH, get_ident()
            if thread != agent.first_thread:
                kind = agent.of_thread(kind, thread)
            keep(pack_event(kind, begin, end, self.__dict__.get(mark, 0) << ITEMS_SHIFT | items_of(batch)))
            if end >= agent.flush_at:
                agent.flush(end)
        except Exception:
            agent.disable()
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
    names = ("num_workers", "batch_size", "pin_memory", "persistent_workers", "prefetch_factor")
    facts = {name: getattr(loader, name, None) for name in names}
    return {"loader": number, "batches": length, **facts}


def hook_backward(agent: Agent, module: Any) -> None:
    """Note each outermost backward pass, and keep its loss until it can be read without waiting for the device."""
    backward = module.backward
    keep, is_running = agent.keep, False
    losses = Losses(agent)
    agent.before_flush.append(losses.read)

    @wraps(backward)
    def watched(tensors, *given, **named):
        nonlocal is_running
        if is_running or agent.is_off:  # a checkpointed block runs its own inside of the outer one
            return backward(tensors, *given, **named)
        is_running = True
        begin = now_ns()
        try:
            result = backward(tensors, *given, **named)
        finally:
            is_running = False
        try:
            end = now_ns()
            kind, thread = BACKWARD, get_ident()
            if thread != agent.first_thread:
                kind = agent.of_thread(kind, thread)
            keep(pack_event(kind, begin, end, 0))
            if end >= losses.next_ns:
                losses.keep(tensors, end)
            if end >= agent.flush_at:
                agent.flush(end)
        except Exception:
            agent.disable()
        return result

    module.backward = watched


def compiling_check() -> Any:
    """Return the function that says whether TorchDynamo is tracing: it knows it, and leaves out what follows.

    What a compiler builds may have no trace of this file: `fullgraph=True` would fail.
    """
    torch = sys.modules["torch"]
    known = getattr(getattr(torch, "compiler", None), "is_dynamo_compiling", None)
    return known or (lambda: torch.compiler.is_compiling())  # noqa: PLW0108  it may be imported later


def hook_optimizers(agent: Agent, module: Any) -> None:
    """Note each step of each optimizer. A step inside of another one (a subclass calls its parent's) is part of it.

    An optimizer's class has its `step` wrapped by PyTorch when the first of it is made; this wraps it once more.
    """
    base = module.Optimizer
    wrap = base.profile_hook_step
    keep, compiling = agent.keep, compiling_check()
    mark = OWN + "_optimizer"
    is_inside = False

    def timed(step: Any) -> Any:
        @wraps(step)
        def watched(*given, **named):
            nonlocal is_inside
            if compiling() or is_inside or agent.is_off:
                return step(*given, **named)
            is_inside = True
            begin = now_ns()
            try:
                result = step(*given, **named)
            finally:
                is_inside = False
            try:
                end = now_ns()
                agent.steps += 1
                optimizer = given[0]
                number = optimizer.__dict__.get(mark)
                if number is None:
                    number = optimizer.__dict__[mark] = agent.new_number()
                if number not in agent.described:
                    agent.describe_once(number, _describe_optimizer, optimizer)
                keep(pack_event(STEP, begin, end, number))
                if end >= agent.flush_at:
                    agent.flush(end)
            except Exception as error:
                agent.failed("optimizer", error)
            return result

        return watched

    base.profile_hook_step = staticmethod(lambda step: timed(wrap(step)))
    for each in subclasses_of(base):
        if getattr(each.__dict__.get("step"), "hooked", False):
            each.step = timed(each.step)


def subclasses_of(base: Any) -> list:
    direct = base.__subclasses__()
    return direct + [each for one in direct for each in subclasses_of(one)]


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
