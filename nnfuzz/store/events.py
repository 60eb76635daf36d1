"""Faults of nnfuzz, deaths of workers, and other events that are no outcome of a test."""

from __future__ import annotations

from nnfuzz.records.rows import EventRow
from nnfuzz.store.database import Table


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

    def last(self) -> int:
        """Returns the number of the newest one; 0 if there is none, or if they have no order."""
        return int(self._db.value("SELECT coalesce(max(id), 0) FROM events"))
