"""Divide a folder that has no train and test of its own: seeded, in the published proportion, class by class."""

from __future__ import annotations

import numpy as np

from laptime.data.scan import Labels, Mask, Scan

KEY = 0x5911


def count_test(scan: Scan, train_published: int, test_published: int) -> int:
    """Give how many items are test items, so that each class, of at least two, has its share in both parts."""
    share = test_published / (train_published + test_published)
    items, groups = len(scan.names), len(np.unique(scan.strata))
    return min(max(groups, round(items * share)), items - groups)


def choose_test(scan: Scan, tests: int, seed: int) -> Mask:
    """Choose the test items; the same items whatever order the disk lists them in."""
    chosen = np.zeros(len(scan.names), np.bool_)
    counts = np.bincount(scan.strata)
    for stratum, count in enumerate(share_out(counts, tests)):
        places = np.flatnonzero(scan.strata == stratum)
        order = np.random.default_rng([seed, KEY, stratum]).permutation(len(places))
        chosen[places[order[:count]]] = True
    return chosen


def share_out(counts: Labels, tests: int) -> list[int]:
    """Give each class its share of the test items, at least one and never all; together exactly `tests`."""
    wished = counts * (tests / counts.sum())
    shares = np.clip(wished.astype(np.int64), 1, counts - 1)
    while shares.sum() != tests:
        step = 1 if shares.sum() < tests else -1
        may = shares < counts - 1 if step > 0 else shares > 1
        shares[np.argmax(np.where(may, (wished - shares) * step, -np.inf))] += step
    return [int(each) for each in shares]
