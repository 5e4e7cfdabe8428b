"""Records of inference as literals."""

from __future__ import annotations

from dataclasses import replace

from records import BEST, FIRST, ONE_HEAT, record, without_figures

from laptime.model.ask import Ask
from laptime.model.plan import Subject
from laptime.model.process import Dnf, ProcessRun
from laptime.model.protocol import InferHeat, InferPace
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import BatchResult, InferAnswer, InferFactor, InferLane, Parity, Record, Wait
from laptime.model.workload import Published, PublishedResult

PACE = InferPace(3, 1.2, 0.12, 3.6)
SAME = Parity("same", 1, 4e-7, 3e-6)
PETS = Subject("pets-densenet", "cats and dogs", 6_955_906, 64, 126, 20, "images")
PUBLISHED = Published(
    "GPU 6.5 times the CPU",
    "a paper",
    (
        PublishedResult("Intel Xeon Gold 6256", "cpu", total_s=46_800.0, infer_one_s=5.0),
        PublishedResult("2 x NVIDIA A6000, batch 64", "gpu", total_s=7_200.0, infer_one_s=2.5),
    ),
)


def figure(median: float, half: float = 0.02) -> Estimate:
    return Estimate(median, median * (1 - half), median * (1 + half))


TAKES_LONG = "left out: a call would take about 15 s"


def answers(name: str, call_ms: float, *rates: float | None, reason: str | None = None, is_tried: bool = True,
            **changes: object) -> InferLane:  # fmt: skip
    """Return a lane's answers; a rate that is None has the reason."""
    batches = tuple(
        BatchResult(size, figure(rate)) if rate is not None else BatchResult(size, None, reason, is_tried)
        for size, rate in zip((1, 8, 64, 256), rates, strict=True)
    )
    heats = tuple(
        InferHeat(ProcessRun(name, "ok"), order, order, calls_ns=(round(call_ms * 1e6),)) for order in range(3)
    )
    made = InferLane(
        lane=name,
        items_a_call=1,
        p50_ms=figure(call_ms),
        p95_ms=figure(call_ms * 1.2, 0.05),
        p99_ms=figure(call_ms * 1.7, 0.2),
        calls=330,
        wait=Wait(0.031, 1.62, 0.284, 0.153, call_ms / 1e3),
        batches=batches,
        steady={"flat": 3},
        heats=heats,
    )
    return replace(made, **changes)


def factor(batch: int | None, ratio: float, **changes: object) -> InferFactor:
    made = InferFactor(BEST.name, FIRST.name, batch, ratio, ratio * 0.97, ratio * 1.03, "faster", 3, same_work=True)
    return replace(made, **changes)


def inferred(lanes: tuple[InferLane, ...], factors: tuple[InferFactor, ...] = (), **changes: object) -> Record:
    results = changes.pop(
        "results", tuple(replace(each, parity=SAME, heats=()) for each in (FIRST, BEST)[: len(lanes)])
    )
    given = {"question": "infer", "ask": Ask(infer=True), "workload": PETS, "published": PUBLISHED, **changes}
    return record(results, answer=InferAnswer(PACE, lanes, factors), **given)


def two_lanes() -> Record:
    """A lane at its best answers faster, and the authors' seconds an image are start-up."""
    factors = (
        factor(None, 1.9),
        factor(1, 1.88),
        factor(8, 1.52),
        factor(64, 1.02, low=0.97, high=1.07, verdict="not distinguishable"),
        factor(256, 0.8, low=0.75, high=0.86, verdict="slower"),
    )
    first = answers(FIRST.name, 86.2, 11.6, 15.9, 17.2, 17.3)
    return inferred((first, answers(BEST.name, 45.4, 21.9, 24.2, 17.5, 13.8)), factors)


def broken() -> Record:
    """One lane gave other answers and had no room for a batch, one was killed; it was interrupted."""
    killed = Dnf(
        "first call", "killed by SIGKILL: most often the system ran out of memory", "SIGKILL", None, 22_000_000
    )
    differs = Parity("differs", 1, 1e-3, 3e-6, reason="its answers differ by 1e-03 in fp32 (3e-06 allowed)")
    gone = without_figures("torch/cuda:0/best", "dnf", killed.reason)
    dead = InferLane(
        gone.name, None, None, None, None, 0, None, (), {}, (InferHeat(ProcessRun(gone.name, "dnf", dnf=killed), 2, 0),)
    )
    lanes = (
        answers(FIRST.name, 86.2, 11.6, 15.9, 17.2, None, reason=TAKES_LONG, is_tried=False),
        answers(
            BEST.name, 45.4, 21.9, 24.2, None, 40.0,
            reason="out of memory: CUDA out of memory. Tried to allocate 64 GiB", steady={"flat": 1, "warm-up": 2},
            heats=tuple(InferHeat(ProcessRun(BEST.name, "ok"), order, order, calls_ns=(45,), calls_flag=flag)
                        for order, flag in enumerate((None, "other processes took 0.40 cores",
                                                      "other processes took 1.90 cores"))),
        ),
        dead,
    )  # fmt: skip
    results = (replace(FIRST, parity=SAME, heats=()), replace(BEST, parity=differs, heats=()), gone)
    factors = (factor(None, 1.9, low=ONE_HEAT, high=ONE_HEAT, pairs=1, same_work=False),)
    return inferred(lanes, factors, results=results, status="interrupted")


def own() -> Record:
    """A person's own network that takes one batch only, not proven."""
    subject = Subject("my.py:training", "my.py:training", 4_321, None, None, None, "items", "my.py", "training")
    lane = replace(answers(FIRST.name, 0.431, 100.0, None, None, None), items_a_call=6,
                   batches=(BatchResult(6, figure(13_900.0)),))  # fmt: skip
    lane = replace(lane, wait=replace(lane.wait, further_call_s=Missing("no call came after the first")))
    parity = Parity("unproven", reason="it cannot run in float64: no such kernel")
    note = "it takes no batch but its own, of 6: shape '[6, 12]' is invalid for input of size 12"
    result = replace(FIRST, parity=parity, heats=(), notes=(note,))
    return inferred((lane,), workload=subject, published=None, results=(result,))


SHOWN = {"two-lanes": two_lanes, "broken": broken, "own": own}
