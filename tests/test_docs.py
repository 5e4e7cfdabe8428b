"""docs/ as a site: every page is short, begins with its point, is in the navigation, and has no broken link."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from laptime.model.options import OPTIONS

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
HOUSE = ROOT / "src" / "laptime"
PAGES = sorted(DOCS.glob("*.md"))
DECISIONS = sorted((DOCS / "decisions").glob("*.md"))
FOR_AGENTS = [ROOT / "AGENTS.md", ROOT / "skills" / "laptime" / "SKILL.md"]
WITH_LINKS = [*PAGES, *DECISIONS, *FOR_AGENTS, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
LONGEST_PAGE = 250
LONGEST_LINE = 120
# A page that shows how to do a thing is read from its top; what it rests on is on a page of reference.
HOW_TO = (
    *("start", "examples", "training", "lanes", "reading", "why", "remedies", "watch", "scripts", "tune", "sweep"),
    *("scale", "clusters", "forecast", "compare", "verdict", "library", "export", "data", "input"),
)
LONGEST_HOW_TO = 120
WIDEST_SAMPLE = 84  # what the site shows without a scroll bar, next to its navigation
WITH_WIDE_SAMPLES = [DOCS / "report.md"]
# Of prose, outside of samples and tables; 1,500 are for the pages of the verdict and of agents, and 900 for scripts
# that are tuned and forecast, lines that are named, and `laptime.auto`.
MOST_WORDS = 34_400
CODE = re.compile(r"^(```|~~~).*?^\1", re.DOTALL | re.MULTILINE)
SPAN = re.compile(r"(`+)[^`].*?\1")
LINK = re.compile(r"!?\[[^\]]*\]\(<?([^)\s>]+)>?(?:\s+\"[^\"]*\")?\)")
FILE = re.compile(r"`((?:[a-z]\w*/)+[\w.-]+\.(?:py|json|toml|md))`")
HEADING = re.compile(r"^#{1,6} +(.+?) *#*$", re.MULTILINE)
NOT_PROSE = ("|", "<!--", "<")
PICTURE = re.compile(r'<source media="\(prefers-color-scheme: dark\)" srcset="([^"]+)">\s*<img src="([^"]+)"')
# What a list or table becomes without an empty line before it: one more line of the paragraph above.
LOST = re.compile(r"<p>(?:[^<]|<(?!/p>))*?\n\s*(?:[-*] |\d+\. |\|)")


def test_every_option_is_in_the_docs():
    """As it is typed: a row of the table without a word in docs/ is half an addition."""
    text = "\n".join(each.read_text(encoding="utf-8") for each in PAGES)
    typed = {row.option for row in OPTIONS if row.only != "library"}
    assert {each for each in typed if not re.search(rf"(?<![\w-]){each}(?![\w-])", text)} == set()


def named(path: Path) -> str:
    return str(path.relative_to(ROOT))


@cache
def plain(path: Path) -> str:
    """Return a page without its blocks of code, whose lines stay as empty ones."""
    return CODE.sub(lambda block: "\n" * block[0].count("\n"), path.read_text(encoding="utf-8"))


def slug(heading: str) -> str:
    """Return a heading's anchor, as GitHub and the site make it."""
    words = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[^\w\- ]", "", words.strip().lower()).replace(" ", "-")


@cache
def anchors(path: Path) -> frozenset[str]:
    return frozenset(slug(each) for each in HEADING.findall(plain(path)))


def broken_links(path: Path) -> list[str]:
    """Return each relative link of a page that leads nowhere."""
    broken = []
    for target in LINK.findall(SPAN.sub("", plain(path))):
        if re.match(r"[a-z]+:", target):
            continue
        place, _, anchor = target.partition("#")
        found = (path.parent / place).resolve() if place else path
        if not found.exists() or (anchor and anchor not in anchors(found)):
            broken.append(target)
    return broken


@pytest.mark.parametrize("path", WITH_LINKS, ids=named)
def test_every_link_leads_somewhere(path):
    """To a file that is here and, where it names one, a heading in it."""
    assert broken_links(path) == []


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_a_page_is_short_and_begins_with_its_point(path):
    """A title, then a paragraph; lines that fit into an editor, and not too many of them."""
    lines = path.read_text(encoding="utf-8").splitlines()
    assert len(lines) <= LONGEST_PAGE
    assert lines[0].startswith("# ")
    point = next(line for line in lines[1:] if line)
    assert point[0].isalnum() or point[0] in "`*"
    prose = [line for line in plain(path).splitlines() if not line.lstrip().startswith(NOT_PROSE)]
    assert [line for line in prose if len(line) > LONGEST_LINE] == []


@pytest.mark.parametrize("name", HOW_TO)
def test_a_page_that_shows_how_is_short(name):
    assert len((DOCS / f"{name}.md").read_text(encoding="utf-8").splitlines()) <= LONGEST_HOW_TO


