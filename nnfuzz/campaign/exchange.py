"""How the parts of one campaign learn together: what each has seen, and what the first decides.

    campaign.json           which campaign this is
    tests/EPOCH/K-of-N.json what the tests of an epoch have shown in one part
    tests/EPOCH/FIRST.json  or in one range of indexes that a node was lent
    epochs/EPOCH.json       what is refused and avoided from there on, as one part decides
    probed.json             what that part has probed before the first test, where nodes are lent

So the parts make the test cases that one process would make, byte for byte, whatever runs first: a
part waits for what an epoch needs. One of fixed parts that is gone is waited for until it goes on
(--resume); what a node was lent, others do again.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from nnfuzz.campaign.config import LIMITS, CampaignConfig, ConfigError
from nnfuzz.campaign.depot import Depot
from nnfuzz.campaign.guidance import Seen
from nnfuzz.campaign.lending import Lease
from nnfuzz.campaign.rows import AvoidedRow, Observed
from nnfuzz.campaign.schedule import LEARNT, begins, epoch_of
from nnfuzz.campaign.store import Store
from nnfuzz.generate.emphasis import Emphasis
from nnfuzz.reading import read
from nnfuzz.untrusted import parsed_json
from nnfuzz.writing import as_json

LOOK_SECONDS = 0.25  # between looks for what is waited for
ABOUT, PROBED = "campaign.json", "probed.json"


@dataclass(frozen=True)
class Restrained:
    """What generation keeps away from, and does more often; reasons: of what is newly refused."""

    refused: tuple[str, ...]
    reasons: Mapping[str, str]
    avoided: tuple[AvoidedRow, ...]
    emphasis: Emphasis


@dataclass(frozen=True)
class Told:
    """What tests have shown, by index. seen: for guidance, where there is any."""

    tests: tuple[Observed, ...]
    seen: tuple[Seen, ...]


class Lessons:
    """The files that all parts of a campaign have in common."""

    def __init__(self, config: CampaignConfig, versions: Mapping[str, str]) -> None:
        """Raises: ConfigError if another campaign is there; Unreadable."""
        self._longest = config.epoch
        self._depot = Depot(config.share)
        self._depot.put(ABOUT, json.dumps(about(config, versions), indent=1).encode())
        told = read(dict[str, str], parsed_json(self._depot.get(ABOUT) or b"", ABOUT))
        for name, value in about(config, versions).items():
            if told.get(name) != value:
                raise ConfigError(
                    f"--share {config.share} is of a campaign with another {name} "
                    f"({told.get(name)}, here {value}): choose another folder"
                )

    def decide(self, epoch: int, restraints: Restrained | None) -> None:
        """Has the other parts begin an epoch. None: as the one before it."""
        rows = [] if restraints is None else [asdict(restraints)]
        self._depot.put(_epoch(epoch), json.dumps(rows).encode())

    def decided(self, epoch: int) -> list[Restrained] | None:
        """What holds from an epoch on, empty for no change; None while it is not decided."""
        data = self._look(_epoch(epoch))
        return None if data is None else read(list[Restrained], parsed_json(data))

    def told(self, epoch: int) -> Told | None:
        """What the tests of all parts have shown; None while some are missing."""
        raise NotImplementedError

    def _look(self, name: str) -> bytes | None:
        return self._depot.get(name)


class Exchange(Lessons):
    """Those of a part of a fixed number of them. leads: whether it decides the epochs."""

    def __init__(self, config: CampaignConfig, versions: Mapping[str, str]) -> None:
        """Raises: ConfigError if another campaign is there; Unreadable."""
        super().__init__(config, versions)
        self._part = config.part
        self.leads = self._part.number == 1
        self._looked: dict[str, float] = {}
        self._told: dict[tuple[int, int], Told] = {}

    @classmethod
    def of(cls, config: CampaignConfig, versions: Mapping[str, str]) -> Exchange | None:
        """None where the campaign does not share. Raises: ConfigError, Unreadable."""
        return cls(config, versions) if config.share else None

    def tell(self, epoch: int, told: Told) -> None:
        """Keeps what the own tests of an epoch have shown."""
        self._depot.put(self._name(epoch, self._part.number), json.dumps(asdict(told)).encode())

    def told(self, epoch: int) -> Told | None:
        """What those of all parts have shown; None while some are missing."""
        places = [(epoch, number) for number in range(1, self._part.count + 1)]
        for place in places:
            if place not in self._told:
                data = self._look(self._name(*place))
                if data is None:
                    return None
                self._told[place] = read(Told, parsed_json(data))
        return together([self._told.pop(place) for place in places])

    def _name(self, epoch: int, number: int) -> str:
        return f"{_tests(epoch)}/{number}-of-{self._part.count}.json"

    def _look(self, name: str) -> bytes | None:
        """The content of a file, which is looked for now and then."""
        now = time.monotonic()
        if now - self._looked.get(name, -LOOK_SECONDS) < LOOK_SECONDS:
            return None
        found = self._depot.get(name)
        if found is None:
            self._looked[name] = now
        else:
            self._looked.pop(name, None)
        return found


class RangeLessons(Lessons):
    """Those of ranges that nodes were lent."""

    def tell(self, lease: Lease, told: Told) -> None:
        """Keeps what the tests of a range have shown."""
        name = f"{_tests(epoch_of(lease.first, self._longest))}/{lease.first}.json"
        self._depot.put(name, json.dumps(asdict(told)).encode())

    def told(self, epoch: int) -> Told:
        """Once the coordinator has said that it is complete."""
        names = self._depot.names(_tests(epoch))
        data = [self._depot.get(f"{_tests(epoch)}/{name}") or b"" for name in names]
        return together([read(Told, parsed_json(text)) for text in data])

    def keep_probed(self, keys: Sequence[str]) -> None:
        """Keeps what was probed before the first test, where that is not kept yet."""
        self._depot.put(PROBED, json.dumps(keys).encode())

    def probed(self) -> list[str] | None:
        """What was probed before the first test; None if nobody has done so to the end."""
        data = self._depot.get(PROBED)
        return None if data is None else read(list[str], parsed_json(data))


def shown(store: Store, config: CampaignConfig, first: int, end: int) -> Told:
    """What the tests of an epoch, or of a range in one, have shown: those that are learnt from."""
    end = min(end, begins(epoch_of(first, config.epoch), config.epoch) + LEARNT)
    seen = store.seen(first, end) if config.guidance else []
    return Told(tuple(store.observed(first, end)), tuple(seen))


def together(told: Iterable[Told]) -> Told:
    """By index."""
    tests: dict[int, Observed] = {}
    seen: dict[int, Seen] = {}
    for part in told:
        tests |= {test.index: test for test in part.tests}
        seen |= {test.index: test for test in part.seen}
    return Told(
        tuple(tests[index] for index in sorted(tests)),
        tuple(seen[index] for index in sorted(seen)),
    )


def _epoch(number: int) -> str:
    return f"epochs/{number:06}.json"


def _tests(epoch: int) -> str:
    return f"tests/{epoch:06}"


def about(config: CampaignConfig, versions: Mapping[str, str]) -> dict[str, str]:
    """What all parts must have in common, by name."""
    left_out = {*LIMITS, "shard"}
    settings = {name: v for name, v in as_json(config).items() if name not in left_out}
    return {
        "seed": str(config.seed),
        "number of parts": str(config.part.count),
        "settings": hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest(),
        **{f"version of {name}": version for name, version in sorted(versions.items())},
    }
