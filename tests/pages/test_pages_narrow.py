"""Pages at 60 columns: no word is broken within, no figure is lost or without its name, also without colour."""

from __future__ import annotations

import re

import pytest
import scale_records
import sweep_records
import tune_records
from test_pages_compare import two
from test_pages_history import followed
from test_pages_short import ANSI, PAGES

from laptime.api.showing import report_of
from laptime.questions.compare.page import render_compared, render_history
from laptime.questions.scale import page as scale
from laptime.questions.sweep import page as sweep
from laptime.questions.tune import page as tune
from laptime.show.drawing.words import as_charts
from laptime.show.pages.page import View

OF_RECORDS = {
    **PAGES,
    **{f"scale-{name}": (scale, make) for name, make in scale_records.SHOWN.items()},
    **{f"sweep-{name}": (sweep, make) for name, make in sweep_records.SHOWN.items()},
    **{f"tune-{name}": (tune, make) for name, make in tune_records.SHOWN.items()},
}
ALL = {
    **{name: (module.PART.render, make) for name, (module, make) in OF_RECORDS.items()},
    "compare": (render_compared, two),
    "history": (render_history, followed),
}
DRAWN = re.compile(r"[█─│▏▎▍▌▋▊▉▁▂▃▄▅▆▇▓▒░·#~]+")
TIMES = r"\d[\d,.]*(?:x\b| (?:%|ms|µs|s|min|h|GB|MB|kJ)\b)"
FIGURE = re.compile(TIMES + r"|(?<![\w.,/-])(?:\d{1,3}(?:,\d{3})+|\d{3,})\b")
PUBLISHED = re.compile(r"^Published.*?(?=^\S)", re.MULTILINE | re.DOTALL)  # as many as there is room for
MAY_BREAK = re.compile(r"(?<=[/+])")
EDGE = ".,;:()"
ALL_LANES = {"all", "lanes", "that", "finished"}  # a narrow page says once what a wide one says in each row
COUNT = re.compile(r"\b\d+ details")  # which are on the page depends on its width


def page(name: str, width: int, **how: bool) -> str:
    render, make = ALL[name]
    return render(make(), View(width, **how))


def words_of(text: str) -> set[str]:
    """Return the words of a page; a name may be broken after a slash."""
    words = {word.strip(EDGE) for word in COUNT.sub("", DRAWN.sub(" ", text)).split() if "…" not in word}
    return words | {piece.strip(EDGE) for word in words for piece in MAY_BREAK.split(word)}


def starts_or_ends(word: str, words: set[str]) -> bool:
    """Whether a word is the beginning or the end of another one, broken where that may be."""
    return any(
        word in {each[: at.end()], each[at.end() :]}
        for each in words
        if word in each
        for at in MAY_BREAK.finditer(each)
    )


@pytest.mark.parametrize("details", [False, True])
@pytest.mark.parametrize("name", ALL)
def test_no_word_is_broken_within(name, details):
    """Each word of a narrow page is one of the wide page."""
    wide = words_of(page(name, 400, details=details))
    narrow = words_of(page(name, 60, details=details))
    assert {word for word in narrow - wide - ALL_LANES if not starts_or_ends(word, wide)} == set()


@pytest.mark.parametrize("name", ALL)
def test_no_figure_is_lost(name):
    """What is on the wide page is on the narrow one: below its table, where that has no room for a column."""
    pages = (PUBLISHED.sub("", page(name, width, details=True)) for width in (400, 60))
    wide, narrow = (set(FIGURE.findall(each)) for each in pages)
    assert wide - narrow == set()


@pytest.mark.parametrize("name", ALL)
def test_colour_and_ascii_change_no_word(name):
    plain = page(name, 60)
    assert ANSI.sub("", page(name, 60, color=True)) == plain
    letters = page(name, 60, blocks=False)
    assert set(FIGURE.findall(letters)) == set(FIGURE.findall(plain))
    assert not set(letters) & set("█▏▎▍▌▋▊▉▓▒░")


@pytest.mark.parametrize("name", OF_RECORDS)
def test_charts_cut_nothing(name):
    """Names and answers, too."""
    _, make = OF_RECORDS[name]
    report = report_of(make())
    narrow, wide = (words_of(as_charts(report, width, blocks=True)) for width in (60, 400))
    long = [word for word in wide if len(word) > 40]  # names of kernels
    assert {
        word for word in narrow - wide if not starts_or_ends(word, wide) and not any(word in each for each in long)
    } == set()
