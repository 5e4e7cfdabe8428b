"""Denormal numbers in the gradients and the moments of a script's optimizer: a few of them, a few times."""

from __future__ import annotations

import sys

from .agent import Agent

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

FIRST = 64  # steps until the first look; then after twice as many each time
TENSORS_MOST, NUMBERS_MOST = 32, 1024  # of each kind, and of each tensor
EXPONENT, FRACTION = 0x7F800000, 0x007FFFFF  # of a float32: denormal where the first is 0 and the second is not


class Census:
    """Looks at the optimizers of a training on a processor. If looking fails, the script goes on without it."""

    def __init__(self, agent: Agent) -> None:
        self._agent, self.due = agent, FIRST

    def look(self, optimizer: Any) -> None:
        """Count after a step of the optimizer: its gradients are still there."""
        self.due = 2 * self._agent.steps
        self._agent.looks_itself = True
        try:
            torch = sys.modules["torch"]
            with torch.no_grad():
                shares = count(torch, optimizer)
                is_flushed = not count_denormals(torch, torch.full((1,), 1e-38) / 4)
        except Exception:
            self.due = sys.maxsize
            return
        finally:
            self._agent.looks_itself = False
        if shares:
            self._agent.tell(denormals=shares, is_flushed=is_flushed, at_step=self._agent.steps)


def count(torch: Any, optimizer: Any) -> dict:
    """Return the share of denormal numbers by kind."""
    weights = [each for group in optimizer.param_groups for each in group["params"]]
    weights = weights[:: max(1, -(-len(weights) // TENSORS_MOST))]
    held = [optimizer.state.get(each) for each in weights]
    kinds = {
        "weights": weights,
        "gradients of its weights": [each.grad for each in weights],
        "sums of its optimizer": [each for state in held if isinstance(state, dict) for each in state.values()],
    }
    shares = {kind: share_of(torch, found) for kind, found in kinds.items()}
    return {kind: share for kind, share in shares.items() if share >= 0}


def share_of(torch: Any, found: list) -> float:
    """Return the share of denormal numbers, each tensor by its size; -1 where none can be looked at."""
    denormal = numbers = 0.0
    for each in found:
        if not isinstance(each, torch.Tensor) or each.dtype != torch.float32 or each.device.type != "cpu":
            continue
        if each.layout == torch.strided and each.is_contiguous() and each.numel() > 1:
            taken = each.detach().view(-1)[:: -(-each.numel() // NUMBERS_MOST)]
            denormal += each.numel() * count_denormals(torch, taken) / taken.numel()
            numbers += each.numel()
    return denormal / numbers if numbers else -1.0


def count_denormals(torch: Any, values: Any) -> int:
    """Count by bits: where denormal numbers are flushed, a comparison also treats them as 0."""
    bits = values.contiguous().view(torch.int32)
    return int((((bits & EXPONENT) == 0) & ((bits & FRACTION) != 0)).sum())
