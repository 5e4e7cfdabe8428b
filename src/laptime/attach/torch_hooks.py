"""Hooks of PyTorch: fetches, backward passes, optimizer steps, evaluation, checkpoints, compilations; losses, memory
and denormal numbers, which are read later; and waits for a disk.

Each hook replaces a function by one that calls it and notes when. All that a hook does before and after the call is
within a `try`: an error of ours switches the hook off, and never reaches the script. What hooks note is read back by
`laptime.analysis.script_units`, which knows nothing of PyTorch.
"""

from __future__ import annotations

import os
import sys
from functools import partial, wraps
from struct import pack, unpack
from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent
from .fetches import describe_loading, items_of
from .lines import timer_of
from .memory import Memory
from .places import place_here, text_here

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any


FETCH_KIND = kinds.FETCH
BACKWARD_KIND = kinds.BACKWARD
STEP_KIND = kinds.STEP
SHIFT = kinds.ITEMS_SHIFT
ITEMS_AS_BEFORE = kinds.AS_BEFORE
TORCH_MARKS = __name__.replace(".", "_")  # marks are per agent, of which a process may have two
LOADER = TORCH_MARKS + "_loader"  # of a loader, and of what goes through it: its number
SHORT_NS = 20_000  # a stretch without gradients that is shorter is no pass of a model
KNOWN_MARK = TORCH_MARKS + "_known"  # of what goes through a loader: the kind and the value of its next event


def hook_loaders(agent: Agent, module: Any) -> None:
    """Note each batch, each end of a loader, and each start of one."""
    _hook_fetches(agent, module._BaseDataLoaderIter)
    _hook_starts(agent, module.DataLoader, module._BaseDataLoaderIter)


def _hook_fetches(agent: Agent, iterator: Any) -> None:
    fetch = iterator.__next__
    keep = agent.keep
    due = agent.due
    is_failed = False

    @wraps(fetch)
    def __next__(self):
        if agent.fetching or is_failed:
            return fetch(self)
        begin = now_ns()
        try:
            batch = fetch(self)
        except StopIteration:
            finish(self, begin)
            raise
        try:
            end = now_ns()
            known = getattr(self, KNOWN_MARK, None)
            if known is None or end >= due[FETCH_KIND]:
                look(self, batch, begin, end)
            else:
                kind, value = known
                keep((kind, begin, end, value))
        except Exception as error:
            fail(error)
        return batch

    def look(self: Any, batch: Any, begin: int, end: int) -> None:
        """Note a batch with its thread and its items."""
        if agent.is_off:
            return
        kind = agent.kind_here(FETCH_KIND)
        shifted = getattr(self, LOADER, 0) << SHIFT
        setattr(self, KNOWN_MARK, (kind, shifted | ITEMS_AS_BEFORE))
        keep((kind, begin, end, shifted | items_of(batch)))
        agent.looked(FETCH_KIND, end)

    def finish(self: Any, begin: int) -> None:
        """Note the end of a loader."""
        try:
            agent.note(kinds.LOADER_END, begin, now_ns(), getattr(self, LOADER, 0))
        except Exception as error:
            fail(error)

    def fail(error: Exception) -> None:
        nonlocal is_failed
        is_failed = True
        agent.failed("fetch", error)

    iterator.__next__ = __next__


def _hook_starts(agent: Agent, loader: Any, iterator: Any) -> None:
    start = loader.__iter__

    @wraps(start)
    def __iter__(self):
        if agent.is_off:
            return start(self)
        begin = now_ns()
        agent.loaders_started += 1
        found = start(self)
        end = now_ns()
        try:
            number = self.__dict__.get(LOADER)
            if number is None:
                number = self.__dict__[LOADER] = agent.new_number()
            agent.describe_once(number, _describe_loader, self)
            if isinstance(found, iterator):
                setattr(found, LOADER, number)
                setattr(found, KNOWN_MARK, None)
            if not agent.fetching:
                agent.note(kinds.LOADER_OPEN, begin, end, number)
        except Exception as error:
            agent.failed("loader", error)
        return found

    loader.__iter__ = __iter__


def _describe_loader(loader: Any, number: int) -> dict:
    try:
        length = len(loader)
    except Exception:
        length = None
    return {"loader": number, "batches": length, **describe_loading(loader)}


