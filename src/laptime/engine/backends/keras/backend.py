"""Keras 3: builds the order's training on the lane's engine, which engines.py chose before Keras was imported."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from time import perf_counter_ns  # taken now: a user's code comes later, and may replace it
from typing import Any

import keras
import numpy as np

from laptime.engine.backends.arrays import make_answers
from laptime.engine.backends.base import NO_JUDGE, Evaluator, Exercises, Learner, Profiler, Runner, UnseenWeights
from laptime.engine.backends.items import repeated
from laptime.engine.backends.keras.engines import Engine, KerasThread, open_devices
from laptime.engine.backends.keras.feeds import Feed, KerasCopyRunner, KerasLoaderRunner, KerasStepParts
from laptime.engine.backends.keras.fit import FitRun, seed_all
from laptime.engine.backends.keras.recipe import KerasRecipe
from laptime.engine.backends.keras.work import BuiltInWork, NoEvaluator, OwnWork, Work
from laptime.model.errors import LaneError
from laptime.model.hardware import StepWork
from laptime.model.machine import Device
from laptime.model.plan import HeatOrder
from laptime.model.process import NO_TRAINING, Settings
from laptime.model.protocol import PROOF_ITEMS, AnswerReference, AnswerRun, Score
from laptime.model.quantities import Missing
from laptime.model.sample import ProofRun, Reference
from laptime.model.symptoms import DenormalCensus, Observed

NO_STEP_TAKEN = Missing("no step was taken")


class KerasBackend:
    def __init__(self, name: str, engine: Engine) -> None:
        self.name = name
        self._engine = engine
        self._one_thread = KerasThread()

    def warm_up(self) -> None:
        """Do nothing: importing Keras has already imported all it needs."""

    def versions(self) -> dict[str, str]:
        return {"keras": keras.__version__, **self._engine.versions()}

    def devices(self) -> tuple[Device, ...]:
        return self._engine.devices()

    def build(self, order: HeatOrder) -> KerasTraining:
        return self._one_thread(lambda: self._build(order))

    def _build(self, order: HeatOrder) -> KerasTraining:
        self._take_threads(order)
        if order.lane.settings.denormals == "flush":
            self._engine.flush_denormals()
        return KerasTraining(order, self._engine, self._one_thread)

    def judge(self, _order: HeatOrder, _batches: int | None = None) -> Missing:
        return NO_JUDGE

    def predict(self, order: HeatOrder) -> KerasPredictor:
        if order.subject.file is not None:
            raise LaneError(
                "laptime infer: a Keras model of your own is not asked for answers yet", "laptime race takes it"
            )
        self._take_threads(order)
        return KerasPredictor(order, self._engine)

    def exercises(self, device: Device) -> Exercises:
        return self._engine.exercises(device)

    def _take_threads(self, order: HeatOrder) -> None:
        if order.lane.settings.threads is not None:
            self._engine.take_threads(order.lane.settings.threads)

    def clock(self) -> int:
        return perf_counter_ns()


class KerasTraining:
    """One lane's training, to be proven and run."""

    def __init__(self, order: HeatOrder, engine: Engine, one_thread: KerasThread) -> None:
        self._device_name = order.lane.device.name
        self._engine = engine
        self._one_thread = one_thread
        self._input = order.lane.settings.input
        self._devices = open_devices(order.lane, engine)
        work_of = BuiltInWork if order.subject.file is None else OwnWork
        self._work: Work = work_of(order, engine, self._devices)
        self.parameters = self._work.parameters
        self.notes = self._work.notes
        self.data = self._work.data
        self.items_per_step = self._work.items_per_step
        self.steps_per_lap = self._work.steps_per_lap
        self._fit_run: FitRun | None = None

    def prove(self, precision: str) -> ProofRun:
        return self._one_thread(lambda: self._work.prove(precision))

    def reference(self) -> Reference:
        return self._one_thread(self._work.refer)

    def start(self) -> Runner:
        model, feed = self._one_thread(self._work.make)
        if self._input in NO_TRAINING:
            alone = KerasLoaderRunner if self._input == "only" else KerasCopyRunner
            return alone(feed, self._engine, self._one_thread)
        self._fit_run = fit_run = feed.fit_run(model, self._one_thread)
        evaluator = self._work.evaluator(model, feed, fit_run.finish, self._one_thread)
        runner = KerasRunner if self._devices.count == 1 else SharedRunner
        return runner(model, fit_run, feed, self._engine, one_thread=self._one_thread, evaluator=evaluator)

    def learn(self) -> Learner:
        model, feed = self._one_thread(self._work.make)
        return KerasLearner(self._work, model, feed, self._engine, self._one_thread)

    def profiler(self, scratch: Path) -> KerasProfiler | Missing:
        if self._fit_run is None:
            return Missing("nothing was started")
        profiler = self._engine.profiler(self._device_name, scratch)
        return profiler if isinstance(profiler, Missing) else KerasProfiler(profiler, self._fit_run)

    def work(self) -> StepWork | Missing:
        return Missing("it is counted in PyTorch's own lanes only")

    def device_memory_bytes(self) -> int | Missing:
        return self._engine.peak_bytes(self._device_name)


