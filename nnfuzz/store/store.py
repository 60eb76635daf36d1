"""The results of a campaign, in one SQLite file that survives `kill -9` at any moment.

Rows are kept for good by the hundred, or by the half second (`Store.flush`): a killed session loses
the tests of that time at most, which the next one makes again. A finding's folder is written before
its row, so that a row never names a folder that is not there. Each table is an attribute of the
store; methods that need several of them are here.
"""

from __future__ import annotations

import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from nnfuzz.backend.numeric import Deviation, Habits
from nnfuzz.base.reading import MOST
from nnfuzz.base.writing import as_json
from nnfuzz.records.rows import EventRow, FindingRow, HangStatus, Occurrence, TestRow
from nnfuzz.store.campaign_tests import (
    MOST_FAULTS,
    CampaignTests,
    Events,
    Hangs,
    Restraints,
)
from nnfuzz.store.database import FILE, Database, StoreError, Table, remove
from nnfuzz.store.failures import Occurrences, ReductionTable, Signatures
from nnfuzz.store.suspicions import Suspicions, by_value, merged
from nnfuzz.testcase.identity import TestId
from nnfuzz.triage.severity import Severity

__all__ = ["FILE", "MOST_FAULTS", "Store", "StoreError"]
MOST_UNKEPT = 100  # tests until rows are kept for good
_HABITS, _SESSIONS = "habits", "sessions"


