"""What an earlier process left of whole trainings, and whether they may be resumed: same sources, no lap lost."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from laptime.errors import UsageError
from laptime.model.missing import Missing
from laptime.model.protocol import Consent, FullOrder, FullRun
from laptime.model.questions import TrainingAnswer
from laptime.model.record import Record
from laptime.model.sources import digest_source, find_differing

FEW = 6  # the most files that a message names


@dataclass(frozen=True, slots=True)
class Before:
    """A record of unfinished whole trainings, what the user allows, and a way to count a checkpoint's laps.

    `count_laps` returns a Missing with the reason if a checkpoint cannot be used.
    """

    record: Record
    consent: Consent
    count_laps: Callable[[Path], int | Missing]

    @property
    def answer(self) -> TrainingAnswer:
        assert isinstance(self.record.answer, TrainingAnswer)
        return self.record.answer

    @property
    def runs(self) -> tuple[FullRun, ...]:
        return self.answer.runs


@dataclass(frozen=True, slots=True)
class Lost:
    """Finished laps of one training that its checkpoint does not hold. A damaged checkpoint holds none."""

    order: FullOrder
    laps: int
    finished: int
    why: str
    is_damaged: bool

    @property
    def words(self) -> str:
        heat = self.order.heat
        return f"the checkpoint of {heat.lane.name}, seed {heat.seed}, {self.why}: {self._what} would be trained again"

    @property
    def note(self) -> str:
        return f"{self._what} were trained again: the checkpoint {self.why}"

    @property
    def _what(self) -> str:
        return f"{self.laps} of {self.finished} finished laps"


def find_changed(before: Before, run: FullRun | None) -> tuple[str, ...]:
    """Return the files that one training imported and that have changed since, or are gone."""
    file = before.record.workload.file
    if file is None or run is None:
        return ()
    now = {name: digest_source(data) for name in run.sources if (data := _read(Path(file).parent / name)) is not None}
    return tuple(sorted({*find_differing(run.sources, now), *(run.sources.keys() - now.keys())}))


def check_sources(before: Before) -> None:
    """Refuse to resume if sources have changed, unless the user allows it."""
    changed = sorted({name for run in before.runs for name in find_changed(before, run)})
    if changed and not before.consent.changed:
        raise _refuse_sources(before.record, changed)


def check_built(before: Before | None, run: FullRun | None, sources: dict[str, str]) -> None:
    """Refuse sources that were imported just now, if a file changed after `check_sources` read it."""
    if before is None or run is None or before.consent.changed:
        return
    if changed := find_differing(run.sources, sources):
        raise _refuse_sources(before.record, list(changed))


def find_lost(before: Before, orders: Iterable[FullOrder]) -> tuple[Lost, ...]:
    """Return the finished laps that would be trained again. Raise UsageError unless the user allows that."""
    runs = {(run.process.lane, run.seed): run for run in before.runs}
    lost = []
    for order in orders:
        run = runs.get((order.heat.lane.name, order.heat.seed))
        finished = len(run.laps) if run else 0
        kept = before.count_laps(Path(order.checkpoint))
        why = f"holds {kept} laps" if isinstance(kept, int) else kept.missing
        held = kept if isinstance(kept, int) else 0
        if held < finished:
            lost.append(Lost(order, finished - held, finished, why, is_damaged=isinstance(kept, Missing)))
    if lost and not before.consent.again:
        raise UsageError(
            f"{before.record.id} cannot go on as it was: {'; '.join(each.words for each in lost)}",
            f"put the checkpoint back, or train them again: laptime resume {before.record.id} --again",
        )
    return tuple(lost)


def _refuse_sources(record: Record, changed: list[str]) -> UsageError:
    folder = Path(record.workload.file or "").parent
    gone = [name for name in changed if not (folder / name).exists()]
    there = [name for name in changed if name not in gone]
    parts = [f"{_few(there)} {'has' if len(there) == 1 else 'have'} changed"] * bool(there)
    parts += [f"{_few(gone)} {'is' if len(gone) == 1 else 'are'} gone"] * bool(gone)
    return UsageError(
        f"{record.id} was begun with other sources: {', '.join(parts)}",
        f"restore them, race again, or go on with them as they are: laptime resume {record.id} --changed",
    )


def _few(names: list[str]) -> str:
    return ", ".join(names[:FEW]) + (f" and {len(names) - FEW} more" if len(names) > FEW else "")


def _read(path: Path) -> bytes | None:
    try:
        return path.read_bytes()
    except (OSError, ValueError):
        return None
