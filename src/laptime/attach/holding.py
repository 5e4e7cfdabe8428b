"""Holds a script that is raced at the end of an iteration, until the parent lets it go on.

The hooks of this file are set around those that note events, so that nothing of a hold is in an iteration's time. An
iteration ends with an optimizer's step, or with a batch of Keras. Where an iteration has several steps, the parent
finds out how many. Where no optimizer steps, backward passes are counted.
"""

from __future__ import annotations

import sys
from functools import wraps
from time import monotonic_ns as now_ns

from . import kinds
from .agent import Agent
from .replay import Replay
from .torch_hooks import wrap_steps

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

BACKWARDS_WITHOUT_STEP = 64  # backward passes without any step of an optimizer: the script changes its weights itself
BY_STEP, BY_BATCH, BY_WORK, BY_BACKWARD, BY_FETCH = "step", "batch", "worked", "backward", "fetch"
NEVER_AGAIN = 1 << 62


class Hold:
    """Counts the ends of iterations of one process, and asks the parent after as many as it said."""

    def __init__(self, agent: Agent) -> None:
        self._agent = agent
        self._kind: Any = None
        self._left = 1
        self._backwards = 0
        self._since_ns = 0
        self.logs: Any = None  # of Keras's last batch
        self.replay = Replay(agent, self.fetched)

    def passed(self, kind: str) -> None:
        """Count an end of an iteration, and hold where it is the last that may pass. Hooks call this: it never raises.

        If it fails, the parent hears no more of this process, and the script goes on.
        """
        try:
            if kind != BY_FETCH:
                self.replay.trained()
            if self._agent.is_off or (kind != self._kind and not self._begins(kind)):
                return
            self._left -= 1
            if self._left <= 0:
                self._ask()
        except Exception:
            self._agent.disable()

    def passed_backward(self) -> None:
        """Count a backward pass. It ends an iteration only where nothing else does."""
        self._backwards += self._kind is None
        if self._kind == BY_BACKWARD or self._backwards >= BACKWARDS_WITHOUT_STEP:
            self.passed(BY_BACKWARD)

    def passed_batch(self) -> None:
        """Count a batch of `laptime.steps`. It ends an iteration where no optimizer does."""
        self.passed(BY_WORK)

    def fetched(self) -> None:
        """Count a fetch of a loader that runs alone."""
        self.passed(BY_FETCH)

    def _begins(self, kind: str) -> bool:
        """Whether this kind is counted from now on."""
        if self._kind is None or self._kind == BY_BACKWARD or kind == BY_FETCH:
            self._kind = kind
            return True
        return False

    def _ask(self) -> None:
        wait_for_devices()
        at_ns = now_ns()
        answer = self._agent.ask(
            held=self._kind,
            since_ns=self._since_ns,
            at_ns=at_ns,
            idle_ns=self.replay.take_idle_ns(),
            loss=_loss_in(self.logs),
            device_bytes=device_memory(),
            peak_bytes=peak_memory(),
            threads=threads(),
            shapes=self.replay.shapes,
            redrawn=self.replay.redrawn,
        )
        what, self._left, batches = answer or (kinds.FREE, NEVER_AGAIN, 0)
        if what == kinds.FREE:
            self._left = NEVER_AGAIN
        elif what == kinds.REPLAY:
            self.replay.begin(batches)
        elif what == kinds.LOADER_ALONE:
            self.replay.run_alone = True
        elif what == kinds.FETCH_AGAIN:
            self.replay.fetch_again()
        self._since_ns = now_ns()


def wait_for_devices() -> None:
    """Wait until all devices are done with what was started: a window ends when its work has ended."""
    try:
        torch: Any = sys.modules.get("torch")
        jax: Any = sys.modules.get("jax")
        tensorflow: Any = sys.modules.get("tensorflow")
        for name in ("cuda", "xpu"):
            device = getattr(torch, name, None)
            if device is not None and device.is_initialized() and not _is_capturing(device):
                device.synchronize()
        if getattr(torch, "mps", None) is not None and torch.backends.mps.is_available():
            torch.mps.synchronize()
        if jax is not None and hasattr(jax, "live_arrays"):
            jax.block_until_ready(jax.live_arrays())
        if tensorflow is not None and tensorflow.config.get_visible_devices("GPU"):
            tensorflow.test.experimental.sync_devices()
    except Exception:
        pass  # it is half imported, or has none of these: then nothing runs there


def device_memory() -> Any:
    """Return the most bytes that PyTorch held on a card; None if it uses none."""
    try:
        cuda = sys.modules["torch"].cuda
        return cuda.max_memory_reserved() if cuda.is_initialized() else None
    except Exception:
        return None


def peak_memory() -> Any:
    """Return the most bytes that this process held."""
    try:
        import resource

        unit = 1 if sys.platform == "darwin" else 1024
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    except Exception:
        return None


def threads() -> Any:
    """Return with how many threads PyTorch computes; None without it."""
    try:
        return sys.modules["torch"].get_num_threads()
    except Exception:
        return None


def _is_capturing(device: Any) -> bool:
    check = getattr(device, "is_current_stream_capturing", None)
    return check is not None and check()


def _loss_in(logs: Any) -> Any:
    try:
        return float(logs["loss"])
    except Exception:
        return None


def hold_optimizers(agent: Agent, module: Any) -> None:
    """Hold after a step. A step inside of another one is part of it."""
    hold = agent.hold
    is_inside = False

    def held(step: Any) -> Any:
        @wraps(step)
        def watched(*given, **named):
            nonlocal is_inside
            if is_inside or agent.is_off:
                return step(*given, **named)
            before = agent.steps
            is_inside = True
            try:
                result = step(*given, **named)
            finally:
                is_inside = False
            if agent.steps != before:  # else a compiler is tracing it
                hold.passed(BY_STEP)
            return result

        return watched

    wrap_steps(agent, module.Optimizer, held)


def hold_scaler(agent: Agent, module: Any) -> None:
    """Count the steps that a gradient scaler leaves out."""
    scaler = module.GradScaler
    step = scaler.step

    @wraps(step)
    def watched(self, optimizer, *given, **named):
        before = agent.steps
        result = step(self, optimizer, *given, **named)
        if agent.steps == before:
            agent.hold.passed(BY_STEP)
        return result

    scaler.step = watched


def hold_backward(agent: Agent, module: Any) -> None:
    """Count backward passes, for scripts without an optimizer."""
    backward = module.backward

    @wraps(backward)
    def watched(*given, **named):
        result = backward(*given, **named)
        agent.hold.passed_backward()
        return result

    module.backward = watched


def hold_batches(agent: Agent, module: Any) -> None:
    """Hold after a batch of Keras, and after its callbacks."""
    listed, hold = module.CallbackList, agent.hold
    end = listed.on_train_batch_end

    @wraps(end)
    def watched(self, batch, logs=None):
        hold.logs = logs
        result = end(self, batch, logs)
        hold.passed(BY_BATCH)
        return result

    listed.on_train_batch_end = watched
