"""How right are forecasts of devices that are not here? Fit their efficiencies, and leave each device out in turn.

    python bench/forecast_devices.py [--out FILE.json]     fit, and predict each device from all others
    python bench/forecast_devices.py --write               and write src/laptime/hardware/efficiencies.toml

With OMP_NUM_THREADS=1 it takes half a minute; on a busy machine, threads that wait for each other take many.

Measured steps are those of others (bench/forecasts/training.csv), our own of a card, and those of the second published
experiment (bench/forecast_measured.py). The fit finds shares of peaks, least times and factors of architectures that
make the predicted logarithms nearest to the measured ones. What a source has in common (its framework and version, what
it counts as a step) is a factor of its own, and its host another one; they are near 1 and not shipped: those of current
PyTorch are the measure. A device is then predicted from a fit that has not seen it. Of its source, other devices have.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.optimize import least_squares

from common import Figure, finish, parser_for
from forecast_measured import Measured, all_measured
from laptime.machine.hardware import EFFICIENCIES_FILE, known_devices
from laptime.model.hardware import Efficiencies, StepOperator
from laptime.model.quantities import Missing
from laptime.questions.forecast.reduce import (
    IN_EIGHTY,
    SHARPNESS,
    SMOOTHNESS,
    architecture_of,
    forecast_step,
    power_share,
    regime_of,
)

REGIMES = ("fp32", "tf32", "matrix")
ON_UNITS = REGIMES[1:]
CLASSES = ("convolutions", "products")
PRODUCTS = ("conv", "direct", "pointwise", "strided", "medium", "narrow", "grouped", "product", "attention", "flash")
EXECUTIONS = ("eager", "executor", "graph")
MOST_OFF, MOST_OFF_CONVOLUTIONS = 0.15, 0.10
HOLDS = (0.75, 0.90)
# Where the fit begins, and how strongly it is held there: a share that nothing measured stays as it is.
SHARES = (0.6, 0.5, 0.6, 0.5, 0.4, 0.2, 0.1, 0.6, 0.4, 0.4)
OF_BANDWIDTH, LEAST_US, MOVE_US, HOST_US, HALVED, DOUBLED = 0.6, 10.0, 5.0, (30.0, 30.0, 2.0), 1.4, 0.6
POWER = 0.3  # of a card that may draw half of the power for its peak, the share is this power of two lower
# Least times are held most: large networks, which most sources measured, hardly show them. Held, too, are shares that
# steps say little of: products, attention, and wide convolutions, which free would be predicted above their peak.
HELD: dict[str, float | tuple[float, ...]] = {
    "shares": (0.4, 0.1, 0.1, 0.1, 0.1, 0.1, 0.1, 0.5, 0.5, 0.5),
    "memory": 0.3,
    "least": 1.0,
}
HELD |= {"host": 0.3, "sources": 0.35, "architectures": 0.6, "halved": 0.3, "doubled": 0.3, "power": 0.3, "hosts": 0.5}
# The sources whose frameworks are nearest to those of today.
OURS = "laptime: PyTorch 2.11"
CURRENT = (OURS, "lambdal: PyTorch 2.3", "lambdal: PyTorch 1.13")
CORE_SCORE = 2_022  # of one core of our host, a Xeon of the fourth generation: 1,937 and 2,107 in two clouds
ROUNDS, ENOUGH = 100, 1e-6  # evaluations at most; the relative gain of one that ends a fit
UNSEEN = "unseen"
Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Table:
    """All measured steps, and their operators one after another, equal ones of a step once, with their number."""

    steps: list[Measured]
    kind: npt.NDArray[np.int64]
    flops: Floats
    bytes: Floats
    calls: Floats
    of: npt.NDArray[np.int64]
    starts: npt.NDArray[np.int64]
    peak: Floats
    bandwidth: Floats
    count: npt.NDArray[np.int64]
    ms: Floats
    regime: npt.NDArray[np.int64]
    source: npt.NDArray[np.int64]
    architecture: npt.NDArray[np.int64]
    execution: npt.NDArray[np.int64]
    halved: npt.NDArray[np.bool_]
    doubled: npt.NDArray[np.bool_]
    power: Floats
    sources: list[str]
    architectures: list[tuple[str, str]]


def main() -> int:
    parser = parser_for(__doc__)
    parser.add_argument("--write", action="store_true", help="write the fitted efficiencies where laptime reads them")
    given = parser.parse_args()
    table = make_table()
    fitted = fit(table, np.ones(len(table.steps), bool), begin(table))
    seen, left_out = predict(table, fitted), leave_out(table, fitted)
    spread = spreads(table, left_out)
    known = as_efficiencies(table, fitted, spread)
    check_same(table, fitted, known)
    show(table, seen, left_out)
    if given.write:
        EFFICIENCIES_FILE.write_text(as_toml(known), encoding="utf-8")
    details = {
        "steps": [
            {"source": step.source, "network": step.network, "device": step.device.short, "precision": step.precision,
             "execution": step.execution, "step_ms": step.step_ms, "predicted_ms": float(ms)}
            for step, ms in zip(table.steps, left_out, strict=True)
        ],
        "sources": dict(zip(table.sources, np.exp(parts_of(table, fitted)["sources"]).tolist(), strict=True)),
    }  # fmt: skip
    return finish("forecast_devices", figures_of(table, seen, left_out, spread), given.out, details=details)


def make_table() -> Table:
    steps, regimes, peaks = [], [], []
    for each in all_measured():
        found = regime_of(each.device, each.precision)
        if isinstance(found, Missing) or each.device.bandwidth_gb_s is None:
            continue
        steps.append(each)
        regimes.append(REGIMES.index(found[0]))
        peaks.append(found[1])
    listed = [_alike(step.operators) for step in steps]
    counts = np.array([len(each) for each in listed])
    operators = [operator for each in listed for operator in each]
    watts = watts_of_architectures()
    sources = sorted({step.source for step in steps})
    pairs = [(architecture_of(step.device), REGIMES[place]) for step, place in zip(steps, regimes, strict=True)]
    architectures = sorted(set(pairs))
    kinds = {name: place for place, name in enumerate((*PRODUCTS, "move", "update"))}
    return Table(
        steps=steps,
        kind=np.array([kinds[each.kind] for each in operators]),
        flops=np.array([each.flops for each in operators]),
        bytes=np.array([each.bytes for each in operators]),
        calls=np.array([float(often) for each in listed for often in each.values()]),
        of=np.repeat(np.arange(len(steps)), counts),
        starts=np.concatenate([[0], np.cumsum(counts)[:-1]]),
        peak=np.array(peaks),
        bandwidth=np.array([1e9 * (step.device.bandwidth_gb_s or 0) for step in steps]),
        count=np.array([float(each.total()) for each in listed]),
        ms=np.array([step.step_ms for step in steps]),
        regime=np.array(regimes),
        source=np.array([sources.index(step.source) for step in steps]),
        architecture=np.array([architectures.index(pair) for pair in pairs]),
        execution=np.array([EXECUTIONS.index(step.execution) for step in steps]),
        halved=np.array([step.device.halved_sums for step in steps]) & (np.array(regimes) > 0),
        doubled=np.array([step.device.doubled_fp32 for step in steps]) & (np.array(regimes) == 0),
        power=np.array([math.log(power_share(step.device, watts)) for step in steps]),
        sources=sources,
        architectures=architectures,
    )


def _alike(operators: Sequence[StepOperator]) -> Counter[StepOperator]:
    """Return equal operators once, with how many there are."""
    found: Counter[StepOperator] = Counter()
    for each in operators:
        found[replace(each, calls=1)] += each.calls
    return found


def watts_of_architectures() -> dict[str, float]:
    """Return the middle of what cards of an architecture may draw for a TFLOP/s of float32."""
    watts: dict[str, list[float]] = {}
    for device in known_devices():
        if device.power_w and device.fp32_tflops and device.kind != "cpu":
            watts.setdefault(architecture_of(device), []).append(device.power_w / device.fp32_tflops)
    return {name: statistics.median(each) for name, each in watts.items()}


def begin(table: Table) -> Floats:
    """Return the logarithms where the fit begins: shares, memory, least times, host, sources, architectures."""
    regimes = len(REGIMES)
    least = [LEAST_US] * regimes + [MOVE_US]
    return np.concatenate(
        [np.log(SHARES * regimes), np.log([OF_BANDWIDTH] * regimes), np.log(least), np.log(HOST_US),
         np.log([HALVED] * len(ON_UNITS)), np.log([DOUBLED] * len(CLASSES)), [POWER] * regimes,
         *(np.zeros(len(each)) for each in (table.sources, table.architectures, table.sources))]
    )  # fmt: skip


def parts_of(table: Table, fitted: Floats) -> dict[str, Floats]:
    """Return the parts of what is fitted, by name."""
    regimes = len(REGIMES)
    sizes = {
        "shares": regimes * len(PRODUCTS), "memory": regimes, "least": regimes + 1, "host": len(EXECUTIONS),
        "halved": len(ON_UNITS), "doubled": len(CLASSES), "power": regimes, "sources": len(table.sources),
        "architectures": len(table.architectures), "hosts": len(table.sources),
    }  # fmt: skip
    ends = np.cumsum(list(sizes.values()))
    return dict(zip(sizes, np.split(fitted, ends[:-1]), strict=True))


@dataclass(frozen=True)
class Times:
    """The parts of each step's time, in seconds: of operators, of least times, of the device, of the host."""

    computing: Floats
    moving: Floats
    least: Floats
    device: Floats
    host: Floats

    @property
    def both(self) -> Floats:
        both: Floats = (self.device**SHARPNESS + self.host**SHARPNESS) ** (1 / SHARPNESS)
        return both


