"""Times of sessions in the store."""

from __future__ import annotations

import time

import pytest

from nnfuzz.records.rows import (
    TestRow,
)
from nnfuzz.store.store import Store


def test_the_time_of_earlier_sessions_is_kept(store, tmp_path):
    store.record(TestRow(1, "run", 1))
    store.flush()
    spent = store.sessions.seconds()
    assert store.sessions.seconds_before() == 0
    store.close()
    with Store.open(tmp_path / "campaign") as again:
        again.sessions.begin()
        assert 0 < again.sessions.seconds_before() <= spent


def test_start_up_is_no_time_of_the_campaign(store):
    store.sessions.begin()
    time.sleep(0.01)
    before, moment = store.sessions.seconds(), store.sessions.moment()
    store.sessions.restart_clock()
    assert store.sessions.seconds() < before
    assert store.sessions.rows()[-1].started >= moment
    assert store.sessions.moment() >= moment


def test_the_share_of_time_in_compilers_is_over_all_sessions(tmp_path):
    store = Store.create(tmp_path, {})
    for _ in range(2):
        store.sessions.begin()
        store.sessions.account(2, lambda: {"toy": 3 * store.sessions.seconds() / 2})
        store.record(TestRow(1, "run", 1))
        store.flush()
    assert store.sessions.sut_shares() == {"toy": pytest.approx(0.75, rel=0.5)}
    store.close()


def test_time_in_compilers_counts_as_long_as_the_clock_runs(store):
    spent = {"toy": 5.0}
    store.sessions.account(2, lambda: dict(spent))
    store.sessions.restart_clock()
    spent["toy"] = 7.0
    assert store.sessions.sut_seconds() == {"toy": 2.0}
    store.sessions.stop_clock()
    spent["toy"] = 9.0
    assert store.sessions.sut_seconds() == {"toy": 2.0}
