"""Pages that were agreed on, letter by letter, in tests/golden."""

from __future__ import annotations

import os
from pathlib import Path

GOLDEN = Path(__file__).parent.parent / "golden"


def assert_agreed(name: str, width: int, page: str) -> None:
    """Compare a page with the one that was agreed; LAPTIME_REGOLD=1 writes it again."""
    path = GOLDEN / f"{name}-{width}.txt"
    if os.environ.get("LAPTIME_REGOLD") == "1":
        path.write_text(page, encoding="utf-8")
    assert path.read_text(encoding="utf-8") == page