def times_of(table: Table, fitted: Floats, *, with_sources: bool = True) -> Times:
    part = parts_of(table, fitted)
    shares = part["shares"].reshape(len(REGIMES), len(PRODUCTS))
    regime, is_product = table.regime[table.of], table.flops > 0
    halved = np.where(table.halved, np.concatenate([[0.0], part["halved"]])[table.regime], 0.0)
    doubled = np.where(table.doubled[table.of], part["doubled"][class_of(table)], 0.0)
    factor = (part["architectures"][table.architecture] + halved + part["power"][table.regime] * table.power)[table.of]
    share = np.exp(shares[regime, np.minimum(table.kind, len(PRODUCTS) - 1)] + factor + doubled)
    computing = np.where(is_product, table.flops / (table.peak[table.of] * share), 0.0)
    moving = table.bytes / (table.bandwidth[table.of] * np.exp(part["memory"][regime]))
    least = np.exp(np.where(is_product, part["least"][:-1][regime], part["least"][-1])) / 1e6
    device = np.add.reduceat(table.calls * (joined(computing, moving) + least), table.starts)
    own = part["hosts"][table.source] if with_sources else of_our_host(table, part)
    return Times(computing, moving, least, device, table.count * np.exp(part["host"][table.execution] + own) / 1e6)


