"""Ways to damage a record's file: its bytes, or one place of its tree, drawn evenly over all fields."""

from __future__ import annotations

import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Any

Path = tuple[str | int, ...]
ESCAPE = "\x1b]0;title\x07\x1b[8mhidden\x1b[0m\x9b31m\u202eright to left\x7f\b"

NUMBERS = (0, -1, 1, 2, 0.0, -0.5, 5e-324, 1e-300, 1e308, -1e308, 2**63 - 1, -(2**63), 2**64, 10**30, 10**400)
TEXTS = ("", " ", ESCAPE, "x" * 5_000, "../../x", "/etc/passwd", "a\nb\tc\r", "训练" * 30, "%s{}", "\x00", "NaN")
ODD = (None, True, False, 0, -1.5, "", "text", [], {}, [[]], [None], {"missing": "m"}, {"missing": ESCAPE}, [0, 0])
UNFINITE = tuple({"missing": f"not a finite number: {value}"} for value in ("nan", "inf", "-inf"))
DEEP = 500


def fields_of(tree: Any) -> dict[Path, list[Path]]:
    """Return every place of a tree by its field: the places of a list are one field."""
    found: dict[Path, list[Path]] = defaultdict(list)
    for path in _places(tree):
        found[tuple("*" if isinstance(each, int) else each for each in path)].append(path)
    return dict(found)


def damaged_tree(tree: Any, path: Path, dice: random.Random) -> tuple[str, Any]:
    """Return what was done, and a copy of the tree with one place damaged."""
    kind = dice.choice(list(TREE_DAMAGES))
    copied = json.loads(json.dumps(tree))
    held = copied
    for key in path[:-1]:
        held = held[key]
    TREE_DAMAGES[kind](held, path[-1], dice)
    return kind, copied


def damaged_bytes(data: bytes, dice: random.Random) -> tuple[str, bytes]:
    kind = dice.choice(list(BYTE_DAMAGES))
    return kind, BYTE_DAMAGES[kind](data, dice)


def plant(value: Any, text: str) -> Any:
    """Put a text before every string of a tree but those that choose between shapes of a record."""
    if isinstance(value, dict):
        return {key: part if key in CHOOSING else plant(part, text) for key, part in value.items()}
    if isinstance(value, list):
        return [plant(part, text) for part in value]
    return text + value if isinstance(value, str) else value


CHOOSING = {
    "schema", "id", "status", "question", "kind", "preset", "precision", "execution", "layout", "optimizer", "malloc",
    "input", "denormals", "reads", "verdict", "sure", "counted", "standing", "stage", "of", "where", "binds", "peaks",
    "first", "mode", "role", "growth", "changes", "aim", "over", "steps", "part",
}  # fmt: skip


def _places(tree: Any, path: Path = ()) -> Iterator[Path]:
    inside = tree.items() if isinstance(tree, dict) else enumerate(tree) if isinstance(tree, list) else ()
    for key, value in inside:
        yield (*path, key)
        yield from _places(value, (*path, key))


def _same_type(held: Any, key: Any, dice: random.Random) -> None:
    """Another value of the same type: what a schema cannot tell from a sound one."""
    value = held[key]
    if isinstance(value, bool):
        held[key] = not value
    elif isinstance(value, int | float):
        held[key] = dice.choice((*NUMBERS, *UNFINITE, value * 2, -value, value + 1))
    elif isinstance(value, str):
        held[key] = dice.choice((*TEXTS, ESCAPE + value))
    elif isinstance(value, list):
        held[key] = dice.choice(([], value[:1], value * 2, value[::-1], value[1:]))
    elif isinstance(value, dict):
        held[key] = dice.choice(({}, dict(list(value.items())[:1]), {**value, ESCAPE: 1}, {ESCAPE: value}))
    else:
        held[key] = dice.choice(ODD)


def _any_type(held: Any, key: Any, dice: random.Random) -> None:
    held[key] = dice.choice(ODD)


def _gone(held: Any, key: Any, _dice: random.Random) -> None:
    del held[key]


def _deep(held: Any, key: Any, dice: random.Random) -> None:
    nested: Any = held[key]
    for _ in range(DEEP):
        nested = [nested] if dice.random() < 0.5 else {"a": nested}
    held[key] = nested


def _swapped(held: Any, key: Any, dice: random.Random) -> None:
    other = dice.choice(list(held) if isinstance(held, dict) else range(len(held)))
    held[key], held[other] = held[other], held[key]


def _nothing(held: Any, key: Any, dice: random.Random) -> None:
    """A number that is 0 or less; of anything else, an empty one."""
    value = held[key]
    number = isinstance(value, int | float) and not isinstance(value, bool)
    held[key] = dice.choice((0, 0.0, -1, -0.5)) if number else {str: "", list: [], dict: {}}.get(type(value))


TREE_DAMAGES: dict[str, Callable[[Any, Any, random.Random], None]] = {
    "same type": _same_type,
    "same type, again": _same_type,
    "nothing": _nothing,
    "nothing, again": _nothing,
    "any type": _any_type,
    "gone": _gone,
    "nested": _deep,
    "swapped": _swapped,
}


def _flipped(data: bytes, dice: random.Random) -> bytes:
    changed = bytearray(data)
    for _ in range(dice.choice((1, 1, 3, 20))):
        changed[dice.randrange(len(changed))] ^= 1 << dice.randrange(8)
    return bytes(changed)


def _not_utf8(data: bytes, dice: random.Random) -> bytes:
    at = dice.randrange(len(data))
    return data[:at] + dice.choice((b"\xff", b"\x80", b"\xed\xa0\x80", b"\x00", b"\xc3")) + data[at:]


BYTE_DAMAGES: dict[str, Callable[[bytes, random.Random], bytes]] = {
    "cut off": lambda data, dice: data[: dice.randrange(len(data))],
    "bits flipped": _flipped,
    "not UTF-8": _not_utf8,
    "zeros": lambda data, dice: data[: (at := dice.randrange(len(data)))] + bytes(len(data) - at),
}
