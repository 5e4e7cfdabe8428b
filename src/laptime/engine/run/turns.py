"""Let heats of several lanes be alive at once and take turns: A B, B A, A B. All but one of them are paused.

A machine drifts by tens of per cent within a minute. Turns of 0.25 s meet the same state of it, so the
drift cancels in their ratio. Each heat still has its own process.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from types import MappingProxyType, TracebackType
from typing import Any, Generic, Self, TypeVar

import msgspec
import psutil

from laptime.engine import wire
from laptime.engine.run.answers import InferenceRunner
from laptime.engine.run.child import Silence
from laptime.engine.run.launchers import LOCAL, Launcher
from laptime.engine.run.runner import HeatRunner, Started
from laptime.engine.run.templates import OF_A_LANE, ForkedChild, HeatTemplate, HeatTemplates, may_fork, templates_in_use
from laptime.model.errors import LaneError, WireError
from laptime.model.machine import Device
from laptime.model.plan import Pace, PlannedLane
from laptime.model.process import Dnf
from laptime.model.quantities import brief
from laptime.model.sample import SLOW_SPELL, Window

ROUND_PATIENCE = 2  # where steps are so slow that few turns fit, a round may take this many times as long
BUSY_FACTOR = 4  # and this many times, where others computed in most of its turns but not in all
REACH_FACTOR = 4  # and this many times, to reach the step at which something was seen
TURNS_LEAST = 3
ENOUGH = 0.9  # of the time to measure: turns are whole steps, so four of them may be a little short
NO_STEPS: Mapping[str, TurnSteps] = MappingProxyType({})
ANY_STEPS = wire.TakeTurn()
AnyRunner = HeatRunner | InferenceRunner
TurnAnswer = TypeVar("TurnAnswer", wire.TurnKept, wire.TurnShown, wire.TurnReplayed)
R_co = TypeVar("R_co", bound=AnyRunner, covariant=True)


class Player(Generic[R_co]):
    """A heat that takes turns. Between its turns the child and all that it started are paused."""

    def __init__(self, runner: R_co, device: Device) -> None:
        self.runner = runner
        self.device = device
        self.active_s = 0.0
        self.has_joined = self._has_built = False
        self._dnf: Dnf | None = None
        self._paused_at_ns = 0

    def begin(self, started: Started) -> None:
        """Let the heat build, while others may do so, too."""
        self.runner.turn = 0
        self.runner.begin(started, self.runner.message)

    def join(self) -> None:
        """Bring the heat to where its turns begin: past its first step, or to its single calls."""
        self.build()
        if self._has_built and not self.is_over and self._went_on():
            self.runner.child.say(wire.GoOn())
        if not (self._has_built and self.is_over):
            self._hear_until_ready()
        self.has_joined = True

    def build(self) -> None:
        """Let the heat of a script come to the end of its first iteration, while others may do so, too.

        What follows computes, and would disturb the others: next to them, ten steps took six times as long.
        """
        is_script = isinstance(self.runner, HeatRunner) and bool(self.runner.order.subject.command)
        if is_script and not self._has_built:
            self._hear_until_ready()
            self._has_built = True

    def play(self, turn: int, order: wire.TakeTurn = ANY_STEPS) -> None:
        """Run one window."""
        self.runner.turn = turn
        if isinstance(self.runner, HeatRunner):
            self.runner.begins.append(order.begins)
            self.runner.steps_asked = order.steps
        if self._went_on():
            self.runner.reopen()
            self.runner.child.say(order)
        self._hear_until_ready(wire.Closed)

    def ask(self, message: wire.FromParent, wanted: type[TurnAnswer]) -> TurnAnswer | None:
        """Let the heat do something between its turns. Return its answer, or None if it is over."""
        if self._went_on():
            self.runner.child.say(message)
        heard = self._hear_until_ready(wanted)
        return None if self.is_over else next(message for message in heard if isinstance(message, wanted))

    def leave(self) -> Dnf | None:
        """Let the heat do what comes after its turns, and end the child. Return why it did not finish, or None."""
        if not self.is_over:
            if self._went_on():
                self.runner.child.say(wire.Enough())
            self._check(self.runner.hear_on(), wire.Finished)
            self._finish()
        return self._dnf

    def abandon(self) -> None:
        self.runner.abandon()

    @property
    def is_over(self) -> bool:
        return self.runner.is_over

    @property
    def node(self) -> str | None:
        """The node of a cluster on which the heat runs, or None here."""
        return self.runner.child.node

    @property
    def resident_bytes(self) -> int:
        """The memory that the heat holds now, with all that it started."""
        return self._sum_of("VmRSS")

    @property
    def peak_bytes(self) -> int:
        """The most memory that the heat held until now, with all that it started."""
        return self._sum_of("VmHWM")

    def _sum_of(self, key: str) -> int:
        """Return the sum of a line of /proc/PID/status, in bytes. Heats take turns on Linux alone."""
        held = 0
        with contextlib.suppress(psutil.Error):
            heat = psutil.Process(self.runner.child.pid)
            for process in (heat, *heat.children(recursive=True)):
                with contextlib.suppress(OSError):
                    status = Path(f"/proc/{process.pid}/status").read_text(encoding="utf-8", errors="replace")
                    held += sum(int(row.split()[1]) * 1024 for row in status.splitlines() if row.startswith(f"{key}:"))
        return held

    def _hear_until_ready(self, wanted: type[Any] | None = None) -> Sequence[wire.FromChild]:
        """Hear the child until it is ready, then pause it. One that fails is ended at once: it must not disturb."""
        heard = self.runner.hear_on(wire.Ready)
        self._check(heard, wanted)
        if self.is_over or not self._is_done(self.runner.child.pause):
            self._finish()
            return heard
        self._paused_at_ns = time.monotonic_ns()
        if self.runner.sampler is not None:
            self.runner.sampler.pause()
        return heard

    def _check(self, heard: Sequence[wire.FromChild], wanted: type[wire.FromChild] | None) -> None:
        if isinstance(self.runner, HeatRunner):
            self.runner.check_answers(heard, wanted)

    def _finish(self) -> None:
        self._dnf = self.runner.finish()
        self.active_s = (time.monotonic_ns() - self.runner.started_ns - self.runner.paused_ns) / 1e9

    def _went_on(self) -> bool:
        self.runner.count_pause(time.monotonic_ns() - self._paused_at_ns)
        if self.runner.sampler is not None:
            self.runner.sampler.go_on()
        return self._is_done(self.runner.child.go_on)

    def _is_done(self, request: Callable[[], None]) -> bool:
        """Whether the guardian did what was requested. A heat that cannot be paused is over."""
        try:
            request()
        except WireError as error:
            self.runner.give_up(error)
            return False
        return True


def play_turns(
    players: Sequence[Player[HeatRunner]],
    pace: Pace,
    kept: Mapping[str, TurnSteps] = NO_STEPS,
    least: int = 0,
    *,
    told: Callable[[int, int], None] = lambda _turn, _of: None,
    after_turn: Callable[[int], None] = lambda _turn: None,
) -> dict[str, TurnSteps]:
    """Let the heats take turns until each was timed for long enough. A turn in which one was disturbed is repeated.

    Only times decide how many turns there are, never a ratio. `kept` are the steps of the turns in an earlier round of
    the same lanes; those of this round are returned. Without them the turns begin after `least` steps, where heats have
    nearly come so far. `told` is called between turns, while all heats are stopped, with the number of the next one and
    with how many it seems there will be; `after_turn` with the number of the one that ended.
    """
    turn = 0
    steps = _begin_steps([player for player in players if not player.is_over], pace, kept, least)
    while True:
        playing = [player for player in players if not player.is_over]
        _play_one(playing, turn, {player: steps[player].order(turn) for player in playing})
        after_turn(turn)
        left = [player for player in playing if not player.is_over]
        if turn == 0 and not kept:
            steps = _correct_steps(left, pace)
        turn += 1
        if not left:
            return _by_lane(steps)
        runners = [player.runner for player in left]
        _flag_slow_spells(runners)
        timed = list(zip(*(runner.windows for runner in runners), strict=True))
        spent_s = sum(window.end_ns - window.start_ns for windows in timed for window in windows) / len(runners) / 1e9
        passed_s = (
            sum(_passed_ns(runner, window) for runner in runners for window in runner.windows) / len(runners) / 1e9
        )
        quiet = sum(all(window.flag is None for window in windows) for windows in timed)
        far_s = sum(map(_turns_s, runners)) / len(runners)
        has_reached = (
            all(runner.taken >= pace.reach_step for runner in runners)
            or max(far_s, passed_s) > REACH_FACTOR * pace.measure_s
        )
        if has_reached and _has_enough_turns(spent_s, passed_s, turn, quiet, pace):
            return _by_lane(steps)
        told(turn + 1, max(turn + 1, _expect_turns(spent_s, turn, quiet, pace)))


def _passed_ns(runner: HeatRunner, window: Window) -> int:
    """Return how long a turn took, with what a script does between its iterations: it may take most of the time."""
    took_ns = window.end_ns - window.start_ns
    return max(took_ns, window.turn_ns or 0) if runner.order.subject.command else took_ns


def _turns_s(runner: HeatRunner) -> float:
    """Return how long a heat's turns took so far, with the steps that are not timed: on a card, most of them."""
    if not runner.windows:
        return 0.0
    timed_ns = sum(window.end_ns - window.start_ns for window in runner.windows)
    timed = sum(window.steps for window in runner.windows)
    first = runner.windows[0]
    last = runner.windows[-1]
    taken = (last.first_step or 0) + last.steps - (first.first_step or 0)
    return timed_ns / 1e9 * max(taken / timed, 1.0)


