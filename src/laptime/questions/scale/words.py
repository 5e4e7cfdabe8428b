"""The verdict of a scale in one sentence: what the devices bring, and what the largest loss is."""

from __future__ import annotations

from laptime.model.interval import Bounded
from laptime.model.missing import Missing
from laptime.model.quantities import percent, times
from laptime.questions.scale.nouns import LostTime, LostTo, ScaleCurve, ScalePoint

NOUNS = {"cuda": "card", "mps": "device", "xpu": "card", "tpu": "TPU", "cpu": "process"}
NUMBER_WORDS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight")
WORTH_NAMING = 0.02  # of a step
NOTHING_FOUND = "nothing was found that they lose"


def say_curve(curve: ScaleCurve, kind: str) -> str:
    """Return what the largest measured count brings, and why it is not more."""
    most = next((each for each in reversed(curve.points) if each.speedup is not None and each.devices > 1), None)
    if most is None or most.speedup is None:
        return f"no count of {_several(kind)} has a result."
    of = "" if curve.mode == "weak" else " of one batch"
    brings = f"{count_words(most.devices, kind)} give {times_words(most.speedup)} the rate of one{of}"
    if curve.lost is None:
        return f"{brings}{_profiled_words(curve)}."
    return f"{brings}: {say_loss(curve.lost, most, kind)}."


def _profiled_words(curve: ScaleCurve) -> str:
    """Return what the profiler saw, where no experiment shows what is lost."""
    seen = curve.profiled
    if seen is None or seen.exposed.value < WORTH_NAMING:
        return ""
    return f": by the profiler, {percent(seen.exposed.value)} of a step is an exchange of gradients that nothing hides"


def say_loss(lost: LostTime, point: ScalePoint, kind: str) -> str:
    """Return the largest loss in words."""
    share_of = {each.of: each.share.value for each in lost.parts}
    if lost.first not in share_of:
        return NOTHING_FOUND
    share = percent(share_of[lost.first])
    match lost.first:
        case "exchange":
            return f"{share} of a step is an exchange of gradients that nothing hides"
        case "straggler" if lost.straggler is not None:
            slow = lost.straggler
            waited = _waited_words(lost)
            return f"rank {slow.rank} ({slow.device}) takes {percent(slow.slower)} longer than the others{waited}"
        case "straggler" | "waiting":
            return f"for {share} of a step its ranks wait for the slowest one, each time another"
        case "host":
            return f"{share} of a step is lost because the {_several(kind)} slow each other down on this machine"
        case "loader":
            return f"for {share} of a step they wait for loaders, which do not keep up with {point.devices}"
        case _:
            return f"{share} of a step is lost because smaller batches keep a device less busy"


def _waited_words(lost: LostTime) -> str:
    """Return whether the slow rank had to wait for a core more than the others."""
    slow = lost.straggler
    if slow is None or isinstance(slow.waited, Missing) or isinstance(slow.mean_waited, Missing):
        return ", and all wait for it"
    if slow.waited - slow.mean_waited > slow.slower / 3:
        return f": it had no core for {percent(slow.waited)} of its time"
    return ", and all wait for it"


def count_words(devices: int, kind: str) -> str:
    """Return `two cards`, `16 processes`."""
    noun = NOUNS.get(kind, "device")
    number = NUMBER_WORDS[devices] if devices < len(NUMBER_WORDS) else f"{devices:,}"
    return f"{number} {noun if devices == 1 else _several(kind)}"


def times_words(found: Bounded) -> str:
    """Return `1.62x (1.55-1.70)`."""
    if found.ends is None:
        return f"{times(found.value)} (one round)"
    low, high = found.ends
    return f"{times(found.value)} ({times(low)[:-1]}-{times(high)[:-1]})"


def name_loss(of: LostTo) -> str:
    """Return a part of a step in a few words."""
    return {
        "computing": "computing",
        "smaller batch": "smaller batches",
        "host": "shared machine",
        "loader": "loaders",
        "straggler": "slow rank",
        "waiting": "slowest of each step",
        "exchange": "exchange of gradients",
    }[of]


def _several(kind: str) -> str:
    noun = NOUNS.get(kind, "device")
    return f"{noun}es" if noun.endswith("s") else f"{noun}s"
