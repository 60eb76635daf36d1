"""The files that the nodes of one campaign share: observations of tests, configurations of epochs.

    campaign.json              which campaign this is
    tests/EPOCH/FIRST-END.json observations of the tests in a range of indexes
    epochs/EPOCH.json          the configuration of an epoch, as the leading node decides it
    probed.json                operator signatures that were probed beside the first epoch

Files are written once (nnfuzz.parts.depot). All nodes read the same configurations, so they make
the test cases that one process would make, byte for byte.
"""

from __future__ import annotations

import hashlib
import json
import re
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from typing import Protocol

from nnfuzz.base.index_set import IndexSet
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import parsed_json
from nnfuzz.base.writing import as_json
from nnfuzz.feedback.learning import EpochConfig
from nnfuzz.parts.depot import Depot
from nnfuzz.records.config import LIMITS, CampaignConfig, ConfigError
from nnfuzz.records.lending import Lease
from nnfuzz.records.rows import Observed
from nnfuzz.records.schedule import LEARNT, begins, epoch_of
from nnfuzz.store.store import Store

ABOUT, PROBED = "campaign.json", "probed.json"
_RANGE = re.compile(r"(\d{1,15})-(\d{1,15})\.json")
KEPT_EPOCHS = 64
"""Number of epochs whose configurations a node keeps in memory."""


class Exchange(Protocol):
    """Observations and configurations of epochs, wherever they are kept.

    last: the last epoch that this process has decided; -1 for none.
    """

    last: int

    def observations(self, epoch: int) -> list[Observed] | None:
        """Observations of an epoch all of whose tests are recorded; None if some of them cannot be
        read yet.
        """
        ...

    def decide(self, epoch: int, config: EpochConfig | None) -> None:
        """Keeps the configuration of an epoch; None if it is that of the epoch before."""
        ...

    def config_of(self, epoch: int) -> tuple[int, EpochConfig]:
        """The configuration of a decided epoch, and the epoch that it was first decided for."""
        ...

    def probed(self) -> list[str] | None:
        """Signatures that were probed beside the first epoch; None if that epoch has not ended."""
        ...

    def keep_probed(self, keys: Sequence[str]) -> None:
        """Keeps these signatures, unless some are kept already."""
        ...


class OwnExchange:
    """The exchange of a campaign of one process: its own database and memory."""

    def __init__(self, config: CampaignConfig, store: Store) -> None:
        self.last = -1
        self._config = config
        self._store = store
        self._latest: tuple[int, EpochConfig] | None = None

    def observations(self, epoch: int) -> list[Observed]:
        first, end = (begins(number, self._config.epoch) for number in (epoch, epoch + 1))
        return observations_of(self._store, self._config, first, end)

    def decide(self, epoch: int, config: EpochConfig | None) -> None:
        self.last = epoch
        if config is not None:
            self._latest = epoch, config

    def config_of(self, epoch: int) -> tuple[int, EpochConfig]:
        assert self._latest is not None and epoch == self.last
        return self._latest

    def probed(self) -> list[str] | None:
        after = begins(1, self._config.epoch)
        begun = self._store.tests.count(after, sys.maxsize)
        return self._store.probes.before(after) if begun else None

    def keep_probed(self, keys: Sequence[str]) -> None: ...


