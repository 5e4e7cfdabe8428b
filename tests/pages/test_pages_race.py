"""The final table: golden pages, and what must hold of every page.

The pages in tests/golden are compared letter by letter. After a change that is meant, write them again with
`LAPTIME_REGOLD=1 python -m pytest tests/pages`, and read the difference before it is kept.
"""

from __future__ import annotations

import re
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from measured import with_heat
from records import (
    BEST,
    FASTER,
    FIRST,
    OUT_OF_MEMORY,
    SAME,
    SHOWN,
    STDERR,
    WORKLOAD,
    comparison,
    heat,
    lane,
    one_heat,
    record,
    two_lanes,
    unfinished,
    without_figures,
)
from shown import in_details

from golden import assert_agreed
from laptime.model.ask import Ask
from laptime.model.process import Dnf, Template
from laptime.model.quantities import Missing
from laptime.model.record import Finding, Parity, RaceAnswer
from laptime.model.visible import cells_wide
from laptime.questions.race import page as race
from laptime.show.pages.page import View

render = in_details(race.PART.render)

ANSI = re.compile(r"\x1b\[\d+m")
FIGURES = re.compile(r"\d[\d.,]* (?:ms|µs|s|min|h|GB|%)|\([\d.,]+-[\d.,]+\)|\d+e-\d+")


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("name", SHOWN)
def test_a_page_is_as_it_was_agreed(name, width):
    """A report changes only on purpose."""
    assert_agreed(f"race-{name}", width, render(SHOWN[name](), width))


@pytest.mark.parametrize("name", SHOWN)
@settings(deadline=None)
@given(width=st.integers(40, 160))
def test_no_figure_is_cut_at_any_width(name, width):
    """Columns may be left out; a number without its end would be a lie."""
    whole = set(FIGURES.findall(render(SHOWN[name](), 400)))
    page = render(SHOWN[name](), width)
    assert set(FIGURES.findall(page)) <= whole
    assert "…" not in page


@pytest.mark.parametrize("name", SHOWN)
@pytest.mark.parametrize("width", [44, 80, 120])
def test_colour_changes_no_letter(name, width):
    """A page in a file and one on a terminal say the same."""
    page = render(SHOWN[name](), width)
    assert page == ANSI.sub("", render(SHOWN[name](), width, color=True))
    assert "\x1b" not in page


def test_the_page_is_the_one_that_was_drawn_first():
    """The form of the main job: who, how long, by what factor, and proven."""
    page = render(two_lanes(), 140).splitlines()
    assert page[1].startswith("cifar-cnn  1,337,002 parameters  batch 100  500 steps a lap  ")
    assert page[1].endswith("  2 x AMD EPYC 7763 (2 cores), 24 GB")
    assert page[2].split() == ["lane", "a", "lap", "step", "images/s", "against", "first", "same", "work"]
    assert re.split(r"  +", page[4]) == [
        "torch/cpu/best",
        "31.0 s ±3 %",
        "62.0 ms ±3 %",
        "1,613",
        "1.49x faster (1.38-1.61)",
        "yes",
    ]
    assert "yes (proof: 10 steps, worst 3e-6)" in page[3]
    closing = " ".join(page[-3].split() + page[-2].split())
    assert closing.endswith(
        "5 heats each, 58 s. Not settled: torch/cpu varies 9 % from heat to heat. "
        "About 2 min more should bring every factor within 5 %."
    )
    assert page[-1].startswith("Saved as r-2026")


def said_against(ratio, low, high, **changes):
    made = record((FIRST, BEST), (comparison("torch/cpu/best", ratio, low, high, **changes),))
    return render(made, 200).splitlines()[4]


@pytest.mark.parametrize(
    ("expected", "interval"),
    [
        ("1.49x faster (1.38-1.61)", (1.49, 1.38, 1.61)),
        ("2.10x slower (2.00-2.22)", (0.4762, 0.45, 0.5)),
        ("10.0x slower (9.5-10.5)", (0.1, 0.0952, 0.1053)),
        ("not distinguishable (0.97-1.04)", (1.0, 0.97, 1.04)),
        ("334x faster (328-341)", (334.3, 328.1, 340.6)),
        ("1.49x (one pair, no interval)", (1.487, Missing("one heat"), Missing("one heat"))),
    ],
)
def test_a_factor_is_said_so_that_it_is_above_one(expected, interval):
    """Nobody should have to invert a ratio in the head."""
    changes = {"pairs": 1} if isinstance(interval[1], Missing) else {}
    assert f"  {expected}  " in said_against(*interval, **changes)


