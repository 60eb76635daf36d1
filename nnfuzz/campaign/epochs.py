"""When epochs begin, and with which configuration their test cases are made.

Epoch e covers the indexes from begins(e) up to begins(e + 1) (nnfuzz.records.schedule). Its
configuration follows from the tests below begins(e - 1) and from nothing else
(nnfuzz.feedback.knowledge). The epoch in between keeps the lanes busy while stragglers end. So the
tests of a campaign are a function of its seed and settings, however many lanes there are and
however fast they are, and a resumed campaign comes to the same by learning from its tests again.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence

from nnfuzz.base.shard import Shard
from nnfuzz.feedback.knowledge import Knowledge, Learner
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.schedule import LEARNT, begins
from nnfuzz.store.recorder import Recorder
from nnfuzz.testcase.case import CaseConfig


class Epochs:
    """Decides epochs in their order, as soon as the tests that they follow from ended.

    number: the current epoch, whose configuration test cases are made with; -1 before the first
    one. knowledge: what it does not generate.
    """

    def __init__(
        self,
        config: CampaignConfig,
        recorder: Recorder,
        keys: Sequence[SupportKey],
        reasons: Mapping[SupportKey, str],
        note: Callable[[str], None],
        enter: Callable[[int, int, CaseConfig], None],
    ) -> None:
        """keys, reasons: see nnfuzz.feedback.knowledge.Learner. note: prints a line for the user.
        enter: has lanes make their next tests with the settings of an epoch: its number, the epoch
        that these were decided for, and the settings.
        """
        self.number = -1
        self.knowledge = Knowledge(config.case.refused)
        self._config = config
        self._recorder = recorder
        self._enter = enter
        reported = recorder.store.restraints.last()  # earlier sessions have printed the rest

        def note_once(text: str) -> None:
            if self.number >= reported:
                note(text)

        self._learner = Learner(config, keys, reasons, note_once)
        self._learned = 0  # the number of epochs whose tests were learnt from
        self._decided_for = 0  # the epoch that the current configuration was decided for

    @property
    def end(self) -> int:
        """The first index behind the current epoch."""
        return self._begins(self.number + 1)

    def _begins(self, epoch: int) -> int:
        return begins(epoch, self._config.epoch)

    def advance(self, next_index: float) -> None:
        """Begins all epochs up to that of an index, as far as they can be decided by now, and
        learns for the one after them.

        next_index: the first one that was not handed out yet; infinite if there are no more.
        """
        while True:
            if self._learned < self.number:
                if not self._learn():
                    return
            elif math.isfinite(next_index) and next_index >= self.end:
                self._begin()
            else:
                return

    def _begin(self) -> None:
        """Decides the next epoch, and begins it."""
        self.number += 1
        if (decided := self._learner.knowledge(self.number)) is not None:
            self._decided_for, self.knowledge = self.number, decided
            restraints = self._recorder.store.restraints
            restraints.set_epoch(self.number, decided.refused, decided.reasons, decided.avoided)
        case = self.knowledge.applied(self._config.case)
        self._enter(self.number, self._decided_for, case)

    def _learn(self) -> bool:
        """Learns from the tests of the next epoch; False if some of them have not ended."""
        first, end = self._begins(self._learned), self._begins(self._learned + 1)
        if self._recorder.recorded.length < end:
            return False
        self._learner.learn(self._recorder.store.tests.rows(first, min(end, first + LEARNT)))
        self._learned += 1
        return True


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
