"""The page of a watched script: where an iteration's time goes, and what was not seen."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

from laptime.analysis.heats import ALPHA
from laptime.analysis.script_lines import longest_lines
from laptime.analysis.script_loop import AGE_BLOCKS, FEWEST_STEADY, PARTS_OF
from laptime.model.figure import (
    Axis,
    Band,
    Bar,
    Bars,
    Curve,
    Figure,
    Gantt,
    GanttRow,
    Glance,
    GlanceFact,
    Part,
    Plane,
    ShownSpan,
    Stack,
    folded,
)
from laptime.model.quantities import Estimate, Missing, count, number, percent, size, step, times
from laptime.model.record import NOT_RELIABLE, Finding, PredictedGain, Progress, Record
from laptime.model.script import (
    ITERATION_PARTS,
    LoopWindow,
    Phases,
    ScriptProcess,
    SeenLoader,
    SpanPart,
    TrainingLoop,
)
from laptime.model.stats import mean_interval
from laptime.model.visible import as_command
from laptime.model.watched import WatchAnswer, watch_of
from laptime.show.figures import fact_figures, reading_figures
from laptime.show.pages import footnotes
from laptime.show.pages.layout import Cell, clean, painted, wrap
from laptime.show.pages.page import PageParts, QuestionPage, Row, Said, View, bar_rows, header, progress_line
from laptime.show.pages.words import duration, joined, lap, over, spread

GAINS_ALIKE = 0.98  # of the most that a remedy may gain: what is likely is said apart where it is less
DEVIATES = 0.3  # of the mean from the median: single iterations take far longer
COUNTED_AS_ONE_CALL = {"steps", "Keras batches"}  # forward, backward and the optimizer are not seen apart
LEAST_SHARE = 1e-6  # of what is left: less is rounding
OFTEN_ABSENT = {"copy_s", "no_grad_s"}
LINES_SHOWN = 4  # of each part
LONGEST_SHOWN = 3  # lines of an iteration,
LINE_TAKES_MUCH = 0.3  # the longest of which takes so much of it
PART_WORDS: dict[SpanPart, str] = {
    "data": "waiting for data",
    "copy": "copying to the card",
    "no_grad": "without gradients",
    "forward": "forward",
    "backward": "backward",
    "step": "the step",
    "optimizer": "optimizer",
    "checkpoint": "checkpoints",
    "disk": "waiting for the disk",
    "outside": "outside the step",
    "unattributed": "unattributed",
}
GAP_WORDS = {
    "validation": "validation",
    "checkpoint": "checkpoints",
    "loader start": "starting the loader",
    "between epochs": "other work",
    "timing lines": "iterations whose lines were timed",
}


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page of a watched command says."""
    answer = watch_of(record)
    loops = [(process, process.loop) for process in answer.processes if isinstance(process.loop, TrainingLoop)]
    figures = phase_rows(loops[0][1], view.inner) if loops else []
    words = f"{as_command(answer.command)} ran for" if answer.command else "The block took"
    words += f" {duration(answer.wall_s) if answer.command else lap(answer.wall_s)}"
    usage = answer.usage
    if usage is not None and not isinstance(usage.processor_percent, Missing):
        words += f", used {usage.processor_percent:.0f} % of the processor"
    if usage is not None and not isinstance(usage.memory_most_bytes, Missing):
        words += f" and up to {size(usage.memory_most_bytes)}"
    further = []
    if answer.skew is not None:
        owns = zip(answer.skew.ranks, answer.skew.own_ms, strict=False)
        own = ", ".join(f"rank {rank} {step(own_ms)}" for rank, own_ms in owns)
        further.append(f"Without the backward pass, in which ranks wait for each other: {own}.")
    if answer.others:
        processes = f"{answer.others} further Python process{'es' * (answer.others != 1)} reported"
        further.append(f"{processes}; no training was seen in {'it' if answer.others == 1 else 'them'}.")
    return PageParts(
        answer=_answer(record, answer, loops),
        figures=figures,
        notes=_notes(record, answer, loops),
        done=clean(f"{words}."),
        details=[
            header(record, view.width, color=view.color),
            *(_process_lines(process, loop, view) for process, loop in loops),
            *(wrap(sentence, view.width, "  ") for sentence in further),
            [
                line
                for finding in record.findings
                for line in wrap(f"{finding.says} {finding.advice}", view.width, "  ")
            ],
        ],
        glance=glance_of(record, loops),
    )


