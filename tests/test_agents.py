"""What agents read: docs/agents.md, llms.txt, AGENTS.md and the skill. Each command in them is one that there is."""

from __future__ import annotations

import json
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path

import click
import pytest

import docs_llms
from laptime.cli.main import find_command, group
from laptime.model.errors import ExitCode

ROOT = Path(__file__).parents[1]
AGENTS, SKILL, PAGE = ROOT / "AGENTS.md", ROOT / "skills" / "laptime" / "SKILL.md", ROOT / "docs" / "agents.md"
TYPED = re.compile(r"^(?:\$ )?(laptime .*)$", re.MULTILINE)
LONGEST_SECTION = 30


def commands_of(place: Path) -> list[str]:
    """Return each command line of a page's blocks, without what it is piped into."""
    blocks = re.findall(r"^```\w*$(.*?)^```$", place.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    return [re.split(r" +(?:[|#>] |2>)", line)[0] for block in blocks for line in TYPED.findall(block)]


@pytest.mark.parametrize("line", [*commands_of(SKILL), *commands_of(PAGE)])
def test_a_command_that_agents_read_can_be_typed(line):
    """Its command, options and values are read as if it ran."""
    _, name, *words = shlex.split(line)
    assert find_command(name).make_context(name, words, parent=click.Context(group)).params


def test_the_pages_have_commands():
    assert len(commands_of(SKILL)) == 5
    assert {line.split()[1] for line in commands_of(PAGE)} >= {"verdict", "why", "tune", "watch", "race"}


@pytest.mark.parametrize("place", docs_llms.FILES, ids=lambda place: place.parent.name)
def test_llms_txt_is_current(place):
    """`make llms` writes it again. Its form is that of llmstxt.org: a title, a quote, lists of links."""
    assert place.read_text(encoding="utf-8") == docs_llms.make_llms(*docs_llms.FILES[place])
    lines = place.read_text(encoding="utf-8").splitlines()
    assert lines[0] == "# laptime"
    assert lines[2].startswith("> ")
    listed = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S.*[.?]$", "\n".join(lines), re.MULTILINE)
    assert len(listed) == len([line for line in lines if line.startswith("- ")])
    pages = {(ROOT / "docs" / each).stem for each in listed}
    assert pages == {each.stem for each in (ROOT / "docs").glob("*.md")}


def test_the_page_and_the_skill_have_the_exit_codes():
    rows = re.findall(r"^\| (\d+) \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
    assert rows == [(str(int(code)), code.when) for code in ExitCode]
    named = re.findall(r"^\| (\d+) \| .* \| .* \|$", SKILL.read_text(encoding="utf-8"), re.MULTILINE)
    assert named == [str(int(code)) for code in ExitCode if code not in {129, 130, 141, 143}]


def test_a_section_of_the_page_is_short():
    """Its point fits a screen: the command, what it printed, what to do with it."""
    sections = PAGE.read_text(encoding="utf-8").split("\n## ")[1:]
    lengths = {each.splitlines()[0]: len(each.strip().splitlines()) for each in sections}
    assert {title: length for title, length in lengths.items() if length > LONGEST_SECTION} == {}


def test_the_skill_can_be_loaded():
    """A name in small letters, as its folder has it, and what it is for, in at most 1024 characters."""
    head = SKILL.read_text(encoding="utf-8").split("---\n")[1]
    name, _, described = head.partition("\ndescription: >-\n")
    assert name == f"name: {SKILL.parent.name}"
    assert 100 < len(" ".join(described.split())) <= 1024


def test_every_target_that_agents_read_is_in_the_makefile():
    lines = re.findall(r"^ +make ([a-z][\w -]*)", AGENTS.read_text(encoding="utf-8"), re.MULTILINE)
    told = {target for line in lines for target in line.split()}
    targets = set(re.findall(r"^([\w -]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE))
    assert told <= {each for line in targets for each in line.split()}
    assert {"test", "schema", "llms"} <= told


@pytest.mark.long
def test_the_commands_of_the_skill_run(torch_house):
    """In a repository with a training of NumPy on a python lane, and a script; each with a budget of seconds."""
    folder = torch_house.folder
    shutil.copy(ROOT / "examples" / "numpy_training.py", folder / "train.py")
    shutil.copy(ROOT / "examples" / "plain_loop.py", folder / "script.py")
    git = ["git", "-c", "user.name=tests", "-c", "user.email=tests@localhost"]
    for words in (["init", "-q"], ["add", "train.py"], ["commit", "-qm", "first"]):
        subprocess.run([*git, *words], cwd=folder, check=True, timeout=60)
    with (folder / "train.py").open("a", encoding="utf-8") as file:
        file.write("\nCHANGED = True\n")
    for line in commands_of(SKILL):
        words = shlex.split(re.sub(r"--budget \w+", "--budget 10s", line).replace(" cpu ", " python/cpu "))[1:]
        words = [sys.executable if word == "python" else word for word in words]
        answer = torch_house.run(*words)
        assert answer.code in {0, ExitCode.NO, ExitCode.UNFINISHED, ExitCode.NOT_RELIABLE}, answer.err
        text = (folder / "watch.json").read_text(encoding="utf-8") if words[0] == "watch" else answer.out
        assert "error" not in json.loads(text), line
