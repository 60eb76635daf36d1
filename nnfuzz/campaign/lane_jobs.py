"""The jobs of a lane's process (nnfuzz.campaign.lane_service), and its reports on tests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from nnfuzz.backend.numeric import Deviation
from nnfuzz.base.reading import Json
from nnfuzz.findings.reducer_service import ReduceFinding
from nnfuzz.sandbox.job import Job
from nnfuzz.sandbox.record import unpack
from nnfuzz.sandbox.wire import Blobs
from nnfuzz.store.evidence import Evidence
from nnfuzz.testcase.case import CaseConfig
from nnfuzz.testcase.identity import TestId

RUN, REDUCE = "run", "reduce"
"""The stages in which a lane runs and judges a test case, and reduces a finding. All other stages
belong to making a test case.
"""
PATIENCE = 20  # faults in a row after which a compiler, or a lane, is beyond help
WITHOUT_SERVER = 75
"""The exit code of a lane that has lost a fork server which was lent to it: only the scheduler can
start that again."""


@dataclass(frozen=True)
class Order:
    """One test that is to be made and run.

    patient: whether runs get the whole time limit in a campaign that the clock ends. died: see
    nnfuzz.testcase.jobs.Produce.
    """

    test: TestId
    patient: bool = False
    died: tuple[str, str] | None = None


@dataclass(frozen=True)
class LaneReport:
    """The report of a lane on the tests that it has done since its last report.

    cpu: CPU seconds by kind of process. compilers: wall seconds inside of compilers, by backend.
    beyond_help: why no further test can run; "" if it can.
    """

    tests: tuple[Evidence, ...]
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

    number: of the epoch. epoch: the number of the epoch whose settings these are. known: the
    signatures that the user knows or earlier epochs have confirmed. compilers: by backend.
    variables: see nnfuzz.feedback.support.signature_keys.
    """

    number: int
    epoch: int
    case: CaseConfig
    known: tuple[str, ...]
    compilers: Mapping[str, Compiler]
    variables: Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class RunTests(Job[int]):
    """Runs some tests in their order; the answer is their number. Several tests that agree share a
    report, which is sent ahead.
    """

    orders: tuple[Order, ...]

    def read_part(self, number: int, header: Mapping[str, Json], blobs: Blobs) -> LaneReport:
        """A report. Raises: as Job.read_part."""
        report: LaneReport = unpack(LaneReport, header, blobs)
        return report

    def accept(self, answer: int) -> int:
        if answer != len(self.orders):
            raise ValueError(f"{answer} tests instead of {len(self.orders)}")
        return answer


LaneJob = RunTests | Enter | ReduceFinding
"""The jobs that the scheduler gives to lanes."""
