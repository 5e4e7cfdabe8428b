"""A user's optimizer, made again on a copy of the model, with the options of a lane."""

from __future__ import annotations

import inspect
import math
from typing import Any

from torch import nn, optim
from torch.optim.lr_scheduler import LRScheduler

from laptime.errors import TrainingError

IN_A_STEP = "put it into a step of your own: laptime.Training(step=..., state=..., data=...)"
GIVE_ONE = "give a torch.optim.Optimizer on the model's parameters, or a function that takes them and returns one"
# These add weight decay to the gradient by default, then divide both by statistics of the gradient.
COUPLED = (optim.Adam, optim.NAdam, optim.RAdam, optim.Adamax, optim.Adagrad, optim.Adadelta, optim.RMSprop)


class OwnOptimizer:
    """`needs_closure` says that each step computes the loss several times, `unfused` names one without a fused form."""

    def __init__(self, name: str, given: Any, model: nn.Module) -> None:
        self._name, self._given, self._model = name, given, model
        self._refuse_what_is_none()
        probe = given if isinstance(given, optim.Optimizer) else self._call(model)
        self.needs_closure = _needs_closure(probe)
        self.epsilon = _epsilon_of(probe)
        self.unfused = None if "fused" in probe.defaults else type(probe).__name__

    def make(self, network: nn.Module, options: dict[str, Any]) -> optim.Optimizer:
        """Return a fresh optimizer on the network's parameters."""
        is_made = not isinstance(self._given, optim.Optimizer)
        given = self._call(network) if is_made else self._given
        wanted = {key: value for key, value in options.items() if key in given.defaults}
        if is_made and not wanted:
            return given
        if "fused" in wanted:
            wanted["foreach"] = None
        groups = [{**group, **wanted} for group in (given.param_groups if is_made else self._groups_on(network))]
        taken = inspect.signature(type(given)).parameters  # AdamW's defaults have a key that its own class refuses
        defaults = {key: value for key, value in given.defaults.items() if key in taken}
        try:
            return type(given)(groups, **{**defaults, **wanted})
        except (TypeError, ValueError) as error:
            raise TrainingError(
                f"{self._name}: its {type(given).__name__} cannot be made again on a copy of the model: {error}",
                "give a function that takes the model's parameters and returns it",
            ) from error

    def _call(self, network: nn.Module) -> optim.Optimizer:
        made = self._given(network.parameters())
        if not isinstance(made, optim.Optimizer):
            raise TrainingError(f"{self._name}: optimizer returned {type(made).__name__}, not an optimizer", GIVE_ONE)
        return made

    def _groups_on(self, network: nn.Module) -> list[dict[str, Any]]:
        """Replace the parameters in the user's parameter groups by those of the copy."""
        twins = dict(zip(map(id, self._model.parameters()), network.parameters(), strict=True))
        groups: list[dict[str, Any]] = []
        for group in self._given.param_groups:
            if any(id(each) not in twins for each in group["params"]):
                raise TrainingError(
                    f"{self._name}: the optimizer holds parameters that the model does not have",
                    "make them a part of the model, or take a step of your own: laptime.Training(step=..., state=...)",
                )
            groups.append({**group, "params": [twins[id(each)] for each in group["params"]]})
        return groups

    def _refuse_what_is_none(self) -> None:
        given, kind = self._given, type(self._given).__name__
        if isinstance(given, LRScheduler):
            says = f"optimizer is {kind}, a schedule of learning rates"
            raise TrainingError(f"{self._name}: {says}", f"give its optimizer; or {IN_A_STEP}")
        if isinstance(given, tuple | list | dict):
            raise TrainingError(f"{self._name}: optimizer is a {kind}, expected one optimizer", IN_A_STEP)
        if given is None:
            raise TrainingError(f"{self._name}: gives no optimizer", GIVE_ONE)
        if not isinstance(given, optim.Optimizer) and not callable(given):
            raise TrainingError(f"{self._name}: optimizer is {kind}", GIVE_ONE)


def _needs_closure(optimizer: optim.Optimizer) -> bool:
    """Whether a step takes a function that computes the loss again, as that of LBFGS does."""
    closure = inspect.signature(type(optimizer).step).parameters.get("closure")
    return closure is not None and closure.default is inspect.Parameter.empty


def _epsilon_of(optimizer: optim.Optimizer) -> float:
    """Return the gradient size below which the optimizer stops normalising; 1 for one that never normalises."""
    epsilon = optimizer.defaults.get("eps")
    if not isinstance(epsilon, float | int):
        return 1.0
    return math.sqrt(epsilon) if isinstance(optimizer, optim.Adadelta) else float(epsilon)
