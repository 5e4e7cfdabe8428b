"""The page of a race, and its live view: which lane was faster, by what factor, and whether all did the same work."""

from __future__ import annotations

import shlex
from collections.abc import Iterator
from dataclasses import dataclass, replace

from laptime.figures.readings import fact_figures, reading_figures, roofline_figures
from laptime.figures.steps import step_figures
from laptime.model.answers import RaceAnswer
from laptime.model.figure import (
    Axis,
    Bar,
    BarKind,
    Bars,
    Curve,
    Factors,
    Figure,
    Glance,
    GlanceFact,
    Plane,
    ShownFactor,
    ShownRound,
    ShownTurn,
    Turns,
    folded,
)
from laptime.model.frameworks import FleetNode
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.process import AS_WRITTEN, NO_TRAINING, parts_of
from laptime.model.quantities import percent
from laptime.model.record import Comparison, Estimate, HeatResult, InferFactor, LaneResult, Record
from laptime.model.sample import ProofRun
from laptime.model.workload import PublishedResult
from laptime.pages import footnotes
from laptime.pages.layout import SEPARATOR, Cell, flow, wrap
from laptime.pages.page import (
    NARROWEST,
    PageParts,
    RecordColumn,
    Row,
    Said,
    View,
    bar_rows,
    fit_table,
    header,
    live_page,
    quiet,
    rendered,
)
from laptime.pages.usage import money_words, usage_lines
from laptime.pages.words import (
    above_one,
    against_first,
    against_title,
    duration,
    factor,
    failure_words,
    joined,
    lap,
    lap_words,
    machine_words,
    number,
    over,
    place_words,
    published_lap,
    rate_words,
    reference_name,
    same_work,
    short_name,
    step,
    step_words,
    tiny,
)
from laptime.questions.doctor.nouns import CARD_NOT_SEEN
from laptime.questions.forecast.page import card_sentence
from laptime.questions.profile.page import limit_lines, profile_figures, profiles
from laptime.questions.race.others_page import is_other_work, most_telling, names_of_trainings, trainings_compared
from laptime.visible import cells_wide

# What a page says of a race on several types of nodes: how these differ, what a lap costs on each, and the nodes.

HOUR_S = 3600


def fleet_words(record: Record) -> list[str]:
    """Return how the versions on the nodes differ, and which nodes were left out: for the top of the page."""
    nodes = nodes_of(record)
    differing = [_differing(what, nodes, record) for what in _facts_of(nodes, record)]
    out: dict[str, list[str]] = {}
    for each in nodes:
        if each.problem is not None:
            out.setdefault(f"{each.of}: {each.problem}", []).append(each.node)
    told = [f"{len(ids)} node{'s' * (len(ids) != 1)} left out, {says}" for says, ids in out.items()]
    said = list(filter(None, differing))
    return [*([f"The nodes differ: {'; '.join(said)}."] if said else []), *(f"{each.rstrip('.')}." for each in told)]


def price_words(record: Record) -> list[str]:
    """Return which type is the cheapest for a lap, and which the fastest."""
    costs = {lane.name: cost for lane in record.lanes if (cost := lap_cost(lane, record)) is not None}
    if not costs:
        return []
    laps = {lane.name: lane.lap_s.median for lane in record.lanes if lane.name in costs and lane.lap_s is not None}
    cheapest, fastest = min(costs, key=costs.__getitem__), min(laps, key=laps.__getitem__)
    said = f"A lap is cheapest on {short_name(cheapest)} ({number(costs[cheapest])})"
    if all(each.verdict == "not distinguishable" for each in record.answer.comparisons):
        return [f"{said}; none was found to be faster."]
    if cheapest == fastest:
        return [f"{said}, which is also the fastest."]
    return [f"{said}, and fastest on {short_name(fastest)} ({number(costs[fastest])})."]


def lap_cost(lane: LaneResult, record: Record) -> float | None:
    """Return what the time of a lap costs at its type's price, or None where no price was given."""
    price = next((each.per_hour for each in record.ask.prices if lane.where and each.of == lane.where.value), None)
    return None if price is None or lane.lap_s is None else price * lane.lap_s.median / HOUR_S


def cost_cell(lane: LaneResult, record: Record) -> str:
    cost = lap_cost(lane, record)
    return "-" if cost is None else number(cost)


