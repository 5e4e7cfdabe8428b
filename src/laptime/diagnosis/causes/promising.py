"""Which experiments to run next: those for the causes that signatures point at, the largest gain expected first."""

from __future__ import annotations

from collections.abc import Callable

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.device import NEAR
from laptime.diagnosis.causes.host import (
    ODD_SHARE,
    faults_share,
    given_back_memory,
    processor_limited,
    threads_wanted,
    throttled_share,
)
from laptime.diagnosis.causes.parts import share_of
from laptime.diagnosis.causes.stages import BUSY, WORTH, too_little_work
from laptime.diagnosis.causes.state import memory_full
from laptime.diagnosis.host import THROTTLED_SHARE
from laptime.model.missing import Missing

# What is expected where nothing is known: a try is worth it, after all that signs point at.
UNKNOWN = 1.02
SHORT_MS, QUICK_MS = 2.0, 50.0
NOTHING = 0.0

Expect = Callable[[Case], float]
LOADING, KERNEL, LITTLE, THREADS = "loading", "kernels", "little work", "threads"


def order_experiments(case: Case) -> tuple[str, ...]:
    """Name the experiments that are worth a lane, the most promising first; none of a cause that a figure rules out.

    A second try at a cause promises a quarter of what it would alone, a third a ninth: each cause has its turn first.
    """
    tried: dict[str, int] = {}
    for name, family, _ in EXPERIMENTS:
        tried[family] = tried.get(family, 0) + (case.factor(name) is not None)
    gains = [(name, family, expect(case)) for name, family, expect in EXPERIMENTS if case.factor(name) is None]
    promises: list[tuple[float, str]] = []
    for name, family, gain in sorted(gains, key=lambda each: -each[2]):
        if gain > 1:
            tried[family] += 1
            promises.append(((gain - 1) / tried[family] ** 2, name))
    return tuple(name for _, name in sorted(promises, key=lambda pair: -pair[0]))


def _no_loader(case: Case) -> float:
    loader = share_of(case, "loader")
    return 1 / (1 - min(loader, 0.99)) if loader >= WORTH else NOTHING


def _more_workers(case: Case) -> float:
    """At best as much as no loader at all, and mostly less."""
    return 1 + 0.9 * (_no_loader(case) - 1) if _no_loader(case) else NOTHING


def _our_loader(case: Case) -> float:
    return 1 + 0.8 * (_no_loader(case) - 1) if _no_loader(case) else NOTHING


def _larger_batch(case: Case) -> float:
    """An idle device promises the most; on a processor short steps do."""
    if too_little_work(case).standing == "ruled out":
        return NOTHING
    busy = case.busy()
    if not isinstance(busy, Missing):
        return min(2.0, 1 / max(busy, 0.01)) if busy < BUSY else NOTHING
    step_ms = case.step_ms or QUICK_MS
    computing = share_of(case, "compute") or 1.0
    if not case.on_processor:
        return 1 + 0.5 * computing  # nobody told how busy the card is, and mostly that is what is amiss
    return 1 + computing * (0.8 if step_ms < SHORT_MS else 0.15 if step_ms < QUICK_MS else 0.02)


def _largest_batch(case: Case) -> float:
    """Only where twice the batch gained is it worth to go on."""
    twice = case.factor("batch 2x")
    if twice is None or twice.ratio < 1 + 2 * case.margin:
        return NOTHING
    once, double = 1.0, 2 / twice.ratio
    return 4 / max(once + 3 * (double - once), 0.1)


def _launched(case: Case) -> float:
    """What the host takes to start kernels, a graph leaves out."""
    if case.on_processor:
        return NOTHING
    host = share_of(case, "host")
    return 1 / (1 - min(host, 0.9)) if host >= WORTH else NOTHING if not isinstance(case.busy(), Missing) else UNKNOWN


def _at_once(case: Case) -> float:
    step_ms = case.step_ms or QUICK_MS
    return _launched(case) if not case.on_processor else 1.3 if step_ms < SHORT_MS else UNKNOWN


