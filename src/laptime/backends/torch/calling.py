"""How a user's model is called on a batch, and where its loss is.

| batch | with a `loss` | without |
|---|---|---|
| a tuple or list of two or more | model(all but the last), loss(outputs, the last) | model(*batch) |
| a dict | model(**what its forward names), loss(outputs, batch) | model(**batch) |
| anything else, alone or in a tuple of one | model(batch), loss(outputs, batch) | model(batch) |

Without a `loss`, what the model returns is or holds its loss.
"""

from __future__ import annotations

import copy
import inspect
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence

from laptime.backends.torch.batches import tensors
from laptime.errors import TrainingError

WAYS = (
    "a tuple gives model(all but the last) and loss(outputs, the last), a dict model(**batch) and "
    "loss(outputs, batch), anything else model(batch); without a loss, a tuple gives model(*batch)"
)
GIVE_A_LOSS = (
    "return its loss from its forward (of several, their sum), or give loss=, a function of (outputs, targets)"
)
KINDS = inspect.Parameter
PAIRS = (tuple, list)


class Inputs(NamedTuple):
    """What a model is called with, where that is not one value."""

    args: tuple[Any, ...]
    words: dict[str, Any]


def call(network: Callable[..., Any], inputs: Any) -> Any:
    return network(*inputs.args, **inputs.words) if type(inputs) is Inputs else network(inputs)


class Calling:
    """Splits the batches of one training into what the model gets and what its loss gets."""

    def __init__(self, name: str, model: nn.Module, *, has_loss: bool) -> None:
        self._name, self._has_loss = name, has_loss
        self._signature = _signature_of(model)
        self._named = _names_of(self._signature) if has_loss else None

    def split(self, batch: Any) -> tuple[Any, Any]:
        """Return the inputs of the model, and the targets of the loss."""
        if (
            self._has_loss and type(batch) in PAIRS and len(batch) == 2
        ):  # most batches: the other tests take a microsecond
            return batch[0], batch[1]
        if isinstance(batch, Mapping):
            named = self._named
            return Inputs((), {key: batch[key] for key in batch if named is None or key in named}), batch
        if not isinstance(batch, tuple | list) or isinstance(batch, PackedSequence):
            return batch, batch
        if len(batch) == 1:
            return batch[0], batch[0]
        if not self._has_loss:
            return Inputs(tuple(batch), {}), batch
        return batch[0] if len(batch) == 2 else Inputs(tuple(batch[:-1]), {}), batch[-1]

    def check(self, batch: Any) -> None:
        """Raise an error in words if the model cannot be called on this batch."""
        inputs, _ = self.split(batch)
        if isinstance(batch, tuple | list) and not batch:
            raise TrainingError(f"{self._name}: a batch is an empty {type(batch).__name__}", WAYS)
        if self._signature is None:
            return
        try:
            call(self._signature.bind, inputs)
        except TypeError as error:
            raise TrainingError(
                f"{self._name}: a batch is {_describe(batch)}, so that it is called as {_written(inputs)}, and the "
                f"model's forward{self._signature} does not take that: {error}",
                WAYS,
            ) from None


class OwnLoss:
    """A user's loss, or the one that the model has computed; checked to be one number."""

    def __init__(self, name: str, given: Callable[..., Any] | None) -> None:
        self._name, self._given = name, given

    def __call__(self, outputs: Any, targets: Any) -> Tensor:
        loss = find_loss(outputs) if self._given is None else self._given(outputs, targets)
        if isinstance(loss, Tensor) and loss.numel() == 1:
            return loss
        if self._given is None:
            raise TrainingError(
                f"{self._name}: gives no loss, and its model returned {_describe(outputs)}: expected its loss as one "
                "number, as the first of a tuple, or as .loss or ['loss']",
                GIVE_A_LOSS,
            )
        raise TrainingError(
            f"{self._name}: loss returned {_describe(loss)}, expected a tensor of one number", "such as its mean"
        )

    def on(self, device: torch.device) -> OwnLoss:
        """Return the loss with its own weights, if it has any, on the device."""
        if not isinstance(self._given, nn.Module):
            return self
        return OwnLoss(self._name, copy.deepcopy(self._given).to(device))

    def widen(self) -> None:
        if isinstance(self._given, nn.Module):
            self._given.double()

    def narrow(self) -> None:
        if isinstance(self._given, nn.Module):
            self._given.float()


def find_loss(outputs: Any) -> Any:
    """Return the loss in what a model returned, or None."""
    if isinstance(outputs, Tensor):
        return outputs
    if isinstance(outputs, Mapping) and "loss" in outputs:
        return outputs["loss"]
    if hasattr(outputs, "loss"):
        return outputs.loss
    return outputs[0] if isinstance(outputs, tuple | list) and outputs else None


def count_batch_items(inputs: Any, targets: Any) -> int:
    """Return how many items a batch has: the length that its targets have in common, or most of its tensors."""
    lengths = [[len(each) for each in tensors(value) if each.dim()] for value in (targets, inputs)]
    alike = (found[0] for found in lengths if len(set(found)) == 1 and found[0])
    usual = (length for length, _ in Counter(filter(None, lengths[1])).most_common(1))
    return next(alike, None) or next(usual, 1)


def _signature_of(model: nn.Module) -> inspect.Signature | None:
    try:
        return inspect.signature(getattr(model, "_orig_mod", model).forward)  # that of a compiled model takes anything
    except (TypeError, ValueError):
        return None


def _names_of(signature: inspect.Signature | None) -> frozenset[str] | None:
    """Return the names that a forward takes; None if it takes any."""
    told = signature.parameters.values() if signature is not None else ()
    if signature is None or any(each.kind is KINDS.VAR_KEYWORD for each in told):
        return None
    return frozenset(each.name for each in told if each.kind in {KINDS.POSITIONAL_OR_KEYWORD, KINDS.KEYWORD_ONLY})


def _written(inputs: Any) -> str:
    if type(inputs) is not Inputs:
        return "model(batch)"
    return f"model({', '.join((*map(_describe, inputs.args), *(f'{key}=...' for key in inputs.words)))})"


def _describe(value: Any) -> str:
    kind = type(value).__name__
    if isinstance(value, Tensor):
        return f"a tensor of {tuple(value.shape)}"
    if isinstance(value, Mapping):
        return f"{kind} of {', '.join(map(str, value))}"
    return f"{kind} of {len(value)}" if isinstance(value, tuple | list) else kind
