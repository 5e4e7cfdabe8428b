"""The live table, the lists, JSON, and that none of it needs a framework."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from records import (
    BEST,
    CPU,
    CUDA,
    FASTER,
    FIRST,
    MACHINE,
    OUT_OF_MEMORY,
    WORKLOAD,
    record,
    unfinished,
    without_figures,
)
from shown import in_details

from laptime.api import showing
from laptime.api.showing import indented
from laptime.model.ask import Ask
from laptime.model.frameworks import install_command
from laptime.model.machine import Framework
from laptime.model.plan import Pace, Plan, PlannedLane
from laptime.model.process import Settings
from laptime.model.record import Progress, RaceAnswer
from laptime.model.visible import cells_wide
from laptime.model.workload import Adam, ProofPlan, Published, Workload
from laptime.questions.doctor.page import render_devices
from laptime.questions.race import page as race
from laptime.questions.scale.nouns import ScaleAnswer
from laptime.questions.sweep.nouns import SweepAnswer
from laptime.questions.tune.nouns import TuneAnswer
from laptime.questions.why.nouns import WhyAnswer
from laptime.show.pages.listing import render_plan, render_workloads
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import View
from laptime.show.pages.rows import render_records

NOW = Progress(
    "round 3 of at most 8", 24.0, 36.0, lanes={"torch/cpu/best": "turn 3 of 4"}, notes=("quiet: 22 of 24 turns",)
)


def shown(made, now=NOW, width=100):
    return "\n".join(live_lanes(made, now, View(width)))


def running():
    killed = without_figures("torch/cuda:0/best", "dnf", None, (unfinished(OUT_OF_MEMORY),))
    waiting = without_figures("torch/cpu/threads=1", "ok", None)
    return record((FIRST, BEST, killed, waiting), (FASTER,), status="running")


def test_the_display_shows_what_is_known_so_far():
    """The bar of the time, each lane's step as on the page, the factor of the last look, failures, and what runs."""
    head, first, best, killed, waiting, note = shown(running()).splitlines()
    assert re.fullmatch(r"cifar-cnn   round 3 of at most 8   ━+─+  24 s, at most 36 s more", head)
    assert (head.count("━"), head.count("─")) == (16, 24), "24 of 60 s, in 40 columns"
    assert re.fullmatch(r"  torch/cpu +█+ +92\.2 ms a step", first)
    assert re.fullmatch(r"  torch/cpu/best +█+[▏▎▍▌▋▊▉]? +62\.0 ms +1\.49x \(1\.38-1\.61\) +turn 3 of 4", best)
    assert killed.split() == ["torch/cuda:0/best", "DNF", "in", "warm-up"]
    assert waiting.split() == ["torch/cpu/threads=1"]
    assert note == "  quiet: 22 of 24 turns"
    assert "faster" not in shown(running())


@pytest.mark.parametrize("pairs", [1, 2])
def test_before_the_first_look_the_display_has_no_factor(pairs):
    """What two rounds seem to show is often withdrawn by the third."""
    made = replace(running(), answer=RaceAnswer((replace(FASTER, pairs=pairs),)))
    assert "1.49" not in shown(made)
    assert "1.49" in shown(running())


def test_of_many_lanes_the_display_shows_those_that_run():
    """A search tries dozens; a new one has no figures yet."""
    lanes = tuple(replace(BEST, name=f"torch/cpu/threads={number}") for number in range(1, 14))
    now = replace(NOW, lanes={"torch/cpu/threads=3": "done", "torch/cpu/threads=14": "builds"})
    _, known, fresh, _ = shown(record((FIRST, *lanes), (), status="running"), now).splitlines()
    assert known.split()[0] == "torch/cpu/threads=3"
    assert fresh.split() == ["torch/cpu/threads=14", "builds"]


def test_the_live_table_takes_brackets_for_brackets():
    """A user's name or message is no markup."""
    made = replace(running(), workload=replace(WORKLOAD, name="[red]my.py", items="[b]s"))
    page = shown(made, replace(NOW, doing="[bold]now[/bold]"))
    assert all(text in page for text in ("[red]my.py", "[bold]now[/bold]"))


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_live_table_cuts_no_figure(width):
    """Where no table fits there are sentences, with every figure in them."""
    page = shown(running(), width=width)
    assert "…" not in page
    for figure in (
        "92.2 ms",
        "62.0 ms",
        "1.49x (1.38-1.61)",
        "turn 3 of 4",
        "24 s, at most 36 s more",
        "22 of 24 turns",
    ):
        assert figure in page
    assert max(map(cells_wide, page.splitlines())) <= width


