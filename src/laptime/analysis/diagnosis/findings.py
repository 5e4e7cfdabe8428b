"""The findings of a race: rules about the device, the host and the steps, in one table."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import chain, pairwise

from laptime.analysis.diagnosis.lane_readings import (
    LaneReadings,
    find_pauses,
    finished,
    first_symptoms,
    number_types,
    read_lane,
    slow_starts,
)
from laptime.analysis.heats import quiet_windows, steady_windows
from laptime.analysis.step_states import SLOWER, StateChange, find_lane_state, find_slow_laps, ratio_within, times_of
from laptime.analysis.usage import Span, mean_of, shown_growth_per_s, shown_within, timed_pairs
from laptime.model.frameworks import find_framework
from laptime.model.machine import Machine
from laptime.model.process import KEPT_INPUTS, READY, Input, Timeline
from laptime.model.protocol import FullRun
from laptime.model.quantities import Missing, brief, count, percent, times
from laptime.model.record import NOT_RELIABLE, Finding, InferLane, LaneResult
from laptime.model.sample import HEAT_BITS, POWER_BITS
from laptime.model.symptoms import COSTS

IDLE_PERCENT = 1.0
HELD_BACK_SHARE = 0.05
FULL_SHARE = 0.95  # of memory
DRIFT = 0.05
RUN_THROTTLED_SHARE = 0.02
FAULTS_BYTES_A_STEP = 8 << 20
FAULTS_SHARE = 0.05  # of a step
RUN_SWAPPED_BYTES = 64 << 20
SLOW_START = 1.5
FINDING_HEATS_LEAST = 2
PAUSES = 0.05
LOADED = 0.05
OTHERS_CORES = 0.4  # of a whole run: what others may take of our cores
RUN_OTHERS_SHARE = 0.15
MANY_WINDOWS = 0.4  # of a lane's windows
ENOUGH_ROUNDS = 4  # quiet ones, and at least half of all, for the others not to matter
CONTRADICTS = 2.0  # times as long as a call of more items: more than another kernel for few items costs
LOADER_SHARE = 0.8  # of a step; a loader that takes less may overlap with the computing


def unused_card(readings: LaneReadings) -> Finding | None:
    """The lane computes on a card, but the card was idle."""
    busy = readings.card_values("busy")
    if not busy or max(busy) >= IDLE_PERCENT:
        return None
    says = f"its card was idle in all {len(busy)} readings while it was timed."
    advice = f"See that model and batches are moved to {readings.lane.device.name}; `laptime devices` shows it."
    return readings.finding("card not used", says, advice, "proven", busy_percent=busy)


def shared_card(readings: LaneReadings) -> Finding | None:
    """Another process is on the card."""
    others = readings.card_values("other processes")
    if not others or max(others) < 1:
        return None
    held = max(readings.card_values("memory of others"), default=0.0)
    says = f"{max(others):.0f} other processes were on its card, holding {held / 1e9:.1f} GB."
    advice = "Race again when the card is idle: what others take is in these times."
    return readings.finding("card shared", says, advice, processes=max(others), memory_bytes=held)


def lowered_clocks(readings: LaneReadings) -> tuple[float, float]:
    """Return the shares of the readings in which the driver lowered a card's clocks: for heat, and for power."""
    reasons = [int(bits) for bits in readings.card_values("lowered clocks")]
    hot, capped = (sum(bool(bits & mask) for bits in reasons) for mask in (HEAT_BITS, POWER_BITS))
    return hot / max(len(reasons), 1), capped / max(len(reasons), 1)


def held_back_card(readings: LaneReadings) -> Finding | None:
    """The driver lowered the card's clocks: heat, or the power limit."""
    hot, capped = lowered_clocks(readings)
    if max(hot, capped) <= HELD_BACK_SHARE:
        return None
    why, advice = (
        ("too hot", "Cool it, and race again; a long training will be slower than this.")
        if hot >= capped
        else ("at its limit of power", "That is its pace under this load; nvidia-smi -q -d POWER shows the limit.")
    )
    says = f"the driver lowered its clocks in {100 * max(hot, capped):.0f} % of readings: {why}."
    return readings.finding("card held back", says, advice, "proven", heat_share=hot, power_share=capped)


