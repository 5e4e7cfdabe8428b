"""After the windows: the time to evaluate test items, which predicts that of a whole training's validations."""

from __future__ import annotations

from collections.abc import Callable

from laptime import wire
from laptime.backends.base import Evaluator, Runner
from laptime.heat.step_breakdown import Clock
from laptime.model.sample import Examination

EXAMINED_NS = 500_000_000
Say = Callable[[wire.FromChild], None]


def look_ahead(clock: Clock, runner: Runner, items: int, batch: int, say: Say) -> tuple[str, ...]:
    """Measure what a whole training has and windows do not: evaluation. If that fails, keep the timing and note why."""
    if not items or runner.evaluator is None:
        return ()
    say(wire.Phase("look ahead", clock()))
    try:
        say(wire.Examined(time_evaluation(clock, runner, runner.evaluator, batch, items)))
    except Exception as error:  # noqa: BLE001  whatever a framework raises: what was asked for is the timing
        return (f"no forecast of the whole training: looking ahead ended in {type(error).__name__}: {error}",)
    return ()


def time_evaluation(clock: Clock, runner: Runner, evaluator: Evaluator, batch: int, most: int) -> Examination:
    """Evaluate one batch to warm up, the same batch again to learn the speed, then about half a second of batches."""
    few = min(batch, most)
    read_ns = _time_work(clock, runner, lambda: evaluator.read(few))
    cold_ns = _time_work(clock, runner, lambda: evaluator.score(few))
    warm_ns = _time_work(clock, runner, lambda: evaluator.score(few))
    first_ns = max(0, cold_ns - warm_ns)
    many = min(most, round(few * EXAMINED_NS / max(warm_ns, 1)))
    if many < 2 * few:
        return Examination(few, warm_ns, first_ns, read_ns)
    read_ns = _time_work(clock, runner, lambda: evaluator.read(many))
    return Examination(many, _time_work(clock, runner, lambda: evaluator.score(many)), first_ns, read_ns)


def _time_work(clock: Clock, runner: Runner, work: Callable[[], object]) -> int:
    runner.fence()
    start_ns = clock()
    work()
    runner.fence()
    return clock() - start_ns
