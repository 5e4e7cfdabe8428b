"""What a remedy would gain, foretold before it is run: from the parts of a step, its signs and the readings."""

from __future__ import annotations

import re
from collections.abc import Callable

from laptime.analysis.heats import mean_step_ms
from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.host import faults_share, throttled_share
from laptime.diagnosis.causes.parts import share_of
from laptime.diagnosis.host import THROTTLED_SHARE
from laptime.diagnosis.steps import find_pauses, finished
from laptime.model.missing import Missing
from laptime.model.record import LaneResult
from laptime.model.why import Experiment

WORKERS = re.compile(r"workers=(\d+)")
LEAST_LEFT = 0.02  # of a step: nothing that is foretold takes all of it away


def predict(case: Case, experiment: Experiment) -> float | Missing:
    """Give the factor by which the remedy would be faster, or say why it is not foretold."""
    foretell = FORETOLD.get(experiment.name)
    if foretell is None:
        return Missing("not foretold: only the run itself tells what other kernels do")
    if case.step_ms is None:
        return Missing("not foretold: the lane as it is has no step")
    return foretell(case, experiment)


def _decoded(case: Case, _experiment: Experiment) -> float | Missing:
    """Decoded batches from memory leave the loader out, and what it does at a lap's end.

    On a processor that is the computing alone, of which the first heats have shown how fast it is: after a loader
    that waits, threads and caches are slow for a while, which the loader's own part does not tell.
    """
    first = _first_ms(case.lane), _first_ms(case.ceilings_lanes.get("compute"))
    if case.on_processor and first[0] is not None and first[1] is not None:
        return first[0] / first[1]
    if not _knows_parts(case):
        return Missing("not foretold: what the loader takes of a step was not measured")
    return _without(share_of(case, "loader") + _pauses_of_loader(case))


def _resident(case: Case, _experiment: Experiment) -> float | Missing:
    """Batches on the device leave loader and copy out; the steps that were taken apart tell what is left."""
    told = [case.apart_ms("loader"), case.apart_ms("copy"), case.apart_ms("compute")]
    wait, copy, compute = told if not case.on_processor else (told[0], 0.0, told[2])
    if isinstance(compute, Missing) or isinstance(wait, Missing) or isinstance(copy, Missing) or not compute:
        if not _knows_parts(case):
            return Missing("not foretold: no step of this lane was taken apart")
        return _without(share_of(case, "loader") + share_of(case, "copy"))
    return (wait + copy + compute) / compute


def _workers(case: Case, experiment: Experiment) -> float | Missing:
    """So many workers share the loading; on a processor they take their work from the training's cores.

    Neither the loader, divided, nor the rest of the step can be beaten, nor all the work there is over all cores.
    """
    found = WORKERS.search("+".join(experiment.settings))
    loader, compute, copy = (case.stage_ms(stage) for stage in ("loader", "compute", "copy"))
    if found is None or isinstance(loader, Missing) or isinstance(compute, Missing):
        return Missing("not foretold: the loader alone, or the computing alone, was not measured")
    workers = max(1, int(found[1]))
    rest = compute + (0.0 if isinstance(copy, Missing) else copy)
    work = loader * min(_loader_cores(case), case.cores)  # core-milliseconds of a batch
    rest += work / case.cores if case.on_processor else 0.0
    able = workers if work < 0.5 * loader else min(workers, max(1, case.cores - (not case.on_processor)))
    already = max(1, case.lane.settings.workers or 1)
    return (case.step_ms or 0.0) / max(loader * already / able, rest)


def _loader_cores(case: Case) -> float:
    """Give how many cores the loader keeps busy; one, where nobody told. One that waits for a disk takes none."""
    lane = case.ceilings_lanes.get("loader")
    busy = Missing("no such lane") if lane is None else case.busy_cores(lane)
    return 1.0 if isinstance(busy, Missing) else busy


