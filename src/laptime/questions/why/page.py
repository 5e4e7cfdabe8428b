"""The page of why: the verdict, where a step's time goes, the ceilings, the remedies, what was ruled out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import floor, isfinite

from laptime.model.figure import (
    Bar,
    Bars,
    Factors,
    Figure,
    Glance,
    GlanceFact,
    Part,
    ShownFactor,
    Stack,
    Table,
    are_far_apart,
    folded,
)
from laptime.model.quantities import Factor, Missing, number, percent
from laptime.model.record import LaneResult, Record
from laptime.model.symptoms import LONGEST_LINES
from laptime.model.visible import cells_wide
from laptime.questions.forecast.page import card_sentence
from laptime.questions.why.nouns import (
    INPUT,
    LEARNING,
    NOT_PROMISING,
    WHAT_IT_DOES,
    CauseStanding,
    Ceiling,
    PartOf,
    Remedy,
    StepPart,
    Why,
    WhyAnswer,
    recommended_first,
    why_of,
)
from laptime.show.figures import fact_figures, lane_bars, reading_figures, roofline_figures, step_figures
from laptime.show.pages import footnotes
from laptime.show.pages.layout import Cell, Column, Style, clean, flow, lay_out_table, table_or_sentences, wrap
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import NARROWEST, PageParts, QuestionPage, Said, View, quiet
from laptime.show.pages.summaries import summary_of_race
from laptime.show.pages.words import WIDE_INTERVAL, duration, factor, machine_words, short_name, step_words

STANDINGS: tuple[CauseStanding, ...] = ("proven", "likely", "ruled out", "not tested", "not testable here")
# The signs differ without colour; letters are for a terminal without block characters.
STEP_PARTS: tuple[PartOf, ...] = ("loader", "copy", "compute", "host", "outside", "unattributed")
GAINS_MOST = 8  # remedies that are drawn
PART_BLOCKS = dict(zip(STEP_PARTS, "█▓▒░▚·", strict=True))
PART_LETTERS = dict(zip(STEP_PARTS, "#=+-o.", strict=True))
PART_NAMES: dict[PartOf, str] = {"host": "host (the device waits)", "outside": "outside the step"}
WORTH_A_BLOCK = 0.005
REMEDIES_MOST = 4  # on the short page
NOT_THE_LOADER = 1.5  # a loader alone this many times as fast as the training is not its limit
BEYOND_MEASURE = 1_000
PAIRS_FEW = 4  # of which an interval is wide
REDRAWN = (
    "An item of the data set differs when it is fetched again, so to keep items changes the learning. Keep what is "
    "decoded, and draw around it: docs/remedies.md."
)
NOT_PREDICTED = "not predicted: "


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    why = why_of(record)
    view = replace(view, width=max(view.width, NARROWEST))
    # Whether a search that goes on may find more
    is_likely = any(cause.standing == "likely" for cause in why.causes if cause.cause in why.first)
    has_few = any(comparison.pairs < PAIRS_FEW for comparison in record.answer.comparisons)
    is_open = bool(why.missing) or record.status == "interrupted" or (is_likely and has_few)
    # How many heats ran, and how long they took
    heats = sum(len(lane.heats) for lane in record.lanes)
    lanes = len(record.lanes)
    in_parts = f" in {len(record.parts)} parts" if record.parts else ""
    ran = f"{heats} heat{'s' * (heats != 1)} of {lanes} lane{'s' * (lanes != 1)}{in_parts}"
    closing = f"{ran}, {duration(record.elapsed_s)}."
    if record.status != "finished":
        closing = f"{footnotes.status_words(record)}: {closing}"
    asked = _of_lane(record)
    return PageParts(
        answer=[*footnotes.distrust(record), Said(why.says)],
        figures=_figures(record, why, view.inner),
        notes=[  # the most important first
            *_line_words(record, why),
            *_loader_words(record, why),
            *_redrawn_words(record, why),
            *card_sentence(record),
            *footnotes.failure_sentences(asked),
            *footnotes.doubts(asked),
            *([f"The budget had no room for: {', '.join(why.missing)}."] if why.missing else []),
        ],
        done=" ".join([closing, *footnotes.spent_words(record, "search")]),
        then=[f"Next: laptime why --more {record.id}"] if is_open else [],
        details=_details(record, why, view),
        glance=glance_of(record, why),
    )


def _figures(record: Record, why: Why, view: View) -> list[str]:
    """Return where a step's time goes, the remedies that were proven to gain, and the code of the best one."""
    lines = _step(record, why, view.width, blocks=view.blocks)
    gaining = [remedy for remedy, found in measured_remedies(why) if remedy.recommended or _style(found) == "good"]
    shown = gaining[:REMEDIES_MOST]
    if not shown:
        return [*lines, *_untested(record, why, view.width)]
    table = table_or_sentences(_columns()[:-1], shown, view.width, color=view.color)
    lines += ["", *table]
    coded = [remedy for remedy in shown if remedy.code and remedy.is_code]
    if coded:
        lines += ["", *wrap(f"{coded[0].says}:", view.width, "  "), *_code_of(coded[0])]
        lines += _place_of(record, why, coded[0], view.width)
    return lines


