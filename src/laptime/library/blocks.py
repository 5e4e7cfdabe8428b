"""Watch trainings in this process: `with laptime.watching() as watched`, and `for batch in laptime.steps(loader)`."""

from __future__ import annotations

import atexit
import os
import sys
import time
import warnings
from collections.abc import Generator, Iterable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from threading import Lock, Thread
from types import TracebackType
from typing import Any, Generic, Self, TypeVar

from laptime import api
from laptime.engine.run.child import is_within_a_heat, refuse_within_a_heat
from laptime.engine.run.launchers import Block, command_agent, fetches_seen, own_agent
from laptime.library.asking import make_ask, options_as_arguments
from laptime.library.notebook import ProgressLine, is_notebook, progress_shown
from laptime.model.ask import Ask
from laptime.model.errors import LaptimeError, StoreError, UsageError
from laptime.model.record import Record
from laptime.questions.watch.call import WatchResult
from laptime.questions.watch.run import prepare_block

Batch = TypeVar("Batch")


class Watching:
    """A block in which this process is watched. `result` is there after its end."""

    def __init__(self, ask: Ask, *, progress: bool | None) -> None:
        self._ask = ask
        self._progress = progress
        self._opened = ExitStack()
        self._run: BlockRun | None = None
        self._result: WatchResult | None = None

    def __enter__(self) -> Self:
        """Begin to watch. Raise UsageError within another block."""
        refuse_within_a_heat()
        if self._run is not None:
            raise UsageError("this block was watched already", "Call laptime.watching() again for another one.")
        OPEN_BLOCK.enter(self)
        try:
            with options_as_arguments():
                line = self._opened.enter_context(progress_shown(wanted=self._progress))
                self._run = BlockRun(self._ask, line)
                self._run.begin()
        except BaseException:
            self._opened.close()
            OPEN_BLOCK.leave(self)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Save the record. An exception of the block passes through."""
        self._end(is_interrupted=isinstance(error, KeyboardInterrupt), is_failed=error is not None)

    @property
    def result(self) -> WatchResult:
        """What was seen: a result like that of `laptime.watch`."""
        if self._result is None:
            raise UsageError("the block has not ended, and has no result yet", "Use .result after the `with` block.")
        return self._result

    def _end(self, *, is_interrupted: bool = False, is_failed: bool = False, ended_s: float | None = None) -> None:
        run = self._run
        assert run is not None
        try:
            record = run.end(is_interrupted=is_interrupted, ended_s=ended_s)
            self._result = WatchResult(record, not run.unsaved)
            unsaved: list[Any] = run.unsaved
        except LaptimeError as error:
            if not is_failed:
                raise
            unsaved = [error]
        finally:
            self._opened.close()
            OPEN_BLOCK.leave(self)
        if unsaved:
            warnings.warn(str(unsaved[-1]), RuntimeWarning, stacklevel=3)


class BlockRun:
    """The question about a block. It waits in a thread of its own until the block is over."""

    def __init__(self, ask: Ask, line: ProgressLine) -> None:
        self._ask = ask
        self._line = line
        self._block = Block()
        self._thread = Thread(target=self._answer, name="watching", daemon=True)
        self._record: Record | None = None
        self._error: BaseException | None = None
        self.unsaved: list[StoreError] = []

    def begin(self) -> None:
        """Return once this process is watched."""
        self._thread.start()
        self._block.begun.wait()
        if self._error is not None:
            raise self._error

    def end(self, *, is_interrupted: bool, ended_s: float | None) -> Record:
        """Return the record, once it is saved."""
        self._block.is_interrupted = is_interrupted
        self._block.ended_s = ended_s
        self._block.over.set()
        self._thread.join()
        if self._record is None:
            raise self._error or LaptimeError("the block could not be described")
        return self._record

    def _answer(self) -> None:
        try:
            self._record = api.answer(
                "watch", self._ask, prepare=partial(prepare_block, block=self._block), show=self._line.show,
                warn=self.unsaved.append,
            )  # fmt: skip
        except BaseException as error:  # noqa: BLE001  it is raised where the block begins or ends
            self._error = error
        finally:
            self._block.begun.set()


class OpenBlock:
    """The block that is watched now: there is one at most in a process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self.now: Watching | None = None

    def enter(self, block: Watching) -> None:
        """Refuse a block within a block. One that loops of `laptime.steps` began on their own ends here."""
        if isinstance(self.now, StepsBlock) and not self.now.passes:
            self.now.finish()
        with self._lock:
            if self.now is not None:
                raise UsageError(
                    "this process is watched already, and a block within a block has no figures of its own",
                    "Leave out the inner laptime.watching(), or end the outer one before.",
                )
            self.now = block

    def leave(self, block: Watching) -> None:
        with self._lock:
            if self.now is block:
                self.now = None


