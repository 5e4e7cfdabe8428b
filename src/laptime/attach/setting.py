"""What a lane sets in a script that nobody changes: seeds, how its loaders load, how its model and optimizer compute.

Environment variables set all else (`laptime.planner.plan`). Each setting is made when the script imports what it
belongs to, or makes it, and reported: by `has_set`, or by `not_set` with a word of `WHY_NOT`. An error of ours never
reaches the script, which then goes on without the setting.
"""

from __future__ import annotations

import os
import sys
from functools import wraps

from . import kinds
from .agent import Agent

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any


LOOK_ONLY = "look"  # in place of a setting: report what this script cannot have

# Why a setting cannot be had: the words of `not_set`. The parent has the sentences.
NO_CONVOLUTION = "no convolution"
ITSELF_COMPILED = "compiled"
NO_FUSED = "no fused form"
FUSED = "fused"
OTHER_FORM = "other form"
HAS_FAILED = "failed"


def wanted() -> dict:
    """Return what is to be set, by name."""
    words = os.environ.get(kinds.SET, "")
    return dict(word.partition("=")[::2] for word in words.split(",") if word)


def set_python() -> None:
    """Seed Python's own random numbers, from which Keras draws its seeds."""
    seed = wanted().get("seed")
    if seed is not None:
        import random

        random.seed(int(seed))


def set_numpy(_agent: Agent, module: Any) -> None:
    seed = wanted().get("seed")
    if seed is not None:
        module.seed(int(seed))


def set_tensorflow(_agent: Agent, module: Any) -> None:
    seed = wanted().get("seed")
    if seed is not None:
        module.random.set_seed(int(seed))


def set_torch(agent: Agent, module: Any) -> None:
    """Set what is one switch for all. The script's own code comes later, and wins."""
    settings = wanted()
    if "seed" in settings:
        module.manual_seed(int(settings["seed"]))
    if "matmul" in settings:
        module.set_float32_matmul_precision(settings["matmul"])
        agent.tell(has_set="matmul")
    if "threads" in settings:
        module.set_num_threads(int(settings["threads"]))
        module.set_num_threads = lambda _count: None  # a lane names how many, and the script's own call would win
    if "denormals" in settings and module.set_flush_denormal(True):
        agent.tell(has_set="denormals")


# The data loaders. A lane names how they load, and so wins over what the script passes.

AFTER_SET = ("batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory")
OF_WORKERS = ("persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context", "worker_init_fn")
OF_LOADERS = ("workers", "prefetch", "persistent", "pinned", "batch")


def set_loaders(agent: Agent, module: Any) -> None:
    """Let data loaders load otherwise. Several workers would give each item of an iterable set several times.

    Those that Keras makes of arrays and of its own data sets are no loaders of the script.
    """
    settings = {name: value for name, value in wanted().items() if name in OF_LOADERS}
    if not settings:
        return
    make = module.DataLoader.__init__

    @wraps(make)
    def __init__(self, dataset, *given, **named):
        if str(sys._getframe(1).f_globals.get("__name__")).startswith("keras."):
            return make(self, dataset, *given, **named)
        try:
            other = loader_arguments(settings, given, named, is_iterable=isinstance(dataset, module.IterableDataset))
        except Exception as error:
            agent.failed("loader settings", error)
            other = None
        if other is None:
            return make(self, dataset, *given, **named)
        for name in settings:
            agent.tell(has_set=name)
        return make(self, dataset, **other)

    module.DataLoader.__init__ = __init__


def loader_arguments(settings: dict, given: tuple, named: dict, *, is_iterable: bool) -> Any:
    """Return the arguments of a loader with these settings; None for one that cannot have them."""
    if len(given) > len(AFTER_SET) or ("workers" in settings and is_iterable):
        return None
    found = {**{name: value for name, value in zip(AFTER_SET, given)}, **named}  # noqa: B905, C416  of Python 3.8
    if "workers" in settings:
        found["num_workers"] = int(settings["workers"])
        if found["num_workers"]:
            found["persistent_workers"] = True
        else:
            for name in OF_WORKERS:
                found.pop(name, None)
    if "prefetch" in settings or "persistent" in settings:
        if not found.get("num_workers"):
            return None
        if "prefetch" in settings:
            found["prefetch_factor"] = int(settings["prefetch"])
        if "persistent" in settings:
            found["persistent_workers"] = True
    if "pinned" in settings:
        found["pin_memory"] = True
    if "batch" in settings:
        batch = settings["batch"]
        usual = found.get("batch_size", 1)
        if found.get("batch_sampler") is not None or type(usual) is not int:
            return None
        found["batch_size"] = usual * int(batch[:-1]) if batch.endswith("x") else int(batch)
    return found


# The optimizers: each with its fused form, which is one kernel, unless the script chose another form.

FUSED_FORMS = ("Adam", "AdamW", "SGD", "Adagrad")
OTHER_FORMS = ("foreach", "capturable", "differentiable")


