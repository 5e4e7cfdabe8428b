"""What every question needs of the world: where results are kept, where traces lie, and who is shown progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from laptime.model.record import Record
from laptime.model.sample import Reference

# Progress is drawn while a child builds: from its first step on, nothing of ours runs beside it.
SHOWN_AT = "build"


@dataclass(frozen=True, slots=True)
class Outside:
    """Where finished heats are journalled, references kept and a lane's trace put, and how progress is shown."""

    record_id: str
    started: str
    tool: dict[str, str]
    journal: Callable[[Record], None]
    recall: Callable[[str], Reference | None]
    keep: Callable[[Reference], object]
    show: Callable[[Record, str], None]
    place_trace: Callable[[str], Path]
    began_s: float = field(default_factory=time.monotonic)