def _by_lane(steps: Mapping[Player[HeatRunner], TurnSteps]) -> dict[str, TurnSteps]:
    return {player.runner.lane: found for player, found in steps.items()}


def _begin_steps(
    players: Sequence[Player[HeatRunner]], pace: Pace, kept: Mapping[str, TurnSteps], least: int
) -> dict[Player[HeatRunner], TurnSteps]:
    entrants = [entrant_of(player.runner) for player in players]
    if players and all(player.runner.lane in kept for player in players):
        steps = fit_steps([kept[player.runner.lane] for player in players], entrants)
    else:
        steps = choose_steps(entrants, pace.window_s, least, shares_steps=pace.shares_steps)
    return dict(zip(players, steps, strict=True))


def _correct_steps(players: Sequence[Player[HeatRunner]], pace: Pace) -> dict[Player[HeatRunner], TurnSteps]:
    """Return the steps of the coming turns: the first turn shows better how long a step is."""
    entrants = [entrant_of(player.runner) for player in players]
    steps = choose_steps(entrants, pace.window_s, shares_steps=pace.shares_steps)
    # `order` counts turns from 0, and the next one is turn 1.
    return {player: found.shifted(-(found.untimed + found.steps)) for player, found in zip(players, steps, strict=True)}


def expect_turn_s(runner: HeatRunner, pace: Pace) -> float:
    """Return how long a turn of a heat will take, in steps of its own."""
    needs = entrant_of(runner).needs
    return max(pace.window_s, needs.unit * needs.step_ns / 1e9)


