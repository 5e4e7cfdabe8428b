"""Causes in the computing: the processor's limits and oddities, changing shapes, poor kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from laptime.analysis.diagnosis.findings import (
    DENORMALS,
    FAULTS_BYTES_A_STEP,
    FAULTS_SHARE,
    RUN_THROTTLED_SHARE,
    denormals_of,
    describe_state,
)
from laptime.analysis.diagnosis.lane_readings import long_share, number_types, others_cores
from laptime.analysis.step_states import find_lane_state
from laptime.model.quantities import Factor, Missing, count, percent, times
from laptime.model.symptoms import MADE_DOUBLE
from laptime.questions.why.facts import PART_NOT_KNOWN, Signature, WhyFacts, judge, more_threads, part_share
from laptime.questions.why.nouns import CauseStanding, Verdict
from laptime.questions.why.step_causes import TIMED_LINES, explained_otherwise, too_little_work

# The words of these causes in records.
PROCESSOR_LIMITED = "processor limited"
PROCESSOR_ODDITIES = "processor oddities"
FLOAT64 = "float64"
SHAPES = "changing shapes"
KERNELS = "poor kernels"

ONE_CORE = 1.3  # cores kept busy
SETS_THREADS = "set_num_threads("
ENOUGH_FREE = 0.5  # of a core, beyond those that work
SLOW = "slow"  # whether this processor is slow with denormal numbers, where that was timed
FEW_THREADS = "few_threads"
SHAPES_USUAL = 2  # the last batch of an epoch may be smaller than the others
SPIKES = 0.05
BETTER = 1.25  # smaller gains are normal: nearly every network gains a little from some other kernel
FAR_FROM_PEAK = 0.3  # of what the device can do
NEAR_PEAK = 0.6
COMPUTING_SHARE = 0.5
OF_KERNELS = ("layout", "tf32", "bf16")
OF_LAUNCHES_TOO = ("compile", "fused")
ORDER: tuple[CauseStanding, ...] = ("proven", "likely", "not tested", "ruled out", "not testable here")


def processor_limited(facts: WhyFacts) -> Verdict:
    """Judge a container's quota, or another number of threads than of cores: a gain with as many as cores proves it.

    A quota limits even where fewer threads do not help: its own counter shows it.
    """
    wanted = facts.readings().threads_wanted()
    if facts.on_processor and (idle := _idle_cores(facts, wanted)) is not None:
        return judge(facts, PROCESSOR_LIMITED, idle, ["threads"])
    sign = _limits(facts)
    if sign.is_there is None and (wanted is not None and wanted <= facts.cores):
        return Verdict(PROCESSOR_LIMITED, "ruled out", sign.says, sign.evidence)
    verdict = judge(facts, PROCESSOR_LIMITED, sign, ["threads", *(["one thread"] if sign.is_there else [])])
    limited = (facts.throttled_share() or 0.0) > RUN_THROTTLED_SHARE
    if limited and verdict.standing == "ruled out":
        return replace(verdict, standing="likely", gain=sign.gain)
    if verdict.standing == "not tested" and wanted is not None and not sign.is_there:
        return replace(verdict, standing="ruled out")
    return verdict


def name_limit(verdict: Verdict) -> str:
    if (verdict.evidence.get("throttled_share") or 0.0) > RUN_THROTTLED_SHARE:
        return "the container's quota holds this training back"
    if verdict.evidence.get(FEW_THREADS):
        where = verdict.evidence.get("where")
        return "one thread works while other cores are idle" + (f", since {where}" if where else "")
    return "threads that the processor has no cores for hold this training back"


def _idle_cores(facts: WhyFacts, wanted: int | None) -> Signature | None:
    """Read whether cores are idle while too few threads work; None if not, or if a quota allows no more."""
    busy = facts.busy_cores()
    is_known = not isinstance(busy, Missing)
    is_few = wanted is not None and wanted < facts.cores
    seems_few = wanted is None and not isinstance(busy, Missing) and busy < ONE_CORE
    if facts.cores < 2 or not (is_few or seems_few) or (facts.throttled_share() or 0.0) > RUN_THROTTLED_SHARE:
        return None
    likely, most = more_threads(facts, wanted or 1)
    if most < 1 + facts.margin:
        return None  # what computes is too small a part of a step
    signs = [f"{busy:.2g} of {facts.cores} cores are busy"] if is_known else []
    signs += [f"it takes {wanted} thread{'s' * (wanted != 1)}"] if wanted is not None else []
    evidence: dict[str, object] = {
        FEW_THREADS: True,
        "busy_cores": busy if is_known else None,
        "threads": wanted,
        "cores": facts.cores,
    }
    # The line of the user's own code that sets how many threads compute: the remedy replaces it
    change = facts.trials["threads"].experiment.change if "threads" in facts.trials else None
    lines = [] if change is None or isinstance(change.diff, Missing) else change.diff.splitlines()
    if change is not None and any(line.startswith("-") and SETS_THREADS in line for line in lines):
        evidence["where"] = f"{change.file}:{change.line}"
        signs.append(f"as {change.file}:{change.line} says")
    if is_few and free_cores(facts) < (wanted or 0) + ENOUGH_FREE:
        signs.append("and other processes take the other cores")
        is_few = False
    return Signature(True if is_few else None, ", ".join(signs), evidence, likely if is_few else PART_NOT_KNOWN)


def free_cores(facts: WhyFacts) -> float:
    """Return how many cores other processes leave to this training."""
    return max(facts.cores - (others_cores(facts.lane) or 0.0), 1.0)


def _limits(facts: WhyFacts) -> Signature:
    """Read the quota's counter and the number of threads."""
    throttled = facts.throttled_share()
    wanted = facts.readings().threads_wanted()
    limited = throttled is not None and throttled > RUN_THROTTLED_SHARE
    crowded = wanted is not None and wanted > facts.cores
    signs: list[str] = []
    gain: float | Missing = PART_NOT_KNOWN
    if throttled is not None:
        quota = facts.machine.processor.quota_cores
        of = "" if isinstance(quota, Missing) else f" of {quota:g} cores"
        signs = [f"the container's quota{of} held it back for {percent(throttled)} of the time"]
        gain = 1 / (1 - min(throttled, 0.9)) if limited else PART_NOT_KNOWN
    if wanted is not None:
        there = f"{facts.cores} core{'s' * (facts.cores != 1)}"
        signs.append(f"{wanted} thread{'s' * (wanted != 1)} {'share' if crowded else 'for'} {there}")
    evidence = {"throttled_share": throttled, "threads": wanted, "cores": facts.cores}
    return Signature(True if limited or crowded else None, ", ".join(signs), evidence, gain)