def node_lines(record: Record, width: int) -> list[str]:
    """Return a line a node: its type, its name, and what it has."""
    lines: list[str] = []
    for each in nodes_of(record):
        seen = [] if each.machine is None else [machine_words(each.machine), *_told(each.machine, record)]
        said = [
            f"{each.of}: {each.host or 'its name is not known'}",
            each.node[:12],
            *seen,
            *filter(None, [each.problem]),
        ]
        lines += wrap(", ".join(said), width, "  ")
    return lines


def nodes_of(record: Record) -> tuple[FleetNode, ...]:
    return record.answer.nodes if isinstance(record.answer, RaceAnswer) else ()


def _told(machine: Machine, record: Record) -> list[str]:
    return [f"{what} {value}" for what, value in dict(_facts(machine, record)).items()]


def _facts(machine: Machine, record: Record) -> Iterator[tuple[str, str]]:
    """Return the versions that may make two nodes differ: Python, the frameworks of the lanes, drivers of cards."""
    raced = {name for lane in record.lanes for name in (lane.name.partition("/")[0], *lane.framework)}
    for each in machine.frameworks:
        if each.name in raced:
            yield from ({each.name: each.version} | each.versions | {"python": machine.python}).items()
    drivers = sorted({card.driver for card in machine.cards if not isinstance(card.driver, Missing)})
    if drivers:
        yield "driver", " and ".join(drivers)


def _facts_of(nodes: tuple[FleetNode, ...], record: Record) -> list[str]:
    found = (what for each in nodes if each.machine is not None for what, _ in _facts(each.machine, record))
    return list(dict.fromkeys(found))


def _differing(what: str, nodes: tuple[FleetNode, ...], record: Record) -> str:
    """Return the values of one fact on each type, or "" if all nodes have the same."""
    of: dict[str, list[str]] = {}
    for each in nodes:
        if each.machine is not None and each.problem is None:
            value = dict(_facts(each.machine, record)).get(what, "none")
            of.setdefault(value, []).append(each.of)
    if len(of) < 2:
        return ""
    return f"{what} {joined([f'{value} on {joined([*dict.fromkeys(on)])}' for value, on in of.items()])}"


STATUSES = ("same", "differs", "unproven")
IN_ALL = " in all"
TURNS_MOST = 600  # more would be bars of less than a pixel
PROFILES_MOST = 2  # on the short page
VENDORS = ("NVIDIA ", "GeForce ", "Intel ", "Core ", "AMD ")


def _against(lane: LaneResult, record: Record) -> Cell:
    """Return a lane's factor or, in its place, its failure."""
    failed = failure_words(lane)
    return Cell(failed, "bad") if failed else against_first(lane, record)


def _heats(lane: LaneResult, _record: Record) -> str:
    return str(sum(heat.process.status == "ok" for heat in lane.heats))


SAME_WORK = RecordColumn("same work", same_work, least=18, leaves=1, view="page")
RACE_COLUMNS: list[RecordColumn[LaneResult]] = [
    RecordColumn("lane", lambda lane, _: short_name(lane.name), least=14, breaks_last=True),
    RecordColumn("heats", _heats, right=True, view="live"),
    RecordColumn("a lap", lambda lane, _: lap_words(lane)),
    RecordColumn("step", lambda lane, _: step_words(lane)),
    RecordColumn(lambda record: f"{record.workload.items}/s", lambda lane, _: rate_words(lane), right=True, leaves=2),
    RecordColumn("cost of a lap", cost_cell, shown=lambda record: record.ask.prices and record.ask.each),
    RecordColumn(against_title, _against, least=19, breaks_last=True),
    SAME_WORK,
]


def page_parts(record: Record, view: View) -> PageParts:
    """Return what the page says."""
    view = replace(view, width=max(view.width, NARROWEST))
    return PageParts(
        answer=[
            *footnotes.distrust(record),
            *(Said(each, "bad") for each in fleet_words(record)),
            Said(f"{place_words(record)}: {_answer(record)}"),
            *(Said(each, "") for each in unseen_words(record)),
        ],
        figures=[*_bars(record, view.inner), *_profiles(record, view.inner)],
        notes=_notes(record, view.width),
        done=" ".join(filter(None, [proof_sentence(record), footnotes.closing(record)])),
        then=_then(record),
        details=_details(record, view),
        glance=glance_of(record),
    )


