"""The results of a campaign, in one SQLite file that survives `kill -9` at any moment.

One transaction per test, in WAL mode: once `record` has returned, its test is kept. A finding's
folder is written before its row, so that a row never names a folder that is not there. Each table
is an attribute of the store; methods that need several of them are here.
"""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import IO

from nnfuzz.backend.numeric import Deviation, Habits
from nnfuzz.base.writing import as_json
from nnfuzz.records.order import by_value
from nnfuzz.records.rows import FindingRow, Observed, Record
from nnfuzz.store.campaign_tests import MOST_FAULTS, CampaignTests, outcomes_of
from nnfuzz.store.database import FILE, LOCK, Database, StoreError
from nnfuzz.store.epochs import Probes, Restraints
from nnfuzz.store.failures import Occurrences, ReductionTable, Signatures
from nnfuzz.store.sessions import Events, Hangs, Sessions
from nnfuzz.store.suspicions import Suspicions, merged

__all__ = ["FILE", "MOST_FAULTS", "Store", "StoreError"]
_HABITS = "habits"


class Store(Database):
    """The open file of a campaign, with its tables."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None = None):
        super().__init__(folder, connection, lock)
        self.sessions, self.tests, self.events = Sessions(self), CampaignTests(self), Events(self)
        self.restraints, self.probes, self.hangs = Restraints(self), Probes(self), Hangs(self)
        self.occurrences, self.reductions = Occurrences(self), ReductionTable(self)
        self.signatures = Signatures(self, self.occurrences)

    def record(self, record: Record) -> None:
        """Adds everything that belongs to one test, or nothing."""
        with self.transaction():
            now = self.sessions.moment()
            if record.test:
                self.tests.add(record.test, now)
            for finding in record.findings:
                self.signatures.add(finding)
            for occurrence in record.occurrences:
                self.occurrences.add(occurrence)
            for event in record.events:
                self.events.add(event, now)
            for settled in record.hangs:
                self.hangs.settle(*settled)
            self.sessions.touch()

    def findings(self) -> list[FindingRow]:
        """Returns all unique findings in the order of nnfuzz.records.order.

        Signatures that have the same cause after reduction are one finding, and so are those that
        are not reduced and may have the same (nnfuzz.store.suspicions).
        """
        rows, reductions = self.signatures.rows(), self.reductions.rows()
        suspicions = Suspicions.of(rows, self.restraints.ever_avoided(), self.signatures.items())
        return by_value(suspicions.merged(merged(rows, reductions, self.reductions.suspects())))

    def observed(self, first: int, end: int) -> list[Observed]:
        """Returns the observations of the tests from `first` to below `end`, for epochs."""
        failures = self.occurrences.of_tests(first, end)
        query = """
            SELECT idx, epoch, status, exporter, items, outcomes FROM tests
            WHERE idx >= ? AND idx < ? ORDER BY idx"""

        rows = self.execute(query, first, end)
        observed = {
            index: Observed(
                index,
                epoch,
                status,
                exporter,
                tuple(items.splitlines()),
                {
                    name: tuple((brief.kind, brief.message) for brief in levels.values())
                    for name, levels in outcomes_of(outcomes).items()
                },
                failures.get(index, {}),
            )
            for index, epoch, status, exporter, items, outcomes in rows
        }
        observed |= self.hangs.observed_late(first, end)
        return [observed[index] for index in sorted(observed)]

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
            for path in self.folder.glob(f"{FILE}*"):
                path.unlink()
            (self.folder / LOCK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty: other files are the user's
                self.folder.rmdir()
