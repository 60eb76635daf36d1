"""Packs old agreeing tests by the thousand: a row takes 2 KB, a packed one 0.1 KB.

Tests repeat the same operator names, so rows are compressed column by column. Only speed is lost:
readers of tests get packed ones in their place, so that a resumed campaign learns from all tests
and parts can be compared test by test. Tests with an occurrence or a hang are not packed, nor are
faults, which a resumed campaign tries again.
"""

from __future__ import annotations

import heapq
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar, get_type_hints

from nnfuzz.base.index_set import IndexSet
from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import making_sense, parsed_json
from nnfuzz.store.columns import dumps
from nnfuzz.store.database import Database, Table, end_of
from nnfuzz.store.schema import FILE

PACKED, LEAST = 1024, 128
"""The greatest and the least number of tests in a pack."""
MAX_PACK_BYTES = 64 << 20
EMPTIED = ("tests", "features", "motifs", "passes")
"""Tables whose rows are deleted when their tests are packed."""
T = TypeVar("T", bound=tuple[Any, ...])


class PackedTest(NamedTuple):
    """A row of the table of tests."""

    idx: int
    status: str
    epoch: int
    at: float
    outcomes: str
    seconds: str
    comparable: float | None
    digest: str
    exporter: str
    items: str


_WITHIN = "WHERE last >= ? AND first < ? ORDER BY first"
_KINDS = tuple(list[kind] for kind in get_type_hints(PackedTest).values())  # type: ignore[valid-type]
_TYPES: Any = tuple.__class_getitem__(_KINDS)
"""The types of the columns of a pack."""
_COLUMNS = ", ".join(PackedTest._fields)


class Packs(Table):
    """Packs of old tests, which neither overlap nor ever change."""

    def __init__(self, db: Database) -> None:
        super().__init__(db)
        self._last: tuple[int, list[PackedTest]] = (
            -1,
            [],
        )  # the first index of a pack, and its rows

    def pack(self, below: int) -> int:
        """Packs the oldest tests below an index; returns how many, 0 if fewer than LEAST wait."""
        query = f"""
            SELECT {_COLUMNS} FROM tests
            WHERE idx > (SELECT coalesce(max(last), -1) FROM packed) AND idx < ?
                AND status != 'fault'
                AND idx NOT IN (SELECT idx FROM occurrences WHERE idx IS NOT NULL)
                AND idx NOT IN (SELECT idx FROM hangs WHERE idx IS NOT NULL)
            ORDER BY idx LIMIT ?"""
        rows = self._db.execute(query, below, PACKED).fetchall()
        if len(rows) < LEAST:
            return 0
        data = zlib.compress(dumps([*zip(*rows)]).encode(), 9)
        indexes = [row[0] for row in rows]
        place = {"first": indexes[0], "last": indexes[-1], "indexes": str(IndexSet(indexes))}
        with self._db.transaction():
            self._db.put("packed", **place, rows=data)
            for table in EMPTIED:
                self._db.delete(table, "idx", indexes)
        return len(rows)

    def indexes(self, first: int = 0, end: int | None = None) -> Iterator[range]:
        """Yields the packed indexes from `first` to `end`, exclusive, as ranges."""
        query = f"SELECT indexes FROM packed {_WITHIN}"
        for (text,) in self._db.execute(query, first, end_of(end)).fetchall():
            with making_sense(FILE):
                ranges = IndexSet.parse(text).ranges()
            for packed in ranges:
                yield range(max(packed.start, first), min(packed.stop, end_of(end)))

    def rows(self, first: int = 0, end: int | None = None) -> Iterator[PackedTest]:
        """Yields the packed tests from `first` to `end`, exclusive, in order."""
        query = f"SELECT first FROM packed {_WITHIN}"
        for (start,) in self._db.execute(query, first, end_of(end)).fetchall():
            if self._last[0] != start:
                self._last = start, self._pack(start)
            yield from [row for row in self._last[1] if first <= row.idx < end_of(end)]

    def among(
        self, rows: Iterable[T], first: int, end: int | None, made: Callable[[PackedTest], T]
    ) -> Iterator[T]:
        """Merges rows, whose first column is their index, with those of packed tests, in its order.

        made: makes such a row of a packed test. No test comes twice if another process packs tests
        meanwhile.
        """
        # heapq.merge closes its inputs when it is dropped, and a cursor cannot be closed twice.
        rows, packed = (row for row in rows), map(made, self.rows(first, end))
        both = heapq.merge(rows, packed, key=itemgetter(0))
        return (next(same) for _, same in groupby(both, key=itemgetter(0)))

    def damaged(self) -> list[int]:
        """The first index of each pack that cannot be read or whose rows are not in order."""
        damaged = []
        for (first,) in self._db.execute("SELECT first FROM packed ORDER BY first").fetchall():
            try:
                indexes = [row.idx for row in self._pack(first)]
                if not indexes or indexes != sorted({*indexes}):
                    damaged.append(first)
            except Unreadable:
                damaged.append(first)
        return damaged

    def misnamed(self) -> dict[int, tuple[int, int, str]]:
        """Returns the true (first, last, indexes) of each readable pack whose row says otherwise.

        Keys are the first indexes of the rows.
        """
        damaged, wrong = {*self.damaged()}, {}
        rows = self._db.execute("SELECT first, last, indexes FROM packed ORDER BY first").fetchall()
        for first, *noted in rows:
            if first not in damaged:
                indexes = [row.idx for row in self._pack(first)]
                place = indexes[0], indexes[-1], str(IndexSet(indexes))
                if place != (first, *noted):
                    wrong[first] = place
        return wrong

    def rename(self, names: Mapping[int, tuple[int, int, str]]) -> None:
        """Corrects the rows of packs (see `misnamed`); drops packs with the same first index."""
        query = "UPDATE OR REPLACE packed SET first = ?, last = ?, indexes = ? WHERE first = ?"
        with self._db.transaction():
            for first, place in names.items():
                self._db.execute(query, *place, first)
        self._last = -1, []

    def forget(self, firsts: Iterable[int]) -> None:
        """Removes packs by their first index."""
        self._db.delete("packed", "first", firsts)

    def _pack(self, first: int) -> list[PackedTest]:
        """Raises: Unreadable."""
        query = "SELECT rows FROM packed WHERE first = ?"
        return [row for (data,) in self._db.execute(query, first) for row in _unpacked(data)]


def _unpacked(data: bytes) -> list[PackedTest]:
    """Raises: Unreadable."""
    with making_sense(FILE):
        text = zlib.decompressobj().decompress(data, MAX_PACK_BYTES)
        columns: tuple[Any, ...] = read(_TYPES, parsed_json(text, FILE))
        return [PackedTest(*row) for row in zip(*columns, strict=True)]
