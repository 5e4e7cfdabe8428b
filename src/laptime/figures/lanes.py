"""What the reports of several questions draw of lanes: a bar each, and the losses of their proofs."""

from __future__ import annotations

from laptime.model.figure import Axis, Bar, BarKind, Bars, Curve, Figure, Plane
from laptime.model.process import AS_WRITTEN, NO_TRAINING
from laptime.model.record import Estimate, LaneResult, Record
from laptime.model.sample import ProofRun
from laptime.pages.words import against_first, failure_words, lap_words, published_lap, short_name, step_words

NO_RESULT = "no result"


def lane_bars(record: Record) -> list[Figure]:
    """Return the lanes as bars of a lap's time, with the published laps below; or of a step's or an item's time."""
    lanes = [lane for lane in record.lanes if lane.settings.input not in NO_TRAINING]
    if not lanes:
        return []
    ran = [lane for lane in lanes if lane.step_ms is not None]
    if ran and all(lane.lap_s is not None for lane in ran):
        published = record.published.results if record.published else ()
        reported = tuple(
            Bar(each.device, lap_s, words=published_lap(lap_s), kind="published")
            for each in published
            if each.lap_s
            for lap_s in (sorted(each.lap_s)[len(each.lap_s) // 2],)
        )
        bars = tuple(_bar(lane, lane.lap_s, lap_words(lane), record) for lane in lanes)
        below = " Hollow circles are published results of other machines." if reported else ""
        return [
            Figure(
                "A lap on each lane", Bars("s a lap", bars, reported), f"Shorter is faster; whiskers are 95 %.{below}"
            )
        ]
    if len({lane.items_per_step for lane in ran}) <= 1:
        bars = tuple(_bar(lane, lane.step_ms, step_words(lane), record) for lane in lanes)
        return [Figure("A step on each lane", Bars("ms a step", bars), "Shorter is faster; whiskers are 95 %.")]
    bars = tuple(_bar(lane, lane.items_per_s, "", record) for lane in lanes)
    return [Figure(f"Throughput of each lane, {record.workload.items} per second", Bars("a second", bars))]


def _bar(lane: LaneResult, figure: Estimate | None, words: str, record: Record) -> Bar:
    failed = failure_words(lane)
    if failed or figure is None:
        why = [failed] if lane.reason is None or lane.reason in failed else [failed, lane.reason]
        return Bar(short_name(lane.name), None, words=": ".join(filter(None, why)) or NO_RESULT, kind="failed")
    against = "" if words else against_first(lane, record).text
    told = words or against
    low, high = figure.drawn_ends
    return Bar(short_name(lane.name), figure.median, low, high, told.lstrip(", "), _kind(lane))


def _kind(lane: LaneResult) -> BarKind:
    return "lane" if lane.settings.preset == AS_WRITTEN else "best"


def proof_figures(record: Record) -> list[Figure]:
    """Return the losses of the proof: lanes that did the same work lie on each other."""
    if record.reference is None:
        return []
    runs = {"float64 reference": record.reference.exact}
    for lane in record.lanes:
        first = next(
            (proof for result in lane.heats for proof in result.heat.proofs if proof.precision == "fp32"), None
        )
        if first is not None and lane.training in (None, record.workload.name):
            runs[short_name(lane.name)] = first
    curves = tuple(_losses(name, run) for name, run in runs.items())
    says = "The same steps from the same weights on the same batches. Lanes that did equal work show equal losses."
    across, up = Axis("step of the proof", is_whole=True), Axis("loss")
    return [Figure("Equal work: the losses of the proof", Plane(across, up, curves), says)] if len(runs) > 1 else []


def _losses(name: str, run: ProofRun) -> Curve:
    return Curve(name, tuple((number + 1.0, loss) for number, loss in enumerate(run.losses)))