def processor_oddities(facts: WhyFacts) -> Verdict:
    """Judge two oddities, each with its own experiment: the most certain one is named, with the figures of all."""
    if not facts.on_processor:
        says = f"{facts.lane.device.name} computes this training, and not the processor"
        return Verdict(PROCESSOR_ODDITIES, "not testable here", says)
    found = [(oddity, rule(facts)) for oddity, rule, _ in ODDITIES]
    oddity, worst = min(found, key=lambda pair: (ORDER.index(pair[1].standing), -_gain(pair[1])))
    evidence = {name: {"standing": verdict.standing, **verdict.evidence} for name, verdict in found}
    if worst.standing in {"ruled out", "not testable here"}:
        says = "; ".join(dict.fromkeys(verdict.says for _, verdict in found))
        return replace(worst, says=says, evidence=evidence)
    return replace(worst, evidence={"oddity": oddity, **evidence})


def are_denormals(verdict: Verdict) -> bool:
    """Whether denormal numbers are proven. They slow every other experiment down, too, so those say little."""
    return verdict.standing == "proven" and verdict.evidence.get("oddity") == DENORMALS


def may_be_denormals(verdict: Verdict) -> bool:
    return verdict.evidence.get("oddity") == DENORMALS


def are_known_to_cost(verdict: Verdict) -> bool:
    """Whether denormal numbers are likely, and this processor is slow with them: that was timed."""
    return may_be_denormals(verdict) and bool(verdict.evidence[DENORMALS].get(SLOW))


