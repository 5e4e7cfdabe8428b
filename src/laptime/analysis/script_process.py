"""What one process of a watched script sent -> a `ScriptProcess`."""

from __future__ import annotations

import re
import struct
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise, takewhile
from math import isfinite
from typing import Any, TypeVar

from laptime.analysis.heats import ALPHA
from laptime.analysis.script_keras import KerasBuilder
from laptime.analysis.script_lines import MemoryLooks
from laptime.analysis.script_loaders import LoaderStarts
from laptime.analysis.script_loop import (
    AGE_BLOCKS,
    FEWEST_STEADY,
    IterationBuilder,
    LoopProgress,
    LoopSummary,
    StepsBuilder,
)
from laptime.analysis.script_units import FETCHES, UnitBuilder
from laptime.attach import kinds
from laptime.model.quantities import Missing
from laptime.model.script import (
    BusyThread,
    GrowingList,
    RankSkew,
    ScriptProcess,
    SeenGraph,
    SeenLine,
    SeenLoader,
    SeenOptimizer,
    TrainingLoop,
)
from laptime.model.stats import log_mean_interval
from laptime.model.symptoms import DenormalCensus, TimedPlace
from laptime.model.visible import encodable, visible

NO_LOADER_SEEN = Missing("no data loader was seen")
OTHER_THREAD = Missing("another thread fetches the batches")
NO_OPTIMIZER = Missing("no optimizer was seen")
NO_COPY_SEEN = Missing("no parameters of an optimizer were seen on a card, to which batches would be copied")
KERAS_FETCHES = Missing("Keras fetches inside of its step")
IN_FUNCTION = {name: Missing("it runs inside of a tf.function") for name in ("optimizer_s", "backward_s", "no_grad_s")}
BETWEEN_CALLS = Missing("between calls of a tf.function, it is not told from what makes the batches")
IN_ONE_CALL = {
    name: Missing("it runs inside of Keras's step") for name in ("optimizer_s", "backward_s", "copy_s", "no_grad_s")
}
SEEN_AS_ONE_CALL = Missing("its steps are seen as one call")
ONE_PART = {
    name: Missing("of this loop, laptime sees the fetches only")
    for name in ("backward_s", "optimizer_s", "outside_s", "copy_s", "no_grad_s")
}
DESCRIBED_MOST = 64  # loaders, and optimizers; a script may make a new one for each step
LATEST_NS = 1 << 62
SLOW_LINES_MOST = 256  # lines of the script that take time
OF_A_TIMING = {"left_on", "reads", "runs", "tensors", "grows", "busy_thread", "nodes"}  # the facts of timed lines
TOTALS = (kinds.MEMORY, kinds.CARD_MEMORY, kinds.PAGES, kinds.COLLECTED)
COMPUTING_KINDS = {kinds.BACKWARD, kinds.STEP}
STEADY_RISE = 2.0  # times: graphs of other lengths rise and fall
AS_LONG = (0.6, 1.05)
GRAPHS_MOST = 64  # looks at them
CUT_OFF = "the process ended without a word, or still runs; up to a quarter of a second of it was not seen"