def _twice_the_batch(case: Case, _experiment: Experiment) -> float | Missing:
    """A device that is idle for half of a step can do twice the work in the same step."""
    busy = case.busy()
    if isinstance(busy, Missing):
        return Missing("not foretold: how a step grows with its batch shows when it was doubled")
    loading = share_of(case, "loader") + share_of(case, "copy")
    return 2 / (2 * loading + max(1 - loading, 2 * busy))


def _other_batch(times: float) -> Callable[[Case, Experiment], float | Missing]:
    """A step's time is a line over its batch: two points of it, once and twice the batch, tell all others."""

    def foretell(case: Case, _experiment: Experiment) -> float | Missing:
        twice = case.factor("batch 2x")
        if twice is None:
            return Missing("not foretold: twice the batch was not tried")
        once_ms = case.step_ms or 0.0
        twice_ms = 2 * once_ms / twice.ratio
        there_ms = max(once_ms + (times - 1) * (twice_ms - once_ms), LEAST_LEFT * once_ms)
        return times * once_ms / there_ms

    return foretell


def _kept(case: Case, _experiment: Experiment) -> float | Missing:
    costs = faults_share(case)
    return Missing("not foretold: page faults were not read") if costs is None else _without(costs)


def _fewer_threads(case: Case, _experiment: Experiment) -> float | Missing:
    """A container that is stopped for a third of the time is a third away from its pace; of threads' turns nothing is
    known before.
    """
    throttled = throttled_share(case)
    if throttled is None or throttled <= THROTTLED_SHARE:
        return Missing("not foretold: what threads cost that wait for each other shows only when they are fewer")
    return _without(throttled)


def _put_off(case: Case, _experiment: Experiment) -> float | Missing:
    """What is put off no longer makes the device wait for the host."""
    reads = case.sign("reads")
    if isinstance(reads, Missing):
        return Missing(f"not foretold: reads were not counted: {reads.missing}")
    if reads <= 0 or case.on_processor:
        return 1.0
    if isinstance(case.busy(), Missing):
        return Missing("not foretold: how long the device waits was not read")
    return _without(share_of(case, "host"))


def _launched_at_once(case: Case, _experiment: Experiment) -> float | Missing:
    """A graph leaves out what the host takes to start each kernel."""
    if isinstance(case.busy(), Missing):
        return Missing("not foretold: how long the device waits for the host was not read")
    return _without(share_of(case, "host"))


def _flushed(case: Case, _experiment: Experiment) -> float | Missing:
    told = case.sign("denormals")
    if isinstance(told, Missing):
        return Missing(f"not foretold: denormals were not counted: {told.missing}")
    return 1.0 if told <= 0 else Missing("not foretold: what denormals cost is known by no processor but the run's")


def _without(share: float) -> float:
    return 1 / max(1 - share, LEAST_LEFT)


def _pauses_of_loader(case: Case) -> float:
    """Give the pauses' share where the loader alone has them, too."""
    pauses, loader = case.pauses(), case.ceilings_lanes.get("loader")
    return pauses.share if pauses is not None and loader is not None and find_pauses(loader) is not None else 0.0


def _first_ms(lane: LaneResult | None) -> float | None:
    """Give the mean step of a lane's first heat, whatever came after it."""
    heats = [] if lane is None else finished(lane)
    return mean_step_ms(heats[0]) if heats else None


def _knows_parts(case: Case) -> bool:
    return not isinstance(case.stage_ms("loader"), Missing)


FORETOLD: dict[str, Callable[[Case, Experiment], float | Missing]] = {
    "decoded": _decoded,
    "compute": _resident,
    "workers": _workers,
    "batch 2x": _twice_the_batch,
    "batch 4x": _other_batch(4),
    "half batch": _other_batch(0.5),
    "keep": _kept,
    "threads": _fewer_threads,
    "deferred": _put_off,
    "graph": _launched_at_once,
    "strides": _launched_at_once,
    "flush": _flushed,
}
