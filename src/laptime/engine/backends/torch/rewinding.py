"""PyTorch's objects in a training's state, to be copied and put back: networks, optimizers, tensors, schedules."""

from __future__ import annotations

import copy
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from laptime.engine.backends.arrays import FloatArray
from laptime.engine.backends.replay import (
    BUFFER_ARRAYS,
    LEAVES,
    OPTIMIZER_ARRAYS,
    WEIGHT_ARRAYS,
    WHOLE_NUMBERS,
    Generators,
    Leaf,
    put_shared,
    read_shared,
)
from laptime.engine.backends.torch.random_numbers import seed_all
from laptime.model.errors import LaneError

PLAIN_ATTRIBUTES = (bool, int, float, str, type(None))


class NetworkLeaf:
    """A network, by PyTorch's own methods: a class may have others. Its plain attributes may be counts."""

    def takes(self, leaf: Any) -> bool:
        return isinstance(leaf, nn.Module)

    def arrays(self, leaf: nn.Module) -> Iterator[tuple[str, Tensor]]:
        for _, weights in nn.Module.named_parameters(leaf):
            yield WEIGHT_ARRAYS, weights
        for _, buffer in nn.Module.named_buffers(leaf):
            yield BUFFER_ARRAYS if buffer.is_floating_point() else WHOLE_NUMBERS, buffer

    def rest(self, leaf: nn.Module) -> list[dict[str, Any]]:
        modules = nn.Module.modules(leaf)
        return [
            {key: value for key, value in vars(module).items() if isinstance(value, PLAIN_ATTRIBUTES)}
            for module in modules
        ]

    def put(self, leaf: nn.Module, arrays: Sequence[FloatArray], rest: Any) -> nn.Module:
        _copy(self.arrays(leaf), arrays)
        for module, plain in zip(nn.Module.modules(leaf), rest, strict=True):
            vars(module).update(plain)
        return leaf


class OptimizerLeaf:
    """What an optimizer keeps for each of its weights, and its groups, which hold the rate."""

    def takes(self, leaf: Any) -> bool:
        return isinstance(leaf, Optimizer)

    def arrays(self, leaf: Optimizer) -> Iterator[tuple[str, Tensor]]:
        for state in _states(leaf):
            for key in sorted(map(str, state)):
                if isinstance(state.get(key), Tensor):
                    yield f"{OPTIMIZER_ARRAYS} {key}", state[key]

    def rest(self, leaf: Optimizer) -> Any:
        states = [
            {key: value for key, value in state.items() if not isinstance(value, Tensor)} for state in _states(leaf)
        ]
        if any(isinstance(value, list | dict | tuple) for state in states for value in state.values()):
            raise LaneError("its optimizer keeps lists of tensors")
        groups = [
            {key: value for key, value in param_group.items() if key != "params"} for param_group in leaf.param_groups
        ]
        keys = [[key for key, value in state.items() if isinstance(value, Tensor)] for state in _states(leaf)]
        return copy.deepcopy((states, groups, keys))

    @torch.no_grad()
    def put(self, leaf: Optimizer, arrays: Sequence[FloatArray], rest: Any) -> Optimizer:
        states, groups, keys = rest
        left = iter(arrays)
        for state, plain, wanted in zip(_states(leaf), states, keys, strict=True):
            state.update(plain)
            for key in sorted(wanted):
                state[key].copy_(torch.from_numpy(next(left)))
        for group, kept in zip(leaf.param_groups, groups, strict=True):
            group.update(kept)
        return leaf


class TensorLeaf:
    """A tensor of its own."""

    def takes(self, leaf: Any) -> bool:
        return isinstance(leaf, Tensor)

    def arrays(self, leaf: Tensor) -> Iterator[tuple[str, Tensor]]:
        yield WEIGHT_ARRAYS if leaf.is_floating_point() else WHOLE_NUMBERS, leaf

    def rest(self, leaf: Tensor) -> None:  # noqa: ARG002  a tensor is nothing else
        return None

    def put(self, leaf: Tensor, arrays: Sequence[FloatArray], rest: Any) -> Tensor:  # noqa: ARG002
        _copy([("", leaf)], arrays)
        return leaf


class StatefulLeaf:
    """A schedule of rates, a loss scaler, or a generator: what gives its state and takes it again."""

    def takes(self, leaf: Any) -> bool:
        return all(callable(getattr(leaf, name, None)) for name in _names_of(leaf))

    def arrays(self, leaf: Any) -> Iterator[tuple[str, Any]]:  # noqa: ARG002
        yield from ()

    def rest(self, leaf: Any) -> Any:
        return copy.deepcopy(getattr(leaf, _names_of(leaf)[0])())

    def put(self, leaf: Any, arrays: Sequence[FloatArray], rest: Any) -> Any:  # noqa: ARG002
        getattr(leaf, _names_of(leaf)[1])(rest)
        return leaf


TORCH_LEAVES: tuple[Leaf, ...] = (NetworkLeaf(), OptimizerLeaf(), TensorLeaf(), *LEAVES, StatefulLeaf())


def _names_of(leaf: Any) -> tuple[str, str]:
    is_generator = isinstance(leaf, torch.Generator)
    return ("get_state", "set_state") if is_generator else ("state_dict", "load_state_dict")


def _states(optimizer: Optimizer) -> list[dict[Any, Any]]:
    """Return what is kept for each weight, in order; nothing before its first step."""
    weights = [weight for group in optimizer.param_groups for weight in group["params"]]
    return [optimizer.state[weight] for weight in weights if weight in optimizer.state]


@torch.no_grad()
def _copy(held: Iterator[tuple[str, Tensor]] | list[tuple[str, Tensor]], arrays: Sequence[FloatArray]) -> None:
    for (_, tensor), array in zip(list(held), arrays, strict=True):
        tensor.copy_(torch.from_numpy(array))


def generators_of(given: torch.device | None) -> Generators:
    """Return the generators that a training on this device draws from: PyTorch's, NumPy's, and Python's own.

    None is the processor.
    """
    device = given or torch.device("cpu")
    module: Any = getattr(torch, device.type) if device.type in {"cuda", "xpu", "mps"} else None
    which = () if device.type == "mps" else (device,)

    def read() -> Any:
        return read_shared(), torch.get_rng_state(), None if module is None else module.get_rng_state(*which)

    def put(state: Any) -> None:
        put_shared(state[0])
        torch.set_rng_state(state[1])
        if module is not None:
            module.set_rng_state(state[2], *which)

    return Generators(read, put, seed_all)