def test_no_factor_is_stated_where_the_first_lane_did_other_work():
    """A ratio to something else is no answer, whichever lane differs."""
    differs = Parity("differs", 10, 1e-2, 2e-5, reason="other losses")
    page = render(record((replace(FIRST, parity=differs), BEST), (FASTER,)), 160)
    assert "x faster" not in page
    assert page.count("not the same work") == 2


def test_the_title_names_the_lane_that_the_others_are_held_against():
    """Where the first lane did not finish, the factor is to another."""
    killed = without_figures("torch/cpu/as-written", "dnf", None, (unfinished(OUT_OF_MEMORY),))
    against = replace(FASTER, lane="torch/cpu/eager", reference="torch/cpu/best")
    page = render(record((killed, BEST, lane("torch/cpu/eager", 90.0)), (against,)), 120)
    assert "against torch/cpu/best" in page
    assert "against first" not in page


@pytest.mark.parametrize(
    ("expected", "parity", "batch"),
    [
        ("yes; bf16 strays 2e-4", replace(SAME, strays=2e-4, strays_precision="bf16"), None),
        ("yes, but batch 400", SAME, 400),
        ("yes, but batch 400; bf16 strays 2e-4", replace(SAME, strays=2e-4, strays_precision="bf16"), 400),
        ("yes", SAME, 100),
        ("no: its loss differs", Parity("differs", reason="its loss differs"), None),
        ("no: strays 1e-2 from float64, 2e-5 is allowed", Parity("differs", 10, 0.0123, 2e-5), None),
        ("unproven: no reference", Parity("unproven", reason="no reference"), None),
        ("unproven", Parity("unproven"), None),
    ],
)
def test_whether_it_was_the_same_work_is_said_in_a_few_words(expected, parity, batch):
    """Equal work is proven, disproven or unproven, and nothing in between."""
    other = replace(BEST, parity=parity, settings=replace(BEST.settings, batch=batch))
    assert render(record((FIRST, other), (FASTER,)), 200).splitlines()[4].endswith(f"  {expected}")


def test_the_end_of_a_killed_lane_is_told_with_the_last_five_lines():
    """Phase, signal, memory and stderr are what one needs to fix it."""
    killed = without_figures("torch/cuda:0/best", "dnf", None, (unfinished(OUT_OF_MEMORY),))
    page = render(record((FIRST, killed)), 120).splitlines()
    assert page[4].split("  ")[0] == "torch/cuda:0/best"
    assert page[4].endswith("DNF in warm-up")
    told = "torch/cuda:0/best did not finish, in warm-up: killed by the system, SIGKILL, peak memory 22.1 GB"
    assert page[5] == told
    assert page[6:11] == [f"  | {line}" for line in STDERR.splitlines()[-5:]]


def test_a_lane_that_lost_one_heat_of_many_says_so():
    """A single crash is reported even where the others suffice."""
    lost = unfinished(Dnf("timing", "its own error", exit_code=1, peak_memory_bytes=Missing("gone")), 5)
    page = render(record((replace(FIRST, heats=(*FIRST.heats, lost)), BEST), (FASTER,)), 120)
    assert "torch/cpu: 1 of 6 heats did not finish, in timing: its own error, exit code 1\n" in page


def test_a_long_line_of_stderr_does_not_flood_the_page():
    """A dump of an array on stderr is shown in part, and the page says that there is more."""
    killed = unfinished(replace(OUT_OF_MEMORY, stderr_tail="0.123 " * 5000))
    page = render(record((FIRST, without_figures("torch/cpu/best", "dnf", None, (killed,)))), 80)
    assert len(page.splitlines()) < 20
    assert "(and more)" in page


def test_names_and_messages_cannot_steer_the_terminal():
    """What other people's programs print stays text: no colour, no cursor, no markup."""
    wild = "\x1b[31mred\x1b[0m [bold]not bold[/bold] \x1b]0;title\x07\x9b2J\u202eend\r\n\tx"
    killed = unfinished(replace(OUT_OF_MEMORY, reason=wild, stderr_tail=wild))
    lanes = (FIRST, replace(BEST, notes=(wild,)), without_figures(f"torch/{wild}", "dnf", wild, (killed,)))
    page = render(record(lanes, (FASTER,), workload=replace(WORKLOAD, name=wild)), 120)
    assert all(letter.isprintable() or letter == "\n" for letter in page)
    assert "red [bold]not bold[/bold] " in page


