"""`python -m laptime.engine.heat READ_FD WRITE_FD [SOCKET_FD]`: carry out one order and end.

With a socket, this process is a template: it imports a framework, and each heat that is requested goes on in a fork.

An order is a heat, a whole training, an inference heat, a profile, a reference, a proof alone, the limits of a device,
or a look at what a framework finds on this machine.
"""

from __future__ import annotations

import contextlib
import os
import platform
import queue
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from laptime.engine import wire
from laptime.engine.backends import open_backend
from laptime.engine.backends.base import Backend, Builder
from laptime.engine.backends.own import find_own_error
from laptime.engine.backends.steps import describe_own
from laptime.engine.heat.loop import run_heat, take_proof
from laptime.engine.heat.untouched import Code, find_replaced_code, note_code
from laptime.engine.heat.work import peak_memory_bytes
from laptime.model.errors import LaneError, LaptimeError, WireError
from laptime.model.frameworks import SCRIPT
from laptime.model.plan import HeatOrder, Subject
from laptime.model.quantities import Missing
from laptime.model.symptoms import is_memory_error, refusal_words

ENDED_FIRST = 500  # from -1000 to 1000; most processes have 0


class Lifeline:
    """Talks to the parent: writes to one pipe and reads from another.

    The listening thread sleeps in a read and costs nothing. When the parent dies, the read ends, and the thread ends
    this process and its group. The guardian above this process (`run/guardian.py`) watches for the same event. It
    does not need this process's interpreter lock, which a training may never release, and it also ends processes that
    left the group. `phase` is the last phase reported, so that a failure can name where it happened.
    """

    def __init__(self, read_fd: int, write_fd: int) -> None:
        self.phase = "start"
        self.code: Code = {}  # as it was before the user's file was imported
        self._write_fd = write_fd
        self._descriptors = (read_fd, write_fd)
        self._inbox: queue.SimpleQueue[wire.FromParent] = queue.SimpleQueue()
        for descriptor in (read_fd, write_fd):  # programs that a training starts must not inherit the pipes
            os.set_inheritable(descriptor, False)
        threading.Thread(target=self._listen, args=(read_fd,), daemon=True, name="lifeline").start()

    def say(self, message: wire.FromChild) -> None:
        if isinstance(message, wire.Phase):
            self.phase = message.name
        line = wire.write(message)
        try:
            while line:
                line = line[os.write(self._write_fd, line) :]
        except OSError:
            _end_group()

    def listen(self) -> wire.FromParent:
        """Wait for the parent's next message."""
        return self._inbox.get()

    def live_as_copy(self, work: Callable[[], None]) -> None:
        """In a copy of this process: close both pipes, of which the parent awaits the end, do the work, and end."""
        code = 1
        try:
            for descriptor in self._descriptors:
                os.close(descriptor)
            work()
            code = 0
        finally:
            os._exit(code)

    def give_up(self, error: LaneError) -> None:
        """Report a failure, and end this process, whatever it is doing."""
        self.say(wire.Failed(self.phase, error.says, type(error).__name__, peak_memory_bytes()))
        _end_group()

    def _listen(self, read_fd: int) -> None:
        with contextlib.suppress(OSError, ValueError), os.fdopen(read_fd, "rb") as lines:
            for line in lines:
                self._inbox.put(wire.read_from_parent(line))
        _end_group()


def _end_group() -> None:
    """End this process and all it started; leave a group alone that another process leads."""
    if os.getpgrp() == os.getpid():
        os.killpg(os.getpgrp(), signal.SIGKILL)
    os._exit(1)


