"""A record in other programs: tables, and files that the real readers of other tools read."""

from __future__ import annotations

import csv
import gzip
import io
import json
import resource
import socket
import subprocess
import sys
from dataclasses import replace
from math import nan
from pathlib import Path

import pytest
import watch_records
from measured import with_heat

from laptime import api
from laptime.cli import records
from laptime.model.errors import StoreError, UsageError
from laptime.store.exports import table_of
from laptime.store.schema import decode, encode

KEPT = Path(__file__).parents[1] / "recordings" / "schema-1"
QUESTIONS = ("race", "race-torch", "race-failed", "full-torch", "full-failed", "full-seeds", "infer", "why", "profile")
TELEMETRY = {"MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}


def kept(name):
    return decode(gzip.decompress((KEPT / f"{name}.json.gz").read_bytes()), name)


def rows_of(data):
    return list(csv.DictReader(io.StringIO(data.decode())))


@pytest.fixture(autouse=True)
def own_folder(tmp_path, monkeypatch):
    """Let every test write in a folder of its own, and no client phone home."""
    monkeypatch.chdir(tmp_path)
    for name, value in TELEMETRY.items():
        monkeypatch.setenv(name, value)


def test_the_command_knows_what_the_tables_have():
    """Its help is instant, so it does not import them."""
    assert all(name in records.TO_HELP for name in api.exports())
    assert api.export_tables == records.TABLE_NAMES


def test_trackers_are_found_by_their_entry_points_and_another_word_is_refused_with_the_targets():
    assert {"tensorboard", "mlflow", "wandb"} <= set(api.exports())
    with pytest.raises(UsageError) as refused:
        api.find_export("excel")
    assert "csv, json, parquet, pyperf" in refused.value.hint


def test_a_tracker_without_its_package_is_a_sentence_with_the_command():
    """Without entry points, as where laptime alone is installed."""
    hidden = "import importlib.metadata as it; it.entry_points = lambda **_: ()"
    asked = f"{hidden}; from laptime import api; api.find_export('mlflow')"
    ended = subprocess.run([sys.executable, "-c", asked], check=False, capture_output=True, text=True)
    assert "pip install ./extras/trackers" in ended.stderr


def test_a_package_that_cannot_be_loaded_takes_no_other_target_away():
    """It was a traceback, also of csv."""
    planted = (
        "import importlib.metadata as it; it.entry_points = lambda **_: [it.EntryPoint('lost', 'no_module:x', 'g')]"
    )
    asked = f"{planted}; from laptime import api; print(api.find_export('csv').name); api.find_export('lost')"
    ended = subprocess.run([sys.executable, "-c", asked], check=False, capture_output=True, text=True)
    assert ended.stdout == "csv\n"
    assert "--to lost: its package cannot be loaded: No module named 'no_module'" in ended.stderr


def test_the_page_has_every_target_with_what_it_needs_and_every_table():
    page = (Path(__file__).parents[2] / "docs" / "export.md").read_text(encoding="utf-8")
    told = [[cell.strip() for cell in line.split("|")[1:-1]] for line in page.splitlines() if line.startswith("| ")]
    needs = {row[0]: row[2] for row in told if len(row) == 4}
    assert {row.name: row.needs or "nothing" for row in api.exports().values()}.items() <= needs.items()
    assert set(api.export_tables) <= {row[0] for row in told if len(row) == 2}


def test_a_race_is_a_row_a_heat():
    record = kept("race")
    rows = rows_of(api.export_bytes(record, "csv"))
    lane = record.lanes[0]
    assert len(rows) == sum(len(each.heats) for each in record.lanes)
    assert {row["lane"] for row in rows} == {each.name for each in record.lanes}
    assert float(rows[0]["step_ms"]) == lane.heats[0].step_ms
    assert float(rows[0]["items_per_s"]) == pytest.approx(lane.items_per_step * 1e3 / lane.heats[0].step_ms)
    assert {"setting_precision", "setting_preset", "framework", "device"} <= rows[0].keys()


@pytest.mark.parametrize("name", QUESTIONS)
@pytest.mark.parametrize("target", ["csv", "json", "pyperf"])
def test_a_record_of_every_question_is_exported(name, target):
    assert api.export_bytes(kept(name), target)


@pytest.mark.parametrize(
    ("name", "table"), [("race", "heats"), ("full-torch", "laps"), ("infer", "answers"), ("profile", "lanes")]
)
def test_the_table_by_default_is_that_of_the_question(name, table):
    assert table == table_of(kept(name), None)[0]


def test_a_table_that_a_record_has_not_is_refused_with_those_it_has():
    with pytest.raises(UsageError, match="has no laps") as caught:
        api.export_bytes(kept("race"), "csv", "laps")
    assert caught.value.hint == "It has: heats, lanes, windows, steps."


def test_a_watched_script_is_a_row_a_window_of_each_process():
    """What was counted and what its parts took; one in which no training was seen has no table, and none is written."""
    record = watch_records.ranks()
    name, rows = table_of(record, None)
    loops = [each.loop for each in record.answer.processes]
    assert (name, len(rows)) == ("windows", sum(len(each.windows) for each in loops))
    assert sum(row["iterations"] for row in rows if row["process"] == 4712) == loops[1].iterations == 80
    last = rows[-1]
    assert (last["counts"], last["rank"]) == (True, 1)
    assert last["step_ms"] == pytest.approx(6.1, abs=0.05)
    assert (last["data_ms"], last["forward_backward_ms"], last["optimizer_ms"]) == pytest.approx((2.5, 3.0, 0.4))
    assert rows_of(api.export_bytes(record, "csv"))[0]["rank"] == "0"
    with pytest.raises(UsageError, match="has no rows for a table"):
        api.export_bytes(watch_records.unseen(), "csv")


def test_what_is_missing_is_an_empty_cell_in_csv_and_its_reason_in_json():
    record = kept("race")
    assert rows_of(api.export_bytes(record, "csv", "lanes"))[0]["energy_j_per_lap"] == ""
    (first, *_) = json.loads(api.export_bytes(record, "json", "lanes"))["rows"]
    assert set(first["energy_j_per_lap"]) == {"missing"}


def test_a_hostile_name_is_no_formula_and_no_new_line():
    """A spreadsheet would run it."""
    record = kept("race")
    lane = replace(record.lanes[0], name="=HYPERLINK(1)\n\x1b[8m")
    rows = rows_of(api.export_bytes(replace(record, lanes=(lane,)), "csv"))
    assert rows[0]["lane"] == "'=HYPERLINK(1)"


def test_a_loss_that_is_not_finite_is_strict_json():
    record = kept("race")
    heat = with_heat(record.lanes[0].heats[0], losses=(nan,))
    record = replace(record, lanes=(replace(record.lanes[0], heats=(heat,)),))
    (row,) = json.loads(api.export_bytes(record, "json"))["rows"]
    assert row["last_loss"] == {"missing": "not a finite number: nan"}


def test_pyperf_reads_each_lane_as_a_benchmark(tmp_path):
    """By its own reader: values are steps in seconds, heats are runs."""
    pyperf = pytest.importorskip("pyperf")
    record = kept("race")
    place = api.export(record, "pyperf")
    assert place == f"{record.id}.pyperf.json"
    suite = pyperf.BenchmarkSuite.load(place)
    assert suite.get_benchmark_names() == [lane.name for lane in record.lanes]
    for lane in record.lanes:
        bench = suite.get_benchmark(lane.name)
        assert len(bench.get_runs()) == len(lane.heats)
        assert bench.median() == pytest.approx(lane.step_ms.median / 1e3, rel=0.2)
        assert bench.get_unit() == "second"
    assert suite.get_metadata()["laptime_record"] == record.id


def test_parquet_is_read_by_its_own_reader():
    parquet = pytest.importorskip("pyarrow.parquet")
    record = kept("race")
    table = parquet.read_table(api.export(record, "parquet", what="windows"))
    assert table.schema.metadata[b"laptime.record"] == record.id.encode()
    assert table.column("step_ms").to_pylist() == [row["step_ms"] for row in table_of(record, "windows")[1]]
    for name in QUESTIONS:
        assert parquet.read_table(api.export(kept(name), "parquet", f"{name}.parquet")).num_rows >= 1


@pytest.mark.parametrize("name", ["race", "full-torch", "infer"])
def test_tensorboard_reads_each_lane_as_a_run(name):
    """By its own reader of events."""
    pytest.importorskip("tensorboardX")
    reader = pytest.importorskip("tensorboard.backend.event_processing.event_accumulator").EventAccumulator
    record = kept(name)
    place = Path(api.export(record, "tensorboard"))
    runs = sorted(place.iterdir())
    read = [reader(str(run)) for run in runs]
    assert len(runs) >= len(record.lanes)
    for each in read:
        each.Reload()
    tags = {tag for each in read for tag in each.Tags()["scalars"]}
    wanted = {"race": {"window_step_ms", "result/step_ms"}, "full-torch": {"accuracy"}, "infer": {"items_per_s"}}
    assert wanted[name] <= tags
    if name == "race":
        heats = record.lanes[0].heats
        assert len(read[0].Scalars("window_step_ms")) == sum(len(result.heat.windows) for result in heats)
    with pytest.raises(UsageError, match="exists already"):
        api.export(record, "tensorboard")


def test_mlflow_reads_each_lane_as_a_run():
    """By its own client, from a file of its own."""
    client_class = pytest.importorskip("mlflow.tracking").MlflowClient
    record = kept("race")
    place = api.export(record, "mlflow")
    client = client_class(tracking_uri=f"sqlite:///{Path(place).absolute()}")
    experiment = client.get_experiment_by_name("laptime")
    runs = client.search_runs([experiment.experiment_id])
    assert {run.info.run_name for run in runs} == {lane.name for lane in record.lanes}
    (first,) = [run for run in runs if run.info.run_name == record.lanes[0].name]
    assert first.data.metrics["result/step_ms"] == record.lanes[0].step_ms.median
    assert first.data.params["setting_precision"] == "fp32"
    assert len(client.get_metric_history(first.info.run_id, "window_step_ms")) > 3
    api.export(record, "mlflow")
    assert len(client.search_runs([experiment.experiment_id])) == 2 * len(record.lanes)


def test_an_mlflow_server_that_is_down_is_a_sentence():
    """And it comes within seconds."""
    pytest.importorskip("mlflow.tracking")
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        place = f"http://127.0.0.1:{held.getsockname()[1]}"
        with pytest.raises(StoreError, match=f"MLflow at {place} did not take the record"):
            api.export(kept("race"), "mlflow", place)


CLIENT = """
import http.client
class MlflowClient:
    def __init__(self, tracking_uri):
        self.server = tracking_uri.removeprefix("http://")
    def get_experiment_by_name(self, name):
        asked = http.client.HTTPConnection(self.server)
        asked.request("GET", "/" + name)
        return asked.getresponse().read()
"""


@pytest.mark.parametrize("sends", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\n{"])
def test_an_mlflow_server_that_accepts_and_never_answers_is_a_sentence(house, sends):
    """A real server, and a client that waits without an end: the limit is laptime's own. So it needs no MLflow."""
    place = house.folder / "a.json"
    place.write_bytes(encode(kept("race")))
    package = house.folder / "client" / "mlflow"
    package.mkdir(parents=True)
    (package / "__init__.py").touch()
    (package / "entities.py").touch()
    (package / "tracking.py").write_text(CLIENT)
    paths = ":".join([str(package.parent), *sys.path])
    waits = {"MLFLOW_HTTP_REQUEST_TIMEOUT": "0.5", "MLFLOW_HTTP_REQUEST_MAX_RETRIES": "0", "PYTHONPATH": paths}
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(60)
        address = f"http://127.0.0.1:{server.getsockname()[1]}"
        started = house.start("export", str(place), "--to", "mlflow", "-o", address, env=waits)
        connection, _ = server.accept()
        with connection:
            connection.sendall(sends)
            answer = house.finish(started)
    assert answer.code == 3
    first, second = answer.err.splitlines()
    assert first == f"laptime: MLflow at {address} did not take the record: it did not answer within 0.5 s"
    assert second.startswith("  Check that it runs there, or name a file with -o. MLFLOW_HTTP_REQUEST_TIMEOUT is ")


def test_a_silent_server_is_a_sentence_with_mlflows_own_client(monkeypatch):
    pytest.importorskip("mlflow.tracking")
    monkeypatch.setenv("MLFLOW_HTTP_REQUEST_TIMEOUT", "1")
    with socket.create_server(("127.0.0.1", 0)) as server:
        place = f"http://127.0.0.1:{server.getsockname()[1]}"
        with pytest.raises(StoreError, match="did not take the record: it did not answer within 2 s"):
            api.export(kept("race"), "mlflow", place)


def test_wandb_writes_runs_that_can_be_sent_later():
    pytest.importorskip("wandb")
    record = kept("race")
    place = Path(api.export(record, "wandb"))
    assert len(list(place.rglob("*.wandb"))) == len(record.lanes)


@pytest.mark.parametrize(
    ("target", "package"),
    [("parquet", "pyarrow"), ("tensorboard", "tensorboardX"), ("mlflow", "mlflow"), ("wandb", "wandb")],
)
def test_a_client_that_is_not_installed_is_named_with_its_command(house, target, package):
    """In this process it is hidden; nothing is written."""
    place = house.folder / "a.json"
    place.write_bytes(encode(kept("race")))
    hiding = house.folder / "hiding"
    hiding.mkdir()
    (hiding / f"{package}.py").write_text(f"raise ModuleNotFoundError('no', name={package!r})")
    paths = ":".join([str(hiding), *sys.path])
    answer = house.done("export", str(place), "--to", target, code=2, env={"PYTHONPATH": paths})
    assert f"this export needs {package}, which is not installed" in answer.err
    assert f"pip install {package}" in answer.err
    assert sorted(each.name for each in house.folder.iterdir()) == ["a.json", "hiding"]


def test_a_full_disk_leaves_nothing_half_written(house):
    place = house.folder / "a.json"
    place.write_bytes(encode(kept("race")))

    def full_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (512, 512))

    answer = house.done("export", str(place), "--to", "csv", "--what", "steps", code=3, preexec_fn=full_disk)
    assert "could not be written" in answer.err
    assert [each.name for each in house.folder.iterdir()] == ["a.json"]


@pytest.mark.parametrize("target", ["parquet", "tensorboard", "mlflow", "wandb"])
def test_a_full_disk_leaves_nothing_of_a_client_either(house, target):
    """A sentence, no traceback from a thread, and no folder."""
    pytest.importorskip(api.find_export(target).needs)
    place = house.folder / "a.json"
    place.write_bytes(encode(kept("race")))

    def full_disk():
        resource.setrlimit(resource.RLIMIT_FSIZE, (2_000, 2_000))

    house.done("export", str(place), "--to", target, code=3, preexec_fn=full_disk, warnings="ignore")
    assert [each.name for each in house.folder.iterdir()] == ["a.json"]


def test_the_command_prints_or_writes(house):
    """What cannot be meant is refused in words."""
    place = house.folder / "a.json"
    place.write_bytes(encode(kept("race")))
    printed = house.done("export", str(place), "--to", "csv", "-o", "-").out
    assert printed.startswith("record,started,workload,lane")
    told = house.done("export", str(place), "--to", "csv", "--json").json
    assert (house.folder / told["place"]).read_text() == printed
    assert "cannot be printed" in house.done("export", str(place), "--to", "wandb", "-o", "-", code=2).err
    assert "has no tables" in house.done("export", str(place), "--to", "pyperf", "--what", "laps", code=2).err
