"""One heat's windows -> its class, those that count, and the mean step of these; all heats of a question -> the windows
of each that count; two heats -> their ratio.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from math import exp, log, sqrt
from statistics import variance

from laptime.model.quantities import Estimate, Missing
from laptime.model.record import HeatResult, LaneResult, SameSteps
from laptime.model.sample import MACHINE_SLOW, SLOW_SPELL, Heat, Window
from laptime.model.stats import Interval, find_steady, median, weighted_interval

QUIET_LEAST = 3
DRIFT_ERRORS = 3.0  # standard errors
DRIFTS = 0.05  # a lane's steps change with their number if the later half takes this much longer, or less
DUETS_LEAST = 2


def summarise_heat(heat: Heat, counted: tuple[int, ...] | None = None) -> HeatResult:
    """Return a heat with what its windows show. `counted` are those that count next to the heats of other lanes."""
    quiet = quiet_windows(heat.windows)
    steady = find_steady([step_ms(window) for window in quiet])
    if counted is None:
        # No other lane was timed with it: the quiet windows of its steady part count.
        counted = tuple(heat.windows.index(window) for window in quiet[steady.start :])
    usable = [heat.windows[place] for place in counted]
    return HeatResult(
        heat,
        steady=steady.kind,
        steady_from=counted[0] if counted else 0,
        step_ms=mean_step_ms(usable) if usable and heat.process.status == "ok" else None,
        counted=counted,
    )


def quiet_windows(windows: tuple[Window, ...]) -> tuple[Window, ...]:
    """Leave out disturbed windows, if enough undisturbed ones are left.

    Otherwise keep all windows except those in which the heat was halted, whose time means nothing.
    """
    quiet = tuple(window for window in windows if window.flag is None)
    if len(quiet) >= QUIET_LEAST:
        return quiet
    return tuple(window for window in windows if not _is_halted(window)) or windows


def _is_halted(window: Window) -> bool:
    return window.noise is not None and window.noise.halted is not None


def steady_windows(result: HeatResult) -> tuple[Window, ...]:
    """Return the windows that count. A record from before these were kept has the first of them."""
    if result.counted is not None:
        return tuple(result.heat.windows[place] for place in result.counted)
    start_ns = result.heat.windows[result.steady_from].start_ns if result.heat.windows else 0
    return tuple(window for window in quiet_windows(result.heat.windows) if window.start_ns >= start_ns)


def step_ms(window: Window) -> float:
    """Return a window's mean step, from fence to fence, so that it includes everything."""
    return window.took_ns / window.steps / 1e6


def pairs_of_heats(heats: Sequence[HeatResult], others: Sequence[HeatResult]) -> list[tuple[HeatResult, HeatResult]]:
    """Return the heats that both lanes finished in the same round: those that took turns, if there are at least two.

    Two heats one after another differ by what the machine did meanwhile.
    """
    theirs = {result.heat.round: result for result in others if result.step_ms is not None}
    ours = [result for result in heats if result.step_ms is not None and result.heat.round in theirs]
    pairs = [(result, theirs[result.heat.round]) for result in sorted(ours, key=lambda our: our.heat.round)]
    duets = [pair for pair in pairs if took_turns(*pair)]
    return duets if len(duets) >= DUETS_LEAST else pairs


def took_turns(heat: HeatResult, other: HeatResult) -> bool:
    """Whether two heats of a round were alive at once and took turns."""
    return all(result.heat.windows and result.heat.windows[0].turn is not None for result in (heat, other))


def step_ratio(heat: HeatResult, reference: HeatResult) -> float:
    """Return how many times as long a step of the reference takes as one of the heat.

    Where they took turns, both count the same turns: these met the same state of the machine, and held the same steps.
    """
    assert heat.step_ms is not None
    assert reference.step_ms is not None
    return reference.step_ms / heat.step_ms


def compare_steps(pairs: Sequence[tuple[HeatResult, HeatResult]]) -> SameSteps:
    """Return whether the heats of all pairs count the same steps or, where not, whether the number matters.

    A card takes 300 steps while a processor takes one. Then the time of its steps must not depend on their number.
    """
    heats = [heat for pair in pairs for heat in pair]
    if any(window.first_step is None for heat in heats for window in steady_windows(heat)):
        return "not known"
    if all(counted_steps(one) == counted_steps(other) for one, other in pairs):
        return "same"
    for lane in zip(*pairs, strict=True):
        # The logarithms of how many times as long the later half of each heat's steps takes.
        logs: list[float] = []
        for windows in map(steady_windows, lane):
            half = len(windows) // 2
            logs.append(log(mean_step_ms(windows[half:]) / mean_step_ms(windows[:half])) if half else 0.0)
        mean = sum(logs) / len(logs)
        # By how much the heats of a lane differ by chance.
        error = (variance(logs) / len(logs)) ** 0.5 if len(logs) > 1 else DRIFTS
        if abs(mean) > max(DRIFTS, DRIFT_ERRORS * error):
            return "other"
    return "alike"


