"""What is generated from now on: refusals and restraints become an epoch of the producers."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace

from nnfuzz.campaign.config import CampaignConfig
from nnfuzz.campaign.flight import TEST
from nnfuzz.campaign.observer import Observer
from nnfuzz.campaign.pools import ProducerPool
from nnfuzz.campaign.probe import Prober
from nnfuzz.campaign.recorder import Evidence, Recorder
from nnfuzz.campaign.throttle import Throttle

TELLING = 1.2  # growth of the refused signatures that is worth another line
EPOCH_SECONDS = 2.0  # least time between two epochs: each interrupts the producers
EPOCH_SHARE = 0.05  # and the least share of the time so far


class Epochs:
    """The current epoch of a campaign, and when the next one begins.

    number, refused: of the current epoch; refused holds signatures, see nnfuzz.campaign.probe.
    """

    def __init__(
        self,
        config: CampaignConfig,
        recorder: Recorder,
        producers: ProducerPool,
        prober: Prober,
        throttle: Throttle,
        observer: Observer,
        number: int,
        refused: Iterable[str] = (),
    ) -> None:
        """number, refused: where the session begins."""
        self.number = number
        self.refused = set(refused)
        self.throttle = throttle
        self._config = config
        self._recorder = recorder
        self._producers = producers
        self._prober = prober
        self._observer = observer
        self._restrains = replace(config.case, avoid=("anything",)).restrains
        self._told = len(self.refused)
        self._began = 0.0

    def renew(self, now: bool = False) -> None:
        """Starts a new epoch if what is to be generated has changed, at most every few seconds."""
        age = time.monotonic() - self._began
        if not now and age < max(EPOCH_SECONDS, EPOCH_SHARE * self._recorder.seconds()):
            return
        self._began = time.monotonic()
        reasons = self._new_refusals()
        if not self._throttled() and not reasons:
            return
        avoided = self.throttle.avoided
        self.refused |= reasons.keys()
        self.number = self._recorder.store.add_epoch(self.refused, reasons, avoided)
        case = replace(
            self._config.case,
            refused=tuple(sorted(self.refused)),
            avoid=tuple(row.item for row in avoided),
        )
        self._producers.configure(self.number, case)

    def watch(self, evidence: Evidence) -> None:
        """Has the throttle look at tests that were made without restraint though there was some."""
        case = evidence.case
        if case is None or evidence.origin != TEST or evidence.epoch != self.number:
            return
        if not self._restrains(case.seed, case.index):
            shown = (failure.signature.hash for failure in evidence.confirmed)
            self.throttle.watch(case.graph, shown)

    def _new_refusals(self) -> dict[str, str]:
        """Signatures that turned out not to be supported, with the reasons."""
        reasons = self._prober.refused()
        refused = set(self._config.case.refused) | set(reasons)
        avoided = {row.item for row in self.throttle.avoided}
        new = refused - self.refused
        if not new or not self._prober.left(refused) - avoided:
            return {}
        if len(self.refused | new) > TELLING * self._told:
            self._told = len(self.refused | new)
            self._observer.note(
                f"{self._told} of {len(self._prober.keys)} operator signatures are refused for "
                f"generation by now, since they are not supported: {_some(new)}"
            )
        return {key: reasons.get(key, "") for key in sorted(new)}

    def _throttled(self) -> bool:
        """Whether the list of what generation keeps away from has changed; says so."""
        gone = self._prober.left(()) - self._prober.left(self.refused)
        recorder = self._recorder
        new = self.throttle.learn(recorder.findings(), recorder.reductions, gone)
        for row in new:
            self._observer.note(
                f"generation keeps away from {row.item} from now on, but in "
                f"{self._config.case.unrestrained:.0%} of the tests: {row.why} [{row.signature}]"
            )
        lifted = self.throttle.lift()
        for row in lifted:
            self._observer.note(
                f"{row.item} no longer fails and is generated again: {row.why} [{row.signature}]"
            )
        return bool(new or lifted)


def _some(keys: set[str], count: int = 4) -> str:
    shown = sorted(keys)[:count]
    return ", ".join(shown) + (", ..." if len(keys) > count else "")
