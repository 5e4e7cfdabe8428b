"""Steps that stand in no window: timed between two fences, or taken to use up what a loader had ready."""

from __future__ import annotations

from collections.abc import Callable

from laptime.backends.base import Runner

RUN_DOWN_MOST_S = 30.0


def time_steps(clock: Callable[[], int], runner: Runner, steps: int) -> int:
    """Time some steps between two fences, marking none of them."""
    runner.fence()
    start_ns = clock()
    runner.run(steps)
    runner.fence()
    return clock() - start_ns


def run_down(clock: Callable[[], int], runner: Runner) -> tuple[str, ...]:
    """Use up what a loader had ready: after a pause that is a gift; from window to window there is no pause.

    Steps so slow that this takes half a minute leave their loader the time to make more: the rest stays, and is told.
    """
    left, began_ns = runner.ready_batches, clock()
    while left > 0:
        runner.run(runner.stride)
        runner.fence()
        left -= runner.stride
        if left > 0 and clock() - began_ns > RUN_DOWN_MOST_S * 1e9:
            return (f"up to {left} batches that its loader had ready were not used up before the windows opened",)
    return ()
