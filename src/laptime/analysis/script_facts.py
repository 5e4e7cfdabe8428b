"""Facts, as they came over the socket of a watched script -> nouns of ours.

Any program of this user can write to that socket. So each field has the type that an agent sends, and a size that a
record can hold, or all of the message is refused (`ValueError`), and with it the connection.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import isfinite
from typing import Any, TypeVar

from laptime.model.script import SeenLoader, SeenOptimizer
from laptime.model.symptoms import DenormalCensus
from laptime.visible import encodable, visible

T = TypeVar("T")
WHOLE_MOST = 1 << 62
COUNT_MOST = 1 << 32  # items of a batch, batches, workers
TEXT_MOST = 4096
SOME_MOST = 1024  # entries of a list or a table
RANK_DIGITS = 9


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a process says of itself when it greets."""

    pid: int
    began_ns: int
    parent: int
    python: str
    executable: str
    versions: dict[str, str]
    rank: int | None
    world: int | None


def read_hello(facts: Mapping[str, Any]) -> Greeting:
    """Return who greets. A rank that is no number is none: the variable may be another program's."""
    return Greeting(
        pid=whole(facts.get("pid")),
        began_ns=whole(facts.get("began_ns", 0)),
        parent=whole(facts.get("parent")),
        python=text(facts.get("python")),
        executable=text(facts.get("executable")),
        versions=_table(facts.get("versions"), text),
        rank=_number(facts.get("rank")),
        world=_number(facts.get("world")),
    )


def read_optimizer(facts: Mapping[str, Any]) -> SeenOptimizer:
    dtypes = facts.get("dtypes")
    if not isinstance(dtypes, list) or len(dtypes) > SOME_MOST:
        raise _unexpected(dtypes, "a list")
    return SeenOptimizer(
        text(facts.get("name")), _table(facts.get("parameters"), whole), tuple(text(each) for each in dtypes)
    )


def read_loader(facts: Mapping[str, Any]) -> SeenLoader:
    """Return a loader. A script's own loader may have attributes of any type: what is no number is not known."""
    return SeenLoader(
        batch=count_or_none(facts.get("batch_size")),
        batches=count_or_none(facts.get("batches")),
        workers=count_or_none(facts.get("num_workers")),
        pins_memory=_flag(facts.get("pin_memory")),
        keeps_workers=_flag(facts.get("persistent_workers")),
        prefetched=count_or_none(facts.get("prefetch_factor")),
    )


def read_census(facts: Mapping[str, Any]) -> DenormalCensus:
    shares = _table(facts.get("denormals"), real)
    if not shares or not all(0 <= share <= 1 for share in shares.values()):
        raise _unexpected(shares, "shares")
    return DenormalCensus(shares, flushed=facts.get("is_flushed") is True, step=whole(facts.get("at_step")))


def read_skipped(facts: Mapping[str, Any]) -> dict[int, int]:
    """Return how many events of each kind were not sent."""
    return {whole(_number(kind)): whole(count) for kind, count in _table(facts.get("skipped"), whole).items()}


def whole(value: object) -> int:
    """Return a whole number that is not negative; raise ValueError if it is none."""
    if type(value) is not int or not 0 <= value < WHOLE_MOST:
        raise _unexpected(value, "a whole number")
    return value


def whole_or_none(value: object) -> int | None:
    """Return a whole number that is not negative; None if it is none."""
    return value if type(value) is int and 0 <= value < WHOLE_MOST else None


def count_or_none(value: object) -> int | None:
    """Return how many; None if that is no number, or one that cannot be."""
    found = whole_or_none(value)
    return found if found is not None and found <= COUNT_MOST else None


def real(value: object) -> float:
    """Return a number; raise ValueError if it is none, or not finite."""
    if type(value) not in {int, float} or not isfinite(value):  # type: ignore[arg-type]
        raise _unexpected(value, "a number")
    return float(value)  # type: ignore[arg-type]


def text(value: object) -> str:
    """Return a text that a terminal may show and JSON can hold; raise ValueError if it is none."""
    if not isinstance(value, str):
        raise _unexpected(value, "a text")
    return encodable(visible(value[:TEXT_MOST]))


def _table(value: object, read: Callable[[object], T]) -> dict[str, T]:
    if not isinstance(value, dict) or len(value) > SOME_MOST:
        raise _unexpected(value, "a table")
    return {text(name): read(each) for name, each in value.items()}


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= RANK_DIGITS:
        return int(value)
    return None


def _unexpected(value: object, wanted: str) -> ValueError:
    return ValueError(f"{str(value)[:40]!a} came, and {wanted} was expected")