def joined(computing: Floats, moving: Floats) -> Floats:
    """Return how long operators take that compute and move at once."""
    return np.asarray((computing**SMOOTHNESS + moving**SMOOTHNESS) ** (1 / SMOOTHNESS))


def class_of(table: Table) -> npt.NDArray[np.int64]:
    """Return for each operator whether it is a convolution, 0, or not, 1."""
    return (table.kind >= PRODUCTS.index("product")).astype(np.int64)


def predict(table: Table, fitted: Floats, *, with_sources: bool = True) -> Floats:
    """Return the predicted milliseconds of all steps, as laptime.questions.forecast.reduce does one by one."""
    sources = parts_of(table, fitted)["sources"][table.source]
    return 1e3 * times_of(table, fitted, with_sources=with_sources).both * (np.exp(sources) if with_sources else 1.0)


def slopes(table: Table, fitted: Floats) -> Floats:
    """Return how the logarithm of each prediction changes with each parameter."""
    steps, regimes, times = len(table.steps), len(REGIMES), times_of(table, fitted)
    of_device = times.device**SHARPNESS / times.both**SHARPNESS
    taken = joined(times.computing, times.moving)
    computes = times.computing**SMOOTHNESS / taken**SMOOTHNESS

    def per_step(column: npt.NDArray[np.int64], seconds: Floats, columns: int) -> Floats:
        """Add up what operators take by step and column, as a share of the step."""
        found = np.bincount(table.of * columns + column, table.calls * seconds, steps * columns)
        return np.asarray(found.reshape(steps, columns) * (of_device / times.device)[:, None])

    def spread_over(column: npt.NDArray[np.int64], value: Floats, columns: int) -> Floats:
        found = np.zeros((steps, columns))
        found[np.arange(steps), column] = value
        return found

    regime, is_product = table.regime[table.of], table.flops > 0
    kind = np.minimum(table.kind, len(PRODUCTS) - 1)
    shares = -per_step(regime * len(PRODUCTS) + kind, taken * computes, regimes * len(PRODUCTS))
    computing = shares.sum(axis=1)
    least = per_step(np.where(is_product, regime, regimes), times.least, regimes + 1)
    halved = spread_over(np.maximum(table.regime - 1, 0), computing * table.halved, len(ON_UNITS))
    doubled = -per_step(class_of(table), taken * computes * table.doubled[table.of], len(CLASSES))
    sources = len(table.sources)
    found = {
        "shares": shares,
        "memory": -per_step(regime, taken * (1 - computes), regimes),
        "least": least,
        "host": spread_over(table.execution, 1 - of_device, len(EXECUTIONS)),
        "halved": halved,
        "doubled": doubled,
        "power": spread_over(table.regime, computing * table.power, regimes),
        "sources": spread_over(table.source, np.ones(steps), sources),
        "architectures": spread_over(table.architecture, computing, len(table.architectures)),
        "hosts": spread_over(table.source, 1 - of_device, sources),
    }
    return np.concatenate([found[name] for name in parts_of(table, fitted)], axis=1)


