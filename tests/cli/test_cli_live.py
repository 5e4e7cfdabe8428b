"""The display of a running race on a real terminal: what it shows, and that nothing of it is left."""

from __future__ import annotations

import re
import sys

import pytest
from terminal import OnTerminal

from long_cases import cases

pytestmark = pytest.mark.usefixtures("known_references")

RACE = ("race", "cifar-cnn", "fake/cpu", "fake/cpu/best")
HANGS = '["fake/*"]\nfail = { how = "hang", phase = "build", heat = 3 }\n'
OF_A_DISPLAY = re.compile("[━─]|turn \\d|more$|builds|waits")


@pytest.mark.parametrize(("columns", "rows"), cases((80, 5), long=[(60, 24), (120, 24)]))
def test_a_race_is_redrawn_in_place_and_nothing_of_it_is_left(house, columns, rows):
    """At the ends of turns: the bar grows, lanes say what they do. Only the page is left, and only it has a verdict.

    A terminal of five rows has no room for page and display: what is scrolled off it is of the page alone.
    """
    on = OnTerminal(house, *RACE, "--heats", "3", columns=columns, rows=rows)
    assert on.finish() == 0
    terminal, frames = on.shown()
    *running, _before_the_page, page = frames
    drawn = ["\n".join(row for row in frame if row) for frame in running]
    for words in ("round 1 of 3", "round 3 of 3", "is proven", "turn 1", "turn 2 of"):
        assert any(words in frame for frame in drawn), words
    assert any(re.search("━+─* +\\d+ s, about", frame) for frame in drawn), "the bar of the time"
    assert all(len(frame) <= rows - 1 for frame in running)
    assert not any("x as fast" in frame or "faster" in frame for frame in drawn), "no verdict before the last look"
    assert "2.00x as fast" in "\n".join(page)
    assert on.sent.count("\x1b[32m") == (columns >= 80), (
        "the factor of the page is coloured, that of the display is not"
    )
    left = terminal.all_rows
    assert left[0].startswith("cifar-cnn on "), "the first row of all is the page's"
    assert [row for row in left if OF_A_DISPLAY.search(row)] == []
    assert terminal.column == 0, "the cursor begins a row"


@pytest.mark.long
def test_ctrl_c_leaves_the_page_alone(house):
    """What the terminal itself echoed, `^C`, is erased with the display; the page is that of the finished round."""
    house.script(HANGS)
    on = OnTerminal(house, *RACE, "--heats", "3")
    on.read_until("round 2 of 3")
    house.wait_for_processes(5)
    on.press("\x03")
    assert on.finish() == 130
    terminal, _ = on.shown()
    left = terminal.all_rows
    assert left[0].startswith("cifar-cnn on ")
    assert "interrupted: 2 of 6 heats kept, " in " ".join(left)
    assert [row for row in left if OF_A_DISPLAY.search(row) or "^C" in row] == []
    assert house.is_empty_within(10)


@pytest.mark.long
@pytest.mark.parametrize(("to", "is_shown"), [("> log", True), ("", False)])
def test_a_watched_command_keeps_the_terminal_to_itself(house, to, is_shown):
    """How far it is, is shown only where the command prints elsewhere; else there is one line that says why not."""
    command = f"{sys.executable} -m laptime watch --live -- {sys.executable} -c 'import time; time.sleep(2.5)' {to}"
    (house.folder / "run.sh").write_text(command, encoding="utf-8")
    on = OnTerminal(house, "watch", "--quiet", "--", "sh", "run.sh")
    assert on.finish() == 0
    assert bool(re.search(r": 0 iterations in \d s", on.sent)) == is_shown
    assert ("--live shows nothing here" in on.sent) != is_shown
