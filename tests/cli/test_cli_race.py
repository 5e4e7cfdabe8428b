"""Whole races on the fake back end: the virtual clock makes every figure exact."""

from __future__ import annotations

import pytest

pytestmark = pytest.mark.usefixtures("known_references")

EXACT = 1e-9
TOP_KEYS = {
    *("schema", "tool", "id", "started", "question", "status", "ask", "machine", "workload", "published", "data"),
    *("lanes", "answer", "findings", "reference", "elapsed_s", "beyond_budget_s", "overhead", "writer", "others"),
    *("cards", "parts", "sources"),
}
LANE_KEYS = {
    *("name", "framework", "device", "settings", "status", "reason", "step_ms", "lap_s", "items_per_s"),
    *("first_step_ms", "startup_s", "peak_memory_bytes", "device_memory_bytes", "energy_j_per_lap", "parity"),
    *("items_per_step", "heats", "notes", "whole", "appeal", "usage", "profile", "roofline", "absent", "training"),
    *("devices", "where"),
}
RESULT_KEYS = {"heat", "steady", "steady_from", "step_ms", "counted", "weight"}
HEAT_KEYS = {
    *("process", "order", "round", "steps_per_lap", "first_step_ns", "windows", "losses", "proofs", "examination"),
    *("fresh", "burst", "signs", "ranks", "exchanges", "first_losses", "census", "late_step", "early_ns", "changed"),
    *("work", "uncounted", "replays", "unreplayed", "seed", "script", "between_ms"),
}
PROCESS_KEYS = {
    *("lane", "status", "versions", "parameters", "items_per_step", "phases_s", "notes", "dnf"),
    *("peak_memory_bytes", "device_memory_bytes", "timeline", "node", "template", "reaches"),
}


def lane(record, name):
    return next(each for each in record["lanes"] if each["name"] == name)


@pytest.fixture(scope="module")
def record(shared_house):
    """Race three lanes once, for all who only read the record."""
    return shared_house.raced("cifar-cnn", "fake/cpu", "fake/cpu/best", "fake/cuda/batch=4x", "--seed", "7")


@pytest.mark.parametrize(
    ("name", "step_ms", "lap_s", "items_per_s"),
    [
        ("fake/cpu/as-written", 100.0, 50.0, 1_000.0),
        ("fake/cpu/best", 50.0, 25.0, 2_000.0),
        ("fake/cuda:0/batch=4x", 10.0, 1.25, 40_000.0),
    ],
)
def test_step_lap_and_rate_are_exact(record, name, step_ms, lap_s, items_per_s):
    """100 ms a step are 50 s a lap of 500 steps; at four times the batch a lap is a quarter of the steps."""
    found = lane(record, name)
    for key, expected in (("step_ms", step_ms), ("lap_s", lap_s), ("items_per_s", items_per_s)):
        estimate = found[key]
        assert [expected] * 3 == pytest.approx([estimate[end] for end in ("low", "median", "high")], rel=EXACT)
    assert found["step_ms"]["p95"] == pytest.approx(step_ms, rel=EXACT)


def test_ratios_are_exact(record):
    """By items a second against the first lane: 2 at its best, 40 on the accelerator at four times the batch."""
    assert [
        (each["lane"], each["reference"], pytest.approx(each["ratio"], rel=EXACT), each["verdict"], each["settled"])
        for each in record["answer"]["comparisons"]
    ] == [
        ("fake/cpu/best", "fake/cpu/as-written", 2.0, "faster", True),
        ("fake/cuda:0/batch=4x", "fake/cpu/as-written", 40.0, "faster", True),
    ]


def test_heats_turn_about(record):
    """A B C, C B A, A B C: the order of every heat is in the record, and when each turn was."""
    assert [[result["heat"]["order"] for result in each["heats"]] for each in record["lanes"]] == [
        [0, 3, 6],
        [1, 4, 7],
        [2, 5, 8],
    ]
    turns = [
        [window["turn"] for window in result["heat"]["windows"]] for each in record["lanes"] for result in each["heats"]
    ]
    assert all(each == list(range(len(each))) and len(each) >= 3 for each in turns)


