"""What the functions of the library return. Each prints as its page, and has what it found as typed attributes."""

from __future__ import annotations

import json
import os
import textwrap
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any

from laptime import api, showing
from laptime.errors import LaptimeError, RecordError, UsageError
from laptime.library.lanes import LaneList, Ratio, lanes_of, ratios_of
from laptime.library.reporting import write_report
from laptime.library.shown import WIDTH_OFF_TERMINAL, Shown, as_block
from laptime.model.inference import InferPlan
from laptime.model.machine import Machine
from laptime.model.plan import Plan
from laptime.model.protocol import FullPlan
from laptime.model.questions import ScaleAnswer, SweepAnswer, TuneAnswer, WhyAnswer, watch_of
from laptime.model.record import Record
from laptime.model.script import ScriptProcess, TrainingLoop
from laptime.questions.compare.call import CompareResult
from laptime.questions.doctor.gauge import Limits
from laptime.questions.doctor.nouns import Checkup, Problem
from laptime.questions.scale.nouns import ScaleCurve, Scaling
from laptime.questions.sweep.nouns import Crossover, Sweep, SweepCell, SweepCurve
from laptime.questions.tune.nouns import TunedLane, Tuning
from laptime.questions.why.nouns import Remedy, Why

FRAME = "width:100%;height:640px;border:0"  # of a report in a notebook


@dataclass(frozen=True, slots=True, repr=False)
class Result(Shown):
    """The answer to a question. `record` is all that was measured, `is_saved` whether it was saved to the end."""

    record: Record
    is_saved: bool = True

    @property
    def id(self) -> str:
        """What `laptime.load` and `laptime show` find it by."""
        return self.record.id

    @property
    def status(self) -> str:
        """Finished, interrupted, running or ended."""
        return self.record.status

    @property
    def lanes(self) -> LaneList:
        """The figures of each lane, in order: `lanes[0]`, `lanes["cuda/best"]`."""
        return lanes_of(self.record)

    @property
    def ratios(self) -> dict[str, Ratio]:
        """How each lane compares with the first, by its name."""
        return ratios_of(self.record)

    @property
    def ratio(self) -> Ratio:
        """How the second of two lanes compares with the first."""
        if (count := len(self.record.lanes)) != 2:
            hint = "Use .ratios, or .lanes['...'].ratio." if count > 2 else "Race it with another lane."
            raise UsageError(f"this result has {count} lane{'s' * (count != 1)}, and .ratio compares two", hint)
        found = [*self.ratios.values()]
        if not found:
            failed = [f"{each.name}: {each.reason or each.status}" for each in self.record.lanes if each.status != "ok"]
            says = f"the lanes could not be compared: {'; '.join(failed) or self.status}"
            raise RecordError(says, "The page says what was measured: print the result.")
        return found[0]

    def to_dict(self) -> dict[str, Any]:
        """Return the record as `--json` prints it."""
        found: dict[str, Any] = json.loads(showing.as_json(self.record))
        return found

    def to_html(self) -> str:
        """Return the report as one HTML page that needs no network."""
        return showing.as_html(self.record)

    def to_pandas(self, table: str = "lanes") -> Any:
        """Return a pandas DataFrame: a row for each lane, or of another table as `laptime export --what` has it.

        Tables: heats, laps, answers, lanes, windows, steps. Where a figure is missing, the cell is empty.
        """
        return api.record_frame(self.record, table)

    def report(
        self,
        output: str | os.PathLike[str] | None = None,
        *,
        format: str | None = None,  # noqa: A002  the command's option
        open: bool = False,  # noqa: A002  the command's option
    ) -> Path:
        """Write the report, and return where: by default as HTML next to you, or in the format that `output` ends with.

        `format` is one of html, md, csv, svg, png and json. Pictures fill a folder. With `open`, a browser shows it.
        """
        return write_report([self.record], output, format, opens=open)

    def _repr_html_(self) -> str:
        """Return the report for a notebook, in a frame of its own."""
        return f'<iframe srcdoc="{escape(self.to_html())}" sandbox="allow-scripts" style="{FRAME}"></iframe>'

    def _page(self, width: int, *, details: bool) -> str:
        return showing.as_text(self.record, showing.View(width, kept=self.is_saved, details=details))


@dataclass(frozen=True, slots=True, repr=False)
class RaceResult(Result):
    """The answer of a race. `judged` is how it compares, where `against` or `fail_above` asked for it, or why not."""

    judged: CompareResult | LaptimeError | None = None

    @property
    def comparison(self) -> CompareResult:
        """How the race compares with that of `against` or, with `fail_above` alone, its trainings with its first."""
        if isinstance(self.judged, CompareResult):
            return self.judged
        if self.judged is not None:
            raise self.judged
        says = f"{self.id} was compared with nothing"
        raise UsageError(says, "Race with against='@main' or fail_above='5%', or call laptime.compare(before, result).")

    def _repr_html_(self) -> str:
        below = "" if self.judged is None else as_block(self._judged_page(WIDTH_OFF_TERMINAL, details=False))
        return Result._repr_html_(self) + below  # a dataclass with slots has no `super()`

    def _page(self, width: int, *, details: bool) -> str:
        page = Result._page(self, width, details=details)  # noqa: SLF001  as above
        return page if self.judged is None else f"{page}\n\n{self._judged_page(width, details=details)}"

    def _judged_page(self, width: int, *, details: bool) -> str:
        if isinstance(self.judged, LaptimeError):
            return textwrap.fill(f"Not compared: {self.judged.says}. {self.judged.hint}", width)
        return self.comparison.page(width=width, details=details)