def entrant_of(runner: HeatRunner) -> Entrant:
    """Return what is known of a heat's steps: the estimate that it made, or what its windows took."""
    needs = runner.needs or wire.TurnNeeds(1.0)
    if runner.windows:
        taken_ns = min((window.end_ns - window.start_ns) / window.steps for window in runner.windows)
        needs = msgspec.structs.replace(needs, step_ns=taken_ns)
    return Entrant(needs, runner.taken)


def _flag_slow_spells(runners: Sequence[HeatRunner]) -> None:
    """Flag the windows of all heats in which the machine was slow, where their times can be compared."""
    if len({runner.child.node for runner in runners}) == 1 and all(
        runner.shares_our_clock and not runner.is_bursty for runner in runners
    ):
        for heat, number in find_slow_spells([runner.windows for runner in runners]):
            runners[heat].flag_window(number, SLOW_SPELL)


def play_parts(
    players: Sequence[Player[InferenceRunner]], tell: Callable[[int, int], None] = lambda _part, _turn: None
) -> None:
    """Let heats of inference take turns, part by part: single calls, then each batch size.

    A lane that needs fewer turns for a part waits until the others have done theirs. `tell` is called between turns,
    while all heats are stopped, with the batch size that comes next, 0 for single calls, and the number of the turn.
    """
    turn = 0
    while playing := [player for player in players if not player.is_over]:
        part = min(player.runner.part for player in playing)
        if turn:
            tell(part, turn + 1)
        _play_one([player for player in playing if player.runner.part == part], turn)
        turn += 1


