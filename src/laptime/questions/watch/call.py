"""`laptime.watch`: where the time of a command went, from Python."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from laptime.library.asking import make_ask, with_options
from laptime.library.calls import answer
from laptime.library.results import QuestionCall, Result
from laptime.model.errors import RecordError, UsageError
from laptime.model.script import ScriptProcess, TrainingLoop
from laptime.model.watched import watch_of


@dataclass(frozen=True, slots=True, repr=False)
class WatchResult(Result):
    """What was seen of a command, or of a block of this process."""

    @property
    def exit_code(self) -> int | None:
        """The command's; None for a block, and while the command runs."""
        return watch_of(self.record).exit_code

    @property
    def processes(self) -> tuple[ScriptProcess, ...]:
        """The processes that trained, in the order of their ranks."""
        return watch_of(self.record).processes

    @property
    def loop(self) -> TrainingLoop:
        """The training loop of the first process: `.iterations`, `.step_ms`, `.steady`, `.gaps`, `.losses`."""
        for process in self.processes:
            if process.loop is not None:
                return process.loop
        unseen = watch_of(self.record).unseen
        raise RecordError("no training loop was seen", "" if unseen is None else f"Because {unseen.missing}.")


@with_options("watch")
def watch(command: Sequence[str], *, progress: bool | None = None, **given: Any) -> WatchResult:
    """Run a command as it is, and return where the time of its training went: `watch(["python", "train.py"])`.

    Its input and output are those of this process, and `.exit_code` is its own. `laptime.watching()` watches this
    process in place of a command.
    """
    if isinstance(command, str) or not all(isinstance(word, str) for word in command):
        raise UsageError(f"{command!r} is no list of words", 'Give the command as a list: ["python", "train.py"].')
    ask = make_ask(command[0] if command else "", (), "watch", **given)
    return WatchResult(*answer("watch", replace(ask, command=tuple(command)), progress=progress))


PART = QuestionCall(watch, WatchResult)
