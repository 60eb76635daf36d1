"""Severities: what a failure does to a user decides which finding is read first."""

from dataclasses import replace

import numpy as np
import pytest

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.compare.mismatch import Element, Verdict
from nnfuzz.triage.severity import Severity
from nnfuzz.triage.signature import failures
from tests.triage.test_cause import FUSED
from tests.triage.test_signature import crashed, failed, outcome, verdict

ORDINARY = {"x": np.ones(2, np.float32)}


def wrong(expected, actual, inputs=ORDINARY, levels=("O1",)):
    told = verdict(**{level: [("y", "value")] for level in levels})
    worst = Element(index=(), expected=expected, actual=actual, lo=expected, hi=expected)
    told = Verdict(
        {t: tuple(replace(m, worst=worst) for m in ms) for t, ms in told.mismatches.items()}
    )
    (failure,) = failures([outcome("O0"), outcome("O1")], told, FUSED)
    return Severity.of(failure, told, FUSED, inputs)


@pytest.mark.parametrize(
    ("found", "severity"),
    [
        (wrong(1.0, 7.0), "optimiser"),
        (wrong(1.0, float("nan")), "optimiser"),
        (wrong(1.0, 7.0, levels=("O0", "O1")), "wrong"),
        (wrong(1.0, 1.0001), "precision"),
        (wrong(float("nan"), 7.0), "nonfinite"),
        (wrong(1.0, 7.0, {"x": np.array([np.inf], np.float32)}), "nonfinite"),
        (wrong(0.0, -0.0), "zeros"),
    ],
)
def test_a_wrong_result_is_as_grave_as_what_it_needs(found, severity):
    assert found == severity


def test_a_death_is_graver_than_an_error():
    severities = []
    for ran in (crashed("O1"), failed("O1"), replace(failed("O1"), kind=OutcomeKind.TIMEOUT)):
        (failure,) = failures([outcome("O0"), ran])
        severities.append(Severity.of(failure, None, FUSED, {}))
    assert severities == ["memory", "fails", "fails"]
    assert [s.rank for s in Severity] == sorted(s.rank for s in Severity)
