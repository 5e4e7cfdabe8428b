"""What is found out about files of records: whether each is one, and what an import did with it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class FileCheck:
    """Whether a file is a record. `why` says what is wrong, `path` where in the file (a JSON path), `hint` what to do.

    `schema` is that of the file: reading it upgrades it.
    """

    file: str
    valid: bool
    schema: int | None = None
    id: str | None = None
    question: str | None = None
    path: str | None = None
    why: str | None = None
    hint: str | None = None


@dataclass(frozen=True, slots=True)
class Imported:
    """One file of an import, and whether its record is new here."""

    id: str
    file: str
    status: Literal["imported", "is here already"]