def of_current(table: Table, values: Floats) -> float:
    """Return the mean of what was fitted to the current sources."""
    return float(np.mean([values[table.sources.index(each)] for each in CURRENT]))


def of_our_host(table: Table, part: dict[str, Floats]) -> float:
    """Return what was fitted to our own host, whose cores are known, when all is multiplied by current factors."""
    ours = table.sources.index(OURS)
    return float(part["hosts"][ours] + part["sources"][ours] - of_current(table, part["sources"]))


def fit(table: Table, used: npt.NDArray[np.bool_], start: Floats) -> Floats:
    """Return what makes the predictions of the used steps nearest to what was measured."""
    held = parts_of(table, begin(table))
    weights = np.concatenate([np.resize(HELD[name], len(part)) for name, part in held.items()])
    middle = begin(table)

    def off(fitted: Floats) -> Floats:
        errors: Floats = np.log(predict(table, fitted) / table.ms)[used]
        return np.concatenate([errors, weights * (fitted - middle)])

    def slope(fitted: Floats) -> Floats:
        return np.concatenate([slopes(table, fitted)[used], np.diag(weights)])

    found: Floats = least_squares(off, start, slope, loss="soft_l1", f_scale=0.2, max_nfev=ROUNDS, ftol=ENOUGH).x
    return found


def leave_out(table: Table, fitted: Floats) -> Floats:
    """Predict each device by a fit that has not seen it."""
    predicted = np.zeros(len(table.steps))
    for short in sorted({step.device.short for step in table.steps}):
        mine = np.array([step.device.short == short for step in table.steps])
        predicted[mine] = predict(table, fit(table, ~mine, fitted))[mine]
    return predicted


def has_others(table: Table) -> npt.NDArray[np.bool_]:
    """Return for each step whether its source has other devices: else what the source has in common is not known."""
    devices: dict[str, set[str]] = {}
    for step in table.steps:
        devices.setdefault(step.source, set()).add(step.device.short)
    return np.array([len(devices[step.source]) > 1 or step.source in CURRENT for step in table.steps])


def spreads(table: Table, predicted: Floats) -> dict[str, float]:
    """Return the spread of each regime: that with which the 80 % range holds 80 % of what was left out."""
    off, known = np.abs(np.log(predicted / table.ms)), has_others(table)
    others = [
        not any(
            architecture_of(other.device) == architecture_of(step.device) and other.device.short != step.device.short
            for other in table.steps
        )
        for step in table.steps
    ]
    alone = np.array(others)
    found = {
        name: float(np.quantile(off[mine], 0.8) / IN_EIGHTY)
        for place, name in enumerate(REGIMES)
        if (mine := (table.regime == place) & ~alone & known).any()
    }
    return found | {UNSEEN: max([*found.values(), float(np.quantile(off[alone & known], 0.8) / IN_EIGHTY)])}


def as_efficiencies(table: Table, fitted: Floats, spread: dict[str, float]) -> Efficiencies:
    """Return what is shipped: of the sources, the mean factor of the current ones is put into all rates."""
    part = parts_of(table, fitted)
    now, hosts = float(np.exp(of_current(table, part["sources"]))), float(np.exp(of_our_host(table, part)))
    shares = np.exp(part["shares"]).reshape(len(REGIMES), len(PRODUCTS)) / now
    memory, least, host = np.exp(part["memory"]) / now, np.exp(part["least"]) * now, np.exp(part["host"]) * hosts * now
    measured = {
        (REGIMES[table.regime[step]], each.kind)
        for step, each in (
            (step, operator) for step, measured in enumerate(table.steps) for operator in measured.operators
        )
    }
    factors: dict[str, dict[str, float]] = {}
    for (architecture, regime), factor in zip(table.architectures, np.exp(part["architectures"]), strict=True):
        factors.setdefault(architecture, {})[regime] = float(factor)
    used = [name for name in REGIMES if any(name == regime for regime, _ in measured)]
    return Efficiencies(
        products={
            name: {
                kind: float(shares[REGIMES.index(name), place])
                for place, kind in enumerate(PRODUCTS)
                if (name, kind) in measured
            }
            for name in used
        },
        memory={name: float(memory[REGIMES.index(name)]) for name in used},
        least_us={name: float(least[REGIMES.index(name)]) for name in used} | {"move": float(least[-1])},
        host_us=dict(zip(EXECUTIONS, host.tolist(), strict=True)),
        core_score=CORE_SCORE,
        architectures=factors,
        halved=dict(zip(ON_UNITS, np.exp(part["halved"]).tolist(), strict=True)),
        doubled=dict(zip(CLASSES, np.exp(part["doubled"]).tolist(), strict=True)),
        power=dict(zip(REGIMES, part["power"].tolist(), strict=True)),
        watts_per_tflop=watts_of_architectures(),
        spread=spread,
        cards={
            name: sorted({step.device.short for step, at in zip(table.steps, table.regime, strict=True) if at == place})
            for place, name in enumerate(REGIMES)
        },
    )


