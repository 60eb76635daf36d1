"""What is generated from now on: the configuration of each epoch, decided at its first index.

Epoch e covers the indexes from begins(e) up to begins(e + 1) (nnfuzz.campaign.schedule). What is
refused and avoided in it follows from the tests below begins(e - 1) and from the probes that these
made necessary, and from nothing else. The epoch in between keeps the producers busy while
stragglers end. So the tests of a campaign are a function of its seed and settings, however many
workers there are and however fast they are, and a resumed campaign comes to the same by going
through its tests again.
"""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from nnfuzz.campaign.config import CampaignConfig
from nnfuzz.campaign.exchange import Exchange, Lessons, Restrained, Told, shown
from nnfuzz.campaign.guidance import Feedback, NoFeedback, Seen
from nnfuzz.campaign.leased import Leased
from nnfuzz.campaign.observer import Observer, counted
from nnfuzz.campaign.probe import Prober
from nnfuzz.campaign.producer_pool import ProducerPool
from nnfuzz.campaign.recorder import Recorder
from nnfuzz.campaign.rows import AvoidedRow, Observed
from nnfuzz.campaign.schedule import begins, epoch_of
from nnfuzz.campaign.support import INSTANCES
from nnfuzz.campaign.throttle import Throttle, by_operator
from nnfuzz.generate.emphasis import NO_EMPHASIS, Emphasis
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.reading import Unreadable
from nnfuzz.testcase.test_id import Probe

TELLING = 1.2  # growth of the refused signatures that is worth another line
KEPT_EPOCHS = 64  # of which a node remembers what holds in them


