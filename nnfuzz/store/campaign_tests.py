"""The tests of a campaign by index, with their outcomes and features."""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache

from nnfuzz.backend.outcome import Brief
from nnfuzz.base.writing import as_json
from nnfuzz.ir.features import Features
from nnfuzz.records.rows import TestRow
from nnfuzz.store.database import Table, dumps, end_of, loads
from nnfuzz.store.statistics import plain_name
from nnfuzz.testcase.identity import Numbered

MOST_FAULTS = 2
"""Faults of one test after which no session tries it again."""
_COLUMNS = "idx, status, epoch, outcomes, seconds, comparable, digest, exporter, variations, items"
Outcomes = dict[str, dict[str, Brief]]
"""Backend -> level -> the stored summary of the outcome."""


class CampaignTests(Table):
    """Everything that is kept of single tests."""

    def add(self, test: TestRow, at: float) -> None:
        """Keeps a test. at: seconds since 1970."""
        seconds = {phase: round(value, 6) for phase, value in test.seconds.items()}
        features = dumps(as_json(test.features)) if test.features else None
        own: dict[str, object] = {"seconds": seconds, "features": features}
        self._db.put("tests", test, "", idx=test.index, at=at, **own)

    def rows(self) -> Iterator[TestRow]:
        """Yields all tests by index, without errors and features. Raises: Unreadable."""
        query = f"SELECT {_COLUMNS}, NULL FROM tests ORDER BY idx"
        return (_row(*columns) for columns in self._db.execute(query))

    def recorded_after(self, at: float, index: int) -> Iterator[tuple[float, TestRow]]:
        """Yields the tests behind one that was recorded at a time (seconds since 1970), in the
        order of recording: the time, and the row with features. Raises: Unreadable.
        """
        query = f"""
            SELECT at, {_COLUMNS}, features FROM tests WHERE (at, idx) > (?, ?)
            ORDER BY at, idx"""
        for recorded, *columns in self._db.execute(query, at, index):
            yield recorded, _row(*columns)

    def variations(self, index: int | None) -> set[str]:
        """The names of the variations of a test, without kinds of near misses; none for a probe."""
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
        query = "SELECT idx, features FROM tests WHERE features IS NOT NULL ORDER BY idx"
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
            self._db.execute(query, f"{of_seed}{index}")
            self._db.execute("DELETE FROM tests WHERE idx = ?", index)
        return again, sorted(faults.keys() - again)


def _row(
    index: int,
    status: str,
    epoch: int,
    outcomes: str,
    seconds: str,
    comparable: float | None,
    digest: str,
    exporter: str,
    variations: str,
    items: str,
    features: str | None,
) -> TestRow:
    return TestRow(
        index,
        status,
        epoch,
        outcomes_of(outcomes),
        loads(dict[str, float], seconds),
        comparable,
        loads(Features, features) if features else None,
        digest,
        exporter,
        tuple(variations.splitlines()),
        tuple(items.splitlines()),
    )


@lru_cache(1024)
def outcomes_of(text: str) -> Outcomes:
    """Reads a column of outcomes. Most tests have the same text, and share the returned value."""
    return loads(Outcomes, text)
