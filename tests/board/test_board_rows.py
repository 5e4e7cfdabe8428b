"""Rows from real records: what is in them, what is not, and who has none."""

from __future__ import annotations

import gzip
import json
import shutil
from dataclasses import replace
from pathlib import Path

import board_damages
import board_records
import jsonschema
import pytest
from board_records import kept
from measured import with_heat

from laptime.analysis.heats import scaled
from laptime.model.ask import DataSource
from laptime.model.errors import RecordError, UsageError
from laptime.model.machine import Card, HostEnvironment, card_with
from laptime.model.quantities import Missing
from laptime.model.record import NOT_RELIABLE, SCHEMA, Finding, Parity, Writer
from laptime.questions.why.nouns import WhyAnswer
from laptime.show.board.add import add, remake
from laptime.show.board.check import check
from laptime.show.board.claims import find_faults
from laptime.show.board.evidence import canonical, compress, read_evidence, strip
from laptime.show.board.row import decode_row, encode_row, row_schema, row_schema_text

ROOT = Path(__file__).parents[2]
SECRET = "xanadu"  # a word that is nowhere in laptime


def added(record, board, lanes=()):
    return add(record, lanes, board, lambda stripped: [says for _, says in find_faults(stripped)])


@pytest.fixture(scope="module")
def board(tmp_path_factory):
    """A board with the rows of two real records: of a processor, and of a card."""
    folder = tmp_path_factory.mktemp("board")
    added(kept(), folder)
    added(kept("scenes-cnn-h100"), folder)
    return folder


def test_a_lane_has_a_row_with_what_its_record_says(board):
    row = board_records.row_of(board, "torch/cpu/best")
    lane = kept().lanes[1]
    assert (row.training, row.framework, row.preset, row.batch, row.steps_per_lap) == (
        "cifar-cnn",
        "torch",
        "best",
        100,
        500,
    )
    assert (row.step_ms.middle, row.step_ms.low, row.step_ms.high) == (
        lane.step_ms.median,
        lane.step_ms.low,
        lane.step_ms.high,
    )
    assert row.lap_s.middle == pytest.approx(67.68, abs=0.01)
    assert row.rounds == 8
    assert row.step_rounds_ms == tuple(heat.step_ms for heat in lane.heats)
    assert (row.factor.reference, len(row.factor.ratios)) == ("torch/cpu/as-written", 8)
    assert row.factor.ratio == pytest.approx(1.56, abs=0.01)
    assert (row.proof.status, row.proof.steps) == ("same", 10)
    assert (row.machine.cores, row.machine.system) == (2, "Linux 6.18")
    assert row.settings == {
        "dropout": "fast",
        "layout": "channels_last",
        "malloc": "keep",
        "optimizer": "fused",
        "threads": "2",
    }
    assert (row.command, row.date, row.laptime) == ("laptime race cifar-cnn", "2026-11-27", "0.1.0")


def test_a_card_is_known_by_the_table_of_devices(board):
    row = board_records.row_of(board, "torch/cuda:0/best")
    assert (row.device.short, row.device.label) == ("h100-sxm", "NVIDIA H100 80GB HBM3")
    assert row.place.parts[:3] == ("rows", "scenes-cnn", "h100-sxm")
    assert row.energy_j_per_lap == pytest.approx(1404, abs=1)


def test_a_row_fits_its_schema(board):
    schema = row_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    validator = jsonschema.Draft202012Validator(schema)
    for place in (board / "rows").rglob("*.json"):
        assert list(validator.iter_errors(json.loads(place.read_text()))) == []
    with pytest.raises(jsonschema.ValidationError):
        validator.validate({**json.loads(place.read_text()), "host": "x"})
    assert row_schema_text() == (ROOT / "docs" / "board.schema.json").read_text(encoding="utf-8")


def test_the_same_record_gives_the_same_bytes(board, tmp_path):
    added(kept(), tmp_path)
    for place in filter(Path.is_file, tmp_path.rglob("*")):
        assert place.read_bytes() == (board / place.relative_to(tmp_path)).read_bytes()
    record, data = read_evidence((tmp_path / "records" / f"{kept().id}.json.gz").read_bytes(), "it")
    assert canonical(strip(record)) == data
    row = board_records.row_of(tmp_path, "torch/cpu/best")
    assert decode_row(encode_row(row), "it") == row


OLDER = ROOT / "tests" / "recordings" / "stripped-schema-2.json.gz"


def test_a_stripped_record_of_an_older_schema_is_as_good_and_stays_as_it_is():
    """Its digest, which is in rows, is that of the bytes that were once written."""
    record, data = read_evidence(OLDER.read_bytes(), "it")
    assert data == gzip.decompress(OLDER.read_bytes())
    assert (json.loads(data)["schema"], record.schema) == (2, SCHEMA)
    assert all(result.heat.windows for lane in record.lanes for result in lane.heats)


