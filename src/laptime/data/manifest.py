"""What stands in a made set's manifest.json: written last, so that a set without it is half-written."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from laptime.data.walk import MANIFEST

SCHEMA = 1
MAKER = 3  # counts up whenever the same item would be drawn otherwise: older sets are then made anew


@dataclass(frozen=True, slots=True)
class Manifest:
    workload: str
    train_items: int
    test_items: int
    bytes: int
    digest: str
    schema: int = SCHEMA
    maker: int = MAKER

    @property
    def is_ours(self) -> bool:
        """Say whether this version of laptime made the set."""
        return (self.schema, self.maker) == (SCHEMA, MAKER)


def write_manifest(folder: Path, manifest: Manifest) -> None:
    (folder / MANIFEST).write_text(json.dumps(asdict(manifest), indent=2) + "\n", encoding="utf-8")


def read_manifest(folder: Path) -> Manifest | None:
    """Give the manifest; nothing where there is none, or one that cannot be read."""
    try:
        read = json.loads((folder / MANIFEST).read_bytes())
        manifest = Manifest(**{field.name: read[field.name] for field in fields(Manifest)})
    except (OSError, ValueError, TypeError, KeyError, RecursionError):
        return None
    words = (manifest.workload, manifest.digest)
    numbers = (manifest.train_items, manifest.test_items, manifest.bytes, manifest.schema, manifest.maker)
    sound = all(type(each) is str for each in words) and all(type(each) is int for each in numbers)
    return manifest if sound else None