def counted_steps(heat: HeatResult) -> tuple[int, int] | None:
    """Return the first and the last step that count; None where none do."""
    steps = [steps_of(window) for window in steady_windows(heat)]
    return (steps[0].start, steps[-1].stop - 1) if steps and steps[0] else None


def noise_of_ratio(heat: HeatResult, reference: HeatResult) -> float:
    """Return the variance of the logarithm of their ratio, by how much the ratios of single turns differ; 0 without."""
    ours = windows_by_turn(heat)
    theirs = windows_by_turn(reference)
    logs = [log(step_ms(theirs[turn]) / step_ms(ours[turn])) for turn in sorted(ours.keys() & theirs.keys())]
    return variance(logs) / len(logs) if len(logs) >= QUIET_LEAST else 0.0


def windows_by_turn(heat: HeatResult) -> dict[int, Window]:
    """Return the windows that count, by the turns in which they were run."""
    return {window.turn: window for window in steady_windows(heat) if window.turn is not None}


def steps_of(window: Window) -> range:
    """Return the numbers of a window's steps. A record from before these were noted has none."""
    return range(0) if window.first_step is None else range(window.first_step, window.first_step + window.steps)


def mean_step_ms(windows: Sequence[Window]) -> float:
    """Return the mean step of some windows in milliseconds, each window weighted by its steps."""
    return sum(window.took_ns for window in windows) / sum(window.steps for window in windows) / 1e6


# One figure across the heats or trainings of a lane: with its interval, or with the reason why it has none.

ALPHA = 0.05
START_PHASES = ("start", "import", "build")
ONE_ROUND = Missing("one round alone gives no interval")
ONE_HEAT = Missing("one heat alone gives no interval")
ONE_TRAINING = Missing("one training of each gives no interval")
NOT_ASKED_OF_FIGURE = Missing("not asked of this figure")


def estimate(
    values: Sequence[float],
    weights: Sequence[float] = (),
    *,
    p95: float | Missing = NOT_ASKED_OF_FIGURE,
    alone: Missing = ONE_HEAT,
) -> Estimate | None:
    """Estimate a figure from one value per heat, since the steps of one heat are not independent; None if empty.

    Without weights, heats count alike.
    """
    if not values:
        return None
    interval = weighted_interval(values, weights or [1.0] * len(values), ALPHA)
    return Estimate(interval.estimate, *bounds(interval, alone), p95)


def bounds(interval: Interval, alone: Missing = ONE_HEAT) -> tuple[float | Missing, float | Missing]:
    """Return an interval's ends, or `alone` for both where one value alone has no interval."""
    return (interval.low, interval.high) if interval.low > 0 else (alone, alone)


def rate(step_ms: Estimate | None, items: int | None) -> Estimate | None:
    """Return items per second, for a step of `items` items."""
    if step_ms is None or items is None:
        return None
    high, low = (end if isinstance(end, Missing) else items * 1e3 / end for end in (step_ms.low, step_ms.high))
    return Estimate(items * 1e3 / step_ms.median, low, high)


def scaled(figure: Estimate, factor: float, more: float = 0.0) -> Estimate:
    """Return the figure times `factor`, plus `more`, which is known without an interval."""
    low, high = (end if isinstance(end, Missing) else end * factor + more for end in (figure.low, figure.high))
    return Estimate(figure.median * factor + more, low, high)


def middle(values: Iterable[float | None]) -> float | None:
    numbers = [value for value in values if value is not None]
    return median(numbers) if numbers else None


def largest(values: Iterable[int | Missing], nothing: str) -> int | Missing:
    """Return the largest value, or why there is none; `nothing` is the reason where there are no values at all."""
    known = list(values)
    numbers = [value for value in known if not isinstance(value, Missing)]
    if numbers:
        return max(numbers)
    return known[0] if known else Missing(nothing)


