"""What is generated from now on: the configuration of each epoch, decided at its first index.

Epoch e covers the indexes from begins(e) up to begins(e + 1) (nnfuzz.campaign.schedule). What is
refused and avoided in it follows from the tests below begins(e - 1) and from the probes that these
made necessary, and from nothing else. The epoch in between keeps the producers busy while
stragglers end. So the tests of a campaign are a function of its seed and settings, however many
workers there are and however fast they are, and a resumed campaign comes to the same by going
through its tests again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import replace

from nnfuzz.campaign.config import CampaignConfig
from nnfuzz.campaign.guidance import Feedback, NoFeedback
from nnfuzz.campaign.observer import Observer
from nnfuzz.campaign.probe import Prober
from nnfuzz.campaign.producer_pool import ProducerPool
from nnfuzz.campaign.recorder import Recorder
from nnfuzz.campaign.rows import AvoidedRow, Observed
from nnfuzz.campaign.schedule import begins
from nnfuzz.campaign.support import INSTANCES
from nnfuzz.campaign.throttle import Throttle, by_operator
from nnfuzz.generate.emphasis import NO_EMPHASIS, Emphasis
from nnfuzz.testcase.test_id import Probe

TELLING = 1.2  # growth of the refused signatures that is worth another line


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
    ) -> None:
        self.number = -1
        self.refused: set[str] = set(config.case.refused)
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

    @property
    def end(self) -> int:
        """The first index that is not in the current epoch."""
        return begins(self.number + 1)

    def advance(self, next_index: int) -> None:
        """Begins the next epoch, and learns for the one after it, as far as that can be done.

        next_index: the first one that was not handed out yet.
        """
        while self._prober.idle:
            if self._learned < self.number:
                if not self._learn():
                    return
            elif next_index >= self.end:
                self._begin()
            else:
                return

    def _learn(self) -> bool:
        """Takes the tests of the epoch before the current one, once they are all recorded."""
        first, end = begins(self._learned), begins(self._learned + 1)
        if self._recorder.recorded.length < end:
            return False
        self._learned += 1
        tests = self._store.observed(first, end)
        if self._config.learn and self._more():
            self._prober.learn(tests, begins(self.number + 1), most=end - first)
        self._throttle(tests)
        self._guide(first, end)
        return True

    def _guide(self, first: int, end: int) -> None:
        """Takes the tests of an epoch for what shall be generated more often."""
        emphasis, seed = self._emphases.pop(self._learned - 1, NO_EMPHASIS), self._config.seed
        if isinstance(self.feedback, NoFeedback):
            self._store.drop_graphs(first, end, ())
            return
        exporters = {case.exporter for case in emphasis.kept}
        seen = [
            replace(s, mutated=s.exporter in exporters and emphasis.mutates(seed, s.index))
            for s in self._store.seen(first, end)
        ]
        self.feedback.observe(seen)
        self._store.drop_graphs(first, end, self.feedback.keeps)

    def _more(self) -> bool:
        """Whether there will be another epoch; what nobody waits for is not probed."""
        limit = self._config.tests_limit
        return limit is None or begins(self.number + 1) < limit

    def _begin(self) -> None:
        """Has test cases be made with what is refused and avoided by now."""
        self._avoid_failing()
        self.number += 1
        reasons = self._new_refusals()
        avoided = self.throttle.avoided
        self.refused |= reasons.keys()
        emphasis = self.feedback.emphasis((*self.refused, *(row.item for row in avoided)))
        before = self._emphases.get(self.number - 1, NO_EMPHASIS)
        changed = bool(reasons) or avoided != self._avoided or not self.number
        self._avoided = avoided
        self._emphases[self.number] = emphasis
        if changed or emphasis != before:
            self._store.set_epoch(self.number, self.refused, reasons, avoided, emphasis)
            case = replace(
                self._config.case,
                refused=tuple(sorted(self.refused)),
                avoid=tuple(row.item for row in avoided),
                emphasis=emphasis,
            )
            self._producers.configure(self.number, case)

    def _new_refusals(self) -> dict[str, str]:
        """Signatures that turned out not to be supported, with the reasons."""
        reasons = self._prober.refused()
        new = reasons.keys() - self.refused
        avoided = {row.item for row in self.throttle.avoided}
        if not new or not self._prober.left(self.refused | new) - avoided:
            return {}
        if len(self.refused | new) > TELLING * self._told:
            self._told = len(self.refused | new)
            self._note(
                f"{self._told} of {len(self._prober.keys)} operator signatures are refused for "
                f"generation by now, since they are not supported: {_some(new)}"
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
                exporter = key.partition(":")[0]
                seen = [Observed(-1, 0, "run", exporter, (), {}, found) for found in probes]
                self.throttle.avoid(key, seen, "fails by itself", self.number + 1)
        self._tell(row for row in self.throttle.avoided if row not in before)

    def _tell(self, new: Iterable[AvoidedRow]) -> None:
        for name, row in by_operator(new).items():
            found = self._recorder.rows.get(row.signature)
            title = f": {found.title}" if found else ""
            self._note(
                f"generation keeps away from {name} from now on, but in "
                f"{self._config.case.unrestrained:.0%} of the tests: {row.why}{title} "
                f"[{row.signature}]"
            )

    def _note(self, text: str) -> None:
        """Says it, unless an earlier session has."""
        if self.number >= self._last:
            self._observer.note(text)


def _some(keys: Collection[str], count: int = 4) -> str:
    shown = sorted(keys)[:count]
    return ", ".join(shown) + (", ..." if len(keys) > count else "")
