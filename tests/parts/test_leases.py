"""Every index is lent, and counted once, whatever is lost, late, said twice or begun again."""

from __future__ import annotations

import sqlite3
import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nnfuzz.parts.leases import Leases
from nnfuzz.records.lending import Lent, NodeReport
from nnfuzz.records.schedule import begins, epoch_of

LIMIT, TERM = 90, 10.0
NODES = st.sampled_from("abc")


class Cluster(RuleBasedStateMachine):
    """Nodes as unreliable as can be: each knows what was once lent to it, and says any of it."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.leases = self.opened()
        self.now = 0.0
        self.known = defaultdict(dict)  # node -> first -> end
        self.begun = 0
        self.ran, self.kept = {}, {}

    def opened(self):
        return Leases(Path(self.folder.name, "leases.sqlite"), LIMIT, TERM)

    def sync(self, node, **said) -> Lent:
        lent = self.leases.sync(NodeReport(node, begun=self.begun, **said), self.now)
        self.known[node] |= {lease.first: lease.end for lease in lent.leases}
        for lease in lent.leases:
            assert epoch_of(lease.first) == epoch_of(lease.end - 1) <= self.begun
        return lent

    @rule(node=NODES, wants=st.integers(0, 40), data=st.data())
    def speak(self, node, wants, data):
        """Late or not: whatever it was lent at some time it may have run and published."""
        mine = sorted(self.known[node])
        ran = data.draw(st.lists(st.sampled_from(mine), unique=True)) if mine else []
        done = [first for first in mine if first in self.ran or first in ran]
        kept = data.draw(st.lists(st.sampled_from(done), unique=True)) if done else []
        self.ran |= {first: self.known[node][first] for first in ran}
        self.kept |= {first: self.known[node][first] for first in kept}
        self.sync(node, wants=wants, ran=(*ran, *kept), kept=tuple(kept))

    @rule(node=NODES)
    def leave(self, node):
        assert not self.sync(node, wants=100, leaves=True).leases

    @rule(seconds=st.floats(0, 2 * TERM))
    def wait(self, seconds):
        self.now += seconds

    @rule()
    def restart(self):
        """The coordinator is killed; its clock begins anew."""
        self.leases.close()
        self.leases = self.opened()
        self.now = 0.0

    @precondition(lambda self: self.leases.observed >= begins(self.begun))
    @rule()
    def decide(self):
        self.begun += 1

    @invariant()
    def every_index_is_once_under_way_or_kept(self):
        rows = self.leases._db.execute("SELECT first, end FROM ranges ORDER BY first").fetchall()
        under_way = [index for first, end in rows for index in range(first, end)]
        kept = [index for first, end in self.kept.items() for index in range(first, end)]
        assert sorted(under_way + kept) == list(range(self.leases.frontier))
        assert self.leases.kept == len(kept) and self.leases.frontier <= LIMIT
        assert self.leases.over == (len(kept) == LIMIT)

    @invariant()
    def what_is_told_can_be_read(self):
        told = {index for first, end in self.ran.items() for index in range(first, end)}
        told |= {index for first, end in self.kept.items() for index in range(first, end)}
        assert told >= set(range(self.leases.observed))

    def teardown(self):
        """One honest node is enough to come to an end."""
        self.now += 3 * TERM
        for _ in range(2 * LIMIT):
            lent = self.sync("d", wants=20)
            firsts = tuple(lease.first for lease in lent.leases)
            self.kept |= {lease.first: lease.end for lease in lent.leases}
            lent = self.sync("d", ran=firsts, kept=firsts)
            self.now += TERM / 2  # the others are silent
            self.begun += self.leases.observed >= begins(self.begun + 1)
            if lent.over:
                break
        assert self.leases.over and self.leases.kept == LIMIT
        self.every_index_is_once_under_way_or_kept()
        self.leases.close()
        self.folder.cleanup()


Cluster.TestCase.settings = settings(max_examples=40, stateful_step_count=25, deadline=None)
test_leases = Cluster.TestCase


def test_a_silent_node_loses_its_ranges_and_what_it_decides(tmp_path):
    with Leases(tmp_path / "leases", LIMIT, TERM) as leases:
        first = leases.sync(NodeReport("a", begun=1, wants=16), 0.0)
        assert first.leads and [(x.first, x.end) for x in first.leases] == [(0, 8), (8, 16)]
        second = leases.sync(NodeReport("b", wants=1, ran=(0,)), 5.0)
        assert not second.leads and second.leases[0].first == 16 and second.observed == 8
        third = leases.sync(NodeReport("b", wants=20), TERM + 1)
        assert third.leads and [x.first for x in third.leases] == [0, 8, 16]
        late = leases.sync(NodeReport("a", ran=(8,), kept=(0, 8)), TERM + 2)
        assert not late.leases and late.observed == 16
        assert [x.first for x in leases.held("b")] == [16] and leases.kept == 16
        leases.sync(NodeReport("b", kept=(16,)), TERM + 3)  # what it has shown was not told
        assert leases.held("b") and leases.kept == 16


def test_one_finding_is_reduced_once(tmp_path):
    with Leases(tmp_path / "leases", LIMIT, TERM) as leases:
        same = (("x", "add"), ("y", "add"), ("z", "mul"))
        assert leases.sync(NodeReport("a", claims=same), 0.0).mine == ("x", "z")
        other = leases.sync(NodeReport("b", claims=same), 1.0)
        assert other.mine == other.taken == ()
        assert leases.sync(NodeReport("a", reduced=("x",)), 2.0).mine == ()
        other = leases.sync(NodeReport("b", claims=same), 3.0)
        assert other.mine == ("y",) and other.taken == ("x",)
        other = leases.sync(NodeReport("b", claims=same), 2 * TERM)  # the other one is silent
        assert set(other.mine) == {"y", "z"} and other.taken == ("x",)


def test_a_full_disk_changes_nothing_but_the_time(tmp_path):
    with Leases(tmp_path / "leases", LIMIT, TERM) as leases:
        leases.sync(NodeReport("a", begun=0, wants=4), 0.0)
        pages = leases._db.execute("PRAGMA page_count").fetchone()[0]
        leases._db.execute(f"PRAGMA max_page_count = {pages}")
        found = tuple((f"{number:0500}", "title") for number in range(40))
        for _ in range(2):
            with pytest.raises(sqlite3.OperationalError, match="full"):
                leases.sync(NodeReport("a", kept=(0,), ran=(0,), found=found), 1.0)
        assert leases.observed == leases.kept == 0
        leases._db.execute("PRAGMA max_page_count = 100000")
        lent = leases.sync(NodeReport("a", kept=(0,), ran=(0,), found=found), 2.0)
        assert lent.observed and len(leases.findings()) == 40


def test_nothing_more_is_lent_once_the_time_is_over(tmp_path):
    with Leases(tmp_path / "leases", None, TERM) as leases:
        held = leases.sync(NodeReport("a", begun=0, wants=4), 0.0).leases
        leases.closed = True
        lent = leases.sync(NodeReport("a", wants=9), 1.0)
        assert lent.over and lent.leases == held
