"""A coordinator made of files: nodes that see one folder or address share a campaign, without a
server.

    nodes/NODE.beat.COUNT        heartbeats; the newest one ends in .left if the session is over
    leader/epochs.lent.G.NODE    the node that decides the epochs
    ranges/EPOCH/FIRST-END.lent.G.NODE    the node that runs a range
    ranges/EPOCH/FIRST-END.ran   the range's observations can be read
    ranges/EPOCH/FIRST-END.kept  its rows and findings can be read, too
    epochs/EPOCH.kept            so can those of a whole epoch
    reductions/SIGNATURE.lent.G.NODE.CLUSTER    the node that reduces a finding
    reductions/SIGNATURE.reduced.NODE           the node that has reduced it

Such places have no lock that works everywhere, so nothing relies on one. To take a thing, a node
writes a claim with a generation G above all others and looks again: the highest generation holds
it, and of two equal ones the node with the lesser name. A node that sees itself outdone drops the
thing. For a moment two nodes may hold one; both then make the same tests, which are merged once.

A node takes a thing from another one only if that has left, or if its heartbeat has not advanced
for TERM seconds on the clock of the one that looks, so no clocks are compared. A slow node that was
taken for dead finds the higher generation and goes on with other ranges.

The ranges of an epoch follow from its length, the number of parts and the limit of tests. All files
but heartbeats are written once and never change.
"""

from __future__ import annotations

import hashlib
import re
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from nnfuzz.parts.depot import Depot
from nnfuzz.parts.exchange import config_file
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.lending import Lease, Lent, NodeReport, range_size
from nnfuzz.records.schedule import begins, epoch_of

TERM = 120.0
"""Seconds without a heartbeat after which a node's ranges are taken by others. Network file systems
may show a new file a minute late."""
BEATS = 20
"""Heartbeats in one term."""
FOLDER_PACE, ADDRESS_PACE = 0.25, 2.0
"""Seconds between two looks at a folder, and at an address, which may charge for each."""
SETTLING = 0.2
"""Part of the pace that a node waits before it looks whether another one has claimed the same."""
EPOCHS, LEADER, NODES, RANGES, REDUCTIONS = "epochs", "leader", "nodes", "ranges", "reductions"
_BEAT = re.compile(r"(\w+)\.beat\.(\d{1,12})(\.left)?")
_EPOCH = re.compile(r"(\d{1,12})\.(json|kept)")
LENT, RAN, KEPT, REDUCED = "lent", "ran", "kept", "reduced"


@dataclass
class _Listing:
    """Files of a folder. held: generation, holder and label of each claimed thing. marks: other
    states of things, each with the node that is named.
    """

    held: dict[str, tuple[int, str, str]] = field(default_factory=dict)
    marks: dict[tuple[str, str], str] = field(default_factory=dict)

    @classmethod
    def of(cls, names: Iterable[str]) -> _Listing:
        listing = cls()
        for name in names:
            thing, *words = name.split(".")
            if len(words) in (3, 4) and words[0] == LENT and words[1].isdecimal():
                claim = int(words[1]), words[2], "".join(words[3:])
                listing.held[thing] = min(listing.held.get(thing, claim), claim, key=_rank)
            elif words:
                listing.marks[thing, words[0]] = "".join(words[1:])
        return listing


def _rank(claim: tuple[int, str, str]) -> tuple[int, str]:
    """The least claim counts."""
    return -claim[0], claim[1]


