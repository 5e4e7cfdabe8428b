"""Images that give no picture: counted, named, left out up to a share, then an error."""

from __future__ import annotations

from laptime.errors import TrainingError

MOST_SHARE = 0.01
ALWAYS_ALLOWED = 3
NAMED = 3
Bad = tuple[str, str]
"""A file, and why it gives no picture."""


class Spoilt:
    """What was met so far. Of few items some may be spoilt; of many, one in a hundred."""

    def __init__(self, items: int) -> None:
        self._allowed = max(ALWAYS_ALLOWED, int(items * MOST_SHARE))
        self._items = items
        self._reasons: dict[str, str] = {}

    def add(self, path: str, reason: str) -> None:
        """Count a file once, however often it is met, and stop when they are too many."""
        self._reasons.setdefault(path, reason)
        if len(self._reasons) > self._allowed or len(self._reasons) >= self._items:
            raise TrainingError(
                f"{len(self._reasons)} of {self._items:,} images cannot be used: {self._named()}",
                f"up to {self._allowed} are left out; mend or remove these files",
            )

    def notes(self) -> tuple[str, ...]:
        """Say how many were left out, and which."""
        if not self._reasons:
            return ()
        return (f"left out {len(self._reasons)} of {self._items:,} images: {self._named()}",)

    def _named(self) -> str:
        named = [f"{path} {reason}" for path, reason in list(self._reasons.items())[:NAMED]]
        more = len(self._reasons) - len(named)
        return "; ".join(named) + (f"; and {more} more" if more else "")
