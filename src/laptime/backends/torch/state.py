"""All that the next step depends on, as plain arrays and numbers, and the way back, to the last bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from laptime.backends.torch.stepping import Stepper
from laptime.errors import LaneError

BFLOAT16 = "bfloat16"  # numpy has no such number: its bits travel as whole numbers, with this word


def take_state(stepper: Stepper, device: torch.device) -> dict[str, Any]:
    """Give weights, buffers, the optimizer's state, the loss scaler's, and the random numbers to come."""
    return {
        "network": _plain(dict(stepper.network.state_dict())),
        "optimizer": _plain(stepper.optimizer.state_dict()),
        "scaler": _plain(stepper.scaler.state_dict()) if stepper.scaler is not None else None,
        "random": _plain(_random_state(device)),
    }


def put_state(stepper: Stepper, device: torch.device, held: dict[str, Any], *, in_place: bool) -> None:
    """Bring a training to where `held` was taken; a captured graph wants it `in_place`, on the addresses it knows."""
    _put_network(stepper, _as_tensors(held["network"]))
    optimizer = _as_tensors(held["optimizer"])
    if in_place:
        _copy_optimizer(stepper.optimizer, optimizer["state"])
    else:
        stepper.optimizer.load_state_dict({**optimizer, "state": _in_layout(stepper.optimizer, optimizer["state"])})
    if stepper.scaler is not None:
        stepper.scaler.load_state_dict(held["scaler"])
    _put_random_state(device, _as_tensors(held["random"]))


@torch.no_grad()
def _put_network(stepper: Stepper, saved: dict[str, Tensor]) -> None:
    own = stepper.network.state_dict()
    if {name: each.shape for name, each in own.items()} != {name: each.shape for name, each in saved.items()}:
        raise LaneError("the checkpoint is of another network: its arrays have other names or shapes")
    for name, each in own.items():
        each.copy_(saved[name])


def _in_layout(optimizer: torch.optim.Optimizer, saved: dict[int, Any]) -> dict[int, Any]:
    """Lay out what belongs to a weight as the weight itself lies in memory: a fused step walks through both alike."""
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    return {
        number: {key: _like(value, parameters[number]) for key, value in state.items()}
        for number, state in saved.items()
    }


def _like(value: Any, parameter: Tensor) -> Any:
    if not isinstance(value, Tensor) or value.shape != parameter.shape:
        return value
    return torch.empty_like(parameter, dtype=value.dtype, device="cpu").copy_(value)


@torch.no_grad()
def _copy_optimizer(optimizer: torch.optim.Optimizer, saved: dict[int, Any]) -> None:
    parameters = [each for group in optimizer.param_groups for each in group["params"]]
    for number, state in saved.items():
        own = optimizer.state[parameters[number]]
        for key, value in state.items():
            if isinstance(own.get(key), Tensor):
                own[key].copy_(value)
            else:
                own[key] = value


def _random_state(device: torch.device) -> dict[str, Tensor]:
    """Dropout on a processor draws from PyTorch's one generator there, on an accelerator from the device's own."""
    state = {"cpu": torch.get_rng_state()}
    if device.type in {"cuda", "xpu", "mps"}:
        module: Any = getattr(torch, device.type)
        state["device"] = module.get_rng_state() if device.type == "mps" else module.get_rng_state(device)
    return state


def _put_random_state(device: torch.device, state: dict[str, Tensor]) -> None:
    torch.set_rng_state(state["cpu"])
    if "device" in state:
        module: Any = getattr(torch, device.type)
        module.set_rng_state(*([state["device"]] if device.type == "mps" else [state["device"], device]))


def _plain(value: Any) -> Any:
    """Turn tensors into arrays, deep inside dicts, lists and tuples."""
    if isinstance(value, Tensor):
        array = value.detach().cpu().contiguous()
        if array.dtype == torch.bfloat16:
            return {BFLOAT16: array.view(torch.int16).numpy().copy()}
        return array.numpy().copy()
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_plain(part) for part in value)
    return value


def _as_tensors(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return torch.from_numpy(value)
    if isinstance(value, dict):
        if value.keys() == {BFLOAT16}:
            return torch.from_numpy(value[BFLOAT16]).view(torch.bfloat16)
        return {key: _as_tensors(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return type(value)(_as_tensors(part) for part in value)
    return value
