"""Times each line of the script, but only in a few of its iterations: behind its 16th step, its 64th, its 256th ...

A step is that of an optimizer of PyTorch, a batch of Keras's `fit`, or a backward pass where there is neither. Python
calls us for each line of the script's own code that runs then; what a library does counts as the script's line that
called it. These iterations take longer, and so the parent leaves their times out of the figures. Between them nothing
is set, so that no other iteration takes longer because of this file.

In the same iterations, this file notes which line reads a value of a tensor, and which makes a list longer. Worker
processes of a data loader are timed in a few of their fetches, and a thread in which TensorFlow makes batches while the
lines of the training are.
"""

from __future__ import annotations

import sys
from functools import wraps
from time import monotonic_ns as now_ns
from time import thread_time_ns as ran_ns

from . import kinds
from .memory import LivingTensors
from .places import describe_code, describe_place, is_foreign, own_line, place_number
from .slow_settings import find_slow_settings
from .threads import OtherThreads

try:
    from resource import RUSAGE_THREAD, getrusage
except ImportError:  # Linux counts switches for each thread, and others do not
    getrusage = None  # type: ignore[assignment]

TYPE_CHECKING = False  # importing `typing` takes milliseconds of every process of the script
if TYPE_CHECKING:
    from typing import Any

    from .agent import Agent

LINES_FIRST, LINES_FACTOR = 16, 4  # steps until the first timing, and how many times as many until the next
LINES_SOON, SLOW_NS = 4, 3_000_000_000  # steps until the first timing, where these took longer
COUNTED = (kinds.BACKWARD, kinds.STEP, kinds.KERAS_BATCH)  # what steps are: the last of these that a script has
STEPS_TIMED = 2  # so that of what is between two steps, all is timed
NEVER = 1 << 62  # a script that is raced is timed when the parent asks for it
FETCHES_FIRST, FETCHES_FACTOR = 2, 8  # the same of the fetches of a worker process
LINES_OF_CALL = 256  # of one call of a function; what follows counts as the loop that ran so long
LINES_OF_LOOP = 4096  # in a step, of a function that was running before
LINES_MOST = 8192  # of one timing, which then ends
RUNS_OFTEN = 16  # times in a step: of lines that run less often, nobody asks
WAITED_LEAST_NS, WAITED_RAN = 200_000, 0.2  # a line waited that took so long, and computed for no more than this of it
GENERATORS_MOST = 64  # that one timing keeps
IS_GENERATOR = 0x20  # CO_GENERATOR: its function goes on later, and so has to be left as it was
HAS_FAST_LOCALS = 1  # CO_OPTIMIZED: the code of a function, and not that of a module or a class
COPIES_LOCALS = sys.version_info < (3, 13)  # a frame that was traced has a copy of its locals


def timer_of(agent: Agent) -> LineTimer:
    """Return what times the lines of this process."""
    if agent.lines is None:
        agent.lines = LineTimer(agent)
    timer: LineTimer = agent.lines
    return timer


