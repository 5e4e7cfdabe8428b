"""The figures of a watched script: the parts of an iteration, iterations over time, gaps, losses, readings."""

from __future__ import annotations

from collections.abc import Sequence

from laptime.figures.facts import fact_figures
from laptime.figures.readings import reading_figures
from laptime.model.figure import Axis, Band, Bar, Bars, Curve, Figure, Part, Plane, Stack
from laptime.model.missing import Missing
from laptime.model.questions import watch_of
from laptime.model.record import Record
from laptime.model.script import Gap, LoopWindow, ScriptProcess, TrainingLoop
from laptime.pages.numbers import lap
from laptime.questions.watch.page import GAP_WORDS, PARTS, times_words

Loops = Sequence[tuple[str, TrainingLoop]]


def figures(record: Record) -> list[Figure]:
    """Return all figures of a watched command."""
    processes = watch_of(record).processes
    loops = [(_name(each, processes), each.loop) for each in processes if each.loop is not None]
    drawn = [*_parts(loops), *_over_time(loops), *_losses(loops), *_gaps(loops)]
    return [*drawn, *reading_figures(record), *fact_figures(record)]


def _name(process: ScriptProcess, all_: Sequence[ScriptProcess]) -> str:
    if process.rank is not None:
        return f"rank {process.rank}"
    return "iterations" if len(all_) == 1 else f"process {process.pid}"


def _parts(loops: Loops) -> list[Figure]:
    rows = tuple((name, _shares(loop)) for name, loop in loops)
    says = "In the steady state. What was not seen is in the part around it."
    return [Figure("Where the time of an iteration goes", Stack(rows), says)] if rows else []


def _shares(loop: TrainingLoop) -> tuple[Part, ...]:
    found = []
    for words, field in PARTS:
        part: float | Missing = getattr(loop.steady, field)
        if not isinstance(part, Missing) and part > 0 and loop.steady.wall_s:
            found.append(Part(words, part / loop.steady.wall_s))
    return tuple(found)


def _over_time(loops: Loops) -> list[Figure]:
    if not loops:
        return []
    start_ns = min(loop.windows[0].start_ns for _, loop in loops)
    curves = tuple(Curve(name, tuple(_point(each, start_ns) for each in loop.windows)) for name, loop in loops)
    first = loops[0][1]
    steady = first.windows[min(first.steady_from + 1, len(first.windows) - 1)]
    bands = (Band(0.0, (steady.start_ns - start_ns) / 1e9, "warm-up", "before the steady state"),)
    says = "Each point is the mean of a window of iterations; windows grow as a training gets longer."
    plane = Plane(Axis("seconds"), Axis("ms per iteration", is_log=True), curves, bands)
    return [Figure("Iterations over time", plane, says)]


def _point(window: LoopWindow, start_ns: int) -> tuple[float, float]:
    middle_ns = (window.start_ns + window.end_ns) / 2 - start_ns
    return middle_ns / 1e9, window.wall_ns / window.iterations / 1e6


def _losses(loops: Loops) -> list[Figure]:
    known = [(name, loop) for name, loop in loops if loop.losses]
    if not known:
        return []
    start_ns = min(loop.windows[0].start_ns for _, loop in known)
    curves = tuple(
        Curve(name, tuple(((at - start_ns) / 1e9, loss) for at, loss in loop.losses)) for name, loop in known
    )
    return [Figure("Loss", Plane(Axis("seconds"), Axis("loss"), curves), "As the script computed it.")]


def _gaps(loops: Loops) -> list[Figure]:
    bars = tuple(_gap_bar(name if len(loops) > 1 else "", each) for name, loop in loops for each in loop.gaps)
    return [Figure("Between iterations", Bars("s", bars))] if bars else []


def _gap_bar(name: str, gap: Gap) -> Bar:
    label = f"{name}: {GAP_WORDS[gap.kind]}" if name else GAP_WORDS[gap.kind]
    return Bar(label, gap.seconds, words=f"{lap(gap.seconds)}, {times_words(gap.times)}")