def _play_one(
    players: Sequence[Player[AnyRunner]], turn: int, orders: Mapping[Player[Any], wire.TakeTurn] | None = None
) -> None:
    """Let each play one turn, every other time in reverse order."""
    for player in players if turn % 2 == 0 else players[::-1]:
        player.play(turn, orders[player] if orders else ANY_STEPS)


def _has_enough_turns(spent_s: float, passed_s: float, turns: int, quiet: int, pace: Pace) -> bool:
    """Whether the turns are enough: their steps took `spent_s`, and with what is between them, `passed_s` passed."""
    repeated = turns - quiet
    if passed_s >= ROUND_PATIENCE * pace.measure_s:
        # Where others compute now and then, a few more turns meet a quiet moment.
        may_become_quiet = 0 < quiet < TURNS_LEAST and passed_s < BUSY_FACTOR * pace.measure_s
        return turns >= TURNS_LEAST and not may_become_quiet
    counted_s = spent_s * (turns - min(repeated, pace.reruns_max)) / turns
    return counted_s >= ENOUGH * pace.measure_s and turns - min(repeated, pace.reruns_max) >= pace.windows_min


def _expect_turns(spent_s: float, turns: int, quiet: int, pace: Pace) -> int:
    """Return how many turns there will be, if those to come take as long and are not disturbed."""
    wanted = math.ceil(ENOUGH * pace.measure_s * turns / max(spent_s, 1e-9))
    return max(wanted, pace.windows_min) + min(turns - quiet, pace.reruns_max)


# Which steps the heats of a round time in a turn: the same ones, wherever their steps take about as long.
#
# Steps change while a training learns: its numbers become tiny, its sequences grow. So a lane that is faster must not
# be timed at later steps. A card may take 300 steps while a processor takes one, and then a turn of the same steps
# would be over before its clock is up: such lanes have turns of their own, and `analysis.heats` compares what is
# comparable. So has a lane whose turns would become too long for what the others need: a card takes hundreds of steps
# until its clock is up, and a lane of slower steps would take as many.

FAR_SLOWER = 8.0  # the slowest lane's step over the fastest one's, up to which they time the same steps
SHORTEST_S = 0.1  # of a turn, so that the kernel's ticks show what other processes did
DEAR = 2.0  # times as long as of its own: the longest turns that a lane takes so that others time the same steps
CATCH_UP_S = 3.0  # the longest that it takes to come to where they begin
LONGEST_TURN = 4  # windows: a common multiple of two frameworks' strides may make turns this much longer
LATER = 8  # further steps that a heat may take to time the same ones as other rounds
TURN_SHORTER = 0.1  # of a unit: a turn may be this much short


@dataclass(frozen=True, slots=True)
class TurnSteps:
    """The steps of a heat's turns: `steps` in each, the first after `after` steps, the others after `untimed` ones."""

    after: int
    untimed: int
    steps: int

    def order(self, turn: int) -> wire.TakeTurn:
        after = self.after + turn * (self.untimed + self.steps)
        return wire.TakeTurn(self.steps, after, after - self.untimed)

    def shifted(self, steps: int) -> TurnSteps:
        """Return the same turns, later by some steps."""
        return replace(self, after=self.after + steps)


@dataclass(frozen=True, slots=True)
class Entrant:
    """A heat that waits for its first turn: what it needs, and the steps that it took so far."""

    needs: wire.TurnNeeds
    taken: int


