"""The turns of a round that are taken again: which are kept, and what counts as an answer of laptime's own code."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest
from heat_orders import order_for

from laptime.engine import wire
from laptime.engine.run.replays import KEPT_BYTES_MOST, KeptTurns
from laptime.engine.run.runner import HeatRunner, Limits
from laptime.model.quantities import Missing
from laptime.model.sample import Window

TURNS, ROUNDS = 12, 300
CLOSED = wire.Closed(Window(0, 1, 5), 0.5)
FINISHED = wire.Finished(1 << 20, Missing("a processor"))
READY = wire.Ready()


class Keeping:
    """A heat that keeps what it is asked to keep, and has taken a turn of five steps each time."""

    is_over = False

    def __init__(self, order, size_bytes, reason=""):
        self.runner, self.kept = HeatRunner(order, Limits(), 2, lambda _: None), {}
        self._answer, self.turn = wire.TurnKept(size_bytes, reason), 0

    def ask(self, message, _wanted):
        self.kept[message.instead] = self.turn
        return self._answer


def keep_round(order, size_bytes, reason=""):
    base, other = Keeping(order, size_bytes, reason), Keeping(order, 1)
    kept = KeptTurns([base, other])
    for turn in range(TURNS):
        base.turn = other.turn = turn
        kept.after(turn)
    assert base.kept == other.kept
    return base.kept


def test_all_turns_are_kept_where_they_have_room(tmp_path):
    """So no heat learns from what is kept of it that nobody will look at its coming turns."""
    kept = keep_round(order_for(tmp_path), KEPT_BYTES_MOST // TURNS)
    assert kept == {place: place for place in range(TURNS)}


@pytest.mark.parametrize(("size_bytes", "room"), [(KEPT_BYTES_MOST // 4, 4), (KEPT_BYTES_MOST, 2)])
def test_beyond_that_each_turn_is_as_likely_to_be_kept_as_any_other(tmp_path, size_bytes, room):
    order = order_for(tmp_path)
    seen = Counter(turn for _ in range(ROUNDS) for turn in keep_round(order, size_bytes).values())
    assert seen.total() == room * ROUNDS
    usual = ROUNDS * room / TURNS
    assert all(0.4 * usual < seen[turn] < 1.8 * usual for turn in range(TURNS))


def test_where_the_base_keeps_none_nobody_is_asked_again(tmp_path):
    assert keep_round(order_for(tmp_path), 0, "it notes no turns") == {0: 0}


def test_the_turn_that_gained_most_is_drawn_most_often(tmp_path):
    """A candidate that does less in one turn of many gains by this one, and not by one that was disturbed."""
    base, other = (Keeping(order_for(tmp_path), 1) for _ in range(2))
    kept = KeptTurns([base, other])
    for turn in range(TURNS):
        its_ns, flag = {3: (60, None), 7: (20, "other processes computed")}.get(turn, (100, None))
        base.runner.retime([*base.runner.windows, Window(0, 100, 5)])
        other.runner.retime([*other.runner.windows, Window(0, its_ns, 5, flag=flag)])
        kept.after(turn)
    assert kept.gain == pytest.approx((TURNS - 1 + 100 / 60) / TURNS)
    drawn = [kept.draw(other) for _ in range(ROUNDS)]
    assert {len({*each}) for each in drawn} == {2}
    assert 0.65 * ROUNDS < sum(first == 3 for first, _ in drawn) < 0.9 * ROUNDS
    assert {first for first, _ in drawn} >= {0, 3, 7, TURNS - 1}


def test_where_most_turns_were_disturbed_they_have_to_do(tmp_path):
    """Next to other work every window had its flag, the first turn was drawn, and what began later was KEPT."""
    base, other = (Keeping(order_for(tmp_path), 1) for _ in range(2))
    kept = KeptTurns([base, other])
    for turn in range(TURNS):
        base.runner.retime([*base.runner.windows, Window(0, 100, 5, flag="other processes computed")])
        other.runner.retime([*other.runner.windows, Window(0, 50 if turn >= TURNS - 2 else 100, 5)])
        kept.after(turn)
    assert kept.gain == pytest.approx((TURNS + 2) / TURNS)
    assert sum(kept.draw(other)[0] >= TURNS - 2 for _ in range(ROUNDS)) > 0.65 * ROUNDS


@pytest.mark.parametrize(
    ("sent", "wanted", "is_laptimes"),
    [
        ([CLOSED, READY], wire.Closed, True),
        ([wire.Phase("replay", 0), wire.TurnReplayed(None), READY], wire.TurnReplayed, True),
        ([READY], None, True),
        ([FINISHED], wire.Finished, True),
        ([READY], wire.Closed, False),
        ([CLOSED, CLOSED, READY], wire.Closed, False),
        ([CLOSED, READY], wire.TurnKept, False),
        ([READY], wire.TurnShown, False),
        ([CLOSED, wire.TurnKept(), READY], wire.TurnKept, False),
        ([CLOSED, FINISHED], wire.Finished, False),
        ([FINISHED], wire.Closed, False),
        ([FINISHED], None, False),
    ],
)
def test_a_heat_for_which_other_code_answers_is_given_up(tmp_path, sent, wanted, is_laptimes):
    """It gave windows that never were, told its end as it was to show a turn, and was KEPT."""
    runner = HeatRunner(order_for(tmp_path), Limits(), 2, lambda _: None)
    for message in sent:
        if isinstance(message, wire.Finished):
            runner.finished = message
    runner.check_answers(sent, wanted)
    assert runner.is_over == (not is_laptimes or FINISHED in sent)
    assert (runner.breached == ()) == is_laptimes


def test_a_script_may_end_in_any_turn(tmp_path):
    order = order_for(tmp_path)
    script = replace(order, subject=replace(order.subject, command=("python", "train.py")))
    runner = HeatRunner(script, Limits(), 2, lambda _: None)
    runner.finished = FINISHED
    runner.check_answers([FINISHED], wire.Closed)
    assert runner.breached == ()
