"""The table of questions. A question is a row here, a folder, and a field of `Ask` where it is asked what no other is.

What a folder holds for all that ask is in its files, and has the same name in each: `PART`, of the kind that belongs to
the file. A file is imported when its part is used. So a record can be read and shown where no framework is installed,
and `laptime --help` and `import laptime` import no part.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any, ClassVar, Protocol, TypeVar


class PartOfQuestion(Protocol):
    """A kind of part: `QuestionAnswer`, `QuestionRun`, `QuestionPage`, `QuestionCall` or `QuestionOptions`."""

    FILE: ClassVar[str]  # without its .py


KindOfPart = TypeVar("KindOfPart", bound=PartOfQuestion)


@dataclass(frozen=True, slots=True)
class Question:
    """One question, by the name that its record holds."""

    name: str
    folder: str = ""  # the package with its parts, where it is not laptime.questions and its name
    says: str = ""  # the help of its command, where that is made from this row
    more: str = ""  # what `laptime help COMMAND` says besides
    examples: tuple[str, ...] = ()
    docs: str = ""  # the page that says more
    plans: bool = False  # it has --dry-run
    takes_scripts: bool = False  # with their arguments behind --
    has_command: bool = False  # in command.py; else its command is made from this row
    typed: str = ""  # the command's name, where it is another
    line: str = ""  # of the list of commands
    has_line_of_its_own: bool = True  # on the first page of help
    is_older: bool = False  # an older word for what another command does with an option
    has_call: bool = True  # `import laptime` has a function of the command's name, in call.py
    has_result: bool = False  # and a class for its records
    asks: str = ""  # the field of an `Ask` that means it
    has_options: bool = False  # the field holds a class of options.py; else it is a flag
    takes: tuple[str, ...] = ()  # options of several questions: of what is trained, timed, measured, priced
    budget: str = ""  # where it is not that of a race
    is_followed: bool = False  # its records are compared, and followed over time
    has_rates: bool = False  # and that by the rates of reduce.py
    prints_record: bool = True  # with --json; else an answer of its own
    spoken: str = ""  # how a sentence names a record of it
    has_magic: bool = False  # for cells of a notebook
    forks_heats: bool = False  # its heats come in rounds: what its scout imports is kept for them
    shows_environment: bool = False  # its page with details begins with the machine's, and the layers
    runs_on_clusters: bool = False
    goes_on: bool = False  # with --more, in further rounds of its record
    predicts_cards: bool = False  # what cards that are not here would bring

    @property
    def command(self) -> str:
        return self.typed or self.name

    @property
    def function(self) -> str:
        """How Python names its command, and its function in `import laptime`."""
        return self.command.replace("-", "_")

    @property
    def field(self) -> str:
        """How an `Ask` means it, in Python."""
        return f"{self.asks}={self.ask_class}(...)" if self.has_options else f"{self.asks}=True"

    @property
    def ask_class(self) -> str:
        return f"{self.name.capitalize()}Ask"

    @property
    def package(self) -> str:
        return self.folder or f"laptime.questions.{self.name}"

    def part(self, kind: type[KindOfPart]) -> KindOfPart:
        """Return its part of this kind; the file is imported now."""
        part: KindOfPart = find_part(f"{self.package}.{kind.FILE}:PART")
        return part


def find_part(place: str) -> Any:
    """Import what is named as "module:name"."""
    module, _, inside = place.partition(":")
    return getattr(importlib.import_module(module), inside)


ALL_OPTIONS = ("trained", "timed", "measured", "priced")
WHAT_HELP = """WHAT is a built-in training (laptime workloads; cifar-cnn by default) or your own: file.py:function.
A LANE is framework/device/settings, such as torch/cpu/best (laptime help lanes)."""
ONE_LANE_HELP = "By default it is the card if there is one, else the processor, as written."

# In the order in which help lists them.
QUESTIONS: list[Question] = [
    Question(
        name="race",
        has_result=True,
        has_command=True,
        line="Which lane is faster, by how much, and did they learn alike?",
        takes=ALL_OPTIONS,
        is_followed=True,
        has_rates=True,
        spoken="a race",
        has_magic=True,
        runs_on_clusters=True,
        goes_on=True,
        predicts_cards=True,
        forks_heats=True,
    ),
    Question(
        name="why",
        has_result=True,
        says=f"""Why does WHAT take so long on LANE, and what would make it faster?