def _untested(record: Record, why: Why, width: int) -> list[str]:
    """Return what may be changed about the cause that the verdict names first, where nothing that gains was measured.

    The first is one whose place in the user's code is known.
    """
    named = [
        remedy
        for remedy in why.remedies
        if remedy.cause in why.first[:1]
        and remedy.measured is None
        and remedy.code
        and remedy.is_code
        and remedy.reason != NOT_PROMISING
    ]
    remedy = min(named, key=lambda remedy: remedy.change is None, default=None)
    if remedy is None:
        return []
    head = f"Not tested here: {remedy.says}."
    place = _place_of(record, why, remedy, width, is_tested=False)
    return ["", *wrap(head, width), *_code_of(remedy), *place]


def measured_remedies(why: Why) -> list[tuple[Remedy, Factor]]:
    """Return the measured remedies with their gains, the best first, and those that change the learning last."""
    measured = [(remedy, remedy.measured) for remedy in why.remedies if remedy.measured is not None]
    return sorted(measured, key=lambda pair: (not pair[0].recommended, pair[0].changes == LEARNING, -pair[1].ratio))


def was_tried(remedy: Remedy) -> bool:
    """Whether a remedy was raced, even if that failed."""
    return remedy.measured is not None or remedy.lane is not None


def _code_of(remedy: Remedy) -> list[str]:
    """Return the lines of a remedy's code, unbroken; that of a preset is one line a setting."""
    lines = [remedy.code] if remedy.changes == WHAT_IT_DOES else remedy.code.split("; ")  # one is a sentence, not code
    return [f"  {clean(line)}" for line in lines]


def _place_of(record: Record, why: Why, remedy: Remedy, width: int, *, is_tested: bool = True) -> list[str]:
    """Return what makes the change, where the place of it in the user's code is known."""
    if remedy.change is None:
        return []
    place = [other for other in recommended_first(why) if other.change is not None].index(remedy)
    return wrap(footnotes.apply_words(record, remedy.change, place, is_tested=is_tested), width, "  ")


def _line_words(record: Record, why: Why) -> list[str]:
    """Return the lines of a script that take most of a step, where the cause that is named first has none."""
    lane = _lane(record, why)
    signs = None if lane is None else next((heat.heat.signs for heat in lane.heats if heat.heat.signs), None)
    named = next((cause for cause in why.causes if cause.cause in why.first[:1]), None)
    if signs is None or LONGEST_LINES not in signs.notes or (named is not None and named.evidence.get("where")):
        return []
    return [f"Of a step, most is in {clean(signs.notes[LONGEST_LINES])}."]


def _loader_words(record: Record, why: Why) -> list[str]:
    """Return what the loader alone gives, where it is not what limits the lane."""
    loader = next((ceiling for ceiling in why.ceilings if ceiling.stage == "loader"), None)
    lane = _lane(record, why)
    if loader is None or lane is None or lane.items_per_s is None or isinstance(loader.items_per_s, Missing):
        return []
    used = lane.items_per_s.median
    if loader.binds or loader.items_per_s < NOT_THE_LOADER * used:
        return []
    if any(cause.cause == INPUT and cause.standing in {"proven", "likely"} for cause in why.causes):
        rate = f"{number(loader.items_per_s)} {record.workload.items}/s"
        return [f"The loader alone gives {rate}; a step waits for it and then computes, so the times add up."]
    items = record.workload.items
    if loader.items_per_s > BEYOND_MEASURE * used:
        return [f"The loader is no limit: it gives over {BEYOND_MEASURE:,} times the {items} that this training uses."]
    return [f"The loader is no limit: it gives {number(loader.items_per_s)} {items}/s, you use {number(used)}."]


