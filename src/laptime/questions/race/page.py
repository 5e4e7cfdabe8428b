"""The page of a race: which lane was faster, by what factor, and whether all did the same work; and the display while
lanes race, whatever the question.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import ceil, inf, log, log1p

from laptime.model.figure import Factors, Figure, Glance, GlanceFact, ShownFactor, ShownRound, ShownTurn, Turns, folded
from laptime.model.frameworks import FleetNode
from laptime.model.machine import Machine
from laptime.model.process import NO_TRAINING
from laptime.model.quantities import Missing, number, percent, step
from laptime.model.record import (
    ERROR_RATE,
    Comparison,
    HeatResult,
    LaneResult,
    RaceAnswer,
    Record,
    error_share,
)
from laptime.model.rows import parts_of
from laptime.model.stats import FIRST_LOOK, t_quantile
from laptime.model.visible import as_command
from laptime.questions.doctor.nouns import CARD_NOT_SEEN
from laptime.questions.forecast.page import card_sentence
from laptime.questions.profile.page import limit_lines, profile_figures, profiles
from laptime.show.figures import fact_figures, lane_bars, proof_figures, reading_figures, roofline_figures, step_figures
from laptime.show.pages import footnotes
from laptime.show.pages.lanes import (
    ends_words,
    is_other_work,
    lane_table,
    lap_cost,
    money_words,
    most_telling,
    names_of_trainings,
    proof_at_a_glance,
    proof_sentence,
    published_line,
    row_name,
    spoken_name,
    usage_lines,
)
from laptime.show.pages.layout import Cell, wrap
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import (
    NARROWEST,
    PageParts,
    QuestionPage,
    Row,
    Said,
    View,
    bar_rows,
    header,
    quiet,
)
from laptime.show.pages.summaries import summary_of_race
from laptime.show.pages.words import (
    above_one,
    against_first,
    duration,
    factor,
    failure_words,
    joined,
    lap,
    lap_words,
    machine_words,
    over,
    place_words,
    reference_name,
    short_name,
    step_words,
)

# What a page says of a race on several types of nodes: how these differ, what a lap costs on each, and the nodes.


def fleet_words(record: Record) -> list[str]:
    """Return how the versions on the nodes differ, and which nodes were left out: for the top of the page."""
    nodes = nodes_of(record)
    found = (what for node in nodes if node.machine is not None for what, _ in _facts(node.machine, record))
    facts_of = list(dict.fromkeys(found))
    differing = [_differing(what, nodes, record) for what in facts_of]
    out: dict[str, list[str]] = {}
    for node in nodes:
        if node.problem is not None:
            out.setdefault(f"{node.of}: {node.problem}", []).append(node.node)
    left_out = [f"{len(ids)} node{'s' * (len(ids) != 1)} left out, {says}" for says, ids in out.items()]
    differences = list(filter(None, differing))
    return [
        *([f"The nodes differ: {'; '.join(differences)}."] if differences else []),
        *(f"{sentence.rstrip('.')}." for sentence in left_out),
    ]


def price_words(record: Record) -> list[str]:
    """Return which type is the cheapest for a lap, and which the fastest."""
    costs = {lane.name: cost for lane in record.lanes if (cost := lap_cost(lane, record)) is not None}
    if not costs:
        return []
    laps = {lane.name: lane.lap_s.median for lane in record.lanes if lane.name in costs and lane.lap_s is not None}
    cheapest = min(costs, key=costs.__getitem__)
    fastest = min(laps, key=laps.__getitem__)
    sentence = f"A lap is cheapest on {short_name(cheapest)} ({number(costs[cheapest])})"
    if all(comparison.verdict == "not distinguishable" for comparison in record.answer.comparisons):
        return [f"{sentence}; none was found to be faster."]
    if cheapest == fastest:
        return [f"{sentence}, which is also the fastest."]
    return [f"{sentence}, and fastest on {short_name(fastest)} ({number(costs[fastest])})."]


def node_lines(record: Record, width: int) -> list[str]:
    """Return a line a node: its type, its name, and what it has."""
    lines: list[str] = []
    for node in nodes_of(record):
        facts: list[str] = []
        if node.machine is not None:
            versions = dict(_facts(node.machine, record))
            facts = [machine_words(node.machine), *(f"{what} {value}" for what, value in versions.items())]
        words = [
            f"{node.of}: {node.host or 'its name is not known'}",
            node.node[:12],
            *facts,
            *filter(None, [node.problem]),
        ]
        lines += wrap(", ".join(words), width, "  ")
    return lines


def nodes_of(record: Record) -> tuple[FleetNode, ...]:
    return record.answer.nodes if isinstance(record.answer, RaceAnswer) else ()


def _facts(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
    """Return the versions that may make two nodes differ: Python, the frameworks of the lanes, drivers of cards."""
    raced = {name for lane in record.lanes for name in (lane.name.partition("/")[0], *lane.framework)}
    for framework in machine.frameworks:
        if framework.name in raced:
            yield from ({framework.name: framework.version} | framework.versions | {"python": machine.python}).items()
    drivers = sorted({card.driver for card in machine.cards if not isinstance(card.driver, Missing)})
    if drivers:
        yield "driver", " and ".join(drivers)


def _differing(what: str, nodes: tuple[FleetNode, ...], record: Record) -> str:
    """Return the values of one fact on each type, or "" if all nodes have the same."""
    of: dict[str, list[str]] = {}
    for node in nodes:
        if node.machine is not None and node.problem is None:
            value = dict(_facts(node.machine, record)).get(what, "none")
            of.setdefault(value, []).append(node.of)
    if len(of) < 2:
        return ""
    return f"{what} {joined([f'{value} on {joined([*dict.fromkeys(on)])}' for value, on in of.items()])}"


TURNS_MOST = 600  # more would be bars of less than a pixel
PROFILES_MOST = 2  # on the short page
MORE_MOST_S = 3600.0  # that a page expects: what would take longer is too rough a guess


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    view = replace(view, width=max(view.width, NARROWEST))
    # Say at which confidence the intervals are, where that is less than of a race in one go; and what would settle
    minutes = _minutes_more(record)
    within = percent(record.ask.margin)
    more = f"About {minutes} min more should bring every factor within {within}."
    parts_words = [*footnotes.spent_words(record, "race"), *([] if minutes is None else [more])]
    profile_lines = profile_figures(record, view.inner, lanes=PROFILES_MOST)
    return PageParts(
        answer=[
            *footnotes.distrust(record),
            *(Said(word, "bad") for word in fleet_words(record)),
            Said(f"{place_words(record)}: {_answer(record)}"),
            *(Said(word, "") for word in unseen_words(record)),
        ],
        figures=[*_bars(record, view.inner), *([""] if profile_lines else []), *profile_lines],
        notes=[
            *footnotes.failure_sentences(record),
            *footnotes.doubts(record),
            *price_words(record),
            *money_words(record),
            *footnotes.forecast_sentence(record),
            *card_sentence(record),
            published_line(record, view.width),
        ],
        done=" ".join(filter(None, [proof_sentence(record), footnotes.closing(record), *parts_words])),
        then=_then(record),
        details=_details(record, view),
        glance=glance_of(record),
    )


def _answer(record: Record) -> str:
    """Return which lane is faster, by how much, and how sure that is."""
    ran = [lane for lane in record.lanes if lane.step_ms is not None]
    if not ran:
        return "no lane has a result."
    shown = fair_factor(record)
    if shown is not None:
        if is_other_work(shown.found, record):
            return f"{compared_words(shown, record)} The two do other work."
        return compared_words(shown, record) + " Equal work is not proven." * isinstance(shown.found.same_work, Missing)
    if record.answer.comparisons:
        differing = [short_name(lane.name) for lane in ran if lane.parity.status == "differs"]
        return f"no factor, because {joined(differing)} did not do the same work."
    return _lone_words(ran[0])


@dataclass(frozen=True, slots=True)
class ToldFactor:
    """The factor that the page and its report state first: above 1, of `one` lane against the `other`, by spoken names.

    Where no difference was found, it is the lane against the reference as in the table, whichever seems faster.
    """

    found: Comparison
    one: str
    other: str
    ratio: float
    low: float | Missing
    high: float | Missing

    @property
    def has_ends(self) -> bool:
        return not isinstance(self.low, Missing) and not isinstance(self.high, Missing)

    @property
    def is_difference(self) -> bool:
        """Whether one lane is called faster. One pair alone, without an interval, cannot find that none is."""
        return not self.has_ends or self.found.verdict != "not distinguishable"

    @property
    def ends_words(self) -> str:
        """The interval, or why there is none."""
        if isinstance(self.low, Missing) or isinstance(self.high, Missing):
            return "one pair, no interval" if self.found.pairs == 1 else "no interval"
        return f"{factor(self.low, self.ratio)}-{factor(self.high, self.ratio)}"


def told_factor(found: Comparison) -> ToldFactor:
    """Return a comparison as page and report state it."""
    faster, slower = (found.lane, found.reference) if found.ratio >= 1 else (found.reference, found.lane)
    one, other = names_of_trainings(faster, slower) or (spoken_name(faster, slower), spoken_name(slower, faster))
    shown = ToldFactor(found, one, other, *above_one(found.ratio, found.low, found.high))
    if shown.is_difference:
        return shown
    names = (short_name(found.lane), short_name(found.reference))
    return ToldFactor(found, *names, found.ratio, found.low, found.high)


def fair_factor(record: Record) -> ToldFactor | None:
    """Return the factor of a race: the most telling of those between lanes that are not known to do other work."""
    fair = [comparison for comparison in record.answer.comparisons if comparison.same_work is not False]
    return told_factor(most_telling(fair)) if fair else None


def compared_words(shown: ToldFactor, record: Record) -> str:
    """Return a sentence on the faster of two lanes."""
    if not shown.is_difference:
        return f"no difference was found between {shown.one} and {shown.other} (ratio {ends_words(shown.found)})."
    settled = "" if shown.found.settled or not shown.has_ends else f", not settled within {percent(record.ask.margin)}"
    return f"{shown.one} is {factor(shown.ratio)}x as fast as {shown.other} ({shown.ends_words}{settled})."


def _lone_words(lane: LaneResult) -> str:
    """Return what a lane takes, where there is no other."""
    lap_ = "" if lane.lap_s is None else f", {lap_words(lane)} a lap"
    return f"{short_name(lane.name)} takes {step_words(lane)} a step{lap_}."


def _bars(record: Record, view: View) -> list[str]:
    """Return a row a lane: its time for an item as a bar, its step, its lap, and its factor."""
    first = next((lane.name for lane in record.lanes if lane.step_ms is not None), "")
    rows = []
    for lane in record.lanes:
        rate = lane.items_per_s
        is_first = lane.name == first
        step_, lap_ = (
            "" if estimate is None else tell(estimate.median)
            for estimate, tell in ((lane.step_ms, step), (lane.lap_s, lap))
        )
        against = Cell("") if lane.name == reference_name(record) else against_first(lane, record)
        figures = (
            Cell(step_ + " a step" * (is_first and bool(step_))),
            Cell(lap_ + " a lap" * (is_first and bool(lap_))),
            Cell("") if against.text == "-" else replace(against, text=against.brief or against.text),
        )
        length = None if rate is None else over(1, rate.median)
        words = (f"{step_} a step" if step_ else "", f"{lap_} a lap" if lap_ else "", figures[-1].text)
        rows.append(Row(row_name(lane.name, record), length, figures, failure_words(lane), words))
    return bar_rows(rows, view)


def _minutes_more(record: Record) -> int | None:
    """Return for how long a race that did not settle goes on until it does; None where that can hardly be guessed.

    An interval narrows with the root of its rounds, and the next part has less of the error rate.
    """
    times = [_rounds_to_settle(comparison, record) for comparison in _unsettled(record)]
    known = [time for time in times if time is not None]
    more_s = max(known, default=inf) * (record.elapsed_s - record.beyond_budget_s)
    return max(1, ceil(more_s / 60)) if len(known) == len(times) and 0 <= more_s <= MORE_MOST_S else None


def _unsettled(record: Record) -> list[Comparison]:
    """Return the comparisons that `race --more` may settle."""
    may_go_on = record.question == "race" and record.ask.heats is None and record.ask.on is None
    found = record.answer.comparisons if may_go_on and record.status != "running" else ()
    return [comparison for comparison in found if not comparison.settled and comparison.same_work is not False]


def _rounds_to_settle(found: Comparison, record: Record) -> float | None:
    """Return how many further rounds a comparison takes until it is settled, as a part of those so far."""
    if found.ends is None or found.ends[0] <= 0 or found.pairs < FIRST_LOOK:
        return None
    low, high = found.ends
    next_alpha = ERROR_RATE * error_share(1 + max(1, sum(part.has_interval for part in record.parts)))
    dof = found.pairs - 1 + found.prior_dof
    try:
        wider = t_quantile(1 - next_alpha / 2, 2 * dof) / t_quantile(1 - found.alpha / 2, dof)
        return max(0.0, (wider * log(high / low) / 2 / log1p(record.ask.margin)) ** 2 - 1)
    except (ValueError, ArithmeticError):  # a record of others may hold any figures
        return None


def _then(record: Record) -> list[str]:
    """Return what to type next: what settles the race, and what finds the limit of the fastest lane."""
    # The command that goes on with a race that did not settle
    minutes = _minutes_more(record)
    time = [] if minutes is None else [f"{minutes}m"]
    more = [" ".join(["laptime race --more", *time, record.id])] if _unsettled(record) else []
    commands = [*more, *_why(record)]
    return [f"{'Next: ' * (place == 0)}{command}" for place, command in enumerate(commands)]


def _why(record: Record) -> list[str]:
    """Return the command that finds what limits the fastest lane."""
    done = [lane for lane in record.lanes if lane.status == "ok" and lane.parity.status != "differs"]
    ran = [lane for lane in done if lane.items_per_s is not None and lane.settings.input not in NO_TRAINING]
    fastest = max(ran, key=lambda lane: lane.items_per_s.median if lane.items_per_s else 0.0, default=None)
    if fastest is None or record.status != "finished":
        return []
    what = record.trainings.get(fastest.training or record.workload.name)
    if what is None:  # a record of others may name a training that it does not have
        return []
    place = short_name(parts_of(fastest.name)[0])
    behind = ["--", *record.ask.command] if record.ask.command else []
    return [as_command(["laptime", "why", *filter(None, [what]), place, *behind])]


def _details(record: Record, view: View) -> list[list[str]]:
    """Return all that the record holds, in sections."""
    width = view.width
    color = view.color
    return [
        header(record, width, color=color),
        lane_table(record, width, color=color),
        node_lines(record, width),
        usage_lines(record, width, color=color),
        limit_lines(record, width),
        footnotes.failures(record, width),
        *(wrap(remark, width, "  ") for remark in footnotes.remarks(record)),
        quiet(footnotes.starts(record, width), color=color),
        quiet(footnotes.origins(record, width), color=color),
        footnotes.forecasts(record, width),
        *(wrap(sentence, width, "  ") for sentence in card_sentence(record)),
        wrap(published_line(record, width), width, "  "),
        *profiles(record, width, color=color),
    ]


def unseen_words(record: Record) -> list[str]:
    """Return, for the top of the page, which card is here but was not used, and how to fix that."""
    found = [f"{finding.says} {finding.advice}" for finding in record.findings if finding.rule == CARD_NOT_SEEN]
    return [*found, "laptime devices --check says more."] if found else []


# The figures of a race: lanes and published results, the ratios of rounds, the proof, steps, rooflines, readings.


def figures(record: Record) -> list[Figure]:
    """Return all figures of a race, the most telling first."""
    return [
        *factor_figures(record),
        *lane_bars(record),
        *turn_figures(record),
        *folded(
            *proof_figures(record),
            *step_figures(record.lanes),
            *roofline_figures(record.lanes),
            *reading_figures(record),
            *fact_figures(record),
        ),
    ]


def glance_of(record: Record) -> Glance | None:
    """Return the factor of the race, or what its only lane takes; None where there is neither."""
    shown = fair_factor(record)
    if shown is not None:
        ends = f"{shown.ends_words} at {footnotes.sure_at(record.confidence)}" if shown.has_ends else shown.ends_words
        facts = tuple(_facts_at_a_glance(record, shown.found))
        if not shown.is_difference:
            verdict = f"No difference was found between {shown.one} and {shown.other}."
        elif not shown.has_ends:
            verdict = compared_words(shown, record)
        else:
            verdict = f"{shown.one} is faster than {shown.other}."
            verdict += f" {'Settled' if shown.found.settled else 'Not settled'} within {percent(record.ask.margin)}."
        same = shown.found.same_work is True
        verdict = f"{verdict} Both did the same work." if same else f"{verdict} Equal work is not proven."
        return Glance(f"{factor(shown.ratio)}x", ends, verdict, facts)
    ran = [lane for lane in record.lanes if lane.step_ms is not None]
    if record.answer.comparisons or not ran or ran[0].step_ms is None:
        return None
    facts = tuple(_facts_at_a_glance(record, None))
    return Glance(step(ran[0].step_ms.median), "a step", _lone_words(ran[0]), facts)


def _facts_at_a_glance(record: Record, found: Comparison | None) -> Iterator[GlanceFact]:
    """Yield what a whole training takes, what is proven, what was run, and what to type next."""
    names = [found.lane, found.reference] if found is not None else [lane.name for lane in record.lanes[:1]]
    lanes = [lane for name in names for lane in record.lanes if lane.name == name]
    wholes = sorted((lane.whole for lane in lanes if lane.whole is not None), key=lambda whole: whole.whole_s.median)
    if wholes:
        title = ", not ".join(duration(whole.whole_s.median) for whole in wholes)
        yield GlanceFact(title, f"{wholes[0].laps:,} lap{'s' * (wholes[0].laps != 1)}, from the steady step")
    if found is not None:
        why = found.same_work.missing if isinstance(found.same_work, Missing) else proof_at_a_glance(record)
        title = "Same work" if found.same_work is True else "Work not proven"
        yield GlanceFact(title, why)
    turns = [
        window
        for lane in record.lanes
        for result in lane.heats
        for window in result.heat.windows
        if window.turn is not None
    ]
    disturbed = sum(window.flag is not None for window in turns)
    how = f"{disturbed} of {len(turns)} turns disturbed" if turns else "heats one after another"
    yield GlanceFact(footnotes.runs_words(record), f"{duration(record.elapsed_s)}; {how}")
    for command in _then(record):
        yield GlanceFact("Next", command.removeprefix("Next: "), is_command=True)


def factor_figures(record: Record) -> list[Figure]:
    """Return the factors against the first lane, each with its interval and its rounds."""
    factors = _factors(record)
    if factors is None:
        return []
    shown = factors.factors
    title = (
        f"How sure is {factor(shown[0].value)}x?"
        if len(shown) == 1
        else f"How many times as fast as {factors.reference}?"
    )
    sure = footnotes.sure_at(record.confidence)
    says = f"The line is the estimate, the band its {sure} interval, circles are single rounds."
    return [Figure(title, factors, says)]


def _factors(record: Record) -> Factors | None:
    compared = [
        comparison
        for comparison in record.answer.comparisons
        if comparison.same_work is not False and comparison.ratio > 0
    ]
    if not compared:
        return None
    rows = []
    for comparison in compared:
        low, high = comparison.drawn_ends
        ends = (
            ""
            if low is None or high is None
            else f" ({factor(low, comparison.ratio)}-{factor(high, comparison.ratio)})"
        )
        rows.append(
            ShownFactor(
                short_name(comparison.lane),
                comparison.ratio,
                low,
                high,
                comparison.ratios,
                f"{factor(comparison.ratio)}x{ends}",
            )
        )
    return Factors(short_name(compared[0].reference), tuple(rows))


def turn_figures(record: Record) -> list[Figure]:
    """Return what ran when, where lanes took turns: a bar a turn, round by round, with the factor of each below."""
    factors = _factors(record)
    heats = [(short_name(lane.name), heat) for lane in record.lanes for heat in lane.heats]
    by_round: dict[int, list[tuple[str, HeatResult]]] = {}
    for label, result in heats:
        if any(window.turn is not None for window in result.heat.windows):
            by_round.setdefault(result.heat.round, []).append((label, result))
    together = [results for _, results in sorted(by_round.items()) if len(results) > 1]
    count = sum(len(result.heat.windows) for results in together for _, result in results)
    if factors is None or not together or count > TURNS_MOST:
        return []
    rounds = tuple(
        ShownRound(number, _turns_of(results), _factors_of(number, len(together), factors))
        for number, results in enumerate(together, 1)
    )
    says = "Each bar is one turn of a lane, on one clock that is cut between rounds. A pale bar was disturbed."
    return [Figure("What happened: the lanes took turns", Turns("ms a step", rounds, factors), says)]


def _turns_of(heats: list[tuple[str, HeatResult]]) -> tuple[ShownTurn, ...]:
    windows = [(label, window) for label, result in heats for window in result.heat.windows if window.turn is not None]
    began_ns = min(window.start_ns for _, window in windows)
    return tuple(
        ShownTurn(
            label,
            (window.start_ns - began_ns) / 1e9,
            (window.end_ns - began_ns) / 1e9,
            (window.end_ns - window.start_ns) / 1e6 / max(window.steps, 1),
            window.flag or "",
        )
        for label, window in sorted(windows, key=lambda pair: pair[1].start_ns)
    )


def _factors_of(number: int, rounds: int, factors: Factors) -> tuple[tuple[str, float], ...]:
    """Return the factors that a round gave, where every round gave one."""
    known = [shown_factor for shown_factor in factors.factors if len(shown_factor.rounds) == rounds]
    return tuple((shown_factor.label, shown_factor.rounds[number - 1]) for shown_factor in known)


# The display while lanes race, whatever the question: the words and figures of the page, without a verdict.


PART = QuestionPage(page_parts, summary_of_race, live_lanes, figures)
