"""The words with which frameworks and numpy refuse memory, and how to find the sentence in an error that has them."""

from __future__ import annotations

import re

REFUSALS = (
    "out of memory",  # PyTorch, XLA
    "out_of_memory",  # CUDA's own names
    "oom when allocating",  # TensorFlow
    "dst tensor is not initialized",  # TensorFlow, where data do not fit on a card
    "allocate memory",  # PyTorch on a processor, and the system
    "failed to allocate",
    "unable to allocate",  # numpy
    "not enough memory",
    "status_alloc_failed",  # cuBLAS, cuDNN
    "std::bad_alloc",
)
NO_FAILURE = "not a failure"  # TensorFlow also reports allocations that failed but that it can do without
SENTENCES = 3
SENTENCE_ENDS = re.compile(r"(?<=\.)\s+(?=[A-Z])")
# What precedes the words: the place in the framework, the start of a log line, a status name, C++'s what().
BEFORE = re.compile(r"^(?:\{\{.*?\}\}|what\(\)|.*\.(?:cc|cpp|cu|h):\d+\]?)?[ :]*(?:[A-Z_]+: )?")
AFTER = re.compile(r"\s*\[Op:.*$")


def is_memory_error(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or bool(find_refusal(str(error)))


def refusal_words(error: BaseException) -> str:
    """Return one to three sentences: how much memory was requested, and how much there was."""
    said = str(error).strip()
    return find_refusal(said) or (said.splitlines()[0] if said else "the system gave no more")


def find_refusal(told: str) -> str:
    """Return the last line that refuses memory, without prefix and suffix, or an empty string.

    Frameworks begin with a page about where it happened, and end with advice for other cases.
    """
    lines = [line for line in told.splitlines() if _refuses(line) and NO_FAILURE not in line]
    if not lines:
        return ""
    sentences = SENTENCE_ENDS.split(AFTER.sub("", lines[-1].strip()))
    first = next((place for place, each in enumerate(sentences) if _refuses(each)), 0)
    kept = [BEFORE.sub("", sentences[first], count=1), *sentences[first + 1 : first + SENTENCES]]
    return " ".join(kept)


def _refuses(line: str) -> bool:
    said = line.lower()
    return any(words in said for words in REFUSALS)