class KerasRunner(UnseenWeights):
    outside_ns = 0
    ranks = None

    def __init__(
        self,
        model: Any,
        fit_run: FitRun,
        feed: Feed,
        engine: Engine,
        *,
        one_thread: KerasThread,
        evaluator: Evaluator | None,
    ) -> None:
        self._one_thread = one_thread
        self._model = model
        self._fit_run = fit_run
        self._feed = feed
        self._engine = engine
        self.evaluator = evaluator
        self.stride = feed.at_once
        self.ready_batches = feed.ready_batches
        self.holds = feed.holds

    def run(self, steps: int) -> None:
        self._fit_run.advance(steps)

    def run_marked(self, steps: int) -> Sequence[object]:
        return self._fit_run.advance_marked(steps)

    def fence(self) -> None:
        self._engine.await_model(self._model)

    def step_ns(self, marks: Sequence[object]) -> tuple[int, ...]:
        """Return no times if the engine computes asynchronously or several steps at once: marks enclose no step."""
        if self.stride > 1 or not self._engine.marks_are_steps:
            return ()
        return tuple(after - before for before, after in itertools.pairwise(marks))  # type: ignore[operator]

    def loss(self) -> float:
        """Return Keras's running mean: once it is NaN, it stays NaN."""
        return float(self._fit_run.logs["loss"])

    def repeat(self) -> None:
        self._feed.repeat()

    def parts(self) -> KerasStepParts | Missing:
        if self.stride > 1:
            return Missing(f"Keras gives its engine {self.stride} steps at once")
        self._fit_run.finish()
        return KerasStepParts(self._model, self._feed, self._engine, self._one_thread)

    def census(self) -> DenormalCensus | Missing:
        return self._one_thread(lambda: self._engine.census(self._model))

    def close(self) -> tuple[str, ...]:
        self._fit_run.finish()
        return self._feed.close()


class SharedRunner(KerasRunner):
    """A training of several devices."""

    def parts(self) -> Missing:
        return Missing("a step that several devices share is not taken apart")


class KerasProfiler:
    def __init__(self, profiler: Profiler, fit_run: FitRun) -> None:
        self._profiler = profiler
        self._fit_run = fit_run
        self.by = profiler.by

    def start(self) -> None:
        self._fit_run.within(self._profiler.start)

    def stop(self) -> None:
        self._fit_run.within(self._profiler.stop)

    def read(self) -> Observed:
        return self._profiler.read()

    def write_trace(self, path: Path) -> None:
        self._profiler.write_trace(path)


class KerasLearner:
    """One lane's training, from its first step to its last."""

    def __init__(self, work: Work, model: Any, feed: Feed, engine: Engine, one_thread: KerasThread) -> None:
        self._work = work
        self._model = model
        self._feed = feed
        self._engine = engine
        self._one_thread = one_thread
        self.stride = feed.at_once
        self.evaluator = work.evaluator(model, feed, self._rest, one_thread) or NoEvaluator()
        self._fit_run: FitRun | None = None
        self._last: FitRun | None = None
        self._done = 0

    def census(self) -> DenormalCensus | Missing:
        return self._one_thread(lambda: self._engine.census(self._model))

    def begin(self, steps_done: int, state: Any | None) -> None:
        self._done = steps_done
        self._one_thread(lambda: self._resume(state))

    def _resume(self, state: Any | None) -> None:
        self._model.optimizer.build(self._model.trainable_variables)
        if state is not None:
            self._feed.build(self._model)
            for variable, value in zip(self._variables(), state["variables"], strict=True):
                variable.assign(value)

    def run(self, steps: int) -> None:
        """Run steps. Each lap's order comes from its own seed, so that a resumed training meets the same order."""
        if steps % self.stride:
            raise LaneError(f"{steps} steps are no whole number of {self.stride}, which Keras takes at once")
        if self._fit_run is None:
            self._one_thread(lambda: seed_all(self._work.seed + self._done))
            self._fit_run = self._last = self._feed.fit_run(self._model, self._one_thread, self._done)
        self._fit_run.advance(steps)
        self._done += steps

    def fence(self) -> None:
        self._engine.await_model(self._model)

    def score(self) -> Score:
        """Return the means over the lap so far: over its finished epochs and the one in progress."""
        fit_run = self._last
        parts = [] if fit_run is None else [*fit_run.epochs, (fit_run.steps_of_epoch(), fit_run.logs)]
        parts = [(steps, logs) for steps, logs in parts if steps]
        if not parts:
            return Score(0, NO_STEP_TAKEN, NO_STEP_TAKEN)
        steps = sum(taken for taken, _ in parts)
        means = {key: sum(taken * float(logs[key]) for taken, logs in parts) / steps for key in parts[-1][1]}
        return self._work.score(steps * self._feed.batch, means)

    def reset_score(self) -> None:
        self._rest()
        self._last = None

    def state(self) -> Any:
        self._rest()
        return self._one_thread(
            lambda: {"variables": [np.array(keras.ops.convert_to_numpy(variable)) for variable in self._variables()]}
        )

    def close(self) -> tuple[str, ...]:
        self._rest()
        return self._feed.close()

    def _rest(self) -> None:
        if self._fit_run is not None:
            self._fit_run.finish()
            self._fit_run = None

    def _variables(self) -> list[Any]:
        model = self._model
        return [*model.trainable_variables, *model.non_trainable_variables, *model.optimizer.variables]