def choose_steps(
    entrants: Sequence[Entrant], window_s: float, least: int = 0, *, shares_steps: bool = False
) -> list[TurnSteps]:
    """Return the steps of each heat's turns, the first of them after at least `least`."""
    if shares_steps and entrants:
        return [_shared_steps(entrants, window_s, least)] * len(entrants)
    groups: list[list[int]] = []  # of heats that can time the same steps, from the slowest on
    for number in sorted(range(len(entrants)), key=lambda number: -entrants[number].needs.step_ns):
        for group in groups:
            if _may_join(entrants[number], [entrants[other] for other in group], window_s):
                group.append(number)
                break
        else:
            groups.append([number])
    chosen: dict[int, TurnSteps] = {}
    for group in groups:
        steps = _steps_of([entrants[number] for number in group], window_s, least)
        chosen.update(dict.fromkeys(group, steps))
    return [chosen[number] for number in range(len(entrants))]


def fit_steps(kept: Sequence[TurnSteps], entrants: Sequence[Entrant]) -> list[TurnSteps]:
    """Return the turns of an earlier round, where heats of the same turns went beyond their begin all later by that."""
    fitted: dict[TurnSteps, TurnSteps] = {}
    for steps in set(kept):
        group = [entrant for mine, entrant in zip(kept, entrants, strict=True) if mine == steps]
        over = max(entrant.taken + steps.untimed - steps.after for entrant in group)
        stride = math.lcm(*(entrant.needs.stride for entrant in group))
        fitted[steps] = steps.shifted(max(math.ceil(over / stride), 0) * stride)
    return [fitted[steps] for steps in kept]


def _may_join(entrant: Entrant, group: Sequence[Entrant], window_s: float) -> bool:
    slowest_ns = group[0].needs.step_ns
    if slowest_ns > FAR_SLOWER * entrant.needs.step_ns:
        return False
    units = [member.needs.unit for member in (entrant, *group)]
    unit = math.lcm(*units)
    is_common = unit == max(units)
    if not is_common and unit * slowest_ns > LONGEST_TURN * window_s * 1e9:
        return False
    together = _steps_of([*group, entrant], window_s, 0)
    return all(_is_cheap(member, together, window_s) for member in (*group, entrant))


def _is_cheap(entrant: Entrant, together: TurnSteps, window_s: float) -> bool:
    """Whether turns together with others take a heat hardly longer than turns of its own."""
    alone = _steps_of([entrant], window_s, 0)
    further = together.after - together.untimed - entrant.taken
    catch_up_s = further * entrant.needs.step_ns / 1e9
    is_near = further <= LATER or catch_up_s <= CATCH_UP_S
    return is_near and together.untimed + together.steps <= DEAR * (alone.untimed + alone.steps)


def _shared_steps(entrants: Sequence[Entrant], window_s: float, least: int) -> TurnSteps:
    """Return the same turns for all, however fast they are: what is not the same steps cannot be compared.

    No lane takes longer than the windows of all would. So the turns of one that is a hundred times as fast are short,
    and its factor is known less well, which then matters little.
    """
    times_s = [max(entrant.needs.step_ns, 1.0) / 1e9 for entrant in entrants]
    longest_s = window_s * len(entrants)
    fitting = max(longest_s / sum(times_s), min(SHORTEST_S / min(times_s), longest_s / max(times_s)))
    unit = math.lcm(*(entrant.needs.unit for entrant in entrants))
    stride = math.lcm(*(entrant.needs.stride for entrant in entrants))
    if unit > fitting:  # laps of two lengths, or long ones
        unit = stride
    steps = max(math.ceil(fitting / unit - TURN_SHORTER), 1) * unit
    warm = max(entrant.needs.warm for entrant in entrants)
    if warm * max(times_s) > window_s:
        warm = max(entrants, key=lambda entrant: entrant.needs.step_ns).needs.warm
    untimed = math.ceil(warm / stride) * stride
    taken = math.ceil(max(entrant.taken for entrant in entrants) / stride) * stride + untimed
    return TurnSteps(
        max(taken, math.ceil(least / stride) * stride) if least <= taken + LATER else taken, untimed, steps
    )


