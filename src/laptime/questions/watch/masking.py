"""Words of a command that look like a secret are not kept: a record may be shown, exported and passed on."""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"
# An option or a variable by its name: --hf-token, WANDB_API_KEY, --db.password; not --tokenizer or --max-tokens.
NAME = r"""(?:[\w.-]*[-_.])?(?:token|secret|password|passwd|passphrase|credentials?|auth
        |(?:api|access|private|secret|auth|encryption)[-_.]?key)(?:[-_.](?:id|value|string))?"""
NAMED = re.compile(
    rf"(?P<name>(?<![\w.-])-{{0,2}}{NAME})(?P<between>\s*[=:]\s*|\s+)(?P<value>[^\s'\"]+)", re.IGNORECASE | re.VERBOSE
)
OPTION = re.compile(rf"--?{NAME}", re.IGNORECASE | re.VERBOSE)
# Values that are made to be recognised, whatever they are called.
KNOWN = re.compile(
    r"""\b(?:hf_|sk-|pk-|rk_live_|sk_live_|gh[pousr]_|github_pat_|glpat-|xox[abprs]-|npm_|pypi-|ya29\.|dop_v1_)
        [\w.~+/=-]{8,}|\b(?:AKIA|ASIA)[A-Z0-9]{16}\b|\bAIza[\w-]{30,}|\beyJ[\w-]{8,}\.[\w.-]{8,}|(?<=\bBearer\s)\S+""",
    re.VERBOSE,
)
IN_ADDRESS = re.compile(r"(?P<scheme>\b[a-z][a-z0-9+.-]*://)[^\s/@]+@", re.IGNORECASE)


def mask_secrets(command: Sequence[str]) -> tuple[str, ...]:
    """Return the words of a command with what looks like a secret as `***`."""
    masked: list[str] = []
    is_value = False
    for word in command:
        masked.append(MASK if is_value and not word.startswith("-") else _mask(word))
        is_value = OPTION.fullmatch(word) is not None
    return tuple(masked)


def _mask(word: str) -> str:
    """Mask within one word, which may be a whole script of `sh -c`."""
    word = IN_ADDRESS.sub(rf"\g<scheme>{MASK}@", word)
    word = KNOWN.sub(MASK, word)
    return NAMED.sub(rf"\g<name>\g<between>{MASK}", word)
