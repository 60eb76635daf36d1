"""CPU time per test is told by who has spent it."""

from __future__ import annotations

from types import SimpleNamespace

from nnfuzz.campaign.cpu import CpuMeter


def test_what_came_before_and_comes_behind_does_not_count():
    producers = SimpleNamespace(cpu={"producers": 9.0, "judge": 0.0, "probes": 3.0})
    pool = SimpleNamespace(cpu=5.0, compiler_cpu=4.0, probe_cpu=1.0)
    meter = CpuMeter(producers, [pool])
    meter.begin()
    producers.cpu.update(producers=9.6, judge=0.2)
    pool.cpu, pool.compiler_cpu = 6.0, 4.8
    meter.add_phases({"inputs": 0.4})
    meter.end()
    producers.cpu["producers"] += 50
    told = meter.per_test(100)
    assert (told["producers"], told["judge"], told["compilers"], told["workers"]) == (6, 2, 8, 2)
    assert told["phases"] == {"inputs": 4.0}
    assert told["own"] == round(6 + 2 + 2 + told["parent"], 3)
    assert meter.per_test(0)["own"] == 0


def test_probes_are_told_beside_tests():
    producers = SimpleNamespace(cpu={"producers": 1.0, "judge": 0.0, "probes": 0.5})
    pool = SimpleNamespace(cpu=1.0, compiler_cpu=1.0, probe_cpu=0.3)
    told = CpuMeter(producers, [pool]).per_test(100, probes=100)
    assert told["own"] == round(10 + told["parent"], 3)
    assert told["probes"] == round(8 + told["parent"], 3)
