"""The page of a verdict on learning: its word, on what the loss was judged, and both sides seed by seed."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import zip_longest

from laptime.model.figure import Axis, Curve, Factors, Figure, Glance, GlanceFact, Plane, ShownFactor, folded
from laptime.model.quantities import percent
from laptime.model.record import Record
from laptime.questions.verdict.nouns import ERRORS, Learning, LearningRun, SeedPair, verdict_of
from laptime.questions.verdict.options import VerdictAsk
from laptime.show.pages import footnotes
from laptime.show.pages.layout import Column, table_or_sentences, wrap
from laptime.show.pages.page import PageParts, Said, View

BY_HEART = "It trains on these items, so what it learns by heart counts, too; held_out= names others."


def page_parts(record: Record, learning: Learning, view: View) -> PageParts:
    """Return what the page says: the word and its reason, the loss that was judged, and the times of each seed."""
    verdict = verdict_of(record)
    style = {"KEEP": "good", "DISCARD": "bad", "UNDECIDED": "strong"}[verdict.word]
    needs = [Said(f"What would decide: {verdict.needs}.", "")] if verdict.needs else []
    gain = (record.ask.verdict or VerdictAsk()).gain
    seeds = len(learning.pairs)
    sure = f"At most one KEEP in {2 / ERRORS:.0f} is of a change that learns no faster (p < {ERRORS / 2:g})."
    # How long each side trained from a seed
    trained = []
    for lane, runs in _sides(learning).items():
        last = runs[0].points[-1] if runs[0].points else None
        if last is not None:
            trained.append(
                f"{lane}: {last.steps:,} steps in {len(runs[0].points) - 1} legs from each of {len(runs)} seeds"
            )
    how_long = f"{'; '.join(trained)}. {record.elapsed_s:.0f} s in all." if trained else ""
    return PageParts(
        answer=[Said(f"{verdict.word}: {verdict.says}", style), *needs],  # type: ignore[arg-type]
        figures=_seed_table(record, learning.pairs, view.inner) if seeds else [],
        notes=[
            _judged_on(record, learning),
            *([BY_HEART] if learning.items and not learning.is_held_out else []),
            *([sure] if verdict.word == "KEEP" else []),
            *footnotes.failure_sentences(record),
            *footnotes.reaches(run.process for run in learning.runs),
        ],
        done=f"The work may differ. {seeds} of {learning.seeds} seeds; the gain that counts: {percent(gain)}.",
        details=[
            _seed_table(record, learning.pairs, view),
            _curve_table(record, learning, view),
            wrap(how_long, view.width),
        ],
        glance=Glance(verdict.word, "", verdict.says, (GlanceFact("Judged", _judged_on(record, learning)),)),
    )


def _names(record: Record) -> tuple[str, str]:
    """Return what the base and the candidate are called."""
    return record.workload.name, record.others[0].subject.name if record.others else "?"


def _judged_on(record: Record, learning: Learning) -> str:
    if not learning.items:
        return ""
    whose = "items that it holds out" if learning.is_held_out else "items of its data"
    return f"Judged: the loss of {record.workload.name}, in its network, on {learning.items:,} {whose}."


def _seed_table(record: Record, pairs: Sequence[SeedPair], view: View) -> list[str]:
    """Return a row a seed: the loss that both reach, when each does, and the factor."""
    base, candidate = _names(record)
    columns: list[Column[SeedPair]] = [
        Column("seed", lambda pair: f"{pair.seed}", right=True),
        Column("loss", lambda pair: f"{pair.loss:.3g}", right=True),
        Column(base, lambda pair: _seconds(pair.base_s), right=True, least=8),
        Column(candidate, lambda pair: _seconds(pair.candidate_s), right=True, least=8),
        Column(
            "",
            lambda pair: f"{pair.base_s / pair.candidate_s:.2f}x" if pair.base_s and pair.candidate_s else "-",
            right=True,
        ),
        Column("ends at", lambda pair: " and ".join(f"{end:.3g}" for end in pair.ends), right=True),
    ]
    return table_or_sentences(columns, pairs, view.width, color=view.color)


def _seconds(seconds: float | None) -> str:
    return "-" if seconds is None else f"{seconds:.3g} s"


def _sides(learning: Learning) -> dict[str, list[LearningRun]]:
    """Return the runs of each lane, the base's first."""
    sides: dict[str, list[LearningRun]] = {}
    for run in sorted(learning.runs, key=lambda run: run.order):
        sides.setdefault(run.process.lane, []).append(run)
    return sides


def _curve_table(record: Record, learning: Learning, view: View) -> list[str]:
    """Return the first seed's curves: the seconds and the loss of both sides after each leg."""
    firsts = [runs[0].points for runs in _sides(learning).values()]
    if len(firsts) < 2:
        return []
    sides = [
        [f"{point.train_s:.3g} s: {'not finite' if point.loss is None else f'{point.loss:.4g}'}" for point in points]
        for points in firsts
    ]
    rows = [*zip_longest(*sides, fillvalue="")]
    columns = [
        Column(name, lambda row, place=place: row[place], right=True, least=12)  # type: ignore[misc]
        for place, name in enumerate(_names(record))
    ]
    return table_or_sentences(columns, rows, view.width, color=view.color)


def figures(record: Record, learning: Learning) -> list[Figure]:
    """Return what a report draws: losses over seconds, and the factors of the seeds."""
    curves = tuple(
        Curve(lane, tuple((point.train_s, point.loss) for point in run.points if point.loss is not None))
        for lane, runs in _sides(learning).items()
        for run in runs
    )
    if not curves:
        return []
    plane = Plane(Axis("seconds of training", from_zero=True), Axis("loss"), curves)
    drawn = [Figure("Losses", plane, "A curve a seed, judged alike for both.")]
    factor = verdict_of(record).factor
    lanes = [*_sides(learning)]
    if factor is not None and len(lanes) == 2:
        rounds = tuple(pair.base_s / pair.candidate_s for pair in learning.pairs if pair.base_s and pair.candidate_s)
        low, high = factor.ends or (None, None)
        shown = ShownFactor(lanes[1], factor.ratio, low, high, rounds)
        drawn += folded(Figure("Times as fast to the same loss", Factors(lanes[0], (shown,)), "A dot a seed."))
    return drawn
