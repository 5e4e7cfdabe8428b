"""The secret that all nodes of a torchrun know before the race: a variable has it, else a file in laptime's cache.

torchrun gives its processes nothing that other programs could not read: its store is open to all that reach its port.
"""

from __future__ import annotations

import os
import secrets
import stat
from contextlib import suppress
from pathlib import Path

from laptime.disk import cache_folder, write_new
from laptime.errors import UsageError

GIVEN = "LAPTIME_CLUSTER_SECRET"
LEAST_CHARACTERS, MOST_BYTES = 16, 4096
SAME = f"set {GIVEN} to the same secret on all nodes: openssl rand -hex 32 makes one"


def take_cluster_secret() -> str:
    """Return the secret, and remove the variable from the environment: no process that starts later has it."""
    given = os.environ.pop(GIVEN, None)
    if given is None:
        return _kept_secret(cache_folder() / "cluster-secret")
    if len(given) < LEAST_CHARACTERS:
        says = f"{GIVEN} has {len(given)} characters, and a secret has {LEAST_CHARACTERS} or more"
        raise UsageError(says, SAME)
    return given


def _kept_secret(path: Path) -> str:
    """Return the secret in a file. If there is none, make it: the first node does, where several share the folder."""
    try:
        with suppress(FileExistsError):
            if not path.exists():
                write_new(path, secrets.token_hex(32).encode(), is_private=True)
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with os.fdopen(descriptor, "rb") as file:
            status = os.fstat(descriptor)
            is_ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid() and not status.st_mode & 0o077
            secret = file.read(MOST_BYTES).decode("ascii", "replace").strip() if is_ours else ""
    except OSError as error:
        raise UsageError(f"no secret for the nodes is in {path}: {error.strerror or error}", SAME) from error
    if not is_ours:
        says = f"{path} is not a file that you own and only you can read, as a secret has to be"
        raise UsageError(says, f"remove it, and laptime makes another; or {SAME}")
    if len(secret) < LEAST_CHARACTERS:
        raise UsageError(f"{path} has no secret of {LEAST_CHARACTERS} or more characters", f"remove it; or {SAME}")
    return secret