def check_same(table: Table, fitted: Floats, known: Efficiencies) -> None:
    """Make sure that laptime predicts what was fitted."""
    part = parts_of(table, fitted)
    now = float(np.exp(of_current(table, part["sources"])))
    plain = predict(table, fitted, with_sources=False) * now
    for step, ms in zip(table.steps, plain, strict=True):
        device = replace(step.device, core_score=None)
        found = forecast_step(step.operators, device, step.precision, step.execution, known)
        assert not isinstance(found, Missing), found
        assert abs(1e3 * found.step_s / ms - 1) < 1e-6, (step.network, step.device.short, found, ms)


def figures_of(table: Table, seen: Floats, left_out: Floats, spread: dict[str, float]) -> list[Figure]:
    known = has_others(table)
    off = (left_out / table.ms - 1)[known]
    convolves = np.array([step.convolves for step in table.steps])[known]
    wide = np.exp(IN_EIGHTY * np.array([spread[REGIMES[place]] for place in table.regime]))
    holds = ((table.ms >= left_out / wide) & (table.ms <= left_out * wide))[known]
    return [
        Figure("measured steps", float(len(table.steps))),
        Figure("of these, with other devices of their source", float(len(off))),
        Figure("devices", float(len({step.device.short for step in table.steps})), ""),
        Figure("off, of devices that the fit has seen", mean_off(seen / table.ms - 1), ""),
        Figure("off, of devices that were left out", mean_off(off), "", most=MOST_OFF),
        Figure("off, of convolution networks", mean_off(off[convolves]), "", most=MOST_OFF_CONVOLUTIONS),
        Figure("off, median", float(np.median(np.abs(off))), ""),
        Figure("measured steps within the 80 % range", float(holds.mean()), "", least=HOLDS[0], most=HOLDS[1]),
    ]


def mean_off(off: Floats) -> float:
    return float(np.abs(off).mean())


def show(table: Table, seen: Floats, left_out: Floats) -> None:
    """Print how far off each device and each network is."""
    for what, name_of in (
        ("device", lambda each: each.device.short),
        ("network", lambda each: each.network),
        ("source", lambda each: each.source),
    ):
        for name in sorted({name_of(step) for step in table.steps}):
            mine = np.array([name_of(step) == name for step in table.steps])
            off = left_out[mine] / table.ms[mine] - 1
            first = seen[mine] / table.ms[mine] - 1
            told = f"median {np.median(off):+.2f} off {mean_off(off):.2f} seen {mean_off(first):.2f}"
            print(f"{what:8} {name:46} {mine.sum():3} {told}")


def as_toml(known: Efficiencies) -> str:
    head = "# Written by bench/forecast_devices.py --write: what devices reach of their peaks (docs/forecast.md)."
    lines = [head, "", f"core_score = {known.core_score}"]
    for name in ("memory", "least_us", "host_us", "halved", "doubled", "power", "watts_per_tflop", "spread"):
        lines += ["", f"[{name}]", *rows_of(getattr(known, name))]
    lines += ["", "[cards]", *(f"{regime} = {json.dumps(cards)}" for regime, cards in known.cards.items())]
    for name in ("products", "architectures"):
        for key, values in getattr(known, name).items():
            lines += ["", f'[{name}."{key}"]', *rows_of(values)]
    return "\n".join(lines) + "\n"


def rows_of(values: dict[str, Any]) -> Sequence[str]:
    return [f"{_key(key)} = {value:.4g}" for key, value in values.items()]


def _key(name: str) -> str:
    return name if name.replace("_", "").isalnum() else f'"{name}"'


if __name__ == "__main__":
    sys.exit(main())
