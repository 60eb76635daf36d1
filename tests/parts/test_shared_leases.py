"""Nodes that see nothing but one folder lease every index, whatever is lost, late or raced for."""

from __future__ import annotations

import tempfile
from collections import defaultdict
from pathlib import Path

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from nnfuzz.backend.registry import BackendSpec
from nnfuzz.parts.depot import Depot
from nnfuzz.parts.exchange import config_file
from nnfuzz.parts.shared_leases import BEATS, SharedLeases
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.lending import NodeReport
from nnfuzz.records.schedule import begins, epoch_of

LIMIT, TERM = 90, 10.0
NODES = st.sampled_from("abc")


class Files:
    """A folder and a clock for any number of nodes."""

    def __init__(self, share, limit=LIMIT):
        self.depot = Depot(str(share))
        self.config = CampaignConfig(
            backends=(BackendSpec("toy"),), seed=1, tests_limit=limit, shard="1/3", share=str(share)
        )
        self.now = 0.0

    def node(self, name):
        return SharedLeases(self.config, name, TERM, lambda: self.now, lambda seconds: None)

    def decide(self, epoch):
        self.depot.put(config_file(epoch), b"[]")


@pytest.fixture(params=["folder", "memory"])
def files(request, tmp_path):
    share = tmp_path / "share" if request.param == "folder" else f"memory://{tmp_path.name}"
    return Files(share)


def firsts(lent):
    return [lease.first for lease in lent.leases]


class Cluster(RuleBasedStateMachine):
    """Nodes as unreliable as can be: each reports anything that it was ever lent."""

    def __init__(self):
        super().__init__()
        self.folder = tempfile.TemporaryDirectory()
        self.files = Files(Path(self.folder.name, "share"))
        self.nodes = {name: self.files.node(name) for name in "abcd"}
        self.known = defaultdict(dict)  # node -> first -> end
        self.ran, self.kept = {}, {}
        self.begun = self.observed = -1

    def sync(self, node, **said):
        lent = self.nodes[node].sync(NodeReport(node, **said))
        self.known[node] |= {lease.first: lease.end for lease in lent.leases}
        for lease in lent.leases:
            assert epoch_of(lease.first) == epoch_of(lease.end - 1) <= self.begun
        assert lent.begun == self.begun
        told = {index for first, end in self.ran.items() for index in range(first, end)}
        assert told >= set(range(lent.observed))
        self.observed = max(self.observed, lent.observed)
        kept = {index for first, end in self.kept.items() for index in range(first, end)}
        assert lent.over == (kept == set(range(LIMIT)))
        return lent

    @rule(node=NODES, wants=st.integers(0, 40), data=st.data())
    def speak(self, node, wants, data):
        mine = sorted(self.known[node])
        ran = data.draw(st.lists(st.sampled_from(mine), unique=True)) if mine else []
        kept = data.draw(st.lists(st.sampled_from(ran), unique=True)) if ran else []
        self.ran |= {first: self.known[node][first] for first in ran}
        self.kept |= {first: self.known[node][first] for first in kept}
        self.sync(node, wants=wants, ran=tuple(ran), kept=tuple(kept))

    @rule(node=NODES)
    def leave(self, node):
        assert not self.sync(node, wants=100, leaves=True).leases

    @rule(node=NODES)
    def restart(self, node):
        """A node's process is killed and begun anew, under its name."""
        self.nodes[node] = self.files.node(node)

    @rule(seconds=st.floats(0, 2 * TERM))
    def wait(self, seconds):
        self.files.now += seconds

    @precondition(lambda self: self.observed >= min(LIMIT, begins(self.begun)))
    @rule()
    def decide(self):
        self.begun += 1
        self.files.decide(self.begun)

    @invariant()
    def no_range_has_two_holders_for_long(self):
        held = [lease.first for name in "abc" for lease in self.nodes[name]._held()]
        if not self.begun < 0 and len(held) > len(set(held)):
            for name in "abc":
                self.nodes[name]._look()
            held = [lease.first for name in "abc" for lease in self.nodes[name]._held()]
            assert len(held) == len(set(held))

    def teardown(self):
        """One honest node is enough to come to an end."""
        for _ in range(2 * LIMIT):
            lent = self.sync("d", wants=20)
            done = tuple(firsts(lent))
            ends = {lease.first: lease.end for lease in lent.leases}
            self.ran |= ends
            self.kept |= ends
            lent = self.sync("d", ran=done, kept=done)
            self.files.now += TERM / 2  # the others are silent
            if lent.observed >= min(LIMIT, begins(self.begun)) and self.begun < epoch_of(LIMIT):
                self.decide()
            if lent.over:
                break
        assert lent.over and lent.observed == LIMIT
        self.folder.cleanup()