def test_the_first_step_stands_apart(record):
    """300 ms of it are in no window, no step and no lap."""
    for each in record["lanes"]:
        assert each["first_step_ms"] == 300.0
        assert {300_000_000} == {result["heat"]["first_step_ns"] for result in each["heats"]}
    windows = [
        window for result in lane(record, "fake/cpu/as-written")["heats"] for window in result["heat"]["windows"]
    ]
    assert {100_000_000} == {step_ns for window in windows for step_ns in window["step_ns"]}


def test_start_up_has_its_phases(record):
    """Building takes 200 ms and the first proof ten steps on the virtual clock; start-up leaves the proof out."""
    found = lane(record, "fake/cpu/as-written")
    assert found["heats"][0]["heat"]["process"]["phases_s"]["proof"] == pytest.approx(1.0)
    for heat in found["heats"]:
        assert heat["heat"]["process"]["phases_s"]["build"] == pytest.approx(0.2)
        assert heat["heat"]["process"]["phases_s"]["first step"] == pytest.approx(0.3)
    assert 0.2 < found["startup_s"] < 60.0


def test_all_lanes_are_shown_to_do_the_same_work(record):
    """Float32 rounding of 5e-8 over ten steps, against a tolerance that is stated."""
    for each in record["lanes"]:
        parity = each["parity"]
        assert (parity["status"], parity["steps"], parity["reason"]) == ("same", 10, None)
        assert parity["worst"] == pytest.approx(5e-8, rel=1e-6)
        assert parity["worst"] < parity["tolerance"] < 1e-5


def test_the_record_has_the_shape_that_others_rely_on(record):
    """Every key of the record, its lanes and their heats."""
    assert record.keys() == {"exit code"} | TOP_KEYS
    assert [each.keys() for each in record["lanes"]] == [LANE_KEYS] * 3
    results = [result for each in record["lanes"] for result in each["heats"]]
    assert all(result.keys() == RESULT_KEYS and result["heat"].keys() == HEAT_KEYS for result in results)
    assert all(result["heat"]["process"].keys() == PROCESS_KEYS for result in results)
    assert record["answer"].keys() == {"comparisons", "alone", "nodes"}
    assert (record["schema"], record["question"], record["status"]) == (3, "race", "finished")
    assert record["tool"]["name"] == "laptime"
    assert record["workload"]["parameters"] == 1_337_002
    assert {"parent_processor_s", "journal_s"} <= record["overhead"].keys()
    assert list(record["lanes"][0]["energy_j_per_lap"]) == ["missing"]


def test_what_was_asked_is_in_the_record(record):
    """Word for word, with the defaults filled in."""
    asked = {"what": "cifar-cnn", "seed": 7, "heats": None, "budget_s": 60.0, "margin": 0.05, "pretrained": False}
    assert asked.items() <= record["ask"].items()
    assert record["ask"]["lanes"] == ["fake/cpu", "fake/cpu/best", "fake/cuda/batch=4x"]
    assert record["exit code"] == 0


