"""The settings of a campaign, as they are stored in it."""

from __future__ import annotations

import math
import random
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace

from nnfuzz.backend.registry import BackendSpec, labelled
from nnfuzz.base.reading import Json, Unreadable, read
from nnfuzz.base.shard import Shard
from nnfuzz.base.writing import UNWRITTEN, as_json
from nnfuzz.records.schedule import FIRST, LONGEST
from nnfuzz.testcase.case import CaseConfig

SCHEMA = 2
# Settings that a resumed campaign may change: none of them decides a test case or its verdict.
LIMITS = (
    "time_limit",
    "tests_limit",
    "workers",
    "reduce",
    "known",
)
PROBED = 10
"""One of so many tests or seconds may go to probing."""
FIRST_SECONDS = 10.0
"""The time for habits before the first test, and for probes beside the first ones, where nothing
ends a campaign."""


MOST_WORKERS = 1024
"""The most workers of a kind: more than the cores of any machine; a file may ask for anything."""


class ConfigError(Unreadable):
    """Settings that do not fit together; the message names the fix."""


@dataclass(frozen=True)
class ProducerSettings:
    """Where test cases come from: a service in sandboxes.

    service: "pkg.module:factory", called with (seed, config, cache). preload: modules for its fork
    server. seconds, memory_bytes: limits of one job. jobs: until a worker is replaced.
    """

    service: str = field(default="nnfuzz.testcase.service:producer_service", metadata=UNWRITTEN)
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
class CampaignConfig:
    """The configuration of a campaign.

    levels: for every backend; empty means each backend's default pair. time_limit: seconds of
    all sessions together. tests_limit: indexes. workers: lanes, each with a process per backend
    (nnfuzz.campaign.lanes). full_check: share
    of agreeing tests that is judged by the envelope all the same. known: lines of a file of known
    failures (nnfuzz.triage.known), which are counted, but are no findings. probe_seconds: time for
    single-operator probes beside the first tests, where nothing but the clock ends the campaign;
    0: no signature is probed that no test gives reason to (`probes_before`). learn: whether
    `unsupported` outcomes lead to probes, and probes to refusals
    (a new epoch). pipelines: share of the tests that run at a pipeline of their own
    (Backend.draw_pipeline) in place of the most optimised level, where a backend has such.
    shard: "2/8" for the second of eight processes (nnfuzz.base.shard), which
    tests every eighth index and learns from its own tests. epoch: tests in the longest one
    (nnfuzz.records.schedule). patience: seconds that every run gets before it looks like a hang
    (nnfuzz.campaign.pace). reduce: whether findings are reduced. throttle: how often a failure
    must occur before generation keeps away from the operators that it is associated with; 0 for
    never. regressions: whether only a model that exactly one of two releases gets wrong is a
    finding.
    """

    backends: tuple[BackendSpec, ...]
    case: CaseConfig = field(default_factory=CaseConfig)
    seed: int = 0
    levels: tuple[str, ...] = ()
    time_limit: float | None = None
    tests_limit: int | None = None
    workers: int = 1
    full_check: float = 0.02
    known: tuple[str, ...] = ()
    probe_seconds: float = FIRST_SECONDS
    learn: bool = True
    reduce: bool = True
    throttle: int = 5
    regressions: bool = False
    pipelines: float = 0.0
    shard: str = ""
    epoch: int = LONGEST
    patience: float = 5.0
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
                "--regressions compares two releases of one compiler: -b NAME@1.2.3 -b NAME"
            )
        if not 1 <= self.workers <= MOST_WORKERS:
            raise ConfigError(f"setting workers: from 1 to {MOST_WORKERS}")
        if self.epoch < FIRST:
            raise ConfigError(f"setting epoch: at least {FIRST} tests")
        for name in ("full_check", "pipelines"):
            if not 0 <= getattr(self, name) <= 1:
                raise ConfigError(f"setting {name.replace('_', '-')}: a share from 0 to 1")

    def sampled(self, index: int) -> bool:
        """Whether the index gets the full check even if its results agree at first sight."""
        draw = zlib.crc32(f"{self.seed}/{index}/full-check".encode()) / 2**32
        return draw < self.full_check

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
            raise ConfigError(f"--shard {error}") from error

    @property
    def timed(self) -> bool:
        """Whether the clock decides when it is over, and so how long a reduction may take."""
        return self.tests_limit is None or self.time_limit is not None

    @property
    def first_seconds(self) -> float:
        """Seconds that the questions before the first test may take, and as many the probes beside
        the first tests: in sum a tenth of the time, if only time is limited. Infinite where
        tests are counted, since no clock may decide then.
        """
        if self.time_limit is not None:
            return self.time_limit / PROBED / 2
        return math.inf if self.tests_limit is not None else FIRST_SECONDS

    @property
    def first_probing(self) -> float:
        """Seconds of probing beside the first tests, where the clock decides."""
        return min(self.probe_seconds, self.first_seconds)

    def probes_before(self, index: int) -> int:
        """How many probes may run before the tests from an index on: a tenth of all tests; where
        their number is not known, a twentieth of those before it, since as much time has gone to
        the first probes.
        """
        if self.tests_limit is not None:
            return self.tests_limit // PROBED
        return index // PROBED // 2

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
        """This stored configuration with new limits. `chosen` holds the options given anew.

        Raises: ConfigError if an option contradicts the stored value, naming both.
        """
        for name, value in chosen.items():
            stored = getattr(self, name, None) if name not in _CASE else getattr(self.case, name)
            if name not in LIMITS and _plain(stored) != _plain(value):
                option = _OPTIONS.get(name, name).replace("_", "-")
                raise ConfigError(
                    f"--{option} {_show(value)} contradicts the campaign, which has "
                    f"{_show(stored)}: leave the option out to resume, "
                    "or start a new campaign in another --out"
                )
        return replace(self, **{k: v for k, v in chosen.items() if k in LIMITS})


_CASE = (*(f.name for f in fields(CaseConfig)), "exporters")
_OPTIONS = {"exporters": "exporter", "levels": "level", "backends": "backend"}
"""Settings whose option has another name."""


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
