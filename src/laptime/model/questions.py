"""The table of questions: where the parts of each are, and what is made from that. A question is a row here, a folder,
and, where it is asked what no other is, a field of `Ask`.

A part is named like an entry point ("module:name"), and is imported when it is used. So a record can be read and shown
where no framework is installed, and `laptime --help` and `import laptime` import no part.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Question:
    """One question, by the name that its record holds."""

    name: str
    answer: str  # the class of its answer
    prepare: str  # turns an ask and a machine into what can be run
    run: str  # the class that runs it: it takes a job and what was prepared, has `run()` and `reduce(status)`
    render: str  # makes the page of a record
    summary: str  # the few words in a list
    live: str = "laptime.questions.race.live:live_lines"  # makes the lines that are redrawn while it runs
    says: str = ""  # the help of its command, where that is made from it
    parts: str = ""  # returns what the page of a record says
    figures: str = ""  # what a report draws; without them a report has the page alone
    result: str = "laptime.library.results:Result"  # the class of `import laptime` that holds its record
    call: str = ""  # its function in `import laptime`
    own_command: str = ""  # its command, where that is not made from `says`
    typed: str = ""  # the command's name, where it is another
    line: str = ""  # of the list of commands
    has_line_of_its_own: bool = True  # on the first page of help
    is_older: bool = False  # an older word for what another command does with an option
    asks: str = ""  # the field of an `Ask` that means it
    ask: str = ""  # the class of that field, which this question alone has; without it, the field is a flag
    options: str = ""  # the rows of its own options
    takes: tuple[str, ...] = ()  # options of several questions: of what is trained, timed, measured, priced
    budget: str = ""  # where it is not that of a race
    rates: str = ""  # yields the rates of a lane, by which records are compared and followed; without it they are not
    spoken: str = ""  # how a sentence names a record of it
    has_magic: bool = False  # for cells of a notebook
    runs_on_clusters: bool = False
    predicts_cards: bool = False  # what cards that are not here would bring

    @property
    def command(self) -> str:
        return self.typed or self.name

    @property
    def field(self) -> str:
        """How an `Ask` means it, in Python."""
        return f"{self.asks}={self.ask.rpartition(':')[2]}(...)" if self.ask else f"{self.asks}=True"

    def part(self, name: str) -> Any:
        """Return the part of this name; its module is imported now."""
        return find_part(getattr(self, name))


def find_part(place: str) -> Any:
    """Import what is named as "module:name"."""
    module, _, inside = place.partition(":")
    return getattr(importlib.import_module(module), inside)


ALL_OPTIONS = ("trained", "timed", "measured", "priced")

# In the order in which help lists them.
QUESTIONS: list[Question] = [
    Question(
        name="race",
        answer="laptime.model.answers:RaceAnswer",
        prepare="laptime.questions.race.run:prepare_race",
        run="laptime.questions.race.run:Race",
        render="laptime.questions.race.page:render",
        summary="laptime.pages.listing:of_race",
        parts="laptime.questions.race.page:page_parts",
        figures="laptime.questions.race.page:figures",
        result="laptime.library.results:RaceResult",
        call="laptime.library.calls:race",
        own_command="laptime.questions.race.command:race",
        line="Which lane is faster, by how much, and did they learn alike?",
        takes=ALL_OPTIONS,
        rates="laptime.questions.compare.reduce:rates_of_heats",
        spoken="a race",
        has_magic=True,
        runs_on_clusters=True,
        predicts_cards=True,
    ),
    Question(
        name="why",
        answer="laptime.questions.why.nouns:WhyAnswer",
        prepare="laptime.questions.why.run:prepare_why",
        run="laptime.questions.why.run:WhySearch",
        render="laptime.questions.why.page:render",
        summary="laptime.pages.listing:of_why",
        parts="laptime.questions.why.page:page_parts",
        figures="laptime.questions.why.page:figures",
        result="laptime.questions.why.call:WhyResult",
        call="laptime.questions.why.call:why",
        own_command="laptime.questions.why.command:why",
        line="Where does the time go, what limits it, and what would gain?",
        takes=("trained", "timed", "measured"),
        budget="2m",  # experiments take longer than two lanes
        spoken="a why",
        has_magic=True,
        predicts_cards=True,
    ),
    Question(
        name="watch",
        answer="laptime.model.script:WatchAnswer",
        prepare="laptime.questions.watch.run:prepare_watch",
        run="laptime.questions.watch.run:Watch",
        render="laptime.questions.watch.page:render",
        live="laptime.questions.watch.page:live_lines",
        summary="laptime.pages.listing:of_watch",
        parts="laptime.questions.watch.page:page_parts",
        figures="laptime.questions.watch.page:figures",
        result="laptime.questions.watch.call:WatchResult",
        call="laptime.questions.watch.call:watch",
        own_command="laptime.questions.watch.command:watch",
        line="Run a script unchanged: where does its training time go?",
        spoken="a watched script",
    ),
    Question(
        name="tune",
        answer="laptime.questions.tune.nouns:TuneAnswer",
        prepare="laptime.questions.tune.run:prepare_tune",
        run="laptime.questions.tune.run:Tune",
        render="laptime.questions.tune.page:render",
        summary="laptime.pages.listing:of_tune",
        parts="laptime.questions.tune.page:page_parts",
        figures="laptime.questions.tune.page:figures",
        result="laptime.questions.tune.call:TuneResult",
        call="laptime.questions.tune.call:tune",
        own_command="laptime.questions.tune.command:tune",
        line="Which settings are best on each lane, and what do they gain?",
        asks="tune",
        ask="laptime.questions.tune.options:TuneAsk",
        options="laptime.questions.tune.options:OPTIONS",
        takes=ALL_OPTIONS,
        budget="5m",
        spoken="a tuning",
    ),
    Question(
        name="sweep",
        answer="laptime.questions.sweep.nouns:SweepAnswer",
        prepare="laptime.questions.sweep.run:prepare_sweep",
        run="laptime.questions.sweep.run:SweepRace",
        render="laptime.questions.sweep.page:render",
        summary="laptime.questions.sweep.page:summary",
        parts="laptime.questions.sweep.page:page_parts",
        figures="laptime.questions.sweep.page:figures",
        result="laptime.questions.sweep.call:SweepResult",
        call="laptime.questions.sweep.call:sweep",
        own_command="laptime.questions.sweep.command:sweep",
        line="How fast is each lane at each batch, and where do they cross?",
        asks="sweep",
        ask="laptime.questions.sweep.options:SweepAsk",
        options="laptime.questions.sweep.options:OPTIONS",
        takes=ALL_OPTIONS,
        budget="5m",
        spoken="a sweep",
    ),
    Question(
        name="scale",
        answer="laptime.questions.scale.nouns:ScaleAnswer",
        prepare="laptime.questions.scale.run:prepare_scale",
        run="laptime.questions.scale.run:ScaleRace",
        render="laptime.questions.scale.page:render",
        summary="laptime.pages.listing:of_scale",
        parts="laptime.questions.scale.page:page_parts",
        figures="laptime.questions.scale.page:figures",
        result="laptime.questions.scale.call:ScaleResult",
        call="laptime.questions.scale.call:scale",
        own_command="laptime.questions.scale.command:scale",
        line="What do 2, 4, 8 devices bring, and what is lost?",
        asks="scale",
        ask="laptime.questions.scale.options:ScaleAsk",
        options="laptime.questions.scale.options:OPTIONS",
        takes=ALL_OPTIONS,
        budget="2m",
        spoken="a scale",
        runs_on_clusters=True,
    ),
    Question(
        name="verdict",
        answer="laptime.questions.verdict.nouns:VerdictAnswer",
        prepare="laptime.questions.verdict.run:prepare_verdict",
        run="laptime.questions.verdict.run:VerdictRace",
        render="laptime.questions.verdict.page:render",
        summary="laptime.questions.verdict.page:summary",
        parts="laptime.questions.verdict.page:page_parts",
        figures="laptime.questions.verdict.page:figures",
        result="laptime.questions.verdict.call:VerdictResult",
        call="laptime.questions.verdict.call:verdict",
        own_command="laptime.questions.verdict.command:verdict",
        line="Is this change faster, and is it still the same training?",
        asks="verdict",
        ask="laptime.questions.verdict.options:VerdictAsk",
        options="laptime.questions.verdict.options:OPTIONS",
        takes=("timed", "measured"),
        budget="90s",
        spoken="a verdict",
    ),
    Question(
        name="full",
        answer="laptime.model.answers:TrainingAnswer",
        prepare="laptime.questions.train.run:prepare_full",
        run="laptime.questions.train.run:WholeTrainings",
        render="laptime.showing:training_page",
        live="laptime.questions.train.page:live_lines",
        summary="laptime.pages.listing:of_training",
        parts="laptime.questions.train.page:page_parts",
        figures="laptime.questions.train.page:figures",
        call="laptime.library.calls:train",
        own_command="laptime.questions.train.command:train",
        typed="train",
        line="How long does a whole training take, and what does it learn?",
        has_line_of_its_own=False,
        asks="full",
        ask="laptime.questions.train.options:FullAsk",
        options="laptime.questions.train.options:OPTIONS",
        takes=("trained", "measured", "priced"),
        rates="laptime.questions.compare.reduce:rates_of_trainings",
        spoken="a training",
        has_magic=True,
    ),
    Question(
        name="infer",
        answer="laptime.model.answers:InferAnswer",
        prepare="laptime.questions.infer.run:prepare_infer",
        run="laptime.questions.infer.run:InferenceRace",
        render="laptime.questions.infer.page:render",
        live="laptime.questions.infer.page:live_lines",
        summary="laptime.pages.listing:of_inference",
        parts="laptime.questions.infer.page:page_parts",
        figures="laptime.questions.infer.page:figures",
        call="laptime.library.calls:infer",
        own_command="laptime.questions.infer.command:infer",
        line="How long does an answer take, and how many are there per second?",
        has_line_of_its_own=False,
        asks="infer",
        takes=ALL_OPTIONS,
        rates="laptime.questions.compare.reduce:rates_of_answers",
        spoken="of inference",
        has_magic=True,
    ),
    Question(
        name="profile",
        answer="laptime.model.answers:ProfileAnswer",
        prepare="laptime.questions.profile.run:prepare_profile",
        run="laptime.questions.profile.run:Profiles",
        render="laptime.questions.profile.page:render",
        summary="laptime.pages.listing:of_profile",
        parts="laptime.questions.profile.page:page_parts",
        figures="laptime.questions.profile.page:figures",
        call="laptime.library.calls:profile",
        own_command="laptime.questions.profile.command:profile",
        line="What laptime race --profile does after a race, without one.",
        has_line_of_its_own=False,
        is_older=True,
        asks="profile",
        takes=("trained",),
        spoken="a profile",
        has_magic=True,
    ),
]


def find_question(name: str) -> Question:
    """Return the row of this name; installed packages add rows by the entry point group `laptime.questions`.

    Raises LookupError where there is none.
    """
    for each in QUESTIONS:
        if each.name == name:
            return each
    metadata = importlib.import_module("importlib.metadata")  # slow, and few need it
    for point in metadata.entry_points(group="laptime.questions", name=name):
        found: Question = point.load()
        return found
    raise LookupError(f"no question '{name}'; known: {', '.join(each.name for each in QUESTIONS)}")


def find_page(question: str, *, is_concluded: bool) -> Question:
    """Return the row whose page and figures show a record: heats without a conclusion are shown as a race."""
    return find_question(question if is_concluded else "race")


def public_names() -> dict[str, str]:
    """Return where each name is that the questions have in `import laptime`: functions, results and asks."""
    places = [place for row in QUESTIONS for place in (row.call, row.result, row.ask) if place]
    return {place.rpartition(":")[2]: place for place in places}
