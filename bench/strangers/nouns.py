"""What the tables of `bench/strangers.py` hold: a published script, and a cause planted in a copy of one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Counted = Literal["steps", "backwards", "batches"]
Measured = Literal["mean_ms", "whole_ms", "whole_s"]  # of an iteration, with what is between, of the whole training


@dataclass(frozen=True, slots=True)
class Edit:
    """A change of a copy: `old` stands once in the file and becomes `new`."""

    old: str
    new: str
    file: str = ""  # relative to the script's folder; "" is the script itself


@dataclass(frozen=True, slots=True)
class Script:
    """One published script and how it is run.

    `folder` is what is checked out, and where the script runs. `counts` names the event that an iteration is made of,
    and `per` how many of these. `items` are the sizes of the stand-in training and test sets. `makes` names the files
    that the bench makes for it. `has` is a finding that is true of the unchanged script, in its record's words.
    """

    name: str
    repository: str
    folder: str
    file: str
    arguments: tuple[str, ...] = ()
    counts: Counted = "steps"
    per: int = 1
    items: tuple[int, int] = (3000, 500)
    edits: tuple[Edit, ...] = ()
    makes: tuple[str, ...] = ()
    has: str = ""


@dataclass(frozen=True, slots=True)
class Plant:
    """A cause, planted in a copy of the script `of`.

    `cause` are the edits that plant it; the unplanted copy is the remedy, unless `remedy` has edits of its own.
    `rules` are the findings that would be right. The line is where `line` begins in the planted file, and any of
    `lines` is right, too. `arguments` replace those of the script, on both sides. `items` likewise. `measure` is
    what the gain is of.
    """

    name: str
    of: str
    cause: tuple[Edit, ...]
    rules: tuple[str, ...]
    line: str = ""
    lines: tuple[str, ...] = ()
    line_file: str = ""
    remedy: tuple[Edit, ...] = ()
    arguments: tuple[str, ...] | None = None
    cause_arguments: tuple[str, ...] | None = None
    items: tuple[int, int] | None = None
    measure: Measured = "mean_ms"