def most_memory(own: int | Missing, read: float | Missing) -> int | Missing:
    """Return the larger of a process's own high-water mark and of the most that all its processes held at one reading.

    The mark covers moments between two readings; the readings cover the processes of a loader.
    """
    if isinstance(read, Missing):
        return own
    return round(read) if isinstance(own, Missing) else max(own, round(read))


def startup_s(phases_s: Mapping[str, float]) -> float | None:
    """Return the time from starting the process to the first step, without the proof: a training has none."""
    return sum(phases_s.get(name, 0.0) for name in START_PHASES) if phases_s else None


# Memory that lanes held at some batches -> what one would hold at another.

GROWS = 1.2  # times the memory at half of the batch or less: one that grows less says nothing of larger batches
LARGEST_BATCH = 1_000_000
HeldBefore = Callable[[int], int]
"""Returns what the shapes of a network hold at a batch."""


def memory_of(lane: LaneResult) -> int | Missing:
    """Return the most memory that a lane held where it computes: on a processor, that of its process."""
    return lane.peak_memory_bytes if lane.device.kind == "cpu" else lane.device_memory_bytes


def estimate_memory(batch: int, peaks: Mapping[int, int], shapes: HeldBefore | Missing) -> int | Missing:
    """Return what a lane would hold: the peak at the nearest batch that ran, and how much more the shapes hold.

    Where the shapes are not known, it is on the line through the peaks of the two largest batches.
    """
    if isinstance(shapes, Missing):
        if len(peaks) < 2:
            return Missing("fewer than two batches of this lane have run")
        small, large = sorted(peaks)[-2:]
        if peaks[large] < GROWS * peaks[small]:
            return Missing(f"its memory hardly grows from batch {small:,} to {large:,}")
        return round(peaks[large] + (peaks[large] - peaks[small]) * (batch - large) / (large - small))
    if not peaks:
        return Missing("no batch of this lane has run")
    near = min(peaks, key=lambda peak: abs(peak - batch))
    return max(0, peaks[near] + shapes(batch) - shapes(near))


def find_largest_batch(room_bytes: int, estimate: Callable[[int], int | Missing]) -> int | None:
    """Return the largest batch that fits by its estimate; None if there are no estimates, or not even one item fits."""
    fits = 0
    fails = LARGEST_BATCH
    while fails - fits > 1:
        batch = (fits + fails) // 2
        needed = estimate(batch)
        if isinstance(needed, Missing):
            return None
        if needed <= room_bytes:
            fits = batch
        else:
            fails = batch
    return fits or None


# All heats of a question -> the windows of each that count: undisturbed in every lane of the round, of the same steps.
#
# A lane has one time of a step: that of these windows. What the machine did is left out by name, in all lanes of the
# round at once. What the lane's own steps do stays, however long they take.

# Times as long as the same steps in the other rounds: a turn is slow from here on. Where turns are alike it takes less,
# as much as three standard deviations of a turn, but never less than the last figure.
SLOW_TURN = 1.25
SLOW_TURN_DEVIATIONS = 3.0
SLOW_TURN_LEAST = 1.1
# Quiet turns of a round: from two on a disturbed one, of up to ten times as long, adds less than it spoils.
QUIET_TURNS_LEAST = 2
ROUNDS_LEAST = 3  # to know how long a turn's steps usually take
ROUNDS_KNOWN = 5  # to know how much turns differ
NORMAL = 1.4826  # a standard deviation over the median distance, of a normal distribution
# A lane has slow turns of its own if it has this many times those of the others, and is that many errors above.
SLOW_TURNS_RATIO = 2.0
SLOW_TURNS_ERRORS = 2.0
SLOW_HERE = MACHINE_SLOW + ": these steps were {:.1f} times as fast in other rounds"


def judge_rounds(heats: Mapping[str, Sequence[Heat]]) -> dict[str, tuple[HeatResult, ...]]:
    """Return the results of each lane, with the windows flagged that the machine slowed down, and those that count."""
    flagged = _flag_by_other_rounds(heats)
    begins = max((_begin_of(lane) for lane in flagged.values()), default=0)
    by_round: dict[int, list[Heat]] = {}
    for lane in flagged.values():
        for heat in filter(_plays, lane):
            by_round.setdefault(heat.round, []).append(heat)
    turns = {number: _turns_that_count(played, begins) for number, played in by_round.items()}
    apart = _steps_of_all(heat for lane in flagged.values() for heat in lane if heat.windows and not is_in_turns(heat))
    results: dict[str, list[HeatResult]] = {name: [] for name in flagged}
    for name, lane in flagged.items():
        for heat in lane:
            if _plays(heat):
                counted = (place for place, window in enumerate(heat.windows) if window.turn in turns[heat.round])
                results[name].append(summarise_heat(heat, tuple(counted)))
            else:
                results[name].append(_counting_steps(heat, apart.get(heat.round)))
    return {name: tuple(of_lane) for name, of_lane in results.items()}