class ProcessReader:
    """Reads the facts and events of one process, in their order."""

    def __init__(self, hello: Mapping[str, Any]) -> None:
        self.hello = read_hello(hello)
        self._summary = LoopSummary()
        self._iterations = IterationBuilder(self._summary.add)
        self._units = UnitBuilder(self._iterations.take, self._summary.gap)
        self._keras = KerasBuilder(self._summary)
        self._by_fetch = LoopSummary()  # used where nothing that computes is seen
        self._steps = StepsBuilder(self._by_fetch.add, self._by_fetch.gap)
        self._steps_loaders: set[int] = set()
        self._starts = LoaderStarts()
        self._computes = False
        self._optimizers: dict[int, SeenOptimizer] = {}
        self._loaders: dict[object, SeenLoader] = {}
        self._places: dict[int, str] = {}
        self._calls: dict[int, tuple[str, ...]] = {}  # of these places
        self._busy: BusyThread | None = None
        self._graph: SeenGraph | None = None
        self._left_on: frozenset[str] | None = None  # in all timings so far
        self._graphs: list[tuple[int, int]] = []  # behind which step, of how many steps of computing
        self.double_at: str | None = None
        self._failed: dict[str, str] = {}
        self._totals = {kind: MemoryLooks() for kind in TOTALS}
        self._lost = 0
        self._sees_copies = self._in_function = False
        self.census: DenormalCensus | None = None
        self._has_left = False

    @property
    def iterations(self) -> int:
        return self._summary.counted or self._by_fetch.counted

    @property
    def progress(self) -> LoopProgress:
        """How far the training is, by whole iterations."""
        return (self._by_fetch if self._is_by_fetch else self._summary).progress()

    @property
    def _is_by_fetch(self) -> bool:
        """Whether only the batches of `laptime.steps` are seen, and nothing that computes."""
        return not (self._computes or self._keras.is_used) and self._by_fetch.iterations > 0

    @property
    def _trained(self) -> LoopSummary:
        """The loop that goes on now."""
        return self._keras.now.summary if self._keras.is_used else self._summary

    @property
    def at_once(self) -> int:
        """How many steps an iteration has that is seen as one call."""
        return self._keras.now.at_once if self._keras.is_used else 1

    @property
    def sees_waits(self) -> bool:
        """Whether waits for data are seen, if there is a loader."""
        return self._keras.now.has_fetches if self._keras.is_used else True

    @property
    def losses(self) -> list[float]:
        """The losses that were seen so far."""
        return [value for _, value in self._trained.losses]

    @property
    def places(self) -> tuple[TimedPlace, ...] | Missing:
        """What took time within the iterations apart from the training, and where; the longest first.

        The first iteration and those whose lines were timed are left out, as they are of all other times.
        """
        if self._keras.is_used or self._is_by_fetch:
            return SEEN_AS_ONE_CALL
        return self._summary.placed.named(self._places.get, self._summary.placed_apart)

    @property
    def types(self) -> tuple[str, ...]:
        """The types of the numbers that the optimizers change."""
        return tuple(sorted({dtype for optimizer in self._optimizers.values() for dtype in optimizer.dtypes}))

    @property
    def parameters(self) -> dict[str, int]:
        """How many parameters the optimizers have on each device."""
        found: Counter[str] = Counter()
        for optimizer in self._optimizers.values():
            found.update(optimizer.parameters)
        return dict(found)

    @property
    def trained_loader(self) -> SeenLoader | None:
        """The loader whose batches are trained on, or one of several that are alike; None where no such was seen."""
        if self._keras.is_used:
            return self._keras.loader
        names: Iterable[object] = self._steps_loaders if self._is_by_fetch else self._units.trainers
        found = [self._loaders[name] for name in names if name in self._loaders]
        return found[0] if found and all(seen_loader == found[0] for seen_loader in found) else None

    def take_facts(self, facts: Mapping[str, Any]) -> None:
        """Take one message of facts. Raise ValueError if it is none of an agent's."""
        if "versions" in facts:
            self.hello = read_hello(facts)
        elif "denormals" in facts:
            self.census = read_census(facts)
        elif "sees_copies" in facts:
            self._sees_copies = True
        elif "is_failed" in facts:
            if len(self._failed) < DESCRIBED_MOST:
                self._failed[text(facts["is_failed"])] = text(facts.get("error"))
        elif "in_function" in facts:
            self._in_function = True
        elif "skipped" in facts:
            self._skip(read_skipped(facts))
        elif OF_A_TIMING & facts.keys():
            self._take_timed(facts)
        elif "lost" in facts:
            self._has_left = True
            self._lost += whole(facts["lost"])
        else:
            known = self._optimizers if "optimizer" in facts else self._loaders
            if len(known) < DESCRIBED_MOST or not {"optimizer", "loader", "steps_loader"} & facts.keys():
                self._take_described(facts)

    def _take_timed(self, facts: Mapping[str, Any]) -> None:
        """Take what was seen while the lines of some iterations were timed."""
        if "left_on" in facts:
            names = frozenset(read_texts(facts["left_on"]))
            self._left_on = names if self._left_on is None else self._left_on & names
        elif "reads" in facts:
            self._summary.lines.read(*read_reads(facts))
        elif "runs" in facts:
            self._summary.lines.run_often(*read_runs(facts))
        elif "tensors" in facts:
            self._summary.lines.alive(whole(facts["tensors"]), whole(facts.get("at_step")))
        elif "grows" in facts:
            self._summary.lines.grows(whole(facts["grows"]), read_growing(facts))
        elif "busy_thread" in facts:
            where = self._places.get(whole(facts["busy_thread"]))
            self._busy = BusyThread(where, real(facts.get("ran")), real(facts.get("idle")))
        elif "nodes" in facts:
            self._graphs = [*self._graphs[:GRAPHS_MOST], (whole(facts.get("at_step")), whole(facts["nodes"]))]
            grows = nodes_per_step(self._graphs)
            self._graph = SeenGraph(self._graphs[0][1], facts.get("makes_graph") is True, grows)

    def _take_described(self, facts: Mapping[str, Any]) -> None:
        """Take what the script trains with, and where."""
        if "optimizer" in facts:
            double_at = facts.get("double_at")
            self.double_at = self.double_at if double_at is None else text(double_at)
            self._optimizers[whole(facts["optimizer"])] = read_optimizer(facts)
        elif "loader" in facts:
            self._loaders[whole(facts["loader"])] = read_loader(facts)
        elif "steps_loader" in facts:
            number = whole(facts["steps_loader"])
            batches = count_or_none(facts.get("batches"))
            self._steps_loaders.add(number)
            self._loaders[number] = SeenLoader(None, batches, None, kind="laptime.steps")
        elif "keras_batch" in facts:
            loader = replace(
                read_loader(facts),
                batch=count_or_none(facts["keras_batch"]),
                kind=text(facts.get("keras_data")),
                queue=count_or_none(facts.get("queue")),
            )
            self._keras.made(whole(facts.get("iterator")), loader)
        elif "keras_fit" in facts:
            self._keras.fit_begins(*(whole(facts.get(literal)) for literal in ("keras_fit", "model", "trained")))
            self._keras.now.at_once = max(1, count_or_none(facts.get("at_once")) or 1)
        elif "place" in facts and len(self._places) < SLOW_LINES_MOST:
            self._places[whole(facts["place"])] = text(facts.get("where"))
        elif "code_of" in facts and len(self._calls) < SLOW_LINES_MOST:
            self._calls[whole(facts["code_of"])] = names_of_calls(text(facts.get("code")))

    def take_events(self, body: bytes) -> None:
        """Take events. Those of Keras decide what an iteration is, where there are any.

        Raise ValueError if one is none of an agent's.
        """
        for kind, begin, end, value in struct.iter_unpack(kinds.EVENT, body):
            plain = kind & kinds.KIND_MASK
            is_timed = -LATEST_NS < begin <= end < LATEST_NS
            if not is_timed or not 0 < plain < kinds.SOME or kind < 0 or (value < 0 and plain != kinds.LOSS):
                raise ValueError("an event that no agent notes")
            if plain == kinds.LOSS:
                self._trained.loss(begin, struct.unpack("<d", struct.pack("<q", value))[0])
                continue
            if plain in self._totals:
                self._totals[plain].add(self._summary.iterations, value)
                continue
            if plain == kinds.LINE:
                self._line_taker(value, begin, end)
                continue
            if plain == kinds.MADE_LINE:
                self._keras.now.summary.lines.add_fetch(value, begin, end)
                continue
            if plain == kinds.COMPILE:
                self._trained.compiled(begin, end)
                self._by_fetch.compiled(begin, end)
            self._computes = self._computes or plain in COMPUTING_KINDS
            if plain in FETCHES:
                self._starts.take(plain, begin, end, value)
            if self._steps_loaders and not self._computes:
                self._take_fetch(plain, begin, end, value)
            if plain in kinds.KERAS_KINDS:
                self._keras.take(plain, begin, end, value)
            elif plain == kinds.FETCH and self._keras.is_used:
                self._keras.fetched_within(begin, end)
            elif not self._keras.is_used:
                self._units.take(kind, begin, end, value)

    @property
    def _line_taker(self) -> Callable[[int, int, int], None]:
        """What takes the times of lines: of a worker process, those of its fetches."""
        if self.hello.loads:
            return self._summary.lines.add_fetch
        return self._keras.line if self._keras.is_used else self._units.line

    def _skip(self, events: Mapping[int, int]) -> None:
        """Events follow that were not sent: what is open ends here, and these are counted."""
        self._units.skip()
        self._iterations.skip()
        self._keras.skip(events)
        self._steps.skip()
        for loop_summary in (self._summary, self._by_fetch):
            loop_summary.skip(events)

    def _take_fetch(self, kind: int, begin: int, end: int, value: int) -> None:
        loader = value >> kinds.ITEMS_SHIFT if kind == kinds.FETCH else value
        if loader in self._steps_loaders:
            self._steps.take(kind, begin, end, value)

    def process(self) -> ScriptProcess:
        """Return what was seen. It is called once, at the end."""
        hello = self.hello
        return ScriptProcess(
            pid=hello.pid,
            parent=hello.parent,
            python=hello.python,
            executable=hello.executable,
            loop=self._loop(),
            versions=hello.versions,
            rank=hello.rank,
            world=hello.world,
            optimizers=tuple(self._optimizers.values()),
            loaders=(*self._keras.loaders, *self._loaders.values()),
            lost=self._lost,
            failed=self._failed,
            census=self.census,
            lines=self.timed_lines,
            reads=self._summary.lines.reads(self._places.get),
            lists=self._summary.lines.lists(self._places.get),
            places=self._summary.placed.named(self._places.get),
            between=self._summary.between.named(self._places.get),
            double_at=self.double_at,
            tensors_per_step=self._summary.lines.tensors_per_step,
            memory=self._totals[kinds.MEMORY].trend(),
            card_memory=self._totals[kinds.CARD_MEMORY].trend(),
            faults=self._totals[kinds.PAGES].per_iteration(),
            collected_ns=self._totals[kinds.COLLECTED].per_iteration(),
            busy_thread=self._busy,
            graph=self._graph,
            left_on=tuple(sorted(self._left_on or ())),
        )

    @property
    def timed_lines(self) -> tuple[SeenLine, ...]:
        """The lines that take most of each part; of a worker process of a data loader, of its fetches."""
        summary = self._keras.lead.summary if self._keras.is_used else self._summary
        return summary.lines.lines(self._places.get, self._calls.get)

    def _loop(self) -> TrainingLoop | None:
        if self._keras.is_used:
            fit = self._keras.longest()
            unseen = IN_ONE_CALL if fit.has_fetches else {**IN_ONE_CALL, "data_wait_s": KERAS_FETCHES}
            loop = fit.summary.loop("Keras batches", fit.epochs, unseen, self._unsure())
            return None if loop is None else replace(loop, trainings=self._keras.trainings, made_share=fit.made_share)
        if not self._computes and self._by_fetch.iterations:
            return self._by_fetch.loop("steps", self._steps.epochs, ONE_PART, self._unsure())
        self._units.finish()
        self._iterations.finish()
        counted = self._iterations.counted
        unseen = {} if self._sees_copies else {"copy_s": NO_COPY_SEEN}
        unseen |= IN_FUNCTION if self._in_function else {}
        if not self._units.has_loader:
            unseen["data_wait_s"] = NO_LOADER_SEEN
            unseen |= {"outside_s": BETWEEN_CALLS} if self._in_function else {}
        elif self._units.fetched_elsewhere and not self._steps_loaders:
            unseen["data_wait_s"] = OTHER_THREAD
        if counted == "backward passes":
            unseen |= {"optimizer_s": NO_OPTIMIZER, "outside_s": NO_OPTIMIZER}
            unseen |= {} if self._iterations.evaluates else {"no_grad_s": NO_OPTIMIZER}
        loop = self._summary.loop(counted, self._units.epochs or NO_LOADER_SEEN, unseen, self._unsure())
        if loop is None:
            return None
        loader = self.trained_loader
        anew = self._units.epochs / loop.iterations if loader is not None and loader.batches != 1 else 0.0
        # What loaders took to start worker processes again for later epochs: also new ones that are alike.
        alike: defaultdict[SeenLoader, list[int]] = defaultdict(list)
        for number, known in self._loaders.items():
            if isinstance(number, int) and known.workers:
                alike[known].append(number)
        restarts_s = sum(
            self._starts.again_s(numbers)
            for known, numbers in alike.items()
            if len(numbers) > 1 or not known.keeps_workers
        )
        return replace(loop, restarts_s=restarts_s, started_anew=min(anew, 1.0))

    def _unsure(self) -> str | None:
        if self._lost:
            return f"{self._lost} events were lost"
        if self._failed:
            return f"hooks failed: {'; '.join(f'{hook}: {error}' for hook, error in self._failed.items())}"
        unseen = self._summary.skipped or self._by_fetch.skipped
        if unseen:
            return f"{unseen:,} iterations were too fast to be read, and are counted by the steps that the script took"
        return self._iterations.unsure or (None if self._has_left else CUT_OFF)


