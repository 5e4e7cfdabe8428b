"""Into which stage the wall time goes: between the steps, the loader, the copy, waits of the host, too little work."""

from __future__ import annotations

from dataclasses import replace

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.host import throttled_share
from laptime.diagnosis.causes.parts import share_of, stage_share
from laptime.diagnosis.causes.weigh import NOT_KNOWN, Signature, weigh
from laptime.diagnosis.causes.words import cores, counted, share, taken
from laptime.diagnosis.host import THROTTLED_SHARE
from laptime.diagnosis.steps import finished, long_share, others_cores, steps_ns
from laptime.model.missing import Missing
from laptime.model.why import Verdict

OUTSIDE, INPUT, COPY = "outside the step", "input pipeline", "copy to the device"
WAITS, LITTLE_WORK, SEVERAL = "host waits for values", "too little work a step", "several devices"
WORTH = 0.05  # of a step: XProf calls an input's share moderate from here on, and high from 20 %
FIXED = 1.2  # what twice the batch gains where a third of a step does not grow with the batch
LAUNCHED = 1.1
BUSY, IDLE = 0.9, 0.6
OTHERS = 0.3  # cores


def outside_step(case: Case) -> Verdict:
    """Pauses that come at even distances lie between the laps, or are a validation; batches at hand leave them out."""
    pauses = case.pauses()
    if pauses is None:
        return _no_pauses(case)
    often = f"every {counted(pauses.every)} steps a pause of {taken(pauses.pause_ms)}"
    says = f"{often} takes {share(pauses.share)} of the time"
    evidence = {"share": pauses.share, "every_steps": pauses.every, "pause_ms": pauses.pause_ms, "seen": pauses.count}
    if pauses.share < WORTH:
        return Verdict(OUTSIDE, "ruled out", says, evidence)
    throttled = throttled_share(case) or 0.0
    if throttled > THROTTLED_SHARE and pauses.share <= throttled + WORTH:
        says = f"{says}: so the container's quota stops it, for {share(throttled)} of the time"
        return Verdict(OUTSIDE, "ruled out", says, {**evidence, "throttled_share": throttled})
    gain = 1 / (1 - pauses.share)
    # The same swap takes the loader away: only where that is the smaller part does it prove the pauses.
    loader = share_of(case, "loader")
    moved = [name for name in ("compute", "decoded") if loader < pauses.share and case.moved(name)]
    sign = Signature(is_there=True, says=says, evidence=evidence, gain=gain)
    return replace(weigh(case, OUTSIDE, sign, moved), gain=gain)


def _no_pauses(case: Case) -> Verdict:
    """Where no lap ended while steps were timed, its end was not seen; a published validation was looked at, though."""
    looks = _share_of_validation(case)
    if looks is not None and looks >= WORTH:
        says = f"foretold from a look at some items, validation after each lap takes {share(looks)} of the training"
        return Verdict(OUTSIDE, "likely", says, {"validation_share": looks}, gain=1 / (1 - looks))
    long = long_share(case.lane)
    if long is None:
        return Verdict(OUTSIDE, "not testable here", "no step of this lane was timed by itself")
    timed = max(len(steps_ns(heat)) for heat in finished(case.lane))
    lap = case.steps_per_lap()
    says = f"steps that are far longer than the others take {share(long)} of the time, at no even distances"
    evidence = {"long_share": long, "steps_timed": timed, "steps_per_lap": lap}
    if lap is not None and lap > timed and long < WORTH:
        says = (
            f"a lap has {counted(lap)} steps, and no more than {timed} were timed in one piece: no lap's end was seen"
        )
        return Verdict(OUTSIDE, "not tested", says, evidence)
    return Verdict(OUTSIDE, "ruled out", says, evidence)


def _share_of_validation(case: Case) -> float | None:
    whole = case.lane.whole
    if whole is None:
        return None
    return whole.validation_s / (whole.validation_s + whole.train_s.median)


def input_pipeline(case: Case) -> Verdict:
    """The swap proves it: decoded batches from memory leave the loader out, and on a processor nothing else."""
    part, alone = share_of(case, "loader"), stage_share(case, "loader")
    if isinstance(alone, Missing) and case.signs is None and not _was_tried(case, "compute", "decoded"):
        return weigh(case, INPUT, Signature(None, f"the loader's share is not known: {alone.missing}"), ["decoded"])
    says = f"the loader takes {share(part)} of a step"
    if not isinstance(alone, Missing):
        says += f", alone {_ms(case, alone)} of {_ms(case, 1.0)}" if part >= WORTH else _beside(case, alone)
    evidence = {"share": part, "alone": None if isinstance(alone, Missing) else alone}
    if part < WORTH:
        return Verdict(INPUT, "ruled out", says, evidence)
    sign = Signature(is_there=True, says=says, evidence=evidence, gain=1 / (1 - min(part, 0.999)))
    return weigh(case, INPUT, sign, _swaps(case))


def _swaps(case: Case) -> list[str]:
    """Name the experiments that leave the loader out: batches on the device prove it where the copy is the lesser."""
    names = [name for name in ("decoded", "fast", "workers") if case.moved(name) or name == "decoded"]
    if case.on_processor or share_of(case, "loader") > share_of(case, "copy"):
        names.append("compute")
    return names


def _beside(case: Case, alone: float) -> str:
    if alone < WORTH:
        return f" ({_ms(case, alone)} of {_ms(case, 1.0)})"
    return f": alone it takes {_ms(case, alone)} of {_ms(case, 1.0)}, and works while the step computes"