def is_in_turns(heat: Heat) -> bool:
    return bool(heat.windows) and heat.windows[0].turn is not None


def _plays(heat: Heat) -> bool:
    """Whether a heat took turns to its end: one that failed must not take their later turns from the others."""
    return is_in_turns(heat) and heat.process.status == "ok"


def _steps_of_all(heats: Iterable[Heat]) -> dict[int, range]:
    """Return the steps that all heats of a round timed which did not take turns; no round where these are too few."""
    by_round: dict[int, list[Heat]] = {}
    for heat in heats:
        if heat.process.status == "ok" and all(window.first_step is not None for window in heat.windows):
            by_round.setdefault(heat.round, []).append(heat)
    common: dict[int, range] = {}
    for number, ran in by_round.items():
        begins, ends = _span_of(ran[0])
        # A loader alone takes millions of steps meanwhile, and they are none of a training.
        of = [heat for heat in ran if _span_of(heat)[0] < ends and begins < _span_of(heat)[1]]
        spans = [_span_of(heat) for heat in of]
        steps = range(max(start for start, _ in spans), min(stop for _, stop in spans))
        if all(len(_places_within(heat, steps)) >= QUIET_LEAST for heat in of):
            common[number] = steps
    return common


def _span_of(heat: Heat) -> tuple[int, int]:
    return steps_of(heat.windows[0]).start, steps_of(heat.windows[-1]).stop


def _counting_steps(heat: Heat, steps: range | None) -> HeatResult:
    """Return the result of a heat of which only windows of these steps count, if it timed others as well."""
    within = () if steps is None else _places_within(heat, steps)
    if not within or len(within) == len(heat.windows):
        return summarise_heat(heat)
    quiet = [place for place in within if heat.windows[place].flag is None]
    counted = quiet if len(quiet) >= QUIET_LEAST else within
    start = find_steady([step_ms(heat.windows[place]) for place in counted]).start
    return summarise_heat(heat, tuple(counted[start:]))


def _places_within(heat: Heat, steps: range) -> tuple[int, ...]:
    found = [(place, steps_of(window)) for place, window in enumerate(heat.windows)]
    return tuple(place for place, its in found if its.start >= steps.start and its.stop <= steps.stop)


def _turns_that_count(heats: Sequence[Heat], begins: int) -> frozenset[int]:
    """Return the turns of a round that were quiet in all its lanes, from `begins` on.

    Where fewer than two are left, all turns count but those in which a heat was halted, whose time means nothing: then
    it is so in the other rounds, too, and none of them would be left.
    """
    windows = [_by_turn(heat) for heat in heats]
    common = frozenset.intersection(*(frozenset(window) for window in windows))
    halted = {turn for turn in common for window in windows if _is_halted(window[turn])}
    loud = {turn for turn in common for window in windows if window[turn].flag is not None}
    later = frozenset(turn for turn in common if turn >= begins)
    for least in (QUIET_LEAST, QUIET_TURNS_LEAST):
        for quiet in (later - loud, common - loud):
            if len(quiet) >= least:
                return quiet
    ran = later - halted if len(later - halted) >= QUIET_LEAST else common - halted
    return ran or common


def _begin_of(heats: Sequence[Heat]) -> int:
    """Return the turn from which on the lane's steps are steady, by the median of its rounds."""
    series = [_by_turn(heat) for heat in heats if _plays(heat) and heat.burst is None]
    if not series:
        return 0
    last = min(max(turns, default=0) for turns in series)
    levels: list[float] = []
    for turn in range(last + 1):
        quiet = [step_ms(turns[turn]) for turns in series if turn in turns and turns[turn].flag is None]
        if not quiet:
            return 0  # A turn that was disturbed in every round has no level: then the turns cannot be numbered.
        levels.append(median(quiet))
    return find_steady(levels).start


