from __future__ import annotations

import math
import random
import statistics

import pytest

from nnfuzz.backend.outcome import Brief
from nnfuzz.base.writing import as_json
from nnfuzz.records.rows import TestRow
from nnfuzz.store.statistics import Histogram, Statistics
from nnfuzz.store.summary import Summary


def test_medians_are_good_to_one_percent():
    rng = random.Random(1)
    values = [rng.lognormvariate(-6, 2) for _ in range(4001)]
    histogram = Histogram()
    for value in values:
        histogram.add(value)
    assert histogram.median() == pytest.approx(statistics.median(values), rel=0.011)
    assert math.isnan(Histogram().median())


def test_outcomes_are_counted_by_backend_and_kind():
    figures = Statistics()
    crash = Brief("crash", "compile", "SIGSEGV")
    figures.add(TestRow(0, "run", 1, {"a": {"O0": Brief("ok"), "O1": crash}}, {"execute": 0.5}))
    figures.add(TestRow(1, "inputs", 1, {}, {"generate": 0.002}))
    assert (figures.tests, figures.indexes) == (1, 2)
    found = Summary.of(figures, [], 2.0, {"a": 0.5}, seed=3)
    assert found.outcomes["ok"] == found.outcomes["crash"] == 1
    assert found.outcomes["mismatch"] == 0
    assert found.not_run == {"inputs": 1}
    assert found.phase_ms == pytest.approx({"execute": 500, "generate": 2}, rel=0.011)
    assert found.tests_per_second == 0.5 and found.seed == 3
    wanted = {"tests", "seconds", "sut_share", "findings", "occurrences"}
    assert wanted < as_json(found).keys()
