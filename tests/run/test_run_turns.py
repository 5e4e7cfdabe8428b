"""Heats that are alive at once take turns: A B, B A; a heat that does not play is stopped."""

from __future__ import annotations

import os
import signal
from dataclasses import replace
from itertools import pairwise

import psutil
import pytest
from heat_orders import PACE, order_for

from laptime.engine.run.answers import InferenceRunner
from laptime.engine.run.child import Child
from laptime.engine.run.runner import HeatRunner, Limits, Started
from laptime.engine.run.turns import Player, play_parts, play_turns
from laptime.model.protocol import InferOrder, InferPace

IN_TURNS = replace(PACE, measure_s=2.0, window_s=0.5, windows_min=4, takes_turns=True)


def player_of(folder, name, script="", pace=IN_TURNS):
    """Start a heat that takes turns, and bring it to its first one."""
    (folder / name).mkdir()
    order = replace(order_for(folder / name, script), pace=pace, test_items=1000)
    player = Player(HeatRunner(order, Limits(60.0, 1.0), 2, lambda _phase: None), order.lane.device)
    player.begin(Started(Child(order.lane.environment)))
    player.join()
    return player


def heat_of(player, number=0):
    return player.runner.heat(player.leave(), number)


def statuses(player):
    heat = psutil.Process(player.runner.child.pid)
    return {each.status() for each in heat.children(recursive=True)}


@pytest.fixture
def pair(tmp_path):
    """Two heats before their first turn, of which one is slower."""
    players = [player_of(tmp_path, "one"), player_of(tmp_path, "other", "step_ms = 50")]
    yield players
    for each in players:
        each.abandon()


def test_what_is_shown_between_turns_is_shown_while_all_are_stopped(pair):
    """With the number of the next turn, and how many there will be."""
    seen = []
    play_turns(pair, IN_TURNS, told=lambda turn, of: seen.append((turn, of, [statuses(each) for each in pair])))
    stopped = [{psutil.STATUS_STOPPED}] * 2
    assert seen == [(turn, 4, stopped) for turn in (2, 3, 4)]


def test_all_but_the_one_that_plays_are_stopped(pair, monkeypatch):
    """Seen from outside, at each message of the one that plays; then both do what comes after their windows."""
    seen = []
    hear = Child.hear

    def spy(child, timeout_s):
        seen.append([statuses(each) for each in pair if each.runner.child is not child])
        return hear(child, timeout_s)

    monkeypatch.setattr(Child, "hear", spy)
    play_turns(pair, IN_TURNS)
    assert seen
    assert all(each == [{psutil.STATUS_STOPPED}] for each in seen)
    monkeypatch.undo()
    heats = [heat_of(each, 5) for each in pair]
    assert [[window.turn for window in heat.windows] for heat in heats] == [[0, 1, 2, 3]] * 2
    steps = [[(window.first_step, window.steps) for window in heat.windows] for heat in heats]
    assert steps[0] == steps[1]
    assert [each for _, each in steps[0]] == [7] * 4
    assert all(after[0] >= before[0] + before[1] for before, after in pairwise(steps[0]))
    assert [(heat.round, heat.process.status, heat.examination.items) for heat in heats] == [(5, "ok", 1000)] * 2
    assert all(window.flag is None for heat in heats for window in heat.windows)
    assert all(each.is_over for each in pair)


def test_a_heat_that_fails_leaves_the_others_in(tmp_path, house):
    """It is ended at once, so that it does not disturb them."""
    failing = player_of(tmp_path, "one", 'first_ms = 10\nfail = { how = "hang", phase = "timing" }')
    other = player_of(tmp_path, "other")
    play_turns([failing, other], IN_TURNS)
    failed, whole = heat_of(failing), heat_of(other)
    assert (failed.process.dnf.phase, failed.process.dnf.reason) == ("timing", "no message for 1.5 s; stopped")
    assert (len(failed.windows), [window.turn for window in whole.windows]) == (0, [0, 1, 2, 3])
    assert whole.process.status == "ok"
    assert house.is_empty_within(10)


def test_a_heat_that_fails_before_its_turns_does_not_wait(tmp_path):
    """Its result says where, and the other plays alone."""
    failing = player_of(tmp_path, "one", 'fail = { how = "raise", phase = "proof" }')
    other = player_of(tmp_path, "other")
    assert failing.is_over
    play_turns([failing, other], IN_TURNS)
    assert heat_of(failing).process.dnf.phase == "proof"
    assert len(heat_of(other).windows) == 4


