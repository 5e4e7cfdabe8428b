"""The state of each session of verdicts: one small file, changed by one process at a time.

It is written whole under a digest before what it says is used. So a killed verdict, or two at once, never spend less
than they use, and a damaged file is never taken for a new session.
"""

from __future__ import annotations

import contextlib
import hashlib
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import msgspec

from laptime.model.errors import RecordError, StoreError
from laptime.questions.verdict.nouns import SessionState
from laptime.store import lock
from laptime.store.disk import read_regular, remove_stale, write_atomically
from laptime.store.files import SAVING_REASONS
from laptime.store.index import home_folder

FORM = b"laptime session 1\n"
STATE_NAME = "state"
STATE_MOST_BYTES = 2**20
LOCKED_MOST_S = 20.0  # another process holds the lock for as long as it takes to write a small file
LOCK_TRIED_EVERY_S = 0.01


def update_session(name: str, change: Callable[[SessionState], SessionState]) -> SessionState:
    """Change the state of a session and return it, once it is on the disk. A session that nobody began is new."""
    # A path with a readable name. The digest separates sessions whose names become the same here.
    plain = re.sub(r"[^A-Za-z0-9.-]+", "-", name)[:60].strip("-.") or "session"
    path = home_folder() / "sessions" / f"{plain}-{hashlib.sha256(name.encode()).hexdigest()[:16]}" / STATE_NAME
    try:
        with _locked(path.parent):
            state = change(_load(name, path))
            remove_stale(path.parent)
            line = msgspec.json.encode(state)
            write_atomically(path, b"\n".join([_digest(line), line]))
    except OSError as error:
        reason = SAVING_REASONS.get(error.errno or 0) or error.strerror or str(error)
        says = f"the session {name} cannot be kept in {path.parent}: {reason}"
        raise StoreError(says, "Make room there, or set LAPTIME_HOME to a folder that can be written.") from error
    return state


def _load(name: str, path: Path) -> SessionState:
    """Return the state that is kept. Refuse what laptime did not write so: its verdicts would share no error."""
    try:
        digest, _, line = read_regular(path, STATE_MOST_BYTES).partition(b"\n")
    except FileNotFoundError:
        return SessionState(name)
    except OSError as error:
        raise _refused(name, path, error.strerror or str(error)) from error
    if digest != _digest(line):
        raise _refused(name, path, "it is damaged")
    try:
        state = msgspec.json.decode(line, type=SessionState)
    except (msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise _refused(name, path, "another version of laptime wrote it") from error
    if state.name != name:
        raise _refused(name, path, f"it is of the session {state.name}")
    return state


def _refused(name: str, path: Path, why: str) -> RecordError:
    return RecordError(
        f"the session {name} cannot go on with {path}: {why}",
        "Restore the file, or begin another session: --session OTHER-NAME. A new session knows no verdict of this one.",
    )


def _digest(line: bytes) -> bytes:
    return hashlib.sha256(FORM + line).hexdigest().encode()


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    """Keep other processes away from a session, once they have written what they are at."""
    until_s = time.monotonic() + LOCKED_MOST_S
    while True:
        try:
            held = lock.take(folder)
            break
        except lock.Busy as busy:
            if time.monotonic() > until_s:
                way_out = "End it." if busy.owner is None else f"End it; if it is gone, delete {busy.owner}."
                raise StoreError(f"another process holds the session in {folder}", way_out) from None
            time.sleep(LOCK_TRIED_EVERY_S)
    try:
        yield
    finally:
        held.release()