def hook_backward(agent: Agent, module: Any) -> None:
    """Note each outermost backward pass, and keep its loss until it can be read without waiting for the device."""
    backward = module.backward
    keep = agent.keep
    due = agent.due
    kind = BACKWARD_KIND
    is_running = False  # and stays so once this hook has failed
    losses = Losses(agent)
    lines = timer_of(agent)
    agent.before_flush += [losses.read, Memory(agent).look]

    @wraps(backward)
    def watched(tensors, *given, **named):
        nonlocal is_running
        if is_running:  # a checkpointed block runs its own inside of the outer one
            return backward(tensors, *given, **named)
        is_running = True
        begin = now_ns()
        try:
            result = backward(tensors, *given, **named)
        finally:
            is_running = False
        try:
            end = now_ns()
            agent.backwards += 1
            if end >= due[BACKWARD_KIND]:
                look(tensors, begin, end)
                lines.look_at_graph(tensors, given, named)
            else:
                keep((kind, begin, end, 0))
        except Exception as error:
            is_running = True
            agent.failed("backward", error)
        return result

    def look(tensors: Any, begin: int, end: int) -> None:
        """Note a backward pass with its thread and its loss."""
        nonlocal kind
        if agent.is_off:
            lines.leave()
            return
        kind = agent.kind_here(BACKWARD_KIND)
        agent.trains = True
        keep((kind, begin, end, 0))
        losses.keep(tensors, end)
        agent.looked(BACKWARD_KIND, end)
        lines.stepped(BACKWARD_KIND, agent.backwards)

    module.backward = watched


def hook_grad_modes(agent: Agent, module: Any) -> None:
    """Note what runs without gradients, once this process trains.

    Within a function of autograd's own, gradients are off before: a checkpointed block is a forward pass.
    """
    mark = TORCH_MARKS + "_begin"
    for name, computes_none in (
        ("no_grad", lambda mode: mode.prev),
        ("inference_mode", lambda mode: mode.mode),
        ("set_grad_enabled", lambda mode: mode.prev and not mode.mode),
    ):
        kind = getattr(module, name, None)
        if kind is not None:
            kind.__enter__ = _begun(agent, mark, kind.__enter__)
            kind.__exit__ = _ended(agent, mark, kind.__exit__, computes_none)


def _begun(agent: Agent, mark: str, enter: Any) -> Any:
    @wraps(enter)
    def __enter__(self):
        try:
            setattr(self, mark, now_ns())
        except Exception as failure:  # a mode of the script's own may take no attributes
            agent.failed("evaluation", failure)
        return enter(self)

    return __enter__


def _ended(agent: Agent, mark: str, leave: Any, computes_none: Any) -> Any:
    @wraps(leave)
    def __exit__(self, *error):
        result = leave(self, *error)
        try:
            if agent.steps and not agent.looks_itself:
                end = now_ns()
                begin = getattr(self, mark, end)
                if end - begin >= SHORT_NS and computes_none(self):
                    agent.note(kinds.NO_GRAD, begin, end, place_here(agent))
        except Exception as failure:
            agent.failed("evaluation", failure)
        return result

    return __exit__


DOUBLES_MOST = 64  # arrays of float64 that may become weights


def hook_default_type(agent: Agent, module: Any) -> None:
    """Keep where the script makes float64 the type of all new weights."""
    if hasattr(module, "set_default_dtype"):
        module.set_default_dtype = _changes_type(agent, module.set_default_dtype, "default")
    if not hasattr(module, "from_numpy"):
        return
    convert = module.from_numpy

    # Keep where arrays of float64 come in before the first step, too: some of them may be weights.
    @wraps(convert)
    def from_numpy(array):
        tensor = convert(array)
        if not agent.steps and len(agent.doubles) < DOUBLES_MOST:
            try:
                if tensor.dtype is sys.modules["torch"].float64:
                    agent.doubles[tensor.data_ptr()] = text_here()
            except Exception as failure:
                agent.failed("types", failure)
        return tensor

    module.from_numpy = from_numpy


