"""What the processor does to a training: quotas and too many threads, denormal numbers, memory given back each step."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.weigh import NOT_KNOWN, Signature, weigh
from laptime.diagnosis.causes.words import share
from laptime.diagnosis.host import FAULTS_BYTES_A_STEP, PAGE_BYTES, THROTTLED_SHARE
from laptime.model.missing import Missing
from laptime.model.why import Standing, Verdict

LIMITED, ODDITIES = "processor limited", "processor oddities"
ODD_SHARE = 0.05
# What one fault costs with the clearing of its page. Mapping alone is 250 ns at least (diagnosis/host.py); with the
# clearing, and with several threads that fault at once, 500 to 1,000 ns were measured on machines of two cores.
FAULT_NS = 700
DENORMAL = 0.01  # of all numbers
ONE_CORE = 1.3  # cores kept busy
THREADS_VARIABLES = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS")


def processor_limited(case: Case) -> Verdict:
    """A container's quota, or more threads than cores: fewer threads, within what there is, prove it."""
    throttled, wanted = throttled_share(case), threads_wanted(case)
    busy = case.busy_cores()
    told, evidence = [], {"throttled_share": throttled, "threads": wanted, "cores": case.cores}
    limited = throttled is not None and throttled > THROTTLED_SHARE
    if throttled is not None:
        quota = case.machine.processor.quota_cores
        of = "" if isinstance(quota, Missing) else f" of {quota:g} cores"
        told.append(f"the container's quota{of} held it back for {share(throttled)} of the time" if limited
                    else "no quota held it back")  # fmt: skip
    crowded = wanted is not None and wanted > case.cores
    if wanted is not None:
        told.append(f"{wanted} threads share {case.cores} core{'s' * (case.cores != 1)}")
    gain = 1 / (1 - min(throttled, 0.9)) if limited and throttled is not None else NOT_KNOWN
    there = True if limited or crowded else None
    sign = Signature(there, ", ".join(told), evidence, gain)
    too_few = not isinstance(busy, Missing) and busy < ONE_CORE < case.cores
    if there is None and too_few:
        says = f"{sign.says or 'no quota is known'}, and {busy:.2g} of {case.cores} cores are busy"
        return Verdict(LIMITED, "ruled out", says, evidence)
    names = ["threads", *(["one thread"] if there else [])]
    verdict = weigh(case, LIMITED, sign, names)
    if verdict.standing == "not tested" and throttled is not None and not crowded and wanted is not None:
        return replace(verdict, standing="ruled out")
    return verdict


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
    """Give how many threads were asked for: by the lane, or else by what the framework takes unasked, or a variable."""
    if case.lane.settings.threads is not None:
        return case.lane.settings.threads
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
    costs = faults * FAULT_NS / 1e6 / case.step_ms if case.step_ms else 0.0
    says = f"{faults:,.0f} page faults a step fetch {faults * PAGE_BYTES / 1e6:,.0f} MB anew"
    there = costs >= ODD_SHARE and faults * PAGE_BYTES >= FAULTS_BYTES_A_STEP
    kept = case.lane.settings.malloc == "keep"
    sign = Signature(there and not kept, says, {"faults_per_step": faults}, 1 / (1 - min(costs, 0.9)))
    return weigh(case, ODDITIES, sign, ["keep"])


def one_thread(case: Case) -> Verdict:
    """Cores that have nothing to do while one works."""
    busy = case.busy_cores()
    if case.cores < 2 or isinstance(busy, Missing):
        why = "there is one core" if case.cores < 2 else f"busy cores were not read: {_reason(busy)}"
        return Verdict(ODDITIES, "not testable here", why)
    says = f"{busy:.2g} of {case.cores} cores are busy"
    if busy >= ONE_CORE:
        return Verdict(ODDITIES, "ruled out", says, {"busy_cores": busy})
    return weigh(case, ODDITIES, Signature(None, says, {"busy_cores": busy}), ["threads"])


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
