"""`laptime board repeat`: what a row says is run here, and held against the row.

A row is data from a stranger. So nothing of its text is run: its training has to be a built-in one, its lanes have to
be lanes by laptime's own grammar, and the ask is made of what that grammar read.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from laptime.model.ask import Ask
from laptime.model.errors import RecordError, UsageError
from laptime.model.frameworks import FRAMEWORKS
from laptime.model.record import Record
from laptime.planner.lanes import DEVICE_WORD, name_lane, parse_lane
from laptime.planner.settings import resolve_batch
from laptime.questions.train.options import FullAsk
from laptime.show.board.add import board_rows, why_no_row, why_no_rows
from laptime.show.board.evidence import strip
from laptime.show.board.row import ROW_MOST_BYTES, BoardRow, RowFactor, RowFigure, decode_row
from laptime.show.pages.words import lap as lap_words
from laptime.store.disk import read_regular
from laptime.trainings.workloads import CATALOGUE

MOST_WORKERS = 256  # processes that a row may ask for
MOST_BATCHES = 64  # times the usual batch that a row may ask for
LAPS = 2  # of a whole training: its first lap holds the first step


@dataclass(frozen=True, slots=True)
class Repeated:
    """Whether a row agrees with what was measured here; None where that cannot be said, and the sentence why."""

    row: str
    record: str
    agrees: bool | None
    says: str


def read_row(place: Path) -> BoardRow:
    try:
        data = read_regular(place, ROW_MOST_BYTES)
    except OSError as error:
        says = f"{place} cannot be read: {error.strerror or error}"
        raise RecordError(says, "Name a row's file: board/rows/TRAINING/DEVICE/ID-LANE.json.") from None
    return decode_row(data, str(place))


def ask_of(row: BoardRow) -> tuple[str, Ask]:
    """Return the question and the ask that repeat a row: its lane, and the reference of its factor."""
    if row.training not in CATALOGUE:
        raise UsageError(f"{row.training!a} is no built-in training, so it is not run", "laptime workloads lists them")
    names = ([] if row.factor is None else [row.factor.reference]) + [row.lane]
    lanes = tuple(dict.fromkeys(map(_lane_here, names)))
    for lane in map(parse_lane, lanes):
        # Refuse what would take all of this machine: a stranger's row may name a million processes
        workload = CATALOGUE[row.training]
        named = dict(lane.overrides)
        for key in ("workers", "prefetch"):
            if int(named.get(key, "0")) > MOST_WORKERS:
                raise UsageError(f"{key}={named[key]} is more than a row may ask for here", f"at most {MOST_WORKERS}")
        most = MOST_BATCHES * workload.batch
        if resolve_batch(named.get("batch", "1"), workload.batch) > most:
            raise UsageError(f"batch={named['batch']} is more than a row may ask for here", f"at most {most:,}")
    if row.question == "train":
        return "full", Ask(row.training, lanes, full=FullAsk(laps=LAPS))
    return "race", Ask(row.training, lanes)


def _lane_here(name: str) -> str:
    """Return a lane of a row as it is asked for here: on the first device of its kind."""
    lane = parse_lane(name)
    known = [framework.name for framework in FRAMEWORKS if not framework.switch]
    if lane.framework not in known or lane.device is None or not DEVICE_WORD.fullmatch(lane.device):
        raise UsageError(f"lane {name!a} is none that a row may have", f"frameworks: {', '.join(known)}")
    kind = lane.device.partition(":")[0]
    return name_lane(lane.framework, kind, lane.preset, lane.overrides)


def compare(row: BoardRow, record: Record) -> Repeated:
    """Hold a row against the record that was just made of it."""
    stripped = strip(record)
    same_lane = [made for made in board_rows(stripped, "") if _lane_here(made.lane) == _lane_here(row.lane)]
    refusal = why_no_rows(record)
    if not same_lane or refusal is not None:
        whys = [refusal, *(why_no_row(lane) for lane in record.lanes)]
        why = next(filter(None, whys), "its lane did not run here")
        return Repeated(row.record, record.id, None, f"{row.lane} cannot be compared: {why}")
    mine = same_lane[0]
    if mine.device_slug == row.device_slug:
        laps = f"a lap takes {lap_words(row.lap_s.middle)} there and {lap_words(mine.lap_s.middle)} here"
        agrees = _overlap(row.step_ms, mine.step_ms)
        says = {
            True: ": the intervals overlap, so the row agrees",
            False: ": the intervals do not overlap",
            None: "; one of them has no interval, so whether they agree cannot be said",
        }[agrees]
        return Repeated(row.record, mine.record, agrees, f"{row.lane}: {laps}, on {mine.hardware}{says}.")
    # Of different devices, only the factor against the same reference means something on both.
    why = f"the row is of {row.hardware} and this is {mine.hardware}, so laps are not compared"
    if row.factor is None or mine.factor is None:
        return Repeated(row.record, mine.record, None, f"{row.lane}: {why}, and the row has no factor.")
    factors = f"{row.factor.ratio:.3g} times {row.factor.reference} there, {mine.factor.ratio:.3g} times here"
    ends = {True: "the intervals overlap", False: "the intervals do not overlap", None: "one has no interval"}
    overlap = _overlap(row.factor, mine.factor)
    return Repeated(row.record, mine.record, None, f"{row.lane}: {why}. {factors}: {ends[overlap]}.")


def _overlap(one: RowFigure | RowFactor, other: RowFigure | RowFactor) -> bool | None:
    if one.low is None or one.high is None or other.low is None or other.high is None:
        return None
    return one.low <= other.high and other.low <= one.high