def _changes_type(agent: Agent, change: Any, name: str) -> Any:
    @wraps(change)
    def watched(*given, **named):
        try:
            double = getattr(sys.modules["torch"], "float64", agent)
            if name == "double" or any(value is double for value in (*given, *named.values())):
                agent.double_at = text_here() or agent.double_at
        except Exception as failure:
            agent.failed("types", failure)
        return change(*given, **named)

    return watched


def hook_modules(agent: Agent, module: Any) -> None:
    """Note how long a model evaluates, once this process trains: from its `eval()` to its `train()`.

    Keep where the script makes float64 the type of a model.
    """
    base = module.Module
    evaluate = base.eval
    train = base.train
    evaluated = [0, 0, 0]  # which model, since when, and in which place

    @wraps(evaluate)
    def watched_eval(self):
        try:
            if agent.trains:
                evaluated[:] = id(self), now_ns(), place_here(agent)
        except Exception as failure:
            agent.failed("evaluation", failure)
        return evaluate(self)

    @wraps(train)
    def watched_train(self, mode=True):  # noqa: FBT002  as PyTorch's own
        try:
            if mode and evaluated[0] == id(self):
                agent.note(kinds.EVALUATED, evaluated[1], now_ns(), evaluated[2])
                evaluated[0] = 0
        except Exception as failure:
            agent.failed("evaluation", failure)
        return train(self, mode)

    base.eval = watched_eval
    base.train = watched_train
    for name in ("double", "to"):
        setattr(base, name, _changes_type(agent, getattr(base, name), name))


def compiling_check() -> Any:
    """Return the function that says whether TorchDynamo is tracing: it knows it, and leaves out what follows.

    What a compiler builds may have no trace of this file: `fullgraph=True` would fail. PyTorch before 2.2 has no such
    function; what its compiler makes of a hook runs as part of the step. Call this once all of PyTorch is imported.
    """
    compiler = getattr(sys.modules["torch"], "compiler", None)
    known = getattr(compiler, "is_dynamo_compiling", None) or getattr(compiler, "is_compiling", None)
    return known if callable(known) else _is_never


def _is_never() -> bool:
    return False


def hook_optimizers(agent: Agent, module: Any) -> None:
    """Note each step of each optimizer. A step inside of another one (a subclass calls its parent's) is part of it.

    An optimizer's class has its `step` wrapped by PyTorch when the first of it is made; this wraps it once more.
    """
    keep = agent.keep
    due = agent.due
    mark = TORCH_MARKS + "_optimizer"
    is_inside = has_failed = False
    census = Census(agent)
    lines = timer_of(agent)

    def timed(step: Any) -> Any:
        compiling = compiling_check()  # an optimizer is made: PyTorch is there
        lines.count_by(STEP_KIND)

        @wraps(step)
        def watched(self, *given, **named):
            nonlocal is_inside, has_failed
            if compiling() or is_inside or has_failed:
                return step(self, *given, **named)
            is_inside = True
            begin = now_ns()
            try:
                result = step(self, *given, **named) if given or named else step(self)
            finally:
                is_inside = False
            try:
                end = now_ns()
                agent.steps += 1
                number = getattr(self, mark, 0)
                if end >= due[STEP_KIND] or not number:
                    look(self, begin, end)
                else:
                    keep((STEP_KIND, begin, end, number))
            except Exception as error:
                has_failed = True
                agent.failed("optimizer", error)
            return result

        return watched

    def look(optimizer: Any, begin: int, end: int) -> None:
        """Note a step, and describe the optimizer if that was not done."""
        if agent.is_off:
            lines.leave()
            return
        number = optimizer.__dict__.get(mark)
        if number is None:
            number = optimizer.__dict__[mark] = agent.new_number()
        if number not in agent.described:
            agent.describe_once(number, partial(_describe_optimizer, agent), optimizer)
            hook_copies(agent, optimizer)
        keep((STEP_KIND, begin, end, number))
        agent.looked(STEP_KIND, end)
        if agent.steps >= census.due:
            census.look(optimizer)
        lines.stepped(STEP_KIND, agent.steps)

    hook_syncs(agent)
    wrap_steps(agent, module.Optimizer, timed)