def test_the_repositorys_records_stay_as_they_are_when_rows_are_made_again(tmp_path):
    """Those of an older schema, too: written in a newer one they would have to name a whole record."""
    shutil.copytree(ROOT / "board", tmp_path / "board")
    made = remake(tmp_path / "board")
    assert (made.changed, made.removed) == ((), ())
    assert check(tmp_path / "board", before=ROOT / "board").faults == ()


def test_a_record_that_names_no_whole_one_is_not_added(tmp_path):
    record = replace(kept(), tool={"name": "laptime", "version": "0.1.0"})
    with pytest.raises(RecordError, match="does not name the digest of its whole record"):
        added(record, tmp_path)
    assert list(tmp_path.iterdir()) == []


def first_heat(tree):
    return tree["lanes"][0]["heats"][0]


@pytest.mark.parametrize(
    "hide",
    [
        lambda tree: tree.update(note=SECRET),
        lambda tree: first_heat(tree).update(note=SECRET),
        lambda tree: first_heat(tree).update(heat={"note": SECRET}),
        lambda tree: first_heat(tree).update(steps_per_lap=SECRET),
        lambda tree: first_heat(tree).update(steps_per_lap=3),
        lambda tree: first_heat(tree).update(first_step_ns=SECRET),
        lambda tree: first_heat(tree).update(first_step_ms=SECRET),
        lambda tree: first_heat(tree).update(first_step_ms={"missing": SECRET}),
        lambda tree: first_heat(tree)["process"].update(node=SECRET),
        lambda tree: tree.update(schema=1),
    ],
)
def test_nothing_hides_in_a_stripped_record_of_an_older_schema(hide):
    """An upgrade must not drop what the check would have found."""
    tree = json.loads(gzip.decompress(OLDER.read_bytes()))
    hide(tree)
    written = json.dumps(tree, sort_keys=True, separators=(",", ":")).encode()
    with pytest.raises(RecordError):
        read_evidence(compress(written), "it")


def test_a_stripped_record_of_an_older_schema_in_another_order_is_refused():
    """Two keys of one name, of which a reader sees one, are another order, too."""
    data = gzip.decompress(OLDER.read_bytes())
    for changed in (data.replace(b":", b": ", 1), b'{"answer":"%s",' % SECRET.encode() + data[1:]):
        with pytest.raises(RecordError, match="is not stripped"):
            read_evidence(compress(changed), "it")


def test_nothing_private_is_on_a_board(tmp_path):
    """Names of hosts and users, paths, labels and serial numbers, wherever a record may have them."""
    record = kept()
    lanes = []
    for lane in record.lanes:
        details = {**lane.device.details, "uuid": f"GPU-{SECRET}", "bus": SECRET}
        heats = tuple(
            with_heat(
                result,
                process=replace(
                    result.heat.process,
                    notes=(f"/home/{SECRET}",),
                    node=SECRET,
                    versions={**result.heat.process.versions, f"/{SECRET}": "1"},
                ),
                windows=tuple(replace(each, flag=f"{SECRET} took 2 cores") for each in result.heat.windows[:1])
                + result.heat.windows[1:],
                proofs=tuple(replace(run, own_way=SECRET, batches=SECRET) for run in result.heat.proofs),
            )
            for result in lane.heats
        )
        lanes.append(
            replace(
                lane,
                heats=heats,
                notes=(SECRET,),
                device=replace(lane.device, details=details, reason=SECRET),
                peak_memory_bytes=Missing(f"/proc of {SECRET}"),
                framework={**lane.framework, f"x {SECRET}": "1"},
            )
        )
    card: Card = card_with(Missing(SECRET), uuid=SECRET, name=SECRET)
    machine = replace(
        record.machine,
        container=SECRET,
        cards=(card,),
        absent={SECRET: Missing(SECRET)},
        system=f"Linux 6.18.44-{SECRET}",
        surroundings=HostEnvironment(variables={"HOME": f"/home/{SECRET}"}),
        python=f"3.11.7 {SECRET}",
    )
    full = replace(
        record,
        lanes=tuple(lanes),
        machine=machine,
        writer=Writer(SECRET, 4711, SECRET),
        tool={**record.tool, "at": SECRET},
        ask=replace(record.ask, label=SECRET, sensors=(SECRET,)),
        overhead={SECRET: 1.0},
        started="2026-11-27T01:17:14+09:00",
        findings=(Finding("page faults", SECRET, {SECRET: SECRET}, SECRET, "likely"),),
        data=DataSource(
            f"/home/{SECRET}", "archive", made=True, train_items=1, test_items=1, classes=(SECRET,), digest=SECRET
        ),
    )
    made = added(full, tmp_path)
    assert len(made.files) == 3
    for place in made.files:
        data = Path(place).read_bytes()
        told = gzip.decompress(data) if place.endswith(".gz") else data
        assert SECRET.encode() not in told
        assert SECRET not in place
        assert b"4711" not in told
        assert b"01:17" not in told


