"""The table of experiments: one lane with one change, and all that is known of each; and which to run next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from laptime.model.frameworks import SCRIPT, find_framework
from laptime.model.limits import Conv, DenseBlock
from laptime.model.machine import Machine
from laptime.model.missing import Missing
from laptime.model.plan import PlannedLane
from laptime.model.workload import Workload
from laptime.questions.why import gains
from laptime.questions.why.facts import WhyFacts
from laptime.questions.why.gains import Expect, Predict
from laptime.questions.why.nouns import NO_CHANGE, Cause, Experiment

MOST_WORKERS = 8  # at most, and no more than there are cores
FLOAT_BYTES = 4
# Words and code for a user's own training, whose batch size is not known.
OTHER_BATCHES = (
    ("2x", 2, "a batch of 2 times the items", "batch_size=2 * ..."),
    ("4x", 4, "a batch of 4 times the items", "batch_size=4 * ..."),
    ("half", 0.5, "half the batch", "half of batch_size"),
)
PRESET = "best"  # the experiment with all that is known to help
LEARNING, ARITHMETIC, MEMORY = "the learning", "the arithmetic", "memory"


@dataclass(frozen=True, slots=True)
class AskedTraining:
    """The training in question: its lane, its machine, and its workload unless it is the user's own.

    A script's lane has no framework; it is `written_for` one.
    """

    planned: PlannedLane
    machine: Machine
    workload: Workload | None
    written_for: str = ""

    @property
    def family(self) -> str:
        """The family whose code the texts show; the fake framework uses that of PyTorch."""
        return self.written_for or find_framework(self.planned.framework).family

    @property
    def is_script(self) -> bool:
        return self.planned.framework == SCRIPT

    @property
    def on_card(self) -> bool:
        return self.planned.device.kind != "cpu"

    @property
    def places_batches(self) -> bool:
        """Whether laptime can place the batches on a card."""
        return self.on_card and not self.is_script

    @property
    def multiplies_in_bf16(self) -> bool:
        """Whether the processor has units for products in bfloat16."""
        return bool({"avx512_bf16", "amx_bf16"} & set(self.machine.processor.features))

    @property
    def may_convolve(self) -> bool:
        """Whether a built-in network has convolutions; what a user's own computes shows once its work was counted."""
        return self.workload is None or any(isinstance(layer, Conv | DenseBlock) for layer in self.workload.layers)

    def size(self, number_bytes: int) -> str:
        """Return the memory that all decoded items of a built-in workload take; an empty string for a user's own."""
        if self.workload is None:
            return ""
        height, width, channels = self.workload.image_shape
        size = self.workload.train_items * height * width * channels * number_bytes
        return f"{size / 1e9:.1f} GB" if size >= 1e9 else f"{size / 1e6:.0f} MB"

    def words(self) -> dict[str, object]:
        """Return the words that the texts of a row may name in braces."""
        cores, floats, raw = self.machine.processor.cores_usable, self.size(FLOAT_BYTES), self.size(1)
        words: dict[str, object] = {
            "cores": cores,
            "threads": f"{cores} threads" if cores > 1 else "one thread",
            "workers": min(cores, MOST_WORKERS),
            "limit": floats or "4 GB",
            "floats": f"{floats} of {MEMORY}" if floats else MEMORY,
            "bytes": f"{raw} of {MEMORY}",
            # On a processor decoded batches are already where they are used. A script copies its own.
            "ready": "resident" if self.places_batches and self.family != "python" else "cached",
        }
        batch = 0 if self.workload is None else self.workload.batch
        for name, times, own_words, own_code in OTHER_BATCHES:
            other = int(times * batch)
            words[f"batch_{name}"] = f"batch {batch} -> {other}" if other else own_words
            words[f"code_{name}"] = f"batch_size={other}" if other else own_code
        return words


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """One experiment. Its texts may name `AskedTraining.words` in braces.

    `setting` is a word of a lane; `says` names the remedy and `did` completes "... it is 3.7x as fast". `code` does the
    same in the user's own training; with one text per family, "" is for all other families. `expects` is the gain by
    which the next experiment is chosen (without it, an experiment always runs), `predicts` the gain shown with its
    remedy. Experiments with the same `aim` try the same thing. Of two with the same expected gain, the lower `turn` is
    first. `when` says for which trainings the row exists, `not_built_in` why a built-in workload cannot run it.
    One that `keeps_items` freezes what a data set draws at random for each item.
    """

    name: str
    cause: str
    setting: str
    says: str
    did: str
    code: str | Mapping[str, str] = "laptime race ... {setting}"
    changes: str = NO_CHANGE
    expects: Expect | None = None
    predicts: Predict | None = None
    aim: str = ""
    turn: int = 100
    is_remedy: bool = True
    when: Callable[[AskedTraining], bool] = lambda _training: True
    not_built_in: str = ""
    keeps_items: bool = False

    def make(self, training: AskedTraining) -> Experiment:
        """Fill in the texts for one training."""
        words = training.words()
        words["setting"] = setting = self.setting.format(**words)
        by_family = {"": self.code} if isinstance(self.code, str) else self.code
        code = by_family.get(training.family, by_family.get("", ""))
        texts = (self.says.format(**words), (setting,), self.changes.format(**words), code.format(**words))
        refused = self.not_built_in if training.workload is not None else ""
        absent = Missing(refused) if refused else None
        return Experiment(self.name, self.cause, *texts, is_remedy=self.is_remedy, absent=absent, did=self.did)


