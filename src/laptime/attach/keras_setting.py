"""What a lane sets where a script trains by Keras's `fit`: how its model is compiled, in what it computes, and how its
data come.

As with PyTorch's settings (`setting`), each is made where Keras makes the thing: the policy of numbers when Keras is
imported, the rest in `compile` and in `fit`. What cannot be had is reported with a word, of which the parent has the
sentence.
"""

from __future__ import annotations

import sys
from functools import wraps
from types import GeneratorType

from .agent import Agent
from .setting import LOOK_ONLY, report_setting, wanted

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any


STEPS_AT_ONCE = "steps_per_execution"
FIT_BATCH = 32  # of `fit`, where a script names none

# Why a setting cannot be had: further words of `not_set`.
ONE_AT_A_TIME = "one step at a time"
UNCOUNTED = "no length"
COMPILES = "compiles already"
EAGER = "eager"
NO_JIT = "no jit"
OWN_PRECISION = "own precision"
OWN_LAYOUT = "own layout"
OWN_OPTIMIZERS = "own optimizers"
ALL_CORES = "all cores"
NOT_PINNED = "not pinned"
FLUSHED = "flushed already"
NO_SWITCH = "a switch of PyTorch"
IN_MEMORY = "arrays"
ONE_BY_ONE = "a generator"
OWN_PIPELINE = "tf.data"
OTHER_DATA = "other data"
CUTS_ITSELF = "cuts batches itself"
PREFETCHES = "prefetches"
NO_QUEUE = "no queue"
PROCESSES = "processes already"
EACH_EPOCH = "starts each epoch"
KERAS_COPIES = "Keras copies"

NEVER_OF_KERAS = {"layout": OWN_LAYOUT, "optimizer": OWN_OPTIMIZERS}
ONLY_OF_PYTORCH = {"pinning": NOT_PINNED, "denormals": FLUSHED, "matmul": NO_SWITCH}
NEVER_OF_ENGINE = {"torch": {}, "tensorflow": ONLY_OF_PYTORCH, "jax": {**ONLY_OF_PYTORCH, "threads": ALL_CORES}}


def set_policy(_agent: Agent, module: Any) -> None:
    """Compute in bfloat16 from the first layer on. A script that sets a policy of its own comes later, and wins."""
    if wanted().get("precision") == "bf16":
        module.set_dtype_policy("mixed_bfloat16")


# How a model is compiled. A lane names it, and so wins over what the script passes.

COMPILE_PLACES = (
    "optimizer",
    "loss",
    "loss_weights",
    "metrics",
    "weighted_metrics",
    "run_eagerly",
    "steps_per_execution",
    "jit_compile",
    "auto_scale_loss",
)


def set_compile(agent: Agent, module: Any) -> None:
    """Compile models as the lane wants them, and report what they then are."""
    settings = wanted()
    make = module.Trainer.compile

    @wraps(make)
    def compiled(self, *given, **named):
        engine = ""
        try:
            engine = module.backend.backend()
            given, named = compile_arguments(settings, engine, given, named)
        except Exception as error:
            agent.failed("compile settings", error)
        result = make(self, *given, **named)
        try:
            can_jit = self.jit_compile or module.model_supports_jit(self)
            _report_model(agent, self, settings, engine, can_jit=can_jit)
        except Exception as error:
            agent.failed("compile report", error)
        return result

    module.Trainer.compile = compiled


def compile_arguments(settings: dict, engine: str, given: tuple, named: dict) -> Any:
    """Return the arguments of `compile` with these settings."""
    if len(given) > len(COMPILE_PLACES):
        return given, named
    found = {**{name: value for name, value in zip(COMPILE_PLACES, given)}, **named}  # noqa: B905, C416  Python 3.8
    if STEPS_AT_ONCE in settings and engine != "torch":
        found[STEPS_AT_ONCE] = int(settings[STEPS_AT_ONCE])
    if settings.get("execution") == "compile" and not found.get("run_eagerly"):
        found["jit_compile"] = True
    return (), found


def _report_model(agent: Agent, model: Any, settings: dict, engine: str, *, can_jit: bool) -> None:
    """Report which settings of a compiled model were made or, where it is only looked at, can be."""
    for name, never in {**NEVER_OF_KERAS, **NEVER_OF_ENGINE.get(engine, {})}.items():
        report_setting(agent, name, never)
    if (STEPS_AT_ONCE in settings or LOOK_ONLY in settings) and engine == "torch":
        report_setting(agent, STEPS_AT_ONCE, ONE_AT_A_TIME)
    if "execution" in settings or LOOK_ONLY in settings:
        why = EAGER if model.run_eagerly else None if can_jit else NO_JIT
        report_setting(agent, "execution", COMPILES if model.jit_compile and "execution" not in settings else why)
    if "precision" in settings:
        report_setting(agent, "precision", None if model.dtype_policy.compute_dtype == "bfloat16" else OWN_PRECISION)
    elif LOOK_ONLY in settings:
        report_setting(agent, "precision", None if model.dtype_policy.compute_dtype == "float32" else OWN_PRECISION)