# A Keras network that only answers: by `predict` as written, at its best by the function that `predict` calls.
#
# All of it runs in the heat's own thread. There is no `fit` that waits, which would need another thread (fit.py). A
# call to another thread takes 0.03 to 0.06 ms more on the processor measured, out of 1.3 ms that JAX needs for cifar-
# cnn.

PLAIN_SETTINGS = Settings()
AskEngine = Callable[[Any, Any], Any]


def by_predict(model: Any, batch: Any) -> Any:
    """Call `predict` as scripts do: it makes a data set of the array and cuts it, here into one batch."""
    return model.predict(batch, batch_size=len(batch), verbose=0)


def by_batch(model: Any, batch: Any) -> Any:
    """Call the function that `predict` compiles, with a batch that is not cut again."""
    return model.predict_on_batch(batch)


class KerasPredictor:
    """One lane's network. Both ways to ask return arrays on the host, so each call is complete when it returns."""

    notes: tuple[str, ...] = ()

    def __init__(self, order: HeatOrder, engine: Engine) -> None:
        self._settings = order.lane.settings
        self._device_name = order.lane.device.name
        self._engine = engine
        self._recipe = KerasRecipe(order)
        self._ask: AskEngine = by_predict if self._settings.preset == "as-written" else by_batch
        self._items: Any = np.empty(0)
        self._held: Any = None
        engine.set_precision(self._settings.precision)
        self._model = self._make(self._settings, self._settings.precision)
        engine.await_model(self._model)
        self.parameters = sum(int(np.prod(variable.shape)) for variable in self._model.trainable_variables)

    def read_items(self, most: int) -> None:
        """Read this many items, repeating them where the test set has fewer."""
        if len(self._items) < most:
            self._items = repeated(self._recipe.test_items(most), most).images

    def sizes(self, wanted: tuple[int, ...]) -> tuple[int, ...]:
        return wanted

    def keep_whole(self, why: str) -> bool:  # noqa: ARG002  items of the catalogue can be cut to every size
        return False

    def take(self, batch: int) -> None:
        self._held = self._cut(batch)

    def call(self) -> None:
        with self._device():
            self._ask(self._model, self._held)

    def fence(self) -> None:
        """Do nothing: the network was awaited when it was built, and each call returns its answers on the host."""

    def let_go(self) -> None:
        self._held = None

    def prove(self, precision: str, batch: int) -> AnswerRun:
        """Answer with the timed network at its own precision; at another, with one that is asked in the same way."""
        own = precision == self._settings.precision
        self._engine.set_precision(precision)
        try:
            return self._answer(self._model if own else self._make(self._settings, precision), precision, batch)
        finally:
            self._engine.set_precision(self._settings.precision)

    def reference(self) -> AnswerReference:
        """Answer in float64 and float32; a network of the catalogue draws no random numbers when it answers."""
        self.read_items(PROOF_ITEMS)
        twin = self._answer(self._make(PLAIN_SETTINGS, "fp32"), "fp32", PROOF_ITEMS)
        self._engine.allow_float64()
        model = self._make(PLAIN_SETTINGS, "fp64")
        exact = self._answer(model, "fp64", PROOF_ITEMS)
        return AnswerReference(exact, twin, len(model.trainable_variables))

    def device_memory_bytes(self) -> int | Missing:
        return self._engine.peak_bytes(self._device_name)

    def _make(self, settings: Settings, precision: str) -> Any:
        with self._device():
            return self._recipe.answering(settings, precision)

    def _answer(self, model: Any, precision: str, batch: int) -> AnswerRun:
        items = self._cut(batch).astype("float64" if precision == "fp64" else "float32")
        with self._device():
            return make_answers(precision, np.asarray(self._ask(model, items)).ravel())

    def _cut(self, batch: int) -> Any:
        return np.ascontiguousarray(self._items[:batch])

    def _device(self) -> Any:
        return keras.device(self._engine.name_device(self._device_name))