def test_a_race_ends_with_its_answer_and_tells_its_heats_on_stderr(house, tmp_path):
    """A sentence, bars, the proof, what next; with --details all that the record holds; and a line a heat on stderr.

    The lane without a preset is named without one; who has a cache of its own has the reference computed.
    """
    house.cache = tmp_path / "own" / "laptime"
    answer = house.run("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "2")
    lines = answer.out.splitlines()
    (record,) = house.files()
    assert "fake/cpu/best is 2.00x as fast as fake/cpu as written (2.00-2.00)." in lines[0]
    assert "Same work: proven (10 steps against float64). 2 duets, " in lines[-2]
    assert lines[-1].startswith("Next: laptime why cifar-cnn fake/cpu/best · ")
    assert lines[-1].endswith(f" details: laptime show {record.stem} --details")
    assert answer.code == 0
    whole = house.done("show", "--details").out.splitlines()
    assert whole[0] == lines[0]
    assert whole[1].startswith("cifar-cnn  1,337,002 parameters  batch 100  500 steps a lap  ")
    assert whole[2].split() == ["lane", "a", "lap", "step", "images/s", "against", "first", "same", "work"]
    assert whole[3].split()[:8] == ["fake/cpu", "50.0", "s", "±0", "%", "100", "ms", "±0"]
    assert "fake/cpu/best  25.0 s ±0 %  50.0 ms ±0 %     2,000  2.00x faster (2.00-2.00)  yes" in whole
    assert whole[-1] == f"Saved as {record.stem}; laptime show {record.stem}"
    assert [line.split(";")[0] for line in answer.err.splitlines()] == [
        "computing the float64 reference of the proof, once",
        "round 1 of 2",
        "round 2 of 2",
    ]
    assert "round 1" not in answer.out


def test_a_quiet_race_says_nothing_on_the_way(house):
    """The table is all there is."""
    answer = house.run("race", "cifar-cnn", "fake/cpu", "--heats", "1", "-q")
    assert (answer.code, answer.err) == (0, "")
    assert "laptime show" in answer.out


def test_a_lane_in_the_first_place_means_the_default_workload(house):
    """`laptime race fake/cpu` races cifar-cnn; --json prints the record that is on disk."""
    record = house.raced("fake/cpu", "fake/cuda", "--heats", "1")
    assert record["workload"]["name"] == "cifar-cnn"
    assert [each["name"] for each in record["lanes"]] == ["fake/cpu/as-written", "fake/cuda:0/as-written"]
    assert house.kept() == {key: value for key, value in record.items() if key != "exit code"}


def test_no_line_is_wider_than_the_page(house):
    """COLUMNS is taken at its word, from a narrow page on; the same record is shown on wider ones."""
    raced = house.race("cifar-cnn", "fake/cpu", "fake/cpu/best+bf16", "--heats", "2", env={"COLUMNS": "40"})
    pages = {40: raced} | {width: house.done("show", env={"COLUMNS": str(width)}) for width in (60, 80, 120)}
    for width, page in pages.items():
        assert max(map(len, page.out.splitlines())) <= width
        assert "2.00x as fast" in " ".join(page.out.split())


def test_a_reduced_precision_prints_how_far_it_strays(house):
    """A thousandth in the fake's bf16, next to a float32 proof that holds."""
    answer = house.race("cifar-cnn", "fake/cuda", "fake/cuda/bf16", "--heats", "1")
    assert answer.code == 0
    assert "yes; bf16 strays 1e-3" in " ".join(answer.out.split())
    parity = lane(house.kept(), "fake/cuda:0/bf16")["parity"]
    assert (parity["strays_precision"], parity["strays"]) == ("bf16", pytest.approx(1e-3))
    assert parity["worst"] == pytest.approx(5e-8, rel=1e-6)


def test_lanes_that_do_other_work_are_found_out(house):
    """Their figures are shown, their factors are not, and the exit code says that the result is not to be trusted."""
    house.script(
        '["fake/cpu/best"]\nstray = 1e-3\n["fake/cpu/fastest"]\nstray = 3e-6\n["fake/cuda:0/*"]\njolt = 1e-3\n'
    )
    answer = house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "fake/cpu/fastest", "fake/cuda", "--heats", "2")
    assert answer.code == 4
    assert answer.out.count("not the same work") >= 3
    words = " ".join(answer.out.split())
    assert "x faster" not in answer.out
    record = house.kept()
    assert [each["parity"]["status"] for each in record["lanes"]] == ["same", "differs", "differs", "differs"]
    reasons = (
        "its loss differs by 1e-03 at step 1 in fp32",
        "its loss differs by 3e-06 at step 1 in fp32",
        "its weights moved otherwise in fp32",
    )
    for each, reason in zip(record["lanes"][1:], reasons, strict=True):
        assert reason in each["parity"]["reason"]
        assert reason in words
    assert [each["same_work"] for each in record["answer"]["comparisons"]] == [False] * 3


