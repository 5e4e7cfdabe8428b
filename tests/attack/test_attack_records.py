"""Damaged records: each is refused in words or shown, and nothing that steers a terminal comes out.

Two dozen of each kind are tried, and of a third of the kinds a day in `make test`; LAPTIME_ATTACK=long tries 10,000 and
more, over every place of every record.
"""

from __future__ import annotations

import json
import os
import random
import signal
import traceback
from dataclasses import replace

import full_records
import pytest
from attacking import IS_LONG, in_thirds, third
from damage import damaged_bytes, damaged_tree, fields_of
from sound_records import literals, raced
from steering import OURS, STEERING

from house import House
from laptime.api import showing
from laptime.cli.printing import printable
from laptime.model.errors import RecordError
from laptime.show import listing
from laptime.store.exchange import import_records, validate
from laptime.store.files import row_of
from laptime.store.schema import ID, decode

SEED = int(os.environ.get("LAPTIME_SEED", "0"))
OF_EACH_KIND = 800 if IS_LONG else 20
CHECKED_OF_EACH_KIND = 400 if IS_LONG else 5
LONGEST_S = 5.0


@pytest.fixture(scope="module")
def kinds(made_once, torch_cache):
    """Return sound records by their kind: literals, and what real races leave behind."""

    def race(folder):
        house = House(folder)
        house.cache = torch_cache
        return {name: data.decode() for name, data in raced(house, long=IS_LONG).items()}

    return literals() | {name: text.encode() for name, text in made_once("attacked", race).items()}


@pytest.fixture(params=[0] if IS_LONG else in_thirds())
def sound(request, kinds):
    """Return those that are tried at once: by default a third."""
    return kinds if IS_LONG else dict(third(request.param, [*kinds.items()]))


class Slow(BaseException):
    """A page took too long."""


def too_slow(_number, _frame):
    raise Slow


def outcome(data: bytes) -> str:
    """Do with a record all that laptime does with one that is only looked at."""
    try:
        record = decode(data, "the file")
    except RecordError as error:
        if STEERING.search(printable(str(error))):
            raise AssertionError("a control character in the error") from error
        return "refused on load"
    json.loads(showing.as_json(record))
    row = row_of("r-2026-11-20-a1b2", record)
    texts = [listing.records_as_text([row], 80), showing.to_json([row])]
    for width, details in ((80, True), (120, True), (100, False)):
        texts.append(showing.as_text(record, showing.View(width, details=details)))
        view = showing.View(width, color=True, blocks=False, details=details)
        colored = printable(showing.as_text(record, view), color=True)
        assert not STEERING.search(OURS.sub("", colored)), "a control character"
        assert "\x1b[8m" not in colored
    assert not any(STEERING.search(printable(text)) for text in texts), "a control character"
    return "shown"


def try_one(data: bytes) -> str:
    """Return what came of it; a fault with the last lines of its traceback."""
    signal.setitimer(signal.ITIMER_REAL, LONGEST_S)
    try:
        return outcome(data)
    except RecordError as error:
        return f"NOT SHOWN: {error.says} {''.join(traceback.format_tb(error.__cause__.__traceback__)[-2:])}"
    except (Exception, Slow) as error:  # noqa: BLE001  whatever it is, it is a finding
        return f"FAULT: {error!r} {''.join(traceback.format_tb(error.__traceback__)[-2:])}"
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


@pytest.fixture(autouse=True)
def alarm():
    """Let a page that takes too long be a fault and not a hang."""
    before = signal.signal(signal.SIGALRM, too_slow)
    yield
    signal.signal(signal.SIGALRM, before)


def damaged(data: bytes, dice: random.Random, count: int):
    """Return damaged copies of one record, drawn evenly over all its fields, and what was done."""
    tree = json.loads(data)
    fields = fields_of(tree)
    chosen = dice.sample(sorted(fields), min(count, len(fields)))
    chosen += dice.choices(sorted(fields), k=max(0, count - len(chosen)))
    for field in chosen:
        done, changed = damaged_tree(tree, dice.choice(fields[field]), dice)
        yield f"{'.'.join(field)}: {done}", json.dumps(changed).encode()
    for _ in range(count // 5):
        yield damaged_bytes(data, dice)


def test_a_page_that_fails_all_the_same_is_a_sentence():
    """The net below all checks: here a lap without steps, which no file can bring this far."""
    lap = replace(full_records.laps(1.0)[0], steps=0)
    broken = full_records.full((replace(full_records.run("torch/cpu/best", 0), laps=(lap,)),))
    with pytest.raises(RecordError, match=r"this record cannot be shown: .*ZeroDivisionError"):
        showing.as_text(broken, showing.View(80, details=True))


def test_no_damage_breaks_a_page(sound, tally):
    """No traceback, no page that fails for one figure, no control character, no page that takes seconds."""
    tally.what = f"damaged records of {len(sound)} kinds"
    dice, shown = random.Random(SEED), 0
    for name, data in sound.items():
        assert try_one(data) == "shown", (name, try_one(data))
        for done, changed in damaged(data, dice, OF_EACH_KIND):
            answer = try_one(changed)
            shown += answer == "shown"
            tally.note(f"seed {SEED}, {name}, {done}: {answer}" if ":" in answer else None)
    tally.check(least=len(sound) * OF_EACH_KIND)
    assert 0 < shown < tally.tried


def test_no_damage_breaks_a_check_or_an_import(sound, tally, tmp_path, monkeypatch):
    """Each file is valid and comes in, or is refused in words; nothing is written outside the store."""
    monkeypatch.setenv("LAPTIME_HOME", str(tmp_path / "home"))
    tally.what = "damaged files that were checked and imported"
    dice, place = random.Random(SEED + 1), tmp_path / "damaged.json"
    for name, data in sound.items():
        for done, changed in damaged(data, dice, CHECKED_OF_EACH_KIND):
            place.write_bytes(changed)
            tally.note(fault_of_check(place, f"seed {SEED}, {name}, {done}"))
    tally.check(least=len(sound) * CHECKED_OF_EACH_KIND)
    assert {each.name for each in tmp_path.iterdir()} <= {"damaged.json", "home"}
    here = [each.stem for each in (tmp_path / "home").rglob("*") if each.is_file()]
    assert here
    assert all(ID.fullmatch(each) for each in here)


def fault_of_check(place, what: str) -> str | None:
    """Return what went wrong: an error that is not in words, a control character, or two answers that differ."""
    try:
        (check,) = validate([str(place)])
        told = printable(showing.checks_as_text([check], 80))
        if STEERING.search(told):
            return f"{what}: a control character in {told!r}"
    except Exception as error:  # noqa: BLE001  whatever it is, it is a finding
        return f"{what}: validate: {error!r}"
    try:
        import_records([str(place)])
    except RecordError as error:
        is_other = "other content" in error.says or "still runs" in error.says
        return None if is_other or not check.valid else f"{what}: valid, and {error.says}"
    except Exception as error:  # noqa: BLE001
        return f"{what}: import: {error!r}"
    return None if check.valid else f"{what}: not valid, and imported"