{WHAT_HELP}
{ONE_LANE_HELP}
A script is looked at unchanged, its arguments behind --.
""",
        more="""\
The lane is raced against itself. First next to its three ceilings: its loader alone, the copy to the device alone,
the training alone on batches that are ready. Then next to experiments, in each of which one possible cause is gone;
first those to which readings and ceilings point. A cause is proven where its removal moved the time, likely where
only its signature is there, and ruled out by a figure. Sixteen causes are judged. A lane that did other work than
its reference, or too much noise to conclude anything, is exit code 4. Of a script that knows nothing of laptime
(its arguments are behind --) the batches of its DataLoader are replayed, or fetched alone. `laptime why --more 2m ID`
goes on with the experiments for which there was no time.
""",
        examples=(
            "laptime why plates-cnn",
            "laptime why my.py:training cuda --budget 5m",
            "laptime why train.py -- -e 3",
        ),
        docs="docs/why.md",
        takes_scripts=True,
        goes_on=True,
        line="Where does the time go, what limits it, and what would gain?",
        takes=("trained", "timed", "measured"),
        budget="2m",  # experiments take longer than two lanes
        spoken="a why",
        has_magic=True,
        predicts_cards=True,
        forks_heats=True,
    ),
    Question(
        name="watch",
        is_followed=True,
        has_result=True,
        has_command=True,
        line="Run a script unchanged: where does its training time go?",
        spoken="a watched script",
    ),
    Question(
        name="tune",
        has_result=True,
        has_command=True,
        plans=True,
        takes_scripts=True,
        goes_on=True,
        line="Which settings are best on each lane, and what do they gain?",
        asks="tune",
        has_options=True,
        takes=ALL_OPTIONS,
        budget="5m",
        spoken="a tuning",
        forks_heats=True,
    ),
    Question(
        name="verdict",
        prints_record=False,
        has_result=True,
        has_command=True,
        line="Is this change faster, and is it still the same training?",
        asks="verdict",
        has_options=True,
        takes=("timed", "measured"),
        budget="90s",
        spoken="a verdict",
        forks_heats=True,
        goes_on=True,
    ),
    Question(
        name="sweep",
        has_result=True,
        says=f"""How fast is each LANE at each batch, and where does one overtake another?

{WHAT_HELP}
{ONE_LANE_HELP}
""",
        more="""\
`1..1024` doubles from the first value to the last, `8,16,24` is a list. One axis or two. At each value all lanes race
in turns, in short heats, and again as long as the budget allows. Between two values the crossover is found on
logarithmic axes, with its interval. Memory is estimated before a batch runs: what surely does not fit is left out.
Where a lane has no memory left, larger batches are left out, too, and the largest that fits is found to within 5 %. The
page has the batch from which on a lane has 90 % of its highest rate, and what a step with nothing in it would take.
--items makes a data set of each size, to see where it no longer fits into memory. --width multiplies the filters and
hidden units of a built-in network; inputs and classes stay.
""",
        examples=(
            "laptime sweep cifar-cnn cpu cuda --batch 1..1024",
            "laptime sweep my.py:training cpu --workers 0..8",
        ),
        docs="docs/sweep.md",
        plans=True,
        line="How fast is each lane at each batch, and where do they cross?",
        asks="sweep",
        has_options=True,
        takes=ALL_OPTIONS,
        budget="5m",
        spoken="a sweep",
        forks_heats=True,
    ),
    Question(
        name="scale",
        has_result=True,
        says=f"""Train WHAT on 1, 2, 4 devices: what do they bring, and what is lost?

{WHAT_HELP}
{ONE_LANE_HELP}
""",
        more="""\
A LANE names one device, and devices of its kind are counted. All counts race in turns, and with them experiments:
the same processes without their exchange of gradients, the same on batches that are ready, and one device on its
part of a batch. From these follow the parts of a step: the exchange that no computing hides, a slow rank, loaders
that do not keep up, devices that slow each other down. With --weak each device has the batch as written, with
--strong they share it out. On a processor a device is a process with its share of the cores. A model of an
all-reduce predicts more devices, with ranges, up to eight times the largest count. With three counts or more, the
largest is predicted from the others first, and the page says how well. In PyTorch a lane may name ddp (the default),
fsdp or dp.