render = rendered(page_parts)


def _answer(record: Record) -> str:
    """Return which lane is faster, by how much, and how sure that is."""
    ran = [lane for lane in record.lanes if lane.step_ms is not None]
    if not ran:
        return "no lane has a result."
    compared = record.answer.comparisons
    fair = [each for each in compared if each.same_work is not False]
    if fair:
        told = most_telling(fair)
        if is_other_work(told, record):
            return f"{compared_words(told, record)} The two do other work."
        return compared_words(told, record) + " Equal work is not proven." * isinstance(told.same_work, Missing)
    if compared:
        differing = [short_name(lane.name) for lane in ran if lane.parity.status == "differs"]
        return f"no factor, because {joined(differing)} did not do the same work."
    lap_ = "" if ran[0].lap_s is None else f", {lap_words(ran[0])} a lap"
    return f"{short_name(ran[0].name)} takes {step_words(ran[0])} a step{lap_}."


def compared_words(found: Comparison, record: Record) -> str:
    """Return a sentence on the faster of two lanes."""
    lanes = (found.lane, found.reference)
    faster, slower = lanes if found.ratio >= 1 else lanes[::-1]
    ratio, low, high = above_one(found.ratio, found.low, found.high)
    one, other = names_of_trainings(faster, slower) or (spoken_name(faster, slower), spoken_name(slower, faster))
    names = f"{one} is {{}} as {other}"
    if isinstance(low, Missing) or isinstance(high, Missing):
        why = "one pair, no interval" if found.pairs == 1 else "no interval"
        return names.format(f"{factor(ratio)}x as fast") + f" ({why})."
    if found.verdict == "not distinguishable":  # the ratio is that of the table, whichever seems faster
        names = f"{short_name(found.lane)} and {short_name(found.reference)}"
        return f"no difference was found between {names} (ratio {ends_words(found)})."
    between = f"{factor(low, ratio)}-{factor(high, ratio)}"
    settled = "" if found.settled else f", not settled within {percent(record.ask.margin)}"
    return names.format(f"{factor(ratio)}x as fast") + f" ({between}{settled})."


def ends_words(found: Comparison | InferFactor) -> str:
    """Return the ends of a factor's interval in the direction of every table: the lane against the first one."""
    return "-".join(factor(end) for end in (found.low, found.high) if not isinstance(end, Missing))


def spoken_name(lane: str, other: str) -> str:
    """Return a lane's name; where only the settings differ from the other lane, the default ones are named, too."""
    place, _, preset = lane.rpartition("/")
    is_alone = other.startswith(f"{place}/") and preset == AS_WRITTEN
    return f"{place} as written" if is_alone else short_name(lane)


def _bars(record: Record, view: View) -> list[str]:
    """Return a row a lane: its time for an item as a bar, its step, its lap, and its factor."""
    first = next((lane.name for lane in record.lanes if lane.step_ms is not None), "")
    rows = []
    for lane in record.lanes:
        rate, is_first = lane.items_per_s, lane.name == first
        step_, lap_ = (
            "" if each is None else tell(each.median) for each, tell in ((lane.step_ms, step), (lane.lap_s, lap))
        )
        against = Cell("") if lane.name == reference_name(record) else against_first(lane, record)
        figures = (
            Cell(step_ + " a step" * (is_first and bool(step_))),
            Cell(lap_ + " a lap" * (is_first and bool(lap_))),
            Cell("") if against.text == "-" else replace(against, text=against.text.replace("x faster", "x")),
        )
        length = None if rate is None else over(1, rate.median)
        rows.append(Row(short_name(lane.name), length, figures, failure_words(lane)))
    return bar_rows(rows, view)


def _profiles(record: Record, view: View) -> list[str]:
    """Return the first lines of the profiles that were asked for with the race."""
    lines = profile_figures(record, view, lanes=PROFILES_MOST)
    return ["", *lines] if lines else []


def _notes(record: Record, width: int) -> list[str]:
    """Return what a reader must know to trust the answer or to act on it, the most important first."""
    return [
        *footnotes.failure_sentences(record),
        *footnotes.doubts(record),
        *price_words(record),
        *money_words(record),
        *footnotes.forecast_sentence(record),
        *card_sentence(record),
        published_line(record, width),
    ]