def live_lines(_record: Record, progress: Progress, view: View) -> list[str]:
    """Return the line that a terminal shows while the command runs."""
    return painted(progress_line(progress), view.width, "quiet", color=view.color)[:1]


def _answer(record: Record, answer: WatchAnswer, loops: Sequence[tuple[ScriptProcess, TrainingLoop]]) -> list[Said]:
    name = clean(record.workload.name)
    if not loops and answer.exit_code and answer.others:
        return [Said(f"{name} ended with exit code {answer.exit_code}, and no training was seen before.")]
    if not loops:
        why = answer.unseen.missing if answer.unseen is not None else "nothing was seen of it"
        return [Said(f"{name} ran for {duration(answer.wall_s)}. Its iterations were not seen: {why}.")]
    loop = loops[0][1]
    if not isinstance(loop.step_ms, Estimate):
        return [Said(f"{name} had {_iterations(loop)}, too few for a figure.")]
    rate = "" if isinstance(loop.items_per_s, Missing) else f", {number(loop.items_per_s)} items/s"
    takes = Said(f"{name} takes {step(loop.step_ms.median)} {spread(loop.step_ms)} per iteration{rate}.")
    changes = []
    levels = loop.levels
    if levels is not None:  # then it is a mean of different times
        last = f"in the last {levels.last_iterations:,} of {loop.iterations:,}"
        changes = [Said(f"Iterations took {step(levels.first_ms)} at first, and {step(levels.last_ms)} {last}.")]
    return [*footnotes.distrust(record), takes, *changes, *(Said(finding.says) for finding in _judged(record)[:1])]


def glance_of(record: Record, loops: Sequence[tuple[ScriptProcess, TrainingLoop]]) -> Glance | None:
    """Return what an iteration takes, and what was found."""
    loop = loops[0][1] if loops else None
    if loop is None or not isinstance(loop.step_ms, Estimate):
        return None
    judged = _judged(record)
    sentence = judged[0].says if judged else f"{clean(record.workload.name)} was watched; nothing conspicuous was seen."
    facts = [GlanceFact(_iterations(loop), f"in {duration(watch_of(record).wall_s)}")]
    if not isinstance(loop.items_per_s, Missing):
        facts.append(GlanceFact(f"{number(loop.items_per_s)} items/s", "on average"))
    facts += [GlanceFact("What to do", judged[0].advice)] if judged and judged[0].advice else []
    return Glance(step(loop.step_ms.median), f"{spread(loop.step_ms)} per iteration", sentence, tuple(facts))


def _judged(record: Record) -> list[Finding]:
    return [finding for finding in record.findings if finding.rule != NOT_RELIABLE]


def phase_rows(loop: TrainingLoop, view: View) -> list[str]:
    """Return a row for each part of an iteration; a part that was not seen shows the reason.

    Without a card there is no copy to one, and many scripts evaluate nothing: that needs no row.
    """
    rows = []
    phases: Phases = loop.steady
    for _, field in ITERATION_PARTS:
        name = _part_words(loop, field)
        part: float | Missing = getattr(phases, field)
        if isinstance(part, Missing) and field not in OFTEN_ABSENT:
            rows.append(Row(name, None, (), f"not seen: {part.missing}"))
        elif not isinstance(part, Missing) and part > 0:
            rows.append(Row(name, part, (Cell(step(part * 1e3)), Cell(percent(over(part, phases.wall_s))))))
    return bar_rows(rows, view)


