"""What a heat keeps of a timed turn, and how it shows it to the heat of the base, which takes the turn again."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from laptime.engine.backends.replay import (
    LARGEST_STATE_BYTES,
    Note,
    StateNumbers,
    StateRewinder,
    TurnReplay,
    digest_numbers,
)
from laptime.model.errors import LaneError
from laptime.model.quantities import Missing
from laptime.model.sample import TurnTakenAgain
from laptime.store.checkpoint import DAMAGES, Checkpoint, read_checkpoint, write_checkpoint


@dataclass(slots=True)
class TurnKeeper:
    """Notes where each turn of a training begins, and keeps the turns that laptime then asks for."""

    rewinder: StateRewinder
    _begun: tuple[int, Note] | None = None
    _why_not: str = "no turn has begun"
    _kept: dict[int, tuple[Note, StateNumbers, int]] = field(default_factory=dict)  # begin, end, and steps of each

    def begin(self, taken: int) -> None:
        """Note where a turn begins. A training of which that cannot be known any more goes on all the same."""
        try:
            self._begun = taken, self.rewinder.note(taken)
        except Exception as error:  # noqa: BLE001  whatever a framework or a user's code raises
            self._begun = None
            self._why_not = str(error)

    def end(self) -> str:
        """Return a digest of what the turn came to, reported before anybody knows which turn is looked at."""
        return self.rewinder.digest()

    def keep(self, taken: int, instead: int | None = None) -> int:
        """Keep the turn that ended last, in a place of its own or in another's; return how much memory it takes."""
        if self._begun is None:
            raise LaneError(self._why_not)
        before, note = self._begun
        end = self.rewinder.numbers()
        self._kept[len(self._kept) if instead is None else instead] = note, end, taken - before
        return sum(array.nbytes for _, array in (*note.numbers, *end))

    def show(self, place: int, path: Path) -> None:
        """Write a turn that was kept to a file."""
        note, end, _ = self._kept[place]
        shown = {
            name: [list(number) for number in numbers] for name, numbers in (("start", note.numbers), ("end", end))
        }
        write_checkpoint(path, Checkpoint({}, (), shown))

    def replay(self, place: int, path: str, digests: tuple[str, str]) -> TurnTakenAgain | Missing:
        """Take the turn that another heat has shown, by the code of this one, which kept it in this place.

        `digests` are those that it told at the turn's begin, if known, and at its end, before it was asked.
        """
        note, end, steps = self._kept[place]
        shown = read_turn(Path(path))
        if isinstance(shown, str):
            return Missing(shown)
        began, ended = map(digest_numbers, shown)
        return TurnReplay(self.rewinder, note, steps).compare(
            end, *shown, is_shown=ended == digests[1], is_joined=digests[0] in {"", began}
        )


def read_turn(path: Path) -> tuple[StateNumbers, StateNumbers] | str:
    """Read a turn that another process wrote; nothing of it is believed before it is compared."""
    try:
        if path.is_symlink() or not path.is_file():
            return f"it showed no turn of its own at {path}"
        with zipfile.ZipFile(path) as stored:  # what is packed may be a thousand times as large
            if sum(zip_info.file_size for zip_info in stored.infolist()) > 4 * LARGEST_STATE_BYTES:
                return f"the turn that it showed is larger than {4 * LARGEST_STATE_BYTES >> 30} GiB"
        state = read_checkpoint(path, {}).state
        start, end = ([(str(of), np.asarray(array)) for of, array in state[key]] for key in ("start", "end"))
    except (*DAMAGES, LaneError) as error:
        return f"the turn that it showed cannot be read: {error}"
    return start, end
