"""The leases of one node of a campaign: which indexes it tests, and which results it has published.

About once a second, in a thread beside the tests, the node writes the observations of ranges whose
tests are recorded, publishes rows and findings now and then, and exchanges messages with the
coordinator. While that cannot be reached, the node goes on with the ranges that it has. It holds a
range until that is published, so other nodes repeat the ranges of a lost node.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field

from nnfuzz.base.reading import Unreadable
from nnfuzz.parts.exchange import SharedExchange, observations_of
from nnfuzz.parts.segments import publish
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.lending import Coordinator, Lease, Lent, NodeReport
from nnfuzz.records.rows import Observed
from nnfuzz.store.store import Store

PUBLISH_SECONDS, IDLE_SECONDS = 20.0, 2.0
"""Seconds between two segments, each of which costs a file: in general, and while the node has
nothing else to do, since other nodes may wait for the last tests."""
RETRY_SECONDS = 1.0
PATIENCE = 300.0
"""Seconds that a node waits for a silent coordinator at the beginning and end of a session."""
CLAIMS = 16
"""Findings that a report claims at most; one is reduced at a time."""
_OUT_OF_REACH = (OSError, Unreadable)


@dataclass
class _Range:
    """A range that the node holds.

    left: its indexes that are not recorded. observed: whether its observations are published.
    kept: whether its rows and findings are published.
    """

    lease: Lease
    left: set[int]
    observed: bool = False
    kept: bool = False


@dataclass
class _Turn:
    """Work of the background thread, which reports when it ends.

    observations: to be written. publishes: ranges whose rows are to be published, by first index;
    None if none are due. reduced: signatures that the report names. ends: whether to publish
    whatever is new.
    """

    observations: list[tuple[Lease, list[Observed]]] = field(default_factory=list)
    publishes: tuple[int, ...] | None = None
    reduced: tuple[str, ...] = ()
    ends: bool = False


class Leased:
    """The indexes that a node tests, lowest first (see nnfuzz.campaign.jobs.Indexes).

    It also knows how much all nodes have recorded (`length`, see
    nnfuzz.records.schedule.RecordedIndexes), and which node reduces which finding. note: for
    people.
    """

    def __init__(
        self,
        coordinator: Coordinator,
        config: CampaignConfig,
        store: Store,
        exchange: SharedExchange,
        note: Callable[[str], None],
        node: str,
        ahead: int,
        stopped: Callable[[], bool] = lambda: False,
        again: Collection[int] = (),
    ) -> None:
        """node: a name that stays the same while its folder does. ahead: tests to have at hand.
        again: indexes that this node has to repeat, even if another one holds them.

        Raises: OSError if the coordinator does not answer.
        """
        self._coordinator = coordinator
        self._config = config
        self._store = store
        self._exchange = exchange
        self._note = note
        self._node = node
        self._ahead = ahead
        self._lent = Lent()
        self._ranges: dict[int, _Range] = {}
        self._handed: set[int] = set()
        """Indexes that are under way."""
        self._again = set(again)
        self._waiting: list[int] = []
        """Indexes of the ranges and of `again` that are not under way, the lowest one last."""
        self._claims: dict[str, str] = {}
        self._mine: set[str] = set()
        self._reduced: set[str] = set()
        self.elsewhere: set[str] = set()
        """Signatures that other nodes have reduced; shared with the recorder."""
        self._thread = ThreadPoolExecutor(1)
        self._future: Future[Lent] | None = None
        self._current = _Turn()
        self._due = self._published = 0.0
        self._reported = -1  # the last decided epoch that the coordinator knows
        self._unanswered = False
        self._join(stopped)

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
        """Whether nothing is left to do in the whole campaign."""
        return self._lent.over and not self._again

    @property
    def leads(self) -> bool:
        """Whether this node decides the epochs."""
        return self._lent.leads

    # -- records ------------------------------------------------------------------------------

    @property
    def length(self) -> int:
        """The observations of all tests below this index are published, whichever node ran them."""
        return self._lent.observed

    def add(self, index: int) -> None:
        """Records the end of a test."""
        self._handed.discard(index)
        self._again.discard(index)
        for held in self._ranges.values():
            if held.lease.first <= index < held.lease.end:
                held.left.discard(index)
                if not held.left:
                    self._due = 0.0

    @property
    def begun(self) -> int:
        """The last decided epoch."""
        return max(self._exchange.last, self._lent.begun)

    # -- reductions ---------------------------------------------------------------------------

    def may_reduce(self, signature: str, cluster: str) -> bool:
        """Whether this node reduces the finding; claims it if no node does as far as is known."""
        if signature in self._mine:
            return True
        if len(self._claims) < CLAIMS:
            self._claims[signature] = cluster
        return False

    def reduced(self, signature: str) -> None:
        """Reports the end of a reduction."""
        self._reduced.add(signature)
        self._mine.discard(signature)

    # -- turns --------------------------------------------------------------------------------

    def turn(self) -> None:
        """Takes the answer to the last report, and begins the next turn if it is due; it does not
        block.
        """
        if self._future is not None and self._future.done():
            self._finish()
        news = self._exchange.last > self._reported
        if self._future is None and (news or time.monotonic() >= self._due):
            self._due = time.monotonic() + (self._lent.pace or RETRY_SECONDS)
            self._begin_turn()

    def close(self, leaves: bool = True) -> None:
        """Publishes everything. leaves: whether other nodes may take the ranges that are left."""
        until = time.monotonic() + PATIENCE
        self._finish()
        while time.monotonic() < until:
            self._begin_turn(ends=True, leaves=leaves)
            if self._finish():
                break
            time.sleep(RETRY_SECONDS)
        self._thread.shutdown()

    def _join(self, stopped: Callable[[], bool]) -> None:
        """Sends the first report. Raises: OSError if nothing answers for PATIENCE seconds."""
        until = time.monotonic() + PATIENCE
        while True:
            self._begin_turn()
            if self._finish() or stopped():
                return
            if time.monotonic() > until:
                raise OSError("the coordinator of the campaign does not answer")
            time.sleep(RETRY_SECONDS)

    def _finish(self) -> bool:
        """Waits for the current turn; returns whether it was answered."""
        future, self._future = self._future, None
        if future is None:
            return True
        try:
            lent = future.result()
        except _OUT_OF_REACH as error:
            if not self._unanswered:
                self._note(f"the coordinator cannot be reached ({error}): going on meanwhile")
            self._unanswered = True
            return False
        self._unanswered = False
        self._end_turn(lent)
        return True

    def _begin_turn(self, ends: bool = False, leaves: bool = False) -> None:
        turn = _Turn(reduced=tuple(self._reduced), ends=ends)
        for held in self._ranges.values():
            if not held.left and not held.observed:
                lease = held.lease
                observations = observations_of(self._store, self._config, lease.first, lease.end)
                turn.observations.append((lease, observations))
        idle = not self._waiting and not self._handed
        pause = IDLE_SECONDS if idle else PUBLISH_SECONDS
        if ends or time.monotonic() >= self._published + pause:
            fresh = (held for held in self._ranges.values() if not held.left and not held.kept)
            turn.publishes = tuple(h.lease.first for h in fresh if self._is_done(h.lease))
        self._current = turn
        report = self._report(turn, leaves)
        self._claims, self._reported = {}, report.begun
        self._future = self._thread.submit(self._run, turn, report)

    def _report(self, turn: _Turn, leaves: bool) -> NodeReport:
        """The state of the node once a turn has ended well."""
        ran = tuple(first for first, held in self._ranges.items() if held.observed)
        kept = tuple(first for first, held in self._ranges.items() if held.kept)
        return NodeReport(
            self._node,
            0 if turn.ends or len(self._waiting) > self._ahead else self._held() + 1,
            (*ran, *(lease.first for lease, _ in turn.observations)),
            (*kept, *(turn.publishes or ())),
            self._exchange.last,
            tuple(self._claims.items()),
            turn.reduced,
            leaves,
        )

    def _run(self, turn: _Turn, report: NodeReport) -> Lent:
        """Does the work of a turn in the background. Raises: OSError, Unreadable."""
        for lease, observations in turn.observations:
            self._exchange.add(lease, observations)
        if turn.publishes or turn.ends:
            publish(self._store.folder, self._config.share)
        return self._coordinator.sync(report)

    def _end_turn(self, lent: Lent) -> None:
        turn = self._current
        if turn.publishes is not None:
            self._published = time.monotonic()
        for lease, _ in turn.observations:
            self._ranges[lease.first].observed = True
        for first in turn.publishes or ():
            self._ranges[first].kept = True
        self._lent = lent
        self._reduced -= {*turn.reduced}
        self._mine |= {*lent.mine}
        self.elsewhere |= {*lent.taken}
        self._hold(lent.leases)

    def _hold(self, leases: Sequence[Lease]) -> None:
        """Holds these ranges from now on; other ones are lost to another node, or published."""
        before = self._ranges
        self._ranges = {
            lease.first: before.get(lease.first) or self._range(lease) for lease in leases
        }
        if before.keys() != self._ranges.keys() or self._again:
            left = self._again.union(*(held.left for held in self._ranges.values()))
            self._waiting = sorted(left - self._handed, reverse=True)

    def _held(self) -> int:
        """Tests in ranges that are not recorded completely."""
        return sum(len(held.lease) for held in self._ranges.values() if held.left)

    def _range(self, lease: Lease) -> _Range:
        recorded = {test.index for test in self._store.observed(lease.first, lease.end)}
        return _Range(lease, {*range(lease.first, lease.end)} - recorded, lease.ran)

    def _is_done(self, lease: Lease) -> bool:
        """Whether all tests have ended: suspected hangs that nobody has confirmed yet have not."""
        return self._store.tests.count(lease.first, lease.end) == len(lease)