def _notes(record: Record, answer: WatchAnswer, loops: Sequence[tuple[ScriptProcess, TrainingLoop]]) -> list[str]:
    judged = _judged(record)
    advice = [
        " ".join(filter(None, (finding.advice, _gain_words(finding.gain)))) + _place_of(record, finding)
        for finding in judged
    ]
    notes = [*advice[:1], *(_count_words(loop) for _, loop in loops[:1])]
    if loops and not any(finding.gain for finding in judged):
        # The lines of the user's own code that take most of an iteration, where no finding says what does
        longest = longest_lines(loops[0][0].lines, loops[0][1].steady)[:LONGEST_SHOWN]
        if longest and longest[0][1] >= LINE_TAKES_MUCH:
            lines = ", ".join(f"{where} ({percent(share)})" for where, share in longest)
            notes.append(f"Of an iteration, most is in {lines}.")
    notes += [f"{finding.says} {then}" for finding, then in zip(judged[1:], advice[1:], strict=True)]
    notes += [f"Some iterations take far longer: half of them take {step(ms)} or less." for ms in _usual_ms(loops)]
    notes += [_trainings_words(loop) for _, loop in loops[:1]]
    notes += [f"The count may be wrong: {loop.unsure}." for _, loop in loops if loop.unsure]
    notes += [
        f"laptime's hook '{hook}' failed and was switched off ({why})."
        for process, _ in loops
        for hook, why in process.failed.items()
    ]
    notes += [_gap_words(loop) for _, loop in loops[:1]]
    if len(loops) > 1:
        notes.append(f"{len(loops)} processes trained; the figures are of the first. --details has all.")
    if answer.left_running:
        notes.append(f"{answer.left_running} of its processes still ran when the command had ended.")
    if answer.exit_code and (loops or not answer.others):
        notes.append(f"The command ended with exit code {answer.exit_code}.")
    return notes


def _gain_words(gain: PredictedGain | None) -> str:
    if gain is None:
        return ""
    if gain.likely > GAINS_ALIKE * gain.most:
        return f"Predicted: up to {times(gain.most)} as fast."
    return f"Predicted: about {times(gain.likely)} as fast, at most {times(gain.most)}."


def _place_of(record: Record, finding: Finding) -> str:
    """Return what changes the code, where the place is known."""
    if finding.change is None:
        return "" if finding.unchanged is None else f" No change of code is offered: {finding.unchanged}."
    place = [other for other in record.findings if other.change is not None].index(finding)
    return f" {footnotes.apply_words(record, finding.change, place)}"


def _usual_ms(loops: Sequence[tuple[ScriptProcess, TrainingLoop]]) -> list[float]:
    """Return the median of the first loop's iterations, if their mean is far from it."""
    loop = loops[0][1] if loops else None
    if loop is None or loop.step_ms is None:
        return []
    counted = [window for window in (loop.windows[1:] or loop.windows)[loop.steady_from :] if window.iterations]
    if not counted:
        return []
    usual_ms = median(window.wall_ns / window.iterations / 1e6 for window in counted)
    return [usual_ms] if loop.step_ms.median >= (1 + DEVIATES) * usual_ms else []


def _count_words(loop: TrainingLoop) -> str:
    per = loop.per_iteration
    counts = [
        (per.fetches, "batches"),
        (per.backwards, "backward passes"),
        (per.optimizer_steps, "optimizer steps"),
        (per.skipped_steps, "skipped steps"),
    ]
    several = [f"{count:.3g} {what}" for count, what in counts if count > 0 and abs(count - 1) > 0.01]
    words = _iterations(loop)
    words += "" if isinstance(loop.epochs, Missing) else f" in {loop.epochs} epoch{'s' * (loop.epochs != 1)}"
    if loop.warm_iterations > 1:
        words += f"; the first {loop.warm_iterations:,} took {lap(loop.warm_s)} and are left out of the figure"
    else:
        words += f"; the first took {step(loop.first_ms)}"
    words += (
        f", {loop.compilations} compilation{'s' * (loop.compilations != 1)} {lap(loop.compile_s)}"
        if loop.compilations
        else ""
    )
    return f"{words}." + (f" An iteration has {joined(several)}." if several else "")


