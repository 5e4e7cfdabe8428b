"""The figures of inference: how long a call takes, and how many items per second at each batch size."""

from __future__ import annotations

from laptime.figures.facts import fact_figures
from laptime.figures.readings import reading_figures
from laptime.model.figure import Axis, Bar, Bars, Curve, Figure, Plane
from laptime.model.missing import Missing
from laptime.model.questions import inference_of
from laptime.model.record import InferLane, Record
from laptime.pages.numbers import number
from laptime.pages.words import short_name


def figures(record: Record) -> list[Figure]:
    """Return all figures of inference, the most telling first."""
    return [*_calls(record), *_throughput(record), *reading_figures(record), *fact_figures(record)]


def _calls(record: Record) -> list[Figure]:
    lanes = inference_of(record).lanes
    says = "The middle single call, with its interval. Shorter is faster."
    return [Figure("One call", Bars("ms", tuple(map(_bar, lanes))), says)] if lanes else []


def _bar(lane: InferLane) -> Bar:
    middle = lane.p50_ms
    if middle is None:
        ended = [heat.process.dnf.reason for heat in lane.heats if heat.process.dnf is not None]
        return Bar(short_name(lane.lane), None, words="; ".join(ended) or "no call was answered", kind="failed")
    told = [f"{number(middle.median)} ms"]
    told += [f"{name} {number(each.median)} ms" for name, each in (("p95", lane.p95_ms), ("p99", lane.p99_ms)) if each]
    low, high = (None if isinstance(end, Missing) else end for end in (middle.low, middle.high))
    return Bar(short_name(lane.lane), middle.median, low, high, ", ".join(told))


def _throughput(record: Record) -> list[Figure]:
    curves = [
        Curve(
            short_name(lane.lane),
            tuple((float(each.batch), each.items_per_s.median) for each in lane.batches if each.items_per_s),
        )
        for lane in inference_of(record).lanes
    ]
    shown = tuple(each for each in curves if each.points)
    across = Axis("batch", is_log=True)
    up = Axis(f"{record.workload.items} per second", from_zero=True)
    return [Figure("Throughput by batch", Plane(across, up, shown))] if shown else []