# Facts, as they came over the socket of a watched script -> nouns of ours.
#
# Any program of this user can write to that socket. So each field has the type that an agent sends, and a size that a
# record can hold, or all of the message is refused (`ValueError`), and with it the connection.

T = TypeVar("T")
WHOLE_NUMBER_MOST = 1 << 62
COUNT_MOST = 1 << 32  # items of a batch, batches, workers
TEXT_MOST = 4096
SOME_MOST = 1024  # entries of a list or a table
RANK_DIGITS = 9
CALLED = re.compile(r"([A-Za-z_.][\w.]*)\(")
CALLS_MOST = 8  # of a line
NAME_LETTERS_MOST = 64


@dataclass(frozen=True, slots=True)
class Greeting:
    """What a process says of itself when it greets."""

    pid: int
    began_ns: int
    parent: int
    python: str
    executable: str
    versions: dict[str, str]
    rank: int | None
    world: int | None
    loads: bool = False  # as a worker process of a data loader


def read_hello(facts: Mapping[str, Any]) -> Greeting:
    """Return who greets. A rank that is no number is none: the variable may be another program's."""
    return Greeting(
        pid=whole(facts.get("pid")),
        began_ns=whole(facts.get("began_ns", 0)),
        parent=whole(facts.get("parent")),
        python=text(facts.get("python")),
        executable=text(facts.get("executable")),
        versions=_table(facts.get("versions"), text),
        rank=_number(facts.get("rank")),
        world=_number(facts.get("world")),
        loads=facts.get("loads") is True,
    )


