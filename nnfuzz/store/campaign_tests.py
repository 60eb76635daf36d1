"""What is kept of tests: rows, events, runs that look like hangs, and what follows from
them for epochs.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from nnfuzz.base.writing import as_json
from nnfuzz.ir.features import Features
from nnfuzz.records.rows import AvoidedRow, EventRow, HangRow, HangStatus, TestRow
from nnfuzz.store.database import Table, dumps, end_of, loads
from nnfuzz.store.statistics import plain_name
from nnfuzz.testcase.identity import Numbered, TestId

MOST_FAULTS = 2
"""Faults of one test after which no session tries it again."""
_COLUMNS = (
    'idx AS "index", status, epoch, outcomes, seconds, digest, exporter, variations, '
    "items, failures"
)


class CampaignTests(Table):
    """One row per index."""

    def add(self, test: TestRow, at: float) -> None:
        """Keeps a test. at: seconds since 1970."""
        self._db.put("tests", test, idx=test.index, at=at)

    def rows(self, first: int = 0, end: int | None = None) -> Iterator[TestRow]:
        """Yields the tests from `first` to below `end` by index, without features.

        Raises: Unreadable.
        """
        query = f"SELECT {_COLUMNS} FROM tests WHERE idx >= ? AND idx < ? ORDER BY idx"
        return self._db.records(TestRow, query, first, end_of(end))

    def recorded_after(self, at: float, index: int) -> Iterator[tuple[float, TestRow]]:
        """Yields the tests behind one that was recorded at a time (seconds since 1970), in the
        order of recording: the time, and the row without features. Raises: Unreadable.
        """
        order = "WHERE (at, idx) > (?, ?) ORDER BY at, idx"
        times = self._db.execute(f"SELECT at FROM tests {order}", at, index)
        rows = self._db.records(TestRow, f"SELECT {_COLUMNS} FROM tests {order}", at, index)
        for (recorded,), row in zip(times, rows, strict=True):
            yield recorded, row

    def variations(self, index: int | None) -> set[str]:
        """The names of the variations of a test, without kinds of near misses."""
        query = "SELECT variations FROM tests WHERE idx = ?"
        found = self._db.execute(query, index).fetchone()
        return set(map(plain_name, found[0].splitlines())) if found else set()

    def done(self) -> Iterator[int]:
        """Yields the indexes that need no more work, the lowest first."""
        return (index for (index,) in self._db.execute("SELECT idx FROM tests ORDER BY idx"))

    def count(self, first: int = 0, end: int | None = None) -> int:
        """Returns how many indexes from `first` to below `end` need no more work."""
        query = "SELECT count(*) FROM tests WHERE idx >= ? AND idx < ?"
        return int(self._db.value(query, first, end_of(end)))

    def features(self) -> Iterator[tuple[int, Features]]:
        """Yields index and features of every graph that was kept, by index."""
        query = "SELECT idx, features FROM tests WHERE features != '' ORDER BY idx"
        for index, text in self._db.execute(query):
            yield index, loads(Features, text)

    def forget_faults(self, seed: int) -> tuple[list[int], list[int]]:
        """Removes the tests that a fault of nnfuzz left without a result, so that they are made
        again; one that had a fault twice stays as it is. Returns the indexes of both, sorted.
        """
        query = """
            SELECT idx, (SELECT count(*) FROM events
                WHERE test = ? || idx AND kind IN ('fault', 'retried'))
            FROM tests WHERE status = 'fault' ORDER BY idx"""
        of_seed = str(Numbered(seed, 0)).removesuffix("0")
        faults = dict(self._db.execute(query, of_seed).fetchall())
        again = [index for index, count in faults.items() if count < MOST_FAULTS]
        for index in again:
            query = "UPDATE events SET kind = 'retried' WHERE kind = 'fault' AND test = ?"
            self._db.change(query, f"{of_seed}{index}")
            self._db.change("DELETE FROM tests WHERE idx = ?", index)
        return again, sorted(faults.keys() - again)


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
        """Keeps a suspected run, unless it is kept already."""
        self._db.put("hangs", row, "ON CONFLICT DO NOTHING")

    def rows(self) -> list[HangRow]:
        """Returns all of them by index."""
        rows = self._db.records(HangRow, "SELECT * FROM hangs ORDER BY test, backend")
        return sorted(rows, key=lambda row: -1 if row.test.index is None else row.test.index)

    def unconfirmed(self) -> list[HangRow]:
        """Returns the runs about which nothing is decided yet."""
        return [row for row in self.rows() if row.status is HangStatus.UNCONFIRMED]

    def settle(self, test: TestId, backend: str, status: HangStatus) -> None:
        """Records whether a suspected run hung."""
        query = "UPDATE hangs SET status = ? WHERE test = ? AND backend = ?"
        self._db.change(query, status.value, str(test), backend)


class Restraints(Table):
    """The configuration of test cases by epoch; every test names its own.

    An epoch without a row has the configuration of the one before it.
    """

    def set_epoch(
        self,
        number: int,
        refused: Iterable[str],
        reasons: Mapping[str, str],
        avoided: Iterable[AvoidedRow] = (),
    ) -> None:
        """Records the refused and avoided items from an epoch on.

        reasons: of the refusals that are new in it. avoided: all that is avoided in it.
        """
        self._db.put(
            "epochs",
            id=number,
            refused=dumps(sorted(refused)),
            reasons=dumps(dict(reasons)),
            avoided=dumps(as_json(tuple(avoided))),
        )

    def row_of(self, epoch: int) -> int:
        """Returns the number of the row that holds for an epoch; -1 if none does."""
        query = "SELECT coalesce(max(id), -1) FROM epochs WHERE id <= ?"
        return int(self._db.value(query, epoch))

    def last(self) -> int:
        """Returns the newest epoch with a configuration of its own; -1 if there is none."""
        return self.row_of(end_of(None))

    def ever_avoided(self) -> list[AvoidedRow]:
        """Returns everything that was avoided in some epoch, each item once."""
        ever: dict[str, AvoidedRow] = {}
        for (text,) in self._db.execute("SELECT avoided FROM epochs ORDER BY id"):
            for row in loads(tuple[AvoidedRow, ...], text):
                ever.setdefault(row.item, row)
        return list(ever.values())

    def settings_in(self, epoch: int) -> dict[str, Any]:
        """Returns the fields of CaseConfig that an epoch sets: refused and avoided items."""
        query = "SELECT refused, avoided FROM epochs WHERE id = ?"
        row = self._db.execute(query, self.row_of(epoch)).fetchone() or ("[]", "[]")
        avoided = loads(tuple[AvoidedRow, ...], row[1])
        return {
            "refused": loads(tuple[str, ...], row[0]),
            "avoid": tuple(each.item for each in avoided),
        }

    def reasons(self) -> dict[str, str]:
        """Returns why each signature was refused, over all epochs."""
        by_signature: dict[str, str] = {}
        for (text,) in self._db.execute("SELECT reasons FROM epochs ORDER BY id"):
            by_signature.update(loads(dict[str, str], text))
        return by_signature
