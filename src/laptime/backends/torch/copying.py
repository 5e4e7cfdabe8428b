"""Deep copies of PyTorch's optimizers with all that they hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from torch.optim import Optimizer

HOOKS = "_optimizer_"


@contextlib.contextmanager
def whole_optimizers() -> Iterator[None]:
    """Copy an optimizer's own attributes too: PyTorch leaves them out, and LBFGS cannot go on without its parameters.

    A function that an optimizer holds is left out all the same: a schedule wraps its step, and the wrapper would step
    the original.
    """
    real: Any = Optimizer.__getstate__

    def get_whole_state(optimizer: Optimizer) -> dict[str, Any]:
        held = {
            key: value for key, value in vars(optimizer).items() if not key.startswith(HOOKS) and not callable(value)
        }
        return {**held, **real(optimizer)}

    Optimizer.__getstate__ = get_whole_state  # type: ignore[method-assign]
    try:
        yield
    finally:
        Optimizer.__getstate__ = real  # type: ignore[method-assign]
