"""What else a forecast has to get right: networks that the fit has not seen, and what binds. And what was tried.

    python bench/forecast_left_out.py [--out FILE.json] [--only networks|binds|correction|seen]

**networks**: three public convolution networks, families of transformers and our own trainings are left out of the fit,
one after another, and predicted on all devices on which they were measured. **binds**: cases whose answer is known from
an experiment, such as a graph that makes a step twice as fast: then launches bound it. **correction**: would a step
that was measured on another card make a prediction better? The measured part of its error is taken over. **seen**: what
other trainings that the same source measured on a card, or on its relatives, say of one there (questions/forecast/
seen.py): where the fit has seen neither card nor architecture, and where it has.
"""

from __future__ import annotations

import itertools
import math
import statistics
import sys
from dataclasses import dataclass

import numpy as np

from common import Figure, finish, parser_for
from forecast_devices import begin, fit, leave_out, make_table, predict
from forecast_measured import Measured
from forecast_transformers import NETWORKS
from laptime.machine.hardware import find_device, known_devices, known_efficiencies
from laptime.model.quantities import Missing
from laptime.questions.forecast.reduce import IN_EIGHTY, NEW_NETWORK_SPREAD, architecture_of, forecast_step
from laptime.questions.forecast.seen import RELATIVES, SAME_CARD, seen_as
from laptime.trainings.workloads import find_workload
from laptime.trainings.workloads.shapes import list_operators

PARTS = ("networks", "binds", "correction", "seen")
CONVOLUTIONS = ("resnet50", "vgg16", "densenet121", "cifar-cnn", "scenes-cnn", "pets-densenet")
TRANSFORMERS = ("bert", "gpt2", "gpt3", "opt", "characters", "encoder")
MOST_OFF, MOST_OFF_TRANSFORMERS, RIGHT = 0.15, 0.10, 0.9
PORTIONS = (0.0, 0.25, 0.5, 1.0)


@dataclass(frozen=True)
class Case:
    """A step on a card, what bound it, and the experiment that shows it. Milliseconds of a loader are of a batch."""

    what: str
    device: str
    precision: str
    execution: str
    binds: str
    because: str
    loader_ms: float = 0.0


# Of an H200: bench/results/2026-11-20-h200.json. The loaders are the authors', on one core of its host.
CASES = (
    Case("cifar-mlp", "h200", "fp32", "eager", "launches", "1.75 ms launched one by one, 0.30 ms as a graph"),
    Case("cifar-cnn", "h200", "tf32", "eager", "launches", "2.14 ms launched one by one, 1.02 ms as a graph"),
    Case("cifar-cnn", "h200", "bf16", "eager", "launches", "2.66 ms launched one by one, 0.89 ms as a graph"),
    Case("cifar-cnn", "h200", "fp32", "graph", "products", "1.93 ms, and 1.02 ms with faster products alone"),
    Case("pets-densenet", "h200", "fp32", "graph", "products", "78.1 ms, and 44.5 ms with faster products alone"),
    Case("pets-densenet", "h200", "fp32", "eager", "products", "82.2 ms, 78.1 ms as a graph, 44.5 ms in TF32"),
    Case("scenes-cnn", "h200", "tf32", "graph", "memory", "2.17 ms; 2.15 ms in bf16, 2.23 ms launched one by one"),
    Case("scenes-cnn", "h200", "fp32", "eager", "loader", "41.7 ms with files, 2.83 ms with batches on the card", 40.0),
    Case("plates-cnn", "h200", "fp32", "eager", "loader", "305 ms with files, 2.9 ms with our loader", 300.0),
    Case("pets-densenet", "h200", "fp32", "eager", "loader", "185 ms with files, 82 ms with batches on it", 180.0),
    Case("scenes-cnn", "rtx-2060-mobile", "fp32", "graph", "loader", "the first experiment: 744 images/s", 43.0),
    Case("plates-cnn", "t4", "fp32", "graph", "loader", "the fifth: as slow without a card; 40 ms an image", 5120.0),
)


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--only", choices=PARTS, action="append")
    given = parser.parse_args()
    chosen = given.only or PARTS
    figures: list[Figure] = []
    if "networks" in chosen:
        figures += check_networks()
    if "binds" in chosen:
        figures += check_binds()
    if "correction" in chosen:
        figures += check_correction()
    if "seen" in chosen:
        figures += check_seen()
    return finish("forecast_left_out", figures, given.out)


def check_networks() -> list[Figure]:
    """Leave networks out of the fit, with those that differ by a stride, and predict them.

    Only where their source has other networks: else what the source has in common is not known.
    """
    table = make_table()
    every = np.ones(len(table.steps), bool)
    fitted = fit(table, every, begin(table))
    figures, every_off = [], []
    offs: dict[str, float] = {}
    for name in (*CONVOLUTIONS, *TRANSFORMERS):
        mine = np.array([family_of(step.network) == name for step in table.steps])
        sources = {step.source for step, left_out in zip(table.steps, mine, strict=True) if not left_out}
        told = mine & np.array([step.source in sources for step in table.steps])
        ratio = predict(table, fit(table, ~mine, fitted))[told] / table.ms[told]
        offs[name] = float(np.abs(ratio - 1).mean())
        every_off += np.abs(np.log(ratio)).tolist()
        figures.append(Figure(f"{name}: off where the fit has not seen it, {told.sum()} steps", offs[name], ""))
    spread = float(np.quantile(every_off, 0.8) / IN_EIGHTY)
    return [
        *figures,
        Figure("off, of networks that were left out", statistics.mean(offs.values()), "", most=MOST_OFF),
        Figure(
            "off, of transformers that were left out",
            statistics.mean(offs[name] for name in TRANSFORMERS),
            "",
            most=MOST_OFF_TRANSFORMERS,
        ),
        Figure("spread that holds 80 % of these steps", spread, "", most=NEW_NETWORK_SPREAD),
    ]