class SharedLeases:
    """One node's view of the files, and its part of them."""

    def __init__(
        self,
        config: CampaignConfig,
        node: str,
        term: float = TERM,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        """node: its name, of letters and digits. Raises: Unreadable if there is no such address."""
        self._depot = Depot(config.share)
        self._node = node
        self._term = term
        self._clock = clock
        self._sleep = sleep
        self._limit = config.tests_limit
        self._longest = config.epoch
        self._place = config.place
        self._pace = FOLDER_PACE if self._depot.is_folder else ADDRESS_PACE
        self._heartbeats: dict[str, tuple[tuple[int, bool], float]] = {}
        """Of a node's latest heartbeat: its count, whether the node left, and when it was read."""
        self._own_beats: list[tuple[int, str]] = []
        self._next_beat = 0.0
        self._begun = -1
        self._ended: set[int] | None = None
        """Completely published epochs; None before the first look."""
        self._files: dict[int, _Listing] = {}
        """The other epochs that are decided."""

    def sync(self, report: NodeReport) -> Lent:
        """Raises: Unreadable if the files cannot be reached for now."""
        self._observe_nodes()
        self._look()
        self._record(report)
        leads = self._leads(report.leaves)
        if not report.leaves:
            self._lend(report.wants)
        mine, taken = self._claim(report)
        self._beat(report.leaves)
        held = () if report.leaves else tuple(self._held())
        return Lent(held, leads, self._begun, self._observed(), mine, taken, self._over, self._pace)

    # -- nodes --------------------------------------------------------------------------------

    def _observe_nodes(self) -> None:
        """Looks at the heartbeats of all nodes."""
        latest: dict[str, tuple[int, bool]] = {}
        self._own_beats = []
        for name in self._depot.names(NODES):
            if beat := _BEAT.fullmatch(name):
                node, state = beat[1], (int(beat[2]), bool(beat[3]))
                latest[node] = max(latest.get(node, state), state)
                self._own_beats += [(state[0], name)] if node == self._node else []
        for node, state in latest.items():
            if self._heartbeats.get(node, (None,))[0] != state:
                self._heartbeats[node] = state, self._clock()

    def _beat(self, leaves: bool) -> None:
        """Writes a heartbeat, if one is due."""
        if not leaves and self._own_beats and self._clock() < self._next_beat:
            return
        self._next_beat = self._clock() + self._term / BEATS
        earlier = sorted(self._own_beats)
        count = earlier[-1][0] + 1 if earlier else 1
        self._depot.put(f"{NODES}/{self._node}.beat.{count}{'.left' if leaves else ''}", b"")
        for _, name in earlier[:-1]:  # the last one stays, since a listing may miss the new one
            self._depot.remove(f"{NODES}/{name}")

    def _alive(self, node: str) -> bool:
        beat, since = self._heartbeats.setdefault(node, ((-1, False), self._clock()))
        return node == self._node or (not beat[1] and self._clock() - since <= self._term)

    # -- claims -------------------------------------------------------------------------------

    def _take(self, folder: str, listing: _Listing, things: Iterable[tuple[str, str]]) -> _Listing:
        """Claims things, each with a label, that no living node holds; returns the holders then."""
        claimed = False
        for thing, label in things:
            generation, holder, _ = listing.held.get(thing, (0, "", ""))
            if not holder or not self._alive(holder):
                claim = f"{thing}.{LENT}.{generation + 1}.{self._node}" + (label and f".{label}")
                self._depot.put(f"{folder}/{claim}", b"")
                claimed = True
        if not claimed:
            return listing
        self._sleep(self._pace * SETTLING)
        return self._list(folder)

    def _list(self, folder: str) -> _Listing:
        return _Listing.of(self._depot.names(folder))

    def _leads(self, leaves: bool) -> bool:
        listing = self._list(LEADER)
        if not leaves:
            listing = self._take(LEADER, listing, [(EPOCHS, "")])
        return listing.held.get(EPOCHS, (0, "", ""))[1] == self._node

    def _claim(self, report: NodeReport) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The claimed signatures that this node reduces, and those that another one has reduced."""
        for signature in report.reduced:
            self._depot.put(f"{REDUCTIONS}/{signature}.{REDUCED}.{self._node}", b"")
        if not report.claims:
            return (), ()
        listing = self._list(REDUCTIONS)
        done = {thing: node for (thing, _), node in listing.marks.items()}
        active = {
            label
            for signature, (_, node, label) in listing.held.items()
            if signature not in done and self._alive(node)
        }
        free = []
        for signature, cluster in report.claims:
            label = hashlib.sha256(cluster.encode()).hexdigest()[:16]
            if signature not in done and label not in active:
                free.append((signature, label))
                active.add(label)
        listing = self._take(REDUCTIONS, listing, free)
        names = [signature for signature, _ in report.claims]
        own = [s for s in names if s not in done and listing.held.get(s, ("", ""))[1] == self._node]
        return tuple(own), tuple(s for s in names if done.get(s, self._node) != self._node)

    # -- ranges -------------------------------------------------------------------------------

    def _look(self) -> None:
        """Reads which epochs are decided, and the files of those that are not ended."""
        if self._ended is None:
            matches = [_EPOCH.fullmatch(name) for name in self._depot.names(EPOCHS)]
            self._ended = {int(name[1]) for name in matches if name and name[2] == KEPT}
            decided = (int(name[1]) for name in matches if name and name[2] != KEPT)
            self._begun = max(decided, default=-1)
        while self._depot.has(config_file(self._begun + 1)):
            self._begun += 1
        open_ = (epoch for epoch in range(self._begun + 1) if epoch not in self._ended)
        self._files = {epoch: self._list(_ranges(epoch)) for epoch in open_}

    def _leases(self, epoch: int) -> Iterator[Lease]:
        """The ranges of an epoch."""
        first, after = (begins(number, self._longest) for number in (epoch, epoch + 1))
        size = range_size(after - first, self._place.count)
        end = after if self._limit is None else min(after, self._limit)
        for start in range(first, end, size):
            yield Lease(start, min(start + size, end))

    def _record(self, report: NodeReport) -> None:
        """Marks ranges as run and as published, and epochs as ended."""
        assert self._ended is not None
        for state, firsts in ((RAN, {*report.ran}), (KEPT, {*report.ran} & {*report.kept})):
            for epoch in {epoch_of(first, self._longest) for first in firsts} & self._files.keys():
                files = self._files[epoch]
                for lease in self._leases(epoch):
                    if lease.first in firsts and (lease.name, state) not in files.marks:
                        self._depot.put(f"{_ranges(epoch)}/{lease.name}.{state}", b"")
                        files.marks[lease.name, state] = ""
        for epoch, files in [*self._files.items()]:
            if all((lease.name, KEPT) in files.marks for lease in self._leases(epoch)):
                del self._files[epoch]
                self._ended.add(epoch)
                if self._limit is None or begins(epoch + 1, self._longest) <= self._limit:
                    self._depot.put(f"{EPOCHS}/{epoch:06}.{KEPT}", b"")

    def _lend(self, wants: int) -> None:
        """Takes ranges, lowest epoch first, until `wants` tests are held that have not run."""
        have = sum(len(lease) for lease in self._held() if not lease.ran)
        for epoch, files in self._files.items():
            free = [lease for lease in self._leases(epoch) if self._free(files, lease)]
            start = self._place.number % max(1, len(free))  # nodes begin at different ranges
            taken: list[tuple[str, str]] = []
            for lease in (*free[start:], *free[:start]):
                if have < wants:
                    taken.append((lease.name, ""))
                    have += len(lease)
            self._files[epoch] = self._take(_ranges(epoch), files, taken)

    def _free(self, files: _Listing, lease: Lease) -> bool:
        holder = files.held.get(lease.name, (0, "", ""))[1]
        return (lease.name, KEPT) not in files.marks and not (holder and self._alive(holder))

    def _held(self) -> Iterator[Lease]:
        """The ranges that this node holds."""
        for epoch, files in self._files.items():
            for lease in self._leases(epoch):
                mine = files.held.get(lease.name, (0, "", ""))[1] == self._node
                if mine and (lease.name, KEPT) not in files.marks:
                    yield Lease(lease.first, lease.end, (lease.name, RAN) in files.marks)

    def _observed(self) -> int:
        """The observations of all tests below this index can be read."""
        for epoch, files in self._files.items():
            for lease in self._leases(epoch):
                if (lease.name, RAN) not in files.marks and (lease.name, KEPT) not in files.marks:
                    return lease.first
        end = begins(self._begun + 1, self._longest)
        return end if self._limit is None else min(end, self._limit)

    @property
    def _over(self) -> bool:
        """Whether everything is published."""
        decided = begins(self._begun + 1, self._longest)
        return self._limit is not None and decided >= self._limit and not self._files


def _ranges(epoch: int) -> str:
    return f"{RANGES}/{epoch:06}"
