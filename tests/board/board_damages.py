"""Boards that are damaged or dishonest in a known way, by kind, from a seeded generator."""

from __future__ import annotations

import gzip
import json
import random
from collections.abc import Callable
from dataclasses import dataclass, replace

from board_records import (
    LINK,
    files_of,
    kept,
    record_name,
    row_names,
    steps_of,
    trained,
    with_times,
)
from measured import with_heat

from laptime.analysis.heats import estimate, mean_step_ms, scaled, steady_windows, step_ms
from laptime.analysis.lanes import compare_lanes
from laptime.model.errors import RecordError
from laptime.model.quantities import Estimate
from laptime.model.record import LaneResult, Record
from laptime.model.sample import ProofRun
from laptime.show.board.add import step_of
from laptime.show.board.evidence import strip
from laptime.show.board.reported import CARDS_TO_PREDICT, encode_predictions, predict_for_board
from laptime.show.board.row import decode_row, digest_of, encode_row, sealed
from laptime.trainings.workloads import CATALOGUE


@dataclass(frozen=True)
class Damage:
    """A name, and what it makes of the files of a board. A link is written as LINK and its target."""

    name: str
    make: Callable[[random.Random, dict[str, bytes]], dict[str, bytes]]


NUMBERS = (
    ("step_ms", "middle"),
    ("step_ms", "low"),
    ("step_ms", "high"),
    ("lap_s", "middle"),
    ("lap_s", "low"),
    ("lap_s", "high"),
    ("batch",),
    ("turns",),
    ("steps_per_lap",),
    ("machine", "cores"),
    ("machine", "memory_bytes"),
    ("factor", "ratio"),
    ("factor", "low"),
    ("proof", "worst"),
    ("proof", "steps"),
    ("disturbed_share",),
    ("peak_memory_bytes",),
)
WORDS = (
    ("training",),
    ("lane",),
    ("framework",),
    ("preset",),
    ("command",),
    ("date",),
    ("laptime",),
    ("record",),
    ("device", "label"),
    ("machine", "processor"),
    ("machine", "system"),
    ("machine", "architecture"),
)
HOSTILE = (
    "<script>alert(1)</script>",
    "../../../etc/passwd",
    "$(rm -rf ~)",
    "\x1b]0;x\x07",
    "'; drop table rows; --",
    "\u202egnp",
    "a" * 70_000,
    "\ud7ff\U0001f3c1",
    "\x00",
    "{{7*7}}",
    "-o /etc/shadow",
    "r-2026-11-27-0a0f/../../x",
)


def _tree(drawn: random.Random, files: dict[str, bytes]) -> tuple[str, dict]:
    name = drawn.choice(row_names(files))
    return name, json.loads(files[name])


def _put(tree: dict, place: tuple[str, ...], value: object) -> None:
    for part in place[:-1]:
        tree = tree[part]
    tree[place[-1]] = value


def _get(tree: dict, place: tuple[str, ...]) -> object:
    for part in place:
        tree = None if tree is None else tree[part]
    return tree


def _encoded(tree: dict, *, resealed: bool) -> bytes:
    data = (json.dumps(tree, indent=1, sort_keys=True) + "\n").encode()
    if not resealed:
        return data
    try:
        return encode_row(sealed(decode_row(data, "row")))
    except RecordError:  # it is no row any more, so its sender cannot seal it either
        return data