def set_optimizers(agent: Agent, module: Any) -> None:
    settings = wanted()
    is_set = "optimizer" in settings
    if not is_set and LOOK_ONLY not in settings:
        return
    base = module.Optimizer
    makes: list = []
    for form in [getattr(module, name) for name in FUSED_FORMS if hasattr(module, name)]:
        code = form.__init__.__code__
        if "fused" in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]:
            makes.append(form)
    make_any = base.__init__

    @wraps(make_any)
    def __init__(self, *given, **named):
        if not isinstance(self, tuple(makes)):
            agent.tell(not_set="optimizer", why=NO_FUSED)
        return make_any(self, *given, **named)

    base.__init__ = __init__
    for form in makes:
        form.__init__ = _fused(agent, form.__init__, is_set=is_set)


def report_setting(agent: Agent, name: str, why: Any) -> None:
    """Report that a setting was made or, where the script is only looked at, that it can be; or why not."""
    if why is None:
        agent.tell(has_set=name)
    else:
        agent.tell(not_set=name, why=why)


def _fused(agent: Agent, make: Any, *, is_set: bool) -> Any:
    """Return what makes an optimizer in its fused form. Where that fails, it is made as the script wants it."""
    is_inside = False  # the code of a class may be that of another one

    @wraps(make)
    def __init__(self, params, *given, **named):
        nonlocal is_inside
        why = FUSED if named.get("fused") else OTHER_FORM if any(map(named.get, OTHER_FORMS)) else None
        if is_inside or why or not is_set:
            if not is_inside:
                report_setting(agent, "optimizer", why)
            return make(self, params, *given, **named)
        params = list(params)
        is_inside = True
        try:
            make(self, params, *given, **dict(named, fused=True))
            report_setting(agent, "optimizer", None)
        except (RuntimeError, TypeError, ValueError):
            report_setting(agent, "optimizer", NO_FUSED)
            make(self, params, *given, **named)
        finally:
            is_inside = False

    return __init__


# The models: those that the script calls to train, each at its first call. What they call inside is a part of them.

OF_MODELS = ("layout", "numbers", "precision", "execution")
SETTLED_STEPS = 5  # steps of optimizers in which each model that is trained was called


def set_models(agent: Agent, module: Any) -> None:
    """Change each model that trains at its first call. Once some steps were taken, nothing of this is left."""
    settings = {name: value for name, value in wanted().items() if name in (*OF_MODELS, LOOK_ONLY)}
    if not settings:
        return
    base = module.Module
    call = base.__call__
    changed: list = []

    @wraps(call)
    def first_call(self, *given, **named):
        base.__call__ = call  # what is called inside, and what is compiled, sees none of this
        if agent.steps >= SETTLED_STEPS or agent.is_off:
            return call(self, *given, **named)
        try:
            if not any(model is self for model in changed) and _is_to_change(self):
                changed.append(self)
                _change(agent, self, settings)
        except Exception as error:
            agent.failed("model settings", error)
            for name in settings:
                report_setting(agent, name, HAS_FAILED)
        try:
            return call(self, *given, **named)
        finally:
            base.__call__ = first_call

    base.__call__ = first_call


def _is_to_change(model: Any) -> bool:
    """Whether a model trains, and is none of Keras: its `compile` is another, and `keras_setting` sets it."""
    torch: Any = sys.modules["torch"]
    if (
        not model.training
        or not torch.is_grad_enabled()
        or not any(weight.requires_grad for weight in model.parameters())
    ):
        return False
    return not any(str(kind.__module__).startswith("keras.") for kind in type(model).__mro__)


def _change(agent: Agent, model: Any, settings: dict) -> None:
    """Make the settings of a model in it, in the order in which code would have them, and report each."""
    torch: Any = sys.modules["torch"]
    convolution = torch.nn.modules.conv._ConvNd
    convolves = any(isinstance(part, convolution) and part.weight.dim() == 4 for part in model.modules())
    is_compiled = hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None
    if "layout" in settings and convolves:
        model.to(memory_format=torch.channels_last)
    if "numbers" in settings:
        _make_single(torch, model)
        agent.tell(has_set="numbers")
    if "precision" in settings:
        kind = next(model.parameters()).device.type
        model.forward = torch.autocast(kind, dtype=torch.bfloat16)(model.forward)
        agent.tell(has_set="precision")
    if "execution" in settings and not is_compiled:
        model.compile()
    if "layout" in settings or LOOK_ONLY in settings:
        report_setting(agent, "layout", None if convolves else NO_CONVOLUTION)
    if "execution" in settings or LOOK_ONLY in settings:
        report_setting(agent, "execution", ITSELF_COMPILED if is_compiled else None)


def _make_single(torch: Any, model: Any) -> None:
    """Let a model of float64 compute in float32, from the weights that were drawn for it, which are rounded.

    A script that draws them in float32 starts from others, and its losses could not be compared.
    """
    if torch.get_default_dtype() == torch.float64:
        torch.set_default_dtype(torch.float32)  # of batches that are made from now on
    model.float()
    forward = model.forward

    def single(*given, **named):
        return forward(*map(_as_single, given), **{name: _as_single(value) for name, value in named.items()})

    model.forward = single


def _as_single(value: Any) -> Any:
    is_double = getattr(value, "dtype", None) == sys.modules["torch"].float64
    if is_double:
        return value.float()
    return type(value)(map(_as_single, value)) if type(value) in (list, tuple) else value