def _iterations(loop: TrainingLoop) -> str:
    return f"{loop.iterations:,} iteration{'s' * (loop.iterations != 1)}"


def _trainings_words(loop: TrainingLoop) -> str:
    if loop.trainings == 1:
        return ""
    return f"fit trained {loop.trainings} times, with another model or batch; the figures are of the longest training."


def _gap_words(loop: TrainingLoop, *, with_timed: bool = False) -> str:
    """Say what was between iterations. That some were timed line by line is a detail: no time of the script's."""
    gaps = [
        f"{GAP_WORDS[gap.kind]} {lap(gap.seconds)} ({often_words(gap.times)})"
        for gap in loop.gaps
        if gap.seconds > 0 and (with_timed or gap.kind != "timing lines")
    ]
    return f"Between iterations: {', '.join(gaps)}." if gaps else ""


def often_words(count: int) -> str:
    """Return how often something happened."""
    return "once" if count == 1 else f"{count:,} times"


def _process_lines(process: ScriptProcess, loop: TrainingLoop, view: View) -> list[str]:
    rank = "" if process.rank is None else f", rank {process.rank} of {process.world}"
    versions = ", ".join(f"{name} {version}" for name, version in process.versions.items())
    lines = painted(
        f"process {process.pid}{rank}: Python {process.python}, {versions}", view.width, "strong", color=view.color
    )
    lines += ["  " + line for line in phase_rows(loop, view.inner)]
    windows = f"windows {loop.steady_from + 1} to {max(1, len(loop.windows) - 1)}"
    steady_words = f"Counted by {loop.counted}; {loop.steady_kind}: figures are of {windows}."
    # Which lines take most of each part of an iteration, and which read values of tensors
    found = []
    for part in dict.fromkeys(line.part for line in process.lines):
        here = [f"{line.where} {percent(line.share)}" for line in process.lines if line.part == part][:LINES_SHOWN]
        found.append(f"Lines of '{PART_WORDS[part]}': {', '.join(here)}.")
    reads = [f"{read.where} {count(read.per_step)} in a step" for read in process.reads][:LINES_SHOWN]
    line_words = [*found, f"Values of tensors are read: {', '.join(reads)}."] if reads else found
    if not loop.losses:
        loss_words = "Its losses were not seen."
    else:
        loss_words = f"Loss: {loop.losses[0][1]:.4g} at first, {loop.losses[-1][1]:.4g} at last."
    optimizer_words = []
    for optimizer in process.optimizers:
        places = ", ".join(f"{parameters:,} on {device}" for device, parameters in optimizer.parameters.items())
        optimizer_words.append(f"{optimizer.name}: parameters {places} ({', '.join(optimizer.dtypes)}).")
    memory_words = ""
    if process.memory is not None:
        first = size(process.memory.first_bytes)
        last = size(process.memory.last_bytes)
        memory_words = f"Memory: {first} behind the first third of the iterations, {last} at the end."
    sentences = [
        _count_words(loop),
        steady_words,
        _trainings_words(loop),
        _gap_words(loop, with_timed=True),
        *optimizer_words,
        *dict.fromkeys(map(_loader_words, process.loaders)),  # Keras makes a loader of its own for each call
        loss_words,
        *line_words,
        memory_words,
    ]
    for sentence in filter(None, sentences):
        lines += wrap(clean(sentence), view.width, "  ")
    return lines


def _loader_words(loader: SeenLoader) -> str:
    counts = (loader.batch, loader.batches, loader.workers)
    batch, batches, workers = ("?" if value is None else f"{value:,}" for value in counts)
    return f"{loader.kind}: batch {batch}, {batches} batches, {workers} workers."