def _then(record: Record) -> list[str]:
    """Return the command that finds what limits the fastest lane."""
    done = [lane for lane in record.lanes if lane.status == "ok" and lane.parity.status != "differs"]
    ran = [lane for lane in done if lane.items_per_s is not None and lane.settings.input not in NO_TRAINING]
    fastest = max(ran, key=lambda lane: lane.items_per_s.median if lane.items_per_s else 0.0, default=None)
    if fastest is None or record.status != "finished":
        return []
    what = record.trainings[fastest.training or record.workload.name]
    place = short_name(parts_of(fastest.name)[0])
    behind = ["--", *record.ask.command] if record.ask.command else []
    return [f"Next: {shlex.join(['laptime', 'why', *filter(None, [what]), place, *behind])}"]


def _details(record: Record, view: View) -> list[list[str]]:
    """Return all that the record holds, in sections."""
    width, color = view.width, view.color
    return [
        header(record, width, color=color),
        lane_table(record, width, color=color),
        node_lines(record, width),
        usage_lines(record, width, color=color),
        limit_lines(record, width),
        footnotes.failures(record, width),
        *(wrap(each, width, "  ") for each in footnotes.remarks(record)),
        quiet(footnotes.starts(record, width), color=color),
        quiet(footnotes.origins(record, width), color=color),
        footnotes.forecasts(record, width),
        *(wrap(each, width, "  ") for each in card_sentence(record)),
        wrap(published_line(record, width), width, "  "),
        *profiles(record, width, color=color),
    ]


def live_lines(record: Record, note: str, width: int, *, color: bool = False) -> list[str]:
    """Return a running record as a table and, below it, what is being done now."""
    table, _ = fit_table(RACE_COLUMNS, record.lanes, record, width, color=color, view="live")
    return live_page(record, note, table, width, color=color)


def unseen_words(record: Record) -> list[str]:
    """Return, for the top of the page, which card is here but was not used, and how to fix that."""
    found = [f"{each.says} {each.advice}" for each in record.findings if each.rule == CARD_NOT_SEEN]
    return [*found, "laptime devices --check says more."] if found else []


def lane_table(record: Record, width: int, *, color: bool) -> list[str]:
    """Return the table with the columns that fit. The proof moves below the table first; then the rate is left out."""
    lines, gone = fit_table(RACE_COLUMNS, record.lanes, record, width, color=color, failed=failure_words)
    return [*lines, *proof_lines(record, width)] if SAME_WORK in gone else lines


def proof_lines(record: Record, width: int) -> list[str]:
    """Return each lane's proof, for below the table. If all did the same work, that is one line."""
    told = [(short_name(lane.name), same_work(lane, record).text) for lane in record.lanes if not failure_words(lane)]
    if not told:
        return []
    first, others = told[0][1], {text for _, text in told[1:]}
    if first.startswith("yes") and others <= {"yes"}:
        who = ", all lanes" if len(told) == len(record.lanes) else ", all that finished"
        return wrap(f"same work: {first}{who if others else ''}", width, "  ")
    return flow((f"{name} {text}" for name, text in told), width, "same work: ")


def proof_sentence(record: Record) -> str:
    """Return whether the lanes that finished did the same work, in one sentence."""
    done = [lane for lane in record.lanes if not failure_words(lane) and lane.step_ms is not None]
    by_status = {status: [each for each in done if each.parity.status == status] for status in STATUSES}
    proven = by_status["same"]
    said = []
    if by_status["differs"]:
        said.append(f"NOT done by {_named(by_status['differs'])}")
    if proven:
        who = "" if len(proven) == len(done) else f" for {joined([short_name(lane.name) for lane in proven])}"
        said.append(f"{first_losses(proven)}{who}" if record.workload.command else f"proven{who}{_how_proven(proven)}")
    if by_status["unproven"]:
        said.append(f"not proven for {_named(by_status['unproven'])}")
    for lane in proven:
        if lane.parity.strays is not None:
            how_far = f"{lane.parity.strays_precision or 'its precision'} strays {tiny(lane.parity.strays)}"
            said.append(f"{how_far} on {short_name(lane.name)}")
    if not said:
        return ""
    if not record.others:
        names = {lane.name for lane in proven}
        doubts = [each.same_work for each in record.answer.comparisons if {each.lane, each.reference} <= names]
        said += dict.fromkeys(f"not proven in all: {each.missing}" for each in doubts if isinstance(each, Missing))
        return f"Same work: {'; '.join(said)}."
    return f"Each training as on its own: {'; '.join(said)}. {trainings_compared(record)}"


