"""Answers to why as literals: a loader that binds a card, nothing found, too much noise, a remedy that failed."""

from __future__ import annotations

from dataclasses import replace

from records import lane, record

from laptime.model.quantities import Factor, Missing
from laptime.model.record import Record
from laptime.questions.why.nouns import Ceiling, Remedy, StepPart, Verdict, Why, WhyAnswer

NO_TRY = "nothing pointed to it"
NOT_PREDICTED = Missing("only the run itself shows what other kernels do")
NO_COPY = Missing("a lane on the processor copies nothing to a device")


def factor(ratio: float, half: float = 0.03) -> Factor:
    return Factor(ratio, ratio * (1 - half), ratio * (1 + half))


def ceiling(stage: str, rate: float | Missing, *, binds: bool = False) -> Ceiling:
    low, high = (rate, rate) if isinstance(rate, Missing) else (rate * 0.99, rate * 1.01)
    return Ceiling(stage, rate, low, high, binds, f"torch/cuda:0/{stage}")  # type: ignore[arg-type]


DECODE = Remedy(
    "input pipeline", "decode in 4 worker processes", 3.9, factor(3.7, 0.05), "nothing",
    "DataLoader(..., num_workers=4, persistent_workers=True)", "torch/cuda:0/workers=4", recommended=True,
)  # fmt: skip
CACHED = Remedy(
    "input pipeline", "keep decoded items in memory", 105.0, factor(98.0, 0.06), "4.2 GB of memory",
    'DataLoader(laptime.cached(dataset, memory="4.2 GB"), ...)', "torch/cuda:0/input=cached",
)  # fmt: skip
LARGER = Remedy(
    "too little work a step", "batch 128 -> 512", 1.0, Factor(1.0, 0.9, 1.1), "the learning", "batch_size=512",
    "torch/cuda:0/batch=4x",
)  # fmt: skip
COMPILED = Remedy(
    "too little work a step", "compile the step", NOT_PREDICTED, None, "nothing", "model = torch.compile(model)",
    reason=NO_TRY,
)  # fmt: skip
FLUSHED = Remedy(
    "processor oddities", "take denormal numbers as zero", Missing("denormals were not counted: no"),
    None, "the arithmetic", "torch.set_flush_denormal(True)",
    reason="denormals=flush is a setting of processors",
)  # fmt: skip
ON_CARD = (
    Verdict("measuring error", "ruled out", "every window is fenced, and the first takes 1.01x what others take"),
    Verdict("not on the device", "ruled out", "our process holds 612 MB on it"),
    Verdict("device memory full", "ruled out", "0.6 of the device's 80.0 GB are used, 1 %"),
    Verdict("device shared", "ruled out", "no other process is on the device"),
    Verdict("clocks lowered", "ruled out", "the driver lowered the clocks in 0 % of 149 readings"),
    Verdict("outside the step", "not tested", "a lap has 1,641 steps, and no more than 12 were timed in one piece"),
    Verdict("input pipeline", "proven", "the loader takes 96 % of a step, alone 3.24 s of 3.37 s", gain=98.0),
    Verdict("copy to the device", "ruled out", "the copy to the device takes 1 % of a step"),
    Verdict("too little work a step", "ruled out", "computing takes 3 % of a step: what starts it matters little"),
    Verdict("several devices", "not testable here", "this lane trains on one device (cuda:0): no gradient travels"),
)


def loader_bound(*remedies: Remedy, **changes: object) -> Record:
    """The example that the page was drawn from."""
    asked = lane("torch/cuda:0/as-written", 3370.0, 0.02, 128)
    tried = [lane(each.lane, 900.0, batch=128) for each in remedies if each.lane is not None]
    answer = Why(
        lane="torch/cuda:0/as-written",
        says="plates-cnn on torch/cuda:0: the loader bounds this training (proven). 38 plates/s of a possible 4,100.",
        first=("input pipeline",),
        parts=(
            StepPart("loader", 0.957),
            StepPart("copy", 0.008),
            StepPart("compute", 0.03),
            StepPart("unattributed", 0.005),
        ),
        ceilings=(ceiling("loader", 39.4, binds=True), ceiling("copy", 61_000.0), ceiling("compute", 4_100.0)),
        causes=ON_CARD,
        remedies=remedies or (CACHED, DECODE, LARGER, COMPILED, FLUSHED),
    )
    return why_record(replace(answer, **changes), asked, *tried)


def failed_remedy() -> Record:
    """Four times the batch had no memory, a worker died, and the budget ended before one more was tried."""
    killed = replace(DECODE, measured=None, reason="killed by the system (SIGKILL)", recommended=False)
    larger = replace(LARGER, measured=None, reason="CUDA out of memory: 64 GB were asked for")
    return loader_bound(replace(CACHED, recommended=True), larger, killed, missing=("compile", "graph"))


def nothing_found() -> Record:
    asked = lane("torch/cpu/as-written", 172.0, 0.01)
    answer = Why(
        lane=asked.name,
        says="cifar-cnn on torch/cpu: nothing that was tried makes it faster: it is bound by its device's arithmetic, "
        "at 71 % of what that can do. 583 images/s.",
        first=(),
        parts=(StepPart("loader", 0.002), StepPart("compute", 0.998), StepPart("unattributed", 0.0)),
        ceilings=(ceiling("loader", 290_000.0), ceiling("copy", NO_COPY), ceiling("compute", 584.0, binds=True)),
        causes=(
            Verdict("device shared", "ruled out", "other processes take 0.02 of 2 cores"),
            Verdict("copy to the device", "not testable here", NO_COPY.missing),
            Verdict("poor kernels", "ruled out", "71 % of what the device's products allow"),
        ),
        remedies=(
            Remedy("too little work a step", "batch 100 -> 200", NOT_PREDICTED, factor(1.01, 0.01), "the learning", ""),
            Remedy("processor oddities", "keep freed memory in the process", 1.02, factor(0.99, 0.02), "memory",
                   "laptime.keep_memory()"),
        ),
    )  # fmt: skip
    return why_record(answer, asked)


def not_trusted() -> Record:
    asked = lane("torch/cpu/as-written", 172.0, 0.45)
    shared = Verdict("device shared", "likely", "other processes take 1.1 of 2 cores", gain=2.0)
    answer = Why(
        lane=asked.name,
        says="cifar-cnn on torch/cpu: other processes take their share of the device (likely). 583 images/s of a "
        "possible 1,166.",
        first=("device shared",),
        parts=(StepPart("unattributed", 1.0),),
        ceilings=(ceiling("loader", Missing("no heat of it finished")), ceiling("copy", NO_COPY)),
        causes=(shared,),
        remedies=(),
        trusted=False,
        distrust="the step of the lane as it is varies by 84 % from heat to heat, so that it is known to ±45 % only: "
        "something else works on this machine",
    )
    return why_record(answer, asked)


def why_record(answer: Why, *lanes: object) -> Record:
    return record(lanes, question="why", answer=WhyAnswer(why=answer), elapsed_s=114.0)  # type: ignore[arg-type]


SHOWN = {
    "loader": loader_bound,
    "failed": failed_remedy,
    "nothing": nothing_found,
    "noisy": not_trusted,
}
