"""The settings of a campaign, as they are stored in it."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from nnfuzz.backend.registry import BackendSpec, labelled
from nnfuzz.base.reading import Json, Unreadable, read
from nnfuzz.base.setting import settings_of
from nnfuzz.base.shard import Shard
from nnfuzz.base.writing import UNWRITTEN, as_json
from nnfuzz.records.settings import FIRST_SECONDS, SETTINGS, CampaignSettings
from nnfuzz.testcase.case import CaseConfig

SCHEMA = 2
# Settings that a resumed campaign may change: none of them decides a test case or its verdict.
LIMITS = (
    "time_limit",
    "tests_limit",
    "workers",
    "ray",
    "reduce",
    "severity",
    "known",
)
FIRST_SHARE = 0.05
"""The share of a time limit that the questions before the first test may take."""
EARLY = 1000
"""Where the number of tests is not known, so many are assumed."""


class ConfigError(Unreadable):
    """Settings that do not fit together; the message names the fix."""


@dataclass(frozen=True)
class ProducerSettings:
    """Where test cases come from: a service in sandboxes.

    service: "pkg.module:factory", called with (seed, config, cache). preload: modules for its fork
    server. seconds, memory_bytes: limits of one job. jobs: until a worker is replaced.
    """

    service: str = field(default="nnfuzz.testcase.producer:producer_service", metadata=UNWRITTEN)
    preload: tuple[str, ...] = field(
        default=("numpy", "onnx", "torch", "nnfuzz.testcase.producer", "nnfuzz.compare.verdict"),
        metadata=UNWRITTEN,
    )
    seconds: float = 60.0
    memory_bytes: int = 4 << 30
    jobs: int = 1000


@dataclass(frozen=True)
class ReducerSettings:
    """The service that reduces findings, in a sandbox.

    service: "pkg.module:factory", called with (plugins, folder). preload: modules for its server.
    budget: candidates of one reduction, and seconds of one in a campaign that the clock ends, after
    which the best so far is taken. share: of the
    campaign's time that reductions may take beside it, which grows up to `most` with the waiting
    findings; as much, and at least `grace` seconds and `seconds` for each finding, is granted when
    it is over.
    """

    service: str = field(
        default="nnfuzz.findings.reducer_service:reduction_service", metadata=UNWRITTEN
    )
    preload: tuple[str, ...] = field(
        default=("numpy", "nnfuzz.findings.reducer_service"), metadata=UNWRITTEN
    )
    seconds: float = 24.0
    budget: int = 800
    share: float = 0.2
    most: float = 0.5
    grace: float = 30.0


@dataclass(frozen=True)
class CampaignConfig(CampaignSettings):
    """The configuration of a campaign: its settings, its compilers and its services.

    known: lines of a file of known failures (nnfuzz.triage.keys), which are counted, but are no
    findings.
    """

    backends: tuple[BackendSpec, ...]
    case: CaseConfig = field(default_factory=CaseConfig)
    known: tuple[str, ...] = ()
    producer: ProducerSettings = field(default_factory=ProducerSettings)
    reducer: ReducerSettings = field(default_factory=ReducerSettings)
    schema: int = SCHEMA

    def __post_init__(self) -> None:
        """Raises: ConfigError."""
        if not self.backends:
            raise ConfigError("no backend is chosen: add --backend NAME (see nnfuzz backends)")
        object.__setattr__(self, "backends", labelled(self.backends))
        labels = [spec.label for spec in self.backends]
        if len(set(labels)) < len(labels):
            chosen = ", ".join(str(spec) for spec in self.backends)
            raise ConfigError(f"a backend is chosen twice with the same options: {chosen}")
        if self.regressions and (len(labels), len({spec.name for spec in self.backends})) != (2, 1):
            raise ConfigError(
                "regressions compares two releases of one compiler: -b NAME@1.2.3 -b NAME"
            )
        for setting in settings_of(CampaignSettings):
            if not setting.kind.admits(getattr(self, setting.field)):
                raise ConfigError(f"setting {setting.name}: {setting.kind.meaning}")

    def sampled(self, index: int) -> bool:
        """Whether the index gets the full check even if its results agree at first sight."""
        draw = zlib.crc32(f"{self.seed}/{index}/full-check".encode()) / 2**32
        return draw < self.full_check

    def at_default(self, index: int) -> bool:
        """Whether compilers run the index as their users have them as well."""
        return random.Random(f"{self.seed}/{index}/default").random() < self.defaults

    def drawing(self, index: int, compiler: str) -> random.Random | None:
        """The random numbers of a test's pipeline; None where it runs at the usual levels."""
        rng = random.Random(f"{self.seed}/{index}/pipeline/{compiler}")
        return rng if rng.random() < self.pipelines else None

    @property
    def part(self) -> Shard:
        """The part of the indexes that this process tests. Raises: ConfigError."""
        try:
            return Shard.parse(self.shard) if self.shard else Shard()
        except ValueError as error:
            raise ConfigError(f"shard {error}") from error

    @property
    def timed(self) -> bool:
        """Whether the clock decides when it is over, and so how long a reduction may take."""
        return self.tests_limit is None or self.time_limit is not None

    @property
    def first_seconds(self) -> float:
        """Seconds that the questions before the first test may take. Infinite where tests are
        counted, since no clock may decide then.
        """
        if self.time_limit is not None:
            return self.time_limit * FIRST_SHARE
        return math.inf if self.tests_limit is not None else FIRST_SECONDS

    @classmethod
    def from_json(cls, data: Mapping[str, object]) -> CampaignConfig:
        """Raises: ConfigError if the schema is another one; Unreadable."""
        if data.get("schema") != SCHEMA:
            raise ConfigError(
                f"the campaign was made by another version of nnfuzz (its schema is "
                f"{data.get('schema')!r}, not {SCHEMA}); start a new one"
            )
        return read(cls, data)

    @property
    def plugins(self) -> tuple[str, ...]:
        """All files and modules with backends and operators."""
        return tuple(
            dict.fromkeys([*self.case.plugins, *(p for s in self.backends for p in s.plugins)])
        )

    def resumed_with(self, chosen: Mapping[str, Json]) -> CampaignConfig:
        """This stored configuration with new limits. `chosen` holds the settings given anew.

        Raises: ConfigError if a setting contradicts the stored value, naming both.
        """
        for name, value in chosen.items():
            stored = getattr(self, name, None) if name not in _CASE else getattr(self.case, name)
            if name not in LIMITS and _plain(stored) != _plain(value):
                raise ConfigError(
                    f"{_NAMES.get(name, name)} {_show(value)} contradicts the campaign, which has "
                    f"{_show(stored)}: leave it out to resume, "
                    "or start a new campaign in another --out"
                )
        return replace(self, **{k: v for k, v in chosen.items() if k in LIMITS})


_CASE = (*(f.name for f in fields(CaseConfig)), "exporters")
_NAMES = {setting.field: setting.name for setting in SETTINGS.values()} | {
    "exporters": "exporter",
    "backends": "backend",
}
"""The names that people write, by field."""


def _plain(value: object) -> object:
    """Values as JSON reads them back, so that a stored setting compares equal to a given one."""
    if isinstance(value, BackendSpec):
        return {**as_json(value), "label": ""}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    return value


def _show(value: object) -> str:
    if isinstance(value, list | tuple):
        return " ".join(str(item) for item in value) or "none"
    return str(value)
