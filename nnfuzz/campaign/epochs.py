"""What is generated: the configuration of each epoch, decided from tests of earlier epochs.

Epoch e covers the indexes from begins(e) up to begins(e + 1) (nnfuzz.records.schedule). What is
refused and avoided in it follows from the tests below begins(e - 1) and from the probes that these
made necessary, and from nothing else. The epoch in between keeps the producers busy while
stragglers end. So the tests of a campaign are a function of its seed and settings, however many
workers and nodes there are and however fast they are, and a resumed campaign comes to the same by
learning from its tests again.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Sequence
from dataclasses import replace

from nnfuzz.campaign.producer_pool import ProducerPool
from nnfuzz.feedback.guidance import CoverageObservation, Feedback, NoFeedback
from nnfuzz.feedback.probe import Prober
from nnfuzz.feedback.support import INSTANCES
from nnfuzz.feedback.throttle import Throttle, by_operator
from nnfuzz.generate.emphasis import NO_EMPHASIS, Emphasis
from nnfuzz.ir.support_key import SupportKey
from nnfuzz.parts.exchange import EpochConfig, Exchange
from nnfuzz.parts.leased import Leased
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.observer import Observer, counted
from nnfuzz.records.rows import AvoidedRow, Observed
from nnfuzz.records.schedule import begins, epoch_of
from nnfuzz.store.recorder import Recorder
from nnfuzz.store.store import Store
from nnfuzz.testcase.identity import Probe

TELLING = 1.2  # growth of the refused signatures that is worth another line


class EpochDecider:
    """Decides epochs, in their order, from what tests and probes have shown.

    number: the last decided epoch; -1 for none. refused: signatures, see nnfuzz.feedback.probe.
    """

    def __init__(
        self,
        config: CampaignConfig,
        recorder: Recorder,
        prober: Prober,
        throttle: Throttle,
        observer: Observer,
        feedback: Feedback,
        exchange: Exchange,
    ) -> None:
        self.number = -1
        self.refused = set(map(SupportKey.parse, config.case.refused))
        self.throttle = throttle
        self.feedback = feedback
        self._config = config
        self._recorder = recorder
        self._store = recorder.store
        self._prober = prober
        self._observer = observer
        self._exchange = exchange
        self._learned = 0  # the epoch before which all tests are taken into account
        self._told = 0
        self._last = self._store.restraints.last()
        self._avoided: list[AvoidedRow] = []
        self._emphases: dict[int, Emphasis] = {}
        """By epoch; two are enough, since what is learnt is of the epoch before."""
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
                self._begin()
                if not self.number:
                    self._ask_first()
            else:
                return

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
        elif (probed := self._exchange.probed()) is not None:
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

    def _keep_probed(self) -> None:
        """Called once what is probed beside the first epoch has been answered."""
        if self._config.tests_limit is None:
            self._spent, self._deadline = self._prober.spent, math.inf
        self._exchange.keep_probed(self._store.probes.before(self._begins(1)))

    def _learn(self) -> bool:
        """Learns from the tests of the next epoch; False if some of them cannot be read yet."""
        first, end = self._begins(self._learned), self._begins(self._learned + 1)
        if self._recorder.recorded.length < end:
            return False
        observations = self._exchange.observations(self._learned)
        if observations is None:
            return False
        self._learned += 1
        if self._config.learn and self._more():
            self._probe(
                observations.tests, self._begins(self.number), self._begins(self.number + 1)
            )
        self._throttle(observations.tests)
        self._guide(observations.seen, first, end)
        return True

    def _probe(self, tests: Sequence[Observed], first: int, end: int) -> None:
        """Has probed what tests give reason to, and with half of what is left what comes next.

        first, end: of the epoch beside which that happens.
        """
        room = self._room(first, end)
        asked = self._prober.learn(tests, end, most=room)
        if self._config.probe_seconds:
            self._prober.ask_all((room - asked) // 2, end)

    def _guide(self, seen: Iterable[CoverageObservation], first: int, end: int) -> None:
        """Takes the tests of an epoch for what shall be generated more often."""
        emphasis, seed = self._emphases.pop(self._learned - 1, NO_EMPHASIS), self._config.seed
        if isinstance(self.feedback, NoFeedback):
            self._store.tests.passes.drop_graphs(first, end, ())
            return
        exporters = {case.exporter for case in emphasis.kept}
        self.feedback.observe(
            replace(s, mutated=s.exporter in exporters and emphasis.mutates(seed, s.index))
            for s in seen
        )
        self._store.tests.passes.drop_graphs(first, end, self.feedback.keeps)

    def _more(self) -> bool:
        """Whether there will be another epoch; what nobody waits for is not probed."""
        limit = self._config.tests_limit
        return limit is None or self._begins(self.number + 1) < limit

    def _begin(self) -> None:
        """Decides the next epoch by what is known by now."""
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
        found = EpochConfig(refused, written, tuple(avoided), emphasis)
        self._exchange.decide(self.number, found if changed else None)

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
        shown, before = self._store.occurrences.of_probes(), set(self.throttle.avoided)
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


class Epochs:
    """The epoch whose configuration test cases are made with.

    leased: the node's leases, in a campaign of several nodes. Of these one leads and decides the
    epochs beside its tests; if it is lost, another one learns from all tests again and comes to the
    same.

    number: the current epoch; -1 before the first one. refused: written signatures.
    """

    def __init__(
        self,
        config: CampaignConfig,
        store: Store,
        producers: ProducerPool,
        exchange: Exchange,
        decider: EpochDecider,
        leased: Leased | None = None,
    ) -> None:
        self.number = -1
        self.refused = config.case.refused
        self.avoided: list[AvoidedRow] = []
        self._config = config
        self._store = store
        self._producers = producers
        self._exchange = exchange
        self._decider = decider
        self._leased = leased
        self._decided_for = -1  # the epoch that the current configuration was decided for

    @property
    def end(self) -> int:
        """The first index behind the current epoch."""
        return begins(self.number + 1, self._config.epoch)

    @property
    def over(self) -> bool:
        """Whether the time of a campaign of several nodes is over."""
        return self._leased is not None and self._config.timed and self._leased.over

    def sync(self) -> None:
        """Exchanges messages with the coordinator, if there is one; called in every step."""
        if self._leased:
            self._leased.turn()

    def advance(self, next_index: float) -> None:
        """Begins the epoch of an index, if it is decided by now.

        next_index: the first one that was not handed out yet; infinite if there are no more.
        """
        if self._leased is None:
            self._decider.advance(next_index if math.isfinite(next_index) else -1)
        elif self._leased.leads:
            limit = self._config.tests_limit
            self._decider.advance(math.inf if limit is None else limit - 1)
        if math.isfinite(next_index):
            self._enter(epoch_of(int(next_index), self._config.epoch))

    def _enter(self, epoch: int) -> None:
        begun = self._leased.begun if self._leased else self._exchange.last
        if epoch == self.number or epoch > begun:
            return
        self.number = epoch
        decided_for, config = self._exchange.config_of(epoch)
        if decided_for != self._decided_for:
            self._decided_for = decided_for
            self._configure(decided_for, config)

    def _configure(self, epoch: int, by: EpochConfig) -> None:
        """Has test cases be made with a configuration."""
        self.refused, self.avoided = by.refused, [*by.avoided]
        self._store.restraints.set_epoch(epoch, by.refused, by.reasons, by.avoided, by.emphasis)
        avoid = tuple(row.item for row in by.avoided)
        case = replace(self._config.case, refused=by.refused, avoid=avoid, emphasis=by.emphasis)
        self._producers.configure(epoch, case)


def _some(names: Sequence[object], count: int = 3) -> str:
    """The first of some names."""
    return ", ".join(map(str, names[:count])) + (", ..." if len(names) > count else "")
