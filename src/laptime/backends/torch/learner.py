"""A whole training in PyTorch: the same step as in a heat, with a running score, and a state to resume from."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from laptime.backends.base import StepwiseRunner
from laptime.backends.torch.denormals import take_census
from laptime.backends.torch.devices import DeviceClock
from laptime.backends.torch.evaluation import RunningScore, TorchEvaluator
from laptime.backends.torch.inputs import BatchSource, open_source
from laptime.backends.torch.proof import rewind
from laptime.backends.torch.recipe import Batch, TorchRecipe
from laptime.backends.torch.runners import CapturedStep
from laptime.backends.torch.stepping import Stepper
from laptime.errors import LaneError
from laptime.model.lane import NO_TRAINING, Settings
from laptime.model.protocol import Score
from laptime.model.symptoms import DenormalCensus

BFLOAT16 = "bfloat16"  # NumPy has no such type: the bits are stored as integers under this key


class TorchLearner(StepwiseRunner):
    """One lane's training, from its first step to its last."""

    def __init__(self, recipe: TorchRecipe, settings: Settings, device: torch.device, seed: int) -> None:
        if settings.input in NO_TRAINING:
            raise LaneError(f"input={settings.input} trains nothing", "name another input for a whole training")
        self._recipe, self._settings, self._device, self._seed = recipe, settings, device, seed
        self._account = RunningScore(device)
        self._stepper = Stepper(recipe, settings, device, recipe.rate(settings), look=self._account)
        self.evaluator = TorchEvaluator(recipe, self._stepper.network, settings, device)
        self.fence = DeviceClock(device).fence
        self._source: BatchSource | None = None
        self._graph: CapturedStep | None = None
        self._waiting: list[Batch] = []

    def begin(self, steps_done: int, state: Any | None) -> None:
        self._source = open_source(self._recipe, self._settings, self._device, self._seed, first=steps_done)
        if self._settings.is_captured:
            self._capture()
        if state is not None:
            restore_state(self._stepper, self._device, state, in_place=self._graph is not None)
        self.reset_score()

    def step(self) -> None:
        batch = self._next_batch()
        self._account.note(self._recipe.split(batch)[1])
        if self._graph is None:
            self._stepper(batch)
        else:
            self._graph.feed(batch)
            self._graph.replay()

    def score(self) -> Score:
        return self._account.score()

    def reset_score(self) -> None:
        self._account.clear()

    def state(self) -> Any:
        return take_state(self._stepper, self._device)

    def census(self) -> DenormalCensus:
        return take_census(self._stepper, self.step)

    def close(self) -> tuple[str, ...]:
        if self._source is None:
            return ()
        self._source.close()
        return self._source.notes()

    def _next_batch(self) -> Batch:
        assert self._source is not None
        return self._waiting.pop() if self._waiting else self._source()

    def _capture(self) -> None:
        """Capture the step on the first batch and undo the warm-up; the batch is then trained on like any other."""
        example = self._next_batch()
        self._waiting.append(example)
        start = [each.detach().clone() for each in self._stepper.network.state_dict().values()]
        scaler = self._stepper.scaler
        scale = scaler.state_dict() if scaler is not None else {}
        self._graph = CapturedStep(self._stepper, example)
        self._graph.capture()
        rewind(self._stepper, start)
        if scaler is not None:
            scaler.load_state_dict(scale)
        torch.manual_seed(self._seed)


def take_state(stepper: Stepper, device: torch.device) -> dict[str, Any]:
    """Return weights, buffers, the states of optimizer and loss scaler, and the state of the random generators."""
    return {
        "network": _plain(dict(stepper.network.state_dict())),
        "optimizer": _plain(stepper.optimizer.state_dict()),
        "scaler": _plain(stepper.scaler.state_dict()) if stepper.scaler is not None else None,
        "random": _plain(_random_state(device)),
    }


def restore_state(stepper: Stepper, device: torch.device, held: dict[str, Any], *, in_place: bool) -> None:
    """Restore a training to `held`; a captured graph needs it `in_place`, at the addresses that it knows."""
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
    """Lay out optimizer state as its weight is: a fused step reads both in the same order."""
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
    """Return the generators' states: dropout draws from PyTorch's CPU generator, or from that of the accelerator."""
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
    """Convert tensors to arrays, at any depth in dicts, lists and tuples."""
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