@pytest.mark.parametrize("blocks", [True, False])
def test_no_line_of_the_display_is_wider_than_the_terminal(blocks):
    """Nor has it a letter that a terminal of ASCII lacks; on the narrowest, no figure is cut either."""
    for width in range(24, 140):
        lines = live_lanes(running(), NOW, View(width, blocks=blocks))
        assert max(map(cells_wide, lines)) <= width, width
        assert blocks or "\n".join(lines).isascii()
        assert "62.0 ms" in "\n".join(lines)


def test_json_is_the_same_value_laid_out():
    """The room only indents; the shape is the writer's."""
    encoded = b'{"schema":1,"lanes":[{"name":"a","step_ms":1.25}]}'
    assert json.loads(encoded) == json.loads(indented(encoded))
    assert indented(b'{"a":[1]}') == '{\n  "a": [\n    1\n  ]\n}'


@dataclass(frozen=True, slots=True)
class Listed:
    id: str
    started: str
    question: str
    workload: str
    status: str
    summary: str
    unreadable: str | None = None
    is_fake: bool = False
    label: str | None = None


LISTED = (
    Listed("r-2026-11-20-a1b2", "2026-11-20T10:00:59+00:00", "race", "cifar-cnn", "finished", "2 lanes, 1.49x faster"),
    Listed("r-2026-11-19-c3d4", "", "", "", "unreadable", "", "it was written by a newer laptime (schema 2)"),
)


def test_records_are_listed_with_their_result():
    """One line a record, and one that cannot be read says why."""
    assert render_records(LISTED, 100).splitlines() == [
        "record               started             workload     status      result",
        "r-2026-11-20-a1b2    2026-11-20 10:00    cifar-cnn    finished    2 lanes, 1.49x faster",
        "r-2026-11-19-c3d4    unreadable: it was written by a newer laptime (schema 2)",
    ]


def test_an_empty_list_says_what_makes_a_record():
    """Nothing to show is an answer too."""
    assert render_records((), 80) == "No records yet; laptime race makes one.\n"


def workload():
    return Workload(
        name="cifar-cnn",
        title="CIFAR-10, six convolutions without activation",
        image_shape=(32, 32, 3),
        outputs=(10,),
        layers=(),
        loss="softmax_crossentropy",
        optimizer=Adam(),
        batch=100,
        steps_per_lap=500,
        laps=10,
        train_items=50_000,
        test_items=10_000,
        classes=tuple("0123456789"),
        data_layout="archive",
        items_made=100,
        items="images",
        loader="memory",
        proof=ProofPlan(),
        parameters=1_337_002,
        published=Published("", "", ()),
    )


def test_workloads_are_listed_with_their_size():
    """The catalogue at a glance."""
    assert render_workloads([workload()], 100).splitlines() == [
        "workload    parameters   batch   steps a lap   laps   what it is",
        "cifar-cnn    1,337,002     100           500     10   CIFAR-10, six convolutions without activation",
    ]


def machine():
    old = replace(CUDA, name="cuda:1", usable=False, reason="the driver is too old; upgrade it")
    torch = Framework("torch", "2.13.0", devices=(replace(CPU, features=("bf16", "compile")), CUDA, old))
    return replace(MACHINE, frameworks=(torch, Framework("jax", "0.4.35", problem="jaxlib is missing")))


def test_devices_are_listed_with_the_reason_why_not():
    """Each framework sees its own devices."""
    assert render_devices(machine(), 100).splitlines() == [
        "You can train on cuda:0 NVIDIA H200 (torch) and cpu (torch).",
        "2 x AMD EPYC 7763 (2 cores), 24 GB",
        "Linux 6.1, Python 3.11.7",
        "framework       device    what it is       memory    usable",
        "torch 2.13.0    cpu       AMD EPYC 7763         -    yes: bf16, compile",
        "torch 2.13.0    cuda:0    NVIDIA H200      150 GB    yes",
        "torch 2.13.0    cuda:1    NVIDIA H200      150 GB    no: the driver is too old; upgrade it",
        "jax 0.4.35      cannot run: jaxlib is missing",
    ]


def test_a_machine_without_a_framework_says_what_to_install():
    """The one thing that a newcomer can do next; python lanes are there without one."""
    alone = replace(MACHINE, frameworks=(Framework("python", "3.11.7", devices=(CPU,)),))
    for each in (MACHINE, alone):
        assert install_command("torch") in render_devices(each, 200)
    assert "python 3.11.7" in render_devices(alone, 80)
    assert "pip install" not in render_devices(machine(), 80)