# The figures of a watched script: the parts of an iteration, iterations over time, gaps, losses, readings.

Loops = Sequence[tuple[str, TrainingLoop]]


def figures(record: Record) -> list[Figure]:
    """Return all figures of a watched command."""
    processes = watch_of(record).processes
    loops = [(_name(process, processes), process.loop) for process in processes if process.loop is not None]
    shares = tuple((name, parts) for name, loop in loops if (parts := _shares(loop)))
    says = "Without the start, with 95 % intervals. What was not seen is in the part around it."
    stack = [Figure("Where the time of an iteration goes", Stack(shares), says)] if shares else []
    known = [(name, loop) for name, loop in loops if loop.losses]
    losses = []
    if known:
        start_ns = min(loop.windows[0].start_ns for _, loop in known)
        curves = tuple(
            Curve(name, tuple(((at - start_ns) / 1e9, loss) for at, loss in loop.losses)) for name, loop in known
        )
        losses = [Figure("Loss", Plane(Axis("seconds"), Axis("loss"), curves), "As the script computed it.")]
    bars = tuple(
        Bar(
            f"{name}: {GAP_WORDS[gap.kind]}" if len(loops) > 1 else GAP_WORDS[gap.kind],
            gap.seconds,
            words=f"{lap(gap.seconds)}, {often_words(gap.times)}",
        )
        for name, loop in loops
        for gap in loop.gaps
    )
    gaps = [Figure("Between iterations", Bars("s", bars))] if bars else []
    drawn = [*stack, *_in_time(loops), *_over_time(loops), *losses, *gaps]
    return [*drawn, *folded(*reading_figures(record), *fact_figures(record))]


def _name(process: ScriptProcess, all_: Sequence[ScriptProcess]) -> str:
    if process.rank is not None:
        return f"rank {process.rank}"
    return "iterations" if len(all_) == 1 else f"process {process.pid}"


REST_FIELD = "unattributed_s"


