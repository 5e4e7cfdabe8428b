"""The table of causes: its rule, its words and its experiments; which experiment is next; the verdict as a sentence."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from laptime.analysis.diagnosis.findings import describe_state
from laptime.analysis.lanes import share_of_steps
from laptime.analysis.step_states import find_lane_state
from laptime.model.quantities import Missing, brief, percent, times
from laptime.model.symptoms import CHECKPOINTS, DISK, EVALUATION
from laptime.questions.why import compute_causes, gains, own_code, step_causes
from laptime.questions.why.experiments import ARITHMETIC, PRESET, TAKES_MEMORY, AskedTraining, ExperimentRow
from laptime.questions.why.facts import WhyFacts
from laptime.questions.why.nouns import INPUT, LEARNING, WHAT_IT_DOES, CauseStanding, Experiment, Verdict

NAMED_MOST = 2


@dataclass(frozen=True, slots=True)
class CauseRow:
    """One cause: its word in records, its rule, how the verdict names it in a sentence, and its experiments.

    The sentence may depend on the judgement. `experiments` leave the cause out, or show a stage alone. With a standing
    of `first_where` the cause is named before all others. `when` says of which lanes the cause may be one.
    """

    cause: str
    rule: Callable[[WhyFacts], Verdict]
    sentence: str | Callable[[Verdict], str]
    experiments: tuple[ExperimentRow, ...] = ()
    first_where: tuple[CauseStanding, ...] = ()
    when: Callable[[WhyFacts], bool] = lambda _facts: True


# In the order of judgement: whether the figures are right, whether the device is used, its state; then where the time
# of a step goes, and then the causes within its parts.
CAUSES: list[CauseRow] = [
    CauseRow(
        step_causes.MEASURING_ERROR,
        step_causes.measuring_error,
        "its first steps are not its pace",
        first_where=("proven",),
    ),
    CauseRow(
        step_causes.NOT_ON_DEVICE, step_causes.not_on_device, step_causes.name_unused, first_where=("proven", "likely")
    ),
    CauseRow(
        step_causes.MEMORY_FULL,
        step_causes.memory_full,
        "memory that is nearly full holds this training back",
        experiments=(
            ExperimentRow(
                "half batch",
                "batch=0.5x",
                "{batch_half}",
                "at half the batch",
                "{code_half}",
                LEARNING,
                gains.expect_half_batch,
                predicts=gains.predict_batch(0.5),
                turn=7,
                place=11,
                rewrite="batch_half",
            ),
        ),
    ),
    CauseRow(step_causes.DEVICE_SHARED, step_causes.shared, "other processes take their share of the device"),
    CauseRow(step_causes.CLOCKS, step_causes.clocks_lowered, "lowered clocks hold this training back"),
    CauseRow(step_causes.OUTSIDE_STEP, step_causes.outside_step, "the time goes between the steps"),
    CauseRow(
        INPUT,
        step_causes.input_pipeline,
        step_causes.name_loader,
        experiments=(
            ExperimentRow("loader", "input=only", "the loader alone", "its loader alone", "", is_remedy=False, place=1),
            ExperimentRow(
                "compute",
                "input={ready}",
                "the training on batches that lie ready",
                "on batches that are already there",
                changes=TAKES_MEMORY,
                predicts=gains.predict_resident,
                is_remedy=False,
                when=lambda training: not training.places_batches,
                place=4,
            ),
            ExperimentRow(
                "decoded",
                "input=cached",
                "keep decoded items in memory",
                "on decoded batches kept in memory",
                {
                    "torch": 'DataLoader(laptime.cached(dataset, memory="{limit}"), ...)',
                    "keras": 'model.fit(laptime.cached(sequence, memory="{limit}"), ...)',
                    "": 'data = laptime.cached(data, memory="{limit}")',
                },
                "{floats}",
                gains.expect_no_loader,
                gains.unless_redrawn,
                ("loader",),
                gains.predict_decoded,
                aim="loading",
                turn=1,
                keeps_items=True,
                place=5,
            ),
            ExperimentRow(
                "workers",
                "workers={workers}{processes}",
                "decode in {workers} worker processes",
                "with worker processes",
                {
                    "torch": "DataLoader(..., num_workers={workers}, persistent_workers=True)",
                    "keras": "PyDataset(workers={workers}, use_multiprocessing=True)",
                    "": "decode in {workers} processes of your own",
                },
                expects=gains.expect_workers,
                chance=gains.where_cores_are_free,
                of=("loader",),
                predicts=gains.predict_workers,
                aim="loading",
                turn=2,
                place=6,
                rewrite="workers={workers}",
            ),
            ExperimentRow(
                "fast",
                "input=fast",
                "laptime's own loader",
                "with laptime's loader",
                changes="{bytes}",
                expects=gains.expect_other_loader(0.8),
                of=("loader",),
                aim="loading",
                turn=3,
                when=lambda training: training.workload is not None,
                place=7,
            ),
        ),
    ),
    CauseRow(
        step_causes.COPY_PART,
        step_causes.copy_to_device,
        "the copy to the device bounds this training",
        experiments=(
            ExperimentRow(
                "copy", "input=copy", "the copy alone", "its copy to the device alone", "", is_remedy=False, place=2
            ),
            ExperimentRow(
                "compute",
                "input={ready}",
                "keep all batches on the device",
                "on batches that are already there",
                {
                    "torch": "batches = [(x.to(device), y.to(device)) for x, y in loader]",
                    "jax": "batches = jax.device_put(list(data))",
                },
                TAKES_MEMORY,
                predicts=gains.predict_resident,
                when=lambda training: training.places_batches,
                keeps_items=True,
                place=3,
            ),
        ),
    ),
    CauseRow(
        step_causes.HOST_WAITS,
        step_causes.host_waits,
        step_causes.name_reads,
        experiments=(
            ExperimentRow(
                "deferred",
                "reads=deferred",
                "read values later",
                "with its reads put off",
                "meter = laptime.Deferred(); meter.add(loss)",
                expects=gains.expect_deferred_reads,
                predicts=gains.predict_deferred_reads,
                turn=6,
                place=27,
                rewrite="no_item",
            ),
        ),
    ),
    CauseRow(
        step_causes.LITTLE_WORK,
        step_causes.too_little_work,
        "a step has too little work",
        experiments=(
            ExperimentRow(
                "batch 2x",
                "batch=2x",
                "{batch_2x}",
                "at twice the batch",
                "{code_2x}",
                LEARNING,
                gains.of_own_trainings(gains.expect_twice_the_batch),
                predicts=gains.predict_twice_the_batch,
                aim="little work",
                turn=10,
                place=9,
                rewrite="batch_2x",
            ),
            ExperimentRow(
                "batch 4x",
                "batch=4x",
                "{batch_4x}",
                "at four times the batch",
                "{code_4x}",
                LEARNING,
                own_code.as_watched("script small batches", gains.expect_four_times_the_batch),
                predicts=gains.predict_batch(4),
                aim="little work",
                turn=11,
                place=10,
                rewrite="batch_4x",
            ),
            ExperimentRow(
                "compile",
                "compile",
                "compile the step",
                "compiled",
                {
                    "torch": "model = torch.compile(model)",
                    "keras": "model.compile(..., jit_compile=True)",
                    "": "jax.jit(step)",
                },
                expects=gains.expect_kernels(1.1),
                of=("compute", "host"),
                aim="kernels",
                turn=16,
                place=12,
                rewrite={"torch": "compile", "keras": "jit_compile"},
            ),
            ExperimentRow(
                "graph",
                "graph",
                "one CUDA graph a step",
                "as one CUDA graph",
                "torch.cuda.make_graphed_callables",
                expects=gains.on_card_only(gains.expect_graph),
                predicts=gains.predict_launched_at_once,
                aim="little work",
                turn=12,
                place=13,
            ),
            ExperimentRow(
                "strides",
                "steps_per_execution=8",
                "8 steps at once",
                "with several steps at once",
                "model.compile(..., steps_per_execution=8)",
                expects=gains.expect_steps_at_once,
                predicts=gains.predict_launched_at_once,
                aim="little work",
                turn=13,
                place=14,
                rewrite={"keras": "steps_per_execution=8"},
            ),
            ExperimentRow(
                "fused",
                "fused",
                "a fused optimizer",
                "with a fused optimizer",
                "the optimizer with fused=True",
                expects=own_code.as_watched("script optimizer", gains.expect_kernels(1.05)),
                of=("compute", "host"),
                aim="kernels",
                turn=19,
                place=15,
                rewrite="fused",
            ),
        ),
    ),
    CauseRow(step_causes.SEVERAL_DEVICES, step_causes.several_devices, "traffic between devices bounds this training"),
    CauseRow(
        compute_causes.PROCESSOR_LIMITED,
        compute_causes.processor_limited,
        compute_causes.name_limit,
        experiments=(
            ExperimentRow(
                "threads",
                "threads={cores}",
                "{threads}",
                "with as many threads as cores",
                {"torch": "torch.set_num_threads({cores})", "": "OMP_NUM_THREADS={cores}"},
                expects=gains.expect_threads,
                chance=gains.where_cores_are_idle,
                of=("compute",),
                predicts=gains.predict_threads,
                aim="threads",
                turn=8,
                place=23,
                rewrite="threads={cores}",
            ),
            ExperimentRow(
                "one thread",
                "threads=1",
                "one thread",
                "with one thread",
                {"torch": "torch.set_num_threads(1)", "": "OMP_NUM_THREADS=1"},
                expects=gains.expect_one_thread,
                of=("compute",),
                aim="threads",
                turn=20,
                place=24,
                rewrite="threads=1",
            ),
        ),
    ),
    CauseRow(
        compute_causes.PROCESSOR_ODDITIES,
        compute_causes.processor_oddities,
        compute_causes.name_oddity,
        experiments=(
            ExperimentRow(
                "keep",
                "malloc=keep",
                "keep freed memory in the process",
                "with freed memory kept",
                "laptime.keep_memory()",
                TAKES_MEMORY,
                gains.expect_kept_memory,
                of=("loader", "compute"),
                predicts=gains.predict_kept_memory,
                turn=9,
                place=25,
                rewrite="keep_memory",
            ),
            ExperimentRow(
                "flush",
                "denormals=flush",
                "take denormal numbers as zero",
                "with denormals treated as 0",
                "torch.set_flush_denormal(True)",
                ARITHMETIC,
                gains.expect_flushed_denormals,
                gains.where_slow_with_denormals,
                ("compute",),
                gains.predict_flushed_denormals,
                turn=5,
                place=26,
                rewrite="flush_denormal",
            ),
        ),
    ),
    CauseRow(
        compute_causes.FLOAT64,
        compute_causes.double_numbers,
        compute_causes.name_double,
        experiments=(
            ExperimentRow(
                "single",
                "numbers=single",
                "compute in float32",
                "in float32",
                {"torch": "model.float(), and batches of float32", "": "compute in float32"},
                ARITHMETIC,
                gains.expect_single_numbers,
                turn=6,
                not_built_in="a built-in workload computes in float32 at most",
                place=16,
                rewrite="float32",
            ),
        ),
    ),
    CauseRow(
        compute_causes.SHAPES,
        compute_causes.changing_shapes,
        "batches of changing shapes are compiled or prepared for again",
        experiments=(
            ExperimentRow(
                "one",
                "input=one",
                "give every batch the same shape",
                "on one batch again and again",
                "laptime.same_shapes(batches)",
                LEARNING,
                gains.expect_one_shape,
                turn=4,
                not_built_in="a built-in workload has one shape of batch",
                place=8,
            ),
        ),
    ),
    CauseRow(
        own_code.OWN_CODE,
        own_code.own_code,
        own_code.name_own_code,
        experiments=(
            *(
                ExperimentRow(
                    name,
                    f"{own_code.LINE_WORDS[name]}{own_code.AT_NO_LINE}",
                    "leave out the line that takes most",
                    "without it",
                    "",
                    changes=WHAT_IT_DOES,
                    expects=own_code.of_line(name),
                    predicts=own_code.predict_line,
                    when=lambda training: training.is_script,
                    turn=turn,
                    place=2,
                )
                for turn, name in enumerate(own_code.OF_LINES)
            ),
            ExperimentRow(
                own_code.KEPT_WORKERS,
                "persistent=on",
                "keep the loader's worker processes from lap to lap",
                "with worker processes that stay",
                "DataLoader(..., persistent_workers=True)",
                expects=own_code.of_line(own_code.KEPT_WORKERS),
                predicts=own_code.predict_line,
                when=lambda training: training.is_script,
                turn=3,
                place=2,
                rewrite="persistent_workers",
            ),
        ),
        when=own_code.is_script,
    ),
    *(
        CauseRow(cause, own_code.timed_places(cause), own_code.name_places, when=own_code.is_script)
        for cause in (EVALUATION, CHECKPOINTS, DISK)
    ),
    CauseRow(
        compute_causes.KERNELS,
        compute_causes.poor_kernels,
        "its kernels are slower than this device allows",
        experiments=(
            ExperimentRow(
                "layout",
                "channels_last",
                "channels last",
                "in channels-last layout",
                "model.to(memory_format=torch.channels_last), and the inputs",
                expects=gains.where_it_convolves(gains.expect_kernels(1.15)),
                of=("compute", "host"),
                aim="kernels",
                turn=18,
                when=lambda training: training.may_convolve,
                place=17,
                rewrite="channels_last",
            ),
            ExperimentRow(
                "best",
                "best",
                "all that keeps the arithmetic and is known to help",
                "at its best",
                expects=gains.expect_kernels(1.12),
                of=("compute", "host"),
                aim="kernels",
                turn=15,
                place=18,
            ),
            ExperimentRow(
                "bf16",
                "bf16",
                "compute in bfloat16",
                "in bf16",
                {
                    "torch": "torch.autocast(device_type, dtype=torch.bfloat16)",
                    "keras": 'keras.config.set_dtype_policy("mixed_bfloat16")',
                },
                ARITHMETIC,
                gains.on_card_only(gains.expect_kernels(1.8)),
                aim="kernels",
                turn=17,
                place=19,
            ),
            ExperimentRow(
                "tf32",
                "tf32",
                "compute in TF32",
                "in TF32",
                'torch.set_float32_matmul_precision("high")',
                ARITHMETIC,
                gains.on_card_only(gains.expect_kernels(2.0)),
                aim="kernels",
                turn=14,
                place=20,
                rewrite="matmul_high",
            ),
            ExperimentRow(
                "matmul",
                "matmul=high",
                "compute products in TF32",
                "with products in TF32",
                'torch.set_float32_matmul_precision("high")',
                ARITHMETIC,
                gains.on_card_only(gains.where_listed("matmul", gains.expect_kernels(2.0))),
                aim="kernels",
                turn=14,
                when=lambda training: training.is_script and training.on_card,
                place=21,
                rewrite="matmul_high",
            ),
            ExperimentRow(
                "matmul",
                "matmul=medium",
                "compute products in bfloat16",
                "with products in bfloat16",
                'torch.set_float32_matmul_precision("medium")',
                ARITHMETIC,
                gains.where_listed("matmul", gains.expect_kernels(1.5)),
                gains.where_products_are_large,
                aim="kernels",
                turn=14,
                when=lambda training: training.is_script and not training.on_card and training.multiplies_in_bf16,
                place=22,
                rewrite="matmul_medium",
            ),
        ),
    ),
]


def all_experiments() -> list[ExperimentRow]:
    """Return the rows of all experiments, in the order of their places."""
    return sorted(
        (experiment for row in CAUSES for experiment in row.experiments), key=lambda experiment: experiment.place
    )


def list_experiments(training: AskedTraining) -> tuple[Experiment, ...]:
    """Return all experiments that a training may have; the planner reports which of them its lane cannot run."""
    rows = ((experiment, row.cause) for row in CAUSES for experiment in row.experiments if experiment.when(training))
    return tuple(row.make(cause, training) for row, cause in sorted(rows, key=lambda pair: pair[0].place))


def rank_experiments(facts: WhyFacts) -> dict[str, float]:
    """Return the promises of experiments that are worth a lane, the largest first; none that a figure rules out.

    A promise is the expected gain times its chance. A second experiment with the same aim counts a quarter of it, a
    third one a ninth: so each aim has its turn first.
    """
    rows = sorted((row for row in all_experiments() if row.expects is not None), key=lambda row: row.turn)
    tries = Counter(row.aim or row.name for row in rows if facts.factor(row.name) is not None)
    expected = [(row, row.promise(facts)) for row in rows if facts.factor(row.name) is None]
    promises: list[tuple[str, float]] = []
    for row, promise in sorted(expected, key=lambda pair: -pair[1]):
        if promise > 0:
            tries[row.aim or row.name] += 1
            promises.append((row.name, promise / tries[row.aim or row.name] ** 2))
    found: dict[str, float] = {}
    for name, promise in sorted(promises, key=lambda pair: -pair[1]):
        found.setdefault(name, promise)
    return found


def freezes(facts: WhyFacts, experiment: Experiment) -> bool:
    """Whether an experiment keeps items which the data set draws again each time. On a card the preset does, too."""
    keeps = any(row.keeps_items for row in all_experiments() if row.name == experiment.name)
    return facts.is_redrawn and (keeps or (experiment.name == PRESET and not facts.on_processor))


def predict(facts: WhyFacts, experiment: Experiment) -> float | Missing:
    """Return the factor by which the remedy would be faster, or why there is no prediction."""
    predicts = next((row.predicts for row in all_experiments() if row.name == experiment.name), None)
    if predicts is None:
        return Missing("only the run itself shows what other kernels do")
    return Missing("the lane as it is has no step") if facts.step_ms is None else predicts(facts, experiment)


def judge_causes(facts: WhyFacts) -> tuple[Verdict, ...]:
    return tuple(row.rule(facts) for row in CAUSES if row.when(facts))


def sum_up(facts: WhyFacts, verdicts: Sequence[Verdict]) -> tuple[str, tuple[str, ...]]:
    """Return the verdict in a sentence or two, and the causes that it names, in their order."""
    standing = sorted((verdict for verdict in verdicts if verdict.standing in {"proven", "likely"}), key=_weight)
    named: list[Verdict] = []
    for verdict in standing:
        if len(named) < NAMED_MOST and not any(_places(verdict) & _places(other) for other in named):
            named.append(verdict)
    state = find_lane_state(facts.lane)
    if state is not None and state.is_sure and not any(map(compute_causes.may_be_denormals, named)):
        says = f"{_subject(facts)}{describe_state(state)}, and its own code is why.{_pace(facts, None)}"
        says += "".join(f" Then: {_sentence(other)} ({other.standing}{_by(other)})." for other in named)
        return says, tuple(verdict.cause for verdict in named)
    if not named:
        return f"{_subject(facts)}{_nothing_found(facts, verdicts)}", ()
    first, *others = named
    says = f"{_subject(facts)}{_sentence(first)} ({first.standing}).{_pace(facts, first)}"
    says += "".join(f" Then: {_sentence(other)} ({other.standing}{_by(other)})." for other in others)
    return says, tuple(verdict.cause for verdict in named)


def _places(verdict: Verdict) -> set[str]:
    """Return the lines that a verdict names: what takes time at the same line is said once."""
    where = verdict.evidence.get("where") or ()
    return {where} if isinstance(where, str) else set(where)


def _weight(verdict: Verdict) -> tuple[bool, bool, float]:
    """Sort causes that invalidate all other figures first, then proven and timed ones, and those by their gain."""
    gain = 1.0 if isinstance(verdict.gain, Missing) else verdict.gain
    first = verdict.standing in _row_of(verdict).first_where or compute_causes.are_denormals(verdict)
    known = verdict.standing == "proven" or step_causes.were_timed(verdict) or compute_causes.are_known_to_cost(verdict)
    return not first, not known, 0.0 if first else -gain


def _sentence(verdict: Verdict) -> str:
    sentence = _row_of(verdict).sentence
    return sentence if isinstance(sentence, str) else sentence(verdict)


def _row_of(verdict: Verdict) -> CauseRow:
    return next(row for row in CAUSES if row.cause == verdict.cause)


def _subject(facts: WhyFacts) -> str:
    lane = facts.lane.name.removesuffix("/as-written")
    return f"{facts.what} on {lane}: " if facts.what else f"{lane}: "


def _by(verdict: Verdict) -> str:
    return "" if isinstance(verdict.gain, Missing) else f", {times(verdict.gain)}"


def _pace(facts: WhyFacts, verdict: Verdict | None) -> str:
    """State how fast the lane is, and how fast it would be without the cause."""
    rate = facts.lane.items_per_s
    if rate is None:
        return ""
    median = rate.median
    if verdict is not None and verdict.evidence.get("rule") == own_code.BETWEEN_ITERATIONS:
        median *= share_of_steps(facts.lane)  # its gain is one of the whole training
    plain = f" {brief(median)} {facts.items}/s."
    if verdict is None or isinstance(verdict.gain, Missing) or verdict.gain <= 1:
        return plain
    # What only a change of the learning gained, the same training cannot have
    tried = [trial for trial in facts.trials.values() if trial.lane in verdict.lanes]
    deciding = [trial.experiment for trial in tried if trial.factor and trial.factor.ratio == verdict.gain]
    if deciding and all(experiment.changes == LEARNING or freezes(facts, experiment) for experiment in deciding):
        return plain
    is_guessed = verdict.cause == step_causes.DEVICE_SHARED or compute_causes.FEW_THREADS in verdict.evidence
    if is_guessed and verdict.standing != "proven":
        return plain  # what cores are taken or idle is known, and not how many of them each step could have filled
    return f" {brief(median)} {facts.items}/s of a possible {brief(median * verdict.gain)}."


def _nothing_found(facts: WhyFacts, verdicts: Sequence[Verdict]) -> str:
    """State what bounds the lane then, if the device's limits were measured."""
    tried = [trial for trial in facts.trials.values() if trial.factor is not None and trial.experiment.is_remedy]
    untested = sum(verdict.standing == "not tested" for verdict in verdicts)
    start = "nothing that was tried makes it faster" if tried else "nothing points at a cause, and no remedy was tried"
    rate = facts.lane.items_per_s
    pace = "" if rate is None else f" {brief(rate.median)} {facts.items}/s."
    limit = facts.lane.roofline
    if limit is not None:
        of = "arithmetic" if limit.binds == "products" else "memory"
        bound = f": it is bound by its device's {of}, at {percent(limit.share)} of what that can do."
    else:
        bound = "; how near it comes to what its device can do is not known."
    left = f" {untested} cause{'s' * (untested != 1)} could not be tested." if untested else ""
    return f"{start}{bound}{pace}{left}"
