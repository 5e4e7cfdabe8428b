"""Hooks of Keras 3 and of JAX.

No callback is added to a Keras model: one with a method of its own for batches would turn off the asynchronous
dispatch of the engines, and read the logs of each batch. The methods of the list of callbacks are replaced instead.
"""

from __future__ import annotations

import sys
from functools import wraps
from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent
from .fetches import describe_loading
from .lines import LineTimer, timer_of

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

KERAS_MARKS = __name__.replace(".", "_")  # marks are per agent, of which a process may have two
NUMBER_MARK = KERAS_MARKS + "_number"  # of a model, and of what batches come from
# What Keras makes of such data
PY_DATASET = "PyDatasetAdapter"
DATA_LOADER = "TorchDataLoaderAdapter"
PASS_BEGINS = {PY_DATASET: "_get_iterator", "GeneratorDataAdapter": "generator"}  # what begins a pass through such data
OF_TENSORFLOW = "TFEpochIterator"
JAX_COMPILED_EVENT = "backend_compile_duration"  # the end of the name of JAX's event


def hook_callbacks(agent: Agent, module: Any) -> None:
    """Note each batch, epoch and validation of `fit`."""
    listed = module.CallbackList
    lines = timer_of(agent)
    began: dict = {}
    steps: dict = {"first": 0, "lap": None}

    def begin(name: str, method):
        @wraps(method)
        def watched(self, *given, **named):
            result = method(self, *given, **named)
            try:
                if name == "batch":
                    steps["first"] = int(given[0]) if given else 0
                    steps["lap"] = self.params.get("steps")
                began[name] = now_ns()
            except Exception as error:
                agent.failed("callbacks", error)
            return result

        return watched

    def end(name: str, kind: int, method):
        @wraps(method)
        def watched(self, *given, **named):
            at = now_ns()
            try:
                if name in began:
                    value = 0
                    if name == "batch":
                        value = steps_in(steps["first"], int(given[0]) if given else 0, steps["lap"])
                        agent.keras_steps += value
                    agent.note(kind, began.pop(name), at, value)
                    if name == "batch":
                        agent.batches += 1
                        lines.stepped(kind, agent.batches)
            except Exception as error:
                agent.failed("callbacks", error)
            return method(self, *given, **named)

        return watched

    if hasattr(listed, "on_train_begin"):
        _hook_fit(agent, listed, lines)
    for name, kind, method in (
        ("batch", kinds.KERAS_BATCH, "train_batch"),
        ("epoch", kinds.KERAS_EPOCH, "epoch"),
        ("test", kinds.KERAS_TEST, "test"),
    ):
        first = "on_%s_begin" % method
        last = "on_%s_end" % method
        setattr(listed, first, begin(name, getattr(listed, first)))
        setattr(listed, last, end(name, kind, getattr(listed, last)))


def _hook_fit(agent: Agent, listed: Any, lines: LineTimer) -> None:
    """Note where each `fit` begins and ends."""
    begin = listed.on_train_begin
    end = listed.on_train_end

    @wraps(begin)
    def fit_begins(self, *given, **named):
        try:
            model = self.model
            lines.count_by(kinds.KERAS_BATCH)
            agent.fits_eagerly = runs_eagerly(model)
            agent.trains_from = agent.batches_from
            agent.in_fit = True
            agent.tell(
                keras_fit=agent.batches_from,
                model=number_of(agent, model),
                trained=len(model.trainable_variables),
                at_once=model.steps_per_execution,
            )
        except Exception as error:
            agent.failed("fit", error)
        return begin(self, *given, **named)

    @wraps(end)
    def fit_ends(self, *given, **named):
        try:
            agent.in_fit = False
            lines.leave()  # it may have ended in the midst of a timing
        except Exception as error:
            agent.failed("fit", error)
        return end(self, *given, **named)

    listed.on_train_begin = fit_begins
    listed.on_train_end = fit_ends


def runs_eagerly(model: Any) -> bool:
    """Whether a model runs each operation on its own: as PyTorch does anyway, where that is the engine."""
    keras = sys.modules.get("keras")
    return bool(getattr(model, "run_eagerly", False)) and keras is not None and keras.config.backend() != "torch"


def steps_in(first: int, last: int, lap: Any) -> int:
    """Return how many steps a call took. The last one of an epoch may take fewer than Keras says."""
    return max(1, (last if lap is None else min(last, lap - 1)) - first + 1)


def number_of(agent: Agent, thing: Any) -> int:
    """Return the number of a model, or of what batches come from."""
    return thing.__dict__.get(NUMBER_MARK) or thing.__dict__.setdefault(NUMBER_MARK, agent.new_number())