def _how_proven(proven: list[LaneResult]) -> str:
    steps = max(lane.parity.steps for lane in proven)
    return f" ({steps} step{'s' * (steps != 1)} against float64)" if steps else ""


def first_losses(proven: list[LaneResult]) -> str:
    """Return how near the first losses of a script's lanes are to each other."""
    steps = min(lane.parity.steps for lane in proven)
    worst = max(lane.parity.worst or 0.0 for lane in proven)
    return f"its first {steps} losses {f'agree within {tiny(worst)}' if worst else 'are equal'}"


def _named(lanes: list[LaneResult]) -> str:
    return joined([f"{short_name(lane.name)} ({lane.parity.reason or 'no reason is known'})" for lane in lanes])


@dataclass(frozen=True, slots=True)
class Quoted:
    """One published result as it is shown. `lap_s` is for sorting only."""

    kind: str
    lap_s: float
    words: str


def published_line(record: Record, width: int) -> str:
    """Return the published results that fit on a line. The slowest are dropped first; the fastest of a kind stay."""
    results = record.published.results if record.published else ()
    quotes = [quote for result in results if (quote := _quoted(result, record.workload.laps))]
    while cells_wide(_published_words(quotes)) > width and (spare := _slowest_spare(quotes)):
        quotes.remove(spare)
    return _published_words(quotes)


