"""The page of a verdict: its word first, why, and its rounds."""

from __future__ import annotations

from dataclasses import replace
from math import floor

from laptime.analysis.replays import REPEATS_WITHIN
from laptime.model.figure import Figure
from laptime.model.quantities import Factor, brief, percent
from laptime.model.record import Record
from laptime.model.rows import OF_TRAINING
from laptime.questions.race import page as race
from laptime.questions.verdict import learning_page
from laptime.questions.verdict.nouns import (
    ERRORS,
    SESSION_ERROR,
    Decision,
    SessionPart,
    VerdictAnswer,
    Word,
    learning_of,
    session_of,
    verdict_of,
)
from laptime.questions.verdict.options import VerdictAsk
from laptime.show.pages import footnotes
from laptime.show.pages.lanes import proof_sentence
from laptime.show.pages.layout import Style
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import PageParts, QuestionPage, Said, View
from laptime.show.pages.words import joined, short_name

MORE_DECIDES = ("wide", "early")
STYLES: dict[Word, Style] = {"KEEP": "good", "DISCARD": "bad", "UNDECIDED": "strong"}


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says: the word and its reason, the lanes, and how sure it is."""
    learning = learning_of(record)
    if learning is not None:
        return learning_page.page_parts(record, learning, view)
    verdict = verdict_of(record)
    parts = race.page_parts(record, view)
    needs = [Said(f"What would decide: {verdict.needs}.", "")] if verdict.needs else []
    twin = f"The base against itself: {_ends(verdict.twin, record)}." if verdict.twin is not None else ""
    gain = (record.ask.verdict or VerdictAsk()).gain
    places = joined([*dict.fromkeys(short_name(lane.name.partition(OF_TRAINING)[0]) for lane in record.lanes)])
    how = f"{footnotes.runs_words(record)} on {places}; the gain that counts: {percent(gain)}."
    # A turn of the candidate was taken again by a base that repeats its own; scripts have none
    replays = [replay for lane in record.lanes for result in lane.heats for replay in result.heat.replays]
    has_replay = bool(record.workload.command) or any((replay.repeats or 0.0) <= REPEATS_WITHIN for replay in replays)
    session = session_of(record)
    most_wrong = f"At most one KEEP in {floor(2 / ERRORS / record.error_times)}"
    kept_errors = [f"{most_wrong} is of a change that makes nothing faster."]
    if session is not None:
        kept_errors = [f"At most one session in {1 / SESSION_ERROR:.0f} keeps any change that makes nothing faster."]
    glance = parts.glance
    if glance is not None:
        ends = glance.ends if verdict.factor is None else _ends(verdict.factor, record)
        glance = replace(glance, number=verdict.word, ends=ends, sentence=verdict.says)
    return replace(
        parts,
        answer=[Said(f"{verdict.word}: {verdict.says}", STYLES[verdict.word]), *needs],
        notes=[
            *([] if session is None else [_session_words(session, verdict)]),
            *filter(None, [twin, *footnotes.failure_sentences(record), *footnotes.doubts(record)]),
            *footnotes.reaches(result.heat.process for lane in record.lanes for result in lane.heats),
            *(kept_errors if verdict.word == "KEEP" else []),
            *([NOT_TAKEN_AGAIN] if verdict.word == "KEEP" and not has_replay else []),
        ],
        done=" ".join(filter(None, [proof_sentence(record), how])),
        then=[f"Next: laptime verdict --more {record.id}"] if verdict.cause in MORE_DECIDES and session is None else [],
        glance=glance,
    )


NOT_TAKEN_AGAIN = "No timed turn was taken again by the base's code: work that is left out later may not be seen."


def _session_words(session: SessionPart, verdict: Decision) -> str:
    """Return the number of a verdict in its session, and what it had or would have had of its error."""
    name = f"Verdict {session.number} of session {session.name}"
    error = f"{100 * session.error:.2g} %"
    if session.chosen is None:
        held = f"{brief(session.held_s)} s of the budget were held to confirm a KEEP at {error}"
        return f"{name} spent none of its error: {held}."
    rounds = f"{session.chosen.pairs} round{'s' * (session.chosen.pairs != 1)} chose this change"
    if verdict.word == "KEEP":
        return f"{name}: {rounds}, and fresh rounds confirmed it at an error of {error}."
    return f"{name}: {rounds}, and fresh rounds did not confirm it. An error of {error} is spent."


def _ends(factor: Factor, record: Record) -> str:
    if factor.ends is None:
        return f"{factor.ratio:.3f}x"
    low, high = factor.ends
    return f"{factor.ratio:.3f}x ({low:.3f}-{high:.3f} at {footnotes.sure_at(1 - ERRORS * record.error_times)})"


def figures(record: Record) -> list[Figure]:
    """Return what a report draws: the same as of a race; or curves, where learning was judged."""
    learning = learning_of(record)
    return race.figures(record) if learning is None else learning_page.figures(record, learning)


def summary(record: Record) -> list[str]:
    """Return the few words in a list."""
    answer = record.answer
    has_one = isinstance(answer, VerdictAnswer) and answer.verdict is not None
    return [f"{verdict_of(record).word}, {verdict_of(record).cause}"] if has_one else ["no verdict"]


PART = QuestionPage(page_parts, summary, live_lanes, figures)
