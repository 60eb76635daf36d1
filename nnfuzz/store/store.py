"""The results of a campaign, in one SQLite file that survives `kill -9` at any moment.

Rows are kept for good by the hundred, or by the half second (`Store.flush`): a killed session loses
the tests of that time at most, which the next one makes again. A finding's folder is written before
its row, so that a row never names a folder that is not there. Each table is an attribute of the
store; methods that need several of them are here.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import IO

from nnfuzz.backend.deviation import Deviation, Habits
from nnfuzz.base.writing import as_json
from nnfuzz.records.rows import EventRow, FindingRow, HangStatus, Occurrence, TestRow
from nnfuzz.store.campaign_tests import MOST_FAULTS, CampaignTests, Events, Hangs
from nnfuzz.store.database import FILE, LOCK, Database, StoreError
from nnfuzz.store.epochs import Probes, Restraints
from nnfuzz.store.failures import Occurrences, ReductionTable, Signatures
from nnfuzz.store.sessions import Sessions
from nnfuzz.store.suspicions import Suspicions, by_value, merged
from nnfuzz.testcase.identity import TestId

__all__ = ["FILE", "MOST_FAULTS", "Store", "StoreError"]
MOST_UNKEPT = 100  # tests until rows are kept for good
_HABITS = "habits"


class Store(Database):
    """The open file of a campaign, with its tables."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None = None):
        super().__init__(folder, connection, lock)
        self.sessions, self.tests, self.events = Sessions(self), CampaignTests(self), Events(self)
        self.restraints, self.probes, self.hangs = Restraints(self), Probes(self), Hangs(self)
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
        are not reduced and may have the same (nnfuzz.store.suspicions).
        """
        rows, reductions = self.signatures.rows(), self.reductions.rows()
        suspicions = Suspicions.of(rows, self.restraints.ever_avoided(), self.signatures.items())
        return by_value(suspicions.merged(merged(rows, reductions, self.reductions.suspects())))

    def set_habits(self, habits: Mapping[str, Habits]) -> None:
        """Keeps the habits of compilers (nnfuzz.backend.deviation), by backend."""
        self.set_meta(_HABITS, as_json({name: tuple(own) for name, own in habits.items()}))

    def habits(self, backend: str) -> tuple[Deviation, ...] | None:
        """Returns the habits of a backend; None if they were not determined. Raises: Unreadable."""
        return self.meta_as(dict[str, tuple[Deviation, ...]], _HABITS, {}).get(backend)

    def discard(self) -> None:
        """Closes and removes a campaign in which nothing has happened; does nothing to others."""
        unused = not self.tests.count() and not self.findings() and not self.events.rows()
        self.close()
        if unused:
            for path in self.folder.glob(f"{FILE}*"):
                path.unlink()
            (self.folder / LOCK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty: other files are the user's
                self.folder.rmdir()
