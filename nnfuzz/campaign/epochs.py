"""When epochs begin, and with which configuration their test cases are made.

Epoch e covers the indexes from begins(e) up to begins(e + 1) (nnfuzz.records.schedule). Its
configuration follows from the tests below begins(e - 1) and from the probes that these made
necessary, and from nothing else (nnfuzz.feedback.learning). The epoch in between keeps the
producers busy while stragglers end. So the tests of a campaign are a function of its seed and
settings, however many workers there are and however fast they are, and a resumed campaign
comes to the same by learning from its tests again.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable
from dataclasses import replace

from nnfuzz.base.shard import Shard
from nnfuzz.feedback.learning import EpochConfig, Learner
from nnfuzz.feedback.probe import Prober
from nnfuzz.feedback.support import INSTANCES
from nnfuzz.feedback.throttle import Throttle
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import Observer
from nnfuzz.records.rows import AvoidedRow
from nnfuzz.records.schedule import LEARNT, begins, epoch_of
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import Store
from nnfuzz.testcase.case import CaseConfig


class EpochDecider:
    """Decides epochs in their order, as soon as the tests and probes that they follow from ended.

    number: the last decided epoch; -1 for none. latest: the configuration of that epoch, and the
    epoch that it was first decided for.
    """

    def __init__(
        self,
        config: CampaignConfig,
        recorder: Recorder,
        prober: Prober,
        throttle: Throttle,
        observer: Observer,
    ) -> None:
        self.number = -1
        self.latest: tuple[int, EpochConfig] | None = None
        self._config = config
        self._recorder = recorder
        self._store = recorder.store
        self._prober = prober
        self._observer = observer
        self._learner = Learner(config, prober, throttle, self._note)
        self._learned = 0  # the number of epochs whose tests were learnt from
        self._last = self._store.restraints.last()
        self._spent = 0  # the probes that are not counted, since the clock has bounded them
        self._deadline = math.inf
        """When the probes beside the first tests end, by time.monotonic, if the clock decides."""

    @property
    def end(self) -> int:
        """The first index that has no configuration yet."""
        return self._begins(self.number + 1)

    def _begins(self, epoch: int) -> int:
        return begins(epoch, self._config.epoch)

    def advance(self, last: float) -> None:
        """Decides all epochs up to the one of the index `last`, as far as that can be done, and
        learns for the one after them.
        """
        if time.monotonic() >= self._deadline:
            self._prober.forget_waiting()
        while self._prober.idle:
            if self._learned < self.number:
                if not self._learn():
                    return
            elif last >= self.end:
                self._decide()
                if not self.number:
                    self._ask_first()
            else:
                return

    def _ask_first(self) -> None:
        """Requests probes beside the tests of the first epoch, for the configuration of the next.

        If the campaign has a number of tests, it has one of probes; otherwise time limits them. A
        resumed campaign requests the probes that it requested in the beginning.
        """
        after, config = self.end, self._config
        if not config.probe_seconds:
            return
        if config.tests_limit is not None:
            self._prober.ask_all(self._room(0, after), after)
        elif (probed := self._probed()) is not None:
            self._prober.ask(map(SupportKey.parse, probed), after)
        else:
            self._prober.ask_known(after)
            self._prober.ask_all(before=after)
            self._deadline = time.monotonic() + config.first_probing

    def _probed(self) -> list[str] | None:
        """Signatures that were probed beside the first epoch; None if that epoch has not ended."""
        after = self._begins(1)
        begun = self._store.tests.count(after, sys.maxsize)
        return self._store.probes.before(after) if begun else None

    def _room(self, first: int, end: int) -> int:
        """How many signatures may be probed beside the tests of an epoch, for all possible answers:
        at no time are there more probes than tests.
        """
        left = self._config.probes_before(end) - (self._prober.spent - self._spent)
        return max(0, min(left, end - first) // INSTANCES)

    def _keep_probed(self) -> None:
        """Called once the probes beside the first epoch have been answered."""
        if self._config.tests_limit is None:
            self._spent, self._deadline = self._prober.spent, math.inf

    def _learn(self) -> bool:
        """Learns from the tests of the next epoch; False if some of them have not ended."""
        if self._recorder.recorded.length < self._begins(self._learned + 1):
            return False
        first, end = self._begins(self._learned), self._begins(self._learned + 1)
        observations = [*self._store.tests.rows(first, min(end, first + LEARNT))]
        if self._config.learn and self._more():
            before, room = self.end, self._room(self._begins(self.number), self.end)
            asked = self._prober.learn(observations, before, most=room)
            if self._config.probe_seconds:
                # Half of the rest is for signatures that no test gives reason to probe.
                self._prober.ask_all((room - asked) // 2, before)
        self._learner.learn(observations, self.number + 1)
        self._learned += 1
        return True

    def _more(self) -> bool:
        """Whether there will be another epoch, which probes are for."""
        limit = self._config.tests_limit
        return limit is None or self.end < limit

    def _decide(self) -> None:
        """Decides the next epoch."""
        if not self.number:
            self._keep_probed()
        self._learner.avoid_failing(self._store.occurrences.of_probes, self.number + 1)
        self.number += 1
        if (decided := self._learner.config(self.number)) is not None:
            self.latest = self.number, decided

    @property
    def avoided(self) -> list[AvoidedRow]:
        """The items that generation avoids, by all that was learnt so far."""
        return self._learner.avoided

    def _note(self, text: str) -> None:
        """Shows a line, unless an earlier session has."""
        if self.number >= self._last:
            self._observer.note(text)


class Epochs:
    """The epoch whose configuration test cases are made with.

    number: the current epoch; -1 before the first one. refused: written signatures.
    """

    def __init__(
        self,
        config: CampaignConfig,
        store: Store,
        enter: Callable[[int, int, CaseConfig], None],
        decider: EpochDecider,
    ) -> None:
        """enter: has lanes make their next tests with the settings of an epoch: its number, the
        epoch that these were decided for, and the settings.
        """
        self.number = -1
        self.refused = config.case.refused
        self._config = config
        self._store = store
        self._enter_lanes = enter
        self._decider = decider
        self._decided_for = -1  # the epoch that the current configuration was decided for

    @property
    def end(self) -> int:
        """The first index behind the current epoch."""
        return begins(self.number + 1, self._config.epoch)

    @property
    def avoided(self) -> list[AvoidedRow]:
        """The items that generation avoids by all decisions so far."""
        return self._decider.avoided

    def advance(self, next_index: float) -> None:
        """Begins the epoch of an index, if it is decided by now.

        next_index: the first one that was not handed out yet; infinite if there are no more.
        """
        self._decider.advance(next_index if math.isfinite(next_index) else -1)
        if math.isfinite(next_index):
            self._enter(epoch_of(int(next_index), self._config.epoch))

    def _enter(self, epoch: int) -> None:
        if epoch == self.number or epoch > self._decider.number:
            return
        self.number = epoch
        assert self._decider.latest is not None and epoch == self._decider.number
        decided_for, by = self._decider.latest
        if decided_for != self._decided_for:
            self._decided_for = decided_for
            self.refused = by.refused
            self._store.restraints.set_epoch(decided_for, by.refused, by.reasons, by.avoided)
        avoid = tuple(row.item for row in by.avoided)
        self._enter_lanes(
            epoch, decided_for, replace(self._config.case, refused=by.refused, avoid=avoid)
        )


class Indexes:
    """The indexes of a campaign, or of one of its parts, from the lowest on.

    limit: of the indexes; None: no end. done: whether an earlier session has run one. part: beyond
    which there are none. next: the first one that was neither handed out nor done earlier.
    """

    def __init__(
        self,
        limit: int | None,
        done: Callable[[int], bool],
        part: Shard = Shard(),  # noqa: B008
    ) -> None:
        self._limit = limit
        self._done = done
        self._part = part
        self.next = -1
        self.take()

    @property
    def left(self) -> bool:
        """Whether there is a further index."""
        return self._limit is None or self.next < self._limit

    def take(self) -> int:
        """Hands out the next index, which there has to be."""
        taken = self.next
        self.next += 1
        while self._done(self.next) or not self._part.owns(self.next):
            self.next += 1
        return taken