def plan():
    best = Settings("best", layout="channels_last", optimizer="fused", threads=2, malloc="keep", batch=100)
    lanes = (
        PlannedLane("torch/cpu/as-written", "torch", CPU, Settings(batch=100)),
        PlannedLane("torch/cpu/best", "torch", CPU, best, {"MALLOC_TOP_PAD_": "1"}, ("two threads: the quota",)),
    )
    return Plan(
        Ask(), WORKLOAD, lanes, ProofPlan(), Pace(3, 8, adaptive=True, measure_s=2.5, window_s=0.25), ("a note",)
    )


def test_a_plan_tells_every_setting_and_what_the_budget_allows():
    """Who reads the plan knows what will run."""
    page = render_plan(plan(), 120)
    assert page.splitlines()[0] == "cifar-cnn  1,337,002 parameters  batch 100  500 steps a lap"
    told = (
        "preset=best precision=fp32 execution=eager layout=channels_last optimizer=fused threads=2 malloc=keep "
        "input=published workers=not set batch=100"
    )
    assert told in " ".join(page.split())
    assert "environment: MALLOC_TOP_PAD_=1" in page
    assert "two threads: the quota" in page
    assert "a note" in page
    assert (
        "heats: 3 to 8 of each lane, one after another, until every ratio is well within 5 % or the budget is used"
        in page
    )
    assert "each heat: 2.50 s of timing, at least 5 windows of 0.250 s" in page
    assert "proof: 10 steps of batch 32 at 0.01 of the learning rate, against float64" in page
    assert "budget: 1 min; 6 heats are 15 s of timing at least" in page


def test_a_plan_with_a_fixed_number_of_heats_says_so():
    """`--heats` leaves nothing to chance."""
    fixed = replace(plan(), pace=replace(plan().pace, heats_min=4, heats_max=4, adaptive=False))
    assert "heats: 4 of each lane, one after another\n" in render_plan(fixed, 100)


@settings(deadline=None)
@given(st.integers(40, 160))
def test_no_list_is_wider_than_the_page(width):
    """What a terminal breaks is no list."""
    pages = (
        render_records(LISTED, width),
        render_workloads([workload()], width),
        render_devices(machine(), width),
        render_plan(plan(), width),
    )
    assert width >= max(cells_wide(line) for page in pages for line in page.splitlines())


SCRIPT = """
import sys
FRAMEWORKS = {"torch", "tensorflow", "keras", "jax", "numpy"}

class Refuse:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in FRAMEWORKS:
            raise ImportError(name)

sys.meta_path.insert(0, Refuse())
from records import two_lanes
from laptime.show.pages import listing
from laptime.model.record import Progress
from laptime.questions.race import page as race
from laptime.show.pages.live import live_lanes
from laptime.show.pages.page import View
print(race.PART.render(two_lanes(), View(80)))
live_lanes(two_lanes(), Progress("now"), View(80))
assert not FRAMEWORKS & sys.modules.keys()
"""


def test_a_record_is_shown_where_no_framework_can_be_imported():
    """Reading a result needs nothing that made it."""
    paths = f"{Path(__file__).parent}:{':'.join(sys.path)}"
    told = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        check=False,
        capture_output=True,
        text=True,
        env={"PYTHONPATH": paths, "PYTHONUTF8": "1"},
    )
    assert told.stderr == ""
    assert "1.49x as fast" in told.stdout


def test_a_page_says_what_laptime_itself_took():
    """Where its record does; what the heats took is not in it."""
    made = record((FIRST,), overhead={"parent_processor_s": 1.24, "journal_s": 0.01})
    assert "laptime itself took 1.2 s of processor time.\n" in in_details(race.PART.render)(made, 100)
    assert "laptime itself" not in in_details(race.PART.render)(record((FIRST,)), 100)


@pytest.mark.parametrize(
    ("question", "answer"),
    [
        ("why", WhyAnswer((FASTER,))),
        ("scale", ScaleAnswer((), (FASTER,))),
        ("tune", TuneAnswer((FASTER,))),
        ("sweep", SweepAnswer()),
    ],
)
def test_heats_without_a_conclusion_are_shown_as_a_race(question, answer):
    """Those of a search that was interrupted: by the page and by the report, which keeps its question's name."""
    made = replace(record((FIRST, BEST), (FASTER,), status="interrupted"), question=question, answer=answer)
    assert showing.as_text(made, View(100)) == race.PART.render(made, View(100)).rstrip("\n")
    report = showing.report_of(made)
    assert report.question == question
    assert [each.title for each in report.figures] == [each.title for each in race.figures(made)]