class LineTimer:
    """Times lines from one step to a later one. What fails ends it, and never reaches the script."""

    def __init__(self, agent: Agent, kind: int = kinds.LINE) -> None:
        self._agent = agent
        self._kind = kind  # of what it notes
        self._counts = kinds.BACKWARD  # the kind of events that are steps
        self.begin_afresh()
        self.is_on = False  # from the begin of a timing to its end
        self._is_tracing = False
        self._is_over = False  # it failed
        self._steps = self._began = self._until = 0
        self._fit: Any = None  # the line that called Keras's `fit`: all that Keras does is in it
        self._generators: list = []  # frames that may go on after the timing
        self._place = self._since = self._ran = self._left = 0
        self._switches = (0, 0)
        self._numbers: dict = {}  # of the lines of this timing
        self._runs: dict = {}  # how often each of them began to run
        self._own: dict = {}  # files: whether they are the script's own
        self._alive = LivingTensors()
        self._reads: Any = None
        self._lists: Any = None
        self._threads: Any = None
        self._has_graph = False  # the graph of a loss was looked at in this timing

    def begin_afresh(self) -> None:
        """Begin to count steps again, as the hooks do."""
        self.due = LINES_FIRST if self._agent.hold is None else NEVER
        self._first_ns = 0  # when its first step ended

    def begin_soon(self) -> None:
        """Begin a timing behind the next step."""
        self.due = 0
        self._agent.due[self._counts] = 0

    def count_by(self, kind: int) -> None:
        """Count events of this kind as steps from now on, unless the script has some that are closer to iterations."""
        if COUNTED.index(kind) > COUNTED.index(self._counts):
            self.leave()
            self._counts = kind
            self.begin_afresh()

    def stepped(self, kind: int, steps: int) -> None:
        """Begin or end a timing behind a step. The hooks call this behind events that may be steps."""
        agent = self._agent
        if kind != self._counts:
            return
        try:
            self._steps = steps
            if agent.is_off:
                self.leave()
            elif self.is_on:
                self.turn(self._place)
                if steps >= self._until or not self._is_tracing:
                    self.stop()
                else:
                    self._trace_running(sys._getframe(1))
            elif (steps >= self.due or self._is_slow(steps)) and not self._is_over:
                self._start(sys._getframe(1))
            if self.is_on:
                agent.due[kind] = 0  # so that the hook looks at the step that ends the timing
        except Exception as error:
            self.fail(error)
            self.leave()

    def _is_slow(self, steps: int) -> bool:
        """Whether the first few steps took so long that a script may not have many more."""
        now = now_ns()
        self._first_ns = self._first_ns or now
        return self.due == LINES_FIRST and steps >= LINES_SOON and now - self._first_ns >= SLOW_NS

    def fetch(self, fetch: Any, *given: Any) -> Any:
        """Fetch a batch in a worker process, or in a thread, and time the lines of it."""
        try:
            if sys.gettrace() is None:
                self._begin(None)
        except Exception as error:
            self.fail(error)
        try:
            return fetch(*given)
        finally:
            try:
                if self.is_on:
                    self.turn(0)
                    self.leave()
            except Exception as error:
                self.fail(error)

    def look_at_graph(self, tensors: Any, given: tuple, named: dict) -> None:
        """Count how many steps of computing are behind a loss, once in a timing, as its backward pass has ended."""
        if not self.is_on or self._has_graph:
            return
        self._has_graph = True
        first = tensors[0] if isinstance(tensors, (list, tuple)) and tensors else tensors
        makes_graph = named.get("create_graph", given[2] if len(given) > 2 else False)
        nodes = count_nodes(getattr(first, "grad_fn", None))
        self._agent.tell(nodes=nodes, makes_graph=bool(makes_graph), at_step=self._steps)

    def describe(self) -> None:
        """Send where the lines are that were timed: of a thread, before what it noted is sent by another."""
        for key, number in list(self._numbers.items()):  # a thread may add some
            if number:
                self._agent.describe_once(number, describe_place, key)
                self._agent.describe_once(-number, describe_code, key)

    def turn(self, place: int) -> None:
        """End the line that ran until now; another one begins, by its number."""
        end = now_ns()
        ran = ran_ns()
        switches = count_switches()
        took = end - self._since
        has_waited = took >= WAITED_LEAST_NS and ran - self._ran < WAITED_RAN * took
        # The kernel gives a core to another thread when a share is used up: mostly behind a line that computes.
        if has_waited and switches[0] == self._switches[0] and switches[1] > self._switches[1]:
            has_waited = False
            end = self._since + ran - self._ran
        self._agent.keep((self._kind, self._since, end, self._place | (kinds.LINE_WAITED if has_waited else 0)))
        self._since = now_ns()  # not `end`: the kernel may well have taken the core while it was asked
        self._ran = ran
        self._switches = switches
        self._place = place
        self._left -= 1
        if self._left <= 0:
            self.mute()

    def mute(self) -> None:
        """Trace no more until the timing ends. Python may be about to give a frame its locals back: leave these."""
        self._is_tracing = False
        if getattr(sys.gettrace(), "__self__", None) is self:
            sys.settrace(None)

    def leave(self) -> None:
        """End a timing, and send nothing: in a process that was forked meanwhile. Call it from no traced frame."""
        if not self.is_on:
            return
        self.mute()
        self.is_on = False
        if self._reads is not None:
            self._reads.leave()
        frame: Any = sys._getframe(1)
        while frame is not None:
            if self.is_own(frame.f_code.co_filename):
                _untrace(frame)
            frame = frame.f_back
        for frame in self._generators:
            _untrace(frame)
        self._generators = []

    def stop(self) -> None:
        """End a timing, and send what it found."""
        agent = self._agent
        steps = self._steps - self._began
        self.mute()
        longer = [] if self._lists is None else self._lists.growing(steps)
        self._lists = None
        self.leave()  # last: to look at a frame's names makes a copy of them again
        self.describe()
        if self._reads is not None and self._reads.found:
            agent.tell(reads=[[place, *counts] for place, counts in self._reads.found.items()], timed_steps=steps)
        tensors = self._alive.count(self._steps) if steps else 0
        if tensors:
            agent.tell(tensors=tensors, at_step=self._steps)
        for facts in longer:
            agent.tell(**facts)
        often = [[place, times] for place, times in self._runs.items() if place and times >= RUNS_OFTEN * steps]
        if often and steps:
            agent.tell(runs=often, timed_steps=steps)
        if self._threads is not None:
            self._threads.tell(agent)
        self._reads = self._threads = None

    def fail(self, error: Exception) -> None:
        self._is_over = True
        self.mute()
        self._agent.failed("lines", error)

    def _start(self, frame: Any) -> None:
        self.due = self.due * LINES_FACTOR or NEVER
        self._agent.tell(left_on=find_slow_settings(self._agent))
        if sys.gettrace() is not None or self._agent.compiles:  # a compiler leaves out frames that are traced
            return
        self._began = self._steps
        self._until = self._began + STEPS_TIMED
        self._lists = GrowingLists(self, frame)
        self.is_on = True  # from here on, there is something to set back
        tensor = tensor_type()
        self._reads = TensorReads(self, tensor) if tensor is not NO_TENSOR else None
        self._fit = own_line(frame) if self._counts == kinds.KERAS_BATCH else None
        self._has_graph = False
        self._agent.due[kinds.BACKWARD] = 0  # so that its hook looks at a loss
        self._threads = OtherThreads()
        self._begin(frame)

    def _begin(self, frame: Any) -> None:
        self._left = LINES_MOST
        self._numbers = {}
        self._runs = {}
        self._place = self.number(own_line(frame))
        self._ran = ran_ns()
        self._switches = count_switches()
        self._since = now_ns()
        self.is_on = self._is_tracing = True
        self._trace_running(frame)
        sys.settrace(self._called)

    def _trace_running(self, frame: Any) -> None:
        """Trace the functions that run, from here on, for as many lines as a step may have."""
        while frame is not None:
            if self.is_own(frame.f_code.co_filename):
                frame.f_trace = TimedFrame(self, LINES_OF_LOOP)
                frame.f_trace_lines = True
            frame = frame.f_back

    def _called(self, frame: Any, _event: str, _given: Any) -> Any:
        """Trace a function if it is the script's own. Python calls this for each that is called."""
        try:
            if self._is_tracing and self.is_own(frame.f_code.co_filename):
                self.turn(self.number((frame.f_code.co_filename, frame.f_lineno)))
                if frame.f_code.co_flags & IS_GENERATOR and len(self._generators) < GENERATORS_MOST:
                    self._generators.append(frame)
                return TimedFrame(self, LINES_OF_CALL)
        except Exception as error:
            self.fail(error)
        return None

    def passed(self, timed: TimedFrame, frame: Any, event: str) -> None:
        """Take the next line of a frame, or its end: then the line that called it goes on."""
        if not self._is_tracing or event not in {"line", "return"}:
            return
        key = (frame.f_code.co_filename, frame.f_lineno) if event == "line" else own_line(frame.f_back)
        place = self.number(key)
        if self._lists is not None:
            self._lists.look(self._place)
        if event == "line":
            self._runs[place] = self._runs.get(place, 0) + 1
            if not timed.spend(self._place):
                frame.f_trace_lines = False
                place = timed.loop
        if place != self._place:
            self.turn(place)

    def is_own(self, file: str) -> bool:
        """Whether a file is the script's own."""
        found = self._own.get(file)
        if found is None:
            found = self._own[file] = not (file.startswith("<") or is_foreign(file))
        return bool(found)

    def number(self, key: Any) -> int:
        """Return the number of a line, which is described when the timing ends."""
        found: Any = self._numbers.get(key)
        if found is None:
            is_none = key is None or key == self._fit
            found = self._numbers[key] = 0 if is_none else place_number(self._agent, key)
        return int(found)


