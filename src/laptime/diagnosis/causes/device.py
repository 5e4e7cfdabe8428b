"""What a device makes of a step that it is busy with: shapes that change, kernels slower than they could be."""

from __future__ import annotations

from dataclasses import replace

from laptime.diagnosis.causes.case import Case
from laptime.diagnosis.causes.parts import share_of
from laptime.diagnosis.causes.stages import explained_otherwise, too_little_work
from laptime.diagnosis.causes.weigh import Signature, weigh
from laptime.diagnosis.causes.words import counted, share, times
from laptime.diagnosis.steps import long_share
from laptime.model.missing import Missing
from laptime.model.why import Factor, Trial, Verdict

SHAPES, KERNELS = "changing shapes", "poor kernels"
SPIKES = 0.05
BETTER = 1.25  # nearly every network gains a little from some other kernel
FAR, NEAR = 0.3, 0.6  # of what the device can do
COMPUTES = 0.5
OF_KERNELS = ("layout", "tf32", "bf16")
OF_LAUNCHES_TOO = ("compile", "fused")


def changing_shapes(case: Case) -> Verdict:
    """One batch again and again has one shape: what it gains over batches that are there already, shapes cost."""
    shapes, compiles = case.sign("shapes"), case.sign("compiles")
    if isinstance(shapes, Missing) and isinstance(compiles, Missing):
        sign = Signature(None, f"shapes were not looked at: {shapes.missing}")
        return weigh(case, SHAPES, sign, ["one"])
    steps = case.signs.steps if case.signs is not None else 0
    known = 0.0 if isinstance(compiles, Missing) else compiles
    several = not isinstance(shapes, Missing) and shapes > 1
    told = [] if isinstance(shapes, Missing) else [f"{counted(shapes)} shape{'s' * (shapes != 1)} of batch"]
    told += [] if isinstance(compiles, Missing) else [f"{counted(compiles)} compilation{'s' * (compiles != 1)}"]
    says = f"{' and '.join(told)} in {steps} steps"
    spikes = long_share(case.lane) or 0.0
    evidence = {"shapes": None if isinstance(shapes, Missing) else shapes, "compiles": known, "long_share": spikes}
    if not several and not known:
        return Verdict(SHAPES, "ruled out", says, evidence)
    costs = known > 0 or spikes >= SPIKES
    sign = Signature(True if costs else None, says, evidence)
    beyond = _beyond_resident(case)
    if beyond is None:
        return weigh(case, SHAPES, sign)
    verdict = weigh(_with_trial(case, beyond), SHAPES, sign, ["one"])
    if verdict.standing == "proven" and not costs:
        # Batches of one length are also batches of one size: it may be the larger ones that are slow.
        return Verdict(SHAPES, "likely", verdict.says, verdict.evidence, verdict.lanes, verdict.gain)
    return verdict


def _beyond_resident(case: Case) -> Factor | None:
    """Give what one batch gains over batches that are there already, which both have no loader; at the worst."""
    one, resident = case.factor("one"), case.factor("compute")
    if one is None or resident is None:
        return one
    return Factor(one.ratio / resident.ratio, _over(one.low, resident.high), _over(one.high, resident.low))


def _over(ours: float | Missing, theirs: float | Missing) -> float | Missing:
    if isinstance(ours, Missing) or isinstance(theirs, Missing):
        return ours if isinstance(ours, Missing) else theirs
    return ours / theirs


def _with_trial(case: Case, factor: Factor) -> Case:
    one = case.trials["one"]
    trials = {**case.trials, "one": Trial(one.experiment, one.lane, factor, one.reason)}
    return replace(case, trials=trials)


def poor_kernels(case: Case) -> Verdict:
    """A device that is busy and far from its peak may have better kernels: other precision, layout, compiled ones."""
    computing = share_of(case, "compute")
    if 0 < computing < COMPUTES:
        says = f"computing takes {share(computing)} of a step only"
        return Verdict(KERNELS, "ruled out", says, {"compute_share": computing})
    sign = _distance(case)
    little = too_little_work(case).standing
    launches = little in {"proven", "likely"} or explained_otherwise(case) is not None
    names = [*OF_KERNELS, *(() if launches else OF_LAUNCHES_TOO)]
    if case.on_processor:
        names.remove("bf16")  # where it is fast, it is another arithmetic, and no kernel was poor
    return weigh(case, KERNELS, sign, names, BETTER)


def _distance(case: Case) -> Signature:
    limit = case.lane.roofline
    if limit is None:
        why = case.lane.absent.get("roofline")
        says = "how near it comes to what the device can do is not known"
        return Signature(None, says if why is None else f"{says} ({why.missing})")
    allow = "allow" if limit.binds == "products" else "allows"
    says = f"{share(limit.share)} of what the device's {limit.binds} {allow}"
    there = True if limit.share < FAR else False if limit.share > NEAR else None
    gain = 1 / max(limit.share, 0.01)
    return Signature(there, f"{says}, so {times(gain)} at the very most", {"share_of_peak": limit.share})
