"""What looks like a secret, in the words of a command or in lines of code: a record may be shown and passed on.

Words are masked where a record is made (`questions/job.py`), so that no page, report, export or file of it can hold
them. What is needed to run them again is kept in a file of its own, which never leaves (`store/words.py`).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence

MASK = "***"
SECRET_LEAST_CHARACTERS = 4  # of a secret that is looked for in other text
# An option or a variable by its name: --hf-token, WANDB_API_KEY, --db.password; not --tokenizer or --max-tokens.
NAME_OF_A_KEY = r"""(?:[\w.-]*[-_.])?(?:token|secret|password|passwd|passphrase|credentials?|auth
        |(?:api|access|private|secret|auth|encryption)[-_.]?key)(?:[-_.](?:id|value|string))?"""
QUOTE = "[\"']?"  # as in JSON
NAMED_SECRETS = re.compile(
    rf"(?<![\w.-])-{{0,2}}{NAME_OF_A_KEY}{QUOTE}(?:\s*[=:]\s*|\s+){QUOTE}(?P<value>[^\s\x22\x27]+)(?P<end>)",
    re.IGNORECASE | re.VERBOSE,
)
SECRET_OPTION = re.compile(rf"--?{NAME_OF_A_KEY}", re.IGNORECASE | re.VERBOSE)
WHOLE_OPTION = re.compile(rf"--?{NAME_OF_A_KEY}=(?P<value>.+)(?P<end>)", re.IGNORECASE | re.VERBOSE | re.DOTALL)
# Values that are made to be recognised, whatever they are called.
KNOWN_SECRETS = re.compile(
    r"""\b(?:hf_|sk-|pk-|rk_live_|sk_live_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|npm_|pypi-|ya29\.|dop_v1_)
        [\w.~+/=-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w.-]{8,}|(?<=\bBearer\s)\S+""",
    re.VERBOSE,
)
IN_ADDRESS = re.compile(r"\b[a-z][a-z0-9+.-]*://(?P<value>[^\s/@]+)(?P<end>@)", re.IGNORECASE)


def mask_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command with what looks like a secret as `***`."""
    return tuple(masked for masked, _ in _read(command))


def list_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """Return what `mask_secrets` masks, the longest first. A short one is left out: it would be found in any text."""
    found = {value for _, values in _read(command) for value in values if len(value) >= SECRET_LEAST_CHARACTERS}
    return tuple(sorted(found, key=len, reverse=True))


def hide(text: str, values: Sequence[str]) -> str:
    """Return a text, such as what a program printed, without these secrets."""
    for value in values:
        text = text.replace(value, MASK)
    return text


def _read(command: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """Yield each word with its secrets masked, and these."""
    is_value = False
    for word in command:
        yield (MASK, [word]) if is_value and not word.startswith("-") else _mask(word)
        is_value = SECRET_OPTION.fullmatch(word) is not None


def _mask(word: str) -> tuple[str, list[str]]:
    """Mask within one word, which may be a whole script of `sh -c`. Return it, and what was masked."""
    found: list[str] = []

    def mask(match: re.Match[str]) -> str:
        parts = match.groupdict()
        value = parts.get("value") or match[0]
        found.append(value)
        return match[0][: match.start("value") - match.start()] + MASK + parts["end"] if "value" in parts else MASK

    patterns = (WHOLE_OPTION,) if WHOLE_OPTION.fullmatch(word) else (IN_ADDRESS, KNOWN_SECRETS, NAMED_SECRETS)
    for pattern in patterns:
        word = pattern.sub(mask, word)
    return word, [value for value in found if value != MASK]


def looks_secret(text: str) -> bool:
    """Whether a line of code may hold a secret: a value by its form, or one that is given to such a name."""
    plain = text.replace('"', "").replace("'", "")
    return _mask(plain)[0] != plain