def _redrawn_words(record: Record, why: Why) -> list[str]:
    """Return why no remedy that keeps items is recommended, where the data set draws them again each time."""
    lane = _lane(record, why)
    if lane is None or not any(
        result.heat.signs is not None and result.heat.signs.redrawn is True for result in lane.heats
    ):
        return []
    return [REDRAWN]


def _details(record: Record, why: Why, view: View) -> list[list[str]]:
    """Return all that was found, in sections."""
    width = view.width
    color = view.color
    # The ceilings. Unknown ones come last, with their reasons.
    known_first = sorted(why.ceilings, key=lambda ceiling: isinstance(ceiling.items_per_s, Missing))
    ceilings = [_ceiling(ceiling, record.workload.items) for ceiling in known_first]
    # All causes, by their standing
    causes = []
    for standing in STANDINGS:
        judged = [f"{cause.cause} ({cause.says})" for cause in why.causes if cause.standing == standing]
        causes.append(flow(judged, width, f"{standing}: ") if judged else [])
    missing = wrap(f"The budget had no room for: {', '.join(why.missing)}.", width, "  ") if why.missing else []
    # What a reader must know about the lane itself
    asked = _of_lane(record)
    sentences = [*footnotes.remarks(asked), machine_words(record.machine)]
    remarks = [footnotes.failures(asked, width), *(wrap(sentence, width, "  ") for sentence in sentences)]
    return [
        _step(record, why, width, blocks=view.blocks),
        flow(ceilings, width, "ceilings: ") if ceilings else [],
        *remedy_sections(why.remedies, width, color=color),
        *causes,
        missing,
        *(wrap(word, width, "  ") for word in _line_words(record, why)),
        *(wrap(word, width, "  ") for word in [*_redrawn_words(record, why), *card_sentence(record)]),
        *(quiet(lines, color=color) for lines in remarks),
    ]


def _step(record: Record, why: Why, width: int, *, blocks: bool) -> list[str]:
    lane = _lane(record, why)
    if lane is None or lane.step_ms is None:
        return []
    bar = bar_lines(why.parts, width, blocks=blocks)
    return [f"a step {step_words(lane)}", *bar]


def _ceiling(ceiling: Ceiling, items: str) -> str:
    rate = ceiling.items_per_s
    if isinstance(rate, Missing):
        return f"{ceiling.stage} only - ({rate.missing})"
    if ceiling.half is None or not rate:
        spread = ""
    else:
        half = ceiling.half / rate
        spread = f" \N{PLUS-MINUS SIGN}{percent(half)}" if half <= 1 else " (from two heats that differ)"
    words = f"{ceiling.stage} only {number(rate)} {items}/s{spread}"
    return f"{words} (binds)" if ceiling.binds else words


def _of_lane(record: Record) -> Record:
    """Return the record of the lane itself. Of the experiments only the gains matter."""
    return replace(record, lanes=record.lanes[:1], findings=(), answer=WhyAnswer())


def _lane(record: Record, why: Why) -> LaneResult | None:
    return next((lane for lane in record.lanes if lane.name == why.lane), None)


def bar_lines(parts: Sequence[StepPart], width: int, *, blocks: bool = True) -> list[str]:
    """Return a bar as wide as the page, and the legend below it. The percentages add up to 100."""
    signs = PART_BLOCKS if blocks else PART_LETTERS
    shown = [part for part in drawn_parts(parts) if part.share > 0 or part.of == "unattributed"]
    cells = _shared_out([part.share for part in shown], width, least=WORTH_A_BLOCK)
    percents = _shared_out([part.share for part in shown], 100, least=1.0)
    bar = "".join(signs[part.of] * count for part, count in zip(shown, cells, strict=True))
    legend = [
        f"{signs[part.of]} {PART_NAMES.get(part.of, part.of)} {count} %"
        for part, count in zip(shown, percents, strict=True)
    ]
    one_line = "   ".join(legend)
    return [bar, *([one_line] if cells_wide(one_line) <= width else flow(legend, width))]


def drawn_parts(parts: Sequence[StepPart]) -> list[StepPart]:
    """Return the parts of a step with shares that can be drawn: from 0 to 1."""
    return [replace(part, share=min(max(part.share, 0.0), 1.0) if isfinite(part.share) else 0.0) for part in parts]


