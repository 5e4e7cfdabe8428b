"""A watched training, as tests of what is found in it change it."""

from __future__ import annotations

from dataclasses import replace

from cases import MACHINE

from laptime.analysis.diagnosis.script_findings import script_findings
from laptime.model.quantities import Estimate, Missing
from laptime.model.record import Finding
from laptime.model.script import Multiplicity, Phases, ScriptProcess, SeenLoader, TrainingLoop
from laptime.model.watched import WatchAnswer

UNSEEN = Missing("it was not seen")
TEN = Estimate(10.0, 9.0, 11.0)


def found(answer: WatchAnswer, *, is_quiet: bool = True) -> dict[str, Finding]:
    return {each.rule: each for each in script_findings(answer, MACHINE, is_quiet=is_quiet)}


def watched(workers: int, step_ms: Estimate | None, **parts: float) -> WatchAnswer:
    """Return a training whose iterations of 10 ms have these parts."""
    nothing = dict.fromkeys(
        ("data_wait_s", "forward_backward_s", "backward_s", "optimizer_s", "checkpoint_s", "outside_s"), 0.0
    )
    phases = Phases(**{**nothing, **parts}, wall_s=0.01, unattributed_s=0.0)
    loop = TrainingLoop(
        "optimizer steps", 1, 1, 10.0, step_ms, UNSEEN, UNSEEN, Multiplicity(1, 1, 1, 0), phases, phases, "flat", 0, ()
    )
    loader = SeenLoader(8, 10, workers)
    return WatchAnswer(("python",), 0, 1.0, (ScriptProcess(1, 0, "3.12", "python", loop, loaders=(loader,)),))


def changed(answer: WatchAnswer, **changes: object) -> WatchAnswer:
    return replace(answer, processes=(replace(answer.processes[0], **changes),))
