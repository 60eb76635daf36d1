"""A node's share of a campaign on many machines: the ranges of indexes that it was lent.

In turns of about a second, beside the tests: what the tests of a range have shown is written for
all to read, rows and findings are published every while, and then the coordinator is told, which
answers with what the node holds by now. If it cannot be reached, the node goes on with what it has.
A range is held until it is published, so whatever is lost with a node is run again elsewhere.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from nnfuzz.campaign.config import CampaignConfig
from nnfuzz.campaign.exchange import RangeLessons, Told, shown
from nnfuzz.campaign.lending import Coordinator, Lease, Lent, Report
from nnfuzz.campaign.segments import publish
from nnfuzz.campaign.store import Store
from nnfuzz.reading import Unreadable

PUBLISH_SECONDS, IDLE_SECONDS = 20.0, 2.0
"""Between segments, each of which costs a file; and where there is nothing else to do, since the
others may be waiting for the last ones."""
RETRY_SECONDS = 1.0
PATIENCE = 300.0
"""Seconds that a node waits for a coordinator that nobody answers for, at its beginning and end."""
CLAIMS = 16
"""Findings that are asked for at a time, of which one is reduced at a time."""
_OUT_OF_REACH = (OSError, Unreadable)


@dataclass
class _Range:
    """A range that is held. left: indexes that are not recorded; published: that need not be again.

    told: whether it is written what its tests have shown.
    """

    lease: Lease
    left: set[int]
    told: bool = False
    published: bool = False


@dataclass
class _Turn:
    """What happens in the background: files to write, and what is said once they are there."""

    told: list[tuple[Lease, Told]] = field(default_factory=list)
    publishes: tuple[int, ...] | None = None
    reduced: tuple[str, ...] = ()
    ends: bool = False


class Leased:
    """The indexes of a node, from the lowest on; see nnfuzz.campaign.jobs.Indexes.

    It also stands for all that is recorded anywhere (`length`, see nnfuzz.campaign.schedule.Prefix)
    and for who reduces what. note: for people.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        config: CampaignConfig,
        store: Store,
        lessons: RangeLessons,
        note: Callable[[str], None],
        node: str,
        ahead: int,
        stopped: Callable[[], bool] = lambda: False,
    ) -> None:
        """node: a name that stays the same while its folder does. ahead: tests to have at hand.

        Raises: OSError if nobody answers.
        """
        self.lessons = lessons
        self._coordinator = coordinator
        self._config = config
        self._store = store
        self._note = note
        self._node = node
        self._ahead = ahead
        self._lent = Lent()
        self._ranges: dict[int, _Range] = {}
        self._handed: set[int] = set()
        """Indexes that are under way."""
        self._waiting: list[int] = []
        """Those of the ranges that are not, the lowest one last."""
        self._begun = -1
        self._claims: dict[str, str] = {}
        self._mine: set[str] = set()
        self._reduced: set[str] = set()
        self.elsewhere: set[str] = set()
        """Signatures that other nodes have reduced; the recorder's."""
        self._thread = ThreadPoolExecutor(1)
        self._future: Future[Lent] | None = None
        self._under_way = _Turn()
        self._due = self._published = 0.0
        self._silent = False
        self._meet(stopped)

    # -- which indexes ------------------------------------------------------------------------

    @property
    def next(self) -> float:
        return self._waiting[-1] if self._waiting else math.inf

    @property
    def left(self) -> bool:
        return not self.over

    def take(self) -> int:
        index = self._waiting.pop()
        self._handed.add(index)
        if len(self._waiting) == self._ahead:
            self._due = 0.0
        return index

    @property
    def over(self) -> bool:
        """Whether the whole campaign is."""
        return self._lent.over

    @property
    def leads(self) -> bool:
        """Whether this node decides the epochs."""
        return self._lent.leads

    # -- what is recorded ---------------------------------------------------------------------

    @property
    def length(self) -> int:
        """Below this index, it can be read what all tests have shown, whoever ran them."""
        return self._lent.told

    def add(self, index: int) -> None:
        """Takes that a test is recorded."""
        self._handed.discard(index)
        for held in self._ranges.values():
            if held.lease.first <= index < held.lease.end:
                held.left.discard(index)
                if not held.left:
                    self._due = 0.0

    # -- epochs -------------------------------------------------------------------------------

    @property
    def begun(self) -> int:
        """The last epoch that is decided."""
        return max(self._begun, self._lent.begun)

    def begin(self, epoch: int) -> None:
        """Takes that an epoch is decided."""
        if epoch > self.begun:
            self._begun, self._due = epoch, 0.0

    # -- reductions ---------------------------------------------------------------------------

    def may_reduce(self, signature: str, cluster: str) -> bool:
        """Whether nobody else does; asks for it where that is not known."""
        if signature in self._mine:
            return True
        if len(self._claims) < CLAIMS:
            self._claims[signature] = cluster
        return False

    def reduced(self, signature: str) -> None:
        """Takes that a reduction is over."""
        self._reduced.add(signature)
        self._mine.discard(signature)

    # -- turns --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Takes the answer to what was said last, and says how things stand. It does not block."""
        if self._future is not None and self._future.done():
            future, self._future = self._future, None
            with contextlib.suppress(*_OUT_OF_REACH):
                self._heed(future)
        if self._future is None and time.monotonic() >= self._due:
            self._due = time.monotonic() + (self._lent.pace or RETRY_SECONDS)
            self._begin_turn()

    def close(self, leaves: bool = True) -> None:
        """Publishes what there is, and says so. leaves: whether others shall have what is left."""
        until = time.monotonic() + PATIENCE
        self._finish()
        while time.monotonic() < until:
            self._begin_turn(ends=True, leaves=leaves)
            if self._finish():
                break
            time.sleep(RETRY_SECONDS)
        self._thread.shutdown()

    def _meet(self, stopped: Callable[[], bool]) -> None:
        until = time.monotonic() + PATIENCE
        while True:
            self._begin_turn()
            if self._finish() or stopped():
                return
            if time.monotonic() > until:
                raise OSError("the coordinator of the campaign does not answer")
            time.sleep(RETRY_SECONDS)

    def _finish(self) -> bool:
        """Waits for the turn that is under way; whether it went well."""
        if self._future is None:
            return True
        future, self._future = self._future, None
        try:
            self._heed(future)
        except _OUT_OF_REACH:
            return False
        return True

    def _begin_turn(self, ends: bool = False, leaves: bool = False) -> None:
        turn = _Turn(reduced=tuple(self._reduced), ends=ends)
        for held in self._ranges.values():
            if not held.left and not held.told:
                told = shown(self._store, self._config, held.lease.first, held.lease.end)
                turn.told.append((held.lease, told))
        idle = not self._waiting and not self._handed
        pause = IDLE_SECONDS if idle else PUBLISH_SECONDS
        if ends or time.monotonic() >= self._published + pause:
            fresh = (h for h in self._ranges.values() if not h.left and not h.published)
            turn.publishes = tuple(h.lease.first for h in fresh if self._is_done(h.lease))
        self._under_way = turn
        ran = tuple(first for first, held in self._ranges.items() if held.told)
        kept = tuple(first for first, held in self._ranges.items() if held.published)
        report = Report(
            self._node,
            0 if ends or len(self._waiting) > self._ahead else self._held() + 1,
            (*ran, *(lease.first for lease, _ in turn.told)),
            (*kept, *(turn.publishes or ())),
            self._begun,
            tuple(self._claims.items()),
            turn.reduced,
            leaves,
        )
        self._claims = {}
        self._future = self._thread.submit(self._talk, turn, report)

    def _talk(self, turn: _Turn, report: Report) -> Lent:
        """In the background. Raises: OSError, Unreadable."""
        for lease, told in turn.told:
            if told.tests:
                self.lessons.tell(lease, told)
        if turn.publishes or turn.ends:
            publish(self._store.folder, self._config.share)
        return self._coordinator.sync(report)

    def _heed(self, future: Future[Lent]) -> None:
        """Raises: OSError, Unreadable, if nobody was there to answer."""
        try:
            lent = future.result()
        except _OUT_OF_REACH as error:
            if not self._silent:
                self._note(f"the coordinator cannot be reached ({error}): going on meanwhile")
            self._silent = True
            raise
        self._silent = False
        turn = self._under_way
        if turn.publishes is not None:
            self._published = time.monotonic()
        for lease, _ in turn.told:
            self._ranges[lease.first].told = True
            self._store.tests.passes.drop_graphs(lease.first, lease.end, ())
        for first in turn.publishes or ():
            self._ranges[first].published = True
        self._lent = lent
        self._reduced -= {*turn.reduced}
        self._mine |= {*lent.mine}
        self.elsewhere |= {*lent.taken}
        self._hold(lent.leases)

    def _hold(self, leases: Sequence[Lease]) -> None:
        """Takes what is held by now: other ranges are lost, or need nothing more."""
        before = self._ranges
        self._ranges = {
            lease.first: before.get(lease.first) or self._range(lease) for lease in leases
        }
        if before.keys() != self._ranges.keys():
            left = (index for held in self._ranges.values() for index in held.left)
            self._waiting = sorted((i for i in left if i not in self._handed), reverse=True)

    def _held(self) -> int:
        """Tests in ranges of which some are not recorded."""
        return sum(len(held.lease) for held in self._ranges.values() if held.left)

    def _range(self, lease: Lease) -> _Range:
        recorded = {seen.index for seen in self._store.observed(lease.first, lease.end)}
        return _Range(lease, {*range(lease.first, lease.end)} - recorded, lease.ran)

    def _is_done(self, lease: Lease) -> bool:
        """Whether nothing more is to come: hangs that are not confirmed yet hold a range back."""
        return self._store.tests.count(lease.first, lease.end) == len(lease)
