"""What a record on the board has to be, whatever a row says of it: a table of checks, each of which finds sentences.

An edited record may follow its own rules. So its figures have to follow from its windows, its proof from known losses,
and no figure may be beyond what its device can do.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import resources
from math import isfinite

from laptime.analysis.diagnosis.findings import find_unreliable
from laptime.analysis.heats import ALPHA, estimate, judge_rounds, mean_step_ms, steady_windows
from laptime.analysis.lanes import compare_lanes, scales
from laptime.analysis.parity import relative
from laptime.analysis.weights import with_weights
from laptime.machine.hardware import known_devices, match_label
from laptime.model.process import AS_WRITTEN
from laptime.model.quantities import Missing
from laptime.model.record import HeatResult, LaneResult, Record, TrainingAnswer
from laptime.planner.lanes import parse_lane
from laptime.planner.settings import SETTINGS, resolve_batch
from laptime.questions.train.reduce import find_factor
from laptime.show.board.add import board_rows, changed_settings, step_of, why_no_row, why_no_rows
from laptime.show.board.physics import find_impossible
from laptime.show.board.whole import find_left_out
from laptime.trainings.workloads import CATALOGUE

CLOSE = 1e-9  # relative: two ways to the same figure
OF_A_LAP = 1e-6  # relative: a lap is its steps times the step
KNOWN_CLOSE = 1e-7  # of float64 losses: machines add up in another order
LEAST_MEMORY = 0.8  # of what its maker says: drivers keep some, and count in other units
MOST_MEMORY = 1.2
FAULTS = (ArithmeticError, AssertionError, AttributeError, LookupError, RecursionError, TypeError, ValueError)
"""What reading a record may raise that holds figures which no laptime wrote."""


def _is_allowed(record: Record) -> Iterator[str]:
    refusal = why_no_rows(record)
    if refusal is not None:
        yield f"the record has no row: {refusal}"
        return
    whys = [why_no_row(lane) for lane in record.lanes]
    if None not in whys:
        yield f"no lane of the record has a row: {'; '.join(filter(None, whys)) or 'it has no lane'}"


def _is_what_it_is_called(record: Record) -> Iterator[str]:
    """Yield where a lane's name says something else than its settings and its device."""
    usual = CATALOGUE[record.workload.name].batch
    lanes = [lane for lane in record.lanes if why_no_row(lane) is None]
    if record.started[:10] != record.id[2:12]:
        yield f"it began on {record.started[:10]!a}, and its id is of {record.id[2:12]}"
    if len({lane.name for lane in lanes}) < len(lanes):
        yield "two lanes have one name"
    for lane in lanes:
        named = parse_lane(lane.name)
        settings = lane.settings
        batch = resolve_batch(dict(named.overrides).get("batch", str(usual)), usual)
        if named.preset != settings.preset:
            yield f"{lane.name} has the settings of {settings.preset}"
        elif named.device != lane.device.name or lane.device.name.partition(":")[0] != lane.device.kind:
            yield f"{lane.name} ran on {lane.device.name}, a device of the kind {lane.device.kind}"
        elif (settings.batch or usual) != batch:
            yield f"{lane.name} ran at a batch of {settings.batch or usual}, and its name says {batch}"
        # Where a lane has a setting that laptime does not know, or as written one that its name does not say
        unknown = sorted(set(settings.extra) - set(SETTINGS))
        if unknown:
            yield f"{lane.name} has a setting that laptime does not know: {unknown[0]}"
        in_name = {field for name, _ in named.overrides for field in SETTINGS[name].fields or (name,)}
        more = sorted(set(changed_settings(settings)) - in_name)
        if named.preset == AS_WRITTEN and more:
            yield f"{lane.name} has {more[0]}={settings.value_of(more[0])}, which its name does not say"
        yield from _find_other_card(lane)