def wrap_steps(agent: Agent, base: Any, around: Any) -> None:
    """Put a hook around the steps of all optimizers: of those that PyTorch has wrapped, and as it wraps the others."""
    wrap = base.profile_hook_step

    def wrapped(step: Any) -> Any:
        found = wrap(step)
        try:
            return around(found)
        except Exception as error:
            agent.failed("optimizer", error)
            return found

    base.profile_hook_step = staticmethod(wrapped)
    for subclass in subclasses_of(base):
        if getattr(subclass.__dict__.get("step"), "hooked", False):
            subclass.step = around(subclass.step)


def subclasses_of(base: Any) -> list:
    direct = base.__subclasses__()
    return direct + [subclass for one in direct for subclass in subclasses_of(one)]


def _describe_optimizer(agent: Agent, optimizer: Any, number: int) -> dict:
    devices: dict = {}
    kinds_of: set = set()
    tensors = 0
    for group in optimizer.param_groups:
        for weight in group["params"]:
            tensors += 1
            name = str(weight.device)
            devices[name] = devices.get(name, 0) + weight.numel()
            kinds_of.add(str(weight.dtype).replace("torch.", ""))
            agent.double_at = agent.double_at or (agent.doubles and agent.doubles.get(weight.data_ptr())) or None
    name = type(optimizer).__name__
    facts = {"optimizer": number, "name": name, "parameters": devices, "dtypes": sorted(kinds_of)}
    torch = sys.modules["torch"]
    # How it computes, and what holds in the process while it does.
    facts["of_tensors"] = tensors
    facts["fused"] = bool(getattr(optimizer, "defaults", {}).get("fused"))
    for name, place, function in (
        ("threads", torch, "get_num_threads"),
        ("anomaly", torch, "is_anomaly_enabled"),
        ("mkldnn", getattr(torch, "_C", None), "_get_mkldnn_enabled"),
    ):
        facts[name] = getattr(place, function, lambda: None)()
    return {**facts, "double_at": agent.double_at}


def hook_copies(agent: Agent, optimizer: Any) -> None:
    """Note copies to a card, once a training has parameters on one. On a processor nothing is hooked."""
    places = {str(weight.device) for group in optimizer.param_groups for weight in group["params"]}
    if agent.sees_copies or places <= {"cpu"}:
        return
    agent.sees_copies = True
    tensor = sys.modules["torch"].Tensor
    for name in ("to", "cuda"):
        setattr(tensor, name, _copied(agent, getattr(tensor, name)))
    agent.tell(sees_copies=True)


def _copied(agent: Agent, move: Any) -> Any:
    compiling = compiling_check()
    is_failed = False

    @wraps(move)
    def watched(self, *given, **named):
        nonlocal is_failed
        if compiling() or agent.is_off or is_failed:
            return move(self, *given, **named)
        begin = now_ns()
        moved = move(self, *given, **named)
        try:
            if self.device.type == "cpu" and moved.device.type != "cpu":
                agent.note(kinds.COPY, begin, now_ns())
        except Exception as error:
            is_failed = True
            agent.failed("copies", error)
        return moved

    return watched


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
        agent.compiles = True
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
            agent.note(kind, begin, now_ns(), place_here(agent))

    return watched


# Losses of PyTorch: each is read when the device is done with it, so that no step waits.