@dataclass(frozen=True, slots=True, repr=False)
class WhyResult(Result):
    """Why a lane is as fast as it is."""

    @property
    def verdict(self) -> str:
        """What limits the lane, in a sentence."""
        return self._why.says

    @property
    def remedies(self) -> tuple[Remedy, ...]:
        """What may be changed, what that gains, and the line of code; the recommended first."""
        return tuple(sorted(self._why.remedies, key=lambda each: not each.recommended))

    @property
    def _why(self) -> Why:
        answer = self.record.answer
        if not isinstance(answer, WhyAnswer) or answer.why is None:
            raise RecordError(f"there is no verdict: the search is {self.status}", "Call laptime.why again.")
        return answer.why


@dataclass(frozen=True, slots=True, repr=False)
class ScaleResult(Result):
    """What several devices bring."""

    @property
    def verdict(self) -> str:
        """What the largest count brings, and what is lost, in a sentence."""
        return self._scaling.says

    @property
    def curves(self) -> tuple[ScaleCurve, ...]:
        """The speed-ups of each lane over the counts, what is lost, and what more devices would bring."""
        return self._scaling.curves

    @property
    def _scaling(self) -> Scaling:
        answer = self.record.answer
        if not isinstance(answer, ScaleAnswer) or answer.scaling is None:
            raise RecordError(f"there is no verdict: the race is {self.status}", "Call laptime.scale again.")
        return answer.scaling


@dataclass(frozen=True, slots=True, repr=False)
class TuneResult(Result):
    """The best settings of each lane."""

    @property
    def verdict(self) -> str:
        """What the best settings gain, in a sentence for each lane."""
        return self._tuning.says

    @property
    def tuned(self) -> tuple[TunedLane, ...]:
        """Each lane's winner, its gain on fresh heats, and what each setting alone is worth."""
        return self._tuning.lanes

    @property
    def _tuning(self) -> Tuning:
        answer = self.record.answer
        if not isinstance(answer, TuneAnswer) or answer.tuning is None:
            raise RecordError(f"there is no verdict: the search is {self.status}", "Call laptime.tune again.")
        return answer.tuning


@dataclass(frozen=True, slots=True, repr=False)
class SweepResult(Result):
    """Lanes over a range of batches, threads or workers."""

    @property
    def verdict(self) -> str:
        """Where one lane overtakes another, or which is the fastest where."""
        return self._sweep.says

    @property
    def cells(self) -> tuple[SweepCell, ...]:
        """Each lane at each value: its step, its rate, its memory, or why there is none."""
        return self._sweep.cells

    @property
    def curves(self) -> tuple[SweepCurve, ...]:
        """Each lane's best value, knee, largest batch, and what an empty step takes."""
        return self._sweep.curves

    @property
    def crossovers(self) -> tuple[Crossover, ...]:
        return self._sweep.crossovers

    @property
    def _sweep(self) -> Sweep:
        answer = self.record.answer
        if not isinstance(answer, SweepAnswer) or answer.sweep is None:
            raise RecordError(f"there is no verdict: the sweep is {self.status}", "Call laptime.sweep again.")
        return answer.sweep


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
        for each in self.processes:
            if each.loop is not None:
                return each.loop
        unseen = watch_of(self.record).unseen
        raise RecordError("no training loop was seen", "" if unseen is None else f"Because {unseen.missing}.")


@dataclass(frozen=True, slots=True, repr=False)
class PlanResult(Shown):
    """What would run; nothing has run yet."""

    outline: Plan | FullPlan | InferPlan

    @property
    def plan(self) -> Plan:
        return self.outline if isinstance(self.outline, Plan) else self.outline.plan

    @property
    def lanes(self) -> tuple[str, ...]:
        """The names of the lanes."""
        return tuple(each.name for each in self.plan.lanes)

    def to_dict(self) -> dict[str, Any]:
        """Return the plan as `--json` prints it."""
        found: dict[str, Any] = json.loads(showing.to_json(self.outline))
        return found

    def _page(self, width: int, *, details: bool) -> str:  # noqa: ARG002  it has no details
        return showing.plan_as_text(self.outline, width)


@dataclass(frozen=True, slots=True, repr=False)
class DevicesResult(Shown):
    """The devices of this machine, and what was measured of each."""

    machine: Machine
    limits: Limits = ()

    @property
    def usable(self) -> tuple[str, ...]:
        """The devices that can be raced, as lanes name them: torch/cpu, torch/cuda:0."""
        return tuple(
            f"{framework.name}/{device.name}"
            for framework in self.machine.frameworks
            for device in framework.devices
            if device.usable
        )

    def to_dicts(self) -> list[dict[str, Any]]:
        """Return a row for each device, as `--json` prints them."""
        rows = api.add_limits(showing.device_rows(self.machine), self.machine, self.limits)
        found: list[dict[str, Any]] = json.loads(showing.to_json(rows))
        return found

    def _page(self, width: int, *, details: bool) -> str:  # noqa: ARG002  it has no details
        parts = (showing.devices_as_text(self.machine, width), showing.peaks_as_text(self.limits, width))
        return "\n".join(filter(None, parts))


@dataclass(frozen=True, slots=True, repr=False)
class DoctorResult(Shown):
    """Whether each framework can use each device."""

    checkup: Checkup

    @property
    def is_well(self) -> bool:
        """Whether every device can be used by every framework that has a build for it."""
        return self.checkup.is_well

    @property
    def problems(self) -> tuple[Problem, ...]:
        """What is wrong, each with its cause and the command that fixes it."""
        return (*self.checkup.unused, *self.checkup.around)

    def to_dict(self) -> dict[str, Any]:
        """Return the checkup as `--json` prints it."""
        found: dict[str, Any] = json.loads(showing.to_json(self.checkup))
        return found

    def _page(self, width: int, *, details: bool) -> str:  # noqa: ARG002  it has no details
        return showing.checkup_as_text(self.checkup, width)
