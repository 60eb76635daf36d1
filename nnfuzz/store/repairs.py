"""Rows that belong to nothing or cannot be read, and what it takes to do without them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from nnfuzz.base.reading import Unreadable
from nnfuzz.ir.features import Features
from nnfuzz.records.rows import TestRow
from nnfuzz.store.database import loads
from nnfuzz.store.packed import STATISTICS
from nnfuzz.store.union import Union

_NO_TEST = "idx NOT IN (SELECT idx FROM tests)"
_NO_PACK = "NOT EXISTS (SELECT 1 FROM packed WHERE idx BETWEEN first AND last)"
_STRAYS = {
    "graph without its test": ("features", _NO_TEST),
    "list of motifs without its test": ("motifs", _NO_TEST),
    "list of passes without its test": ("passes", _NO_TEST),
    "kept graph without its test": ("keepable", _NO_TEST),
    "error without its test": ("errors", f"{_NO_TEST} AND {_NO_PACK}"),
    "error without its text": ("errors", "digest NOT IN (SELECT digest FROM texts)"),
    "restraint without its epoch": ("avoided", "epoch NOT IN (SELECT id FROM epochs)"),
    "suspect without its finding": (
        "suspects",
        "signature NOT IN (SELECT signature FROM findings)",
    ),
    "repetition without its occurrence": (
        "repeats",
        "(signature, test) NOT IN (SELECT signature, test FROM occurrences)",
    ),
}
"""By what they are called: table and condition."""


class Repairs(Union):
    """A file that is looked through."""

    def strays(self) -> Iterator[tuple[str, int, Callable[[], Any]]]:
        """What belongs to nothing: its name, how many, and what removes them."""
        for name, (table, condition) in _STRAYS.items():
            where = f"FROM {table} WHERE {condition}"
            count = self._db.execute(f"SELECT count(*) {where}").fetchone()[0]
            if count:
                yield name, count, partial(self._db.execute, f"DELETE {where}")

    def unreadable_tests(self) -> list[int]:
        """The indexes of tests whose rows do not say what they should."""
        query = """
            SELECT idx, status, epoch, outcomes, seconds, comparable, graph
            FROM tests LEFT JOIN features USING (idx) ORDER BY idx"""
        found = []
        for index, status, epoch, outcomes, seconds, comparable, graph in self._db.execute(query):
            try:
                kept = {"outcomes": outcomes, "seconds": seconds}
                TestRow(index, status, epoch, comparable=comparable, **_parsed(kept))
                if graph is not None:
                    loads(Features, graph)
            except Unreadable:
                found.append(index)
        return found

    def unrestrained_tests(self) -> list[int]:
        """The indexes of tests made under an epoch of which nothing is known, where epochs are
        named by what holds in them.
        """
        query = "SELECT idx FROM tests WHERE epoch NOT IN (SELECT id FROM epochs) ORDER BY idx"
        return [row[0] for row in self._db.execute(query)]

    def forget_finding(self, signature: str) -> None:
        """Removes it with what came of its reduction; its occurrences stay."""
        with self._transaction():
            for table in ("findings", "reductions", "suspects"):
                self._db.execute(f"DELETE FROM {table} WHERE signature = ?", [signature])

    def thin(self, below: int, most: int) -> int:
        """Removes what only statistics need from the oldest tests without a failure.

        below: an index. most: tests. Returns of how many.
        """
        query = """
            SELECT idx FROM features WHERE idx < ? AND idx NOT IN
                (SELECT idx FROM occurrences WHERE idx IS NOT NULL) ORDER BY idx LIMIT ?"""
        rows = self._db.execute(query, [below, most]).fetchall()
        with self._transaction():
            for table in STATISTICS:
                self._db.executemany(f"DELETE FROM {table} WHERE idx = ?", rows)
        return len(rows)

    def row_bytes(self) -> int:
        """Of the file, without pages that are free for what comes."""
        pragmas = ("page_count", "freelist_count", "page_size")
        pages, free, size = (self._db.execute(f"PRAGMA {p}").fetchone()[0] for p in pragmas)
        return int((pages - free) * size)

    def give_back(self) -> None:
        """Shortens the file by its free pages; the file of an older nnfuzz keeps them."""
        self._db.executescript("PRAGMA incremental_vacuum")  # `execute` stops after one page

    def checkpoint(self) -> None:
        """Takes over the write-ahead log into the file, and empties it."""
        self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()


def _parsed(texts: dict[str, str]) -> dict[str, Any]:
    """Raises: Unreadable."""
    kinds: dict[str, Any] = {
        "outcomes": dict[str, dict[str, str | dict[str, str]]],
        "seconds": dict[str, float],
    }
    return {name: loads(kinds[name], text) for name, text in texts.items()}