class Losses:
    """Losses that wait to be read. On a card, each is copied on a stream of its own once its step is done."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kept: list = []
        self._has_failed = False
        self._stream: Any = None  # of the card, so that reading a loss waits for no step

    def keep(self, tensors: Any, at_ns: int) -> None:
        """Keep a scalar loss. Reading one takes as long as all hooks together, so few are kept."""
        if self._has_failed:
            return
        try:
            if isinstance(tensors, (list, tuple)):
                tensors = tensors[0] if len(tensors) == 1 else None
            if tensors is None or tensors.numel() != 1 or self._agent.is_off:
                return
            device = tensors.device.type
            mark: Any = None  # an event after which the loss is there
            if device == "cuda":
                cuda = sys.modules["torch"].cuda
                if cuda.is_current_stream_capturing():  # while a graph is captured, nothing can be read
                    return
                mark = cuda.Event()
                mark.record()
            elif device != "cpu":
                return
            self._kept.append((tensors.detach(), mark, at_ns))
        except Exception as error:
            self._fail(error)

    def read(self) -> None:
        """Note the losses whose device is done with them."""
        try:
            waiting = []
            for loss, mark, at_ns in self._kept:
                if at_ns < self._agent.began_ns:
                    continue
                if mark is None:
                    value = loss.item()
                elif mark.query():
                    cuda = sys.modules["torch"].cuda
                    if self._stream is None:
                        self._stream = cuda.Stream(loss.device)
                    with cuda.stream(self._stream):
                        value = loss.item()
                else:
                    waiting.append((loss, mark, at_ns))
                    continue
                bits = unpack("<q", pack("<d", value))[0]
                self._agent.keep((kinds.LOSS, at_ns, at_ns, bits))
            self._kept = waiting
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._kept = []
        self._has_failed = True
        self._agent.failed("loss", error)


# Denormal numbers in the gradients and the moments of a script's optimizer: a few of them, a few times.

FIRST = 64  # steps until the first look; then after twice as many each time
TENSORS_MOST = 32  # of each kind
NUMBERS_MOST = 1024  # of each tensor
# Of a float32: denormal where the first is 0 and the second is not
EXPONENT = 0x7F800000
FRACTION = 0x007FFFFF


class Census:
    """Looks at the optimizers of a training on a processor. If looking fails, the script goes on without it."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self.due = FIRST

    def look(self, optimizer: Any) -> None:
        """Count after a step of the optimizer: its gradients are still there."""
        self.due = 2 * self._agent.steps
        self._agent.looks_itself = True
        try:
            torch = sys.modules["torch"]
            with torch.no_grad():
                shares = count(torch, optimizer)
                is_flushed = not count_denormals(torch, torch.full((1,), 1e-38) / 4)
        except Exception:
            self.due = sys.maxsize
            return
        finally:
            self._agent.looks_itself = False
        if shares:
            self._agent.tell(denormals=shares, is_flushed=is_flushed, at_step=self._agent.steps)


def count(torch: Any, optimizer: Any) -> dict:
    """Return the share of denormal numbers by kind."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    weights = weights[:: max(1, -(-len(weights) // TENSORS_MOST))]
    held = [optimizer.state.get(weight) for weight in weights]
    kinds = {
        "weights": weights,
        "gradients of its weights": [weight.grad for weight in weights],
        "sums of its optimizer": [value for state in held if isinstance(state, dict) for value in state.values()],
    }
    shares = {kind: share_of(torch, found) for kind, found in kinds.items()}
    return {kind: share for kind, share in shares.items() if share >= 0}


def share_of(torch: Any, found: list) -> float:
    """Return the share of denormal numbers, each tensor by its size; -1 where none can be looked at."""
    denormal = numbers = 0.0
    for tensor in found:
        if not isinstance(tensor, torch.Tensor) or tensor.dtype != torch.float32 or tensor.device.type != "cpu":
            continue
        if tensor.layout == torch.strided and tensor.is_contiguous() and tensor.numel() > 1:
            taken = tensor.detach().view(-1)[:: -(-tensor.numel() // NUMBERS_MOST)]
            denormal += tensor.numel() * count_denormals(torch, taken) / taken.numel()
            numbers += tensor.numel()
    return denormal / numbers if numbers else -1.0


def count_denormals(torch: Any, values: Any) -> int:
    """Count by bits: where denormal numbers are flushed, a comparison also treats them as 0."""
    bits = values.contiguous().view(torch.int32)
    return int((((bits & EXPONENT) == 0) & ((bits & FRACTION) != 0)).sum())


# Hooks of Python: how long a training waits until a disk has what it wrote.


def hook_syncs(agent: Agent) -> None:
    """Note each wait for a disk, once this process trains."""
    for name in ("fsync", "fdatasync"):
        if hasattr(os, name):
            setattr(os, name, _timed_sync(agent, getattr(os, name)))


def _timed_sync(agent: Agent, sync: Any) -> Any:
    @wraps(sync)
    def watched(*given, **named):
        if not agent.steps or agent.is_off:
            return sync(*given, **named)
        begin = now_ns()
        try:
            return sync(*given, **named)
        finally:
            agent.note(kinds.SYNC, begin, now_ns(), place_here(agent))

    return watched