def hook_epochs(agent: Agent, module: Any) -> None:
    """Report what each training's batches come from, and note each of them.

    On PyTorch before Keras 3.10, batches are fetched within the step, where nothing sees it. On TensorFlow, steps fetch
    them, too, but the script's own code makes them in a thread, which is noted.
    """
    iterator = module.EpochIterator
    make = iterator.__init__
    fetch = iterator.__dict__.get("__next__")
    made_lines = LineTimer(agent, kinds.MADE_LINE)  # one for all: a script may call `evaluate` after each step
    agent.before_flush.append(made_lines.describe)

    @wraps(make)
    def __init__(self, *given, **named):
        make(self, *given, **named)
        try:
            agent.batches_from = number_of(agent, self)
            agent.tell(iterator=agent.batches_from, **_describe_data(self))
            if type(self).__name__ == OF_TENSORFLOW:
                _hook_passes(agent, made_lines, self.data_adapter, agent.batches_from)
        except Exception as error:
            agent.failed("epochs", error)

    def __next__(self):
        begin = now_ns()
        batches = fetch(self)
        agent.note(kinds.KERAS_FETCH, begin, now_ns(), self.__dict__.get(NUMBER_MARK, 0))
        return batches

    iterator.__init__ = __init__
    if fetch is not None:
        iterator.__next__ = wraps(fetch)(__next__)


def _hook_passes(agent: Agent, timer: LineTimer, adapter: Any, number: int) -> None:
    """Note each batch of a training that the script's own code makes in a thread of TensorFlow; time the lines of some.

    That thread sends nothing: its events go with those of the thread that trains. So a prediction notes none.
    """
    name = PASS_BEGINS.get(type(adapter).__name__, "")
    make = getattr(adapter, name, None)
    if make is None:
        return
    training = timer_of(agent)
    passes = 0

    def fetch(batches: Any) -> Any:
        if training.is_on and number == agent.trains_from and not timer.is_on:  # an earlier pass may have a thread
            return timer.fetch(next, batches)
        return next(batches)

    def noted(batches: Any, value: int) -> Any:
        while True:
            begin = now_ns()
            try:
                batch = fetch(batches)
            except StopIteration:
                return
            if number == agent.trains_from and not agent.is_off:
                agent.keep((kinds.KERAS_MADE, begin, now_ns(), value))
            yield batch

    @wraps(make)
    def watched() -> Any:
        nonlocal passes
        passes += 1
        return noted(iter(make()), number << kinds.PASS_SHIFT | passes)

    setattr(adapter, name, watched)


def _describe_data(iterator: Any) -> dict:
    """Return what batches come from: what Keras made of it, and how it loads."""
    adapter = iterator.data_adapter
    kind = type(adapter).__name__
    facts = {"keras_data": kind, "keras_batch": adapter.batch_size}
    facts["batches"] = iterator.steps_per_epoch or getattr(iterator, "_num_batches", None)
    if kind == PY_DATASET:
        loads_ahead = adapter.enqueuer is not None
        data = adapter.py_dataset
        facts["num_workers"] = data.workers if loads_ahead else 0
        facts["queue"] = data.max_queue_size if loads_ahead else 0
    elif kind == DATA_LOADER:
        facts.update(describe_loading(adapter._dataloader))
    return facts


def hook_jax_batches(agent: Agent, module: Any) -> None:
    """Note each batch that a step on JAX fetches."""
    iterator = module.JAXEpochIterator
    make = iterator._get_iterator

    @wraps(make)
    def watched(self):
        return _noted(agent, make(self), self.__dict__.get(NUMBER_MARK, 0))

    iterator._get_iterator = watched


def _noted(agent: Agent, batches: Any, number: int) -> Any:
    iterator = iter(batches)
    while True:
        begin = now_ns()
        try:
            batch = next(iterator)
        except StopIteration:
            return
        agent.note(kinds.KERAS_FETCH, begin, now_ns(), number)
        yield batch


def hook_jax(agent: Agent, module: Any) -> None:
    """Note when XLA compiles for JAX."""

    def on_duration(*given: Any, **_named: Any) -> None:
        try:
            event, duration = given[:2]
            if event.endswith(JAX_COMPILED_EVENT):
                end = now_ns()
                agent.note(kinds.COMPILE, end - int(duration * 1e9), end)
        except Exception as error:
            agent.failed("compilations", error)

    module.register_event_duration_secs_listener(on_duration)
