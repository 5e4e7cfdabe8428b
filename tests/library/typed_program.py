"""A program that uses the whole public API, for mypy and pyright. It is checked, and never run."""

from pathlib import Path
from typing import Any, Literal, assert_type

import laptime
from laptime import Missing


def loss(outputs: list[float], targets: list[float]) -> float:
    return outputs[0] - targets[0]


def training() -> laptime.Training:
    return laptime.Training(model=None, loss=loss, data=[])


def races() -> None:
    result = laptime.race(training, ["cpu", "cuda/best"], budget="1m", margin=0.05, items="all", sensors=["host"])
    assert_type(result, laptime.RaceResult)
    assert_type(result.ratio, laptime.Ratio)
    assert_type(result.ratio.value, float)
    assert_type(result.ratio.low, float | Missing)
    assert_type(result.ratio.same_work, bool | Missing)
    assert_type(result.ratio.verdict, Literal["faster", "slower", "not distinguishable"])
    assert_type(float(result.ratio), float)
    assert_type(result.ratios, dict[str, laptime.Ratio])
    assert_type(result.lanes, laptime.LaneList)
    assert_type(result.lanes["cuda/best"], laptime.LaneFigures)
    assert_type(result.lanes[0].step_ms, float | Missing)
    assert_type(result.lanes[0].ratio, laptime.Ratio | Missing)
    assert_type(result.lanes[:2], tuple[laptime.LaneFigures, ...])
    assert_type([lane.name for lane in result.lanes], list[str])
    assert_type(result.to_dict(), dict[str, Any])
    assert_type((result.id, result.status, result.page(width=80)), tuple[str, str, str])
    assert_type(result.record.elapsed_s, float)
    assert_type((result.to_html(), result.report("race.html"), result.report(format="svg")), tuple[str, Path, Path])
    laptime.race()
    laptime.race("cifar-cnn", "cpu", heats=3)
    laptime.race(Path("my.py:training"), budget=60, progress=True)
    laptime.race(laptime.Ask("cifar-cnn", ("cpu",)))
    again = laptime.race(against=result, fail_above="5%", label="topic")
    assert_type(again.comparison, laptime.CompareResult)
    laptime.race(against=Path("race.json"))


def questions() -> None:
    assert_type(laptime.train(training, laps=2, lr=[1e-3, 1e-4], batch=64), laptime.Result)
    assert_type(laptime.infer(training, "cpu"), laptime.Result)
    assert_type(laptime.profile(training), laptime.Result)
    assert_type(laptime.resume("latest"), laptime.Result)
    assert_type(laptime.load(), laptime.Result)
    found = laptime.why(training, budget="2m")
    assert_type(found, laptime.WhyResult)
    assert_type(found.verdict, str)
    assert_type([remedy.code for remedy in found.remedies], list[str])
    assert_type(laptime.sweep(training, "cpu", batch="1..64"), laptime.SweepResult)
    assert_type(laptime.Ask(sweep=laptime.SweepAsk(batch="8,16")).sweep, laptime.SweepAsk | None)
    assert_type(laptime.plan(training).lanes, tuple[str, ...])
    assert_type(laptime.devices().usable, tuple[str, ...])
    assert_type(laptime.doctor(Path("/data")).is_well, bool)
    assert_type([row.id for row in laptime.records()], list[str])
    assert_type(laptime.report(), Path)
    assert_type(laptime.report("@main", laptime.load(), output="both.md", format="md", open=True), Path)
    assert_type(laptime.load().to_pandas("steps"), Any)
    followed = laptime.history(training, "cuda/best", question="train", limit=100)
    assert_type(followed, laptime.HistoryResult)
    assert_type((followed.lane, followed.to_dict()), tuple[str, dict[str, Any]])
    assert_type([point.items_per_s.median for point in followed.points], list[float])
    compared = laptime.compare("@main", laptime.load(), fail_above="5%")
    assert_type(compared, laptime.CompareResult)
    assert_type([lane.ratio for lane in compared.lanes], list[float])
    assert_type((compared.failing, compared.passed), tuple[tuple[str, ...], bool])


def watched() -> None:
    with laptime.watching(label="mine", sensors=["host"], progress=False) as block:
        for number in laptime.steps([1, 2, 3]):
            assert_type(number, int)
    assert_type(block, laptime.Watching)
    assert_type(block.result, laptime.WatchResult)
    assert_type(block.result.loop.iterations, int)
    assert_type(block.result.loop.steady.data_wait_s, float | Missing)
    batches = laptime.steps("abc")
    assert_type(batches, laptime.WatchedBatches[str])
    assert_type((len(batches), batches.result), tuple[int, laptime.WatchResult])
    assert_type(laptime.watch(["python", "train.py"], label="mine").exit_code, int | None)


def mistakes() -> None:
    laptime.race(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    laptime.steps(3)  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    laptime.race(training, budgett="1m")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    laptime.history(training, question="why")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    laptime.race(training).ratio.value = 2.0  # type: ignore[misc]  # pyright: ignore[reportAttributeAccessIssue]
    try:
        laptime.load("none")
    except laptime.LaptimeError as error:
        assert_type((error.says, error.hint, error.exit_code), tuple[str, str, int])