def count_switches() -> tuple:
    """Return how often this thread gave up its core, and how often the kernel took it away."""
    if getrusage is None:
        return 0, 0
    usage = getrusage(RUSAGE_THREAD)
    return usage.ru_nvcsw, usage.ru_nivcsw


def _untrace(frame: Any) -> None:
    """Leave a frame as it was before it was traced."""
    frame.f_trace = None
    frame.f_trace_lines = True
    if COPIES_LOCALS and frame.f_code.co_flags & HAS_FAST_LOCALS:
        frame.f_locals.clear()  # of the copy, which else keeps tensors as long as the function runs


NO_TENSOR = ()  # no object is an instance of it


def tensor_type() -> Any:
    """Return PyTorch's class of tensors; Keras may train without PyTorch."""
    return getattr(sys.modules.get("torch"), "Tensor", NO_TENSOR)


class TimedFrame:
    """What Python calls at each line of a frame."""

    __slots__ = ("_at", "_left", "_spent", "_timer")

    def __init__(self, timer: LineTimer, most: int) -> None:
        self._timer = timer
        self._left = most
        self._at = now_ns()
        self._spent: dict = {}

    def __call__(self, frame: Any, event: str, _given: Any) -> Any:
        try:
            self._timer.passed(self, frame, event)
        except Exception as error:
            self._timer.fail(error)
        return self

    def spend(self, place: int) -> bool:
        """Add the time since the last line to that line. Return whether further lines are timed."""
        now = now_ns()
        spent, times = self._spent.get(place, (0, 0))
        self._spent[place] = spent + now - self._at, times + 1
        self._at = now
        self._left -= 1
        return self._left > 0

    @property
    def loop(self) -> int:
        """The line that took longest so far of those that ran most often: what runs so long is a loop."""
        most = max(times for _, times in self._spent.values())
        return int(max((spent, place) for place, (spent, times) in self._spent.items() if 2 * times >= most)[1])


