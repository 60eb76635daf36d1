"""The tests in which each failure occurred, how often it repeated, and its bucket."""

from __future__ import annotations

from collections.abc import Iterator

from nnfuzz.records.rows import FlakyRow, Occurrence
from nnfuzz.store.database import Table
from nnfuzz.testcase.identity import TestId, parse_id


class Occurrences(Table):
    """One row per signature and test, and one about its repetitions where there were any."""

    def add(self, occurrence: Occurrence) -> None:
        """Keeps that a failure occurred in a test."""
        self._db.put("occurrences", occurrence, idx=occurrence.test.index)
        if occurrence.levels or occurrence.tried:
            self._db.put("repeats", occurrence)

    def rows(self) -> Iterator[tuple[str, TestId, str, str]]:
        """Yields signature, test, "BACKEND KIND STAGE" and levels ("O0,O3") of each occurrence."""
        query = """
            SELECT signature, test, kind, coalesce(levels, '')
            FROM occurrences LEFT JOIN repeats USING (signature, test) ORDER BY test, signature"""
        for signature, test, kind, levels in self._db.execute(query):
            yield signature, parse_id(test), kind, levels

    def by_levels(self) -> dict[str, dict[str, int]]:
        """Returns for each signature how often it failed at which levels, most frequent first."""
        query = """
            SELECT r.signature, r.levels, count(*) FROM repeats r JOIN occurrences o
                USING (signature, test) WHERE o.bucket = 'finding'
            GROUP BY r.signature, r.levels ORDER BY count(*) DESC, r.levels"""
        table: dict[str, dict[str, int]] = {}
        for signature, levels, count in self._db.execute(query):
            table.setdefault(signature, {})[levels] = count
        return table

    def flaky(self) -> list[FlakyRow]:
        """Returns the failures that did not repeat, the most frequent first."""
        query = """
            SELECT o.signature, max(r.title) AS title, count(*) AS occurrences,
                sum(r.repeated) AS repeated, sum(r.tried) AS tried
            FROM occurrences o JOIN repeats r USING (signature, test)
            WHERE o.bucket = 'flaky' GROUP BY o.signature ORDER BY count(*) DESC, o.signature"""
        return list(self._db.records(FlakyRow, query))

    def first_tests(self) -> dict[str, int]:
        """Returns for each signature the lowest index of a test in which it was confirmed, whether
        or not it is to be ignored.
        """
        query = """
            SELECT signature, min(idx) FROM occurrences
            WHERE bucket != 'flaky' AND idx IS NOT NULL GROUP BY signature"""
        return dict(self._db.execute(query).fetchall())

    def of_tests(self, first: int, end: int) -> dict[int, dict[str, str]]:
        """Returns index -> signature -> "BACKEND KIND STAGE" of the failures that were confirmed in
        the tests from `first` to below `end`.
        """
        query = """
            SELECT idx, signature, kind FROM occurrences
            WHERE idx >= ? AND idx < ? AND bucket != 'flaky' ORDER BY idx, signature"""
        by_index: dict[int, dict[str, str]] = {}
        for index, signature, kind in self._db.execute(query, first, end):
            by_index.setdefault(index, {})[signature] = kind
        return by_index

    def of_probes(self) -> dict[TestId, dict[str, str]]:
        """Returns probe -> signature -> "BACKEND KIND STAGE" of the failures confirmed in it."""
        query = """
            SELECT test, signature, kind FROM occurrences
            WHERE bucket != 'flaky' AND idx IS NULL ORDER BY test, signature"""
        by_probe: dict[TestId, dict[str, str]] = {}
        for test, signature, kind in self._db.execute(query):
            by_probe.setdefault(parse_id(test), {})[signature] = kind
        return by_probe

    def counts_in(self, bucket: str) -> dict[str, int]:
        """Returns how often each signature occurred in a bucket."""
        query = "SELECT signature, count(*) FROM occurrences WHERE bucket = ? GROUP BY signature"
        return dict(self._db.execute(query, bucket).fetchall())

    def buckets(self) -> dict[str, int]:
        """Returns the number of occurrences by bucket."""
        query = "SELECT bucket, count(*) FROM occurrences GROUP BY bucket"
        return dict(self._db.execute(query).fetchall())

    def turn_known(self, signature: str) -> None:
        """Counts the occurrences of a finding as those of a known failure from now on."""
        query = "UPDATE occurrences SET bucket = 'known' WHERE signature = ? AND bucket = 'finding'"
        self._db.execute(query, signature)
