"""CPU time per test is told by who has spent it."""

from __future__ import annotations

from nnfuzz.campaign.cpu import CpuMeter
from nnfuzz.campaign.lane_jobs import Told
from nnfuzz.store.evidence import Evidence
from nnfuzz.testcase.identity import Numbered


def told(**cpu):
    return Told(Evidence(Numbered(1, 0), 0), cpu=cpu)


def test_everything_but_compilers_is_our_own():
    meter = CpuMeter()
    meter.begin()
    meter.add(told(lanes=0.6, workers=0.2, compilers=0.8), probe=False)
    meter.end()
    meter.add(told(lanes=50.0), probe=False)
    spent = meter.per_test(100)
    assert (spent["lanes"], spent["compilers"], spent["workers"]) == (6, 8, 2)
    assert spent["own"] == round(6 + 2 + spent["parent"], 3)
    assert meter.per_test(0)["own"] == 0


def test_probes_are_told_beside_tests():
    meter = CpuMeter()
    meter.begin()
    for _ in range(100):
        meter.add(told(probes=0.008), probe=True)
    meter.end()
    spent = meter.per_test(100)
    assert spent["own"] == spent["parent"]
    assert spent["probes"] == round(8 + spent["parent"], 3)