def read_optimizer(facts: Mapping[str, Any]) -> SeenOptimizer:
    return SeenOptimizer(
        text(facts.get("name")),
        _table(facts.get("parameters"), whole),
        read_texts(facts.get("dtypes")),
        tensors=count_or_none(facts.get("of_tensors")),
        is_fused=_flag(facts.get("fused")),
        threads=count_or_none(facts.get("threads")),
        finds_anomalies=_flag(facts.get("anomaly")),
        has_mkldnn=_flag(facts.get("mkldnn")),
    )


def read_loader(facts: Mapping[str, Any]) -> SeenLoader:
    """Return a loader. A script's own loader may have attributes of any type: what is no number is not known."""
    return SeenLoader(
        batch=count_or_none(facts.get("batch_size")),
        batches=count_or_none(facts.get("batches")),
        workers=count_or_none(facts.get("num_workers")),
        pins_memory=_flag(facts.get("pin_memory")),
        keeps_workers=_flag(facts.get("persistent_workers")),
        prefetched=count_or_none(facts.get("prefetch_factor")),
        is_iterable=_flag(facts.get("is_iterable")),
        is_in_memory=_flag(facts.get("in_memory")),
    )


def read_census(facts: Mapping[str, Any]) -> DenormalCensus:
    shares = _table(facts.get("denormals"), real)
    if not shares or not all(0 <= share <= 1 for share in shares.values()):
        raise _unexpected(shares, "shares")
    return DenormalCensus(shares, flushed=facts.get("is_flushed") is True, step=whole(facts.get("at_step")))


