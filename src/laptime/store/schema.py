"""The one shape in which a record is written, and the way from older shapes to it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from math import inf, isfinite, nan
from typing import Any

import msgspec

from laptime.errors import RecordError
from laptime.model.record import SCHEMA, Record

Tree = dict[str, Any]

UPGRADES: tuple[Callable[[Tree], Tree], ...] = ()
"""The function at place n turns schema n + 1 into schema n + 2."""

UNFINITE = {f"not a finite number: {value}": value for value in (nan, inf, -inf)}
HINT_DAMAGED = "The other records are not touched; `laptime list` shows them. Mend the file or delete it."
HINT_NEWER = "Upgrade: pip install --upgrade laptime"


def encode(record: Record) -> bytes:
    """Give the record as JSON, in the shape that other programs may rely on."""
    tree = msgspec.to_builtins(record)
    for heat in _heats(tree):
        heat["class"] = heat.pop("steady")
    return msgspec.json.encode(_without_unfinite(tree))


def decode(data: bytes, where: str) -> Record:
    """Read a record of this or an older schema; `where` is how an error names the file."""
    tree = _with_unfinite(_parse(data, where))
    if not isinstance(tree, dict) or not _is_count(tree.get("schema")):
        raise _damaged(where, "$.schema: expected the number of a schema")
    tree = upgrade(tree, where)
    for heat in _heats(tree):
        heat.pop("steady", None)
        if "class" in heat:
            heat["steady"] = heat.pop("class")
    return _to_record(tree, where)


def upgrade(tree: Tree, where: str, to: int = SCHEMA, upgrades: Sequence[Callable[[Tree], Tree]] = UPGRADES) -> Tree:
    """Bring a tree to schema `to` one step at a time; one from a newer laptime cannot be read."""
    found = tree["schema"]
    if found > to:
        says = f"{where} was written by a newer laptime (schema {found}; this one reads up to {to})"
        raise RecordError(says, HINT_NEWER)
    try:
        for step in upgrades[found - 1 : to - 1]:
            tree = step(tree)
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise _damaged(where, f"not of the shape of schema {found} ({error!r})") from error
    return {**tree, "schema": to}


def _parse(data: bytes, where: str) -> Any:
    try:
        return msgspec.json.decode(data)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _damaged(where, str(error)) from None


def _to_record(tree: Tree, where: str) -> Record:
    try:
        return msgspec.convert(tree, Record)
    except msgspec.ValidationError as error:
        expected, _, place = str(error).partition(" - at ")
        message = f"{place.strip('`') or '$'}: {expected[:1].lower()}{expected[1:]}"
        raise _damaged(where, re.sub(r"([.`])steady\b", r"\1class", message)) from None


def _damaged(where: str, why: str) -> RecordError:
    return RecordError(f"{where} cannot be read as a record: {why}", HINT_DAMAGED)


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 1


def _heats(tree: Tree) -> Iterator[Tree]:
    for lane in _parts(tree, "lanes"):
        yield from _parts(lane, "heats")


def _parts(tree: Tree, key: str) -> list[Tree]:
    """Give the objects of a list, without trusting that a hand-edited file has one."""
    found = tree.get(key)
    return [part for part in found if isinstance(part, dict)] if isinstance(found, list | tuple) else []


def _without_unfinite(value: Any) -> Any:
    """Write NaN and infinity as an absence with its reason: JSON has neither."""
    if isinstance(value, float):
        return value if isfinite(value) else {"missing": f"not a finite number: {value}"}
    return _each(value, _without_unfinite)


def _with_unfinite(value: Any) -> Any:
    if isinstance(value, dict) and len(value) == 1:
        reason = value.get("missing")
        return UNFINITE.get(reason, value) if isinstance(reason, str) else _each(value, _with_unfinite)
    return _each(value, _with_unfinite)


def _each(value: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(value, dict):
        return {key: change(part) for key, part in value.items()}
    if isinstance(value, list | tuple) and not _all_finite(value):
        return [change(part) for part in value]
    return value


def _all_finite(values: Sequence[Any]) -> bool:
    """Recognize a list of plain numbers quickly: a record may hold a million steps."""
    try:
        return all(map(isfinite, values))
    except (TypeError, OverflowError):
        return False