def _steps_of(group: Sequence[Entrant], window_s: float, least: int) -> TurnSteps:
    """Return turns that last `window_s` in the mean of the lanes, and in no lane too short to see disturbances."""
    times_s = [max(entrant.needs.step_ns, 1.0) / 1e9 for entrant in group]
    fitting = max(window_s * len(group) / sum(times_s), SHORTEST_S / min(times_s))
    unit = math.lcm(*(entrant.needs.unit for entrant in group))
    stride = math.lcm(*(entrant.needs.stride for entrant in group))
    units = max(
        math.ceil(fitting / unit - TURN_SHORTER), *(math.ceil(entrant.needs.least / unit) for entrant in group), 1
    )
    untimed = math.ceil(max(entrant.needs.warm for entrant in group) / stride) * stride
    taken = math.ceil(max(entrant.taken for entrant in group) / stride) * stride + untimed
    wanted = math.ceil(least / stride) * stride
    after = wanted if taken < wanted <= taken + LATER else taken
    return TurnSteps(after, untimed, units * unit)


# Find the spells in which the whole machine was slow: slow windows of different heats, one directly after another.
#
# Seen on a shared virtual machine: steps took twice as long for a second or two while the heats used all cores and no
# other process ran. The cause is not known; perhaps another machine on the same host. A lane's own slow steps look
# different: the other lane is as fast as ever next to them.

SLOW_STEP = 1.25  # times the step of the heat's fastest undisturbed window


def find_slow_spells(heats: Sequence[Sequence[Window]]) -> list[tuple[int, int]]:
    """Return the windows in such spells, each as the number of its heat and its number within the heat."""
    fastest = [min((_step_ns(window) for window in windows if window.flag is None), default=0.0) for windows in heats]
    timed = sorted(
        (window.start_ns, heat, number, _step_ns(window) > SLOW_STEP * fastest[heat] > 0)
        for heat, windows in enumerate(heats)
        for number, window in enumerate(windows)
    )
    found: list[tuple[int, int]] = []
    for is_slow, run in groupby(timed, key=lambda row: row[3]):
        spell = [(heat, number) for _, heat, number, _ in run]
        if is_slow and len({heat for heat, _ in spell}) > 1:
            found += spell
    return found


def _step_ns(window: Window) -> float:
    return (window.end_ns - window.start_ns) / window.steps


# Start children before their turn: they import their frameworks in parallel, and wait while others are timed.
#
# A framework takes seconds to import, on one core. Each heat still has its own process, in which nothing was built and
# no device was used. With two cores per child, its start-up takes no longer than alone. Where rounds are worth more
# than that, there is a child on each core, and the start-up of a lane is the shortest of its heats. Where a framework
# bears it, only a lane's first heats import: the others are forked (laptime.engine.run.templates).

CORES_A_CHILD = 2
MOST_AT_ONCE = 8  # each holds some hundred megabytes