def _edited_number(*, resealed: bool) -> Callable[[random.Random, dict[str, bytes]], dict[str, bytes]]:
    def make(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
        while True:
            name, tree = _tree(drawn, files)
            place = drawn.choice(NUMBERS)
            value = _get(tree, place)
            if not value or isinstance(value, str):
                continue
            changed = value + drawn.randint(1, 9) if isinstance(value, int) else value * drawn.uniform(0.2, 0.98)
            _put(tree, place, changed)
            return {**files, name: _encoded(tree, resealed=resealed)}

    return make


def _hostile(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    name, tree = _tree(drawn, files)
    _put(tree, drawn.choice(WORDS), drawn.choice(HOSTILE))
    return {**files, name: _encoded(tree, resealed=True)}


def _wrong_type(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    name, tree = _tree(drawn, files)
    there = [place for place in (*NUMBERS, *WORDS) if _get(tree, place) is not None]
    _put(tree, drawn.choice(there), drawn.choice(([], {}, [[1]], True, {"missing": "x"})))
    return {**files, name: _encoded(tree, resealed=False)}


def _not_json(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    name = drawn.choice(row_names(files))
    data = files[name]
    cut = drawn.randrange(len(data))
    made = drawn.choice(
        (
            b"",
            b"\xff\xfe" + data,
            data[:cut],
            data.replace(b'"turns": ', b'"turns": NaN, "t": '),
            b"[" * 50_000,
            data.replace(b'"batch": ', b'"batch": 1e999, "b": '),
            data.replace(b'"batch": ', b'"batch": 9' + b"9" * 400 + b', "b": '),
            b'{"a":' * 5_000 + b"1" + b"}" * 5_000,
            data[:cut] + b"\x80" + data[cut + 1 :],
            b"null",
            b"[]",
            b"x" * 200_000,
        )
    )
    return {**files, name: made}


def _missing_field(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    name, tree = _tree(drawn, files)
    del tree[drawn.choice(sorted(set(tree) - {"digest"}))]
    return {**files, name: _encoded(tree, resealed=False)}


def _more_field(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    name, tree = _tree(drawn, files)
    tree[f"zz_{drawn.randrange(10**6)}"] = drawn.choice(("host", 1, None))
    return {**files, name: _encoded(tree, resealed=False)}


def _copied_digest(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    one, other = drawn.sample(row_names(files), 2)
    first, second = json.loads(files[one]), json.loads(files[other])
    if drawn.random() < 0.5:
        first["digest"] = second["digest"]
        return {**files, one: _encoded(first, resealed=False)}
    first["record_digest"] = f"{drawn.getrandbits(256):064x}"
    return {**files, one: _encoded(first, resealed=True)}


def _moved(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    name = drawn.choice(row_names(files))
    stem = name.rpartition("/")[2]
    place = drawn.choice(
        (
            f"rows/cifar-cnn/h100-sxm/{stem}",
            f"rows/scenes-cnn/h100-sxm/{stem}",
            f"rows/{stem}",
            f"rows/cifar-cnn/a b/{stem}",
            f"rows/cifar-cnn/..x/{stem}",
            f"rows/cifar-cnn/x/{stem}.bak",
            f"rows/cifar-cnn/x/{drawn.randrange(99)}-\u202e.json",
            f"rows/cifar-cnn/x/y/{stem}",
            f"rows/nothing/x/{stem}",
            f"{drawn.randrange(99)}.html",
            "records/README.md",
            f"records/{stem}",
        )
    )
    return {**{each: data for each, data in files.items() if each != name}, place: files[name]}


def _linked(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    name = drawn.choice([*row_names(files), record_name(files)])
    return {**files, name: LINK + drawn.choice((b"/etc/passwd", b"/dev/zero", b"../nowhere", b"/"))}


def _damaged_record(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    name = record_name(files)
    data = files[name]
    cut = drawn.randrange(20, len(data) - 1)
    made = drawn.choice(
        (
            b"",
            data[:cut],
            data + data,
            b"{}",
            gzip.compress(b"0" * (32 << 20)),
            data[:cut] + bytes([data[cut] ^ 1]) + data[cut + 1 :],
            gzip.compress(b"[" * 100_000),
            gzip.compress(b"null"),
            gzip.compress(b"\xff"),
            b"x" * (2 << 20),
        )
    )
    return {**files, name: made}


def _lonely(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    name = record_name(files)
    if drawn.random() < 0.5:
        return {each: data for each, data in files.items() if each != name}
    return {name: files[name]}


def _forged(
    change: Callable[[random.Random, Record], Record], *, strips: bool = True
) -> Callable[[random.Random, dict[str, bytes]], dict[str, bytes]]:
    """Return what writes a changed record with the rows and the digests that follow from it."""

    def make(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
        made = change(drawn, strip(kept()))
        forged = files_of(strip(made) if strips else made)
        # A lane that has no row any more: its sender keeps the one that it once had.
        digest = digest_of(gzip.decompress(forged[record_name(forged)]))
        for name in set(row_names(files)) - set(row_names(forged)):
            row = replace(decode_row(files[name], name), record_digest=digest)
            forged[name] = encode_row(sealed(row))
        return forged

    return make


def _change_lane(record: Record, drawn: random.Random, change: Callable[[LaneResult], LaneResult]) -> Record:
    place = drawn.randrange(len(record.lanes))
    return replace(record, lanes=tuple(change(lane) if at == place else lane for at, lane in enumerate(record.lanes)))


def _times(figure: Estimate, factor: float) -> Estimate:
    return Estimate(figure.median * factor, figure.low * factor, figure.high * factor)


def _forge_step(drawn: random.Random, record: Record) -> Record:
    factor = drawn.uniform(0.3, 0.95)
    return _change_lane(
        record,
        drawn,
        lambda lane: replace(lane, step_ms=_times(lane.step_ms, factor), lap_s=_times(lane.lap_s, factor)),
    )


def _forge_lap(drawn: random.Random, record: Record) -> Record:
    return _change_lane(record, drawn, lambda lane: replace(lane, lap_s=_times(lane.lap_s, drawn.uniform(0.3, 0.95))))


def _forge_interval(drawn: random.Random, record: Record) -> Record:
    share = drawn.uniform(0.05, 0.8)

    def narrow(figure: Estimate) -> Estimate:
        low = figure.median - share * (figure.median - figure.low)
        return Estimate(figure.median, low, figure.median + share * (figure.high - figure.median))

    return _change_lane(
        record, drawn, lambda lane: replace(lane, step_ms=narrow(lane.step_ms), lap_s=narrow(lane.lap_s))
    )


def _forge_round(drawn: random.Random, record: Record) -> Record:
    """A round is faster than its windows say."""

    def change(lane: LaneResult) -> LaneResult:
        heats = list(lane.heats)
        at = drawn.randrange(len(heats))
        heats[at] = replace(heats[at], step_ms=heats[at].step_ms * drawn.uniform(0.3, 0.95))
        step = estimate([heat.step_ms for heat in heats])
        return replace(lane, heats=tuple(heats), step_ms=step, lap_s=scaled(step, steps_of(lane) / 1e3))

    return _change_lane(record, drawn, change)


def _forge_factor(drawn: random.Random, record: Record) -> Record:
    (found,) = record.answer.comparisons
    changed = drawn.choice(
        (
            replace(found, ratio=found.ratio * drawn.uniform(1.05, 3)),
            replace(found, low=found.ratio * 0.999, high=found.ratio * 1.001),
            replace(found, alpha=drawn.uniform(0.2, 0.9)),
            replace(found, ratios=tuple(each * 1.2 for each in found.ratios)),
        )
    )
    return replace(record, answer=replace(record.answer, comparisons=(changed,)))


def _forge_speed(drawn: random.Random, record: Record) -> Record:
    """All is consistent, and no processor can do it."""
    return with_times(record, 10 ** drawn.uniform(-4.5, -3))


def _forge_fake(drawn: random.Random, record: Record) -> Record:
    """A fake whose lanes were given the name of a framework: its heats have no version of one."""
    versions = drawn.choice(({}, {"fake": "1"}, {"torsh": "2.13.0"}))
    return replace(record, lanes=tuple(replace(lane, framework=versions) for lane in record.lanes))


def _forge_losses(drawn: random.Random, record: Record) -> Record:
    assert record.reference is not None
    off = 1 + drawn.choice((-1, 1)) * 10 ** drawn.uniform(-5, -1)
    reference = record.reference

    def shifted(run: ProofRun) -> ProofRun:
        return replace(run, losses=tuple(each * off for each in run.losses))

    lanes = tuple(
        replace(lane, heats=tuple(with_heat(each, proofs=tuple(map(shifted, each.heat.proofs))) for each in lane.heats))
        for lane in record.lanes
    )
    moved = replace(reference, exact=shifted(reference.exact), twin=shifted(reference.twin))
    return replace(record, lanes=lanes, reference=moved)


def _forge_proof(drawn: random.Random, record: Record) -> Record:
    """The reference is the known one, and the lane learned something else."""
    off = 1 + 10 ** drawn.uniform(-4.5, -1)

    def change(lane: LaneResult) -> LaneResult:
        heats = tuple(
            with_heat(
                each, proofs=tuple(replace(run, losses=tuple(x * off for x in run.losses)) for run in each.heat.proofs)
            )
            for each in lane.heats
        )
        return replace(lane, heats=heats)

    return _change_lane(record, drawn, change)


def _forge_state(drawn: random.Random, record: Record) -> Record:
    return drawn.choice(
        (
            replace(record, status="interrupted"),
            replace(record, ask=replace(record.ask, seed=drawn.randint(1, 99))),
            replace(record, ask=replace(record.ask, label="of-my-host")),
            replace(record, ask=replace(record.ask, data="/home/me/cifar")),
            replace(record, machine=replace(record.machine, container="docker on secret-host")),
            replace(record, lanes=tuple(replace(lane, notes=("/home/me",)) for lane in record.lanes)),
            replace(record, tool={"name": "laptime", "version": "0.1.0", "user": "me"}),
            replace(record, ask=replace(record.ask, pretrained=True)),
        )
    )


def _forge_whole(drawn: random.Random, record: Record) -> Record:
    """The digest of the whole record is left out, or is none."""
    other = {} if drawn.random() < 0.5 else {"whole": drawn.choice(("", "0" * 63, "G" * 64, "see x.com"))}
    return replace(record, tool={"name": "laptime", "version": "0.1.0", **other})


def _forge_choice(drawn: random.Random, record: Record) -> Record:
    """Of each round of a lane only its fastest window counts."""

    def change(lane: LaneResult) -> LaneResult:
        heats = []
        for heat in lane.heats:
            windows = heat.heat.windows
            best = min(range(len(windows)), key=lambda at: step_ms(windows[at]))
            heats.append(replace(heat, counted=(best,), steady_from=best, step_ms=step_ms(windows[best])))
        step = estimate([heat.step_ms for heat in heats])
        return replace(lane, heats=tuple(heats), step_ms=step, lap_s=scaled(step, steps_of(lane) / 1e3))

    changed = _change_lane(record, drawn, change)
    by_name = {lane.name: lane for lane in changed.lanes}
    (found,) = record.answer.comparisons
    made = compare_lanes(by_name[found.lane], by_name[found.reference], record.ask.margin, found.alpha)
    return replace(changed, answer=replace(record.answer, comparisons=(made,)))


def _forge_card(drawn: random.Random, _record: Record) -> Record:
    """A card is called another one, which has other memory or another capability."""
    label = drawn.choice(("NVIDIA GeForce RTX 4090", "NVIDIA GeForce RTX 3060", "Tesla T4", "NVIDIA H200"))
    record = trained()
    return _change_lane(record, drawn, lambda lane: replace(lane, device=replace(lane.device, label=label)))


def _forge_name(drawn: random.Random, record: Record) -> Record:
    """A lane is called what it was not: faster settings, a card, a larger batch."""
    name = drawn.choice(
        ("torch/cpu/fastest", "torch/cuda:0/as-written", "torch/cpu/batch=200", "torch/cpu:1/as-written")
    )
    first, *others = record.lanes
    answer = replace(record.answer, comparisons=tuple(replace(x, reference=name) for x in record.answer.comparisons))
    return replace(record, lanes=(replace(first, name=name), *others), answer=answer)


def _another_id(drawn: random.Random, files: dict[str, bytes]) -> dict[str, bytes]:
    """The same numbers once more, as if they had been measured again."""
    day = f"2026-11-2{drawn.randrange(10)}"
    other = replace(strip(kept()), id=f"r-{day}-{drawn.randrange(16**4):04x}", started=f"{day}T00:00:00+00:00")
    return {**files, **files_of(other)}


def _forge_as_written(_drawn: random.Random, record: Record) -> Record:
    """The best lane is called as written, which it was not."""
    best = record.lanes[1]
    lane = replace(best, name="torch/cpu/as-written", settings=replace(best.settings, preset="as-written"))
    return replace(record, lanes=(lane,), answer=replace(record.answer, comparisons=()))


def _forge_words(drawn: random.Random, record: Record) -> Record:
    """A word of the author's own: as a date, or as a setting."""
    if drawn.random() < 0.5:
        return replace(record, started=drawn.choice(("see x.com/", "9999-99-99")) + "T00:00:00+00:00")
    return _change_lane(
        record, drawn, lambda lane: replace(lane, settings=replace(lane.settings, extra={"see": "example.com"}))
    )


def _forge_quiet(_drawn: random.Random, record: Record) -> Record:
    """Every window was disturbed; a stripped record keeps no finding of it."""
    lanes = tuple(
        replace(
            lane,
            heats=tuple(
                with_heat(result, windows=tuple(replace(each, flag="disturbed") for each in result.heat.windows))
                for result in lane.heats
            ),
        )
        for lane in record.lanes
    )
    return replace(record, lanes=lanes)


def _forge_fresh(_drawn: random.Random, _files: dict[str, bytes]) -> dict[str, bytes]:
    """All laps but the fastest are called the first of a process, so that they do not count."""
    record = trained()
    (run,) = record.answer.runs
    best = min(run.laps, key=lambda lap: lap.train_s)
    run = replace(run, laps=tuple(replace(lap, fresh=lap is not best) for lap in run.laps))
    step = estimate([step_of(run)])
    lanes = tuple(
        replace(lane, step_ms=step, lap_s=scaled(step, CATALOGUE["cifar-mlp"].steps_per_lap / 1e3))
        for lane in record.lanes
    )
    return files_of(strip(replace(record, lanes=lanes, answer=replace(record.answer, runs=(run,)))))


def _forged_training(drawn: random.Random, _files: dict[str, bytes]) -> dict[str, bytes]:
    """A lap that was faster than it was, or energy that no card takes."""
    record = trained()
    if drawn.random() < 0.5:
        watts = drawn.choice((drawn.uniform(0.1, 5), drawn.uniform(1_000, 9_000)))
        return files_of(
            _change_lane(record, drawn, lambda lane: replace(lane, energy_j_per_lap=watts * lane.lap_s.median))
        )
    (run,) = record.answer.runs
    last = replace(run.laps[-1], train_s=run.laps[-1].train_s * drawn.uniform(0.1, 0.9))
    answer = replace(record.answer, runs=(replace(run, laps=(*run.laps[:-1], last)),))
    return files_of(replace(record, answer=answer))


# What was left out of a record, with all that follows from the rest.


def again(record: Record, lanes: tuple[LaneResult, ...]) -> Record:
    """Return a record of other heats, with the steps, laps and factors that they give."""
    made = []
    for lane in lanes:
        step = estimate([heat.step_ms for heat in lane.heats], [heat.counts for heat in lane.heats])
        made.append(replace(lane, step_ms=step, lap_s=scaled(step, steps_of(lane) / 1e3)))
    named = {lane.name: lane for lane in made}
    factors = tuple(
        compare_lanes(named[each.lane], named[each.reference], record.ask.margin, each.alpha)
        for each in record.answer.comparisons
        if {each.lane, each.reference} <= set(named)
    )
    return replace(record, lanes=tuple(made), answer=replace(record.answer, comparisons=factors))


def _without_round(drawn: random.Random, record: Record) -> Record:
    """A slow round is left out of all lanes, and it was not the last."""
    left_out = drawn.randrange(len(record.lanes[0].heats) - 1)
    lanes = (
        replace(each, heats=tuple(heat for heat in each.heats if heat.heat.round != left_out)) for each in record.lanes
    )
    return again(record, tuple(lanes))


def _without_weight(drawn: random.Random, record: Record) -> Record:
    """A quiet round is kept, and counts next to nothing."""
    at = drawn.randrange(len(record.lanes[0].heats))
    lanes = (
        replace(each, heats=tuple(replace(heat, weight=1e-3 if heat.heat.round == at else None) for heat in each.heats))
        for each in record.lanes
    )
    return again(record, tuple(lanes))


def _without_heat(drawn: random.Random, record: Record) -> Record:
    """A heat is left out of one lane; its rounds are numbered again or not."""
    place, at = drawn.randrange(2), drawn.randrange(len(record.lanes[0].heats))
    lanes = list(record.lanes)
    heats = [heat for number, heat in enumerate(lanes[place].heats) if number != at]
    if drawn.random() < 0.5:
        heats = [with_heat(heat, round=number) for number, heat in enumerate(heats)]
    lanes[place] = replace(lanes[place], heats=tuple(heats))
    return again(record, tuple(lanes))


def _without_turn(drawn: random.Random, record: Record) -> Record:
    """A turn is left out of a round in both lanes."""
    lanes, at = [], drawn.randrange(len(record.lanes[0].heats))
    turn = drawn.randrange(4)
    for lane in record.lanes:
        heat = lane.heats[at]
        windows = tuple(each for each in heat.heat.windows if each.turn != turn)
        fewer = replace(with_heat(heat, windows=windows), counted=tuple(range(len(windows))), steady_from=0)
        fewer = replace(fewer, step_ms=mean_step_ms(steady_windows(fewer)))
        lanes.append(replace(lane, heats=(*lane.heats[:at], fewer, *lane.heats[at + 1 :])))
    return again(record, tuple(lanes))


def _copied_round(drawn: random.Random, record: Record) -> Record:
    """A fast round counts twice: with its own number again, or as one more."""
    at = drawn.randrange(len(record.lanes[0].heats))
    last = len(record.lanes[0].heats)
    number = at if drawn.random() < 0.5 else last
    lanes = (replace(each, heats=(*each.heats, with_heat(each.heats[at], round=number))) for each in record.lanes)
    return again(record, tuple(lanes))


def _without_factor(_drawn: random.Random, record: Record) -> Record:
    return replace(record, answer=replace(record.answer, comparisons=()))


def _other_pairs(drawn: random.Random, record: Record) -> Record:
    """A factor is said to be of more rounds than it is, or to be decided."""
    (told,) = record.answer.comparisons
    more = replace(told, pairs=told.pairs + drawn.randint(1, 9))
    other = replace(told, verdict="slower" if told.verdict == "faster" else "faster")
    return replace(record, answer=replace(record.answer, comparisons=(drawn.choice((more, other)),)))


def _windows_at_once(drawn: random.Random, record: Record) -> Record:
    """A window begins before the one ahead of it has ended, or has its steps."""

    def change(lane: LaneResult) -> LaneResult:
        at = drawn.randrange(len(lane.heats))
        heat, place = lane.heats[at], drawn.randrange(1, 5)
        before, window = heat.heat.windows[place - 1], heat.heat.windows[place]
        late = window.start_ns - before.end_ns + drawn.randint(1, 10**6)
        if drawn.random() < 0.5:
            moved = replace(window, start_ns=window.start_ns - late, end_ns=window.end_ns - late)
        else:
            moved = replace(window, first_step=before.first_step)
        windows = (*heat.heat.windows[:place], moved, *heat.heat.windows[place + 1 :])
        return replace(lane, heats=(*lane.heats[:at], with_heat(heat, windows=windows), *lane.heats[at + 1 :]))

    return _change_lane(record, drawn, change)


def _without_lap(drawn: random.Random, _files: dict[str, bytes]) -> dict[str, bytes]:
    """A slow lap is left out of a training, a lap has fewer steps, or there was another training."""
    record = trained()
    (run,) = record.answer.runs
    kind = drawn.randrange(3)
    at = drawn.randrange(1, len(run.laps) - 1)
    if kind == 0:
        run = replace(run, laps=run.laps[:at] + run.laps[at + 1 :])
    elif kind == 1:
        run = replace(run, laps=(*run.laps[:at], replace(run.laps[at], steps=1_000), *run.laps[at + 1 :]))
    else:
        run = replace(run, order=drawn.randint(1, 5))
    step = estimate([step_of(run)])
    laps = CATALOGUE["cifar-mlp"].steps_per_lap / 1e3
    lanes = tuple(replace(lane, step_ms=step, lap_s=scaled(step, laps)) for lane in record.lanes)
    return files_of(strip(replace(record, lanes=lanes, answer=replace(record.answer, runs=(run,)))))


def _predicted(drawn: random.Random, _files: dict[str, bytes]) -> dict[str, bytes]:
    """A prediction of another range, of another lane, or of a record that is not there."""
    record = strip(kept())
    made = predict_for_board(record, "torch/cpu/best", CARDS_TO_PREDICT, "2026-11-27", "0.1.0")
    files = files_of(record)
    kind, at = drawn.randrange(3), drawn.randrange(len(made.rows))
    row, factor = made.rows[at], drawn.uniform(0.3, 0.99)
    if kind == 0:
        row = replace(row, lap_low_s=row.lap_low_s * factor)
        made = replace(made, rows=(*made.rows[:at], row, *made.rows[at + 1 :]))
    elif kind == 1:
        made = replace(made, record=f"r-2026-11-27-{drawn.randrange(16**4):04x}")
    else:
        made = replace(made, lane="torch/cpu/as-written", preset="as-written")
    return {**files, "predicted/cifar-cnn.json": encode_predictions(made)}


DAMAGES = (
    Damage("a number without a new digest", _edited_number(resealed=False)),
    Damage("a number with a new digest", _edited_number(resealed=True)),
    Damage("a hostile word", _hostile),
    Damage("a wrong type", _wrong_type),
    Damage("no JSON", _not_json),
    Damage("a field that is missing", _missing_field),
    Damage("a field too many", _more_field),
    Damage("a copied digest", _copied_digest),
    Damage("another place", _moved),
    Damage("a link", _linked),
    Damage("a damaged record", _damaged_record),
    Damage("a row without a record", _lonely),
    Damage("a step of no round", _forged(_forge_step)),
    Damage("a lap of no steps", _forged(_forge_lap)),
    Damage("a narrow interval", _forged(_forge_interval)),
    Damage("a round of no windows", _forged(_forge_round)),
    Damage("a factor of no rounds", _forged(_forge_factor)),
    Damage("above the peak", _forged(_forge_speed)),
    Damage("a fake renamed", _forged(_forge_fake)),
    Damage("an unknown reference", _forged(_forge_losses)),
    Damage("a proof of other work", _forged(_forge_proof)),
    Damage("what is not allowed or stripped", _forged(_forge_state, strips=False)),
    Damage("the same numbers again", _another_id),
    Damage("a training", _forged_training),
    Damage("a name of another lane", _forged(_forge_name)),
    Damage("the fastest windows alone", _forged(_forge_choice)),
    Damage("best called as written", _forged(_forge_as_written)),
    Damage("words of its author", _forged(_forge_words)),
    Damage("a disturbed race", _forged(_forge_quiet)),
    Damage("first laps alone", _forge_fresh),
    Damage("a round left out", _forged(_without_round)),
    Damage("a heat left out", _forged(_without_heat)),
    Damage("a turn left out", _forged(_without_turn)),
    Damage("a round twice", _forged(_copied_round)),
    Damage("a factor left out", _forged(_without_factor)),
    Damage("a factor of other pairs", _forged(_other_pairs)),
    Damage("windows at one time", _forged(_windows_at_once)),
    Damage("a lap left out", _without_lap),
    Damage("another prediction", _predicted),
    Damage("no whole record", _forged(_forge_whole)),
    Damage("a round that hardly counts", _forged(_without_weight)),
    Damage("another card", lambda drawn, _files: files_of(_forge_card(drawn, trained()))),
)


def damaged(number: int) -> tuple[str, dict[str, bytes]]:
    """Return the name of a damage, and the files of a board that has it."""
    drawn = random.Random(number)
    damage = DAMAGES[number % len(DAMAGES)]
    return damage.name, damage.make(drawn, files_of(strip(kept())))