def words_of_prose(path: Path) -> int:
    """Return how many words a page has, without its blocks of code and its tables."""
    return sum(len(line.split()) for line in plain(path).splitlines() if not line.lstrip().startswith(NOT_PROSE))


def test_the_pages_together_are_short():
    """A change that adds a sentence removes one."""
    assert sum(map(words_of_prose, PAGES)) <= MOST_WORDS


@pytest.mark.parametrize("path", [each for each in PAGES if each not in WITH_WIDE_SAMPLES], ids=named)
def test_samples_are_seen_whole(path):
    """Code and output, without scrolling to the side."""
    text = path.read_text(encoding="utf-8")
    blocks = "".join(block[0] for block in CODE.finditer(text))
    typed = re.findall(r"(?<=\n\n) {4}\S.*(?:\n {4}.*)*", plain(path))
    shown = [*blocks.splitlines(), *"\n".join(each for each in typed if not each.lstrip().startswith("-")).splitlines()]
    assert [line for line in shown if len(line) > WIDEST_SAMPLE] == []


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_blocks_and_tables_end_where_they_seem_to(path):
    """A sentence behind a fence or a row would be drawn as code, or as a cell."""
    lines = path.read_text(encoding="utf-8").splitlines()
    fences = [line for line in lines if line.lstrip().startswith("```")]
    assert [line for line in fences if not re.fullmatch(r" *```\w*", line)] == []
    assert len(fences) % 2 == 0
    rows = list(enumerate(plain(path).splitlines()))
    assert [line for _, line in rows if line.startswith("|") and not line.endswith("|")] == []
    ends = [place for place, line in rows[:-1] if line.startswith("|") and not rows[place + 1][1].startswith("|")]
    assert [rows[place + 1][1] for place in ends if rows[place + 1][1]] == []
    assert [line for place, line in rows[1:] if re.match("#+ ", line) and rows[place - 1][1]] == []


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_every_picture_is_there(path):
    """In light colours and in dark ones, with words for those who do not see it."""
    shown = PICTURE.findall(plain(path))
    assert [each for pair in shown for each in pair if not (DOCS / each).exists()] == []
    assert [pair for pair in shown if pair[0].replace("-dark", "-light") != pair[1]] == []
    assert plain(path).count("<img") == len(shown) == len(re.findall(r'<img [^>]*alt="[^"]{40}', plain(path)))


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_a_page_links_only_to_what_the_site_has(path):
    """A file outside of docs/ is named as code: the site does not have it."""
    targets = LINK.findall(SPAN.sub("", plain(path)))
    assert [each for each in targets if each.startswith("..")] == []


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_a_file_that_is_named_is_there(path):
    """With its place in the repository, or in the package."""
    told = FILE.findall(plain(path))
    assert [each for each in told if not any((place / each).exists() for place in (ROOT, HOUSE))] == []


def test_every_page_is_in_the_navigation():
    told = re.findall(r"^ +- (?:.*: )?(\S+\.md)$", (ROOT / "mkdocs.yml").read_text(encoding="utf-8"), re.MULTILINE)
    assert sorted(told) == sorted(str(each.relative_to(DOCS)) for each in (*PAGES, *DECISIONS))


@pytest.mark.long
def test_the_site_is_built(tmp_path):
    """Without a warning, with lists and tables as such, and with no request to another server."""
    shutil.copy(ROOT / "mkdocs.yml", tmp_path)
    shutil.copytree(DOCS, tmp_path / "docs")
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (built.returncode, built.stderr) == (0, "No issues found\n"), built.stdout
    pages = sorted((tmp_path / "site").glob("*.html"))
    assert {each.stem for each in pages} == {each.stem for each in PAGES} | {"404"}
    for page in pages:
        text = page.read_text(encoding="utf-8")
        assert LOST.findall(text) == []
        assert re.findall(r'<(?:script|img|link)[^>]+(?:src|href)="https?:', text) == []


@pytest.mark.parametrize(
    ("heading", "anchor"),
    [
        ("How near to the limit", "how-near-to-the-limit"),
        ("`laptime.cached`: once (cause 1)", "laptimecached-once-cause-1"),
    ],
)
def test_anchors_are_made_as_readers_of_markdown_make_them(heading, anchor):
    assert slug(heading) == anchor


def test_a_lost_list_is_found():
    assert LOST.findall("<p>Two:\n1. one</p>") != []
    assert LOST.findall("<p>Two</p>\n<ul>\n<li>- one</li>\n</ul>\n<pre>\n- two</pre>") == []


def test_a_broken_link_is_found(tmp_path):
    page = tmp_path / "page.md"
    page.write_text(
        "# Page\n\n[here](#page) [gone](#gone) [nowhere](no.md) [far](https://example.org) `[code](x.md)`\n"
    )
    assert broken_links(page) == ["#gone", "no.md"]
