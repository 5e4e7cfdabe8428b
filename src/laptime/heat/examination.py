"""How long looking at the test items takes, from some of them: what validation and test will cost a whole training."""

from __future__ import annotations

from collections.abc import Callable

from laptime.backends.base import Examiner, Runner
from laptime.model.sample import Examination

ENOUGH_NS = 500_000_000


def examine(clock: Callable[[], int], runner: Runner, examiner: Examiner, batch: int, most: int) -> Examination:
    """Look at one batch to get warm, at the same again to learn the pace, then at about half a second's worth."""
    few = min(batch, most)
    read_ns = _time(clock, runner, lambda: examiner.read(few))
    cold_ns = _time(clock, runner, lambda: examiner.score(few))
    warm_ns = _time(clock, runner, lambda: examiner.score(few))
    first_ns = max(0, cold_ns - warm_ns)
    many = min(most, round(few * ENOUGH_NS / max(warm_ns, 1)))
    if many < 2 * few:
        return Examination(few, warm_ns, first_ns, read_ns)
    read_ns = _time(clock, runner, lambda: examiner.read(many))
    return Examination(many, _time(clock, runner, lambda: examiner.score(many)), first_ns, read_ns)


def _time(clock: Callable[[], int], runner: Runner, work: Callable[[], object]) -> int:
    runner.fence()
    start_ns = clock()
    work()
    runner.fence()
    return clock() - start_ns