def test_a_lane_is_not_accused_by_one_chance_event(house):
    """What a second proof, from another seed, does not confirm was chance; and that is said."""
    house.script('["fake/cpu/best"]\nchance = 1e-3\n')
    answer = house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "1")
    assert answer.code == 0
    said = " ".join(answer.out.split())
    assert (
        "proven at the second try: in the first, its weights moved otherwise in fp32: 3.3 times what is allowed" in said
    )
    written, best = house.kept()["lanes"]
    assert (written["parity"]["chance"], written["appeal"]) == (None, None)
    assert (best["parity"]["status"], best["parity"]["reason"]) == ("same", None)
    assert best["parity"]["chance"].startswith("its weights moved otherwise")
    assert (best["appeal"]["seed"], len(best["appeal"]["runs"])) == (1_000_003, 1)
    assert house.done("show", "latest", "--details").out.count("proven at the second try") == 1


def test_only_what_may_be_chance_is_heard_again(house):
    """A first loss that differs is other work; weights that moved otherwise may be chance, and are asked about once."""
    house.script('["fake/cpu/best"]\nstray = 1e-3\n["fake/cuda*"]\njolt = 1e-3\n')
    answer = house.run("race", "cifar-cnn", "fake/cpu", "fake/cpu/best", "fake/cuda", "--heats", "1")
    assert answer.code == 4
    assert "fake/cpu/best seems to do other work" not in answer.err
    assert answer.err.count("fake/cuda:0/as-written seems to do other work: it is proven again from another seed") == 1
    appeals = [lane["appeal"] for lane in house.kept()["lanes"]]
    assert [appeal is not None for appeal in appeals] == [False, False, True]


def test_a_stray_that_rounding_may_explain_is_let_pass(house):
    """A proof that accuses honest lanes would be no use either."""
    house.script('["fake/cpu/best"]\nstray = 2e-7\njolt = 1e-5\n')
    assert house.race("cifar-cnn", "fake/cpu", "fake/cpu/best", "--heats", "1").code == 0


def test_a_heat_is_classed_by_its_windows(house):
    """The warm factors begin at its first window; a heat's figure is where it ended up, to the last digit."""
    house.script('["fake/cpu/best"]\nwarm = [0.5, 0.5, 0.5, 0.5, 0.5]\n["fake/cpu/fastest"]\nwarm = [3.0, 2.0, 1.5]\n')
    lanes = house.raced("cifar-cnn", "fake/cpu", "fake/cpu/best", "fake/cpu/fastest", "--heats", "1")["lanes"]
    heats = [heat for each in lanes for heat in each["heats"]]
    assert [heat["steady"] for heat in heats] == ["flat", "slowing", "warm-up"]
    assert [heat["steady_from"] for heat in heats] == [5, 5, 5]  # of all: they count the same steps
    assert [heat["step_ms"] for heat in heats] == pytest.approx([100.0, 50.0, 25.0], rel=EXACT)


def test_a_class_that_is_not_flat_is_told(house):
    """The reader learns it from the table's last words."""
    house.script('["fake/cpu/best"]\nwarm = [0.5, 0.5, 0.5, 0.5, 0.5]\n')
    answer = house.race("cifar-cnn", "fake/cpu/best", "--heats", "2")
    assert "fake/cpu/best: slowing in 2 of 2 heats." in answer.out


def test_a_loader_alone_proves_nothing_and_says_so(house):
    """It is timed like any lane, and not called the same work."""
    answer = house.race("cifar-cnn", "fake/cpu", "fake/cpu/input=only", "--heats", "1")
    assert answer.code == 0
    assert "unproven: input=only trains nothing" in " ".join(answer.out.split())