def _flag_by_other_rounds(heats: Mapping[str, Sequence[Heat]]) -> dict[str, tuple[Heat, ...]]:
    """Hold each turn against the same steps in the other rounds of its lane.

    What is slow there, too, is the lane's own, and no spell of the machine. What is slow in one round alone is the
    machine's doing where it meets the lanes alike, and the lane's own where it meets one of them.
    """
    times = {name: _times_as_slow(lane) for name, lane in heats.items()}
    cleared = {
        name: tuple(_without_own_slowness(heat, found) for heat, found in zip(lane, times[name], strict=True))
        for name, lane in heats.items()
    }
    most = _find_most(times.values())
    slow = {
        name: [
            {turn for turn, window in _by_turn(heat).items() if window.flag is None and found.get(turn, 1.0) > most}
            for heat, found in zip(lane, times[name], strict=True)
        ]
        for name, lane in cleared.items()
    }
    # If one lane's are its own, none are flagged: else the others would lose theirs, and it would not.
    if not _meets_alike([sum(map(len, turns)) for name, turns in slow.items() if any(times[name])]):
        return cleared
    return {
        name: tuple(
            _with_flags(heat, turns, found) for heat, turns, found in zip(lane, slow[name], times[name], strict=True)
        )
        for name, lane in cleared.items()
    }


def _times_as_slow(heats: Sequence[Heat]) -> list[dict[int, float]]:
    """Return for each heat how many times as slow each turn was as the same turn in all rounds.

    The level of the round is left out: a machine that is slower for a whole round is so in all its turns.
    """
    played = [heat for heat in heats if _plays(heat) and heat.burst is None]
    if len(played) < ROUNDS_LEAST:
        return [{} for _ in heats]
    logs = [
        {turn: log(step_ms(window)) for turn, window in _by_turn(heat).items()} if heat in played else {}
        for heat in heats
    ]
    turns = sorted({turn for by_turn in logs for turn in by_turn})
    rounds = {turn: [by_turn[turn] for by_turn in logs if turn in by_turn] for turn in turns}
    usual = {turn: median(values) for turn, values in rounds.items() if len(values) >= ROUNDS_LEAST}
    found: list[dict[int, float]] = []
    for by_turn in logs:
        beyond = {turn: value - usual[turn] for turn, value in by_turn.items() if turn in usual}
        level = median(list(beyond.values())) if beyond else 0.0
        found.append({turn: exp(value - level) for turn, value in beyond.items()})
    return found


def _meets_alike(numbers: Sequence[int]) -> bool:
    """Whether slow turns met all lanes alike; one lane alone cannot be compared."""
    if len(numbers) < 2:
        return False
    for number in numbers:
        others = (sum(numbers) - number) / (len(numbers) - 1)
        if number > 1 + SLOW_TURNS_RATIO * others and number - others >= SLOW_TURNS_ERRORS * sqrt(number + others):
            return False
    return True


def _find_most(times: Iterable[Sequence[Mapping[int, float]]]) -> float:
    """Return from how many times the usual on a turn is slow: the same for all lanes, or one would lose more turns.

    Medians are not moved by the slow turns themselves. Each lane's usual turn and each round's level were found from
    the same turns, which makes the distances a little smaller than they are.
    """
    spreads = []
    for lane in times:
        known = [mapping for mapping in lane if mapping]
        turns = max(map(len, known), default=0)
        if len(known) < ROUNDS_KNOWN or turns < 2:
            return SLOW_TURN
        fitted = len(known) * turns / ((len(known) - 1) * (turns - 1))
        spreads.append(NORMAL * sqrt(fitted) * median([abs(log(slow)) for found in known for slow in found.values()]))
    return min(SLOW_TURN, max(SLOW_TURN_LEAST, exp(SLOW_TURN_DEVIATIONS * max(spreads)))) if spreads else SLOW_TURN


def _without_own_slowness(heat: Heat, times: Mapping[int, float]) -> Heat:
    """Take the flag of a slow spell from the turns whose steps are as slow in the other rounds."""
    windows = tuple(
        replace(window, flag=None)
        if window.flag == SLOW_SPELL and window.turn is not None and times.get(window.turn, SLOW_TURN) < SLOW_TURN
        else window
        for window in heat.windows
    )
    return replace(heat, windows=windows) if windows != heat.windows else heat


def _with_flags(heat: Heat, turns: set[int], times: Mapping[int, float]) -> Heat:
    if not turns:
        return heat
    return replace(
        heat,
        windows=tuple(
            replace(window, flag=SLOW_HERE.format(times[window.turn])) if window.turn in turns else window
            for window in heat.windows
        ),
    )


def _by_turn(heat: Heat) -> dict[int, Window]:
    return {window.turn: window for window in heat.windows if window.turn is not None}
