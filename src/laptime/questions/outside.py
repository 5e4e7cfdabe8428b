"""What every question needs of the world: where results are kept, where traces lie, and who is shown progress."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from laptime.model.record import Record
from laptime.model.sample import Reference
from laptime.questions.bounds import Recall, nothing_measured

# Progress is drawn while a child builds: from its first step on, nothing of ours runs beside it.
SHOWN_AT = "build"


@dataclass(frozen=True, slots=True)
class Outside:
    """Where finished heats are journalled, references kept and a lane's trace put, and how progress is shown.

    `peaks` recalls what a device can do at most, where that was measured.
    """

    record_id: str
    started: str
    tool: dict[str, str]
    journal: Callable[[Record], None]
    recall: Callable[[str], Reference | None]
    keep: Callable[[Reference], object]
    show: Callable[[Record, str], None]
    place_trace: Callable[[str], Path]
    peaks: Recall = nothing_measured
    began_s: float = field(default_factory=time.monotonic)
