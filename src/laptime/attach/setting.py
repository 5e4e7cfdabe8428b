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
NO_CONVOLUTION, ITSELF_COMPILED, NO_FUSED = "no convolution", "compiled", "no fused form"
FUSED, OTHER_FORM, HAS_FAILED = "fused", "other form", "failed"


def wanted() -> dict:
    """Return what is to be set, by name."""
    words = os.environ.get(kinds.SET, "")
    return dict(each.partition("=")[::2] for each in words.split(",") if each)


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
    told = wanted()
    if "seed" in told:
        module.manual_seed(int(told["seed"]))
    if "matmul" in told:
        module.set_float32_matmul_precision(told["matmul"])
        agent.tell(has_set="matmul")
    if "threads" in told:
        module.set_num_threads(int(told["threads"]))
        module.set_num_threads = lambda _count: None  # a lane names how many, and the script's own call would win
    if "denormals" in told and module.set_flush_denormal(True):
        agent.tell(has_set="denormals")


# The data loaders. A lane names how they load, and so wins over what the script passes.

AFTER_SET = ("batch_size", "shuffle", "sampler", "batch_sampler", "num_workers", "collate_fn", "pin_memory")
OF_WORKERS = ("persistent_workers", "prefetch_factor", "timeout", "multiprocessing_context", "worker_init_fn")
OF_LOADERS = ("workers", "prefetch", "persistent", "pinned", "batch")


def set_loaders(agent: Agent, module: Any) -> None:
    """Let data loaders load otherwise. Several workers would give each item of an iterable set several times.

    Those that Keras makes of arrays and of its own data sets are no loaders of the script.
    """
    told = {name: value for name, value in wanted().items() if name in OF_LOADERS}
    if not told:
        return
    make = module.DataLoader.__init__

    @wraps(make)
    def __init__(self, dataset, *given, **named):
        if _is_made_by_keras():
            return make(self, dataset, *given, **named)
        try:
            other = loader_arguments(told, given, named, is_iterable=isinstance(dataset, module.IterableDataset))
        except Exception as error:
            agent.failed("loader settings", error)
            other = None
        if other is None:
            return make(self, dataset, *given, **named)
        for name in told:
            agent.tell(has_set=name)
        return make(self, dataset, **other)

    module.DataLoader.__init__ = __init__


def _is_made_by_keras() -> bool:
    """Whether the call of a wrapper comes from Keras's own code."""
    return str(sys._getframe(2).f_globals.get("__name__")).startswith("keras.")


def loader_arguments(told: dict, given: tuple, named: dict, *, is_iterable: bool) -> Any:
    """Return the arguments of a loader with these settings; None for one that cannot have them."""
    if len(given) > len(AFTER_SET) or ("workers" in told and is_iterable):
        return None
    found = {**{name: value for name, value in zip(AFTER_SET, given)}, **named}  # noqa: B905, C416  of Python 3.8
    _set_workers(found, told)
    if "prefetch" in told or "persistent" in told:
        if not found.get("num_workers"):
            return None
        found.update({"prefetch_factor": int(told["prefetch"])} if "prefetch" in told else {})
        found.update({"persistent_workers": True} if "persistent" in told else {})
    if "pinned" in told:
        found["pin_memory"] = True
    return _set_batch(found, told["batch"]) if "batch" in told else found


def _set_workers(found: dict, told: dict) -> None:
    if "workers" not in told:
        return
    found["num_workers"] = int(told["workers"])
    if found["num_workers"]:
        found["persistent_workers"] = True
    else:
        for name in OF_WORKERS:
            found.pop(name, None)


def _set_batch(found: dict, batch: str) -> Any:
    usual = found.get("batch_size", 1)
    if found.get("batch_sampler") is not None or type(usual) is not int:
        return None
    found["batch_size"] = usual * int(batch[:-1]) if batch.endswith("x") else int(batch)
    return found


# The optimizers: each with its fused form, which is one kernel, unless the script chose another form.

FUSED_FORMS = ("Adam", "AdamW", "SGD", "Adagrad")
OTHER_FORMS = ("foreach", "capturable", "differentiable")


def set_optimizers(agent: Agent, module: Any) -> None:
    told = wanted()
    if "optimizer" not in told and LOOK_ONLY not in told:
        return
    base, is_set = module.Optimizer, "optimizer" in told
    forms = [getattr(module, name, None) for name in FUSED_FORMS]
    makes = [form for form in forms if form is not None and _takes(form.__init__, "fused")]
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


def _takes(function: Any, name: str) -> bool:
    code = function.__code__
    return name in code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]


def _fused(agent: Agent, make: Any, *, is_set: bool) -> Any:
    """Return what makes an optimizer in its fused form. Where that fails, it is made as the script wants it."""
    is_inside = False  # the code of a class may be that of another one

    @wraps(make)
    def __init__(self, params, *given, **named):
        nonlocal is_inside
        why = FUSED if named.get("fused") else OTHER_FORM if any(named.get(each) for each in OTHER_FORMS) else None
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
    told = {name: value for name, value in wanted().items() if name in (*OF_MODELS, LOOK_ONLY)}
    if not told:
        return
    base = module.Module
    call = base.__call__
    seen: list = []

    @wraps(call)
    def first_call(self, *given, **named):
        base.__call__ = call  # what is called inside, and what is compiled, sees none of this
        if agent.steps >= SETTLED_STEPS or agent.is_off:
            return call(self, *given, **named)
        try:
            if not any(each is self for each in seen) and _trains(self) and not _is_of_keras(self):
                seen.append(self)
                _change(agent, self, told)
        except Exception as error:
            agent.failed("model settings", error)
            for name in told:
                report_setting(agent, name, HAS_FAILED)
        try:
            return call(self, *given, **named)
        finally:
            base.__call__ = first_call

    base.__call__ = first_call


def _is_of_keras(model: Any) -> bool:
    """Whether a module is a layer or model of Keras: its `compile` is another, and `keras_setting` sets it."""
    return any(str(each.__module__).startswith("keras.") for each in type(model).__mro__)


def _trains(model: Any) -> bool:
    torch: Any = sys.modules["torch"]
    return model.training and torch.is_grad_enabled() and any(each.requires_grad for each in model.parameters())


def _change(agent: Agent, model: Any, told: dict) -> None:
    """Make the settings of a model in it, in the order in which code would have them, and report each."""
    torch: Any = sys.modules["torch"]
    convolves = any(_convolves_images(torch, each) for each in model.modules())
    is_compiled = hasattr(model, "_orig_mod") or getattr(model, "_compiled_call_impl", None) is not None
    if "layout" in told and convolves:
        model.to(memory_format=torch.channels_last)
    if "numbers" in told:
        _make_single(torch, model)
        agent.tell(has_set="numbers")
    if "precision" in told:
        kind = next(model.parameters()).device.type
        model.forward = torch.autocast(kind, dtype=torch.bfloat16)(model.forward)
        agent.tell(has_set="precision")
    if "execution" in told and not is_compiled:
        model.compile()
    if "layout" in told or LOOK_ONLY in told:
        report_setting(agent, "layout", None if convolves else NO_CONVOLUTION)
    if "execution" in told or LOOK_ONLY in told:
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


def _convolves_images(torch: Any, module: Any) -> bool:
    return isinstance(module, torch.nn.modules.conv._ConvNd) and module.weight.dim() == 4