def name_oddity(verdict: Verdict) -> str:
    named = (sentence for oddity, _, sentence in ODDITIES if oddity == verdict.evidence.get("oddity"))
    return next(named, "the processor works oddly")


def denormals(facts: WhyFacts) -> Verdict:
    """Many processors take a hundred times as long for numbers close to 0."""
    census = denormals_of(facts.lane)
    state = find_lane_state(facts.lane)
    if census is None:
        counted = facts.symptom("denormals")
        why = counted.missing if isinstance(counted, Missing) else "no heat took a census"
        return judge(facts, PROCESSOR_ODDITIES, Signature(None, f"denormals were not counted: {why}"), ["flush"])
    slows = "" if state is None or not census.cost else f"{describe_state(state)}; "
    gain = 1 / (1 - min(state.share, 0.99)) if state is not None and census.cost else PART_NOT_KNOWN
    costs = census.cost and facts.slow_with_denormals is not False
    sign = Signature(True if costs else None if census.share > 0 else False, slows + census.says,
                     {"share": census.share, "of": census.kind, "step": state.step if state else None,
                      SLOW: facts.slow_with_denormals}, gain)  # fmt: skip
    verdict = judge(facts, PROCESSOR_ODDITIES, sign, ["flush"])
    # What it gains at the steps of a state is not what it gains in all.
    since = "flush" in facts.trials and facts.trials["flush"].since is not None
    return replace(verdict, gain=gain) if since and verdict.standing == "proven" else verdict


def given_back_memory(facts: WhyFacts) -> Verdict:
    """Memory that was freed in one step is fetched again in the next, page by page."""
    faults = facts.readings().faults_per_step()
    if faults is None:
        return judge(facts, PROCESSOR_ODDITIES, Signature(None, "page faults were not read"), ["keep"])
    costs = facts.readings().faults_share() or 0.0
    fetched_bytes = faults * facts.machine.page_bytes
    says = f"{faults:,.0f} page faults a step fetch {fetched_bytes / 1e6:,.0f} MB again"
    there = costs >= FAULTS_SHARE and fetched_bytes >= FAULTS_BYTES_A_STEP
    kept = facts.lane.settings.malloc == "keep"
    evidence = {"faults_per_step": faults, "fault_ns": facts.readings().fault_ns()}
    sign = Signature(there and not kept, says, evidence, 1 / (1 - min(costs, 0.9)))
    return judge(facts, PROCESSOR_ODDITIES, sign, ["keep"])


def _gain(verdict: Verdict) -> float:
    return 1.0 if isinstance(verdict.gain, Missing) else verdict.gain


ODDITIES: tuple[tuple[str, Callable[[WhyFacts], Verdict], str], ...] = (
    (DENORMALS, denormals, "denormal numbers slow the processor down"),
    ("memory given back", given_back_memory, "memory is given back to the system and fetched again in every step"),
)


def double_numbers(facts: WhyFacts) -> Verdict:
    """Numbers of float64 have twice the bytes, and a processor computes half as many of them at once."""
    types = number_types(facts.lane)
    if not types:
        return judge(facts, FLOAT64, Signature(None, "the types of its weights were not seen"), ["single"])
    says = f"its weights are {' and '.join(types)}"
    if "float64" not in types:
        return Verdict(FLOAT64, "ruled out", says, {"types": list(types)})
    where = None if facts.symptoms is None else facts.symptoms.notes.get(MADE_DOUBLE)
    says += f", since {where}" if where else ""
    evidence = {"types": list(types), "where": where}
    sign = Signature(is_there=True, says=says, evidence=evidence)
    watched = next((finding for finding in facts.watched or () if finding.rule == "script in float64"), None)
    if watched is not None and watched.gain is not None:  # of a script, how long it computes was timed
        timed = {**evidence, TIMED_LINES: watched.evidence["share"]}
        sign = replace(sign, evidence=timed, gain=watched.gain.likely)
    return judge(facts, FLOAT64, sign, ["single"])


def name_double(verdict: Verdict) -> str:
    where = verdict.evidence.get("where")
    return f"it computes in float64, since {where}" if where else "it computes in float64"