With --on ray or --on torchrun the devices may be on several nodes (docs/clusters.md).
""",
        examples=("laptime scale cifar-cnn cuda --devices 1,2,4", "laptime scale my.py:training cpu --both"),
        docs="docs/scale.md",
        plans=True,
        line="What do 2, 4, 8 devices bring, and what is lost?",
        asks="scale",
        has_options=True,
        takes=ALL_OPTIONS,
        budget="2m",
        spoken="a scale",
        runs_on_clusters=True,
    ),
    Question(
        name="full",
        folder="laptime.questions.train",
        shows_environment=True,
        says=f"""Train WHAT whole on each LANE, one after another: time, loss and accuracy of every lap.

{WHAT_HELP}
""",
        more="""\
All laps, validation and test run as published, unless options say otherwise. After each lap a checkpoint is saved;
`laptime resume ID` goes on after the last whole lap.
""",
        examples=("laptime train cifar-cnn torch/cpu torch/cpu/best", "laptime train my.py:training --laps 5"),
        docs="docs/reading.md",
        plans=True,
        typed="train",
        line="How long does a whole training take, and what does it learn?",
        has_line_of_its_own=False,
        asks="full",
        has_options=True,
        takes=("trained", "measured", "priced"),
        is_followed=True,
        has_rates=True,
        spoken="a training",
        has_magic=True,
    ),
    Question(
        name="infer",
        says=f"""Time answers of WHAT on each LANE: single calls and batches.

{WHAT_HELP}
""",
        more="""\
The first call and the start-up are apart from later calls. Throughput is measured in batches of 1, 8, 64 and 256.
Answers are checked against a reference in float64.
""",
        examples=("laptime infer pets-densenet", "laptime infer cifar-cnn torch/cpu torch/cpu/best --budget 2m"),
        docs="docs/reading.md",
        plans=True,
        line="How long does an answer take, and how many are there per second?",
        has_line_of_its_own=False,
        asks="infer",
        takes=ALL_OPTIONS,
        is_followed=True,
        has_rates=True,
        spoken="of inference",
        has_magic=True,
    ),
    Question(
        name="profile",
        says=f"""Where does a step of WHAT go on each LANE? Operators by time and memory, kernels, and a trace.

{WHAT_HELP}
{ONE_LANE_HELP}
""",
        more="""\
Each lane is built and warmed up as in a heat, in a fresh process. Then some of its steps (3 to 20, for about two
seconds) run under the framework's own profiler: torch.profiler, JAX's or TensorFlow's. Steps without it are timed
before and after, so the profiler's own cost is known. Nothing is proven and nothing is raced. The trace of each
lane opens in https://ui.perfetto.dev or chrome://tracing. `laptime race --profile` races first.
""",
        examples=("laptime profile cifar-cnn torch/cpu", "laptime profile my.py:training cuda"),
        docs="docs/why.md",
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
    for question in QUESTIONS:
        if question.name == name:
            return question
    metadata = importlib.import_module("importlib.metadata")  # slow, and few need it
    for point in metadata.entry_points(group="laptime.questions", name=name):
        found: Question = point.load()
        return found
    raise LookupError(f"no question '{name}'; known: {', '.join(question.name for question in QUESTIONS)}")


def find_page(question: str, *, is_concluded: bool) -> Question:
    """Return the row whose page and figures show a record: heats without a conclusion are shown as a race."""
    return find_question(question if is_concluded else "race")


def public_names() -> dict[str, str]:
    """Return where each name is that the questions have in `import laptime`: functions, results and asks."""
    names = {"Result": "laptime.library.results:Result"}
    for row in QUESTIONS:
        if row.has_call:
            names[row.function] = f"{row.package}.call:{row.function}"
        if row.has_result:
            names[f"{row.name.capitalize()}Result"] = f"{row.package}.call:{row.name.capitalize()}Result"
        if row.has_options:
            names[row.ask_class] = f"{row.package}.options:{row.ask_class}"
    return names