def full_card(readings: LaneReadings) -> Finding | None:
    """Allocators slow down when little memory is left, and some drivers spill into the host's memory."""
    used = readings.card_values("memory")
    there = readings.card_values("all memory")
    if not used or not there or max(used) <= FULL_SHARE * max(there):
        return None
    says = f"{max(used) / 1e9:.1f} of the card's {max(there) / 1e9:.1f} GB were in use."
    advice = "Race batch=N with a smaller N against it: nearly full memory can cost time of its own."
    return readings.finding("card memory full", says, advice, used_bytes=max(used), total_bytes=max(there))


def drifting_card(readings: LaneReadings) -> Finding | None:
    """A card that warms up lowers its clock."""
    return _drifting(readings, readings.card, "the card's clock") if readings.card else None


def drifting_processor(readings: LaneReadings) -> Finding | None:
    """A processor that warms up lowers its clock too; its first seconds may be a boost."""
    return _drifting(readings, "host", "the processor's frequency")


def _drifting(readings: LaneReadings, device: str, what: str) -> Finding | None:
    """Compare the last third of each heat's readings of the clock with the first."""
    changes = []
    for points in readings.series(device, "clock"):
        third = len(points) // 3
        if third:
            first = sum(value for _, value in points[:third]) / third
            last = sum(value for _, value in points[-third:]) / third
            changes.append(last / first - 1 if first else 0.0)
    if not changes or abs(worst := max(changes, key=abs)) <= DRIFT:
        return None
    says = f"{what} changed by {100 * worst:+.0f} % within a heat."
    advice = "Race longer (--budget 5m): the first seconds are not the pace of hours."
    return readings.finding("clocks drifting", says, advice, changes=changes)


def held_back_by_quota(readings: LaneReadings) -> Finding | None:
    """The container's quota stopped the heat's threads."""
    share = readings.growth_per_s("host", "held back")
    if share is None or share <= RUN_THROTTLED_SHARE:
        return None
    chip = readings.machine.processor
    cores = "" if isinstance(chip.quota_cores, Missing) else f" of {chip.quota_cores:g} cores"
    says = f"the container's quota{cores} held it back for {100 * share:.0f} % of the time."
    advice = f"Take no more threads than the quota has cores (threads={chip.cores_usable}), or raise the quota."
    return readings.finding("processor limited", says, advice, "proven", throttled_share=share)


def more_threads_than_cores(readings: LaneReadings) -> Finding | None:
    """Threads that share a core wait for each other."""
    threads = readings.lane.settings.threads
    cores = readings.machine.processor.cores_usable
    if threads is None or threads <= cores or readings.lane.device.kind != "cpu":
        return None
    says = f"{threads} threads share {cores} cores."
    advice = f"Race threads={cores} against it."
    return readings.finding("threads above cores", says, advice, threads=threads, cores=cores)


def faults_each_step(readings: LaneReadings) -> Finding | None:
    """Memory that was freed in one step is fetched again in the next, page by page."""
    faults = readings.faults_per_step()
    costs = readings.faults_share()
    if faults is None or costs is None:
        return None
    fetched_bytes = faults * readings.machine.page_bytes
    if fetched_bytes < FAULTS_BYTES_A_STEP or costs < FAULTS_SHARE:
        return None
    says = f"{faults:,.0f} page faults a step, {fetched_bytes / 1e6:,.0f} MB fetched again."
    advice = (
        "malloc=keep is set already: a loader or a copy makes new arrays each step."
        if readings.lane.settings.malloc == "keep"
        else "Race malloc=keep against it: freed memory then stays in the process."
    )
    fault_ns = readings.fault_ns()
    return readings.finding("page faults", says, advice, faults_per_step=faults, fault_ns=fault_ns, share=costs)


