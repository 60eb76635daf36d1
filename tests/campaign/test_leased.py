"""Nodes that are lent ranges make the test cases of one process, whatever is lost on the way."""

from __future__ import annotations

import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import drive
from test_epochs import campaign

from nnfuzz.base.writing import as_json
from nnfuzz.campaign.session import run_campaign
from nnfuzz.cli.progress import Silent
from nnfuzz.experiment.procedure import Procedure
from nnfuzz.feedback.support_cache import SupportCache
from nnfuzz.parts.depot import Depot
from nnfuzz.parts.leases import Leases
from nnfuzz.parts.merging import merge
from nnfuzz.parts.shared_leases import SharedLeases
from nnfuzz.store.store import Store

NODES, TESTS = 2, 70


class Local:
    """A coordinator in this process. die: whether it is begun anew with every tenth report."""

    def __init__(self, folder, term=60.0, die=False):
        folder.mkdir(exist_ok=True)
        self._open = lambda: Leases(folder / "leases.sqlite", TESTS, term)
        self.leases = self._open()
        self._lock = threading.Lock()
        self._reports = 0
        self._die = die

    def sync(self, report):
        with self._lock:
            self._reports += 1
            if self._die and self._reports % 10 == 0:
                self.leases = self._open()
                raise ConnectionError("killed")
            return self.leases.sync(report, time.monotonic())


def node(folder, coordinator, stop=None, **more):
    """A session of a node. stop: of tests after which its machine is gone, with its disk."""
    share = str(folder.parent / "share")
    settings = {"unrestrained": 0.2, "throttle": 5, "probe_seconds": 10.0, **more}
    config, registry = drive.settings(TESTS, "fusing", "liar", share=share, **settings)
    start = Store.open if folder.exists() else lambda path: Store.create(path, as_json(config))
    with start(folder) as store:
        cut = Cut(coordinator, stop, store)
        cache = SupportCache(folder / "cache")
        run_campaign(store, config, registry, Silent(), cache, cut.gone, cut)


class Cut:
    """A coordinator that hears nothing more from a node once it is gone."""

    def __init__(self, coordinator, stop, store):
        self._coordinator, self._stop, self._store = coordinator, stop, store
        self._unplugged = False

    def gone(self):
        self._unplugged |= self._stop is not None and self._store.tests.count() >= self._stop
        return self._unplugged

    def sync(self, report):
        assert not self._unplugged, "unplugged"
        return self._coordinator.sync(report)


@pytest.fixture(scope="module")
def alone(tmp_path_factory):
    campaign(folder := tmp_path_factory.mktemp("alone") / "c", tests=TESTS)
    return gist(folder)


def gist(folder):
    with Store.open(folder) as store:
        tests = [(t.index, t.status, t.digest, t.items) for t in store.tests.rows()]
        return tests, {row.signature: row.test for row in store.signatures.rows()}


def test_nodes_make_the_test_cases_of_one_process(alone, tmp_path):
    coordinator = Local(tmp_path / "cluster", die=True)
    with ThreadPoolExecutor(NODES) as pool:
        list(pool.map(lambda k: node(tmp_path / str(k), coordinator), range(NODES)))
    assert coordinator.leases.kept == TESTS
    assert whole(tmp_path) == alone


def test_a_node_that_is_lost_is_replaced(alone, tmp_path):
    """The one that decides is gone with its disk; another one comes to the same."""
    coordinator = Local(tmp_path / "cluster", term=2.0)
    with pytest.raises(AssertionError, match="unplugged"):
        node(tmp_path / "lost", coordinator, stop=40)
    assert coordinator.leases.begun > 1 and coordinator.leases.kept < 40
    node(tmp_path / "other", coordinator)
    assert whole(tmp_path) == alone


def test_a_part_that_is_lost_is_replaced(alone, tmp_path):
    """The same with nothing but files between the nodes."""
    share = str(tmp_path / "share")
    config, _ = drive.settings(TESTS, "fusing", "liar", share=share, shard="1/2")
    with pytest.raises(AssertionError, match="unplugged"):
        node(tmp_path / "lost", SharedLeases(config, "lost", 2.0), stop=40, shard="1/2")
    assert len(Depot(share).names("ranges/000002")) > 0
    node(tmp_path / "other", SharedLeases(config, "other", 2.0), shard="2/2")
    assert whole(tmp_path) == alone


@pytest.mark.parametrize("earlier_copy", [False, True])
def test_a_resumed_part_tries_faults_again(tmp_path, monkeypatch, earlier_copy):
    """The rest of the part is published by then, and a copy of it may have been merged."""
    compare = Procedure._compare

    async def broken(self):
        if self.case.id.index in (3, 41):
            raise ZeroDivisionError("of ours")
        await compare(self)

    def session():
        config, _ = drive.settings(TESTS, "fusing", "liar", share=str(tmp_path / "share"))
        node(tmp_path / "c", SharedLeases(config, "one"))

    monkeypatch.setattr(Procedure, "_compare", broken)
    session()
    monkeypatch.setattr(Procedure, "_compare", compare)
    if earlier_copy:
        assert faults(merged(tmp_path)) == ([3, 41], {"fault": 2})
    session()
    assert faults(merged(tmp_path)) == ([], {"retried": 2})
    assert [index for index, *_ in gist(tmp_path / "whole")[0]] == [*range(TESTS)]


def faults(folder):
    """Indexes of tests that a fault of nnfuzz ended; the number of events by kind."""
    with Store.open(folder, write=False) as store:
        return [t.index for t in store.tests.rows() if t.status == "fault"], store.events.counts()


def merged(folder):
    merge([folder / "share"], folder / "whole", print).close()
    return folder / "whole"


def whole(folder):
    return gist(merged(folder))
