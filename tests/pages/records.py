"""Records as literals, for the rooms that show them."""

from __future__ import annotations

from dataclasses import replace

from laptime.model.ask import Ask
from laptime.model.machine import Device, Machine, Processor
from laptime.model.plan import Subject
from laptime.model.process import Dnf, ProcessRun, Settings
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import SCHEMA, Comparison, Forecast, HeatResult, LaneResult, Parity, RaceAnswer, Record
from laptime.model.sample import Heat, Noise, Window
from laptime.model.workload import Published, PublishedResult

ONE_HEAT = Missing("one heat has no interval")
MACHINE = Machine(
    processor=Processor("AMD EPYC 7763 64-Core Processor", "x86_64", 2, 2, Missing("no quota")),
    memory_bytes=24_000_000_000,
    memory_limit_bytes=Missing("no limit"),
    system="Linux 6.1",
    python="3.11.7",
    container=None,
)
CPU = Device("cpu", "cpu", "AMD EPYC 7763", usable=True)
CUDA = Device("cuda:0", "cuda", "NVIDIA H200", usable=True, memory_bytes=150_000_000_000)
WORKLOAD = Subject("cifar-cnn", "six convolutions", 1_337_002, 100, 500, 10, "images")
PUBLISHED = Published(
    claim="GTX 1080 Ti 80 times an i5-8250U",
    source="an article",
    results=(
        PublishedResult("Colab TPU", "tpu", lap_s=(382.0,)),
        PublishedResult("Intel Core i5-8250U", "cpu", lap_s=(320.0,)),
        PublishedResult("Intel Core i7-9700K", "cpu", lap_s=(36.0,)),
        PublishedResult("NVIDIA MX150", "gpu", lap_s=(36.0,)),
        PublishedResult("Colab GPU", "gpu", lap_s=(16.0,)),
        PublishedResult("NVIDIA GTX 1060", "gpu", lap_s=(9.0,)),
        PublishedResult("NVIDIA GTX 1080 Ti", "gpu", lap_s=(4.0,)),
    ),
)
SAME = Parity("same", steps=10, worst=3e-6, tolerance=2e-5, moved=0.1)
UNPROVEN = Parity("unproven", reason="it did not get that far")


def heat(step_ms: float, order: int = 0, steady: str = "flat", flags: tuple[str | None, ...] = ()) -> HeatResult:
    """Return a heat of two windows of two steps; `flags` says which were disturbed."""
    ns = round(step_ms * 1e6)
    noise = Noise(0.1, 0.5, Missing("no container"))
    windows = tuple(
        Window(2 * ns * place, 2 * ns * (place + 1), 2, (ns, ns), noise, flag)
        for place, flag in enumerate(flags or (None, None))
    )
    process = ProcessRun("torch/cpu", "ok", phases_s={"build": 0.4})
    ran = Heat(process, order, order, first_step_ns=310_000_000, windows=windows, losses=(2.3, 2.2))
    return HeatResult(ran, steady, 0, step_ms)


def unfinished(dnf: Dnf, order: int = 0) -> HeatResult:
    return HeatResult(Heat(ProcessRun("torch/cpu", "dnf", dnf=dnf), order, order), "", 0, None)


def figure(median: float, half: float | None) -> Estimate:
    """Return a figure with half its interval as a share of it; nothing for one heat."""
    if half is None:
        return Estimate(median, ONE_HEAT, ONE_HEAT)
    return Estimate(median, median * (1 - half), median * (1 + half))


def lane(name: str, step_ms: float, half: float | None = 0.03, batch: int = 100, **changes: object) -> LaneResult:
    """Return a lane that finished, with heats around its step."""
    steps = [step_ms] if half is None else [step_ms * (1 + half * away) for away in (-0.6, -0.2, 0, 0.1, 0.4)]
    made = LaneResult(
        name=name,
        framework={"torch": "2.13.0"},
        device=CUDA if "cuda" in name else CPU,
        settings=Settings(),
        status="ok",
        reason=None,
        step_ms=figure(step_ms, half),
        lap_s=figure(step_ms * 500 * 100 / batch / 1e3, half),
        items_per_s=figure(batch / step_ms * 1e3, half),
        first_step_ms=310.0,
        startup_s=2.1,
        peak_memory_bytes=812_000_000,
        device_memory_bytes=Missing("a processor has none of its own"),
        energy_j_per_lap=Missing("no sensor"),
        parity=SAME,
        items_per_step=batch,
        heats=tuple(heat(each, order) for order, each in enumerate(steps)),
    )
    return replace(made, **changes)


def without_figures(name: str, status: str, reason: str | None, heats: tuple[HeatResult, ...] = ()) -> LaneResult:
    """Return a lane that has nothing to show but a reason."""
    nothing = {"step_ms": None, "lap_s": None, "items_per_s": None, "first_step_ms": None, "startup_s": None}
    return replace(lane(name, 1.0), status=status, reason=reason, parity=UNPROVEN, heats=heats, **nothing)


def comparison(name: str, ratio: float, low: float | Missing, high: float | Missing, **changes: object) -> Comparison:
    """Return a comparison with the first lane, its verdict drawn from its interval."""
    verdict = "not distinguishable"
    if not isinstance(low, Missing) and low > 1:
        verdict = "faster"
    if not isinstance(high, Missing) and high < 1:
        verdict = "slower"
    made = Comparison(name, "torch/cpu/as-written", ratio, low, high, verdict, True, 5, True, 0.05)
    return replace(made, **changes)