class SharedExchange:
    """The exchange of nodes that share a folder or address."""

    def __init__(self, config: CampaignConfig, versions: Mapping[str, str]) -> None:
        """Raises: ConfigError if the address belongs to another campaign; Unreadable."""
        self.last = -1
        self._longest = config.epoch
        self._depot = Depot(config.share)
        self._configs: dict[int, list[EpochConfig]] = {}
        self._check(config, versions)

    def _check(self, config: CampaignConfig, versions: Mapping[str, str]) -> None:
        own = campaign_identity(config, versions)
        self._depot.put(ABOUT, json.dumps(own, indent=1).encode())
        there = read(dict[str, str], parsed_json(self._depot.get(ABOUT) or b"", ABOUT))
        for name, value in own.items():
            if there.get(name) != value:
                raise ConfigError(
                    f"--share {config.share} is of a campaign with another {name} "
                    f"({there.get(name)}, here {value}): choose another folder"
                )

    def add(self, lease: Lease, observations: Sequence[Observed]) -> None:
        """Writes the observations of the tests in a range, if the campaign learns from some."""
        epoch = epoch_of(lease.first, self._longest)
        if lease.first >= begins(epoch, self._longest) + LEARNT:
            return
        name = f"{_tests(epoch)}/{lease.name}.json"
        self._depot.put(name, json.dumps([*map(asdict, observations)]).encode())

    def observations(self, epoch: int) -> list[Observed] | None:
        names = [n for n in self._depot.names(_tests(epoch)) if n.endswith(".json")]
        if not self._complete(epoch, names):
            return None
        data = [self._depot.get(f"{_tests(epoch)}/{name}") or b"" for name in names]
        return merged_observations(read(list[Observed], parsed_json(part)) for part in data)

    def _complete(self, epoch: int, names: Sequence[str]) -> bool:
        """Whether files of these names hold all tests of an epoch that there is learnt from.

        A network file system may list a new file late. Older versions of nnfuzz named files without
        the end of their range; those count as complete.
        """
        ranges, first = [_RANGE.fullmatch(name) for name in names], begins(epoch, self._longest)
        there = IndexSet(length=first)
        for name in filter(None, ranges):
            there.add_range(range(int(name[1]), int(name[2])))
        last = min(begins(epoch + 1, self._longest), first + LEARNT)
        return there.length >= last or None in ranges

    def decide(self, epoch: int, config: EpochConfig | None) -> None:
        rows = [] if config is None else [asdict(config)]
        self._depot.put(config_file(epoch), json.dumps(rows).encode())
        self.last = epoch

    def config_of(self, epoch: int) -> tuple[int, EpochConfig]:
        """Raises: Unreadable."""
        first = epoch
        while not (configs := self._read(first)):
            first -= 1
        return first, configs[0]

    def _read(self, epoch: int) -> list[EpochConfig]:
        """The configuration of an epoch; empty if it is that of the epoch before."""
        if epoch not in self._configs:
            while len(self._configs) >= KEPT_EPOCHS:
                del self._configs[min(self._configs)]
            data = self._depot.get(config_file(epoch))
            if data is None:
                raise Unreadable(f"{self._depot.url} has lost the configuration of epoch {epoch}")
            self._configs[epoch] = read(list[EpochConfig], parsed_json(data))
        return self._configs[epoch]

    def probed(self) -> list[str] | None:
        data = self._depot.get(PROBED)
        return None if data is None else read(list[str], parsed_json(data))

    def keep_probed(self, keys: Sequence[str]) -> None:
        self._depot.put(PROBED, json.dumps(keys).encode())


def observations_of(store: Store, config: CampaignConfig, first: int, end: int) -> list[Observed]:
    """Observations of the tests from `first` up to `end` that the campaign learns from; both
    indexes are of one epoch, and `end` is excluded.
    """
    end = min(end, begins(epoch_of(first, config.epoch), config.epoch) + LEARNT)
    return store.observed(first, end)


def merged_observations(parts: Iterable[Sequence[Observed]]) -> list[Observed]:
    """The observations of several ranges, each index once, in the order of the indexes."""
    by_index = {test.index: test for part in parts for test in part}
    return [test for _, test in sorted(by_index.items())]


def config_file(epoch: int) -> str:
    """Name of the file with the configuration of an epoch."""
    return f"epochs/{epoch:06}.json"


def _tests(epoch: int) -> str:
    return f"tests/{epoch:06}"


def campaign_identity(config: CampaignConfig, versions: Mapping[str, str]) -> dict[str, str]:
    """The settings that all nodes of a campaign must have in common, by name."""
    left_out = {*LIMITS, "shard"}
    settings = {name: v for name, v in as_json(config).items() if name not in left_out}
    return {
        "seed": str(config.seed),
        "number of parts": str(config.place.count),
        "settings": hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest(),
        **{f"version of {name}": version for name, version in sorted(versions.items())},
    }