@dataclass(frozen=True)
class Session:
    """One process that has worked on a campaign.

    started: of its first test, in seconds since 1970. seconds: wall time from then on. workers:
    tests that ran side by side. sut: seconds in compilers, by backend.
    """

    started: float
    seconds: float = 0.0
    workers: int = 1
    sut: Mapping[str, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Raises: ValueError."""
        if not (0 <= self.started <= MOST and abs(self.seconds) <= MOST):
            raise ValueError("a time that no clock shows")
        if not 0 <= self.workers <= MOST:
            raise ValueError(f"{self.workers} workers")


class Sessions(Table):
    """All sessions in one entry of the table `meta`; the present one is the last."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._earlier: Sequence[Session] | None = None
        self._began, self._started = time.monotonic(), time.time()
        self._ended: float | None = None
        self._workers = 1
        self._sut: Callable[[], dict[str, float]] = dict
        self._sut_before: dict[str, float] = {}
        """Seconds in compilers before the clock was restarted."""
        self._sut_ended: dict[str, float] | None = None

    def rows(self) -> tuple[Session, ...]:
        """Returns every session as it was kept last, in their order. Raises: Unreadable."""
        return self._db.meta_as(tuple[Session, ...], _SESSIONS, ())

    def begin(self) -> None:
        """Starts the clock of a session."""
        self._earlier = self.rows()
        self._began, self._ended, self._sut_ended = time.monotonic(), None, None
        ended = (session.started + session.seconds for session in self._earlier)
        self._started = max(time.time(), *ended, 0.0)
        self.touch()

    def restart_clock(self) -> None:
        """Leaves out the seconds up to now, in which compilers and PyTorch were imported."""
        self._started, self._began = self.moment(), time.monotonic()
        self._sut_before = self._sut()
        self.touch()

    def moment(self) -> float:
        """Returns the time in seconds since 1970; it grows even if somebody sets the clock back."""
        return self._started + time.monotonic() - self._began

    def account(self, workers: int, sut: Callable[[], dict[str, float]]) -> None:
        """Has the session's time in compilers kept as well from now on.

        workers: per backend. sut: returns the seconds by backend.
        """
        self._workers, self._sut = workers, sut

    def seconds_before(self) -> float:
        """Returns the wall seconds of all earlier sessions, as far as they were recorded."""
        earlier = self.rows() if self._earlier is None else self._earlier
        return sum(session.seconds for session in earlier)

    def seconds_in_all(self) -> float:
        """Returns the recorded wall seconds of all sessions."""
        return sum(session.seconds for session in self.rows())

    def seconds(self) -> float:
        """Returns the wall seconds of this session, from `restart_clock`, or `begin` without it, to
        `stop_clock`.
        """
        return (self._ended or time.monotonic()) - self._began

    def stop_clock(self) -> None:
        """Ends the campaign's time: reductions after its last test do not count."""
        self._ended, self._sut_ended = self._ended or time.monotonic(), self.sut_seconds()

    def sut_seconds(self) -> dict[str, float]:
        """Returns the seconds in compilers of this session by backend, within its time."""
        if self._sut_ended is not None:
            return self._sut_ended
        before = self._sut_before
        return {name: spent - before.get(name, 0.0) for name, spent in self._sut().items()}

    def sut_shares(self) -> dict[str, float]:
        """Returns seconds in each compiler / (wall seconds x workers), over all sessions."""
        lanes, busy = 0.0, Counter[str]()
        for session in self.rows():
            lanes += session.seconds * session.workers
            busy.update(session.sut)
        return {backend: spent / lanes for backend, spent in busy.items()} if lanes else {}

    def touch(self) -> None:
        """Keeps the time of the session, if it has begun."""
        if self._earlier is not None:
            own = Session(self._started, self.seconds(), self._workers, self.sut_seconds())
            self._db.set_meta(_SESSIONS, as_json((*self._earlier, own)))


class Store(Database):
    """The open file of a campaign, with its tables."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None = None):
        super().__init__(folder, connection, lock)
        self.sessions, self.tests, self.events = Sessions(self), CampaignTests(self), Events(self)
        self.restraints, self.hangs = Restraints(self), Hangs(self)
        self.occurrences, self.reductions = Occurrences(self), ReductionTable(self)
        self.signatures = Signatures(self, self.occurrences)
        self._unkept = 0

    def record(
        self,
        test: TestRow | None = None,
        findings: Iterable[FindingRow] = (),
        occurrences: Iterable[Occurrence] = (),
        events: Iterable[EventRow] = (),
        hangs: Iterable[tuple[TestId, str, HangStatus]] = (),
    ) -> None:
        """Adds everything that belongs to one test, or nothing. hangs: decisions on runs that
        looked like hangs, by backend.
        """
        with self.transaction():
            now = self.sessions.moment()
            if test:
                self.tests.add(test, now)
            for finding in findings:
                self.signatures.add(finding)
            for occurrence in occurrences:
                self.occurrences.add(occurrence)
            for event in events:
                self.events.add(event, now)
            for settled in hangs:
                self.hangs.settle(*settled)
        self._unkept += 1
        if self._unkept >= MOST_UNKEPT:
            self.flush()

    def flush(self) -> None:
        """Keeps all changes, and the time of the session, whatever happens to the process."""
        if self.connection.in_transaction:
            self._unkept = 0
            self.sessions.touch()
            super().flush()

    def findings(self) -> list[FindingRow]:
        """Returns all unique findings in the order of nnfuzz.store.suspicions.by_value.

        Signatures that have the same cause after reduction are one finding, and so are those that
        are not reduced and may have the same (nnfuzz.store.suspicions). Findings that are not as
        grave as the setting severity are left out; one that may still be reduced is kept.
        """
        rows, reductions = self.signatures.rows(), self.reductions.rows()
        suspicions = Suspicions.of(rows, self.restraints.ever_avoided(), self.signatures.items())
        found = by_value(suspicions.merged(merged(rows, reductions, self.reductions.suspects())))
        config = self.config()
        least, reduces = Severity(config.get("severity", Severity.ZEROS)), config.get("reduce")
        return [r for r in found if least.admits(r.severity) or (reduces and not r.cause)]

    def set_habits(self, habits: Mapping[str, Habits]) -> None:
        """Keeps the habits of compilers (nnfuzz.backend.numeric), by backend."""
        self.set_meta(_HABITS, as_json({name: tuple(own) for name, own in habits.items()}))

    def habits(self, backend: str) -> tuple[Deviation, ...] | None:
        """Returns the habits of a backend; None if they were not determined. Raises: Unreadable."""
        return self.meta_as(dict[str, tuple[Deviation, ...]], _HABITS, {}).get(backend)

    def discard(self) -> None:
        """Closes and removes a campaign in which nothing has happened; does nothing to others."""
        unused = not self.tests.count() and not self.findings() and not self.events.rows()
        self.close()
        if unused:
            remove(self.folder)
