"""What the processor does to a training: quotas and too many threads, denormal numbers, memory given back each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.weigh import NOT_KNOWN, Signature, weigh
from laptime.diagnosis.causes.words import share
from laptime.diagnosis.host import FAULTS_BYTES_A_STEP, PAGE_BYTES, THROTTLED_SHARE
from laptime.model.missing import Missing
from laptime.model.why import Standing, Verdict

LIMITED, ODDITIES = "processor limited", "processor oddities"
ODD_SHARE = 0.05
# What one fault costs with the clearing of its page, where no heat has measured it: 500 to 1,000 ns on machines of two
# cores, but 2,400 on a virtual one, whose host has tables of its own.
FAULT_NS = 700
DENORMAL = 0.01  # of all numbers
ONE_CORE = 1.3  # cores kept busy
THREADS_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def processor_limited(case: Case) -> Verdict:
    """A container's quota, or more threads than cores: fewer threads, within what there is, prove it.

    A quota that fewer threads do not mend limits all the same: its own counter has told.
    """
    sign = _limits(case)
    wanted = threads_wanted(case)
    if sign.is_there is None and (wanted is not None and wanted < case.cores):
        return Verdict(LIMITED, "ruled out", sign.says, sign.evidence)
    verdict = weigh(case, LIMITED, sign, ["threads", *(["one thread"] if sign.is_there else [])])
    limited = (throttled_share(case) or 0.0) > THROTTLED_SHARE
    if limited and verdict.standing == "ruled out":
        return replace(verdict, standing="likely", gain=sign.gain)
    if verdict.standing == "not tested" and wanted is not None and not sign.is_there:
        return replace(verdict, standing="ruled out")
    return verdict


def _limits(case: Case) -> Signature:
    """Say what the quota's counter and the number of threads tell."""
    throttled, wanted = throttled_share(case), threads_wanted(case)
    limited = throttled is not None and throttled > THROTTLED_SHARE
    crowded = wanted is not None and wanted > case.cores
    told: list[str] = []
    gain: float | Missing = NOT_KNOWN
    if throttled is not None:
        quota = case.machine.processor.quota_cores
        of = "" if isinstance(quota, Missing) else f" of {quota:g} cores"
        told = [f"the container's quota{of} held it back for {share(throttled)} of the time"]
        gain = 1 / (1 - min(throttled, 0.9)) if limited else NOT_KNOWN
    if wanted is not None:
        there = f"{case.cores} core{'s' * (case.cores != 1)}"
        told.append(f"{wanted} thread{'s' * (wanted != 1)} {'share' if crowded else 'for'} {there}")
    evidence = {"throttled_share": throttled, "threads": wanted, "cores": case.cores}
    return Signature(True if limited or crowded else None, ", ".join(told), evidence, gain)


def throttled_share(case: Case) -> float | None:
    """Give the share of the time for which a quota held this container back."""
    share_of_time = case.seen().growth_per_s("host", "cgroup_throttled_s")
    if share_of_time is not None:
        return min(share_of_time, 1.0)
    told = [
        (window.noise.throttled_ms, (window.end_ns - window.start_ns) / 1e6)
        for heat in case.lane.heats
        for window in heat.windows
        if window.noise is not None
    ]
    known = [(held, lasted) for held, lasted in told if not isinstance(held, Missing)]
    return min(sum(held for held, _ in known) / sum(lasted for _, lasted in known), 1.0) if known else None


def threads_wanted(case: Case) -> int | None:
    """Give how many threads were asked for: by the lane, or else by what the training's own process had in the end, by
    what the framework takes unasked, or by a variable.
    """
    if case.lane.settings.threads is not None:
        return case.lane.settings.threads
    in_process = case.sign("threads")
    if case.on_processor and not isinstance(in_process, Missing):
        return int(in_process)
    unasked = case.lane.device.details.get("threads", "")
    if case.on_processor and unasked.isdecimal():
        return int(unasked)
    around = case.machine.surroundings
    for name in THREADS_VARIABLES:
        value = "" if around is None else around.variables.get(name, "").split(",")[0]
        if value.isdecimal():
            return int(value)
    return None


