"""Which records this user made here: laptime signs what it saves with a key in LAPTIME_HOME that its owner alone reads.

A record is data, and may come from anybody. To race one again, or to resume it, starts what it names: a command, the
code of a file, heats on a cluster. That takes a signature of this key, or the user's word. A signature is the last
member of a record's file, over all bytes before it: it holds whatever schema the file has.
"""

from __future__ import annotations

import contextlib
import hashlib
import hmac
import os
import re
import secrets
import stat
from pathlib import Path

KEY_BYTES = 32
SIGNATURE = re.compile(rb',"signature":"([0-9a-f]{64})"\}\s*\Z')
OF_OTHERS = stat.S_IRWXG | stat.S_IRWXO
OF_OWNER = stat.S_IRUSR | stat.S_IWUSR


def sign(data: bytes, home: Path) -> bytes:
    """Return a record's JSON with a signature as its last member. Where no key can be kept, it stays as it is."""
    key = _read_key(home) or _make_key(home)
    return data if key is None else data[:-1] + f',"signature":"{_digest(key, data[:-1])}"}}'.encode()


def is_signed(data: bytes, home: Path) -> bool:
    """Whether these bytes of a file were signed with this user's key."""
    found, key = SIGNATURE.search(data), _read_key(home)
    if found is None or key is None:
        return False
    return hmac.compare_digest(_digest(key, data[: found.start()]), found[1].decode())


def _digest(key: bytes, data: bytes) -> str:
    return hmac.new(key, data, hashlib.sha256).hexdigest()


def _place(home: Path) -> Path:
    """Return where the key is. Users who share a LAPTIME_HOME have a key each."""
    return home / f"laptime-key-{os.getuid()}"


def _read_key(home: Path) -> bytes | None:
    """Return the key, unless there is none that this user alone could have written and can read."""
    data = b""
    with contextlib.suppress(OSError):
        file = os.open(_place(home), os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            status = os.fstat(file)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.getuid() and not status.st_mode & OF_OTHERS:
                data = os.read(file, KEY_BYTES + 1)
        finally:
            os.close(file)
    return data if len(data) == KEY_BYTES else None


def _make_key(home: Path) -> bytes | None:
    """Make the key, unless another process was faster."""
    place = _place(home)
    whole = place.with_name(f".{place.name}.{secrets.token_hex(8)}")
    with contextlib.suppress(OSError):
        home.mkdir(parents=True, exist_ok=True)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
        file = os.open(whole, flags, OF_OWNER)
        try:
            os.write(file, secrets.token_bytes(KEY_BYTES))
            os.fsync(file)
        finally:
            os.close(file)
        with contextlib.suppress(FileExistsError):
            place.hardlink_to(whole)
    with contextlib.suppress(OSError):
        whole.unlink()
    return _read_key(home)
