"""`LANE/tuned`: the settings that the newest tuning of this training found on this lane, if they still hold."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from laptime.errors import UsageError
from laptime.machine import CardSearch, add_cards, look_at_machine
from laptime.model.ask import Ask
from laptime.model.lane import AS_WRITTEN, Lane
from laptime.model.machine import Machine
from laptime.model.questions import TuneAnswer
from laptime.model.record import Record, RecordRow
from laptime.planner.lanes import GPU, parse_lane
from laptime.planner.settings import SETTINGS, TUNED, find_setting
from laptime.questions.tune.lanes import BATCH, RATE
from laptime.questions.tune.nouns import TunedLane


def with_winners(ask: Ask, rows: Callable[[], Sequence[RecordRow]], load: Callable[[str], Record | None]) -> Ask:
    """Return the ask with the settings of winners in place of `tuned`.

    `rows` lists the records, newest first; `load` returns None for one that this user did not make here.
    """
    if not any(map(_is_tuned, ask.lanes)):
        return ask
    machine, kept = look_at_machine(), [each for each in rows() if each.question == "tune" and not each.unreadable]
    if any(_is_tuned(text) and parse_lane(_without(text)).device != "cpu" for text in ask.lanes):
        machine = add_cards(machine, CardSearch().end(ask.patience_s))
    return replace(ask, lanes=tuple(_settled(text, ask, machine, kept, load) for text in ask.lanes))


def _is_tuned(text: str) -> bool:
    return TUNED in text.rpartition("/")[2].split("+")


def _without(text: str) -> str:
    """Return the lane without the word."""
    place, _, words = text.rpartition("/")
    kept = [word for word in words.split("+") if word != TUNED]
    return "/".join(filter(None, (place, "+".join(kept))))


def _settled(
    text: str, ask: Ask, machine: Machine, rows: Sequence[RecordRow], load: Callable[[str], Record | None]
) -> str:
    """Return the lane with the settings of its winner; what the lane names itself stays."""
    if not _is_tuned(text):
        return text
    lane = parse_lane(_without(text))
    if lane.preset != AS_WRITTEN:
        raise UsageError(f"lane '{text}': {lane.preset} and {TUNED} both name all settings", "name one of them")
    again = f"laptime tune {ask.what} {lane.framework}{'' if lane.device is None else f'/{lane.device}'}"
    for row in rows:
        record = load(row.id)
        if record is not None and (found := _winner(record, ask.what, lane)) is not None:
            record, winner = found
            if (why := _why_outdated(record, lane, machine)) is not None:
                raise UsageError(f"lane '{text}': it was tuned in {record.id}, but {why}", f"tune it again: {again}")
            break
    else:
        raise UsageError(f"lane '{text}': no tuning of {ask.what} on it was confirmed here", again)
    own = {name for name, _ in lane.overrides}
    own |= {RATE} if BATCH in own else set()  # a winner's learning rate is that of the winner's batch
    gained = winner.words if winner.standing == "confirmed" else ()
    words = [word for word in gained if (named := find_setting(word)) is None or named[0].name not in own]
    settings = "+".join((*(SETTINGS[name].written(value) for name, value in lane.overrides), *words))
    return "/".join(filter(None, (lane.framework, lane.device or winner.asked.split("/")[1], settings)))


def _winner(record: Record, what: str, lane: Lane) -> tuple[Record, TunedLane] | None:
    """Return the winner of a lane as written, if the record has one of this training."""
    answer = record.answer
    if not isinstance(answer, TuneAnswer) or answer.tuning is None or record.ask.what != what:
        return None
    for each in answer.tuning.lanes:
        framework, device, words = each.asked.split("/", 2)
        is_here = lane.device in {None, device, device.partition(":")[0]} or (lane.device == GPU and device != "cpu")
        if (
            framework == lane.framework
            and is_here
            and words == AS_WRITTEN
            and each.standing in {"confirmed", "no gain"}
        ):
            return record, each
    return None


def _why_outdated(record: Record, lane: Lane, machine: Machine) -> str | None:
    """Return what has changed since the record, if that may change which settings are best."""
    before, now = record.machine.processor, machine.processor
    if (before.name, before.cores_usable) != (now.name, now.cores_usable):
        return f"on {before.cores_usable} cores of {before.name}, and these are {now.cores_usable} of {now.name}"
    had, has = (each.framework(lane.framework) for each in (record.machine, machine))
    if had is None or has is None or had.version != has.version:
        versions = ["none" if each is None else each.version for each in (had, has)]
        return f"with {lane.framework} {versions[0]}, and this is {versions[1]}"
    if lane.device != "cpu" and _cards(record.machine) != _cards(machine):
        return "with other cards"
    return None


def _cards(machine: Machine) -> list[str]:
    return sorted(str(each.name) for each in machine.cards)
