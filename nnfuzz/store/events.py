"""Events that are no outcome of a test, and runs that look like hangs."""

from __future__ import annotations

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.rows import EventRow, HangRow, HangStatus, Observed
from nnfuzz.store.database import Table
from nnfuzz.testcase.identity import TestId


class Events(Table):
    """One row per event, numbered as they come."""

    def add(self, event: EventRow, at: float) -> None:
        """Keeps an event. at: seconds since 1970."""
        self._db.put("events", event, id=None, at=at)

    def rows(self) -> list[EventRow]:
        """Returns all of them by time."""
        query = """
            SELECT test, kind, backend, stage, signal, message, details FROM events
            ORDER BY at, id"""
        return list(self._db.records(EventRow, query))

    def counts(self) -> dict[str, int]:
        """Returns the number of events by kind."""
        query = "SELECT kind, count(*) FROM events GROUP BY kind"
        return dict(self._db.execute(query).fetchall())


class Hangs(Table):
    """One row per test and backend, from the moment at which its run is suspected."""

    def add(self, row: HangRow) -> None:
        """Keeps a suspected run at once. The row of an earlier session stays, but becomes late if
        the new one is.
        """
        conflict = "ON CONFLICT DO UPDATE SET late = max(late, excluded.late)"
        self._db.put("hangs", row, conflict, idx=row.test.index)

    def rows(self) -> list[HangRow]:
        """Returns all of them by index."""
        query = """
            SELECT test, epoch, backend, level, stage, seconds, signature, exporter, items, late,
                   status
            FROM hangs ORDER BY idx, test, backend"""
        return list(self._db.records(HangRow, query))

    def unconfirmed(self) -> list[HangRow]:
        """Returns the runs about which nothing is decided yet."""
        return [row for row in self.rows() if row.status is HangStatus.UNCONFIRMED]

    def settle(self, test: TestId, backend: str, status: HangStatus) -> None:
        """Records whether a suspected run hung."""
        query = "UPDATE hangs SET status = ? WHERE test = ? AND backend = ?"
        self._db.execute(query, status, str(test), backend)

    def observed_late(self, first: int, end: int) -> dict[int, Observed]:
        """Returns, by index from `first` to below `end`, the observations of tests that hang, for
        which epochs do not wait.

        It is the same before and after the time limit has decided, and in every later session.
        """
        observed: dict[int, Observed] = {}
        for row in self.rows():
            index = row.test.index
            if row.late and index is not None and first <= index < end:
                failures = dict(observed[index].failures) if index in observed else {}
                failures[row.signature] = f"{row.backend} {OutcomeKind.TIMEOUT} {row.stage}"
                observed[index] = Observed(
                    index, row.epoch, "run", row.exporter, row.items, {}, failures
                )
        return observed