def _shares(loop: TrainingLoop) -> tuple[Part, ...]:
    """Return the parts of an iteration, each with the interval of its mean over blocks of it.

    What is left has no name: with it, the parts come to 1, also where the time of one was not seen.
    """
    wall_s = loop.steady.wall_s
    windows = (loop.windows[1:] or loop.windows)[loop.steady_from :]
    size = max(1, len(windows) // AGE_BLOCKS)
    blocks = [windows[first : first + size] for first in range(0, len(windows) - size + 1, size)]
    known: dict[str, float] = {}
    for _, field in ITERATION_PARTS:
        part: float | Missing = getattr(loop.steady, field)
        if not isinstance(part, Missing) and part > 0 and wall_s and field != REST_FIELD:
            known[field] = part / wall_s
    found = []
    for field, share in (*known.items(), (REST_FIELD, 1 - sum(known.values()))):
        low = high = None
        if len(windows) >= FEWEST_STEADY:
            shares = [_share_of(block, field, [*known]) for block in blocks]
            _, least, most = mean_interval(shares, ALPHA)
            low = min(max(least, 0.0), share)
            high = max(min(most, 1.0), share)
        if known and share > LEAST_SHARE:
            found.append(Part(_part_words(loop, field), share, low, high))
    return tuple(found)


def _share_of(windows: Sequence[LoopWindow], field: str, known: Sequence[str]) -> float:
    """Return the share of a part in the time of some windows; the rest is what is left by those that are known."""
    if field == REST_FIELD:
        return 1 - sum(_share_of(windows, part, known) for part in known)
    wall_ns = max(sum(window.wall_ns for window in windows), 1)
    return sum(int(getattr(window, PARTS_OF[field])) for window in windows) / wall_ns


def _part_words(loop: TrainingLoop, field: str) -> str:
    """Return the name of a part of an iteration; what is seen as one call is the step."""
    if loop.counted in COUNTED_AS_ONE_CALL and field == "forward_backward_s":
        return "the step"
    return next(words for words, of in ITERATION_PARTS if of == field)


IN_TIME: tuple[tuple[str, SpanPart, str], ...] = (
    ("waiting for data", "data", "data_wait_s"),
    ("copying to the card", "copy", "copy_s"),
    ("forward", "forward", "forward_backward_s"),
    ("backward", "backward", "forward_backward_s"),
    ("the step", "step", "forward_backward_s"),
    ("without gradients", "no_grad", "no_grad_s"),
    ("optimizer", "optimizer", "optimizer_s"),
    ("checkpoints", "checkpoint", "checkpoint_s"),
    ("waiting for the disk", "disk", "outside_s"),
    ("outside the step", "outside", "outside_s"),
    ("unattributed", "unattributed", "unattributed_s"),
)
"""What an iteration was spent on in time, and the part of its time that this belongs to."""


def _in_time(loops: Loops) -> list[Figure]:
    """Return one iteration of each process on its own clock; those of further processes are folded."""
    found = []
    for place, (name, loop) in enumerate(loops):
        one = loop.typical
        if one is None or not one.wall_ns:
            continue
        parts = [part.label for part in _shares(loop)]
        rows = []
        for words, kind, field in IN_TIME:
            spans = tuple(ShownSpan(span.start_ns / 1e6, span.end_ns / 1e6) for span in one.spans if span.part == kind)
            if spans:
                took_ms = sum(span.end - span.start for span in spans)
                took = f"{step(took_ms)}, {percent(took_ms * 1e6 / one.wall_ns)}"
                label = _part_words(loop, field)
                rows.append(GanttRow(words, spans, parts.index(label) if label in parts else len(parts), took))
        of = "" if len(loops) == 1 else f" of {name}"
        usual = ""
        if loop.step_ms is not None:
            usual = f"; the mean of all is {step(loop.step_ms.median)} {spread(loop.step_ms)}"
        says = (
            f"Iteration {one.number:,}{of} took {step(one.wall_ns / 1e6)}, the middle one of {one.of:,} that were kept"
            f"{usual.rstrip()}. What is further right waited for what is left of it."
        )
        chart = Gantt("ms", one.wall_ns / 1e6, tuple(rows))
        found.append(Figure(f"What waits for what: one iteration{of}", chart, says, more=place > 0))
    return found


def _over_time(loops: Loops) -> list[Figure]:
    if not loops:
        return []
    start_ns = min(loop.windows[0].start_ns for _, loop in loops)
    curves = []
    for name, loop in loops:
        middles_s = [((window.start_ns + window.end_ns) / 2 - start_ns) / 1e9 for window in loop.windows]
        steps_ms = [window.wall_ns / window.iterations / 1e6 for window in loop.windows]
        curves.append(Curve(name, tuple(zip(middles_s, steps_ms, strict=True))))
    first = loops[0][1]
    steady = first.windows[min(first.steady_from + 1, len(first.windows) - 1)]
    bands = (Band(0.0, (steady.start_ns - start_ns) / 1e9, "warm-up", "left out of the figure"),)
    says = "Each point is the mean of a window of iterations; windows grow as a training gets longer."
    plane = Plane(Axis("seconds"), Axis("ms per iteration", is_log=True), tuple(curves), bands)
    return [Figure("Iterations over time", plane, says)]


def summary(record: Record) -> list[str]:
    answer = watch_of(record)
    loops = [process.loop for process in answer.processes if isinstance(process.loop, TrainingLoop)]
    if not loops:
        return [f"{duration(answer.wall_s)}, no training seen"]
    words = [f"{loops[0].iterations:,} iterations"]
    if isinstance(loops[0].step_ms, Estimate):
        words.append(f"{step(loops[0].step_ms.median)} each")
    return words


PART = QuestionPage(page_parts, summary, live_lines, figures)