def main() -> int:
    # Where the machine's memory runs out, the kernel is to end a heat, and none of the user's other programs.
    with contextlib.suppress(OSError, ValueError):
        score = Path("/proc/self/oom_score_adj")
        score.write_text(str(max(int(score.read_text()), ENDED_FIRST)))
    read_fd, write_fd, *socket_fds = map(int, sys.argv[1:])
    for socket_fd in socket_fds:
        from laptime.engine.heat.template import serve  # noqa: PLC0415  a heat needs none of it

        read_fd, write_fd = serve(read_fd, write_fd, socket_fd)  # returns in the heats alone
    # Enter the sandbox that was ordered, if any, while this process has no other thread.
    reaches: tuple[str, ...] | OSError | None = None
    if sandbox := os.environ.pop(wire.SANDBOX, ""):
        from laptime.engine.heat.sandbox import enter  # noqa: PLC0415  only what is judged needs it

        try:
            reaches = enter(wire.read_sandbox(sandbox))
        except OSError as error:
            reaches = error
    line = Lifeline(read_fd, write_fd)
    line.say(wire.Hello(wire.WIRE_VERSION, os.getpid()))
    if isinstance(reaches, OSError):
        return _fail(line, str(reaches), "error")
    if reaches is not None:
        line.say(wire.Confined(reaches))
    if socket_fds:
        line.say(wire.Phase("held", time.perf_counter_ns()))
    try:
        return answer(line.listen(), line)
    except Exception as error:  # noqa: BLE001  any time: the signal that a data loader's process died can arrive late
        return _fail(line, f"{type(error).__name__}: {error}", "error")


def answer(order: wire.FromParent, line: Lifeline) -> int:
    """Carry out the order, and report any failure in words."""
    file = None
    try:
        if isinstance(order, wire.Warm):
            order = warm_up(order.framework, line)
        file = own_file_of(order)
        if file is not None:
            line.code = note_code()
            sys.argv = [file]  # as for `python file.py`: its code may read its own arguments, and finds none
        obey(order, line)
    except (Exception, SystemExit) as error:  # noqa: BLE001  whatever a framework raises becomes the heat's result
        return report(error, file, line)
    return 0


def own_file_of(order: wire.FromParent) -> str | None:
    """Return the user's file that an order is about, or None."""
    inner = getattr(order, "order", order)
    subject: Subject | None = getattr(getattr(inner, "heat", inner), "subject", None)
    return subject.file if subject is not None else None


def report(error: BaseException, file: str | None, line: Lifeline) -> int:
    """Report in words why the order could not be carried out."""
    own = find_own_error(error, file) if file is not None else None
    if isinstance(error, SystemExit):
        last = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(last.filename).name}:{last.lineno}"
        reason = f"its code ended the process: sys.exit({error.code!r}), in {place}"
        return _fail(line, own.reason if own else reason, "exit", own.line if own else "")
    if own is not None:
        sys.stderr.write(own.trace)
        return _fail(line, own.reason, "load" if own.on_load else "own", own.line)
    if isinstance(error, LaptimeError):
        reason = f"{error.says} ({error.hint})" if error.hint else error.says
        return _fail(line, reason, type(error).__name__)
    if not isinstance(error, MemoryError):
        traceback.print_exception(error)
    if is_memory_error(error):
        refused = refusal_words(error).rstrip(".")
        return _fail(line, f"out of memory: {refused}; a smaller batch needs less", "memory")
    return _fail(line, f"{type(error).__name__}: {error}", "error")


def warm_up(framework: str, line: Lifeline) -> wire.FromParent:
    """Import what a training will need, then wait while other lanes are timed."""
    line.say(wire.Phase("import", time.perf_counter_ns()))
    if framework != SCRIPT:  # which imports what it needs itself
        open_backend(framework).warm_up()
    line.say(wire.Phase("held", time.perf_counter_ns()))
    line.say(wire.Warmed())
    return line.listen()


def obey(order: wire.FromParent, line: Lifeline) -> None:
    """Carry out the order and send the result."""
    line.say(wire.Phase("import", time.perf_counter_ns()))
    match order:
        case wire.Look(framework=framework, subject=subject, stays_unused=stays_unused):
            backend = open_backend(framework)
            if not stays_unused:
                line.say(wire.Seen(backend.versions(), backend.devices()))
            if subject is not None:
                line.say(wire.Inspected(describe_own(subject)))
        case wire.Refer(order=heat):
            _refer(heat, line)
        case wire.Prove(order=heat):
            built = _with_ranks(_open(heat, "proof", line), heat, line).build(heat)
            line.say(wire.Proven(take_proof(built, heat.lane.settings)))
        case wire.ReferAnswers(order=heat):
            backend = _open(heat, "reference", line)
            line.say(wire.AnswersReferenced(backend.predict(heat).reference()))
        case wire.Gauge(order=limits):
            from laptime.engine.heat.gauge import run_gauge  # noqa: PLC0415  as below

            run_gauge(open_backend(limits.framework), limits, line)
        case wire.Infer(order=answers):
            from laptime.engine.heat.inference import run_inference  # noqa: PLC0415  as below

            _finish(line, run_inference(open_backend(answers.heat.lane.framework), answers, line))
        case wire.Run(order=heat):
            _run(heat, line)
        case wire.Observe(order=profile):
            from laptime.engine.heat.profile import run_profile  # noqa: PLC0415  as below

            leading = _with_ranks(open_backend(profile.heat.lane.framework), profile.heat, line)
            _finish(line, run_profile(leading, profile, line))
        case wire.Train() | wire.Learn() | wire.Judge():
            _train(order, line)
        case _:
            raise WireError(f"expected an order, heard {type(order).__name__}")