def _shared_out(shares: Sequence[float], whole: int, *, least: float) -> list[int]:
    """Divide `whole` units by the shares, so that none is left. A share of at least `least` gets one."""
    exact = [share * whole for share in shares]
    given = [max(floor(units), int(share >= least)) for units, share in zip(exact, shares, strict=True)]
    by_rest = sorted(range(len(given)), key=lambda place: given[place] - exact[place])
    for place in by_rest[: max(0, whole - sum(given))]:
        given[place] += 1
    while sum(given) > whole:
        given[given.index(max(given))] -= 1
    return given


def remedy_sections(remedies: Sequence[Remedy], width: int, *, color: bool) -> list[list[str]]:
    """Return the table of tried remedies, failed ones with their reason. Then list the others, grouped by reason."""
    tried = [remedy for remedy in remedies if was_tried(remedy)]
    unknown = [(remedy, remedy.predicted.missing) for remedy in tried if isinstance(remedy.predicted, Missing)]
    others = [(remedy, remedy.reason or "no reason is known") for remedy in remedies if remedy not in tried]
    return [
        _remedy_table(tried, width, color=color) if tried else [],
        _grouped(unknown, NOT_PREDICTED, width),
        _grouped(others, "not tried: ", width),
    ]


def measured_words(measured: Factor) -> str:
    """Return a factor, with half its interval if it has one."""
    ratio = f"{factor(measured.ratio)}x"
    if measured.ends is None or measured.half is None:
        return f"{ratio} (one pair)"
    if measured.half > WIDE_INTERVAL * measured.ratio:
        return f"{ratio} ({'-'.join(map(factor, measured.ends))})"
    return f"{ratio} \N{PLUS-MINUS SIGN}{factor(measured.half, measured.ratio)}"


def _remedy_table(tried: Sequence[Remedy], width: int, *, color: bool) -> list[str]:
    """Return the table. If the column of code does not fit, the code follows below, unbroken, to be copied."""
    with_code = lay_out_table(_columns(), tried, width, color=color)
    if with_code is not None:
        return with_code
    # The code of each remedy that gains something, unbroken at any width
    lines: list[str] = []
    for remedy in tried:
        if remedy.code and remedy.measured is not None and _style(remedy.measured) == "good":
            lines += [*wrap(f"{remedy.says}:", width, "  "), *(f"  {line}" for line in _code_of(remedy))]
    return [*table_or_sentences(_columns()[:-1], tried, width, color=color), *lines]


def _columns() -> list[Column[Remedy]]:
    """Return the columns of the remedies, the code last."""
    return [
        Column("remedy", _name, least=18),
        Column("predicted", lambda remedy: _said(remedy.predicted), right=True),
        Column(
            "measured",
            lambda remedy: (
                Cell(f"failed: {remedy.reason or 'no reason is known'}", "bad", spans=True)
                if remedy.measured is None
                else Cell(measured_words(remedy.measured), _style(remedy.measured))
            ),
        ),
        Column("changes", lambda remedy: remedy.changes, least=10),
        Column("how", lambda remedy: remedy.code),
    ]


def _name(remedy: Remedy) -> Cell:
    return Cell(_remedy_name(remedy), "strong" if remedy.recommended else "")


def _said(predicted: float | Missing) -> str:
    return "-" if isinstance(predicted, Missing) else f"{factor(predicted)}x"


def _style(measured: Factor) -> Style:
    return "good" if measured.is_above(1) else "bad" if measured.is_below(1) else ""


def _grouped(remedies: Sequence[tuple[Remedy, str]], head: str, width: int) -> list[str]:
    """Return remedies grouped by their reason."""
    by_reason: dict[str, list[str]] = {}
    for remedy, reason in remedies:
        by_reason.setdefault(reason, []).append(remedy.says)
    parts = [f"{', '.join(names)} ({why})" for why, names in by_reason.items()]
    return flow(parts, width, head) if parts else []


# The figures of why: the parts of a step, the three ceilings, what each experiment gained, and all causes.


