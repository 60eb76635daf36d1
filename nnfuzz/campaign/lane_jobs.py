"""The jobs of a lane's process (nnfuzz.campaign.lane_service), and what it tells of each test."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnfuzz.backend.deviation import Deviation
from nnfuzz.base.reading import Json
from nnfuzz.records.rows import HangRow
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.wire import Blobs
from nnfuzz.store.evidence import Evidence
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import TestId


@dataclass(frozen=True)
class Order:
    """One test that is to be made and run.

    levels: by backend; empty: as the settings say. patient: whether runs get the whole time limit.
    hang: the signature of a confirmed hang that this test looks like, or "". died: see
    nnfuzz.testcase.jobs.Produce.
    """

    test: TestId
    levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    patient: bool = False
    hang: str = ""
    died: tuple[str, str] | None = None


@dataclass(frozen=True)
class Told:
    """Everything that a lane tells of one test.

    suspected: of a run that looks like a hang; then nothing else of the test counts yet.
    full_check: whether a deviation was found, where all outputs were judged though they agreed;
    None elsewhere. cpu: CPU seconds by kind of process. compilers: wall seconds inside of
    compilers, by backend. beyond_help: why no further test can run; "" where one can.
    """

    evidence: Evidence
    suspected: HangRow | None = None
    full_check: bool | None = None
    cpu: Mapping[str, float] = field(default_factory=dict)
    compilers: Mapping[str, float] = field(default_factory=dict)
    beyond_help: str = ""


@dataclass(frozen=True)
class Compiler:
    """What the scheduler knows of a compiler. habits, release: see BackendRunner. usual: seconds
    that its slowest elementary model took. works: whether some model did well.
    """

    habits: tuple[Deviation, ...] = ()
    release: str = ""
    usual: float = 0.0
    works: bool = False


@dataclass(frozen=True)
class Enter(Job[None]):
    """Begins an epoch: the next tests are made with these settings.

    number: of the epoch. epoch: the one that its settings were decided for. known:
    signatures that earlier epochs have confirmed, those of `ignored` included, which the
    user knows. compilers: by backend. variables: see nnfuzz.feedback.support.signature_keys.
    """

    number: int
    epoch: int
    case: CaseConfig
    known: tuple[str, ...]
    ignored: tuple[str, ...]
    compilers: Mapping[str, Compiler]
    variables: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class RunTests(Job[None]):
    """Runs some tests in their order, and tells of each."""

    orders: tuple[Order, ...]

    part = Told

    @property
    def about(self) -> str:
        return ", ".join(str(order.test) for order in self.orders)

    @property
    def parts(self) -> int:
        return len(self.orders)

    def read_part(self, number: int, header: Mapping[str, Json], blobs: Blobs) -> object:
        """What is told of a test. Raises: as Job.read_part; ValueError if it is of another one."""
        told = super().read_part(number, header, blobs)
        assert isinstance(told, Told)
        if told.evidence.test != self.orders[number].test:
            raise ValueError(f"{told.evidence.test} instead of {self.orders[number].test}")
        return told
