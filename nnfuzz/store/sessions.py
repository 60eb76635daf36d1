"""The time that a campaign has taken over all of its sessions, with the compilers' share of it, and
what happened in that time: events, and runs that look like hangs.
"""

from __future__ import annotations

import time
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.base.reading import MOST, Unreadable
from nnfuzz.records.rows import EventRow, HangRow, HangStatus, Observed
from nnfuzz.store.database import Database, Table, dumps, loads
from nnfuzz.testcase.identity import TestId


class Sessions(Table):
    """One row per session, that is, per process that works on a campaign."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._began = time.monotonic()
        self._started = time.time()
        self._ended: float | None = None
        self._session: int | None = None
        self._workers = 1
        self._sut: Callable[[], dict[str, float]] = dict
        self._sut_before: dict[str, float] = {}
        """Seconds in compilers before the clock was restarted."""
        self._sut_ended: dict[str, float] | None = None

    def begin(self) -> None:
        """Starts the clock of a session, whose time is kept with every record."""
        self._began, self._ended, self._sut_ended = time.monotonic(), None, None
        self._started = max(time.time(), self.last_active())
        cursor = self._db.execute(
            "INSERT INTO sessions (started, seconds, workers, sut) VALUES (?, 0, 1, '{}')",
            self._started,
        )
        self._session = cursor.lastrowid

    def restart_clock(self) -> None:
        """Leaves out the seconds up to now, in which compilers and PyTorch were imported."""
        self._started, self._began = self.moment(), time.monotonic()
        self._sut_before = self._sut()
        query = "UPDATE sessions SET started = ? WHERE id = ?"
        self._db.execute(query, self._started, self._session)

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
        query = "SELECT coalesce(sum(seconds), 0) FROM sessions WHERE id IS NOT ?"
        return float(self._db.value(query, self._session))

    def seconds_in_all(self) -> float:
        """Returns the recorded wall seconds of all sessions."""
        return float(self._db.value("SELECT coalesce(sum(seconds), 0) FROM sessions"))

    def rows(self) -> list[tuple[float, float, int]]:
        """Returns of each session when it began (seconds since 1970), the wall seconds that it
        recorded, and its workers per backend.
        """
        query = "SELECT started, seconds, workers FROM sessions ORDER BY started"
        return self._db.execute(query).fetchall()

    def last_active(self) -> float:
        """Returns when something was recorded last, in seconds since 1970; 0 for never."""
        query = "SELECT coalesce(max(started + seconds), 0) FROM sessions"
        return float(self._db.value(query))

    def began(self) -> float:
        """Returns when the first session began, in seconds since 1970; 0 if there was none."""
        return float(self._db.value("SELECT coalesce(min(started), 0) FROM sessions"))

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
        for seconds, workers, sut in self._db.execute("SELECT seconds, workers, sut FROM sessions"):
            lanes += seconds * workers
            busy.update(loads(dict[str, float], sut))
        return {backend: spent / lanes for backend, spent in busy.items()} if lanes else {}

    def touch(self) -> None:
        """Keeps the time of the session."""
        self._db.execute(
            "UPDATE sessions SET seconds = ?, workers = ?, sut = ? WHERE id = ?",
            self.seconds(),
            self._workers,
            dumps(self.sut_seconds()),
            self._session,
        )

    def clock(self) -> Callable[[float], float]:
        """Returns a function from a time (seconds since 1970) to seconds of campaign time, over all
        sessions. That function raises Unreadable for a time that no clock shows.
        """
        query = "SELECT started, seconds FROM sessions ORDER BY started"
        sessions, before = [(0.0, 0.0)], 0.0
        for started, seconds in self._db.execute(query):
            sessions.append((started, before))
            before += seconds
        starts = [started for started, _ in sessions]

        def elapsed(at: float) -> float:
            if not 0 <= at <= MOST:
                raise Unreadable(f"{at} is no time of a campaign")
            place = bisect_right(starts, at) - 1
            started, earlier = sessions[place]
            return earlier + at - started if place > 0 else 0.0

        return elapsed


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