def swapping(readings: LaneReadings) -> Finding | None:
    """Some memory is on a disk."""
    swapped = max(readings.values("host", "swap"), default=0.0)
    faults = readings.growth_per_s("heat", "pages from disk") or 0.0
    if swapped < RUN_SWAPPED_BYTES or faults < 1:
        return None
    says = f"{swapped / 1e9:.1f} GB lie in swap, and {faults:.0f} pages a second came from a disk."
    advice = "Free memory, or take a smaller batch."
    return readings.finding("swap in use", says, advice, swap_bytes=swapped, major_faults_per_s=faults)


def full_memory(readings: LaneReadings) -> Finding | None:
    """The container's limit, or the machine's memory, is nearly used up.

    Files that were read stay in memory while there is room. They count as the container's, but are not in use.
    """
    limit = readings.machine.memory_limit_bytes
    total = readings.machine.memory_bytes
    used = max(readings.values("host", "group memory"), default=0.0)
    used -= max(readings.values("host", "group cache"), default=0.0)
    free = min(readings.values("host", "free memory"), default=None)
    if not isinstance(limit, Missing) and limit < total and used > FULL_SHARE * limit:
        what = f"{used / 1e9:.1f} of the {limit / 1e9:.1f} GB that the container may use"
        share = used / limit
    elif free is not None and free < (1 - FULL_SHARE) * total:
        what = f"all but {free / 1e9:.1f} of {total / 1e9:.1f} GB"
        share = 1 - free / total
    else:
        return None
    advice = "The system ends processes that go beyond; take a smaller batch, or fewer workers."
    return readings.finding("memory full", f"{what} were in use.", advice, share=share)


def slow_at_first(readings: LaneReadings) -> Finding | None:
    """A timing that starts with the first step includes what is over after some seconds."""
    starts = slow_starts(readings.lane)
    if len(starts) < FINDING_HEATS_LEAST or min(starts) < SLOW_START:
        return None
    says = f"in the first window of every heat a step took {min(starts):.1f} times what it took later."
    advice = "A timing that starts with the first step includes it; these figures do not."
    return readings.finding("slow at first", says, advice, "proven", times=starts)


def pauses_between_steps(readings: LaneReadings) -> Finding | None:
    """Work at the end of a lap, or every N steps."""
    pauses = find_pauses(readings.lane)
    if pauses is None or pauses.share < PAUSES:
        return None
    often = f"every {pauses.every:.0f} steps there was a pause of {pauses.pause_ms:.0f} ms"
    says = f"{often}, {100 * pauses.share:.0f} % of the time."
    advice = "Validate and save less often; keep a loader's workers from lap to lap (persistent_workers=True)."
    return readings.finding(
        "pauses between steps", says, advice, share=pauses.share, every_steps=pauses.every, pause_ms=pauses.pause_ms
    )


def double_precision(readings: LaneReadings) -> Finding | None:
    """Weights in float64 are seldom meant: NumPy's arrays are float64 by default."""
    types = number_types(readings.lane)
    if "float64" not in types:
        return None
    says = "it trains in float64: numbers of twice the bytes, at half the speed of a processor and less of most cards."
    advice = "Train in float32, unless it needs more digits: model.float(), and batches in float32."
    return readings.finding("float64", says, advice, types=list(types))


def values_read_each_step(readings: LaneReadings) -> Finding | None:
    """A processor has each value at once. A device must compute it first, and is idle afterwards."""
    reads = _symptom(readings, "reads")
    if reads is None or reads < 1 or readings.lane.device.kind == "cpu":
        return None
    says = f"the host asked the device for a value {reads:.0f} times a step, and waited for it."
    advice = "Race reads=deferred against it; read losses and metrics every N steps."
    return readings.finding("values read", says, advice, reads_per_step=reads)


def shapes_that_compile(readings: LaneReadings) -> Finding | None:
    compiles = _symptom(readings, "compiles")
    shapes = _symptom(readings, "shapes") or 1
    if compiles is None or compiles < 1:
        return None
    says = f"its steps were compiled {compiles:.0f} times more, with {shapes:.0f} shapes of batch."
    advice = "Give batches one shape: pad them, or drop a lap's last one."
    return readings.finding("compiled again", says, advice, compiles=compiles, shapes=shapes)