def family_of(network: str) -> str:
    """Return under which name a network is left out: all sizes of a transformer together, and both versions of a
    ResNet.
    """
    return network.partition("_")[0] if network in NETWORKS else network.removesuffix("_v1")


def check_binds() -> list[Figure]:
    right = 0
    for case in CASES:
        found = what_binds(case)
        right += found == case.binds
        print(f"{case.what} on {case.device}, {case.precision}, {case.execution}: {found}, and it was {case.binds}")
    return [Figure(f"right about what binds, of {len(CASES)} cases", right / len(CASES), "", least=RIGHT)]


def what_binds(case: Case) -> str:
    workload, device = find_workload(case.what), find_device(case.device, known_devices())
    operators = list_operators(workload, workload.batch, case.precision)
    found = forecast_step(operators, device, case.precision, case.execution, known_efficiencies())
    assert not isinstance(found, Missing), found
    return "loader" if case.loader_ms > 1e3 * found.step_s else found.binds


def check_correction() -> list[Figure]:
    """Take over a part of what a prediction is off on another card, for all pairs of one network in one source."""
    table = make_table()
    fitted = fit(table, np.ones(len(table.steps), bool), begin(table))
    off = np.log(leave_out(table, fitted) / table.ms)
    alike: dict[tuple[str, str, str, str], list[int]] = {}
    for place, step in enumerate(table.steps):
        alike.setdefault((step.source, step.network, step.precision, step.execution), []).append(place)
    pairs = [
        pair
        for group in alike.values()
        for pair in itertools.permutations(group, 2)
        if table.steps[pair[0]].device != table.steps[pair[1]].device
    ]
    return [
        Figure(
            f"off, with {portion:.0%} of the error of another card taken over, {len(pairs)} pairs",
            statistics.mean(abs(math.exp(off[one] - portion * off[other]) - 1) for one, other in pairs),
            "",
        )
        for portion in PORTIONS
    ]


def check_seen() -> list[Figure]:
    """Move each prediction by what its like are off, as laptime does, and see whether it and its range are better."""
    table = make_table()
    steps, every = table.steps, np.ones(len(table.steps), bool)
    fitted = fit(table, every, begin(table))
    without_card = np.log(leave_out(table, fitted) / table.ms)
    without_kind = np.full(len(steps), math.nan)
    for name in {architecture_of(step.device) for step in steps}:
        mine = np.array([architecture_of(step.device) == name for step in steps])
        elsewhere = {step.source for step, is_mine in zip(steps, mine, strict=True) if not is_mine}
        judged = mine & np.array([step.source in elsewhere for step in steps])  # else its source has no factor
        without_kind[judged] = np.log(predict(table, fit(table, ~mine, fitted)) / table.ms)[judged]
    with_all = np.log(predict(table, fitted) / table.ms)

    def group(step: Measured) -> tuple[object, ...]:
        return step.source, seen_as(step.device, step.precision), step.execution == "eager"

    def on_card(one: Measured, other: Measured) -> str | None:
        return other.network if one.device.short == other.device.short and one.network != other.network else None

    def on_relative(one: Measured, other: Measured) -> str | None:
        alike = architecture_of(one.device) == architecture_of(other.device)
        return other.device.short if alike and one.device.short != other.device.short else None

    figures = []
    for words, off, correlation, kind_of in (
        ("trainings on a card that the fit has not seen", without_card, SAME_CARD, on_card),
        ("cards of an architecture that it has not seen", without_kind, RELATIVES, on_relative),
        ("trainings on a card that it has seen", with_all, SAME_CARD, on_card),
    ):
        alone, moved, narrowed = [], [], []
        for one, step in enumerate(steps):
            others: dict[str, list[float]] = {}
            for other, like in enumerate(steps):
                if group(step) == group(like) and (name := kind_of(step, like)) is not None:
                    others.setdefault(name, []).append(float(off[other]))
            if not others or math.isnan(off[one]):
                continue
            taken = correlation * len(others) / (1 + (len(others) - 1) * correlation)
            rest = off[one] - taken * statistics.mean(map(statistics.mean, others.values()))
            alone.append(abs(off[one]))
            moved.append(abs(rest))
            narrowed.append(abs(rest) / math.sqrt(1 - correlation * taken))
        wide = float(np.quantile(alone, 0.8))
        figures += [
            Figure(f"off, {words}, {len(alone)} steps, by the fit alone", float(np.mean(np.expm1(alone))), ""),
            Figure("the same, moved by the others", float(np.mean(np.expm1(moved))), ""),
            Figure(
                "held by the range that holds 80 %, once it is narrowed", float(np.mean(np.array(narrowed) <= wide)), ""
            ),
        ]
    return figures


if __name__ == "__main__":
    sys.exit(main())