def test_turns_are_as_many_as_the_time_that_is_measured(tmp_path):
    """Slow steps get three turns at least, fast ones as many as fill the time."""
    slow = player_of(tmp_path, "slow", "step_ms = 9000")
    play_turns([slow], IN_TURNS)
    assert [window.steps for window in heat_of(slow).windows] == [1, 1, 1]
    longer = replace(IN_TURNS, measure_s=4.0)
    fast = player_of(tmp_path, "fast", pace=longer)
    play_turns([fast], longer)
    assert len(heat_of(fast).windows) == 8


@pytest.mark.parametrize(("step", "reached"), [(0, False), (80, True), (100_000, False)])
def test_turns_go_on_to_the_step_that_is_to_be_reached(pair, step, reached):
    """Both heats do; and not for far longer than they are timed for."""
    play_turns(pair, replace(IN_TURNS, reach_step=step))
    for each in pair:
        assert (each.runner.taken >= 80) is reached or step == 100_000
        assert sum(window.end_ns - window.start_ns for window in each.runner.windows) < 6 * IN_TURNS.measure_s * 1e9


def test_steps_that_are_not_timed_count_for_how_far_turns_go_on(tmp_path):
    """Those of a card take longer than its windows: it warms up before each."""
    pace = replace(IN_TURNS, window_s=0.1, reach_step=100_000)
    (tmp_path / "card").mkdir()
    order = order_for(tmp_path / "card")
    lane = replace(order.lane, device=replace(order.lane.device, name="cuda:0", kind="cuda"))
    order = replace(order, lane=lane, pace=pace)
    card = Player(HeatRunner(order, Limits(60.0, 1.0), 2, lambda _phase: None), lane.device)
    card.begin(Started(Child(lane.environment)))
    card.join()
    play_turns([card], pace)
    windows = heat_of(card).windows
    assert 4 * pace.measure_s < (windows[-1].end_ns - windows[0].start_ns) / 1e9 < 4.5 * pace.measure_s


def test_a_turn_that_was_disturbed_is_repeated_for_all(pair, monkeypatch):
    """As often as windows are run again elsewhere: three times."""
    seen = iter(["planted", None] * 2 + [None] * 100)
    for each in pair:
        monkeypatch.setattr(each.runner._watch._instruments, "judge", lambda _noise, _ns: next(seen))
    play_turns(pair, IN_TURNS)
    heats = [heat_of(each) for each in pair]
    assert [len(heat.windows) for heat in heats] == [6, 6]


def test_a_heat_that_was_abandoned_leaves_nothing(pair, house):
    """A paused process is still a process."""
    for each in pair:
        each.abandon()
        each.abandon()
    assert house.is_empty_within(10)


def test_a_heat_that_cannot_be_paused_is_over(pair, monkeypatch, house):
    """Its guardian does not answer. The other one goes on alone, and nothing is left."""
    monkeypatch.setattr("laptime.engine.run.child.PAUSE_S", 0.2)
    monkeypatch.setattr("laptime.engine.run.child.GUARDIAN_S", 0.2)
    stuck, other = pair
    os.kill(stuck.runner.child.pid, signal.SIGSTOP)
    play_turns(pair, IN_TURNS)
    dnf = stuck.leave()
    assert (dnf.phase, dnf.reason) == ("timing", "the heat's guardian did not answer SIGUSR2 within 0.2 s")
    assert len(heat_of(other).windows) >= 4
    assert house.is_empty_within(10)


def test_heats_of_inference_take_turns_part_by_part(tmp_path):
    """One lane runs out of memory at a size: it waits until the other has timed it, and both go on with the next."""
    pace = InferPace(1, 0.4, 0.1, 2.0, batches=(1, 8, 64), calls_min=4, windows_min=4, takes_turns=True)
    players = []
    for name, script in (("one", ""), ("other", 'fail = { how = "memory", phase = "batch 8" }')):
        (tmp_path / name).mkdir()
        order = InferOrder(order_for(tmp_path / name, script), pace)
        player = Player(InferenceRunner(order, Limits(60.0, 1.0), 2, lambda _phase: None), order.heat.lane.device)
        player.begin(Started(Child(order.heat.lane.environment)))
        player.join()
        players.append(player)
    play_parts(players)
    heats = [heat_of(each) for each in players]
    assert [heat.process.status for heat in heats] == ["ok", "ok"]
    calls, others = ([each.turn for each in heat.call_turns] for heat in heats)
    assert calls == others == list(range(len(calls)))
    assert all(sum(each.calls for each in heat.call_turns) == len(heat.calls_ns) for heat in heats)
    turns = [{run.batch: [window.turn for window in run.windows] for run in heat.batches} for heat in heats]
    assert turns[1][8] == []
    assert (turns[0][1], turns[0][64]) == (turns[1][1], turns[1][64])
    every = [*turns[0][1], *turns[0][8], *turns[0][64]]
    assert every == list(range(len(calls), len(calls) + len(every)))
    assert all(len(turns[0][size]) >= 4 for size in (1, 8, 64))