Cluster.TestCase.settings = settings(max_examples=30, stateful_step_count=20, deadline=None)
test_leases_of_unreliable_nodes = Cluster.TestCase


def test_nodes_hold_different_ranges(files):
    files.decide(0)
    one, two = files.node("a"), files.node("b")
    first, second = one.sync(NodeReport("a", wants=5)), two.sync(NodeReport("b", wants=99))
    assert first.leads and not second.leads
    assert sorted(firsts(first) + firsts(second)) == [0, 4, 8, 12]
    assert firsts(one.sync(NodeReport("a", wants=5))) == firsts(first)


def test_of_two_equal_claims_one_counts(files):
    """Both nodes have looked before the other one's claim was there."""
    files.decide(0)
    for thing in ("ranges/000000/0-4", "leader/epochs"):
        for node in "ba":
            files.depot.put(f"{thing}.lent.1.{node}", b"")
    one, two = files.node("a"), files.node("b")
    first, second = one.sync(NodeReport("a")), two.sync(NodeReport("b"))
    assert first.leads and firsts(first) == [0]
    assert not second.leads and not second.leases


def test_a_silent_node_loses_what_it_holds_and_finds_out(files):
    files.decide(0)
    files.decide(1)
    slow, other = files.node("a"), files.node("b")
    had = firsts(slow.sync(NodeReport("a", wants=16, claims=(("x", "add"),))))
    for _ in range(4):  # less than a term
        files.now += TERM / 5
        assert other.sync(NodeReport("b", claims=(("x", "add"),))).mine == ()
    files.now += TERM / 2
    lent = other.sync(NodeReport("b", wants=99, claims=(("x", "add"),)))
    assert lent.leads and set(firsts(lent)) >= set(had) and lent.mine == ("x",)
    late = slow.sync(NodeReport("a", ran=tuple(had), kept=tuple(had[:1])))
    assert not late.leases and not late.leads
    assert had[0] not in firsts(other.sync(NodeReport("b")))


def test_a_node_that_has_left_is_not_waited_for(files):
    files.decide(0)
    one, two = files.node("a"), files.node("b")
    held = one.sync(NodeReport("a", wants=99)).leases
    assert len(held) == 4 and not two.sync(NodeReport("b", wants=99)).leases
    one.sync(NodeReport("a", leaves=True))
    lent = two.sync(NodeReport("b", wants=99))
    assert lent.leads and len(lent.leases) == 4
    assert not one.sync(NodeReport("a", wants=99)).leases  # it comes back


def test_one_finding_of_a_cluster_is_reduced_at_a_time(files):
    one, two = files.node("a"), files.node("b")
    same = (("x", "add"), ("y", "add"), ("z", "mul"))
    assert one.sync(NodeReport("a", claims=same)).mine == ("x", "z")
    other = two.sync(NodeReport("b", claims=same))
    assert other.mine == other.taken == ()
    one.sync(NodeReport("a", reduced=("x",)))
    other = two.sync(NodeReport("b", claims=same))
    assert other.mine == ("y",) and other.taken == ("x",)


def test_heartbeats_do_not_pile_up(files):
    node = files.node("a")
    for _ in range(30):
        node.sync(NodeReport("a"))
        files.now += TERM / BEATS
    assert 1 <= len(files.depot.names("nodes")) <= 2


def test_foreign_files_and_a_higher_limit_change_nothing(files):
    files.decide(0)
    for name in ("nodes/.nfs0001", "nodes/a.beat.x", "epochs/notes.txt", "ranges/000000/0-4"):
        files.depot.put(name, b"")
    files.depot.put("ranges/000000/0-4.lent.²·.b", b"")
    low = SharedLeases(Files(files.depot.url, 10).config, "a", TERM, lambda: 0.0, lambda s: None)
    ends = [(lease.first, lease.end) for lease in low.sync(NodeReport("a", wants=99)).leases]
    assert sorted(ends) == [(0, 4), (4, 8), (8, 10)]
    done = tuple(first for first, _ in ends)
    assert low.sync(NodeReport("a", ran=done, kept=done)).over
    lent = files.node("b").sync(NodeReport("b", wants=99))
    assert not lent.over and lent.observed == 8
    assert [(lease.first, lease.end) for lease in lent.leases] == [(8, 12), (12, 16)]