def test_wide_letters_take_two_places():
    """Chinese file names do not push a table out of its columns."""
    own = replace(WORKLOAD, name="训练.py:训练", parameters=None)
    page = render(record((FIRST, replace(BEST, name="torch/cpu/训练")), (), workload=own), 100).splitlines()
    assert max(map(cells_wide, page)) == 100
    rows = [line for line in page if line.startswith("torch/cpu")]
    assert cells_wide(rows[0][: rows[0].index("46.1 s")]) == cells_wide(rows[1][: rows[1].index("31.0 s")])


def test_a_lap_that_is_not_stated_says_why():
    """An interval of seven powers of ten is no result, and not a figure without it either."""
    untold = replace(FIRST, lap_s=None, absent={"lap": Missing("its 2 heats give laps of 10.0 s to 40.0 s")})
    page = render(record((untold, BEST), ()), 140)
    assert "No lap of torch/cpu: its 2 heats give laps of 10.0 s to 40.0 s." in page
    assert "46.1 s" not in page
    assert "31.0 s ±3 %" in page


def test_a_lap_that_nobody_defined_is_a_dash_with_one_reason():
    """Absence has its reason, and the reason is there once."""
    lanes = (replace(FIRST, lap_s=None), replace(BEST, lap_s=None))
    page = render(record(lanes, (FASTER,)), 120)
    assert page.count("No lap: the training does not say how many steps make one.") == 1
    assert re.search(r"torch/cpu +- +92\.2 ms", page)


def test_disturbed_windows_are_counted_with_the_worst_of_each_kind():
    """Noise is reported in a sentence, not in a list of every window."""
    flags = ("other processes took 0.20 cores", "other processes took 1.50 cores", "the quota held it back for 9 ms")
    heats = (heat(92.2, 0, "flat", (*flags, None)),)
    expected = (
        "3 of 4 windows were disturbed, at worst: other processes took 1.50 cores, the quota held it back for 9 ms."
    )
    assert expected in render(record((replace(FIRST, heats=heats),)), 120).splitlines()


def test_rounds_that_hardly_count_are_counted():
    """A reader sees that the factor is of the others."""
    flags = ("other processes took 1.50 cores",) * 2
    heats = (heat(92.2), replace(heat(180.0, 1, "flat", flags), weight=0.01))
    page = render(record((replace(FIRST, heats=heats), replace(BEST, heats=(heat(60.0),))), (FASTER,)), 120)
    assert "took 1.50 cores. 1 of 2 rounds was disturbed and hardly counts." in page


def test_a_note_that_concerns_several_lanes_stands_once():
    """The same remark need not be read twice."""
    lanes = (replace(FIRST, notes=("a shared machine",)), replace(BEST, notes=("a shared machine", "tuned")))
    page = render(record(lanes, (FASTER,)), 120).splitlines()
    assert "torch/cpu, torch/cpu/best: a shared machine" in page
    assert "torch/cpu/best: tuned" in page


def test_a_finding_says_how_sure_it_is():
    """A likely cause must not read like a proven one."""
    found = Finding("loader", "The loader limits the step.", {}, "Try input=fast.", "likely")
    page = render(record((FIRST,), (), findings=(found,)), 120)
    assert "likely: The loader limits the step. Try input=fast.\n" in page


@pytest.mark.parametrize(
    ("expected", "status", "heats"),
    [
        ("interrupted: 10 of 14 heats kept, 58 s.", "interrupted", 7),
        ("interrupted: 10 heats kept, 58 s.", "interrupted", None),
        ("running, or ended: 10 heats kept, 58 s.", "running", None),
        ("5 heats each, 58 s, settled within 5 %.", "finished", None),
    ],
)
def test_a_race_that_did_not_end_says_what_is_kept(expected, status, heats):
    """A journal reads like a result, and is not taken for a whole one."""
    made = record((FIRST, BEST), (FASTER,), status=status, ask=Ask(heats=heats))
    assert expected in render(made, 120)


@pytest.mark.parametrize(
    ("expected", "spread", "ask"),
    [
        ("Not settled: torch/cpu/best varies 30 % from heat to heat.", 0.3, Ask()),
        ("Not settled within 5 %: the budget of 1 min allowed too few heats.", 0.02, Ask()),
        ("Not settled within 3 %: too few heats.", 0.02, Ask(heats=2, margin=0.03)),
    ],
)
def test_what_is_not_settled_has_its_reason(expected, spread, ask):
    """Either a lane varies, or there was no time to find out."""
    lanes = (lane("torch/cpu/as-written", 92.2, 0.01), lane("torch/cpu/best", 62.0, spread))
    assert expected in render(record(lanes, (replace(FASTER, settled=False),), ask=ask), 160)


