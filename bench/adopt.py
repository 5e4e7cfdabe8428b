"""Put what coverage.py and proof.py write, which have shapes of their own, into figures with limits."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from common import Figure

LEAST_COVERAGE, MOST_FALSE_CALLS = 93.0, 5.0
MOST_PROOF_S = {"pets-densenet": 10.0, "scenes-cnn": 10.0}
MOST_PROOF_S_ELSE = 3.0


def adopt_coverage(rows: list[dict[str, Any]]) -> Iterator[Figure]:
    """Return the worst scenario under each rule; with a fixed number of heats false calls are 5 % by design."""
    for rule in dict.fromkeys(row["rule"] for row in rows):
        under = [row for row in rows if row["rule"] == rule]
        limit = {} if "fixed" in rule else {"most": MOST_FALSE_CALLS}
        covered = min(under, key=lambda row: row["coverage"])
        called = max(under, key=lambda row: row["false_calls"])
        yield _share(f"coverage, {rule}, worst: {covered['scenario']}", covered, "coverage", least=LEAST_COVERAGE)
        yield _share(f"called different, {rule}, worst: {called['scenario']}", called, "false_calls", **limit)


def _share(name: str, row: dict[str, Any], key: str, **limit: float) -> Figure:
    value, error = 100 * row[key], 100 * row[f"{key}_error"]
    return Figure(name, value, "%", max(0.0, value - 2 * error), min(100.0, value + 2 * error), **limit)


def adopt_proofs(told: dict[str, Any]) -> Iterator[Figure]:
    """Return how many proofs were judged wrongly, and the longest that an honest lane's took on each network."""
    rows = told["rows"]
    yield Figure("proofs judged wrongly", told["wrong"], most=0)
    yield Figure("proofs", len(rows))
    yield Figure("of them cleared by a second proof", sum(row.get("chance") is not None for row in rows))
    for network in dict.fromkeys(row["network"] for row in rows):
        seconds = [row["seconds"] for row in rows if row["network"] == network and row["what"].startswith("honest")]
        if any(seconds):
            most = MOST_PROOF_S.get(network, MOST_PROOF_S_ELSE)
            yield Figure(f"{network}: proof of an honest lane, longest", max(seconds), "s", most=most)


ADOPTERS: dict[str, Callable[[Any], Iterator[Figure]]] = {
    "coverage": adopt_coverage,
    "proof": adopt_proofs,
    "honest": adopt_proofs,
}