def read_reads(facts: Mapping[str, Any]) -> tuple[dict[int, tuple[int, int]], int]:
    """Return how often each line read a value of a tensor, and for how many nanoseconds; and in how many steps."""
    rows = facts.get("reads")
    if not isinstance(rows, list) or len(rows) > SOME_MOST or not all(isinstance(row, list) for row in rows):
        raise _unexpected(rows, "a list of lists")
    return {whole(place): (whole(times), whole(ns)) for place, times, ns in rows}, whole(facts.get("timed_steps"))


def read_runs(facts: Mapping[str, Any]) -> tuple[dict[int, int], int]:
    """Return how often lines ran, and in how many steps."""
    rows = facts.get("runs")
    if not isinstance(rows, list) or len(rows) > SOME_MOST or not all(isinstance(row, list) for row in rows):
        raise _unexpected(rows, "a list of lists")
    return {whole(place): whole(times) for place, times in rows}, whole(facts.get("timed_steps"))


def nodes_per_step(looks: Sequence[tuple[int, int]]) -> float:
    """Return by how many steps of computing graphs become longer with each step; 0 where they do not do so steadily.

    Two looks say so only where the graph is as long as the training. A graph is counted up to a limit.
    """
    pairs = [pair for pair in pairwise(looks) if pair[1][0] > pair[0][0]]  # a script may say anything
    rises = [(later - before) / (end - begin) for (begin, before), (end, later) in pairs]
    known = [*takewhile(lambda rise: rise > 0, rises)]
    if not known or min(rises) < 0 or max(known) > STEADY_RISE * min(known):
        return 0.0
    (begin, before), (end, later) = pairs[0]
    is_whole = begin > 0 < before and AS_LONG[0] <= (later / before) / (end / begin) <= AS_LONG[1]
    return min(known) if len(known) > 1 or is_whole else 0.0


