"""A record is data: what it names is started only if this user made it here, or says that it is trusted."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from itertools import zip_longest

from laptime.errors import UsageError
from laptime.model.plan import Subject
from laptime.model.record import Record

SHOWN_MOST = 1_500  # characters: an error is cut at 2,000, and what is cut could hide the worst part


def check_trusted(record: Record, trusted: str | None, *, is_ours: bool) -> None:
    """Refuse to start what a record names, unless it is this user's or `trusted` is its id."""
    if trusted is not None and trusted != record.id:
        says = f"--trust names {trusted}, and the record is {record.id}"
        raise UsageError(says, f"If you trust it: --trust {record.id}")
    if is_ours or trusted:
        return
    starts = "; ".join(describe_start(record))
    if len(starts) > SHOWN_MOST:
        starts = f"more than fits here, {len(starts)} characters; read it whole: laptime show {record.id} --json"
    raise UsageError(
        f"{record.id} bears no signature of yours: it was made elsewhere, by another user, or by an older laptime. "
        f"It would start {starts}",
        f"If you trust all of that: --trust {record.id}",
    )


def describe_start(record: Record) -> Iterator[str]:
    """Yield all that a record would start, open or reach if it were run again, whole."""
    ask = record.ask
    if ask.command:
        yield f"the command: {shlex.join(ask.command)}"
    subjects = (record.workload, *(each.subject for each in record.others))
    for what, subject in zip_longest((ask.what, *ask.others), subjects):
        yield _describe_training(what, subject)
    if ask.data is not None:
        yield f"on the data in {shlex.quote(ask.data)}"
    if ask.on is not None:
        yield f"on the cluster {shlex.quote(ask.on)}"
    lanes = ", ".join(dict.fromkeys(lane.name for lane in record.lanes))
    yield f"on {lanes or 'no lane'}"


def _describe_training(what: str | None, subject: Subject | None) -> str:
    if subject is not None and subject.command:
        return f"the command: {shlex.join(subject.command)}"
    if subject is not None and subject.file is not None:
        return f"the code of {shlex.quote(subject.file)} ({what})"
    return f"the training {what}"