REFUSED = {
    "a fake": lambda r: replace(r, lanes=tuple(replace(x, name=x.name.replace("torch", "fake")) for x in r.lanes)),
    "unproven": lambda r: replace(
        r, lanes=tuple(replace(x, parity=Parity("unproven", reason="input=one")) for x in r.lanes)
    ),
    "differs": lambda r: replace(r, lanes=tuple(replace(x, parity=Parity("differs", reason="x")) for x in r.lanes)),
    "NOT RELIABLE": lambda r: replace(r, findings=(Finding(NOT_RELIABLE, "it was busy", {}, "wait", "proven"),)),
    "no built-in training": lambda r: replace(r, workload=replace(r.workload, name="my.py:f", file="/x/my.py")),
    "it is interrupted": lambda r: replace(r, status="interrupted"),
    "a script": lambda r: replace(r, workload=replace(r.workload, command=("python", "x.py"))),
    "did not finish": lambda r: replace(
        r, lanes=tuple(replace(x, status="dnf", reason="out of memory") for x in r.lanes)
    ),
    "your own data": lambda r: replace(r, ask=replace(r.ask, data="/data")),
    "seed is 3": lambda r: replace(r, ask=replace(r.ask, seed=3)),
    "this is why": lambda r: replace(r, question="why", answer=WhyAnswer()),
    "no version of torch": lambda r: replace(r, lanes=tuple(replace(x, framework={}) for x in r.lanes)),
    "its rounds are too far apart": lambda r: replace(r, lanes=tuple(replace(x, lap_s=None) for x in r.lanes)),
    "several trainings": lambda r: replace(r, ask=replace(r.ask, others=("cifar-mlp",))),
    "is not the mean of its windows": lambda r: board_damages._forge_round(__import__("random").Random(1), r),
}


@pytest.mark.parametrize("why", REFUSED)
def test_what_has_no_row_is_refused_in_a_sentence(why, tmp_path):
    with pytest.raises(RecordError) as refused:
        added(REFUSED[why](kept()), tmp_path)
    assert why in refused.value.says
    assert refused.value.says.startswith(kept().id)
    assert list(tmp_path.iterdir()) == []


def test_another_record_with_the_same_id_is_not_written_over(tmp_path):
    """Ids are short, and two machines may draw the same one. The same record may be added again."""
    other = board_records.with_times(strip(kept()), 1.5)
    added(other, tmp_path)
    added(other, tmp_path)
    before = {place: place.read_bytes() for place in tmp_path.rglob("*.*")}
    with pytest.raises(RecordError, match="is another record, with the same id"):
        added(kept(), tmp_path)
    assert {place: place.read_bytes() for place in tmp_path.rglob("*.*")} == before


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("r-2026-11-27-ffff", {}, "holds the record r-2026-11-27-0a0f"),
        ("r-2026-11-27-0a0f", {"name": "x.py"}, "has no row: x.py is no built-in training"),
    ],
)
def test_a_record_of_a_stranger_is_not_made_again(name, change, says, tmp_path):
    record = strip(kept())
    data = canonical(replace(record, workload=replace(record.workload, **change)))
    (tmp_path / "records").mkdir()
    (tmp_path / "records" / f"{name}.json.gz").write_bytes(gzip.compress(data))
    with pytest.raises(RecordError, match=says):
        remake(tmp_path)
    assert [each.name for each in tmp_path.rglob("*.*")] == [f"{name}.json.gz"]


def test_a_batch_may_be_written_as_a_multiple(tmp_path):
    record = kept()
    lane = record.lanes[0]
    settings = replace(lane.settings, batch=200)
    heats = tuple(with_heat(heat, order=number) for number, heat in enumerate(lane.heats))
    lane = replace(lane, name="torch/cpu/batch=2x", settings=settings, heats=heats)
    lane = replace(lane, lap_s=scaled(lane.step_ms, 250 / 1e3))
    added(replace(record, lanes=(lane,), answer=replace(record.answer, comparisons=())), tmp_path)
    row = board_records.row_of(tmp_path, "torch/cpu/batch=2x")
    assert (row.batch, row.steps_per_lap) == (200, 250)


def test_lanes_can_be_chosen(tmp_path):
    made = added(kept(), tmp_path, ("cpu/best",))
    assert [each for each in made.files if "as-written" in each] == []
    assert len(made.files) == 2
    with pytest.raises(UsageError, match="no such lane"):
        added(kept(), tmp_path, ("cuda",))
