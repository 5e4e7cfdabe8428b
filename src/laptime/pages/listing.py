"""Lists of saved records, workloads and made data, and the page of a plan."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields

from laptime.model.dataset import MadeSet
from laptime.model.inference import PROOF_ITEMS, InferPace, InferPlan
from laptime.model.kept import FileCheck, Imported
from laptime.model.plan import Pace, Plan, PlannedLane
from laptime.model.protocol import FullPlan, Protocol
from laptime.model.record import RecordRow
from laptime.model.workload import Workload
from laptime.pages.layout import Column, Item, table_or_sentences, wrap
from laptime.pages.numbers import about, duration, lap, percent, size
from laptime.pages.words import subject_words

NONE_FITS = "No record fits all of these options; laptime list shows all records.\n"
ANSWERS_PROOF = f"proof: the answers to {PROOF_ITEMS} items, against float64"


def render_records(rows: Sequence[RecordRow], width: int, *, left_out: int = 0, is_chosen: bool = False) -> str:
    """List saved records in the given order. One that cannot be read has the reason.

    `left_out` is how many more there are, and `is_chosen` whether options chose among all records.
    """
    if not rows:
        return NONE_FITS if is_chosen else "No records yet; laptime race makes one.\n"
    columns: list[Column[RecordRow]] = [
        Column("record", lambda row: row.id),
        Column("started", lambda row: row.started[:16].replace("T", " ")),
        Column("workload", lambda row: f"{row.workload} (fake)" if row.is_fake else row.workload, least=10),
        Column("status", lambda row: row.status),
        *([Column("label", _label, least=8)] if any(row.label for row in rows) else []),
        Column("result", lambda row: row.summary, least=20),
    ]
    page = _page(columns, rows, width, lambda row: "" if row.unreadable is None else f"unreadable: {row.unreadable}")
    more = f"{left_out:,} older record{'s' * (left_out != 1)} not shown: --limit 0 shows all."
    return page + "".join(f"{line}\n" for line in wrap(more, width, "  ")) if left_out else page


def _label(row: RecordRow) -> str:
    return "" if row.label is None else f"@{row.label}"


def render_checks(rows: Sequence[FileCheck], width: int) -> str:
    """Return a line or two for each file: which record it is, or what is wrong with it and what to do."""
    lines: list[str] = []
    for row in rows:
        if row.valid:
            lines += wrap(f"{row.file}: valid, {row.id}, {row.question}, schema {row.schema}", width, "  ")
        else:
            lines += wrap(f"NOT VALID: {row.why}", width, "  ")
            lines += wrap(f"  {row.hint}", width, "  ") if row.hint else []
    return "\n".join(lines) + "\n"


def render_imports(rows: Sequence[Imported], width: int) -> str:
    """Return a line for each file of an import."""
    return "\n".join(line for row in rows for line in wrap(f"{row.id} {row.status}", width, "  ")) + "\n"


def render_workloads(workloads: Iterable[Workload], width: int) -> str:
    """List the built-in workloads."""
    columns: list[Column[Workload]] = [
        Column("workload", lambda each: each.name),
        Column("parameters", lambda each: f"{each.parameters:,}", right=True),
        Column("batch", lambda each: f"{each.batch:,}", right=True),
        Column("steps a lap", lambda each: f"{each.steps_per_lap:,}", right=True),
        Column("laps", lambda each: f"{each.laps:,}", right=True),
        Column("what it is", lambda each: each.title, least=20),
    ]
    return _page(columns, tuple(workloads), width)


def _page(
    columns: Sequence[Column[Item]], items: Sequence[Item], width: int, failed: Callable[[Item], str] | None = None
) -> str:
    return "\n".join(table_or_sentences(columns, items, width, failed=failed)) + "\n"


def render_sets(rows: Sequence[MadeSet], width: int) -> str:
    """List sets of made data in the given order."""
    if not rows:
        return "No data made yet; laptime data make WHAT makes some.\n"
    columns: list[Column[MadeSet]] = [
        Column("data", lambda each: each.name),
        Column("train", lambda each: f"{each.train_items:,}", right=True),
        Column("test", lambda each: f"{each.test_items:,}", right=True),
        Column("size", lambda each: size(each.bytes), right=True),
        Column("state", lambda each: each.state),
        Column("folder", lambda each: each.folder, least=20),
    ]
    return _page(columns, rows, width)


def render_made(row: MadeSet, seconds: float, *, was_there: bool) -> str:
    """Return one line on what was made, or that it was there already."""
    end = "was there already" if was_there else f"made in {about(seconds)}"
    return f"{row.name}: {_contents(row)}, in {row.folder}, {end}\n"


def render_removed(row: MadeSet) -> str:
    return f"{row.name}: removed {_contents(row)}, from {row.folder}\n"


def _contents(row: MadeSet) -> str:
    return f"{row.train_items:,} train and {row.test_items:,} test items, {size(row.bytes)}"


def render_plan(planned: Plan | FullPlan | InferPlan, width: int) -> str:
    """Return what would run: every lane with all its settings, then what each does, the proof and the notes."""
    plan = planned if isinstance(planned, Plan) else planned.plan
    lines = wrap(subject_words(*plan.subjects), width, "  ")
    for lane in plan.lanes:
        lines += ["", *_planned_lane(lane, width)]
    sentences = [*_what_each_does(planned), *plan.notes]
    lines += ["", *(line for sentence in sentences for line in wrap(sentence, width, "  "))]
    return "\n".join(lines) + "\n"


def _what_each_does(planned: Plan | FullPlan | InferPlan) -> list[str]:
    match planned:
        case FullPlan(plan=plan, protocol=protocol, order=order):
            return [*_trainings(plan, protocol), f"order: {order}", _proof(plan)]
        case InferPlan(plan=plan, pace=pace):
            return [*_answers(pace), ANSWERS_PROOF, f"budget: {duration(plan.ask.budget_s)}"]
        case Plan():
            return [_heats(planned), _windows(planned.pace), _proof(planned), _budget(planned)]


def _trainings(plan: Plan, protocol: Protocol) -> list[str]:
    items = plan.subject.items
    steps = "" if protocol.steps_per_lap is None else f" of {protocol.steps_per_lap:,} steps"
    said = [f"each lane: {protocol.laps:,} lap{'s' * (protocol.laps != 1)}{steps}, a checkpoint after each"]
    if protocol.validation_items:
        said += [f"validation after each lap: the first {protocol.validation_items:,} test {items}, or all there are"]
    if protocol.evaluation_items:
        said += [f"a test at the end: {protocol.evaluation_items:,} {items}, or as many as there are"]
    if protocol.seeds > 1:
        said += [f"seeds: {protocol.seeds}, from {plan.ask.seed} on"]
    return said


def _answers(pace: InferPace) -> list[str]:
    sizes = ", ".join(map(str, pace.batches))
    calls = f"single calls for {lap(pace.measure_s)} ({pace.calls_min:,} to {pace.calls_max:,} of them)"
    heats = f"heats: {pace.heats} of each lane, interleaved"
    return [heats, f"each heat: {calls}, then batches of {sizes} for as long each"]


def _planned_lane(lane: PlannedLane, width: int) -> list[str]:
    known = (
        (field.name, getattr(lane.settings, field.name)) for field in fields(lane.settings) if field.name != "extra"
    )
    settings = [f"{name}={_setting(value)}" for name, value in (*known, *lane.settings.extra.items())]
    lines = wrap(f"{lane.name}  {lane.framework} on {lane.device.label}", width, "  ")
    lines += wrap("  " + " ".join(settings), width, "    ")
    if lane.environment:
        pairs = " ".join(f"{key}={value}" for key, value in sorted(lane.environment.items()))
        lines += wrap(f"  environment: {pairs}", width, "    ")
    return lines + [line for note in lane.notes for line in wrap(f"  {note}", width, "    ")]


def _setting(value: str | int | None) -> str:
    return "not set" if value is None else str(value)


def _heats(plan: Plan) -> str:
    pace = plan.pace
    how = "in turns" if pace.takes_turns else "one after another"
    why = f" ({plan.alone})" if plan.alone is not None else ""
    if pace.heats_min == pace.heats_max or not pace.adaptive:
        return f"heats: {pace.heats_max} of each lane, {how}{why}"
    ends = f"until every ratio is well within {percent(plan.ask.margin)}"
    return f"heats: {pace.heats_min} to {pace.heats_max} of each lane, {how}{why}, {ends} or the budget is used"


def _windows(pace: Pace) -> str:
    windows = f"at least {pace.windows_min} windows of {lap(pace.window_s)}"
    return f"each heat: {lap(pace.measure_s)} of timing, {windows}, at most {pace.reruns_max} run again"


def _proof(plan: Plan) -> str:
    proof = plan.proof
    rate = f"{proof.learning_rate_scale:g} of the learning rate"
    single = proof.single_step_scale
    more = f", two single steps at {single:g} times it" if single is not None else ""
    batches = f"batch {proof.batch}" if plan.subject.is_built_in else "its own batches"
    return f"proof: {proof.steps} steps of {batches} at {rate}{more}, against float64"


def _budget(plan: Plan) -> str:
    """Return the budget and the least time that timing takes. Start-up and proof are not known in advance."""
    heats = plan.pace.heats_min * len(plan.lanes)
    least = f"{heats} heats are {duration(heats * plan.pace.measure_s)} of timing at least"
    return f"budget: {duration(plan.ask.budget_s)}; {least}, start-up, building and proof come on top"
