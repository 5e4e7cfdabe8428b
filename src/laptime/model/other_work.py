"""How the work of two trainings differs: a kind, by which programs decide, and a sentence, which people read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from laptime.model.quantities import Missing

WorkKind = Literal[
    "changed clock", "changed fence", "changed laptime", "changed base", "hidden time",
    "other batch size", "fewer items", "other data", "repeated batches",
    "other weights", "frozen weights", "other network", "other precision",
    "other update", "other computation", "skipped updates", "other rate",
    "other random draws", "knows the judge", "other work",
]  # fmt: skip
"""What a verdict calls `cheat`, where it is what makes a candidate seem faster: docs/method-verdict.md has the list."""


@dataclass(frozen=True, slots=True)
class OtherWork:
    """One difference between the work of two trainings."""

    kind: WorkKind
    says: str


def words_of_work(found: OtherWork | Missing | None) -> str | Missing | None:
    """Return how the work of two trainings differs as a record keeps it."""
    return found.says if isinstance(found, OtherWork) else found
