"""What a candidate may do to seem faster, and the name by which a program reads that it was found.

The proof, and what is seen of the timed steps, say in a sentence how the work differs: `CHEATS` knows each sentence
again. What only a verdict looks at is found here: clocks and code that the candidate replaced, time that laptime's own
clock saw and the candidate's process did not report, and work that is done before the first step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median

from laptime.analysis.own_clock import hidden_share
from laptime.analysis.parity import AND_OF_THE_PROOF, LOSS_DIFFERS
from laptime.analysis.replays import NOT_AS_TOLD, NOT_JOINED, TAKEN_AGAIN
from laptime.model.quantities import number
from laptime.model.record import LaneResult
from laptime.model.sample import Heat


@dataclass(frozen=True, slots=True)
class Cheat:
    """One row a cheat: its name for programs, and the words of laptime's sentence on it."""

    name: str
    words: str


CHEATS = (
    Cheat("changed clock", "replaced time."),
    Cheat("changed fence", "replaced torch."),
    Cheat("changed fence", "replaced jax."),
    Cheat("changed laptime", "replaced laptime."),
    Cheat("hidden time", "by laptime's own clock"),
    Cheat("changed base", "the files of the base changed"),
    Cheat("other batch size", "batches have"),
    Cheat("fewer items", "trained on batches of"),
    Cheat("other random draws", "with any random draws"),
    Cheat("knows the judge", TAKEN_AGAIN),
    Cheat("knows the judge", NOT_AS_TOLD),
    Cheat("knows the judge", NOT_JOINED),
    Cheat("fewer items", AND_OF_THE_PROOF),
    Cheat("fewer items", "a lap of"),
    Cheat("repeated batches", "different ones"),
    Cheat("other data", "its batches are other ones"),
    Cheat("other weights", "did not start from the same weights"),
    Cheat("frozen weights", "arrays of weights do not move"),
    Cheat("skipped updates", "changed its weights"),
    Cheat("other rate", "the rate of"),
    Cheat("knows the judge", "put back to their start"),
    Cheat("knows the judge", "at its step"),
    Cheat("knows the judge", "the losses of"),
    Cheat("other precision", "float64 reference of its own"),
    Cheat("other update", "moved"),
    Cheat("other update", "weight decay"),
    Cheat("other update", "epsilon"),
    Cheat("other network", "arrays of weights"),
    Cheat("other network", "their "),
    Cheat("other computation", LOSS_DIFFERS),
)


def name_cheat(says: str) -> str:
    """Return the name of the first row whose words are in a sentence on other work."""
    return next((cheat.name for cheat in CHEATS if cheat.words in says), "other work")


HIDDEN_PART = 0.25  # of what its windows take: more than a busy machine adds to the ways between two processes
HIDDEN_ALWAYS = 0.08  # the same, where each of several rounds has it
HIDDEN_ROUNDS = 3
HIDDEN_LEAST_S = 0.01


def find_replaced(candidate: LaneResult) -> str | None:
    """Return that the candidate's code replaced a clock, a fence or a part of laptime."""
    changed = dict.fromkeys(name for result in candidate.heats for name in result.heat.changed)
    return None if not changed else f"it replaced {' and '.join([*changed][:3])}, by which it is judged"


def find_hidden_time(candidate: LaneResult, base: LaneResult) -> str | None:
    """Return that turns of the candidate took longer than it reported, next to those of the base.

    Both took the same steps in a turn, some of them not timed, so what a turn takes beyond its window is alike. The
    factor counts it in any case (`laptime.analysis.own_clock`).
    """
    mine, theirs = ({each.heat.round: each.heat.windows for each in lane.heats} for lane in (candidate, base))
    whole = hidden_share([*mine.values()], [*theirs.values()])
    if whole is None:
        return None
    rounds = [hidden_share([mine[each]], [theirs[each]]) for each in mine.keys() & theirs.keys()]
    known = [share for share in rounds if share is not None]
    is_always = len(known) >= HIDDEN_ROUNDS and min(known) > HIDDEN_ALWAYS
    window_s = median(window.end_ns - window.start_ns for windows in mine.values() for window in windows) / 1e9
    if not (whole > HIDDEN_PART or is_always) or whole * window_s <= HIDDEN_LEAST_S:
        return None
    return (
        f"by laptime's own clock its turns took {number(whole * window_s * 1e3)} ms longer than those of the base, "
        f"next to the {number(window_s * 1e3)} ms that it reported"
    )


SOON_LAPS = 10  # in which a gain must pay for what is done before the first step
BEFORE_LEAST_S = 0.5  # of what differs from heat to heat anyway: imports, files that are read


def find_late_gain(candidate: LaneResult, base: LaneResult) -> str | None:
    """Return that the candidate takes so much longer before its timed steps that the gain does not pay for it soon."""
    if candidate.lap_s is None or base.lap_s is None:
        return None
    before_s, base_before_s = _before_s(candidate), _before_s(base)
    if before_s is None or base_before_s is None:
        return None
    longer_s, saved_s = before_s - base_before_s, base.lap_s.median - candidate.lap_s.median
    if longer_s <= BEFORE_LEAST_S or saved_s <= 0 or longer_s <= SOON_LAPS * saved_s:
        return None
    return (
        f"it takes {number(longer_s)} s longer before its first step, and saves {number(saved_s)} s a lap: that pays "
        f"after {longer_s / saved_s:,.0f} laps"
    )


def _before_s(lane: LaneResult) -> float | None:
    """Return how long the quickest heat took to build the training, and for what its early steps took beyond a step."""
    step_s = None if lane.step_ms is None else lane.step_ms.median / 1e3
    took = [_begin_s(result.heat, step_s) for result in lane.heats if "build" in result.heat.process.phases_s]
    return min(took, default=None) if step_s is not None else None


def _begin_s(heat: Heat, step_s: float | None) -> float:
    early: Sequence[float] = [ns / 1e9 for ns in heat.early_ns] or [(heat.first_step_ns or 0) / 1e9]
    return heat.process.phases_s["build"] + max(0.0, sum(early) - len(early) * (step_s or 0.0))