def _find_other_card(lane: LaneResult) -> Iterator[str]:
    """Yield where a card has another capability or other memory than cards of its name."""
    known = match_label(lane.device.label, known_devices())
    if lane.device.kind == "cpu" or known is None:
        return
    capability = lane.device.details.get("capability")
    if known.kind != lane.device.kind:
        yield f"{lane.device.label} is a device of the kind {known.kind}, and that of {lane.name} is {lane.device.kind}"
    if known.capability is not None and capability is not None and capability != known.capability:
        yield f"{lane.device.label} has capability {known.capability}, and that of {lane.name} has {capability}"
    memory = lane.device.memory_bytes
    if known.memory_gb is not None and not isinstance(memory, Missing):
        times = memory / 1e9 / known.memory_gb
        if not LEAST_MEMORY <= times <= MOST_MEMORY:
            yield f"{lane.device.label} has {known.memory_gb:g} GB, and that of {lane.name} has {memory / 1e9:.3g}"


def _follows_from_windows(record: Record) -> Iterator[str]:
    """Yield where a round's step is not that of its windows."""
    heats = [(lane, heat) for lane in record.lanes for heat in lane.heats if heat.step_ms is not None]
    for lane, result in heats:
        if result.counted is None or not result.counted:
            yield f"round {result.heat.round} of {lane.name} does not say which of its windows count"
        elif not all(0 <= place < len(result.heat.windows) for place in result.counted):
            yield f"round {result.heat.round} of {lane.name} counts a window that it does not have"
        elif result.step_ms is not None and not _is_close(result.step_ms, mean_step_ms(steady_windows(result))):
            yield f"the step of round {result.heat.round} of {lane.name} is not the mean of its windows"
        elif any(window.end_ns <= window.start_ns for window in result.heat.windows):
            yield f"a window of {lane.name} ends before it begins"


def _nothing_is_left_out(record: Record) -> Iterator[str]:
    """Yield where a window does not count that was quiet in all lanes of its round, after the first that does."""
    heats = [(lane, heat) for lane in record.lanes for heat in lane.heats]
    by_round: dict[int, list[HeatResult]] = {}
    for _, result in heats:
        if result.heat.process.status == "ok" and result.heat.windows:
            by_round.setdefault(result.heat.round, []).append(result)
    for lane, result in heats:
        if not result.counted:
            continue
        others = [heat_result for heat_result in by_round.get(result.heat.round, ()) if _turns(heat_result)]
        # Without turns, what the lanes of a round have not in common is at the ends.
        stop = len(result.heat.windows) if _turns(result) else max(result.counted)
        for place in set(range(min(result.counted), stop)) - set(result.counted):
            turn = result.heat.windows[place].turn
            theirs = (window for other in others for window in other.heat.windows if window.turn == turn)
            meanwhile = [result.heat.windows[place]] if turn is None else list(theirs)
            is_common = turn is None or len(meanwhile) == len(others)
            if is_common and all(window.flag is None for window in meanwhile):
                where = f"round {result.heat.round} of {lane.name}"
                yield f"{where} leaves out its window {place + 1}, which was not disturbed"


def _weights_follow(record: Record) -> Iterator[str]:
    """Yield where a round counts for more or less than its turns say. In an earlier version, all counted alike."""
    again = with_weights({lane.name: lane.heats for lane in record.lanes})
    pairs = [(lane.name, *both) for lane in record.lanes for both in zip(lane.heats, again[lane.name], strict=True)]
    if all(result.weight is None for _, result, _ in pairs):
        return
    for name, result, found in pairs:
        if not _is_close(result.counts, found.counts):
            yield f"round {result.heat.round} of {name} counts {result.counts:g}, and its turns say {found.counts:g}"


def _is_quiet(record: Record) -> Iterator[str]:
    """Yield why a race is NOT RELIABLE: a stripped record has no findings, so its windows are judged again."""
    for found in find_unreliable(record.lanes):
        yield f"it is NOT RELIABLE: {found.says}"


def find_chosen_windows(record: Record) -> Iterator[str]:
    """Yield where other windows count than laptime chooses from what is kept of a round.

    It is worth a look and no fault: laptime leaves halted windows out too, and a stripped record does not name them.
    """
    judged = judge_rounds({lane.name: [result.heat for result in lane.heats] for lane in record.lanes})
    for lane in record.lanes:
        for result, again in zip(lane.heats, judged[lane.name], strict=True):
            if result.counted and result.counted != again.counted:
                yield f"round {result.heat.round} of {lane.name} counts other windows than laptime would choose"