def test_what_was_asked_for_besides_is_no_part_of_the_budget():
    """Whole laps and profiles come last: a budget that held is not called too small because of them."""
    made = replace(record((FIRST, BEST), (replace(FASTER, settled=False),)), elapsed_s=222.0)
    assert "one round of all lanes took 3 min 42 s, more than the budget" in render(made, 160)
    assert "one round of all lanes" not in render(replace(made, beyond_budget_s=160.0), 160)


IN_TURNS = replace(FASTER, pairs=4, ratios=(1.4, 1.5, 1.5, 1.61), in_turns=True)


def test_a_race_in_turns_counts_its_duets():
    """Two lanes play duets; with more of them it is rounds. What varies is their ratio, not each heat."""
    duet = record((FIRST, BEST), (replace(IN_TURNS, settled=False),))
    assert (
        "4 duets, 58 s. Not settled within 5 %: the ratio varies from duet to duet, of torch/cpu/best by 15 %."
        in render(duet, 160)
    )
    other = replace(IN_TURNS, lane="torch/cpu/fastest")
    trio = record((FIRST, BEST, lane("torch/cpu/fastest", 50.0)), (IN_TURNS, other))
    assert "4 rounds in turns, 58 s, settled within 5 %.\n" in render(trio, 160)
    mixed = record(trio.lanes, (IN_TURNS, replace(other, pairs=3)))
    assert "5 heats each, 58 s, settled within 5 %.\n" in render(mixed, 160)


def test_a_race_that_took_no_turns_says_why():
    """So does one of which a lane did not fit next to the first."""
    alone = ("the heats ran one after another: --alone asks for it",)
    made = record((FIRST, BEST), (FASTER,))
    assert f"\n{alone[0]}\n" in render(replace(made, answer=replace(made.answer, alone=alone)), 160)
    assert "turns" not in render(made, 160)


def test_a_record_without_any_figure_is_a_page_too():
    """All lanes failed, or none has begun: never a crash."""
    failed = without_figures("torch/cpu/as-written", "dnf", "it stopped", (unfinished(OUT_OF_MEMORY),))
    assert "No heat finished, 58 s." in render(record((failed,)), 80)
    waiting = without_figures("torch/cpu/as-written", "ok", None)
    assert "unproven" in render(record((waiting,), status="running"), 120)
    assert "cifar-cnn" in render(record(()), 80)


def test_a_memory_limit_counts_more_than_the_memory():
    """In a container one has what one may use."""
    made = two_lanes()
    chip = replace(made.machine.processor, cores_visible=64, cores_usable=1)
    machine = replace(made.machine, processor=chip, memory_limit_bytes=4_000_000_000)
    assert "64 x AMD EPYC 7763 (1 core usable), 4 GB" in render(replace(made, machine=machine), 140)


def test_the_details_say_how_the_heats_were_started_and_which_were_proven():
    """Heats of a race may be fresh processes or forks; a record of an older laptime has no such line."""
    first = heat(80.0)
    forks = [
        with_heat(first, process=replace(first.heat.process, template=Template(number, 0.1, 2.0)), first_losses=(2.3,))
        for number in (1, 2, 1)
    ]
    page = " ".join(render(record((replace(FIRST, heats=(first, *forks)),))).split())
    assert "heats: 3 of 4 forked from 2 processes that only imported" in page
    assert "3 not proven again: their first losses are those of a proven heat" in page
    assert "heats: " not in render(record((FIRST,)))


@pytest.mark.parametrize("ratio", [1.487, 0.8])
def test_page_and_report_tell_the_same_factor_of_one_pair(ratio):
    """A report once said of one pair that no difference was found, where the page said which lane is faster."""
    shown = one_heat()
    (single,) = shown.answer.comparisons
    shown = replace(shown, answer=RaceAnswer((replace(single, ratio=ratio),)))
    glance = race.glance_of(shown)
    sentence = " ".join(race.PART.render(shown, View(200)).splitlines()[0].split(": ", 1)[1].split())
    assert (glance.number, glance.ends) == (f"{max(ratio, 1 / ratio):.2f}x", "one pair, no interval")
    assert glance.sentence == f"{sentence} Both did the same work."
    assert f"is {glance.number} as fast as" in sentence
