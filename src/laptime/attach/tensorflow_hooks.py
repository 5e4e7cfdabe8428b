"""Hooks of a script's own loops in TensorFlow: batches of tf.data, gradients of a tape, steps of Keras's optimizers.

A `tf.function` runs where no hook sees its parts. It is traced once for each kind of its arguments; where a step of an
optimizer was traced, each later call with such arguments is one. `fit` reports its batches itself.
"""

from __future__ import annotations

import sys
from functools import wraps
from threading import get_ident
from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent
from .fetches import items_of
from .lines import timer_of

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

TENSORFLOW_MARKS = __name__.replace(".", "_")  # marks are per agent, of which a process may have two
TRACES_MARK = TENSORFLOW_MARKS + "_traces"
NUMBERED_MARK = TENSORFLOW_MARKS + "_number"
CHECKED_NS = 1_000_000_000  # how often the count is held against the optimizer's own: reading that waits for a card
RETRACING_TYPES = (bool, int, float, str, type(None))  # arguments by whose values a function is traced again


class TensorflowLoop:
    """What the hooks of one agent know together: who steps where now, and what was traced."""

    def __init__(self, agent: Agent) -> None:
        self.agent = agent
        self.inside: set = set()  # threads within a step or a function of TensorFlow: what these call is a part of it
        self.traced = 0  # steps of optimizers that were traced
        self.last: Any = None  # the optimizer of the last of these
        self._begun: Any = None  # steps of its own, and of ours, when it was first looked at
        self._check_at = 0
        self._is_described = False
        self._lines = timer_of(agent)
        self._lines.count_by(kinds.STEP)

    def stepped(self, begin: int, end: int, optimizer: Any) -> None:
        """Note a step. Line timing begins behind some of them."""
        agent = self.agent
        agent.steps += 1
        number = optimizer.__dict__.get(NUMBERED_MARK)
        if number is None:
            number = optimizer.__dict__[NUMBERED_MARK] = agent.new_number()
        agent.describe_once(number, _describe, optimizer)
        agent.trains = True
        agent.note(kinds.STEP, begin, end, number)
        if end >= agent.due[kinds.STEP]:
            agent.looked(kinds.STEP, end)
            self._lines.stepped(kinds.STEP, agent.steps)

    def called(self, begin: int, end: int) -> None:
        """Note a call of a function that has a step in it. Nothing of it is seen apart."""
        agent = self.agent
        optimizer = self.last
        if not self._is_described:
            self._is_described = True
            agent.tell(in_function=True)
        agent.note(kinds.BACKWARD, begin, end)
        self.stepped(end, end, optimizer)
        if end >= self._check_at:
            self._check_at = end + CHECKED_NS
            # Calls and the optimizer's own count may differ: a function may take many steps, or none.
            taken = int(optimizer.iterations)
            if self._begun is None:
                self._begun = taken, agent.steps
            own = taken - self._begun[0]
            ours = agent.steps - self._begun[1]
            if own != ours:
                says = "%d calls of a tf.function took %d steps of the optimizer" % (ours, own)
                agent.failed("tf.function", ValueError(says))


def loop_of(agent: Agent) -> TensorflowLoop:
    """Return what the hooks of TensorFlow know of this process."""
    if agent.tensorflow is None:
        agent.tensorflow = TensorflowLoop(agent)
    found: TensorflowLoop = agent.tensorflow
    return found


def is_eager() -> bool:
    """Whether TensorFlow computes at once what is called, or is not there; else it traces a function."""
    context = sys.modules.get("tensorflow.python.eager.context")
    return context is None or bool(context.executing_eagerly())


def hook_keras_optimizers(agent: Agent, module: Any) -> None:
    """Note each step of Keras's optimizers outside of `fit`, and each that is traced. On JAX they only compute it."""
    if module.backend.backend() == "jax":
        return
    loop = loop_of(agent)
    apply = module.BaseOptimizer.apply

    @wraps(apply)
    def watched(self, *given, **named):
        thread = get_ident()
        is_traced = not is_eager()
        if is_traced:
            loop.traced += 1
            loop.last = self
        if is_traced or agent.in_fit or thread in loop.inside:
            return apply(self, *given, **named)
        loop.inside.add(thread)
        begin = now_ns()
        try:
            result = apply(self, *given, **named)
        finally:
            loop.inside.discard(thread)
        try:
            loop.stepped(begin, now_ns(), self)
        except Exception as error:
            agent.failed("optimizer", error)
        return result

    module.BaseOptimizer.apply = watched