def changing_shapes(facts: WhyFacts) -> Verdict:
    """One repeated batch has one shape. Its gain over batches that are ready is the cost of the shapes."""
    shapes = facts.symptom("shapes")
    compiles = facts.symptom("compiles")
    if isinstance(shapes, Missing) and isinstance(compiles, Missing):
        return _judge_shapes(facts, Signature(None, f"shapes were not looked at: {shapes.missing}"), ["one"])
    steps = facts.symptoms.steps if facts.symptoms is not None else 0
    known = 0.0 if isinstance(compiles, Missing) else compiles
    several = not isinstance(shapes, Missing) and shapes > SHAPES_USUAL
    counts = [] if isinstance(shapes, Missing) else [f"{count(shapes)} shape{'s' * (shapes != 1)} of batch"]
    counts += [] if isinstance(compiles, Missing) else [f"{count(compiles)} compilation{'s' * (compiles != 1)}"]
    says = f"{' and '.join(counts)} in {steps} steps"
    spikes = long_share(facts.lane) or 0.0
    evidence = {"shapes": None if isinstance(shapes, Missing) else shapes, "compiles": known, "long_share": spikes}
    if not several and not known:
        return Verdict(SHAPES, "ruled out", says, evidence)
    costs = known > 0 or spikes >= SPIKES
    sign = Signature(True if costs else None, says, evidence)
    verdict = _judge_shapes(facts, sign, [])
    # Batches of one length are also batches of one size: perhaps only the larger ones are slow.
    return replace(verdict, standing="likely") if verdict.standing == "proven" and not costs else verdict


def _judge_shapes(facts: WhyFacts, sign: Signature, untried: Sequence[str]) -> Verdict:
    """Judge by what one repeated batch gains over batches that are ready: it has no loader either.

    Where it was not run, `untried` says for which experiments that counts.
    """
    # The gain of one repeated batch over batches that are ready, at the worst. Neither has a loader.
    one = facts.factor("one")
    resident = facts.factor("compute")
    if one is None or resident is None:
        beyond = one
    else:
        beyond = Factor(one.ratio / resident.ratio, _over(one.low, resident.high), _over(one.high, resident.low))
    if beyond is None:
        return judge(facts, SHAPES, sign, untried)
    trials = {**facts.trials, "one": replace(facts.trials["one"], factor=beyond)}
    return judge(replace(facts, trials=trials), SHAPES, sign, ["one"])


def _over(ours: float | Missing, theirs: float | Missing) -> float | Missing:
    if isinstance(ours, Missing) or isinstance(theirs, Missing):
        return ours if isinstance(ours, Missing) else theirs
    return ours / theirs


def poor_kernels(facts: WhyFacts) -> Verdict:
    """A busy device that is far from its peak may have better kernels: in another precision or layout, or compiled."""
    computing = part_share(facts, "compute")
    if 0 < computing < COMPUTING_SHARE:
        says = f"computing takes {percent(computing)} of a step only"
        return Verdict(KERNELS, "ruled out", says, {"compute_share": computing})
    # How far the device is from its peak
    limit = facts.lane.roofline
    if limit is None:
        why = facts.lane.absent.get("roofline")
        says = "how near it comes to what the device can do is not known"
        sign = Signature(None, says if why is None else f"{says} ({why.missing})")
    else:
        allow = "allow" if limit.binds == "products" else "allows"
        most = times(1 / max(limit.share, 0.01))
        says = f"{percent(limit.share)} of what the device's {limit.binds} {allow}, so {most} at the very most"
        there = True if limit.share < FAR_FROM_PEAK else False if limit.share > NEAR_PEAK else None
        sign = Signature(there, says, {"share_of_peak": limit.share})
    little = too_little_work(facts).standing
    launches = little in {"proven", "likely"} or explained_otherwise(facts) is not None
    names = [*OF_KERNELS, *(() if launches else OF_LAUNCHES_TOO)]
    if facts.on_processor:
        names.remove("bf16")  # on a processor its speed comes from other arithmetic, and says nothing about kernels
    return judge(facts, KERNELS, sign, names, BETTER)
