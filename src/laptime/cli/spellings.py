"""Other spellings of a command line: of earlier versions, with a message that names today's, and of other tools."""

from __future__ import annotations

import click

from laptime.cli.printing import say

# What a command with a flag became.
RENAMED = {
    ("race", "--full"): ("train",),
    ("race", "--infer"): ("infer",),
    ("plan", "--full"): ("train", "--dry-run"),
    ("plan", "--infer"): ("infer", "--dry-run"),
}


# What other tools call an option.
ELSEWHERE = {
    "--epochs": "--laps",
    "--steps-per-epoch": "--steps-per-lap",
    "--batch-size": "--batch",
    "--learning-rate": "--lr",
}


def renew(words: list[str]) -> list[str]:
    """Return a command line in today's spelling. A watched command, and the words behind --, have their own."""
    if words[:1] == ["watch"]:
        return words
    end = words.index("--") if "--" in words else len(words)
    return [*_renamed([_as_here(word) for word in words[:end]]), *words[end:]]


def _as_here(word: str) -> str:
    name, equals, value = word.partition("=")
    return f"{ELSEWHERE.get(name, name)}{equals}{value}"


def _renamed(words: list[str]) -> list[str]:
    """Return the command that a command with a flag became."""
    used = [(old, new) for old, new in RENAMED.items() if words[:1] == [old[0]] and old[1] in words]
    if not used:
        return words
    others = [word for word in words[1:] if word not in {flag for (_, flag), _ in used}]
    lines = [[*new, *others] for _, new in used]
    if len(lines) > 1:
        told = " && ".join(" ".join(["laptime", *line]) for line in lines)
        raise click.UsageError(f"--full and --infer are two commands now: {told}")
    ((old, new),) = used
    say(f"laptime: `laptime {' '.join(old)}` is now `laptime {' '.join(new)}`")
    return lines[0]
