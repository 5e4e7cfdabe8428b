"""Digests of the user's own code, by which a record knows whether a training is still the one that was raced."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from pathlib import Path

from laptime.model.plan import Subject
from laptime.questions.verdict.judged_files import note_files

FILES_NAMED_MOST = 40  # by a record; more are one digest
ALL_FILES = "all its files"
DIGITS = 32  # hexadecimal


def digest_sources(subjects: Sequence[Subject]) -> dict[str, dict[str, str]]:
    """Return digests of the code of each training that is the user's own, as far as its imports name it."""
    return {each.name: digest_code(Path(each.file)) for each in subjects if each.file is not None}


def digest_code(start: Path) -> dict[str, str]:
    """Return a digest for each file, or one for all of them where there are many."""
    noted = note_files(start)
    found = {os.path.relpath(place, start.parent): state.digest[:DIGITS] for place, state in noted.items() if state}
    if len(found) <= FILES_NAMED_MOST:
        return found
    lines = "\n".join(f"{name} {digest}" for name, digest in sorted(found.items()))
    return {ALL_FILES: hashlib.sha256(lines.encode()).hexdigest()[:DIGITS]}