OPEN_BLOCK = OpenBlock()


class StepsBlock(Watching):
    """A block that the first loop of `laptime.steps` began. It ends with its last pass, once its result is wanted."""

    def __init__(self) -> None:
        super().__init__(make_ask(_program(), (), "watch"), progress=False)
        self.passes = 0  # that run now
        self._pid = os.getpid()
        self._ended_s: float | None = None

    def __enter__(self) -> Self:
        super().__enter__()
        atexit.register(self.finish)
        return self

    def end_pass(self) -> None:
        self.passes -= 1
        self._ended_s = time.monotonic()

    def finish(self) -> None:
        """End the block, unless it has ended. The record is saved at the latest when the process ends."""
        if OPEN_BLOCK.now is self and os.getpid() == self._pid:
            atexit.unregister(self.finish)
            self._end(ended_s=None if self.passes else self._ended_s)


class WatchedBatches(Generic[Batch]):
    """Batches whose fetches are watched. It can be gone through again, as what it holds can."""

    def __init__(self, batches: Iterable[Batch]) -> None:
        self._batches = batches
        self._watching: Watching | None = None
        self._numbers: dict[int, int] = {}

    def __len__(self) -> int:
        """Return how many batches there are, where that is known."""
        return len(self._batches)  # type: ignore[arg-type]  # raises TypeError as that of the batches does

    def __iter__(self) -> Generator[Batch, None, None]:
        """Go through the batches once, and note when each is fetched."""
        if is_within_a_heat() and command_agent() is None:
            yield from self._batches
            return
        agent = command_agent()
        agents = [] if agent is None else [agent]
        block = OPEN_BLOCK.now
        if block is None and not agents:
            block = StepsBlock().__enter__()
        if block is not None:
            self._watching = block
            agents.append(own_agent())
        batches: Iterable[Batch] = self._batches
        for agent in agents:
            batches = fetches_seen(agent, batches, self._numbers)
        if isinstance(block, StepsBlock):
            block.passes += 1
        try:
            yield from batches
        finally:
            if isinstance(block, StepsBlock):
                block.end_pass()

    @property
    def result(self) -> WatchResult:
        """What was seen: that of the block which holds the loop, or of the loops so far."""
        if self._watching is None:
            if command_agent() is not None:
                raise UsageError("`laptime watch` watches this process", "Its record has the figures: laptime show")
            raise UsageError("no batch was fetched, and there is no result", "Loop over it: for batch in steps")
        if isinstance(self._watching, StepsBlock):
            self._watching.finish()
        return self._watching.result


def watching(
    *, label: str | None = None, sensors: str | Sequence[str] | None = None, progress: bool | None = None
) -> Watching:
    """Watch the training in a `with` block as `laptime watch` does a command; `.result` is there at its end.

    Hooks note when batches are fetched, backward passes and optimizer steps begin and end, and what Keras calls for
    each batch. Outside of such a block they note nothing. An exception in the block passes through, and the record is
    saved all the same. `label` names the record, `sensors` are those to read, `progress` shows how far it is.
    """
    return Watching(make_ask(_program(), (), "watch", label=label, sensors=sensors), progress=progress)


def steps(batches: Iterable[Batch]) -> WatchedBatches[Batch]:
    """Go through the batches of any iterable, and note how long the loop waits for each.

    Within `laptime.watching()`, or under `laptime watch`, its figures go there. Else the loop is watched on its own,
    and `.result` has what was seen of all its passes so far. Where laptime sees no backward pass and no optimizer, as
    with JAX or NumPy, each batch is an iteration.
    """
    return WatchedBatches(batches)


def _program() -> str:
    """Return what this process runs, in a word."""
    name = Path(sys.argv[0]).name if sys.argv else ""
    return "this notebook" if is_notebook() else name if name.endswith(".py") else "this process"
