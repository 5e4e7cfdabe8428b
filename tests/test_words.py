"""Plain English: no string, docstring or comment of laptime, no page and no test has words that made readers stop."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

import pytest

import laptime

HOUSE = Path(laptime.__file__).parent
ROOT = Path(__file__).parents[1]
PAGES = [
    *(ROOT / "README.md", ROOT / "CONTRIBUTING.md", ROOT / "AGENTS.md", ROOT / "skills" / "laptime" / "SKILL.md"),
    *sorted((ROOT / "docs").glob("*.md")),
]
BENCH = sorted([*(ROOT / "bench").glob("*.py"), *(ROOT / "bench" / "cheats").glob("*.py")])
TESTS = sorted(set((ROOT / "tests").rglob("*.py")) - {Path(__file__)})
INSTEAD = {
    r"\bforet(ell|old)": "predict, predicted",
    r"\bnought\b": "0",
    r"\b(whoever|who asks|somebody)\b": "you, a program that, another process",
    r"\b(is told|tells|says so)\b": "prints, reports, returns, shows",
    r'^"""(Give|Tell) ': "Return ..., Whether ...",
    r"\b(stands|lies)\b": "is",
    r"\banew\b": "again",
    r"\bunasked\b": "by default",
    r"\bunawares\b": "unexpectedly",
    r"\bbeside\b": "next to, as well as, with, against",
    r"\bthereof\b": "of it",
    r"\bspoilt\b": "damaged",
    r"\bdear(er|est)?\b": "slow, expensive",
    r"\bat hand\b": "available",
    r"\bby itself\b": "on its own",
    r"\bof one's own\b": "your own",
    r"\bso many\b": "N, this many",
    r"\bhung\b": "stopped, no message for",
    r"\bparts company\b": "differs",
    r"\bmend": "fix, repair",
    r"\bquick(er)?\b": "fast, faster",
    r"\blap's end\b": "the end of a lap",
}
# A word's own meaning in a name or in a figure of speech that the field uses.
ALLOWED = re.compile(r"make test-quick|a quick room", re.IGNORECASE)
TOKENS = {tokenize.STRING, tokenize.COMMENT}
ANY = re.compile("|".join(pattern.removeprefix("^") for pattern in INSTEAD), re.IGNORECASE)


def words_of_code(path: Path) -> list[tuple[int, str]]:
    """Return the strings, docstrings and comments of a file, each with its line."""
    tokens = tokenize.generate_tokens(io.StringIO(path.read_text(encoding="utf-8")).readline)
    return [(token.start[0], token.string) for token in tokens if token.type in TOKENS]


def stops(text: str) -> list[str]:
    """Return each word that stops a reader, with what to write instead."""
    plain = ALLOWED.sub("", text)
    return [
        f"{found.group()} (write: {instead})"
        for pattern, instead in INSTEAD.items()
        for found in re.finditer(pattern, plain, re.IGNORECASE)
    ]


def found_in(path: Path) -> list[str]:
    """Return each word that stops a reader, with its place."""
    if not ANY.search(path.read_text(encoding="utf-8")):
        return []  # most files: to take one apart into its strings and comments takes a hundred times as long
    if path.suffix == ".py":
        texts = words_of_code(path)
    else:
        # Output stays as it was printed.
        plain = re.sub(
            r"```.*?```", lambda block: "\n" * block[0].count("\n"), path.read_text("utf-8"), flags=re.DOTALL
        )
        texts = list(enumerate(plain.splitlines(), 1))
    return [f"{path.relative_to(ROOT)}:{line}: {word}" for line, text in texts for word in stops(text)]


@pytest.mark.parametrize("room", sorted(each.name for each in HOUSE.iterdir() if each.suffix in {".py", ""}))
def test_laptime_speaks_plainly(room):
    """In every room: what a user reads, and what a newcomer reads."""
    place = HOUSE / room
    files = [place] if place.is_file() else sorted(place.rglob("*.py"))
    assert [each for path in files for each in found_in(path)] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_pages_speak_plainly(page):
    assert found_in(page) == []


@pytest.mark.parametrize("files", [BENCH, TESTS], ids=["bench", "tests"])
def test_what_surrounds_it_speaks_plainly(files):
    """Benchmarks and tests are read by those who change laptime."""
    assert [each for path in files for each in found_in(path)] == []


def test_examples_speak_plainly():
    assert [each for path in sorted((ROOT / "examples").rglob("*.py")) for each in found_in(path)] == []


@pytest.mark.parametrize(
    ("text", "words"),
    [('"""Give the lanes."""', ['"""Give']), ("what lies beside it", ["lies", "beside"]), ("predicted", [])],
)
def test_such_words_are_found(text, words):
    assert [each.split(" (")[0].strip() for each in stops(text)] == words
