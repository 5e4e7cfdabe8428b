"""By which words the frameworks, and numpy, say that memory was refused; and the sentence that says it."""

from __future__ import annotations

import re

REFUSALS = (
    "out of memory",  # PyTorch, XLA
    "out_of_memory",  # CUDA's own names
    "oom when allocating",  # TensorFlow
    "dst tensor is not initialized",  # TensorFlow, where a card has no room for what is copied to it
    "allocate memory",  # PyTorch on a processor, and the system
    "failed to allocate",
    "unable to allocate",  # numpy
    "not enough memory",
    "status_alloc_failed",  # cuBLAS, cuDNN
    "std::bad_alloc",
)
NO_FAILURE = "not a failure"  # TensorFlow tells of what it can do without
SENTENCES = 3
SENTENCE_ENDS = re.compile(r"(?<=\.)\s+(?=[A-Z])")
# Where in the framework it was, and what the words stand after: a log's beginning, the name of a status, C++'s what().
BEFORE = re.compile(r"^(?:\{\{.*?\}\}|what\(\)|.*\.(?:cc|cpp|cu|h):\d+\]?)?[ :]*(?:[A-Z_]+: )?")
AFTER = re.compile(r"\s*\[Op:.*$")


def is_memory(error: BaseException) -> bool:
    return isinstance(error, MemoryError) or bool(find_refusal(str(error)))


def refusal_words(error: BaseException) -> str:
    """Give in a sentence or three what was asked for and what there was."""
    said = str(error).strip()
    return find_refusal(said) or (said.splitlines()[0] if said else "the system gave no more")


def find_refusal(told: str) -> str:
    """Find the last line that tells of memory refused, without what stands around it; nothing, where none does.

    Frameworks begin with a page of where it was, and end with advice for other cases.
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