def record(lanes: tuple[LaneResult, ...], comparisons: tuple[Comparison, ...] = (), **changes: object) -> Record:
    """Return a finished race of these lanes."""
    made = Record(
        schema=SCHEMA,
        tool={"laptime": "0.1.0"},
        id="r-2026-11-20-a1b2",
        started="2026-11-20T10:00:00+00:00",
        question="race",
        status="finished",
        ask=Ask(),
        machine=MACHINE,
        workload=WORKLOAD,
        published=PUBLISHED,
        lanes=lanes,
        answer=RaceAnswer(comparisons),
        elapsed_s=58.2,
    )
    return replace(made, **changes)


FIRST = lane("torch/cpu/as-written", 92.2, 0.09)
BEST = lane("torch/cpu/best", 62.0, 0.03)
FASTER = comparison("torch/cpu/best", 1.49, 1.38, 1.61)
STDERR = "\n".join(f"line {number} of what the process said" for number in range(1, 8))
OUT_OF_MEMORY = Dnf("warm-up", "killed by the system", "SIGKILL", None, 22_100_000_000, STDERR)


def foretold(lane: LaneResult, laps: int) -> LaneResult:
    """Return the lane with a forecast of N laps, each with 10 s of validation after it, and a test of 9 s."""
    assert lane.lap_s is not None
    train_s, looks_s = Estimate(lane.lap_s.median * laps, ONE_HEAT, ONE_HEAT), 10.0 * laps
    whole_s = figure(train_s.median + looks_s + 11.5, 0.03)
    return replace(lane, whole=Forecast(laps, 500, 2.5, train_s, looks_s, 9.0, whole_s))


def two_lanes() -> Record:
    """The example that the main job was drawn from."""
    return record((foretold(FIRST, 10), foretold(BEST, 10)), (replace(FASTER, settled=False),))


def failed_lanes() -> Record:
    """One lane was killed, one cannot run here, and the first had a disturbed and an unsteady heat."""
    heats = (heat(92.2, 0, "warm-up", ("other processes took 0.8 cores", None)), heat(92.0, 1), heat(92.4, 2))
    killed = without_figures("torch/cuda:0/best", "dnf", None, (unfinished(OUT_OF_MEMORY),))
    reason = "the driver (470.82) is older than this build of torch needs (525.60); upgrade the driver"
    absent = without_figures("torch/cuda:1/as-written", "unusable", reason)
    return record((replace(FIRST, heats=heats), replace(BEST, heats=BEST.heats[:3]), killed, absent), (FASTER,))


def differing() -> Record:
    """One lane trained something else, another could not be proven, a third was slower."""
    differs = Parity("differs", 10, 0.0123, 2e-5, 40.0, reason="the loss strays 1e-2 from the second step on")
    other = lane("torch/cpu/compile", 40.0, parity=differs)
    unsure = lane("torch/cpu/threads=1", 180.0, parity=Parity("unproven", reason="no reference was to be had"))
    same = lane("torch/cpu/malloc=keep", 92.0)
    comparisons = (
        comparison("torch/cpu/compile", 2.3, 2.2, 2.4, same_work=False),
        comparison("torch/cpu/threads=1", 0.4762, 0.45, 0.5),
        comparison("torch/cpu/malloc=keep", 1.003, 0.97, 1.04),
    )
    return record((FIRST, other, unsure, same), comparisons)


def one_heat() -> Record:
    """A look so short that there is no interval."""
    single = comparison("torch/cpu/best", 1.487, ONE_HEAT, ONE_HEAT, pairs=1, settled=False)
    lanes = (lane("torch/cpu/as-written", 92.2, None), lane("torch/cpu/best", 62.0, None))
    return record(lanes, (single,), ask=Ask(heats=1), elapsed_s=9.6)


def reduced() -> Record:
    """Processor and accelerator, as written and at their fastest in bf16, over long and short laps."""
    strays = replace(SAME, worst=1e-6, strays=2e-4, strays_tolerance=1e-2, strays_precision="bf16")
    lanes = (
        lane("torch/cpu/as-written", 906.0, 0.02),
        lane("torch/cpu/fastest", 362.0, 0.01, parity=strays),
        lane("torch/cuda:0/as-written", 2.71, 0.004),
        lane("torch/cuda:0/fastest", 0.812, 0.01, parity=strays),
    )
    comparisons = (
        comparison("torch/cpu/fastest", 2.503, 2.41, 2.6),
        comparison("torch/cuda:0/as-written", 334.3, 328.1, 340.6),
        comparison("torch/cuda:0/fastest", 1115.8, 1098.0, 1133.9),
    )
    return record(lanes, comparisons, elapsed_s=453.4)


def other_batch() -> Record:
    """The same work in larger steps."""
    larger = lane("torch/cpu/batch=400", 300.0, batch=400, settings=Settings(batch=400))
    return record((FIRST, larger), (comparison("torch/cpu/batch=400", 1.229, 1.18, 1.28),))


def interrupted() -> Record:
    """Ctrl-C after three of ten heats; nobody said how many steps this person's lap has."""
    own = Subject("my.py:training", "my.py:training", None, None, None, None, "items", "my.py", "training")
    lanes = tuple(replace(each, lap_s=None, heats=each.heats[:kept]) for each, kept in ((FIRST, 2), (BEST, 1)))
    unsettled = comparison("torch/cpu/best", 1.49, ONE_HEAT, ONE_HEAT, pairs=1, settled=False)
    changes = {
        "status": "interrupted",
        "workload": own,
        "published": None,
        "ask": Ask(heats=5),
        "elapsed_s": 21.4,
    }
    return record(lanes, (unsettled,), **changes)


SHOWN = {
    "two-lanes": two_lanes,
    "failed-lanes": failed_lanes,
    "differing": differing,
    "one-heat": one_heat,
    "reduced": reduced,
    "other-batch": other_batch,
    "interrupted": interrupted,
}