# Which lines read a value of a tensor: on a card, each waits until all is computed that was handed out before.

READS = ("item", "tolist", "__float__", "__int__", "__bool__", "__format__", "__repr__")
READS_OF_CARD = ("cpu", "numpy", "__array__")  # on a processor they copy nothing


class TensorReads:
    """Counts the reads that the script's own lines make, while it is there: `found` has their times and nanoseconds."""

    def __init__(self, timer: LineTimer, tensor: Any) -> None:
        self.found: dict = {}
        self._timer = timer
        self._tensor = tensor
        self._before = {name: tensor.__dict__.get(name) for name in READS + READS_OF_CARD if hasattr(tensor, name)}
        for name in self._before:
            setattr(tensor, name, self._counted(getattr(tensor, name), is_of_card=name in READS_OF_CARD))

    def leave(self) -> None:
        """Set back what was there before, unless the script has set something else."""
        for name, before in self._before.items():
            if getattr(self._tensor.__dict__.get(name), "reads", None) is not self:
                continue
            if before is None:
                delattr(self._tensor, name)
            else:
                setattr(self._tensor, name, before)

    def _counted(self, read: Any, *, is_of_card: bool) -> Any:
        timer = self._timer

        @wraps(read)
        def watched(tensor, *given, **named):
            frame = sys._getframe(1)
            if not timer.is_on or not timer.is_own(frame.f_code.co_filename):
                return read(tensor, *given, **named)
            begin = now_ns()
            value = read(tensor, *given, **named)
            try:
                if not is_of_card or tensor.device.type != "cpu":
                    counts = self.found.setdefault(timer.number(own_line(frame)), [0, 0])
                    counts[0] += 1
                    counts[1] += now_ns() - begin
            except Exception as error:
                timer.fail(error)
            return value

        watched.reads = self  # type: ignore[attr-defined]
        return watched


