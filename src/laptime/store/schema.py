"""The schema of a record: how it is written, checked when it is read, and upgraded from older schemas."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import chain
from math import inf, isfinite, nan
from typing import Any

import msgspec

from laptime.errors import RecordError
from laptime.model.installation import upgrade_command
from laptime.model.questions import find_question
from laptime.model.record import SCHEMA, Record
from laptime.store.sound import is_sound, list_faults
from laptime.store.upgrades import UPGRADES, Tree
from laptime.visible import encodable

ID = re.compile(r"r-\d{4}-\d\d-\d\d-[0-9a-f]{4,16}", re.ASCII)
"""The form of a record's id. An id becomes the name of files and folders, so an id from a file must have this form."""

DEEPEST = 64
MOST_PARTS = 500_000  # a record has one in some 80 bytes, so these would be 40 MB
LARGEST = 2**63
UNFINITE = {f"not a finite number: {value}": value for value in (nan, inf, -inf)}
UNFINITE_MARK = b"not a finite number"
DIGITS_AS_0 = bytes.maketrans(b"123456789", b"0" * 9)
LONG_NUMBER = b"0" * 19
LONG_FRACTION = b"." + LONG_NUMBER  # of any small figure: 0.0019999999999999996
HOLDERS = {dict, list}
HINT_MEMORY = "Free memory, or raise its limit: `ulimit -v`."
HINT_DAMAGED = "The other records are not touched; `laptime list` shows them. Repair the file or delete it."


def encode(record: Record) -> bytes:
    """Return a record as JSON, in the schema that other programs may rely on."""
    return msgspec.json.encode(as_json_holds(msgspec.to_builtins(record)))


def decode(data: bytes, where: str) -> Record:
    """Read a record of this or an older schema. `where` names the file in an error."""
    return decode_as_found(data, where)[1]


def decode_as_found(data: bytes, where: str) -> tuple[int, Record]:
    """Read a record, and return the schema of the file with it. It may take memory as its size allows, and no more."""
    try:
        return _decode_as_found(data, where)
    except MemoryError:
        raise RecordError(f"{where} cannot be read: the system refused the memory", HINT_MEMORY) from None


def _decode_as_found(data: bytes, where: str) -> tuple[int, Record]:
    tree = _parse(data, where)
    if not isinstance(tree, dict) or not _is_count(tree.get("schema")):
        raise _damaged(where, "expected the number of a schema", "$.schema")
    record = _to_record(upgrade(tree, where), where)
    if not ID.fullmatch(record.id):
        raise _damaged(where, "expected an id such as r-2026-11-20-a1b2", "$.id")
    for fault in () if is_sound(record) else list_faults(record):
        place, _, expected = fault.rpartition(": ")
        raise _damaged(where, expected, place)
    return tree["schema"], record


def upgrade(tree: Tree, where: str, to: int = SCHEMA, upgrades: Sequence[Callable[[Tree], Tree]] = UPGRADES) -> Tree:
    """Upgrade a tree to schema `to`, one schema at a time. A newer laptime's record is refused."""
    found = tree["schema"]
    if found > to:
        says = f"{where} was written by a newer laptime (schema {found}; this one reads up to {to})"
        raise RecordError(says, f"Upgrade: {upgrade_command()}")
    try:
        for step in upgrades[found - 1 : to - 1]:
            tree = step(tree)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(where, f"not of the shape of schema {found} ({error!r})") from error
    return {**tree, "schema": to}


def _parse(data: bytes, where: str) -> Any:
    if data.count(b"[") + data.count(b"{") > MOST_PARTS:  # an empty list has 2 bytes here, and takes 64 in memory
        raise _damaged(where, f"it has more than {MOST_PARTS:,} lists and objects")
    try:
        tree = msgspec.json.decode(data)
        return tree if _is_plain(data, tree) else _with_unfinite(tree)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError, OverflowError) as error:
        raise _damaged(where, str(error)) from None


def _to_record(tree: Tree, where: str) -> Record:
    """Convert the answer to the type of the record's question, and then the rest."""
    answer = tree.get("answer")
    try:
        kind = find_question(str(tree.get("question"))).answer
        made = msgspec.convert(answer, kind)
    except LookupError as error:
        raise _damaged(where, str(error.args[0]), "$.question") from None
    except msgspec.ValidationError as error:
        raise _damaged(where, *_in_words(error, "$.answer")) from None
    try:
        return msgspec.convert({**tree, "answer": made}, Record, dec_hook=_keep)
    except msgspec.ValidationError as error:
        raise _damaged(where, *_in_words(error, "$")) from None


def _keep(_kind: type, value: Any) -> Any:
    """Return the answer as it is: it is converted already."""
    return value


def _in_words(error: msgspec.ValidationError, root: str) -> tuple[str, str]:
    """Return what was expected, and where in the file."""
    expected, _, place = str(error).partition(" - at ")
    inside = place.strip("`").removeprefix("$")
    return f"{expected[:1].lower()}{expected[1:]}", f"{root}{inside}"


def _damaged(where: str, why: str, place: str = "") -> RecordError:
    told = f"{place}: {why}" if place else why
    # A package that is installed later may bring the question.
    return RecordError(
        f"{where} cannot be read as a record: {told}", HINT_DAMAGED, place, is_lasting=place != "$.question"
    )


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def as_json_holds(value: Any) -> Any:
    """Replace what JSON cannot hold: NaN and infinity by a missing value with a reason, invalid text by escapes."""
    if isinstance(value, float):
        return value if isfinite(value) else {"missing": f"not a finite number: {value}"}
    if isinstance(value, str):
        return encodable(value)
    if isinstance(value, dict):
        return {encodable(str(key)): as_json_holds(part) for key, part in value.items()}
    return [as_json_holds(part) for part in value] if _has_parts(value) else value


def _is_plain(data: bytes, tree: Any) -> bool:
    """Whether a file is not nested too deep, has no number that is not finite, and none of more than 64 bits."""
    if UNFINITE_MARK in data or LONG_NUMBER in data.translate(DIGITS_AS_0).replace(LONG_FRACTION, b"."):
        return False
    level = [tree] if type(tree) in HOLDERS else []
    for _ in range(DEEPEST):
        held = chain.from_iterable(part.values() if type(part) is dict else part for part in level)
        level = [part for part in held if type(part) in HOLDERS]
        if not level:
            return True
    return False


def _with_unfinite(value: Any, deep: int = 0) -> Any:
    if deep > DEEPEST:
        raise RecursionError(f"it is nested more than {DEEPEST} deep")
    if isinstance(value, dict):
        reason = value.get("missing") if len(value) == 1 else None
        if isinstance(reason, str):
            return UNFINITE.get(reason, value)
        return {key: _with_unfinite(part, deep + 1) for key, part in value.items()}
    if isinstance(value, int) and abs(value) > LARGEST:
        raise OverflowError("a whole number has more than 64 bits")
    return [_with_unfinite(part, deep + 1) for part in value] if _has_parts(value) else value


def _has_parts(value: Any) -> bool:
    return isinstance(value, list | tuple) and not _all_finite(value)


def _all_finite(values: Sequence[Any]) -> bool:
    """Whether all are finite numbers. This must be fast: a record may hold a million steps."""
    try:
        return not values or (all(map(isfinite, values)) and min(values) >= -LARGEST and max(values) <= LARGEST)
    except (TypeError, OverflowError):
        return False
