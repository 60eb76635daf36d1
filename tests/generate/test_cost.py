"""What a test case costs, in counts that are the same on every machine."""

from __future__ import annotations

import sys

from nnfuzz import Generator
from nnfuzz.vary import variation

MOST_CALLS = 9_200
"""Calls of functions for one case of ten operators; they were 8,280 when this was written."""
CASES = range(100, 140)


def test_a_test_case_takes_few_calls_of_functions(monkeypatch):
    monkeypatch.setattr(variation, "VERIFIED", 100)
    generator, calls = Generator(seed=7, nodes=10), 0

    def count(frame, event, argument):
        nonlocal calls
        calls += event in ("call", "c_call")

    for index in CASES:  # what is made once, such as the catalog of an opset
        generator[index]
    sys.setprofile(count)
    try:
        for index in CASES:
            generator[index]
    finally:
        sys.setprofile(None)
    assert calls / len(CASES) < MOST_CALLS
