"""Hooks are set when the script imports what they belong to; nothing is imported that the script does not import."""

from __future__ import annotations

import os
import sys
from importlib import import_module

from . import kinds
from .agent import Agent

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

# The module whose import sets a hook; the file of ours that has it, and its name there.
HOOKS = {
    "torch": ("torch_hooks", "hook_default_type"),
    "torch.optim.optimizer": ("torch_hooks", "hook_optimizers"),
    "torch.autograd": ("torch_hooks", "hook_backward"),
    "torch.autograd.grad_mode": ("torch_hooks", "hook_grad_modes"),
    "torch.nn.modules.module": ("torch_hooks", "hook_modules"),
    "torch.utils.data.dataloader": ("torch_hooks", "hook_loaders"),
    "torch.utils.data._utils.worker": ("lines", "hook_workers"),
    "torch.amp.grad_scaler": ("torch_hooks", "hook_scaler"),
    "torch.serialization": ("torch_hooks", "hook_saving"),
    "torch._dynamo.callback": ("torch_hooks", "hook_compiler"),
    "safetensors.torch": ("torch_hooks", "hook_safetensors"),
    "keras.src.callbacks.callback_list": ("keras_hooks", "hook_callbacks"),
    "keras.src.trainers.epoch_iterator": ("keras_hooks", "hook_epochs"),
    "keras.src.backend.jax.trainer": ("keras_hooks", "hook_jax_batches"),
    "keras.src.optimizers.base_optimizer": ("tensorflow_hooks", "hook_keras_optimizers"),
    "tensorflow.python.eager.polymorphic_function.polymorphic_function": ("tensorflow_hooks", "hook_functions"),
    "tensorflow.python.eager.backprop": ("tensorflow_hooks", "hook_tapes"),
    "tensorflow.python.data.ops.iterator_ops": ("tensorflow_hooks", "hook_tensorflow_data"),
    "jax._src.monitoring": ("keras_hooks", "hook_jax"),
}
# The same of a script that is raced; these are set after those above, and so around them.
HOLDS = {
    "torch": ("setting", "set_torch"),
    "numpy.random": ("setting", "set_numpy"),
    "tensorflow": ("setting", "set_tensorflow"),
    "torch.utils.data": ("setting", "set_loaders"),
    "torch.optim": ("setting", "set_optimizers"),
    "torch.nn.modules.module": ("setting", "set_models"),
    "torch.optim.optimizer": ("holding", "hold_optimizers"),
    "torch.autograd": ("holding", "hold_backward"),
    "torch.utils.data.dataloader": ("holding", "hold_loaders"),
    "torch.amp.grad_scaler": ("holding", "hold_scaler"),
    "keras.src.callbacks.callback_list": ("holding", "hold_batches"),
    "keras.src.dtype_policies.dtype_policy": ("keras_setting", "set_policy"),
    "keras.src.trainers.trainer": ("keras_setting", "set_compile"),
    "keras.src.backend.torch.trainer": ("keras_setting", "set_fit"),
    "keras.src.backend.tensorflow.trainer": ("keras_setting", "set_fit"),
    "keras.src.backend.jax.trainer": ("keras_setting", "set_fit"),
}


class Finder:
    """Finds the modules of HOOKS as Python would, and sets their hooks once they are there."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._names = {name for table in agent.tables for name in table}
        self._searched: set = set()  # names that are searched for now; another agent's finder may ask for them

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        if name not in self._names or name in self._searched:
            return None
        self._searched.add(name)
        try:
            for finder in sys.meta_path:
                find = getattr(finder, "find_spec", None)
                if finder is self or find is None:
                    continue
                spec = find(name, path, target)
                if spec is not None:
                    self._wrap(name, spec.loader)
                    return spec
        except Exception as error:
            self._agent.failed(name, error)
        finally:
            self._searched.discard(name)
        return None

    def _wrap(self, name: str, loader: Any) -> None:
        execute = loader.exec_module

        def exec_module(module: Any) -> None:
            loader.__dict__.pop("exec_module", None)
            execute(module)
            set_hook(self._agent, name, module)

        loader.exec_module = exec_module


def set_hook(agent: Agent, name: str, module: Any) -> None:
    """Set the hooks of a module that was just imported."""
    for table in agent.tables:
        try:
            if name in table:
                place, function = table[name]
                getattr(import_module("." + place, __package__), function)(agent, module)
        except Exception as error:
            agent.failed(name, error)


armed: list = []  # the agent of this process, once it is armed


def arm(agent: Agent) -> None:
    """Set the hooks of what is imported already, and of all that will be."""
    armed.append(agent)
    agent.tables.append(HOOKS)
    if kinds.HOLDS_VARIABLE in os.environ:  # it is raced, and so held at the ends of iterations
        from .holding import Hold
        from .setting import set_python, wanted

        agent.hold = Hold(agent)
        agent.tables.append(HOLDS)
        set_python()
        folder = os.environ.get(kinds.OWN_MODULES)
        if folder:
            from .own_modules import FreshLoader, compile_afresh

            FreshLoader.changes = [(name, where) for name, where in wanted().items() if name in kinds.CHANGES_OF_LINES]
            FreshLoader.was_changed = staticmethod(lambda name: agent.tell(has_set=name))
            compile_afresh(folder)
    for name in dict.fromkeys(name for table in agent.tables for name in table):
        if name in sys.modules:
            set_hook(agent, name, sys.modules[name])
    sys.meta_path.insert(0, Finder(agent))