# Which lines make memory grow in each step, of what the functions hold that run now: lists, and sums of losses.

HELD_MOST = 32  # lists and sums
ITEMS_LEAST = 8  # of a list that may have grown since the training began
NAMES_MOST = 256  # of one function, or one object
NODES_MOST = 20_000  # of one graph
LISTS = ("list", "dict", "set", "deque", "defaultdict")


class HeldList:
    """A list, dict or set, by its name."""

    def __init__(self, name: str, values: Any) -> None:
        self.name = name
        self._values = values

    def state(self) -> Any:
        return len(self._values)

    def shrank(self, before: Any) -> bool:
        return bool(len(self._values) < before)

    def size(self) -> int:
        return len(self._values)

    def held(self) -> tuple:
        """Return what the last item is, or holds, and the bytes of its tensors."""
        values = self._values
        if isinstance(values, dict):
            values = [values[next(reversed(values))]]
        elif isinstance(values, set):
            values = [next(iter(values))]
        last = values[-1]
        inner = last.values() if isinstance(last, dict) else last if isinstance(last, (list, tuple)) else (last,)
        tensors = [value for value in inner if isinstance(value, tensor_type())]
        size = sum([tensor.numel() * tensor.element_size() for tensor in tensors])
        if any(tensor.grad_fn is not None for tensor in tensors):
            return "graph", size
        return ("tensor" if tensors else type(last).__name__), size


class HeldSum:
    """A name of a function for a number that keeps its graph, such as a sum of losses."""

    def __init__(self, name: str, frame: Any) -> None:
        self.name = name
        self._frame = frame

    def state(self) -> Any:
        return id(self._frame.f_locals.get(self.name))

    def shrank(self, _before: Any) -> bool:
        return False

    def size(self) -> int:
        """Return how many steps of computing the number keeps, up to a limit."""
        return count_nodes(getattr(self._frame.f_locals.get(self.name), "grad_fn", None))

    def held(self) -> tuple:
        return "sum", 0


def count_nodes(node: Any) -> int:
    """Return how many steps of computing a graph has, up to a limit."""
    found: set = set()
    ahead = [node]
    while ahead and len(found) < NODES_MOST:
        node = ahead.pop()
        if node is not None and node not in found:
            found.add(node)
            ahead += [behind for behind, _ in node.next_functions]
    return len(found)


