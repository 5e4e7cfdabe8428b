"""What looks like a secret, in the words of a command or in lines of code: a record may be shown and passed on."""

from __future__ import annotations

import re
from collections.abc import Sequence

MASK = "***"
# An option or a variable by its name: --hf-token, WANDB_API_KEY, --db.password; not --tokenizer or --max-tokens.
NAME_OF_A_KEY = r"""(?:[\w.-]*[-_.])?(?:token|secret|password|passwd|passphrase|credentials?|auth
        |(?:api|access|private|secret|auth|encryption)[-_.]?key)(?:[-_.](?:id|value|string))?"""
NAMED_SECRETS = re.compile(
    rf"(?P<name>(?<![\w.-])-{{0,2}}{NAME_OF_A_KEY})(?P<between>\s*[=:]\s*|\s+)(?P<value>[^\s'\"]+)",
    re.IGNORECASE | re.VERBOSE,
)
SECRET_OPTION = re.compile(rf"--?{NAME_OF_A_KEY}", re.IGNORECASE | re.VERBOSE)
# Values that are made to be recognised, whatever they are called.
KNOWN_SECRETS = re.compile(
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
        is_value = SECRET_OPTION.fullmatch(word) is not None
    return tuple(masked)


def _mask(word: str) -> str:
    """Mask within one word, which may be a whole script of `sh -c`."""
    word = IN_ADDRESS.sub(rf"\g<scheme>{MASK}@", word)
    word = KNOWN_SECRETS.sub(MASK, word)
    return NAMED_SECRETS.sub(rf"\g<name>\g<between>{MASK}", word)


def looks_secret(text: str) -> bool:
    """Whether a line of code may hold a secret: a value by its form, or one that is given to such a name."""
    plain = text.replace('"', "").replace("'", "")
    return _mask(plain) != plain