def figures(record: Record) -> list[Figure]:
    """Return all figures of why."""
    why = why_of(record)
    # The measured gains of remedies around 1, the best first
    rows = []
    for remedy, found in [pair for pair in measured_remedies(why) if pair[1].ratio > 0][:GAINS_MOST]:
        low, high = found.drawn_ends
        rows.append(ShownFactor(_remedy_name(remedy), found.ratio, low, high, words=_factor_words(found)))
    says = "Each was raced against the lane as it is. The line is the estimate, the band its 95 % interval."
    lane = short_name(why.lane)
    gains = [Figure("What it would gain, as measured", Factors(lane, tuple(rows)), says)] if rows else []
    shares = tuple(Part(part.of, part.share) for part in drawn_parts(why.parts) if part.share > 0)
    parts = [Figure("Where the time of a step goes", Stack(((lane, shares),)))] if shares else []
    causes = tuple((cause.cause, cause.standing, cause.says) for cause in why.causes)
    # The remedies with their code: those to which something pointed, then all others, folded
    heads = ("remedy", "=predicted", "=measured", "changes", "`code")
    pointed = [remedy for remedy in why.remedies if was_tried(remedy) or isinstance(remedy.predicted, float)]
    tried = Table(heads, tuple(map(_remedy, pointed)))
    others = Table(heads, tuple(_remedy(remedy) for remedy in why.remedies if remedy not in pointed))
    remedies = [Figure("What may be changed", tried, "The code does the same in your training.")] * bool(tried.rows)
    says = "Nothing pointed to these, or they cannot be tried here."
    remedies += [Figure("What was not tried", others, says, more=True)] * bool(others.rows)
    return [
        *gains,
        *remedies,
        *parts,
        *_ceilings_figure(why, record),
        Figure("Every cause that was judged", Table(("cause", "verdict", "why"), causes)),
        *folded(
            *lane_bars(record),
            *step_figures(record.lanes[:1]),
            *roofline_figures(record.lanes[:1]),
            *reading_figures(record),
            *fact_figures(record),
        ),
    ]


def _ceilings_figure(why: Why, record: Record) -> list[Figure]:
    bars = []
    for ceiling in why.ceilings:
        if isinstance(ceiling.items_per_s, Missing):
            bars.append(Bar(ceiling.stage, None, words=ceiling.items_per_s.missing, kind="failed"))
            continue
        low, high = ceiling.drawn_ends
        words = f"{number(ceiling.items_per_s)}{', which binds' if ceiling.binds else ''}"
        bars.append(Bar(ceiling.stage, ceiling.items_per_s, low, high, words, "best" if ceiling.binds else "lane"))
    is_log = are_far_apart(bars)
    says = f"{record.workload.items} per second of each stage alone. The lowest binds."
    says += " The scale is logarithmic." * is_log
    return [Figure("The three ceilings", Bars("a second", tuple(bars), is_log=is_log), says)] if bars else []


def _remedy_name(remedy: Remedy) -> str:
    return f"{remedy.says} (recommended)" if remedy.recommended else remedy.says


def glance_of(record: Record, why: Why) -> Glance | None:
    """Return the gain of the best remedy that was measured, and its code."""
    measured = measured_remedies(why)
    if not measured or not why.trusted:
        return None
    remedy, found = measured[0]
    if _style(found) != "good" or found.ends is None:
        return None
    facts = [GlanceFact(remedy.says, f"it changes {remedy.changes}")]
    facts += [GlanceFact("Code", remedy.code, is_command=True)] if remedy.code else []
    facts += [
        GlanceFact(f"{len(measured)} remed{'y' if len(measured) == 1 else 'ies'} raced", duration(record.elapsed_s))
    ]
    ends = f"{'-'.join(factor(end, found.ratio) for end in found.ends)} at 95 %, measured"
    return Glance(f"{factor(found.ratio)}x", ends, why.says, tuple(facts))


def _remedy(remedy: Remedy) -> tuple[str, ...]:
    measured = _factor_words(remedy.measured) if remedy.measured else f"- ({remedy.reason})"
    return _remedy_name(remedy), _said(remedy.predicted), measured, remedy.changes, remedy.code


def _factor_words(found: Factor) -> str:
    if found.ends is None:
        return f"{factor(found.ratio)}x (one pair)"
    return f"{factor(found.ratio)}x ({'-'.join(map(factor, found.ends))})"


def summary(record: Record) -> list[str]:
    answer = record.answer
    if isinstance(answer, WhyAnswer) and answer.why is not None:
        # The first cause, and the gain of the recommended remedy
        why = answer.why
        standing = {verdict.cause: verdict.standing for verdict in why.causes}
        cause = f"{why.first[0]} ({standing.get(why.first[0], 'likely')})" if why.first else "no cause found"
        words = [f"why {short_name(why.lane)}: {cause}"]
        best = next((remedy for remedy in why.remedies if remedy.recommended and remedy.measured is not None), None)
        return [*words, f"{best.says} {best.measured.ratio:.2f}x"] if best and best.measured else words
    return summary_of_race(record)


PART = QuestionPage(page_parts, summary, live_lanes, figures)
