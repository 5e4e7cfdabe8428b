"""`python -m laptime.heat READ_FD WRITE_FD`: obey one order and end.

An order is a heat, a whole training, a heat of inference, a profile, a reference, a proof alone, a device's limits, or
a scout's question.
"""

from __future__ import annotations

import os
import resource
import sys
import time
import traceback
from pathlib import Path

from laptime import wire
from laptime.backends import open_backend
from laptime.errors import LaptimeError, WireError
from laptime.heat.gauge import run_gauge
from laptime.heat.inference import run_inference
from laptime.heat.lifeline import Lifeline
from laptime.heat.loop import run_heat, take_proof
from laptime.heat.profile import run_profile
from laptime.model.memory import is_memory, refusal_words
from laptime.model.missing import Missing


class Narrator:
    """A lifeline that remembers the phase, so that a failure can say where it happened."""

    def __init__(self, line: Lifeline) -> None:
        self._line = line
        self.listen = line.listen
        self.phase = "start"

    def say(self, message: wire.FromChild) -> None:
        if isinstance(message, wire.Phase):
            self.phase = message.name
        self._line.say(message)


def main() -> int:
    line = Narrator(Lifeline(int(sys.argv[1]), int(sys.argv[2])))
    line.say(wire.Hello(wire.VERSION, os.getpid()))
    try:
        return answer(line.listen(), line)
    except Exception as error:  # noqa: BLE001  raised while another was told: the signal of a loader's end may come then
        return _fail(line, f"{type(error).__name__}: {error}", "error")


def answer(order: wire.FromParent, line: Narrator) -> int:
    """Obey; what fails is told in words."""
    try:
        if isinstance(order, wire.Warm):
            order = warm_up(order.framework, line)
        obey(order, line)
    except LaptimeError as error:
        said = f"{error.says} ({error.hint})" if error.hint else error.says
        return _fail(line, said, type(error).__name__)
    except SystemExit as error:
        return _fail(line, f"its code ended the process: sys.exit({error.code!r}), in {_where(error)}", "exit")
    except Exception as error:  # noqa: BLE001  whatever a framework raises becomes the heat's result
        if not isinstance(error, MemoryError):
            traceback.print_exc()
        if is_memory(error):
            refused = refusal_words(error).rstrip(".")
            return _fail(line, f"out of memory: {refused}; a smaller batch needs less", "memory")
        return _fail(line, f"{type(error).__name__}: {error}", "error")
    return 0


def warm_up(framework: str, line: Narrator) -> wire.FromParent:
    """Import what a training will need, then wait: others are being timed."""
    line.say(wire.Phase("import", time.perf_counter_ns()))
    open_backend(framework).warm_up()
    line.say(wire.Phase("held", time.perf_counter_ns()))
    line.say(wire.Warmed())
    return line.listen()


def obey(order: wire.FromParent, line: Narrator) -> None:
    """Do what the order names, and say what came of it."""
    line.say(wire.Phase("import", time.perf_counter_ns()))
    match order:
        case wire.Look(framework=framework):
            backend = open_backend(framework)
            versions = backend.versions()
            line.say(wire.Seen(next(iter(versions.values())), versions, backend.devices()))
        case wire.Refer(order=wanted):
            backend = open_backend(wanted.lane.framework)
            line.say(wire.Phase("reference", backend.clock()))
            line.say(wire.Referenced(backend.build(wanted).reference()))
        case wire.Prove(order=wanted):
            backend = open_backend(wanted.lane.framework)
            line.say(wire.Phase("proof", backend.clock()))
            line.say(wire.Proven(take_proof(backend.build(wanted), wanted.lane.settings)))
        case wire.ReferAnswers(order=wanted):
            backend = open_backend(wanted.lane.framework)
            line.say(wire.Phase("reference", backend.clock()))
            line.say(wire.AnswersReferenced(backend.predict(wanted).reference()))
        case wire.Gauge(order=asked_for):
            run_gauge(open_backend(asked_for.framework), asked_for, line)
        case wire.Infer(order=asked):
            backend = open_backend(asked.heat.lane.framework)
            device_memory_bytes = run_inference(backend, asked, line)
            line.say(wire.Finished(peak_memory_bytes(), device_memory_bytes))
        case wire.Run(order=wanted):
            backend = open_backend(wanted.lane.framework)
            device_memory_bytes = run_heat(backend, wanted, line)
            line.say(wire.Finished(peak_memory_bytes(), device_memory_bytes))
        case wire.Observe(order=observed):
            backend = open_backend(observed.heat.lane.framework)
            device_memory_bytes = run_profile(backend, observed, line)
            line.say(wire.Finished(peak_memory_bytes(), device_memory_bytes))
        case wire.Train(order=whole):
            from laptime.heat.protocol import run_protocol  # noqa: PLC0415  numpy is half of what a child imports

            backend = open_backend(whole.heat.lane.framework)
            device_memory_bytes = run_protocol(backend, whole, line)
            line.say(wire.Finished(peak_memory_bytes(), device_memory_bytes))
        case _:
            raise WireError(f"expected an order, heard {type(order).__name__}")


def peak_memory_bytes() -> int | Missing:
    """Give the most memory this process held; the kernel's own high-water mark where it is told."""
    status = Path("/proc/self/status")
    if status.exists():
        for row in status.read_text().splitlines():
            if row.startswith("VmHWM:"):
                return int(row.split()[1]) * 1024
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def _where(error: BaseException) -> str:
    """Name the file and line that raised an error, as far as anybody can look it up."""
    last = traceback.extract_tb(error.__traceback__)[-1]
    return f"{Path(last.filename).name}:{last.lineno}"


def _fail(line: Narrator, reason: str, kind: str) -> int:
    line.say(wire.Failed(line.phase, reason, kind, peak_memory_bytes()))
    return 1


if __name__ == "__main__":
    sys.stdout.flush()
    code = main()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)  # a framework's threads and a user's loaders may hang in an orderly exit; all is said by now
