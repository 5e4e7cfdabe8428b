"""What the tests of watched scripts share."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from house import Answer, House


class Watcher:
    """Runs commands under `laptime watch`, and returns what was saved of them."""

    def __init__(self, folder: Path) -> None:
        self.house = House(folder)
        self.house.fake = ""

    def watch(self, *command: str, options: tuple[str, ...] = (), **more: Any) -> tuple[Answer, dict[str, Any]]:
        """Return how the command ended, and the answer of its record."""
        place = self.house.folder / "watched.json"
        given = ("watch", "--json", str(place), *options, "--", *command)
        ended = self.house.finish(self.house.start(*given, warnings="default", **more))
        return ended, json.loads(place.read_bytes())["answer"]
