"""A hang is nobody's loss: other tests run meanwhile, and what hangs is told."""

from __future__ import annotations

import math
import time
from pathlib import Path

import pytest
import stub_producer

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.backend.registry import BackendRegistry
from nnfuzz.campaign import backend_pool
from nnfuzz.campaign.backend_pool import BackendPool
from nnfuzz.campaign.pace import LEAST_UNUSUAL
from nnfuzz.experiment.result import Run
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.config import CampaignConfig
from nnfuzz.sandbox.sandbox import wait
from nnfuzz.testcase.identity import Numbered, Probe

PLANTED = Path(__file__).parent.parent / "reduction" / "planted.py"
FINE, HANGS = "nothing import none", "hang compile O0"


class Watcher:
    def __init__(self) -> None:
        self.told = []
        self.is_dropped = False

    def suspected(self, waiting) -> None:
        self.told.append((waiting.level, waiting.stage))

    def dropped(self) -> None:
        self.is_dropped = True


def order(pool, doc, watcher=None, test=Numbered(1, 0), **how):  # noqa: B008 (frozen)
    case = stub_producer.case(test, doc)
    return pool.submit(Run("hostile", case, ("O0", "O2"), **how), watcher=watcher)


def drive(pool, until) -> None:
    deadline = time.monotonic() + 30
    while not until():
        assert time.monotonic() < deadline
        pool.dispatch()
        for sandbox, event in wait(pool.sandboxes(), 0.05):
            assert pool.feed(sandbox, event)


def kinds(answer):
    return [outcome.kind for outcome in answer._value]


@pytest.mark.slow
def test_other_tests_run_while_one_hangs(make):
    pool, watcher = make(60), Watcher()
    hangs = order(pool, HANGS, watcher)
    others = [order(pool, FINE) for _ in range(5)]
    drive(pool, lambda: all(other.ready for other in others))
    assert not hangs.ready
    drive(pool, pool.aside.waiting)
    assert watcher.told == [("O0", "compile")]
    assert pool.busy and not pool.aside.undecided()


def test_a_worker_is_ready_for_the_next_run_that_makes_way(make):
    pool = make(60)
    order(pool, HANGS)
    drive(pool, pool.aside.waiting)
    (ready,) = pool._spares
    order(pool, HANGS)
    drive(pool, lambda: pool.workers[0].runner is ready)
    assert pool._spares and ready not in pool._spares


@pytest.mark.slow
def test_who_takes_long_and_answers_is_ready_for_the_next_run_that_makes_way(make):
    pool = make(60)
    answers = [order(pool, FINE, slow=True) for _ in range(3)]
    drive(pool, lambda: all(answer.ready for answer in answers))
    (spare,) = pool._spares  # as many as there are slots
    hangs = order(pool, HANGS)
    drive(pool, pool.aside.waiting)
    assert pool.workers[0].runner is spare and not hangs.ready


def test_the_queue_holds_what_a_slot_does_while_a_run_holds_it_up(make):
    pool = make(60)
    assert pool.ahead == math.ceil(LEAST_UNUSUAL / 0.001 / 2) <= backend_pool.MOST_AHEAD
    for _ in range(200):
        pool.pace.add(3.0)
    assert pool.ahead == 1


def test_the_time_limit_alone_decides(make):
    pool, watcher = make(2), Watcher()
    hangs = order(pool, HANGS, watcher)
    drive(pool, lambda: hangs.ready)
    assert kinds(hangs) == [OutcomeKind.TIMEOUT, OutcomeKind.OK]
    assert watcher.told == [("O0", "compile")]
    assert not pool.busy and pool.seconds == 0.0


def test_a_hang_shorter_than_what_looks_like_one_is_told_as_well(make):
    pool, watcher = make(0.3), Watcher()
    hangs = order(pool, HANGS, watcher)
    drive(pool, lambda: hangs.ready)
    assert watcher.told == [("O0", "compile")]


def test_what_is_given_up_is_told_first(make):
    pool, watcher = make(60), Watcher()
    order(pool, HANGS, watcher)
    drive(pool, pool.aside.undecided)
    assert not watcher.told
    pool.give_up()
    assert watcher.told == [("O0", "compile")]
    assert not pool.aside.busy


def test_a_test_runs_at_its_own_pipeline_in_place_of_the_last_level():
    registry = BackendRegistry.discover([PLANTED])
    spec = registry.spec("drawn", {})
    config = CampaignConfig((spec,), pipelines=0.5)
    pool = BackendPool(spec, registry, (), 1)
    try:
        levels = [pool.levels_of(Numbered(0, index), config) for index in range(60)]
        again = [pool.levels_of(Numbered(0, index), config) for index in range(60)]
        probes = pool.levels_of(Probe(SupportKey.parse("direct:Relu(float32)->float32"), 0), config)
    finally:
        pool.close()
    assert levels == again
    assert probes == ("O0", "O1")
    assert {first for first, _ in levels} == {"O0"}
    last = [pipeline for _, pipeline in levels]
    assert 15 < last.count("O1") < 45
    assert all(pipeline == "O1" or pipeline.startswith("O0+") for pipeline in last)
