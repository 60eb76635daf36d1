"""Runs that take long."""

from __future__ import annotations

from nnfuzz.campaign import long_runs
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.testcase.identity import Probe
from tests.campaign.test_backend_pool import FINE, HANGS, Watcher, drive, order


def test_suspects_take_turns_and_those_beyond_the_backlog_are_dropped(make, monkeypatch):
    monkeypatch.setattr(long_runs, "SUSPECTS", 1)
    pool = make(60, backlog=1)
    watchers = [Watcher() for _ in range(3)]
    for watcher in watchers:
        order(pool, HANGS, watcher)
    drive(pool, lambda: all(watcher.told for watcher in watchers))
    assert (len(pool.aside.waiting()), len(pool.aside.queue)) == (1, 1)
    assert [watcher.is_dropped for watcher in watchers] == [False, False, True]


def test_repetitions_of_a_hang_never_take_a_slot(make, monkeypatch):
    monkeypatch.setattr(long_runs, "SUSPECTS", 3)
    pool = make(2)
    again = [order(pool, HANGS, fresh=True, slow=True) for _ in range(3)]
    fine = order(pool, FINE)
    drive(pool, lambda: fine.ready)
    assert not any(answer.ready for answer in again)
    assert len(pool.aside.waiting()) == 3
    drive(pool, lambda: all(answer.ready for answer in again))


def test_where_nothing_else_goes_on_all_that_takes_long_is_suspected(make, monkeypatch):
    monkeypatch.setattr(long_runs, "SUSPECTS", 2)
    pool, probing, testing = make(60), Watcher(), Watcher()
    order(pool, HANGS, probing, Probe(SupportKey.parse("direct:Relu(float32)->float32"), 0))
    order(pool, HANGS, testing)
    drive(pool, lambda: not pool.at_work)
    pool.aside.suspect_all()
    assert probing.told == testing.told == [("O0", "compile")]