class GrowingLists:
    """What running functions and their objects hold, and which line made each longer."""

    def __init__(self, timer: LineTimer, frame: Any) -> None:
        self._timer = timer
        self._tensor = tensor_type()
        self._held: dict = {}
        while frame is not None and len(self._held) < HELD_MOST:
            if timer.is_own(frame.f_code.co_filename):
                self._search(dict(frame.f_locals), "", frame)
            frame = frame.f_back
        self._began = {key: held.size() for key, held in self._held.items()}
        self._states = {key: held.state() for key, held in self._held.items()}
        self._changed: dict = {}
        self._emptied: set = set()  # what a step collects and throws away may be longer in the next one

    def look(self, place: int) -> None:
        """Find out which changed in the line that ran until now."""
        states = {key: held.state() for key, held in self._held.items()}
        if states != self._states:
            changed = [key for key, state in states.items() if state != self._states[key]]
            self._changed.update(dict.fromkeys(changed, place))
            self._emptied.update([key for key in changed if self._held[key].shrank(self._states[key])])
            self._states = states

    def growing(self, steps: int) -> list:
        """Return facts of those that became longer by one in each step, or by more, and never shorter."""
        found = []
        for key, place in self._changed.items():
            if key in self._emptied:
                continue
            held = self._held[key]
            more = held.size() - self._began[key]
            if place and more >= steps > 0:
                holds, size = held.held()
                facts = {"grows": place, "name": held.name, "by": more / steps, "holds": holds, "bytes_each": size}
                found.append(facts)
        return found

    def _search(self, names: dict, before: str, frame: Any) -> None:
        """Keep what these names hold: those of a function (with its frame), or of one of its objects."""
        for name, value in list(names.items())[:NAMES_MOST]:
            if len(self._held) >= HELD_MOST or name.startswith("__"):
                continue
            if type(value).__name__ in LISTS:
                if len(value) >= ITEMS_LEAST:
                    self._held.setdefault(id(value), HeldList(before + name, value))
            elif isinstance(value, self._tensor):
                if frame is not None and value.numel() == 1 and value.grad_fn is not None:
                    self._held.setdefault((id(frame), name), HeldSum(name, frame))
            elif frame is not None:
                file = getattr(sys.modules.get(type(value).__module__), "__file__", None)
                is_of_script = isinstance(file, str) and self._timer.is_own(file)
                if is_of_script and isinstance(getattr(value, "__dict__", None), dict):
                    self._search(dict(value.__dict__), "%s%s." % (before, name), None)


# A worker process of a data loader: the agent sends nothing of it but the lines of a few fetches.


def hook_workers(agent: Agent, module: Any) -> None:
    """Time some fetches of the first worker of a loader, in the first of its epochs, its second, fourth, eighth ..."""
    run = module._worker_loop

    @wraps(run)
    def _worker_loop(dataset_kind, dataset, *given, **named):
        try:
            started = agent.loaders_started
            if agent.hold is None and not agent.is_off and started & (started - 1) == 0:
                _hook_fetchers(agent, sys.modules["torch.utils.data._utils.fetch"], module)
        except Exception as error:
            agent.failed("workers", error)
        return run(dataset_kind, dataset, *given, **named)

    module._worker_loop = _worker_loop


def _hook_fetchers(agent: Agent, fetchers: Any, workers: Any) -> None:
    timer = LineTimer(agent)
    agent.before_flush.append(timer.describe)
    due = FETCHES_FIRST
    fetched = 0

    def timed(fetch: Any) -> Any:
        @wraps(fetch)
        def watched(*given):
            nonlocal due, fetched
            fetched += 1
            if fetched < due or agent.is_off:
                return fetch(*given)
            due *= FETCHES_FACTOR
            agent.loads = True
            info = workers.get_worker_info()
            if info is None or info.id:
                return fetch(*given)
            try:
                return timer.fetch(fetch, *given)
            finally:
                try:
                    agent.flush(now_ns())
                except Exception as error:
                    timer.fail(error)

        return watched

    for name in ("_MapDatasetFetcher", "_IterableDatasetFetcher"):
        fetcher = getattr(fetchers, name)
        fetcher.fetch = timed(fetcher.fetch)