class Epochs:
    """The current epoch of a campaign, and when the next one begins.

    number: -1 before the first one. refused: signatures, see nnfuzz.campaign.probe.
    """

    def __init__(
        self,
        config: CampaignConfig,
        recorder: Recorder,
        producers: ProducerPool,
        prober: Prober,
        throttle: Throttle,
        observer: Observer,
        feedback: Feedback,
        exchange: Lessons | None = None,
    ) -> None:
        """exchange: with the other parts of the campaign, of which this one leads."""
        self.number = -1
        self.refused = set(map(SupportKey.parse, config.case.refused))
        self.throttle = throttle
        self._config = config
        self._recorder = recorder
        self._store = recorder.store
        self._producers = producers
        self._prober = prober
        self._observer = observer
        self._learned = 0  # the epoch before which all tests are taken into account
        self._told = 0
        self._last = self._store.last_epoch()
        self._avoided: list[AvoidedRow] = []
        self.feedback = feedback
        self._emphases: dict[int, Emphasis] = {}
        """By epoch; two are enough, since what is learnt is of the epoch before."""
        self._exchange = exchange
        self._published = 0  # the epoch before which the own tests are told to the other parts
        self._spent = 0  # the probes that are not counted, since the clock has bounded them
        self._deadline = math.inf
        """When the probes beside the first tests end, by time.monotonic, if the clock decides."""

    follows = False
    """Whether another part of the campaign decides."""
    over = False
    """Whether the campaign is said to be over elsewhere, and nothing here is waited for."""

    @property
    def avoided(self) -> list[AvoidedRow]:
        """What generation keeps away from by now, by item."""
        return self.throttle.avoided

    @property
    def end(self) -> int:
        """The first index that is not in the current epoch."""
        return self._begins(self.number + 1)

    def _begins(self, epoch: int) -> int:
        return begins(epoch, self._config.epoch)

    @property
    def owed(self) -> bool:
        """Whether other parts of the campaign still wait for an epoch that this one decides."""
        limit = self._config.tests_limit
        return self._exchange is not None and limit is not None and self.end < limit

    def advance(self, next_index: float) -> None:
        """Begins the next epoch, and learns for the one after it, as far as that can be done.

        next_index: the first one that was not handed out yet; infinite if there are no more.
        """
        self.publish()
        if time.monotonic() >= self._deadline:
            self._prober.forget_waiting()
        while self._prober.idle:
            if self._learned < self.number:
                if not self._learn():
                    return
            elif next_index >= self.end and (math.isfinite(next_index) or self.owed):
                self._begin()
                if not self.number:
                    self._ask_first()
            else:
                return

    def heed(self) -> None:
        """Takes what is said elsewhere; called in every step."""

    def _ask_first(self) -> None:
        """Has signatures probed beside the tests of the first epoch, for those of the next one.

        Where tests are counted, so are probes; else time limits them. A campaign that goes on asks
        for what it asked for in the beginning.
        """
        after, config = self.end, self._config
        if not config.probe_seconds:
            return
        if config.tests_limit is not None:
            self._prober.ask_all(self._room(0, after), after)
        elif (probed := self._probed_first()) is not None:
            self._prober.ask(map(SupportKey.parse, probed), after)
        else:
            self._prober.ask_known(after)
            self._prober.ask_all(before=after)
            self._deadline = time.monotonic() + config.first_probing

    def _room(self, first: int, end: int) -> int:
        """How many signatures may be probed beside the tests of an epoch, whatever the answers are:
        at no time are there more probes than tests.
        """
        left = self._config.probes_before(end) - (self._prober.spent - self._spent)
        return max(0, min(left, end - first) // INSTANCES)

    def _probed_first(self) -> list[str] | None:
        """What was probed beside the first epoch; None if that has not ended."""
        begun = self._store.tests_in(self._begins(1), sys.maxsize)
        return self._store.probed(self._begins(1)) if begun else None

    def _keep_probed(self) -> None:
        """Called once what is probed beside the first epoch has been answered."""
        if self._config.tests_limit is None:
            self._spent, self._deadline = self._prober.spent, math.inf

    def publish(self) -> None:
        """Tells the other parts what was seen in the epochs of which all own tests are recorded."""
        while isinstance(self._exchange, Exchange):
            first, end = self._begins(self._published), self._begins(self._published + 1)
            if self._recorder.recorded.length < end:
                return
            self._exchange.tell(self._published, shown(self._store, self._config, first, end))
            self._published += 1
            if self.follows:
                self._store.drop_graphs(first, end, ())

    def _learn(self) -> bool:
        """Takes the tests of the epoch before the current one, once they are all recorded."""
        first, end = self._begins(self._learned), self._begins(self._learned + 1)
        if self._recorder.recorded.length < end:
            return False
        told = self._told_of(first, end)
        if told is None:
            return False
        self._learned += 1
        if self._config.learn and self._more():
            self._probe(told.tests, self._begins(self.number), self._begins(self.number + 1))
        self._throttle(told.tests)
        self._guide(told.seen, first, end)
        return True

    def _probe(self, tests: Sequence[Observed], first: int, end: int) -> None:
        """Has probed what tests give reason to, and with half of what is left what comes next.

        first, end: of the epoch beside which that happens.
        """
        room = self._room(first, end)
        asked = self._prober.learn(tests, end, most=room)
        if self._config.probe_seconds:
            self._prober.ask_all((room - asked) // 2, end)

    def _told_of(self, first: int, end: int) -> Told | None:
        """What the tests of an epoch have shown; None while other parts have not told theirs."""
        if self._exchange:
            return self._exchange.told(self._learned)
        return shown(self._store, self._config, first, end)

    def _guide(self, seen: Iterable[Seen], first: int, end: int) -> None:
        """Takes the tests of an epoch for what shall be generated more often."""
        emphasis, seed = self._emphases.pop(self._learned - 1, NO_EMPHASIS), self._config.seed
        if isinstance(self.feedback, NoFeedback):
            self._store.drop_graphs(first, end, ())
            return
        exporters = {case.exporter for case in emphasis.kept}
        self.feedback.observe(
            replace(s, mutated=s.exporter in exporters and emphasis.mutates(seed, s.index))
            for s in seen
        )
        self._store.drop_graphs(first, end, self.feedback.keeps)

    def _more(self) -> bool:
        """Whether there will be another epoch; what nobody waits for is not probed."""
        limit = self._config.tests_limit
        return limit is None or self._begins(self.number + 1) < limit

    def _begin(self) -> None:
        """Has test cases be made with what is refused and avoided by now."""
        if not self.number:
            self._keep_probed()
        self._avoid_failing()
        self.number += 1
        reasons = self._new_refusals()
        avoided = self.throttle.avoided
        self.refused |= reasons.keys()
        keys = {SupportKey.parse(row.item) for row in avoided}
        emphasis = self.feedback.emphasis(self.refused | keys)
        before = self._emphases.get(self.number - 1, NO_EMPHASIS)
        changed = bool(reasons) or avoided != self._avoided or not self.number
        self._avoided = avoided
        self._emphases[self.number] = emphasis
        changed |= emphasis != before
        refused = tuple(map(str, sorted(self.refused)))
        written = {str(key): why for key, why in reasons.items()}
        restraints = Restrained(refused, written, tuple(avoided), emphasis)
        if self._exchange:
            self._exchange.decide(self.number, restraints if changed else None)
        if changed:
            self._restrain(restraints, self.number)

    def _restrain(self, by: Restrained, epoch: int) -> None:
        """Has test cases be made so, as from an epoch on."""
        self._store.set_epoch(epoch, by.refused, by.reasons, by.avoided, by.emphasis)
        avoid = tuple(row.item for row in by.avoided)
        case = replace(self._config.case, refused=by.refused, avoid=avoid, emphasis=by.emphasis)
        self._producers.configure(epoch, case)

    def _new_refusals(self) -> dict[SupportKey, str]:
        """Signatures that turned out not to be supported, with the reasons."""
        reasons = self._prober.refused()
        new = reasons.keys() - self.refused
        avoided = {SupportKey.parse(row.item) for row in self.throttle.avoided}
        if not new or not self._prober.left(self.refused | new) - avoided:
            return {}
        if len(self.refused | new) > TELLING * self._told:
            self._told = len(self.refused | new)
            self._note(
                f"{self._told} of {len(self._prober.keys)} operator signatures are refused for "
                f"generation by now, since they are not supported: {_some(sorted(new))} "
                "(all: nnfuzz ops --backend NAME)"
            )
        return {key: reasons[key] for key in sorted(new)}

    def _throttle(self, tests: Iterable[Observed]) -> None:
        """Changes the list of what generation keeps away from, and says so."""
        gone = self._prober.left(()) - self._prober.left(self.refused)
        self._tell(self.throttle.learn(tests, self.number + 1, gone | self.refused))
        for row in self.throttle.lift():
            self._note(f"{row.item} no longer fails and is generated again [{row.signature}]")

    def _avoid_failing(self) -> None:
        """Keeps away from the signatures of which every single-operator model fails."""
        failing = self._prober.failing()
        if not failing:
            return
        shown, before = self._store.failures_of_probes(), set(self.throttle.avoided)
        for key in sorted(failing):
            probes = [shown.get(Probe(key, number), {}) for number in range(INSTANCES)]
            if all(probes):
                seen = [Observed(-1, 0, "run", key.exporter, (), {}, found) for found in probes]
                self.throttle.avoid(key, seen, "fails by itself", self.number + 1)
        self._tell(row for row in self.throttle.avoided if row not in before)

    def _tell(self, new: Iterable[AvoidedRow]) -> None:
        """Says in one line what generation keeps away from, beside what it did before."""
        found = by_operator(new)
        if not found:
            return
        shown = [f"{name} ({row.why} [{row.signature}])" for name, row in found.items()]
        self._note(
            f"generation keeps away from {_some(shown)} from now on, but in "
            f"{self._config.case.unrestrained:.0%} of the tests "
            f"({counted(len(shown), 'pattern')}; all: `avoided` in summary.json)"
        )

    def _note(self, text: str) -> None:
        """Says it, unless an earlier session has."""
        if self.number >= self._last:
            self._observer.note(text)


class FollowingEpochs(Epochs):
    """Those of a part of a campaign whose epochs another part decides. It asks for no probes."""

    follows = True

    @property
    def avoided(self) -> list[AvoidedRow]:
        return self._avoided

    @property
    def owed(self) -> bool:
        return False

    def advance(self, next_index: float) -> None:
        self.publish()
        while math.isfinite(next_index) and next_index >= self.end:
            assert self._exchange is not None
            decided = self._exchange.decided(self.number + 1)
            if decided is None:
                return
            self.number += 1
            for by in decided:
                self.refused = set(map(SupportKey.parse, by.refused))
                self._avoided = [*by.avoided]
                self._restrain(by, self.number)


class DecidingEpochs(Epochs):
    """What a node decides for all of them, and does not do itself."""

    def __init__(self, leased: Leased, *parts: Any) -> None:
        super().__init__(*parts)
        self._leased, self._exchange = leased, leased.lessons

    @property
    def owed(self) -> bool:
        limit = self._config.tests_limit
        return limit is None or self.end < limit

    def _probed_first(self) -> list[str] | None:
        return self._leased.lessons.probed()

    def _keep_probed(self) -> None:
        super()._keep_probed()
        self._leased.lessons.keep_probed(self._store.probed(self._begins(1)))

    def _begin(self) -> None:
        super()._begin()
        self._leased.begin(self.number)

    def _restrain(self, by: Restrained, epoch: int) -> None: ...


class LeasedEpochs(FollowingEpochs):
    """Those of a node that is lent ranges of indexes: of whichever epoch the next one is, earlier
    ones included. The node that leads decides them beside its tests; when it is lost, another one
    goes through all of it again and comes to the same.
    """

    def __init__(self, leased: Leased, *parts: Any) -> None:
        super().__init__(*parts)
        self._leased, self._exchange = leased, leased.lessons
        self._parts = parts
        self._deciding: DecidingEpochs | None = None
        self._decided: dict[int, list[Restrained]] = {}
        self._named = -1  # the epoch that the current restraints were decided for

    @property
    def follows(self) -> bool:  # type: ignore[override]
        return not self._leased.leads

    @property
    def over(self) -> bool:  # type: ignore[override]
        return self._config.timed and self._leased.over

    def heed(self) -> None:
        self._leased.turn()

    def publish(self) -> None: ...

    def advance(self, next_index: float) -> None:
        if self._leased.leads:
            self._deciding = self._deciding or DecidingEpochs(self._leased, *self._parts)
            self._deciding.advance(math.inf)
        if math.isfinite(next_index):
            self._enter(epoch_of(int(next_index), self._config.epoch))

    def _enter(self, epoch: int) -> None:
        """Has test cases be made as is decided for an epoch, once it is."""
        if epoch == self.number or epoch > self._leased.begun:
            return
        self.number, named = epoch, epoch
        while not (found := self._of(named)):
            named -= 1
        if named != self._named:
            self._named = named
            self.refused = set(map(SupportKey.parse, found[0].refused))
            self._avoided = [*found[0].avoided]
            self._restrain(found[0], named)

    def _of(self, epoch: int) -> list[Restrained]:
        """What is decided for an epoch, empty for no change."""
        if epoch not in self._decided:
            while len(self._decided) >= KEPT_EPOCHS:
                del self._decided[min(self._decided)]
            assert self._exchange is not None
            found = self._exchange.decided(epoch)
            if found is None:
                raise Unreadable(f"{self._config.share} has lost what was decided of epoch {epoch}")
            self._decided[epoch] = found
        return self._decided[epoch]


def _some(names: Sequence[object], count: int = 3) -> str:
    """The first of some names."""
    return ", ".join(map(str, names[:count])) + (", ..." if len(names) > count else "")