def _train(order: wire.Train | wire.Learn | wire.Judge, line: Lifeline) -> None:
    """Train a lane whole, or one side of a verdict on learning, or judge what such sides have learned."""
    from laptime.engine.heat.learning import run_judge, run_learning  # noqa: PLC0415  a heat needs none of these, nor numpy
    from laptime.engine.heat.protocol import run_protocol  # noqa: PLC0415  as above

    match order:
        case wire.Train(order=training):
            _finish(line, run_protocol(open_backend(training.heat.lane.framework), training, line))
        case wire.Learn(order=learning):
            _finish(line, run_learning(open_backend(learning.heat.lane.framework), learning, line))
        case wire.Judge(order=heat, batches=batches):
            run_judge(open_backend(heat.lane.framework), heat, batches, line)
            _finish(line, Missing("a judge trains nothing"))


def _refer(order: HeatOrder, line: Lifeline) -> None:
    """Send a reference. Of a user's own training, send it again with a counted step: of others, the layers are known.

    Counting calls the step in another way, which may end this process.
    """
    training = _open(order, "reference", line).build(order)
    reference = training.reference()
    line.say(wire.Referenced(reference))
    if not order.counts_step:
        return
    from laptime.engine.heat.work import count_step  # noqa: PLC0415  as above

    work = count_step(training)
    if isinstance(work, Missing):
        line.say(wire.Referenced(replace(reference, uncounted=work.missing)))
    else:
        line.say(wire.Referenced(replace(reference, work=work)))
    _finish(line, training.device_memory_bytes())


def _run(order: HeatOrder, line: Lifeline) -> None:
    if order.subject.command:
        from laptime.engine.heat.script import run_script  # noqa: PLC0415  no other heat needs it

        run_script(order, line)
        return
    backend = open_backend(order.lane.framework)
    # A node whose framework is another is refused: the figures would be of that one, and the ranks might never meet.
    there = backend.versions() if order.versions else {}
    for name, meant in order.versions.items():
        if there.get(name) != meant:
            has = there.get(name, "not at all")
            says = f"{platform.node()} has {name} {has}, and the lane was planned with {meant}"
            raise LaneError(says, "install the same on all nodes, or race their types: --each")
    if not order.lane.is_ranked:
        _finish(line, run_heat(backend, order, line))
        return
    if order.place is not None:  # the first rank is on another node
        from laptime.engine.heat.rank import join_ranks  # noqa: PLC0415  as above

        join_ranks(backend, order, line)
        return
    from laptime.engine.heat.leader import run_ranked_heat  # noqa: PLC0415  as above

    run_ranked_heat(backend, order, line)


def _open(order: HeatOrder, phase: str, line: Lifeline) -> Backend:
    backend = open_backend(order.lane.framework)
    line.say(wire.Phase(phase, backend.clock()))
    return backend


def _with_ranks(backend: Backend, order: HeatOrder, line: Lifeline) -> Builder:
    """Return the back end; where several processes train a lane together, one that leads them."""
    if not order.lane.is_ranked:
        return backend
    from laptime.engine.heat.leader import RankedBackend  # noqa: PLC0415  few lanes need it

    return RankedBackend(backend, line)


def _finish(line: Lifeline, device_memory_bytes: int | Missing) -> None:
    line.say(wire.Finished(peak_memory_bytes(), device_memory_bytes, changed=find_replaced_code(line.code)))


def _fail(line: Lifeline, reason: str, kind: str, source: str = "") -> int:
    line.say(wire.Failed(line.phase, reason, kind, peak_memory_bytes(), source))
    return 1


if __name__ == "__main__":
    sys.stdout.flush()
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # threads of a framework or loader may hang in an orderly exit; everything is sent by now