def _quoted(result: PublishedResult, laps: int | None) -> Quoted | None:
    """Return the median lap of a result, or the whole training if no lap was published."""
    device = result.device
    for vendor in VENDORS:
        device = device.replace(vendor, "")
    if result.lap_s:
        lap_s = sorted(result.lap_s)[len(result.lap_s) // 2]
        return Quoted(result.kind, lap_s, f"{device} {published_lap(lap_s)}")
    if result.total_s is not None:
        return Quoted(result.kind, result.total_s / (laps or 1), f"{device} {duration(result.total_s)}{IN_ALL}")
    return None


def _slowest_spare(quotes: list[Quoted]) -> Quoted | None:
    fastest = {each.kind: min(other.lap_s for other in quotes if other.kind == each.kind) for each in quotes}
    spare = [each for each in quotes if each.lap_s > fastest[each.kind]]
    return max(spare, key=lambda each: each.lap_s, default=None)


def _published_words(quotes: list[Quoted]) -> str:
    if not quotes:
        return ""
    are_laps = not any(each.words.endswith(IN_ALL) for each in quotes)
    return f"Published{', a lap' * are_laps}: {SEPARATOR.join(each.words for each in quotes)}"


# The figures of a race: lanes and published results, the ratios of rounds, the proof, steps, rooflines, readings.

NO_RESULT = "no result"


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
    fair = [each for each in record.answer.comparisons if each.same_work is not False]
    if fair:
        told = most_telling(fair)
        ratio, low, high = above_one(told.ratio, told.low, told.high)
        ends = "one pair, no interval"
        if told.verdict == "not distinguishable":  # the ratio is that of the table, whichever seems faster
            ratio, low, high = told.ratio, told.low, told.high
        if not isinstance(low, Missing) and not isinstance(high, Missing):
            ends = f"{factor(low, ratio)}-{factor(high, ratio)} at 95 %"
        return Glance(f"{factor(ratio)}x", ends, _verdict_words(told, record), tuple(_facts_at_a_glance(record, told)))
    ran = [lane for lane in record.lanes if lane.step_ms is not None]
    if record.answer.comparisons or not ran or ran[0].step_ms is None:
        return None
    lap_ = "" if ran[0].lap_s is None else f", {lap_words(ran[0])} a lap"
    sentence = f"{short_name(ran[0].name)} takes {step_words(ran[0])} a step{lap_}."
    return Glance(step(ran[0].step_ms.median), "a step", sentence, tuple(_facts_at_a_glance(record, None)))


def _verdict_words(told: Comparison, record: Record) -> str:
    """Return which of two lanes is faster, whether that is settled, and whether their work is equal."""
    if told.verdict == "not distinguishable":
        said = f"No difference was found between {short_name(told.lane)} and {short_name(told.reference)}."
    else:
        faster, slower = (told.lane, told.reference) if told.ratio >= 1 else (told.reference, told.lane)
        one, other = names_of_trainings(faster, slower) or (spoken_name(faster, slower), spoken_name(slower, faster))
        said = f"{one} is faster than {other}."
        said += f" {'Settled' if told.settled else 'Not settled'} within {percent(record.ask.margin)}."
    return f"{said} Both did the same work." if told.same_work is True else f"{said} Equal work is not proven."


def _facts_at_a_glance(record: Record, told: Comparison | None) -> Iterator[GlanceFact]:
    """Yield what a whole training takes, what is proven, what was run, and what to type next."""
    names = [told.lane, told.reference] if told is not None else [lane.name for lane in record.lanes[:1]]
    lanes = [lane for name in names for lane in record.lanes if lane.name == name]
    wholes = sorted((lane.whole for lane in lanes if lane.whole is not None), key=lambda each: each.whole_s.median)
    if wholes:
        title = ", not ".join(duration(each.whole_s.median) for each in wholes)
        yield GlanceFact(title, f"{wholes[0].laps:,} lap{'s' * (wholes[0].laps != 1)}, from the steady step")
    if told is not None:
        why = told.same_work.missing if isinstance(told.same_work, Missing) else proof_sentence(record).rstrip(".")
        title = "Same work" if told.same_work is True else "Work not proven"
        yield GlanceFact(title, why.removeprefix("Same work: "))
    turns = [
        window for lane in record.lanes for heat in lane.heats for window in heat.windows if window.turn is not None
    ]
    disturbed = sum(window.flag is not None for window in turns)
    said = f"{disturbed} of {len(turns)} turns disturbed" if turns else "heats one after another"
    yield GlanceFact(footnotes.runs_words(record), f"{duration(record.elapsed_s)}; {said}")
    for each in _then(record):
        yield GlanceFact("Next", each.removeprefix("Next: "), is_command=True)


def factor_figures(record: Record) -> list[Figure]:
    """Return the factors against the first lane, each with its interval and its rounds."""
    factors = _factors(record)
    if factors is None:
        return []
    told = factors.factors
    title = (
        f"How sure is {factor(told[0].value)}x?"
        if len(told) == 1
        else f"How many times as fast as {factors.reference}?"
    )
    return [Figure(title, factors, "The line is the estimate, the band its 95 % interval, circles are single rounds.")]


def _factors(record: Record) -> Factors | None:
    compared = [each for each in record.answer.comparisons if each.same_work is not False and each.ratio > 0]
    if not compared:
        return None
    rows = []
    for each in compared:
        low, high = each.drawn_ends
        ends = "" if low is None or high is None else f" ({factor(low, each.ratio)}-{factor(high, each.ratio)})"
        rows.append(
            ShownFactor(short_name(each.lane), each.ratio, low, high, each.ratios, f"{factor(each.ratio)}x{ends}")
        )
    return Factors(short_name(compared[0].reference), tuple(rows))


def turn_figures(record: Record) -> list[Figure]:
    """Return what ran when, where lanes took turns: a bar a turn, round by round, with the factor of each below."""
    factors = _factors(record)
    heats = [(short_name(lane.name), heat) for lane in record.lanes for heat in lane.heats]
    by_round: dict[int, list[tuple[str, HeatResult]]] = {}
    for label, heat in heats:
        if any(window.turn is not None for window in heat.windows):
            by_round.setdefault(heat.round, []).append((label, heat))
    together = [each for _, each in sorted(by_round.items()) if len(each) > 1]
    count = sum(len(heat.windows) for each in together for _, heat in each)
    if factors is None or not together or count > TURNS_MOST:
        return []
    rounds = tuple(
        ShownRound(number, _turns_of(each), _factors_of(number, len(together), factors))
        for number, each in enumerate(together, 1)
    )
    says = "Each bar is one turn of a lane, on one clock that is cut between rounds. A pale bar was disturbed."
    return [Figure("What happened: the lanes took turns", Turns("ms a step", rounds, factors), says)]


def _turns_of(heats: list[tuple[str, HeatResult]]) -> tuple[ShownTurn, ...]:
    windows = [(label, window) for label, heat in heats for window in heat.windows if window.turn is not None]
    began_ns = min(window.start_ns for _, window in windows)
    return tuple(
        ShownTurn(
            label,
            (window.start_ns - began_ns) / 1e9,
            (window.end_ns - began_ns) / 1e9,
            (window.end_ns - window.start_ns) / 1e6 / max(window.steps, 1),
            window.flag or "",
        )
        for label, window in sorted(windows, key=lambda each: each[1].start_ns)
    )


def _factors_of(number: int, rounds: int, factors: Factors) -> tuple[tuple[str, float], ...]:
    """Return the factors that a round gave, where every round gave one."""
    known = [each for each in factors.factors if len(each.rounds) == rounds]
    return tuple((each.label, each.rounds[number - 1]) for each in known)


def lane_bars(record: Record) -> list[Figure]:
    """Return the lanes as bars of a lap's time, with the published laps below; or of a step's or an item's time."""
    lanes = [lane for lane in record.lanes if lane.settings.input not in NO_TRAINING]
    if not lanes:
        return []
    ran = [lane for lane in lanes if lane.step_ms is not None]
    if ran and all(lane.lap_s is not None for lane in ran):
        published = record.published.results if record.published else ()
        reported = tuple(
            Bar(each.device, lap_s, words=published_lap(lap_s), kind="published")
            for each in published
            if each.lap_s
            for lap_s in (sorted(each.lap_s)[len(each.lap_s) // 2],)
        )
        bars = tuple(_bar(lane, lane.lap_s, lap_words(lane), record) for lane in lanes)
        below = " Hollow circles are published results of other machines." if reported else ""
        return [
            Figure(
                "A lap on each lane", Bars("s a lap", bars, reported), f"Shorter is faster; whiskers are 95 %.{below}"
            )
        ]
    if len({lane.items_per_step for lane in ran}) <= 1:
        bars = tuple(_bar(lane, lane.step_ms, step_words(lane), record) for lane in lanes)
        return [Figure("A step on each lane", Bars("ms a step", bars), "Shorter is faster; whiskers are 95 %.")]
    bars = tuple(_bar(lane, lane.items_per_s, "", record) for lane in lanes)
    return [Figure(f"Throughput of each lane, {record.workload.items} per second", Bars("a second", bars))]


def _bar(lane: LaneResult, figure: Estimate | None, words: str, record: Record) -> Bar:
    failed = failure_words(lane)
    if failed or figure is None:
        why = [failed] if lane.reason is None or lane.reason in failed else [failed, lane.reason]
        return Bar(short_name(lane.name), None, words=": ".join(filter(None, why)) or NO_RESULT, kind="failed")
    against = "" if words else against_first(lane, record).text
    told = words or against
    low, high = figure.drawn_ends
    return Bar(short_name(lane.name), figure.median, low, high, told.lstrip(", "), _kind(lane))


def _kind(lane: LaneResult) -> BarKind:
    return "lane" if lane.settings.preset == AS_WRITTEN else "best"


def proof_figures(record: Record) -> list[Figure]:
    """Return the losses of the proof: lanes that did the same work lie on each other."""
    if record.reference is None:
        return []
    runs = {"float64 reference": record.reference.exact}
    for lane in record.lanes:
        first = next((proof for heat in lane.heats for proof in heat.proofs if proof.precision == "fp32"), None)
        if first is not None and lane.training in (None, record.workload.name):
            runs[short_name(lane.name)] = first
    curves = tuple(_losses(name, run) for name, run in runs.items())
    says = "The same steps from the same weights on the same batches. Lanes that did equal work show equal losses."
    across, up = Axis("step of the proof", is_whole=True), Axis("loss")
    return [Figure("Equal work: the losses of the proof", Plane(across, up, curves), says)] if len(runs) > 1 else []


def _losses(name: str, run: ProofRun) -> Curve:
    return Curve(name, tuple((number + 1.0, loss) for number, loss in enumerate(run.losses)))