def read_growing(facts: Mapping[str, Any]) -> GrowingList:
    return GrowingList(
        "",
        text(facts.get("name")),
        real(facts.get("by")),
        text(facts.get("holds")),
        whole(facts.get("bytes_each")),
    )


def names_of_calls(code: str) -> tuple[str, ...]:
    """Return the names of what a line of code calls, without what is in its strings; of a loop, `for` as well."""
    plain = re.sub(r"""(["']).*?(?<!\\)\1""", "''", code).partition("#")[0]
    head = ["for"] if plain.startswith("for ") else []
    return tuple(dict.fromkeys([*head, *(found[-NAME_LETTERS_MOST:] for found in CALLED.findall(plain))]))[:CALLS_MOST]


def read_skipped(facts: Mapping[str, Any]) -> dict[int, int]:
    """Return how many events of each kind were not sent."""
    return {whole(_number(kind)): whole(count) for kind, count in _table(facts.get("skipped"), whole).items()}


def whole(value: object) -> int:
    """Return a whole number that is not negative; raise ValueError if it is none."""
    if type(value) is not int or not 0 <= value < WHOLE_NUMBER_MOST:
        raise _unexpected(value, "a whole number")
    return value


def whole_or_none(value: object) -> int | None:
    """Return a whole number that is not negative; None if it is none."""
    return value if type(value) is int and 0 <= value < WHOLE_NUMBER_MOST else None


def count_or_none(value: object) -> int | None:
    """Return how many; None if that is no number, or one that cannot be."""
    found = whole_or_none(value)
    return found if found is not None and found <= COUNT_MOST else None


def real(value: object) -> float:
    """Return a number; raise ValueError if it is none, or not finite."""
    if type(value) not in {int, float} or not isfinite(value):  # type: ignore[arg-type]
        raise _unexpected(value, "a number")
    return float(value)  # type: ignore[arg-type]


def text(value: object) -> str:
    """Return a text that a terminal may show and JSON can hold; raise ValueError if it is none."""
    if not isinstance(value, str):
        raise _unexpected(value, "a text")
    return encodable(visible(value[:TEXT_MOST]))


