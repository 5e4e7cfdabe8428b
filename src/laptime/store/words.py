"""The words of a script that look like secrets: for its owner alone, for `race --against` and `--more` alone.

A record masks them, for it is shown, exported and passed on. To start the script again needs them. So they are kept in
a file next to the records, which no command prints, and which is removed with the record.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path

import msgspec

from laptime.model.errors import RecordError
from laptime.model.secrets import MASK, mask_secrets
from laptime.store.disk import read_regular, write_new
from laptime.store.files import is_file, path_of
from laptime.store.index import home_folder

WORDS_MOST_BYTES = 2**22  # of a command: Linux takes 2 MiB


def keep(identity: str, command: Sequence[str]) -> None:
    """Keep the words of a saved record's command, if the record masks any. Without a place, they are typed again."""
    if any(MASK in word for word in mask_secrets(command)) and is_file(path_of(identity)):
        with contextlib.suppress(OSError, UnicodeEncodeError):
            place = _place(identity)
            place.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            write_new(place, msgspec.json.encode(command), is_private=True)


def unmask(identity: str, command: tuple[str, ...], *, is_ours: bool) -> tuple[str, ...]:
    """Return the words that a record masks. Those of others, or of another machine, are not known."""
    if not any(MASK in word for word in command):
        return command
    if is_ours:
        with contextlib.suppress(OSError, msgspec.MsgspecError):
            kept = msgspec.json.decode(read_regular(_place(identity), WORDS_MOST_BYTES), type=tuple[str, ...])
            if mask_secrets(kept) == command:
                return kept
    says = f"{identity} ran with words that look like secrets; its record masks them ({MASK}), and they are not here"
    raise RecordError(says, "Race it again with them: laptime race SCRIPT LANES -- WORDS")


def forget(identity: str) -> None:
    """Remove the words of a record that is removed."""
    with contextlib.suppress(OSError):
        _place(identity).unlink()


def _place(identity: str) -> Path:
    return home_folder() / "words" / f"{identity}.json"
