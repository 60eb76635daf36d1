"""Observations of a campaign's tests, and the configurations of its epochs."""

from __future__ import annotations

import sys

from nnfuzz.feedback.learning import EpochConfig
from nnfuzz.records.config import CampaignConfig
from nnfuzz.records.rows import Observed
from nnfuzz.records.schedule import LEARNT, begins, epoch_of
from nnfuzz.store.store import Store


class Exchange:
    """Reads observations from the campaign's database, and holds the latest configuration.

    last: the last decided epoch; -1 for none.
    """

    def __init__(self, config: CampaignConfig, store: Store) -> None:
        self.last = -1
        self._config = config
        self._store = store
        self._latest: tuple[int, EpochConfig] | None = None

    def observations(self, epoch: int) -> list[Observed]:
        """Observations of an epoch that the campaign learns from. All its tests are recorded."""
        first, end = (begins(number, self._config.epoch) for number in (epoch, epoch + 1))
        end = min(end, begins(epoch_of(first, self._config.epoch), self._config.epoch) + LEARNT)
        return self._store.observed(first, end)

    def decide(self, epoch: int, config: EpochConfig | None) -> None:
        """Keeps the configuration of an epoch; None if it is that of the epoch before."""
        self.last = epoch
        if config is not None:
            self._latest = epoch, config

    def config_of(self, epoch: int) -> tuple[int, EpochConfig]:
        """The configuration of a decided epoch, and the epoch that it was first decided for."""
        assert self._latest is not None and epoch == self.last
        return self._latest

    def probed(self) -> list[str] | None:
        """Signatures that were probed beside the first epoch; None if that epoch has not ended."""
        after = begins(1, self._config.epoch)
        begun = self._store.tests.count(after, sys.maxsize)
        return self._store.probes.before(after) if begun else None
