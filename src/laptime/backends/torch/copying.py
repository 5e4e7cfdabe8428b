"""Deep copies of PyTorch's optimizers with all that they hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from types import MethodType
from typing import Any

from torch.optim import Optimizer

HOOKS = "_optimizer_"
WRAPPED = "_wrapped_by_lr_sched"


@contextlib.contextmanager
def whole_optimizers() -> Iterator[None]:
    """Copy an optimizer's own attributes too: PyTorch leaves them out, and LBFGS cannot go on without its parameters.

    Functions that an optimizer holds are left out all the same. A schedule wraps the step of its optimizer, to know
    whether it was called, and the wrapper would step the original: the copy gets one of its own.
    """
    real: Any = Optimizer.__getstate__

    def get_whole_state(optimizer: Optimizer) -> dict[str, Any]:
        held = {
            key: value for key, value in vars(optimizer).items() if not key.startswith(HOOKS) and not callable(value)
        }
        if hasattr(optimizer.step, WRAPPED):
            held["step"] = MethodType(_step, optimizer)
        return {**held, **real(optimizer)}

    Optimizer.__getstate__ = get_whole_state  # type: ignore[method-assign,assignment]
    try:
        yield
    finally:
        Optimizer.__getstate__ = real  # type: ignore[method-assign]


def _step(optimizer: Any, *arguments: Any, **words: Any) -> Any:
    """Step as the optimizer's class does, and note it for the optimizer's schedule."""
    optimizer._opt_called = True  # noqa: SLF001  where a schedule looks
    return type(optimizer).step(optimizer, *arguments, **words)


setattr(_step, WRAPPED, True)
