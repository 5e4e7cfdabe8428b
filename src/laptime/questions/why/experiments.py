"""An experiment of a cause: one lane with one change, and all that is known of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from laptime.model.frameworks import SCRIPT
from laptime.model.hardware import Conv, DenseBlock
from laptime.model.machine import Machine
from laptime.model.plan import PlannedLane
from laptime.model.quantities import Missing
from laptime.model.workload import FLOAT_BYTES, Workload
from laptime.questions.why.facts import WhyFacts
from laptime.questions.why.gains import BOUND_LEAST, UNKNOWN_GAIN, Chance, Expect, Predict, bound_of, surely
from laptime.questions.why.nouns import NO_CHANGE, Experiment, PartOf

TRIED_MOST_WORKERS = 8  # at most, and no more than there are cores
# Words and code for a user's own training, whose batch size is not known.
BATCH_EXPERIMENTS = (
    ("2x", 2, "a batch of 2 times the items", "batch_size=2 * ..."),
    ("4x", 4, "a batch of 4 times the items", "batch_size=4 * ..."),
    ("half", 0.5, "half the batch", "half of batch_size"),
)
A_LANE = "laptime race ... {setting}"  # in place of the code of a remedy that has none
PRESET = "best"  # the experiment with all that is known to help
ARITHMETIC = "the arithmetic"
TAKES_MEMORY = "memory"


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
        return self.written_for or self.planned.row.family

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
        cores = self.machine.processor.cores_usable
        floats = self.size(FLOAT_BYTES)
        raw = self.size(1)
        words: dict[str, object] = {
            "cores": cores,
            "threads": f"{cores} threads" if cores > 1 else "one thread",
            "workers": min(cores, TRIED_MOST_WORKERS),
            # Of Keras's own workers, threads would wait for each other wherever plain Python decodes.
            "processes": "+processes=on" if self.written_for == "keras" else "",
            "limit": floats or "4 GB",
            "floats": f"{floats} of {TAKES_MEMORY}" if floats else TAKES_MEMORY,
            "bytes": f"{raw} of {TAKES_MEMORY}",
            # On a processor decoded batches are already where they are used. A script copies its own.
            "ready": "resident" if self.places_batches and not self.planned.row.is_opaque else "cached",
        }
        batch = 0 if self.workload is None else self.workload.batch
        for name, times, own_words, own_code in BATCH_EXPERIMENTS:
            other = int(times * batch)
            words[f"batch_{name}"] = f"batch {batch} -> {other}" if other else own_words
            words[f"code_{name}"] = f"batch_size={other}" if other else own_code
        return words


@dataclass(frozen=True, slots=True)
class ExperimentRow:
    """One experiment. Its texts may name `AskedTraining.words` in braces.

    `setting` is a word of a lane, or several joined by "+"; `says` names the remedy and `did` completes "... it is 3.7x
    as fast". `code` does the same in the user's own training; with one text per family, "" is for all other families,
    and without one there is only a lane to race. `expects` is the gain by which the next experiment is chosen (without
    it, an experiment always runs), `chance` how likely the signs make it, and `of` the parts of a step that it can
    shorten: their shares bound what it gains at most. `predicts` is the gain shown with its remedy. Experiments with
    the same `aim` try the same thing. Of two with the same promise, the lower `turn` is first; `place` is the order of
    remedies without a figure. `when` says for which trainings the row exists, `not_built_in` why a built-in workload
    cannot run it. One that `keeps_items` freezes what a data set draws at random for each item. `rewrite` is the word
    of a change of code (`questions/rewrites.py`) that is the remedy, where one is; a single text is for PyTorch.
    """

    name: str
    setting: str
    says: str
    did: str
    code: str | Mapping[str, str] = ""
    changes: str = NO_CHANGE
    expects: Expect | None = None
    chance: Chance = surely
    of: tuple[PartOf, ...] = ()
    predicts: Predict | None = None
    aim: str = ""
    turn: int = 100
    place: int = 100
    is_remedy: bool = True
    when: Callable[[AskedTraining], bool] = lambda _training: True
    not_built_in: str = ""
    keeps_items: bool = False
    rewrite: str | Mapping[str, str] = ""

    def promise(self, facts: WhyFacts) -> float:
        """Return what the experiment is expected to gain beyond 1, times its chance; 0 for one that is not made."""
        bound = bound_of(facts, self.of)
        gain = 1.0 if self.expects is None else min(self.expects(facts), bound)
        return 0.0 if bound < BOUND_LEAST or gain < UNKNOWN_GAIN else (gain - 1) * self.chance(facts)

    def make(self, cause: str, training: AskedTraining) -> Experiment:
        """Fill in the texts for one training."""
        words = training.words()
        words["setting"] = setting = self.setting.format(**words)
        by_family = {"": self.code} if isinstance(self.code, str) else self.code
        code = by_family.get(training.family, by_family.get("", ""))
        is_code = code != ""
        rewrites = {"torch": self.rewrite} if isinstance(self.rewrite, str) else self.rewrite
        settings = tuple(setting.split("+"))
        texts = (self.says.format(**words), settings, self.changes.format(**words), (code or A_LANE).format(**words))
        refused = self.not_built_in if training.workload is not None else ""
        absent = Missing(refused) if refused else None
        rewrite = rewrites.get(training.family, "").format(**words)
        return Experiment(
            self.name, cause, *texts, is_code, self.is_remedy, absent=absent, did=self.did, rewrite=rewrite
        )