def hook_functions(agent: Agent, module: Any) -> None:
    """Note each call of a `tf.function` in which a step of an optimizer was traced."""
    call = module.Function.__call__
    loop = loop_of(agent)

    @wraps(call)
    def watched(self, *given, **named):
        thread = get_ident()
        if thread in loop.inside or agent.is_off:
            return call(self, *given, **named)
        traces = self.__dict__.setdefault(TRACES_MARK, {})
        # By these of its arguments a function is traced again, whatever the tensors are.
        key: tuple = tuple((at, argument) for at, argument in enumerate(given) if type(argument) in RETRACING_TYPES)
        if named:
            key = (key, *((name, argument) for name, argument in named.items() if type(argument) in RETRACING_TYPES))
        is_known = key in traces
        before = traced = 0
        if not is_known:
            before = self.experimental_get_tracing_count()
            traced = loop.traced
        loop.inside.add(thread)
        begin = now_ns()
        try:
            result = call(self, *given, **named)
        finally:
            loop.inside.discard(thread)
        try:
            end = now_ns()
            if not is_known:
                is_new = self.experimental_get_tracing_count() > before
                traces[key] = loop.traced > traced if is_new else any(traces.values())
            if traces[key] and not agent.in_fit:
                loop.called(begin, end)
        except Exception as error:
            agent.failed("tf.function", error)
        return result

    module.Function.__call__ = watched


def hook_tapes(agent: Agent, module: Any) -> None:
    """Note each backward pass of a tape that is not within a function."""
    gradient = module.GradientTape.gradient
    loop = loop_of(agent)

    @wraps(gradient)
    def watched(self, *given, **named):
        if agent.in_fit or get_ident() in loop.inside:
            return gradient(self, *given, **named)
        begin = now_ns()
        result = gradient(self, *given, **named)
        agent.backwards += 1
        agent.note(kinds.BACKWARD, begin, now_ns())
        return result

    module.GradientTape.gradient = watched


def hook_tensorflow_data(agent: Agent, module: Any) -> None:
    """Note each batch that the script's own loop fetches from tf.data."""
    iterator = module.OwnedIterator
    make = iterator.__init__
    fetch = iterator.__next__
    loop = loop_of(agent)

    @wraps(make)
    def __init__(self, *given, **named):
        begin = now_ns()
        make(self, *given, **named)
        try:
            data = getattr(self, "_dataset", None)
            if data is not None and is_eager() and not (agent.in_fit or agent.fetching):
                number = data.__dict__.get(NUMBERED_MARK) or data.__dict__.setdefault(NUMBERED_MARK, agent.new_number())
                self.__dict__[NUMBERED_MARK] = number
                agent.note(kinds.LOADER_OPEN, begin, now_ns(), number)
        except Exception as error:
            agent.failed("tf.data", error)

    @wraps(fetch)
    def __next__(self):
        number = self.__dict__.get(NUMBERED_MARK)
        if number is None or agent.in_fit or get_ident() in loop.inside:
            return fetch(self)
        begin = now_ns()
        try:
            batch = fetch(self)
        except StopIteration:
            agent.note(kinds.LOADER_END, begin, now_ns(), number)
            raise
        agent.note(kinds.FETCH, begin, now_ns(), number << kinds.ITEMS_SHIFT | items_of(batch))
        return batch

    iterator.__init__ = __init__
    iterator.__next__ = __next__


def _describe(optimizer: Any, number: int) -> dict:
    counts: dict = {}
    variables = optimizer._trainable_variables
    for variable in variables:
        device = str(getattr(variable.value, "device", ""))
        name = "cuda:" + device.rpartition(":")[2] if "GPU" in device else "cpu"
        counts[name] = counts.get(name, 0) + int(variable.value.shape.num_elements())
    types = sorted({str(variable.dtype) for variable in variables})
    return {"optimizer": number, "name": "Keras " + type(optimizer).__name__, "parameters": counts, "dtypes": types}