def report_steps_at_once(agent: Agent, listed: Any) -> None:
    """Report, as a training begins, whether a model takes several steps at once; of data without a length, no one
    knows how many the last call of an epoch took.
    """
    settings = wanted()
    is_asked = STEPS_AT_ONCE in settings or LOOK_ONLY in settings
    if is_asked and sys.modules["keras.src.backend"].backend() != "torch":
        report_setting(agent, STEPS_AT_ONCE, None if listed.params.get("steps") else UNCOUNTED)


# What `fit` is given to train on.

OF_DATA = ("workers", "processes", "prefetch", "persistent", "pinned")
FIT_PLACES = ("x", "y", "batch_size")
WHY_NONE = {"arrays": IN_MEMORY, "generator": ONE_BY_ONE, "tf.data": OWN_PIPELINE, "other": OTHER_DATA}


def set_fit(agent: Agent, module: Any) -> None:
    """Let `fit` load its data, and cut arrays, as the lane wants it."""
    settings = wanted()
    names = ("TorchTrainer", "TensorFlowTrainer", "JAXTrainer")
    trainer = next(getattr(module, name) for name in names if hasattr(module, name))
    fit = trainer.fit

    @wraps(fit)
    def watched(self, *given, **named):
        try:
            given, named = fit_arguments(agent, settings, given, named)
        except Exception as error:
            agent.failed("fit settings", error)
        return fit(self, *given, **named)

    trainer.fit = watched


def fit_arguments(agent: Agent, settings: dict, given: tuple, named: dict) -> Any:
    """Return the arguments of `fit` with these settings, which are reported."""
    first = {name: value for name, value in zip(FIT_PLACES, given)}  # noqa: B905, C416  of Python 3.8
    rest = given[len(FIT_PLACES) :]
    found = {**first, **named}
    data: Any = found.get("x")
    kind = kind_of_data(data)
    if kind == "DataLoader":  # its own settings are made where the script makes it
        _report_data(agent, settings, {"processes": PROCESSES})
        return given, named
    whys: dict = dict.fromkeys((*OF_DATA, "batch"), WHY_NONE.get(kind))
    whys["batch"] = None if kind == "arrays" else CUTS_ITSELF
    if kind == "PyDataset":
        whys.update(_set_dataset(settings, data))
    elif kind == "tf.data":
        whys["prefetch"] = PREFETCHES if type(data).__name__ == "_PrefetchDataset" else None
        if "prefetch" in settings and not whys["prefetch"]:
            found["x"] = data.prefetch(int(settings["prefetch"]))
    elif kind == "arrays" and "batch" in settings:
        batch = settings["batch"]
        usual = found.get("batch_size") or FIT_BATCH
        found["batch_size"] = usual * int(batch[:-1]) if batch.endswith("x") else int(batch)
    _report_data(agent, settings, whys)
    if rest:  # behind the batch, by place: these three are there, too
        return (*[found.pop(name) for name in FIT_PLACES], *rest), found
    return (), found


def kind_of_data(data: Any) -> str:
    """Return what `fit` is given: arrays, a PyDataset, a DataLoader of PyTorch, a tf.data pipeline, a generator."""
    if isinstance(data, GeneratorType):
        return "generator"
    for kind in type(data).__mro__:
        module = str(kind.__module__)
        if kind.__name__ == "PyDataset" and module.startswith("keras."):
            return "PyDataset"
        if kind.__name__ == "DataLoader" and module.startswith("torch.utils.data"):
            return "DataLoader"
        if kind.__name__ == "DatasetV2" and module.startswith("tensorflow."):
            return "tf.data"
    has_shape = hasattr(data, "shape") or isinstance(data, (list, tuple, dict))
    return "arrays" if has_shape else "other"


def _set_dataset(settings: dict, data: Any) -> dict:
    """Let a PyDataset load ahead. Return why it cannot have some settings."""
    is_apart = data.use_multiprocessing and "processes" not in settings
    if "workers" in settings:
        data.workers = int(settings["workers"])
    if "processes" in settings:
        data.use_multiprocessing = True
    has_queue = data.workers > 1 or (data.workers > 0 and data.use_multiprocessing)
    if "prefetch" in settings and has_queue:
        data.max_queue_size = int(settings["prefetch"]) * data.workers
    return {
        "processes": PROCESSES if is_apart else None,
        "prefetch": None if has_queue else NO_QUEUE,
        "persistent": EACH_EPOCH,
        "pinned": KERAS_COPIES,
    }


def _report_data(agent: Agent, settings: dict, whys: dict) -> None:
    """Report settings of the data that the lane names or, where the script is only looked at, all of them."""
    for name, why in whys.items():
        if name in settings or LOOK_ONLY in settings:
            report_setting(agent, name, why)