# Remedies without a figure are listed in this order.
EXPERIMENTS: list[ExperimentRow] = [
    # The ceilings: one stage alone.
    ExperimentRow("loader", Cause.INPUT, "input=only", "the loader alone", "its loader alone", "", is_remedy=False),
    ExperimentRow("copy", Cause.COPY, "input=copy", "the copy alone", "its copy to the device alone", "",
                  is_remedy=False),
    ExperimentRow("compute", Cause.COPY, "input={ready}", "keep all batches on the device",
                  "on batches that are already there",
                  {"torch": "batches = [(x.to(device), y.to(device)) for x, y in loader]",
                   "jax": "batches = jax.device_put(list(data))", "": "laptime race ... {setting}"},
                  MEMORY, predicts=gains.predict_resident, when=lambda training: training.places_batches,
                  keeps_items=True),
    ExperimentRow("compute", Cause.INPUT, "input={ready}", "the training on batches that lie ready",
                  "on batches that are already there", changes=MEMORY, predicts=gains.predict_resident,
                  is_remedy=False, when=lambda training: not training.places_batches),
    # The loader.
    ExperimentRow("decoded", Cause.INPUT, "input=cached", "keep decoded items in memory",
                  "on decoded batches kept in memory",
                  {"torch": 'DataLoader(laptime.cached(dataset, memory="{limit}"), ...)',
                   "keras": 'model.fit(laptime.cached(sequence, memory="{limit}"), ...)',
                   "": 'data = laptime.cached(data, memory="{limit}")'},
                  "{floats}", gains.expect_no_loader, gains.predict_decoded, aim="loading", turn=1,
                  keeps_items=True),
    ExperimentRow("workers", Cause.INPUT, "workers={workers}", "decode in {workers} worker processes",
                  "with worker processes",
                  {"torch": "DataLoader(..., num_workers={workers}, persistent_workers=True)",
                   "keras": "PyDataset(workers={workers}, use_multiprocessing=True)",
                   "": "decode in {workers} processes of your own"},
                  expects=gains.expect_other_loader(0.9), predicts=gains.predict_workers, aim="loading", turn=2),
    ExperimentRow("fast", Cause.INPUT, "input=fast", "laptime's own loader", "with laptime's loader",
                  changes="{bytes}", expects=gains.expect_other_loader(0.8), aim="loading", turn=3,
                  when=lambda training: training.workload is not None),
    ExperimentRow("one", Cause.SHAPES, "input=one", "give every batch the same shape", "on one batch again and again",
                  "laptime.same_shapes(batches)", LEARNING, gains.expect_one_shape, turn=4,
                  not_built_in="a built-in workload has one shape of batch"),
    # The size of a step.
    ExperimentRow("batch 2x", Cause.LITTLE_WORK, "batch=2x", "{batch_2x}", "at twice the batch", "{code_2x}", LEARNING,
                  gains.expect_twice_the_batch, gains.predict_twice_the_batch, aim="little work", turn=10),
    ExperimentRow("batch 4x", Cause.LITTLE_WORK, "batch=4x", "{batch_4x}", "at four times the batch", "{code_4x}",
                  LEARNING, gains.expect_four_times_the_batch, gains.predict_batch(4), aim="little work", turn=11),
    ExperimentRow("half batch", Cause.MEMORY_FULL, "batch=0.5x", "{batch_half}", "at half the batch", "{code_half}",
                  LEARNING, gains.expect_half_batch, gains.predict_batch(0.5), turn=7),
    # How a step is started and computed.
    ExperimentRow("compile", Cause.LITTLE_WORK, "compile", "compile the step", "compiled",
                  {"torch": "model = torch.compile(model)", "keras": "model.compile(..., jit_compile=True)",
                   "": "jax.jit(step)"},
                  expects=gains.expect_kernels(1.1), aim="kernels", turn=16),
    ExperimentRow("graph", Cause.LITTLE_WORK, "graph", "one CUDA graph a step", "as one CUDA graph",
                  "torch.cuda.make_graphed_callables", expects=gains.on_card_only(gains.expect_graph),
                  predicts=gains.predict_launched_at_once, aim="little work", turn=12),
    ExperimentRow("strides", Cause.LITTLE_WORK, "steps_per_execution=8", "8 steps at once",
                  "with several steps at once", "model.compile(..., steps_per_execution=8)",
                  expects=gains.expect_steps_at_once, predicts=gains.predict_launched_at_once, aim="little work",
                  turn=13),
    ExperimentRow("fused", Cause.LITTLE_WORK, "fused", "a fused optimizer", "with a fused optimizer",
                  "the optimizer with fused=True", expects=gains.expect_kernels(1.05), aim="kernels", turn=19),
    ExperimentRow("single", Cause.FLOAT64, "numbers=single", "compute in float32", "in float32",
                  {"torch": "model.float(), and batches of float32", "": "compute in float32"}, ARITHMETIC,
                  gains.expect_single_numbers, turn=6, not_built_in="a built-in workload computes in float32 at most"),
    ExperimentRow("layout", Cause.KERNELS, "channels_last", "channels last", "in channels-last layout",
                  "model.to(memory_format=torch.channels_last), and the inputs",
                  expects=gains.where_it_convolves(gains.expect_kernels(1.15)), aim="kernels", turn=18,
                  when=lambda training: training.may_convolve),
    ExperimentRow("best", Cause.KERNELS, "best", "all that keeps the arithmetic and is known to help", "at its best",
                  expects=gains.expect_kernels(1.12), aim="kernels", turn=15),
    ExperimentRow("bf16", Cause.KERNELS, "bf16", "compute in bfloat16", "in bf16",
                  {"torch": "torch.autocast(device_type, dtype=torch.bfloat16)",
                   "keras": 'keras.config.set_dtype_policy("mixed_bfloat16")', "": "laptime race ... {setting}"},
                  ARITHMETIC, gains.on_card_only(gains.expect_kernels(1.8)), aim="kernels", turn=17),
    ExperimentRow("tf32", Cause.KERNELS, "tf32", "compute in TF32", "in TF32",
                  'torch.set_float32_matmul_precision("high")', ARITHMETIC,
                  gains.on_card_only(gains.expect_kernels(2.0)), aim="kernels", turn=14),
    ExperimentRow("matmul", Cause.KERNELS, "matmul=high", "compute products in TF32", "with products in TF32",
                  'torch.set_float32_matmul_precision("high")', ARITHMETIC,
                  gains.where_listed("matmul", gains.expect_kernels(2.0)), aim="kernels", turn=14,
                  when=lambda training: training.is_script and training.on_card),
    ExperimentRow("matmul", Cause.KERNELS, "matmul=medium", "compute products in bfloat16",
                  "with products in bfloat16", 'torch.set_float32_matmul_precision("medium")', ARITHMETIC,
                  gains.where_listed("matmul", gains.expect_kernels(1.5)), aim="kernels", turn=14,
                  when=lambda training: training.is_script and not training.on_card and training.multiplies_in_bf16),
    # The host.
    ExperimentRow("threads", Cause.PROCESSOR_LIMITED, "threads={cores}", "{threads}", "with as many threads as cores",
                  {"torch": "torch.set_num_threads({cores})", "": "OMP_NUM_THREADS={cores}"},
                  expects=gains.expect_threads, predicts=gains.predict_threads, aim="threads", turn=8),
    ExperimentRow("one thread", Cause.PROCESSOR_LIMITED, "threads=1", "one thread", "with one thread",
                  {"torch": "torch.set_num_threads(1)", "": "OMP_NUM_THREADS=1"},
                  expects=gains.expect_one_thread, aim="threads", turn=20),
    ExperimentRow("keep", Cause.PROCESSOR_ODDITIES, "malloc=keep", "keep freed memory in the process",
                  "with freed memory kept", "laptime.keep_memory()", MEMORY, gains.expect_kept_memory,
                  gains.predict_kept_memory, turn=9),
    ExperimentRow("flush", Cause.PROCESSOR_ODDITIES, "denormals=flush", "take denormal numbers as zero",
                  "with denormals treated as 0", "torch.set_flush_denormal(True)", ARITHMETIC,
                  gains.expect_flushed_denormals, gains.predict_flushed_denormals, turn=5),
    ExperimentRow("deferred", Cause.HOST_WAITS, "reads=deferred", "read values later", "with its reads put off",
                  "meter = laptime.Deferred(); meter.add(loss)", expects=gains.expect_deferred_reads,
                  predicts=gains.predict_deferred_reads, turn=6),
]  # fmt: skip


