"""Producers from one epoch to the next."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from stub_producer import Introduce

from nnfuzz.campaign.producer_pool import PoolError, ProducerOrder, ProducerPool
from nnfuzz.records.config import ProducerSettings
from nnfuzz.sandbox.events import Death, DeathKind, Reply
from nnfuzz.sandbox.sandbox import wait
from nnfuzz.testcase.case import CaseConfig

CONFIG = CaseConfig()
PRELOAD = ("numpy", "stub_producer")


@pytest.fixture
def pool(monkeypatch) -> Iterator[ProducerPool]:
    monkeypatch.syspath_prepend(str(Path(__file__).parent))
    pool = ProducerPool(ProducerSettings("stub_producer:echo", PRELOAD, seconds=5.0), 1, 1, CONFIG)
    yield pool
    pool.close()


def ask(pool: ProducerPool, die: bool = False) -> tuple[Reply | Death, int]:
    """The end of a job, and the epoch that it ran under."""
    ends = []
    orders = [
        ProducerOrder(Introduce(die), lambda event, epoch, seconds: ends.append((event, epoch)))
    ]
    deadline = time.monotonic() + 20
    while not ends and time.monotonic() < deadline:
        pool.dispatch(lambda: orders.pop() if orders else None)
        for sandbox, event in wait(pool.sandboxes(), 0.1):
            pool.feed(sandbox, event)
    return ends[0]


def test_a_worker_stays_and_is_told_the_new_configuration(pool):
    pool.configure(1, CONFIG)
    first, epoch = ask(pool)
    assert (first.value.opset, epoch) == (CONFIG.opset, 1)
    pool.configure(2, replace(CONFIG, opset=17))
    second, epoch = ask(pool)
    assert (second.value.opset, epoch) == (17, 2)
    assert second.value.pid == first.value.pid


def test_a_worker_that_replaces_another_has_the_newest_configuration(pool):
    pool.configure(1, CONFIG)
    first, _ = ask(pool)
    pool.configure(2, replace(CONFIG, opset=17))
    assert isinstance(ask(pool, die=True)[0], Death)
    second, epoch = ask(pool)
    assert (second.value.opset, epoch) == (17, 2)
    assert second.value.pid != first.value.pid


def test_a_configuration_that_a_worker_refuses_ends_the_campaign(pool):
    pool.configure(1, CONFIG)
    ask(pool)
    with pytest.raises(PoolError, match="nothing is left"):
        pool.configure(2, replace(CONFIG, exclude=("Add",)))
        ask(pool)


@pytest.mark.parametrize("kills, answered", [(3, True), (1000, False)])
def test_a_question_outlives_what_others_kill(kills, answered):
    killed = Death(DeathKind.CRASH, "start", "SIGKILL", None, "", 0.0)
    events = iter([killed] * kills + ["answer"])
    pool = ProducerPool.__new__(ProducerPool)
    sandbox = SimpleNamespace(call=lambda job: next(events))
    pool.epoch, pool.workers = 0, [SimpleNamespace(epoch=0, sandbox=sandbox)]
    assert (pool.call(Introduce()) == "answer") is answered
