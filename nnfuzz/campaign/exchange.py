"""How the parts of one campaign learn together: what each has seen, and what the first decides.

    campaign.json           which campaign this is
    tests/EPOCH/K-of-N.json what the tests of an epoch have shown in one part
    epochs/EPOCH.json       what is refused and avoided from there on, as the first part decides

So the parts make the test cases that one process would make, byte for byte, whatever runs first: a
part waits for what an epoch needs. One that is gone is waited for until it goes on (--resume).
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass

from nnfuzz.campaign.config import LIMITS, CampaignConfig, ConfigError
from nnfuzz.campaign.depot import Depot
from nnfuzz.campaign.guidance import Seen
from nnfuzz.campaign.rows import AvoidedRow, Observed
from nnfuzz.generate.emphasis import Emphasis
from nnfuzz.reading import read
from nnfuzz.untrusted import parsed_json

LOOK_SECONDS = 0.25  # between looks for what is waited for
ABOUT = "campaign.json"


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


class Exchange:
    """The files of a part. leads: whether it decides the epochs."""

    def __init__(self, config: CampaignConfig, versions: Mapping[str, str]) -> None:
        """Raises: ConfigError if another campaign is there; Unreadable."""
        self._part = config.part
        self.leads = self._part.number == 1
        self._depot = Depot(config.share)
        self._looked: dict[str, float] = {}
        self._told: dict[tuple[int, int], Told] = {}
        self._depot.put(ABOUT, json.dumps(about(config, versions), indent=1).encode())
        told = read(dict[str, str], parsed_json(self._depot.get(ABOUT) or b"", ABOUT))
        for name, value in about(config, versions).items():
            if told.get(name) != value:
                raise ConfigError(
                    f"--share {config.share} is of a campaign with another {name} "
                    f"({told.get(name)}, here {value}): choose another folder"
                )

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
        found = [self._told.pop(place) for place in places]
        return Told(
            tuple(sorted((t for told in found for t in told.tests), key=lambda t: t.index)),
            tuple(sorted((s for told in found for s in told.seen), key=lambda s: s.index)),
        )

    def decide(self, epoch: int, restraints: Restrained | None) -> None:
        """Has the other parts begin an epoch. None: as the one before it."""
        rows = [] if restraints is None else [asdict(restraints)]
        self._depot.put(f"epochs/{epoch:06}.json", json.dumps(rows).encode())

    def decided(self, epoch: int) -> list[Restrained] | None:
        """What holds from an epoch on, empty for no change; None while it is not decided."""
        data = self._look(f"epochs/{epoch:06}.json")
        return None if data is None else read(list[Restrained], parsed_json(data))

    def _name(self, epoch: int, number: int) -> str:
        return f"tests/{epoch:06}/{number}-of-{self._part.count}.json"

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


def about(config: CampaignConfig, versions: Mapping[str, str]) -> dict[str, str]:
    """What all parts must have in common, by name."""
    left_out = {*LIMITS, "shard"}
    settings = {name: v for name, v in config.to_json().items() if name not in left_out}
    return {
        "seed": str(config.seed),
        "number of parts": str(config.part.count),
        "settings": hashlib.sha256(json.dumps(settings, sort_keys=True).encode()).hexdigest(),
        **{f"version of {name}": version for name, version in sorted(versions.items())},
    }