# In the order of judgement: whether the device is used at all, its state, then the steps, then the host.
RULES: tuple[Callable[[LaneReadings], Finding | None], ...] = (
    unused_card,
    full_card,
    shared_card,
    held_back_card,
    drifting_card,
    slow_at_first,
    pauses_between_steps,
    double_precision,
    values_read_each_step,
    shapes_that_compile,
    held_back_by_quota,
    more_threads_than_cores,
    full_memory,
    swapping,
    faults_each_step,
    drifting_processor,
)


def find_findings(lanes: Sequence[LaneResult], machine: Machine) -> tuple[Finding, ...]:
    """Judge each lane by each rule, and compare lanes that differ in their loader or in denormal numbers alone."""
    readings = [read_lane(lane, machine) for lane in lanes if lane.status == "ok"]
    found = (rule(reading) for reading in readings for rule in RULES)
    others = (*find_states(lanes), *find_slow_loaders(lanes))
    return (*find_unreliable(lanes), *(finding for finding in found if finding is not None), *others)


def find_unreliable(lanes: Sequence[LaneResult]) -> tuple[Finding, ...]:
    """Return a finding if many windows of any lane were disturbed that count: its time is then that of a busy machine.

    Where enough windows were quiet, only these count, however many others were disturbed. So it is with rounds.
    """
    for lane in lanes:
        finished = [result for result in lane.heats if result.heat.process.status == "ok"]
        quiet = [result for result in finished if not result.hardly_counts]
        finished = quiet if len(quiet) >= max(ENOUGH_ROUNDS, len(finished) / 2) else finished
        windows = [window for heat in finished for window in steady_windows(heat)]
        flags = [window.flag for window in windows if window.flag is not None]
        if found := judge_disturbances(lane.name, flags, len(windows)):
            return (found,)
    return ()


def judge_disturbances(lane: str, flags: Sequence[str], windows: int) -> Finding | None:
    """Return a finding if many windows have a flag."""
    if not flags or len(flags) < MANY_WINDOWS * windows:
        return None
    says = f"{len(flags)} of {windows} windows of {lane} that count were disturbed ({flags[len(flags) // 2]})."
    evidence = {"disturbed": len(flags), "windows": windows}
    return Finding(NOT_RELIABLE, says, evidence, "Ask again while the machine is quiet.", "proven")


def judge_answers(lane: InferLane) -> Finding | None:
    """Return a finding if many windows were disturbed: of the single calls, of all, or of one size of batch.

    The single calls of a heat are one window. No work explains a call that takes many times as long as one of more
    items, so it is one too, whatever was seen of other processes.
    """
    calls = [heat.calls_flag for heat in lane.heats if heat.calls_ns]
    sizes: dict[int, list[str | None]] = {}
    for run in (run for heat in lane.heats for run in heat.batches):
        sizes.setdefault(run.batch, []).extend(window.flag for window in quiet_windows(run.windows))
    parts = {f"the single calls of {lane.lane}": calls, lane.lane: [*calls, *chain.from_iterable(sizes.values())]}
    parts |= {f"{lane.lane} at batch {batch}": flags for batch, flags in sizes.items()}
    for what, flags in parts.items():
        found = judge_disturbances(what, [*filter(None, flags)], len(flags))
        if found is not None:
            return found
    calls_ms = {
        batch.batch: 1e3 * batch.batch / batch.items_per_s.median
        for batch in lane.batches
        if batch.items_per_s is not None
    }
    for (few, slow_ms), (many, fast_ms) in pairwise(sorted(calls_ms.items())):
        if slow_ms > CONTRADICTS * fast_ms:
            times = f"{slow_ms / fast_ms:.1f} times as long as one of {many}"
            says = f"{lane.lane}: a call of {few} took {times}, which its work does not explain."
            evidence = {"few_ms": slow_ms, "many_ms": fast_ms}
            return Finding(NOT_RELIABLE, says, evidence, "Ask again while the machine is quiet.", "likely")
    return None


