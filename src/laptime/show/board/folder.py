"""The folder of a site: what a build writes is listed in it, and the next build removes what is listed and no more."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Self

from laptime.model.errors import UsageError
from laptime.store.disk import read_regular

LIST = "laptime-board.txt"
LIST_MOST_BYTES = 64 << 20
BOARD_FILE_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,199}(?:/[A-Za-z0-9][A-Za-z0-9._-]{0,199}){0,5}", re.ASCII)


class SiteFolder:
    """Writes the files of a build. A name is on the list before its file is there, so no file is ever forgotten."""

    def __init__(self, place: Path) -> None:
        """Remove what an earlier build wrote, and begin a new list."""
        self.place = place
        place.mkdir(parents=True, exist_ok=True)
        earlier = place / LIST
        if earlier.is_file() and not earlier.is_symlink():
            text = read_regular(earlier, LIST_MOST_BYTES).decode("ascii", errors="replace")
            # A name that no build writes is left alone
            for name in [name for name in text.splitlines() if BOARD_FILE_NAME.fullmatch(name) and name != LIST]:
                folders = [place / parent for parent in Path(name).parents if parent != Path()]
                if any(folder.is_symlink() for folder in folders):
                    continue  # nothing behind a link is touched
                if (place / name).is_file() or (place / name).is_symlink():
                    (place / name).unlink()
                for folder in folders:
                    if folder.is_dir() and not any(folder.iterdir()):
                        folder.rmdir()
        self._list = earlier.open("w", encoding="ascii")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._list.close()

    def write(self, name: str, content: bytes) -> None:
        """Write a file of the site. One of that name that no build wrote is your own, and stays."""
        target = self.place / name
        if target.exists() or target.is_symlink():
            says = f"{target} is there already, and no `laptime board build` wrote it"
            raise UsageError(says, "Move it away, or name another folder with -o.")
        self._list.write(f"{name}\n")
        self._list.flush()
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