def copy_to_device(case: Case) -> Verdict:
    """What decoded batches in memory do not gain, and batches on the device do, is the copy."""
    if case.on_processor:
        return Verdict(COPY, "not testable here", "a lane on the processor copies nothing to a device")
    part, alone = share_of(case, "copy"), stage_share(case, "copy")
    if isinstance(alone, Missing):
        return weigh(case, COPY, Signature(None, f"the copy's share is not known: {alone.missing}"), ["copy"])
    says = f"the copy to the device takes {share(part)} of a step{_rate(case)}"
    evidence = {"share": part, "alone": alone, "bytes_per_s": _bytes_per_s(case)}
    if part < WORTH:
        return Verdict(COPY, "ruled out", says, evidence)
    sign = Signature(is_there=True, says=says, evidence=evidence, gain=1 / (1 - min(part, 0.999)))
    # Batches on the device leave the loader out, too.
    proves = share_of(case, "loader") < part
    return weigh(case, COPY, sign, ["compute"] if proves else [])


def host_waits(case: Case) -> Verdict:
    """A value that the host reads stops it until the device has come so far; put off, it stops nobody."""
    if case.on_processor:
        says = "on the processor a value is there as soon as it is computed: reading it waits for nothing"
        return Verdict(WAITS, "not testable here", says)
    reads = case.sign("reads")
    if isinstance(reads, Missing):
        return weigh(case, WAITS, Signature(None, f"reads were not counted: {reads.missing}"), ["deferred"])
    sites = [f"{each.where} ({each.what})" for each in case.signs.sites[:3]] if case.signs else []
    at = f", at {', '.join(sites)}" if sites else ""
    says = f"the host asks the device for a value {counted(reads)} times a step{at}"
    idle = share_of(case, "host")
    gain: float | Missing = 1 / (1 - min(idle, 0.9)) if idle > 0 else NOT_KNOWN
    evidence = {"reads_per_step": reads, "sites": sites, "host_share": idle}
    if reads <= 0:
        return Verdict(WAITS, "ruled out", "the host asks the device for no value within a step", evidence)
    return weigh(case, WAITS, Signature(is_there=True, says=says, evidence=evidence, gain=gain), ["deferred"])


def too_little_work(case: Case) -> Verdict:
    """A step that takes no longer at twice the batch is not bound by its work, but by what starts it."""
    computing = share_of(case, "compute") + share_of(case, "host")
    busy = case.busy()
    sign = _little(case, busy)
    if computing and computing < 0.3:
        says = f"computing takes {share(computing)} of a step: what starts it matters little"
        return Verdict(LITTLE_WORK, "ruled out", says, {**sign.evidence, "compute_share": computing})
    verdict = weigh(case, LITTLE_WORK, sign, ["batch 2x", "batch 4x"], FIXED)
    if verdict.standing != "proven" and not case.on_processor:
        launched = weigh(case, LITTLE_WORK, sign, ["graph", "strides", "compile"], LAUNCHED)
        verdict = launched if launched.standing == "proven" else verdict
    other = explained_otherwise(case)
    if verdict.standing == "proven" and (other or (computing and computing < 0.5)):
        why = other or f"computing takes {share(computing)} of a step only"
        return Verdict(
            LITTLE_WORK, "likely", f"{verdict.says}; but {why}", verdict.evidence, verdict.lanes, verdict.gain
        )
    return verdict


def _little(case: Case, busy: float | Missing) -> Signature:
    if isinstance(busy, Missing):
        says = f"a step takes {taken(case.step_ms)}" if case.step_ms else ""
        return Signature(None, says, {"step_ms": case.step_ms})
    says = f"the device is busy for {share(busy)} of the time"
    gain = min(2.0, 1 / max(busy, 0.01))
    there = True if busy < IDLE and share_of(case, "host") >= WORTH else False if busy > BUSY else None
    return Signature(there, says, {"busy": busy}, gain)


def explained_otherwise(case: Case) -> str | None:
    """Name what else makes each step cost the same whatever is in it, so that a larger batch proves nothing."""
    batch = case.factor("batch 2x")
    gained = batch.ratio if batch is not None else 1.0
    for name, words in (("threads", "other threads gain more"), ("deferred", "reads put off gain as much"),
                        ("one", "one shape of batch gains as much")):  # fmt: skip
        factor = case.factor(name)
        if factor is not None and case.moved(name, 1.1) and factor.ratio >= 0.9 * gained:
            return words
    if (throttled_share(case) or 0.0) > THROTTLED_SHARE:
        return "the container's quota held it back"
    other = others_cores(case.lane)
    if other is not None and other >= OTHERS:
        return f"other processes take {cores(other)}"
    pauses = case.pauses()
    if pauses is not None and pauses.share >= 2 * WORTH:
        return "pauses between steps are shared by more items, too"
    return None


def several_devices(case: Case) -> Verdict:
    """A lane trains on one device: there is no traffic between several to be slow."""
    says = f"this lane trains on one device ({case.lane.device.name}): no gradient travels"
    return Verdict(SEVERAL, "not testable here", says, {"devices": 1})


def _was_tried(case: Case, *names: str) -> bool:
    return any(case.factor(name) is not None for name in names)


def _ms(case: Case, part: float) -> str:
    return taken(part * (case.whole_ms() or 0.0))


def _bytes_per_s(case: Case) -> float | None:
    """Give how fast batches came to the device in the steps taken apart."""
    copied, spent = case.sign("copied_bytes"), case.sign("copy_ns")
    if isinstance(copied, Missing) or isinstance(spent, Missing) or not spent or not copied:
        return None
    return copied / spent * 1e9


def _rate(case: Case) -> str:
    rate = _bytes_per_s(case)
    return "" if rate is None else f", at {rate / 1e9:.2g} GB/s"