def list_experiments(training: AskedTraining) -> tuple[Experiment, ...]:
    """Return all experiments that a training may have; the planner reports which of them its lane cannot run."""
    return tuple(row.make(training) for row in EXPERIMENTS if row.when(training))


def order_experiments(facts: WhyFacts) -> tuple[str, ...]:
    """Name the experiments that are worth a lane, the most promising first; none for a cause that a figure rules out.

    A second experiment with the same aim counts a quarter of its expected gain, a third one a ninth: so each aim has
    its turn first.
    """
    rows = sorted((row for row in EXPERIMENTS if row.expects is not None), key=lambda row: row.turn)
    tries = Counter(row.aim or row.name for row in rows if facts.factor(row.name) is not None)
    expected = [(row, row.expects(facts)) for row in rows if row.expects and facts.factor(row.name) is None]
    promises: list[tuple[float, str]] = []
    for row, gain in sorted(expected, key=lambda pair: -pair[1]):
        if gain > 1:
            tries[row.aim or row.name] += 1
            promises.append(((gain - 1) / tries[row.aim or row.name] ** 2, row.name))
    return tuple(dict.fromkeys(name for _, name in sorted(promises, key=lambda pair: -pair[0])))


def freezes(facts: WhyFacts, experiment: Experiment) -> bool:
    """Whether an experiment keeps items which the data set draws again each time. On a card the preset does, too."""
    keeps = any(row.keeps_items for row in EXPERIMENTS if row.name == experiment.name)
    return facts.is_redrawn and (keeps or (experiment.name == PRESET and not facts.on_processor))


def predict(facts: WhyFacts, experiment: Experiment) -> float | Missing:
    """Return the factor by which the remedy would be faster, or why there is no prediction."""
    predicts = next((row.predicts for row in EXPERIMENTS if row.name == experiment.name), None)
    if predicts is None:
        return Missing("only the run itself shows what other kernels do")
    return Missing("the lane as it is has no step") if facts.step_ms is None else predicts(facts, experiment)