class Prestarter:
    """Starts a child for each lane that is ready for its order, and ends the children that were not taken.

    `importing_s` is how long it has waited so far for templates that heats are then forked from, once each.
    """

    def __init__(
        self, cores: int, patience_s: float, cores_a_child: int = CORES_A_CHILD, launcher: Launcher = LOCAL
    ) -> None:
        self._launcher = launcher
        # A child on a cluster that waits for its turn holds a place that another may wait for.
        self._at_once = 1 if launcher.is_elsewhere else max(1, min(cores // cores_a_child, MOST_AT_ONCE))
        self._patience_s = patience_s
        self._waiting: list[PlannedLane] = []
        self._held: dict[str, Started] = {}
        self._templates = templates_in_use() or HeatTemplates()
        self.importing_s = 0.0

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        for started in self._held.values():
            started.child.abandon()
        self._templates.close()

    def line_up(self, lanes: Iterable[PlannedLane]) -> None:
        """Set the lanes whose children will be taken next, in order."""
        self._waiting = list(lanes)

    def start_ahead(self, lanes: Iterable[PlannedLane]) -> None:
        """Start templates of these lanes, as many as may start at once: of their first heats, then of the next ones.

        Wait for none.
        """
        coming = [] if self._launcher.is_elsewhere else [(lane, heats) for heats in range(OF_A_LANE) for lane in lanes]
        begun = 0
        with contextlib.suppress(LaneError):  # the heats will report it
            for lane, heats in coming:
                begun += begun < self._at_once and self._templates.begin_ahead(lane, heats)

    def take_alone(self, lane: PlannedLane) -> Started | None:
        """Return a child for what is no heat, forked like the heats of this lane; None where these are no forks."""
        if self._launcher.is_elsewhere or not may_fork(lane):
            return None
        self.line_up([lane])
        return self.take(lane)

    def take(self, lane: PlannedLane) -> Started:
        """Return the lane's child. If it does not exist yet, start the next children, as many as may start at once."""
        if lane.name not in self._held:
            coming = self._waiting[: self._at_once]
            self._waiting = self._waiting[self._at_once :]
            self._start(coming)
        return self._held.pop(lane.name)

    def imports(self, lane: PlannedLane) -> bool:
        """Whether the next heat of a lane imports its framework, or a new template that it is forked from does."""
        return not may_fork(lane) or self._templates.missing([lane]) > 0

    def expect_imports_s(self, lanes: Iterable[PlannedLane]) -> float:
        """Return how long the templates take that the next heats of these lanes lack, by those before."""
        return self._templates.missing(lanes) * self._templates.usual_s

    def pass_over(self, lane: PlannedLane) -> None:
        """Skip a lane. End its child if it was started."""
        self._waiting = [planned_lane for planned_lane in self._waiting if planned_lane.name != lane.name]
        if lane.name in self._held:
            self._held.pop(lane.name).child.abandon()

    def _start(self, lanes: list[PlannedLane]) -> None:
        """Start these children, or as many as the system allows. All have the same deadline."""
        deadline = time.monotonic() + self._patience_s
        begun: list[tuple[PlannedLane, HeatTemplate | None]] = []
        for lane in lanes:
            try:
                template = None if self._launcher.is_elsewhere else self._templates.begin(lane)
                if template is None:
                    self._begin_fresh(lane)
            except LaneError:
                if not begun:
                    raise
                self._waiting = [*lanes[len(begun) :], *self._waiting]
                break
            begun.append((lane, template))
        for lane, template in begun:
            self._held[lane.name] = self._fork(lane, template, deadline) or self._await(lane, deadline)

    def _begin_fresh(self, lane: PlannedLane) -> None:
        child = self._launcher.start(lane.environment, lane)
        self._held[lane.name] = Started(child)
        child.say(wire.Warm(lane.framework))

    def _fork(self, lane: PlannedLane, template: HeatTemplate | None, deadline: float) -> Started | None:
        """Fork a heat; if that is not possible, begin a fresh process. The heat then reports what goes wrong."""
        if template is None:
            return None
        began_s = time.monotonic()
        is_new = template.told is None
        is_ready = template.make_ready(deadline)
        self._templates.settle(deadline)
        if is_new:
            self.importing_s += time.monotonic() - began_s
        if is_ready:
            with contextlib.suppress(LaneError):
                return Started(ForkedChild(template, lane.environment, self._launcher.sandbox_for(lane)))
        self._begin_fresh(lane)
        return None

    def _await(self, lane: PlannedLane, deadline: float) -> Started:
        """Wait until a child is warm. The heat reports what goes wrong."""
        child = self._held[lane.name].child
        heard: list[wire.FromChild] = []
        try:
            while (message := child.hear(deadline - time.monotonic())) is not None:
                heard.append(message)
                if isinstance(message, wire.Warmed | wire.Failed):
                    break
        except Silence:
            return Started(child, tuple(heard), WireError(f"no message for {brief(self._patience_s)} s; stopped"))
        except WireError as error:
            return Started(child, tuple(heard), error)
        return Started(child, tuple(heard))