def judge_run(
    timeline: Timeline, span: Span, name: str, cores: int, advice: str = "Watch again while the machine is quiet."
) -> tuple[Finding, ...]:
    """Return a finding if other processes took much of our cores while a command or a training ran.

    What they took of cores that would have been idle else takes nothing from it, nor what ran on cores that the run may
    not use.
    """
    ours = shown_growth_per_s(timeline, "heat", "busy time", span)
    all_ = shown_growth_per_s(timeline, "host", "busy time", span)
    if isinstance(ours, Missing) or isinstance(all_, Missing):
        return ()
    online = mean_of(shown_within(timeline, "host", "cores", span))
    elsewhere = 0.0 if isinstance(online, Missing) else max(0.0, online - cores)
    others = max(0.0, all_ - ours - elsewhere)
    idle = max(0.0, cores - ours - others)
    if others - idle <= max(OTHERS_CORES, RUN_OTHERS_SHARE * cores):
        return ()
    says = f"while {name} ran, other processes took {others:.2f} of {cores} cores."
    return (Finding(NOT_RELIABLE, says, {"others_cores": others}, advice, "proven"),)


def judge_trainings(runs: Sequence[FullRun], cores: int) -> tuple[Finding, ...]:
    """Return a finding if other processes took much of our cores while a lane trained."""
    pairs = ((run.process.lane, pair) for run in runs for pair in timed_pairs(run))
    judged = (judge_run(*pair, name, cores, "Train again while the machine is quiet.") for name, pair in pairs)
    return next(filter(None, judged), ())


def find_slow_loaders(lanes: Sequence[LaneResult]) -> tuple[Finding, ...]:
    """Return the loader's share, where the same lane was raced without its loader, or its loader alone."""
    found = (_loader_of(lane, lanes) for lane in lanes if lane.status == "ok" and lane.step_ms is not None)
    return tuple(finding for finding in found if finding is not None)


def _loader_of(lane: LaneResult, lanes: Sequence[LaneResult]) -> Finding | None:
    if lane.settings.input in {*KEPT_INPUTS, "only"} or lane.step_ms is None:
        return None
    ready = next((other for other in lanes if _is_it_with(lane, other, *READY)), None)
    if ready is not None and ready.step_ms is not None:
        share = 1 - ready.step_ms.median / lane.step_ms.median
        ends = lane.step_ms.ends
        proven = ends is not None and ready.step_ms.is_below(ends[0])
        how = f"{ready.name} takes {brief(ready.step_ms.median)} ms a step, and it {brief(lane.step_ms.median)}"
        return _of_loader(lane, share, how, proven=proven) if proven and share >= LOADED else None
    alone = next((other for other in lanes if _is_it_with(lane, other, "only")), None)
    if alone is None or alone.step_ms is None:
        return None
    share = alone.step_ms.median / lane.step_ms.median
    how = f"alone it takes {brief(alone.step_ms.median)} ms of {brief(lane.step_ms.median)}"
    return _of_loader(lane, min(share, 1.0), how, proven=False) if share >= LOADER_SHARE else None


def _of_loader(lane: LaneResult, share: float, how: str, *, proven: bool) -> Finding:
    says = f"{lane.name}: its loader takes {100 * share:.0f} % of a step ({how})."
    advice = "laptime why measures what each remedy gains."
    return Finding("loader", says, {"share": share}, advice, "proven" if proven else "likely")


def _is_it_with(lane: LaneResult, other: LaneResult, *inputs: Input) -> bool:
    """Whether another lane is this one with one of these inputs."""
    if other.step_ms is None or other.status != "ok" or other.items_per_step != lane.items_per_step:
        return False
    same = replace(other.settings, input=lane.settings.input) == lane.settings
    return _are_kin(lane, other) and same and other.settings.input in inputs


def _are_kin(lane: LaneResult, other: LaneResult) -> bool:
    """Whether two lanes have the same framework, device and training."""
    same_framework = lane.name.split("/")[0] == other.name.split("/")[0]
    return same_framework and lane.device == other.device and lane.training == other.training


