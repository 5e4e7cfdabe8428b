"""Anything may be written to the socket of a watched script: laptime refuses it, or has a record and a page of it."""

from __future__ import annotations

import json
import struct
from typing import Any

import pytest
import watch_records
from hypothesis import given, settings
from hypothesis import strategies as st

from laptime.attach import kinds
from laptime.attach.listener import Mailbox
from laptime.model.watched import WatchAnswer
from laptime.questions.watch import page as watch
from laptime.questions.watch.run import Visitors
from laptime.show.pages.page import View
from laptime.store import schema

HELLO = {**watch_records.HELLO, "began_ns": 1, "rank": None, "world": None}
FACTS: list[dict[str, Any]] = [
    HELLO,
    watch_records.OPTIMIZER,
    watch_records.LOADER,
    {"steps_loader": 3, "batches": 7},
    {"keras_batch": 32, "keras_data": "ArrayDataAdapter"},
    {"denormals": {"weights": 0.5}, "is_flushed": False, "at_step": 64},
    {"is_failed": "epochs", "error": "AttributeError: no batch_size"},
    {"is_leaving": True, "lost": 3},
]
VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=5)
    | st.sampled_from(["\x1b[2J", "²", "9" * 5000, "\ud800", 10**400, -1, 1e300]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=4,
)
EVENTS = st.lists(
    st.tuples(
        st.integers(-2, 600) | st.sampled_from([*range(1, 14)] * 4),
        st.integers(0, 1000) | st.sampled_from([-(2**63), 2**63 - 1, 10**12]),
        st.integers(0, 1000) | st.sampled_from([-(2**63), 2**63 - 1, 10**12]),
        st.sampled_from([0, 1, -1, 2**63 - 1, -(2**63), 1 << kinds.ITEMS_SHIFT | 8, kinds.AS_BEFORE]),
    ),
    max_size=30,
)


def message(kind: bytes, body: bytes) -> bytes:
    return struct.pack(kinds.MESSAGE_HEAD, kind, len(body)) + body


def facts_message(facts: object) -> bytes:
    return message(kinds.FACTS, json.dumps(facts).encode())


def events_message(events: list[tuple[int, int, int, int]]) -> bytes:
    return message(kinds.EVENTS, b"".join(struct.pack(kinds.EVENT, *each) for each in events))


def take(*messages: bytes) -> Visitors:
    """Take messages of one connection, up to the first that is refused; what was taken has a record and a page."""
    visitors = Visitors()
    mailbox = Mailbox(visitors)
    for each in messages:
        if not mailbox.take(each):
            break
    processes = tuple(each.process() for each in visitors.readers.values())
    record = watch_records.watched(WatchAnswer(("python",), 0, 1.0, processes))
    kept = schema.encode(record)
    assert schema.encode(schema.decode(kept, "here")) == kept  # a loss may be NaN, which is not equal to itself
    assert "\x1b" not in "\n".join(watch.PART.render(record, View(80, details=True)))
    return visitors


@settings(max_examples=150, deadline=None)
@given(st.integers(0, len(FACTS) - 1), st.integers(0, 10), VALUES, EVENTS)
def test_a_field_of_any_type_is_refused_or_shown(row: int, field: int, value: object, events: Any) -> None:
    facts = FACTS[row]
    name = list(facts)[field % len(facts)]
    loop = [(kinds.BACKWARD, 10 * at, 10 * at + 5, 0) for at in range(4)]
    take(
        *map(facts_message, FACTS[:row]),
        facts_message({**facts, name: value}),
        *map(facts_message, FACTS[row + 1 :]),
        events_message(loop),
        events_message(events),
    )


@pytest.mark.parametrize(
    "garbage",
    [
        b"",
        b"x" * 100,
        b"[" * 100_000,
        b'{"a":' * 100_000,
        b"[1, 2]",
        b"9" * 5000,
        b"\xff\xfe",
        json.dumps({**HELLO, "pid": float("inf")}).encode(),
        json.dumps({**HELLO, "versions": "none"}).encode(),
        json.dumps({**HELLO, "parent": "1"}).encode(),
    ],
    ids=range(10),
)
def test_what_is_no_message_ends_its_connection_only(garbage: bytes) -> None:
    """As the first message, nothing is known; after a greeting, all that came before is kept."""
    assert take(message(kinds.FACTS, garbage)).readers == {}
    known = take(facts_message(HELLO), facts_message(watch_records.OPTIMIZER), message(kinds.FACTS, garbage))
    (reader,) = known.readers.values()
    assert reader.process().optimizers[0].name == "AdamW"


def test_a_rank_that_is_no_number_is_none() -> None:
    """The environment variable may be another program's."""
    (reader,) = take(facts_message({**HELLO, "rank": "²", "world": "many"})).readers.values()
    assert (reader.process().rank, reader.process().world) == (None, None)