def _other_kernels(gain: float) -> Expect:
    def expect(case: Case) -> float:
        computing = share_of(case, "compute") + share_of(case, "host") or 1.0
        limit = case.lane.roofline
        if computing < 0.5 or (limit is not None and limit.share > NEAR):
            return NOTHING
        return 1 + computing * (gain - 1)

    return expect


def _on_card_only(expect: Expect) -> Expect:
    return lambda case: NOTHING if case.on_processor else expect(case)


def _put_off(case: Case) -> float:
    reads = case.sign("reads")
    if case.on_processor or (not isinstance(reads, Missing) and reads <= 0):
        return NOTHING
    if isinstance(reads, Missing):
        return UNKNOWN
    host = share_of(case, "host")
    return max(1.3, 1 / (1 - min(host, 0.9)))


def _fewer_threads(case: Case) -> float:
    if not case.on_processor and (throttled_share(case) or 0.0) <= THROTTLED_SHARE:
        return NOTHING
    verdict = processor_limited(case)
    throttled, wanted = throttled_share(case) or 0.0, threads_wanted(case)
    if wanted is not None and wanted > case.cores:
        return 2.0
    if wanted is not None and wanted < case.cores:
        return 1.5
    if throttled > THROTTLED_SHARE:
        return max(1.2, 1 / (1 - min(throttled, 0.9)))
    busy = case.busy_cores()
    idle_cores = not isinstance(busy, Missing) and busy < 0.65 * case.cores and case.cores > 1
    return 1.4 if idle_cores else UNKNOWN if verdict.standing == "not tested" else NOTHING


def _one_thread(case: Case) -> float:
    if not case.on_processor or case.cores < 2:
        return NOTHING
    wanted, throttled = threads_wanted(case), throttled_share(case) or 0.0
    return 1.15 if throttled > THROTTLED_SHARE or (wanted or 0) > case.cores else NOTHING


def _kept(case: Case) -> float:
    """Page faults tell what is fetched anew; where there are none, nothing is gained by keeping it."""
    if not case.on_processor or case.lane.settings.malloc == "keep":
        return NOTHING
    costs = faults_share(case)
    if costs is None:
        return UNKNOWN
    if given_back_memory(case).standing == "ruled out":
        return UNKNOWN if costs >= ODD_SHARE / 2 else NOTHING
    return 1 / (1 - min(costs, 0.8))


def _flushed(case: Case) -> float:
    told = case.sign("denormals")
    if not case.on_processor:
        return NOTHING
    return UNKNOWN if isinstance(told, Missing) else 3.0 if told >= 0.01 else 1.1 if told > 0 else NOTHING


def _one_shape(case: Case) -> float:
    shapes, compiles = case.sign("shapes"), case.sign("compiles")
    if isinstance(shapes, Missing) and isinstance(compiles, Missing):
        return UNKNOWN
    if not isinstance(compiles, Missing) and compiles > 0:
        return 3.0
    return 1.3 if not isinstance(shapes, Missing) and shapes > 1 else NOTHING


def _half_batch(case: Case) -> float:
    return 1.5 if memory_full(case).standing == "likely" else NOTHING


# By what they try; where two promise as much, the one that stands first.
EXPERIMENTS: tuple[tuple[str, str, Expect], ...] = (
    ("decoded", LOADING, _no_loader),
    ("workers", LOADING, _more_workers),
    ("fast", LOADING, _our_loader),
    ("one", "one", _one_shape),
    ("flush", "flush", _flushed),
    ("deferred", "deferred", _put_off),
    ("half batch", "half batch", _half_batch),
    ("threads", THREADS, _fewer_threads),
    ("keep", "keep", _kept),
    ("batch 2x", LITTLE, _larger_batch),
    ("batch 4x", LITTLE, _largest_batch),
    ("graph", LITTLE, _on_card_only(_launched)),
    ("strides", LITTLE, _at_once),
    ("tf32", KERNEL, _on_card_only(_other_kernels(2.0))),
    ("best", KERNEL, _other_kernels(1.12)),
    ("compile", KERNEL, _other_kernels(1.1)),
    ("bf16", KERNEL, _on_card_only(_other_kernels(1.8))),
    ("layout", KERNEL, _other_kernels(1.15)),
    ("fused", KERNEL, _other_kernels(1.05)),
    ("one thread", THREADS, _one_thread),
)
