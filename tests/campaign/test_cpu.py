"""CPU time per test is told by who has spent it."""

from __future__ import annotations

from nnfuzz.campaign.cpu import CpuMeter
from nnfuzz.campaign.lane_jobs import TestReport
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.store.evidence import Evidence
from nnfuzz.testcase.identity import Numbered, Probe


def report(test=Numbered(1, 0), **cpu):  # noqa: B008 (frozen)
    return TestReport(Evidence(test, 0), cpu=cpu)


def test_everything_but_compilers_is_our_own():
    meter = CpuMeter()
    meter.begin()
    meter.add(report(lanes=0.6, workers=0.2, compilers=0.8))
    meter.end()
    meter.add(report(lanes=50.0))
    spent = meter.per_test(100)
    assert (spent["lanes"], spent["compilers"], spent["workers"]) == (6, 8, 2)
    assert spent["own"] == round(6 + 2 + spent["parent"], 3)
    assert meter.per_test(0)["own"] == 0


def test_probes_are_told_beside_tests():
    meter = CpuMeter()
    meter.begin()
    for _ in range(100):
        meter.add(report(Probe(SupportKey.parse("k"), 0), probes=0.008))
    meter.end()
    spent = meter.per_test(100)
    assert spent["own"] == spent["parent"]
    assert spent["probes"] == round(8 + spent["parent"], 3)