def _turns(result: HeatResult) -> bool:
    return bool(result.heat.windows) and result.heat.windows[0].turn is not None


def _follows_from_rounds(record: Record) -> Iterator[str]:
    """Yield where a lane's step or lap is not what its rounds give, or has an interval that they do not."""
    expected = scales({lane.name: lane.heats for lane in record.lanes}) if record.lanes else {}
    for lane in record.lanes:
        if lane.step_ms is None:
            continue
        if isinstance(record.answer, TrainingAnswer):
            runs = [run for run in record.answer.runs if run.process.lane == lane.name and run.laps]
            if any(sum(lap.fresh for lap in run.laps) > run.processes for run in runs):
                yield f"more laps of {lane.name} are the first of a process than it had processes"
            rounds = [step_of(run) for run in runs]
            weights = []
        else:
            timed = [heat for heat in lane.heats if heat.step_ms is not None]
            rounds = [heat.step_ms * expected[lane.name] for heat in timed if heat.step_ms is not None]
            weights = [heat.counts for heat in timed]
        found = estimate(rounds, weights)
        if found is None:
            yield f"{lane.name} has a step and no round that it was measured in"
        elif not _is_close(found.median, lane.step_ms.median):
            yield f"the step of {lane.name} is not the mean of its rounds"
        elif not _are_close((found.low, found.high), (lane.step_ms.low, lane.step_ms.high)):
            yield f"the interval of {lane.name} is not the one that its {len(rounds)} rounds allow"
        if lane.lap_s is None:
            continue
        workload = CATALOGUE[record.workload.name]
        steps = workload.steps_per_lap * workload.batch / (lane.settings.batch or workload.batch)
        ends = lane.step_ms.ends
        if not _is_close(lane.step_ms.median * steps / 1e3, lane.lap_s.median, OF_A_LAP):
            yield f"a lap of {lane.name} is not its {steps:g} steps: {lane.step_ms.median:.6g} ms x {steps:g}"
        elif lane.lap_s.ends is not None and (
            ends is None
            or not all(
                _is_close(step * steps / 1e3, lap, OF_A_LAP) for step, lap in zip(ends, lane.lap_s.ends, strict=True)
            )
        ):
            yield f"the interval of a lap of {lane.name} is not that of its steps"


def _factors_follow(record: Record) -> Iterator[str]:
    """Yield where a factor is not the quotient of the rounds next to it, or its interval is another."""
    lanes = {lane.name: lane for lane in record.lanes}
    if isinstance(record.answer, TrainingAnswer):
        for factor in record.answer.factors:
            found = find_factor(lanes[factor.lane], lanes[factor.reference], record.answer.runs)
            if found is None or not _are_close(
                (found.later_laps, found.low, found.high), (factor.later_laps, factor.low, factor.high)
            ):
                yield f"the factor of {factor.lane} is not that of its laps and those of {factor.reference}"
        return
    if record.error_times > 1:
        sure = f"{100 * record.confidence:g} %"
        yield f"it went on after its factors were seen, so their intervals are at {sure}, and those of a row at 95 %"
    for comparison in record.answer.comparisons:
        if not 0 < comparison.alpha <= ALPHA:  # an early look has less, which widens its interval
            rates = f"for an error rate of {comparison.alpha:g}, and not {ALPHA:g}"
            yield f"the interval of the factor of {comparison.lane} is {rates}"
            continue
        made = compare_lanes(lanes[comparison.lane], lanes[comparison.reference], record.ask.margin, comparison.alpha)
        if made is None or not _are_close((made.ratio, *made.ratios), (comparison.ratio, *comparison.ratios)):
            whose = f"its rounds and those of {comparison.reference}"
            yield f"the factor of {comparison.lane} is not the quotient of {whose}"
        elif not _are_close((made.low, made.high), (comparison.low, comparison.high)):
            yield f"the interval of the factor of {comparison.lane} is not the one that its {made.pairs} pairs allow"
        elif (comparison.pairs, comparison.verdict) != (made.pairs, made.verdict):
            yield f"the factor of {comparison.lane} is {made.verdict} in {made.pairs} pairs, and it says otherwise"