def read_texts(value: object) -> tuple[str, ...]:
    if not isinstance(value, list) or len(value) > SOME_MOST:
        raise _unexpected(value, "a list")
    return tuple(map(text, value))


def _table(value: object, read: Callable[[object], T]) -> dict[str, T]:
    if not isinstance(value, dict) or len(value) > SOME_MOST:
        raise _unexpected(value, "a table")
    return {text(name): read(entry) for name, entry in value.items()}


def _flag(value: object) -> bool | None:
    return value if isinstance(value, bool) else None


def _number(value: object) -> int | None:
    if isinstance(value, str) and value.isascii() and value.isdigit() and len(value) <= RANK_DIGITS:
        return int(value)
    return None


def _unexpected(value: object, wanted: str) -> ValueError:
    return ValueError(f"{str(value)[:40]!a} came, and {wanted} was expected")


# How the ranks of a watched training differ: the same iterations of each, and how sure that is.

TOO_FEW = Missing(f"fewer than {FEWEST_STEADY} stretches of iterations are common to all ranks")


def compare_ranks(processes: Sequence[ScriptProcess]) -> RankSkew | None:
    """Return how the ranks of a training differ; None where there is one only, or no iteration that all had.

    The interval is that of the mean ratio over blocks of iterations. That the slowest and the fastest were picked
    among all ranks makes it wider.
    """
    loops = {
        process.rank: process.loop
        for process in processes
        if process.rank is not None
        and isinstance(process.loop, TrainingLoop)
        and not isinstance(process.loop.steady.backward_s, Missing)
    }
    edges = _common_edges([*loops.values()])
    if len(loops) < 2 or len(edges) < 2:
        return None
    ranks = tuple(sorted(loops))
    blocks = {rank: _own_ms(loops[rank], edges) for rank in ranks}
    iterations = edges[-1] - edges[0]
    lengths = [last - first for first, last in pairwise(edges)]
    own = {
        rank: sum(ms * count for ms, count in zip(blocks[rank], lengths, strict=True)) / iterations for rank in ranks
    }
    slowest = max(ranks, key=lambda rank: own[rank])
    fastest = min(ranks, key=lambda rank: own[rank])
    spread = own[slowest] / own[fastest]
    values = tuple(own[rank] for rank in ranks)
    if len(lengths) < FEWEST_STEADY:
        return RankSkew(ranks, values, slowest, spread, TOO_FEW, TOO_FEW, iterations)
    ratios = [slow / fast for slow, fast in zip(blocks[slowest], blocks[fastest], strict=True)]
    found = log_mean_interval(ratios, ALPHA / (len(ranks) * (len(ranks) - 1)))
    return RankSkew(ranks, values, slowest, spread, min(found.low, spread), max(found.high, spread), iterations)


def _common_edges(loops: Sequence[TrainingLoop]) -> list[int]:
    """Return after how many iterations blocks end that are the same in all ranks, in which all are steady.

    Where one of them becomes steady too late, they are compared from where the first one does.
    """
    if not loops:
        return []
    ends = [[*accumulate(window.iterations for window in loop.windows)] for loop in loops]
    steady = [after[min(loop.steady_from, len(after) - 1)] for loop, after in zip(loops, ends, strict=True)]
    common = sorted(set.intersection(*map(set, ends)))
    edges = [end for end in common if end >= max(steady)]
    if len(edges) <= AGE_BLOCKS:
        edges = [end for end in common if end >= min(steady)]
    blocks = min(AGE_BLOCKS, len(edges) - 1)
    return [edges[number * (len(edges) - 1) // blocks] for number in range(blocks + 1)] if blocks > 0 else []


def _own_ms(loop: TrainingLoop, edges: Sequence[int]) -> list[float]:
    """Return the mean iteration of each block without the backward pass, in which ranks wait for each other."""
    ends = accumulate(window.iterations for window in loop.windows)
    sums = accumulate(window.wall_ns - window.backward_ns for window in loop.windows)
    until = dict(zip(ends, sums, strict=True))
    return [max(until[last] - until[first], 1) / (last - first) / 1e6 for first, last in pairwise(edges)]