def _symptom(readings: LaneReadings, name: str) -> float | None:
    """Return a symptom of the first heat that has symptoms; None if no steps were taken apart."""
    symptoms = first_symptoms(readings.lane)
    value = None if symptoms is None else getattr(symptoms, name)
    return None if value is None or isinstance(value, Missing) else float(value)


# States of a training that cost time: steps that become slow from a step on, and numbers that have become denormal.
#
# The times of the steps say that there is a state, the census of denormal numbers says whether these are its reason,
# and a lane that is the same but for `denormals=flush` says what they cost. On a processor that computes denormal
# numbers at full speed the census finds them too: the training may move to another one.

SLOWS_DOWN = "steps that become slow"
DENORMALS = "denormal numbers"
FLUSH_LINE = "torch.set_flush_denormal(True)"
LOOK = "See what it does differently from then on: longer sequences, larger batches, a list that grows, other parts."


@dataclass(frozen=True, slots=True)
class Denormals:
    """What is known of a lane's denormal numbers: the largest share of any kind, and whether that costs time here."""

    share: float
    kind: str
    cost: bool

    @property
    def says(self) -> str:
        return f"{percent(self.share)} of the {self.kind} are denormal numbers"


def find_states(lanes: Sequence[LaneResult]) -> tuple[Finding, ...]:
    """Return a finding for each lane whose state costs time."""
    found = (_find_state(lane, lanes) for lane in lanes if lane.status == "ok" and lane.step_ms is not None)
    return tuple(finding for finding in found if finding is not None)


def denormals_of(lane: LaneResult) -> Denormals | None:
    """Return what the latest census of a lane found, or the steps that were taken apart later; None without both."""
    census = next((result.heat.census for result in reversed(lane.heats) if result.heat.census is not None), None)
    symptoms = first_symptoms(lane)
    on_processor = lane.device.kind == "cpu"
    counted = None if symptoms is None or isinstance(symptoms.denormals, Missing) else symptoms.denormals
    if census is not None and census.shares and (counted is None or census.worst[0] >= counted or census.flushed):
        return Denormals(*census.worst, census.costs and on_processor)
    if symptoms is None or counted is None:
        return None
    kind = symptoms.notes.get("denormals", "").removeprefix("of ") or "weights and gradients"
    flushed = lane.settings.denormals == "flush" or flushes(lane)
    return Denormals(counted, kind, counted >= COSTS and on_processor and not flushed)


def flushes(lane: LaneResult) -> bool:
    """Whether the lane's framework treats denormal numbers as 0."""
    return find_framework(lane.name.split("/")[0]).engine.denormals == "always flushed"


def describe_state(state: StateChange, what: str = "step") -> str:
    """Return a state in words, such as "from step 16 on a step takes 4 to 14 times as long"."""
    low = brief(state.times_low)
    high = brief(state.times_high)
    if state.times_high < 1.15 * state.times_low:
        low = high
    until = "" if state.until is None else f" to {count(state.until)}"
    on = " on" if state.until is None else ""
    long = f"{low} times" if low == high else f"{low} to {high} times"
    where = f" in {state.agree} of {state.heats} heats" if state.is_sure else ""
    article = "an" if what[0] in "aeiou" else "a"
    return f"from {what} {count(state.step)}{until}{on} {article} {what} takes {long} as long{where}"


