"""Which indexes are still to be tested."""

from __future__ import annotations

from collections import deque
from types import SimpleNamespace

import pytest

from nnfuzz.base.shard import Shard
from nnfuzz.campaign.epochs import Indexes
from nnfuzz.campaign.lane_jobs import Enter, Order
from nnfuzz.campaign.lanes import Lanes
from nnfuzz.sandbox.events import Death, DeathKind, Reply
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import Numbered
from nnfuzz.testcase.jobs import Produce


def taken(limit, count, done=(), part=Shard()):  # noqa: B008
    indexes = Indexes(limit, set(done).__contains__, part)
    return [indexes.take() if indexes.left else None for _ in range(count)]


def test_what_earlier_sessions_did_is_left_out():
    assert taken(5, 4, done=[0, 3]) == [1, 2, 4, None]


def test_without_a_limit_there_is_always_something_left():
    assert taken(None, 3, done=[1]) == [0, 2, 3]


def test_a_part_has_its_own():
    assert taken(6, 4, part=Shard.parse("2/2")) == [1, 3, 5, None]


@pytest.mark.parametrize(
    ("more", "again"),
    [
        ({}, True),
        ({"stage": "inputs"}, False),
        ({"kind": DeathKind.TIMEOUT}, False),
        ({"signal": "SIGKILL"}, False),
    ],
)
def test_only_a_crash_within_the_exporter_is_the_exporters(more, again):
    job = Produce(Numbered(1, 0))
    fields = {"kind": DeathKind.CRASH, "stage": "export", "signal": "SIGSEGV", **more}
    died = Death(**fields, exit_code=None, captured="words", seconds=0.1)
    expected = Produce(Numbered(1, 0), ("SIGSEGV", "words")) if again else None
    assert job.after(died) == expected
    assert job.after(Reply(None)) is None


def test_tests_of_a_lost_lane_are_made_again_under_the_settings_of_their_epoch():
    old, new = (Enter(n, n, CaseConfig(), (), {}, {}) for n in (1, 2))
    lanes, begun = object.__new__(Lanes), []
    lanes.arguments, lanes.returned, lanes._entered = {}, deque(), new
    lanes.begin = lambda worker, order: begun.append(order)
    lane = SimpleNamespace(epoch=2, entered=new, sandbox=SimpleNamespace(rearm=lambda arguments: 0))
    died = Death(DeathKind.CRASH, "run", "SIGKILL", None, "", 0.1)
    lanes._lost([Order(Numbered(1, index)) for index in (8, 9)], died, old)
    lanes.prepare(lane)
    assert [order.test.index for order, _ in lanes.returned] == [8, 9]
    lanes.returned.clear()
    lanes.prepare(lane)
    assert begun == [old, new] and lane.entered is new
