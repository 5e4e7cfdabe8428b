"""What is said of whole trainings around their tables: the protocol, what was reached, what went wrong."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.model.missing import Missing
from laptime.model.protocol import FullRace, FullRun, LapResult, Moment, Reached, Score
from laptime.model.record import Record
from laptime.report.afterwords import end_words, last_words
from laptime.report.figures import about, duration, factor, lap, published_lap, step
from laptime.report.layout import flow, wrap
from laptime.report.phrases import short_name


def digits(value: float | Missing | None) -> str:
    """Give a loss or a share with four places, as the published curves have it."""
    return "-" if value is None or isinstance(value, Missing) else f"{value:.4f}"


def lap_time(seconds: float) -> str:
    """Give the time of a lap in seconds as long as they are easy to read, so that near ones can be told apart."""
    return lap(seconds) if seconds < 60 else published_lap(seconds)


def kept(run: FullRun) -> int:
    """Count the laps that have a checkpoint, or had one: a lap that ended in nothing has none."""
    return sum(not isinstance(each.score.loss, Missing) for each in run.laps)


def mean(values: Sequence[float]) -> float | None:
    return sum(values) / len(values) if values else None


def trained(record: Record, lane: str) -> list[FullRun]:
    return [run for run in _full(record).runs if run.lane == lane and run.laps]


def is_tested(record: Record) -> bool:
    return any(run.test is not None for run in _full(record).runs)


def ends(record: Record) -> str:
    """Name what the last figures are of: a test, a validation, or nothing."""
    if not any(end_of(record, lane.name) for lane in record.lanes):
        return ""
    return "test" if is_tested(record) else "val."


def losses(record: Record, width: int) -> list[str]:
    """Give what the lanes ended with where their table has no room for it."""
    told = [(short_name(lane.name), end_of(record, lane.name)) for lane in record.lanes]
    parts = [f"{name} {digits(end[0])}" for name, end in told if end is not None]
    return flow(parts, width, f"{ends(record)} loss: ") if parts else []


def end_of(record: Record, lane: str) -> tuple[float | None, float | None] | None:
    """Give loss and accuracy that a lane ended with: of its tests, or of the last validation where no test is held."""
    tested = is_tested(record)
    finals = [
        run.test if tested else run.laps[-1].validation
        for run in trained(record, lane)
        if run.status == "ok" or not tested
    ]
    scores = [each.score for each in finals if each is not None]
    if not scores:
        return None
    return _mean_of([score.loss for score in scores]), _mean_of([score.accuracy for score in scores])


def _mean_of(values: Sequence[float | Missing]) -> float | None:
    return mean([value for value in values if not isinstance(value, Missing)])


def protocol(record: Record) -> str:
    """Say what every lane did."""
    asked, items = _full(record).protocol, record.workload.items
    laps = f"whole training: {asked.laps:,} lap{'s' * (asked.laps != 1)}"
    steps = f" of {asked.steps_per_lap:,} steps" if asked.steps_per_lap else ""
    seeds = f", {asked.seeds} seeds" if asked.seeds > 1 else ""
    if record.workload.file is not None:
        return f"{laps}{steps}{seeds}; no validation and no test: a training of your own brings none in this version"
    seen = f", validation on {_seen(record, asked.validation_items)} {items}" if asked.validation_items else ""
    held = f", test on {_tested(record, asked.evaluation_items)} {items}" if asked.evaluation_items else ""
    return f"{laps}{steps}{seeds}{seen}{held}"


def _seen(record: Record, published: int) -> str:
    scores = [each.validation.score for run in _full(record).runs for each in run.laps if each.validation]
    return _of(scores[0].items if scores else published, published)


def _tested(record: Record, published: int) -> str:
    scores = [run.test.score for run in _full(record).runs if run.test]
    return _of(scores[0].items if scores else published, published)


def _of(items: int, published: int) -> str:
    return f"{items:,}" if items == published else f"{items:,} (published: {published:,})"


def title(run: FullRun, full: FullRace) -> str:
    """Name one training."""
    words = [short_name(run.lane)]
    words += [f"seed {run.seed}"] if full.protocol.seeds > 1 else []
    words += [f"taken up {run.processes - 1} time{'s' * (run.processes != 2)}"] if run.processes > 1 else []
    done = kept(run)
    words += [f"{done} of {full.protocol.laps} laps"] if done < full.protocol.laps else []
    return ", ".join(words)


def lap_words(each: LapResult, laps: int) -> str:
    """Say all of one lap in one line."""
    said = [
        f"lap {each.number} of {laps}: {lap_time(each.train_s)}",
        f"{step(each.train_s * 1e3 / each.steps)} a step",
        f"loss {digits(each.score.loss)}",
        f"accuracy {digits(each.score.accuracy)}{_whole(each.score)}",
    ]
    if each.validation is not None:
        seen = each.validation.score
        said += [f"validation loss {digits(seen.loss)}", f"accuracy {digits(seen.accuracy)}{_whole(seen)}"]
    return ", ".join(said)


def _whole(score: Score) -> str:
    return "" if isinstance(score.whole, Missing) else f" (whole {digits(score.whole)})"


def moment_words(moment: Moment) -> str:
    """Say a moment in one line, for a file or above the bar."""
    who = short_name(moment.lane) + (f" (seed {moment.seed})" if moment.seed is not None else "")
    if moment.lap is not None:
        return f"{who} {lap_words(moment.lap, moment.laps)}"
    where = f" {moment.number} of {moment.laps}" if moment.number else ""
    return f"{who}{': ' if who else ''}{moment.doing}{where}"


def failures(record: Record, width: int) -> list[str]:
    """Tell of every training that did not finish where and why."""
    lines: list[str] = []
    for run in _full(record).runs:
        if run.dnf is not None:
            laps = f"; {kept(run)} lap{'s' * (kept(run) != 1)} kept"
            lines += wrap(f"{_who(run, _full(record))} did not finish, {end_words(run.dnf)}{laps}", width, "  ")
            lines += last_words(run.dnf.stderr_tail, width)
    return lines


def findings(record: Record) -> list[str]:
    """Say what the first laps were apart, and when the accuracy that was asked for was reached."""
    return [_first_laps(record), _reached(record)]


def _first_laps(record: Record) -> str:
    said = []
    for each in _full(record).factors:
        if not isinstance(each.first_lap, Missing) and each.same_work:
            word, size = ("faster", each.first_lap) if each.first_lap >= 1 else ("slower", 1 / each.first_lap)
            said.append(f"{short_name(each.lane)} {factor(size)}x {word}")
    return (
        f"against first is of later laps; the first lap, with the first step in it: {', '.join(said)}" if said else ""
    )


def _reached(record: Record) -> str:
    until = _full(record).protocol.until_accuracy
    if until is None:
        return ""
    where = "validation" if _full(record).protocol.validation_items else "training"
    said = [f"{_who(run, _full(record))} {_when(run.reached)}" for run in _full(record).runs]
    return f"accuracy {until:g} in {where}: {'; '.join(said)}"


def _who(run: FullRun, full: FullRace) -> str:
    return short_name(run.lane) + (f" (seed {run.seed})" if full.protocol.seeds > 1 else "")


def _when(reached: Reached | None) -> str:
    if reached is None:
        return "was not looked for"
    if isinstance(reached.accuracy, Missing):
        return f"cannot be told: {reached.accuracy.missing}"
    if reached.lap is None or reached.train_s is None:
        return f"never reached; the best was {digits(reached.accuracy)}"
    return f"in lap {reached.lap}, after {lap_time(reached.train_s)} of training"


def predictions(record: Record, width: int) -> list[str]:
    """Set the class numbers that each lane predicts below the true ones."""
    runs = [run for run in _full(record).runs if run.predictions is not None and run.predictions.truth]
    if not runs:
        return []
    rows = [("truth", runs[0].predictions.truth)]  # type: ignore[union-attr]
    rows += [(_who(run, _full(record)), run.predictions.predicted) for run in runs]  # type: ignore[union-attr]
    wide = max(len(name) for name, _ in rows)
    lines = [f"predictions of the first {len(rows[0][1])} test {record.workload.items}, by class number:"]
    lines += [f"  {name:<{wide}}  {' '.join(map(_number, numbers))}" for name, numbers in rows]
    return [broken for line in lines for broken in wrap(line, width, " " * (wide + 4))]


def _number(labels: tuple[int, ...]) -> str:
    return "-".join(map(str, labels))


def beside(record: Record, width: int) -> list[str]:
    """Give the time of all that is no training: in no lap, and in no factor."""
    parts = []
    for run in _full(record).runs:
        kept = [each.checkpoint_s for each in run.laps if not isinstance(each.checkpoint_s, Missing)]
        said = [f"validation {about(run.validation_s)}"] if run.validation_s else []
        said += [f"checkpoints {about(sum(kept))}"] if kept else []
        said += [f"test {about(run.test.seconds)}"] if run.test else []
        parts += [f"{_who(run, _full(record))} {', '.join(said)}"] if said else []
    return flow(parts, width, "beside the laps: ") if parts else []


def wholes(record: Record, width: int) -> list[str]:
    """Give what one who trains waits for, from starting the process to the end of the test."""
    full = _full(record)
    parts = [f"{_who(run, full)} {duration(run.whole_s)}" for run in full.runs if run.status == "ok"]
    return flow(parts, width, "from start to end, without proof and checkpoints: ") if parts else []


def closing(record: Record) -> str:
    """Say how much was trained, and how long it took."""
    full = _full(record)
    laps = sum(map(kept, full.runs))
    elapsed = duration(record.elapsed_s)
    if is_whole(record):
        return f"{laps:,} lap{'s' * (laps != 1)}, {elapsed}."
    wanted = full.protocol.laps * full.protocol.seeds * len(record.lanes)
    begin = {"interrupted": "interrupted: ", "running": "running, or ended unawares: "}.get(record.status, "")
    return f"{begin}{laps:,} of {wanted:,} laps kept, {elapsed}."


def saved(record: Record) -> str:
    """Say where the record is, and what is not whole how to go on."""
    command = "laptime show" if is_whole(record) else "to go on: laptime resume"
    return f"Saved as {record.id}; {command} {record.id}"


def is_whole(record: Record) -> bool:
    return record.status == "finished" and all(run.status == "ok" for run in _full(record).runs)


def _full(record: Record) -> FullRace:
    assert record.full is not None
    return record.full