def find_slow_trainings(lanes: Sequence[LaneResult], runs: Sequence[FullRun]) -> tuple[Finding, ...]:
    """Return a finding for each lane whose laps become slow while its loss falls, or whose numbers become denormal."""
    found: list[Finding] = []
    for lane in lanes:
        trained = [run for run in runs if run.process.lane == lane.name and run.laps]
        state = find_slow_laps([run.laps for run in trained])
        census = next((run.census for run in trained if run.census is not None), None)
        costs = census is not None and census.costs and lane.device.kind == "cpu"
        losses = [(run.laps[0].score.loss, run.laps[-1].score.loss) for run in trained]
        falls = all(isinstance(one, Missing) or isinstance(last, Missing) or last < one for one, last in losses)
        if not costs and (state is None or not falls):
            continue
        says = ""
        if state is not None:
            says = describe_state(state, "lap").replace("heats", "trainings") + ", while its loss falls"
        evidence: dict[str, object] = {} if state is None else figures_of(state)
        if census is not None:
            evidence |= {"denormals": census.worst[0], "of": census.worst[1]}
            if costs:
                says += f"{': ' if says else ''}{Denormals(*census.worst, cost=True).says}"
            else:
                says += f"; denormal numbers are not the reason ({percent(census.worst[0])} of any kind)"
        advice = f"{FLUSH_LINE}; laptime why measures what they cost." if costs else LOOK
        sure = state is not None and state.is_sure and not costs
        found.append(_finding(SLOWS_DOWN if state else DENORMALS, lane, f"{says}.", advice, evidence, sure=sure))
    return tuple(found)


def _find_state(lane: LaneResult, lanes: Sequence[LaneResult]) -> Finding | None:
    state = find_lane_state(lane)
    denormals = denormals_of(lane)
    if state is None and (denormals is None or not denormals.cost):
        return None
    says = "" if state is None else describe_state(state)
    evidence: dict[str, object] = {} if state is None else figures_of(state)
    if denormals is None or not denormals.cost:
        assert state is not None
        if denormals is not None and lane.device.kind == "cpu" and lane.settings.denormals != "flush":
            what_it_is_not = f"; denormal numbers are not the reason ({percent(denormals.share)} of any kind)"
        elif lane.settings.denormals == "flush" or flushes(lane):
            what_it_is_not = "; denormal numbers are not the reason: they count as 0 here"
        else:
            what_it_is_not = ""
        says += f"{what_it_is_not}{_doubt(state)}."
        return _finding(SLOWS_DOWN, lane, says, LOOK, evidence, sure=state.is_sure)
    evidence |= {"denormals": denormals.share, "of": denormals.kind}
    cost = _measure_cost(lane, lanes, state)
    says += f"{': ' if says else ''}{denormals.says}{_doubt(state)}."
    advice = f"{FLUSH_LINE}; race denormals=flush against it to see what they cost here."
    if cost is not None:
        on = "" if state is None else " on these steps"
        advice = (
            f"{FLUSH_LINE} (measured: {times(cost)}{on})."
            if cost >= SLOWER
            else f"They cost little here ({times(cost)})."
        )
        evidence["measured"] = cost
    proven = cost is not None and cost >= SLOWER and (state is None or state.is_sure)
    return _finding(DENORMALS if state is None else SLOWS_DOWN, lane, says, advice, evidence, sure=proven)


def _finding(
    rule: str, lane: LaneResult, says: str, advice: str, evidence: dict[str, object], *, sure: bool
) -> Finding:
    return Finding(rule, f"{lane.name}: {says}", evidence, advice, "proven" if sure else "likely")


def figures_of(state: StateChange) -> dict[str, object]:
    figures = {"step": state.step, "until": state.until, "times": [state.times_low, state.times_high]}
    return {**figures, "share": state.share, "agree": state.agree, "heats": state.heats}


def _doubt(state: StateChange | None) -> str:
    return "" if state is None or state.is_sure else " (in its one heat: another process may be the reason)"


def _measure_cost(lane: LaneResult, lanes: Sequence[LaneResult], state: StateChange | None) -> float | None:
    """Return how many times as long its steps take as those of the same lane that flushes, where that was raced."""
    flushing = replace(lane.settings, denormals="flush")
    twins = (other for other in lanes if other is not lane and other.status == "ok" and other.settings == flushing)
    twin = next((other for other in twins if _are_kin(lane, other)), None)
    if twin is None or twin.step_ms is None or lane.step_ms is None:
        return None
    mine, theirs = ([result.heat for result in finished(one)] for one in (lane, twin))
    if min(len(mine), len(theirs)) < FINDING_HEATS_LEAST:
        return None
    if state is not None:
        return ratio_within(state, [*map(times_of, mine)], [*map(times_of, theirs)])
    return lane.step_ms.median / twin.step_ms.median