def processor_oddities(case: Case) -> Verdict:
    """Three of them, each with its own experiment: the one that weighs most is told, with the figures of all."""
    if not case.on_processor:
        says = f"{case.lane.device.name} computes this training, and not the processor"
        return Verdict(ODDITIES, "not testable here", says)
    found = [(oddity, rule(case)) for oddity, rule in ODD_RULES]
    oddity, worst = min(found, key=lambda pair: (ORDER.index(pair[1].standing), -_gain(pair[1])))
    evidence = {name: {"standing": each.standing, **each.evidence} for name, each in found}
    if worst.standing in {"ruled out", "not testable here"}:
        says = "; ".join(dict.fromkeys(each.says for _, each in found))
        return replace(worst, says=says, evidence=evidence)
    return replace(worst, evidence={"oddity": oddity, **evidence})


def denormals(case: Case) -> Verdict:
    """Numbers next to nought take many processors a hundred times as long."""
    told = case.sign("denormals")
    if isinstance(told, Missing):
        return weigh(case, ODDITIES, Signature(None, f"denormals were not counted: {told.missing}"), ["flush"])
    says = f"{share(told)} of all weights and gradients are denormal numbers"
    there = True if told >= DENORMAL else None if told > 0 else False
    return weigh(case, ODDITIES, Signature(there, says, {"share": told}), ["flush"])


def given_back_memory(case: Case) -> Verdict:
    """Memory that was given back in one step is fetched again in the next, page by page."""
    faults = faults_a_step(case)
    if faults is None:
        return weigh(case, ODDITIES, Signature(None, "page faults were not read"), ["keep"])
    costs = faults_share(case) or 0.0
    says = f"{faults:,.0f} page faults a step fetch {faults * PAGE_BYTES / 1e6:,.0f} MB anew"
    there = costs >= ODD_SHARE and faults * PAGE_BYTES >= FAULTS_BYTES_A_STEP
    kept = case.lane.settings.malloc == "keep"
    sign = Signature(there and not kept, says, {"faults_per_step": faults}, 1 / (1 - min(costs, 0.9)))
    return weigh(case, ODDITIES, sign, ["keep"])


def one_thread(case: Case) -> Verdict:
    """Cores that have nothing to do while one works."""
    busy, wanted = case.busy_cores(), threads_wanted(case)
    if case.cores < 2:
        return Verdict(ODDITIES, "not testable here", "there is one core")
    if isinstance(busy, Missing) and wanted is None:
        return Verdict(ODDITIES, "not testable here", f"busy cores were not read: {_reason(busy)}")
    told = [] if isinstance(busy, Missing) else [f"{busy:.2g} of {case.cores} cores are busy"]
    told += [f"it takes {wanted} thread{'s' * (wanted != 1)}"] if wanted is not None else []
    evidence = {"busy_cores": None if isinstance(busy, Missing) else busy, "threads": wanted}
    few = wanted is not None and wanted < case.cores
    if not few and (isinstance(busy, Missing) or busy >= ONE_CORE or wanted is not None):
        return Verdict(ODDITIES, "ruled out", ", ".join(told), evidence)
    return weigh(case, ODDITIES, Signature(True if few else None, ", ".join(told), evidence), ["threads"])


def faults_share(case: Case) -> float | None:
    """Give the share of a step that its page faults take, at what one was found to take on this machine.

    Threads that fault at once wait for each other, so that their number's root is taken and not their number. That is
    a guess that two trainings on two cores bear out: foretold 3.1 where 3.1 came, and 1.6 where 1.9 did.
    """
    faults, told = faults_a_step(case), case.sign("fault_ns")
    if faults is None or not case.step_ms:
        return None
    threads = min(threads_wanted(case) or case.cores, case.cores)
    return faults * (FAULT_NS if isinstance(told, Missing) else told) / sqrt(threads) / 1e6 / case.step_ms


def faults_a_step(case: Case) -> float | None:
    """Give the page faults of a step, by the instruments' counter over the windows that count."""
    rate = case.seen().growth_per_s("heat", "minor_faults")
    return None if rate is None or case.step_ms is None else rate * case.step_ms / 1e3


def _reason(told: float | Missing) -> str:
    return told.missing if isinstance(told, Missing) else ""


def _gain(verdict: Verdict) -> float:
    return 1.0 if isinstance(verdict.gain, Missing) else verdict.gain


ORDER: tuple[Standing, ...] = ("proven", "likely", "not tested", "ruled out", "not testable here")
ODD_RULES: tuple[tuple[str, Callable[[Case], Verdict]], ...] = (
    ("denormal numbers", denormals),
    ("memory given back", given_back_memory),
    ("one thread", one_thread),
)