def _proof_is_known(record: Record) -> Iterator[str]:
    """Yield where a float64 reference is not that of the training, or a lane's own losses are far from it."""
    known = known_references()[record.workload.name]
    reference = record.reference
    if reference is None:
        yield "the record has no float64 reference, so nothing in it is proven"
        return
    losses = reference.exact.losses
    if len(losses) != len(known.losses) or not _are_close(losses, known.losses, KNOWN_CLOSE):
        yield f"its float64 reference is not that of {record.workload.name}: other losses than the training has"
    runs = {lane.name: [result.heat.proofs for result in lane.heats] for lane in record.lanes}
    if isinstance(record.answer, TrainingAnswer):
        runs = {name: [run.proofs for run in record.answer.runs if run.process.lane == name] for name in runs}
    for lane in record.lanes:
        if lane.parity.status != "same":
            continue
        proofs = [proof for of_run in runs[lane.name] for proof in of_run if proof.precision == "fp32"]
        if not proofs:
            yield f"{lane.name} has no proof of its own"
        for proof in proofs:
            pairs = list(zip(proof.losses, known.losses, strict=False))
            far = max((relative(mine, wanted) for mine, wanted in pairs), default=1.0)
            if len(pairs) != len(known.losses) or not far <= known.tolerance:
                allowed = f"{known.tolerance:.1g} allowed"
                yield f"the losses of {lane.name} in the proof are {far:.1g} from the training's, {allowed}"


def _is_possible(record: Record) -> Iterator[str]:
    for row in board_rows(record, ""):
        for says in find_impossible(row, CATALOGUE[row.training], record.machine.processor):
            yield f"{row.lane}: {says}"


@dataclass(frozen=True, slots=True)
class CheckRow:
    """One check of a record: its name, as a fault has it and docs/board.md explains it, and what finds sentences."""

    name: str
    find: Callable[[Record], Iterator[str]]


CHECKS = (
    CheckRow("allowed", _is_allowed),
    CheckRow("names", _is_what_it_is_called),
    CheckRow("whole", find_left_out),
    CheckRow("windows", _follows_from_windows),
    CheckRow("counted", _nothing_is_left_out),
    CheckRow("counted", _weights_follow),
    CheckRow("allowed", _is_quiet),
    CheckRow("rounds", _follows_from_rounds),
    CheckRow("factors", _factors_follow),
    CheckRow("proof", _proof_is_known),
    CheckRow("physics", _is_possible),
)


def find_faults(record: Record) -> list[tuple[str, str]]:
    """Return what is wrong with a stripped record: the name of the check, and a sentence."""
    found: list[tuple[str, str]] = []
    for check in CHECKS:
        try:
            found += [(check.name, says) for says in check.find(record)]
        except FAULTS as error:
            found.append((check.name, f"it holds what no laptime wrote ({type(error).__name__}: {error})"))
        if found:
            break  # what follows would only repeat it in other words
    return found


def _is_close(one: float, other: float, close: float = CLOSE) -> bool:
    return isfinite(one) and isfinite(other) and abs(one - other) <= close * max(abs(one), abs(other))


def _are_close(some: Iterable[object], others: Iterable[object], close: float = CLOSE) -> bool:
    """Whether two lists of figures are alike; a figure that is missing in one is missing in the other."""
    left = list(some)
    right = list(others)
    if len(left) != len(right):
        return False
    return all(
        _is_close(one, other, close)
        if isinstance(one, int | float) and isinstance(other, int | float)
        else isinstance(one, Missing) and isinstance(other, Missing)
        for one, other in zip(left, right, strict=True)
    )


# The losses that are known of each training, from our own kept records.


@dataclass(frozen=True, slots=True)
class KnownReference:
    """The float64 losses of a training's proof at seed 0, and how far those of a float32 lane may be."""

    losses: tuple[float, ...]
    tolerance: float


@cache
def known_references() -> dict[str, KnownReference]:
    text = resources.files("laptime.show.board").joinpath("references.toml").read_text(encoding="utf-8")
    found = tomllib.loads(text)
    return {name: KnownReference(tuple(row["losses"]), row["tolerance"]) for name, row in found.items()}
