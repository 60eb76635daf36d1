"""Which passes changed the models of a sample of the tests, and graphs that may be kept for it."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping

from nnfuzz.base.untrusted import MAX_TEXT_BYTES, making_sense
from nnfuzz.generate.emphasis import KeptCase
from nnfuzz.store.database import Database, dumps, end_of, loads
from nnfuzz.store.schema import FILE


class Watched(Database):
    """Passes by test and backend; graphs by test, until it is known which ones are kept."""

    def _add_passes(
        self, index: int, passes: Mapping[str, Collection[str]], keepable: KeptCase | None
    ) -> None:
        for backend, names in passes.items():
            row = [index, backend, "\n".join(names)]
            self._db.execute("INSERT OR REPLACE INTO passes VALUES (?, ?, ?)", row)
        if keepable is not None:
            graph = {"exporter": keepable.exporter, "graph": keepable.graph.to_json()}
            row = [index, zlib.compress(dumps({"index": index, **graph}).encode())]
            self._db.execute("INSERT OR REPLACE INTO keepable VALUES (?, ?)", row)

    def passes(
        self, first: int = 0, end: int | None = None
    ) -> dict[int, dict[str, tuple[str, ...]]]:
        """Index -> backend -> names, from an index to another one, which is excluded."""
        query = "SELECT idx, backend, names FROM passes WHERE idx >= ? AND idx < ?"
        found: dict[int, dict[str, tuple[str, ...]]] = {}
        for index, backend, names in self._db.execute(query, [first, end_of(end)]):
            found.setdefault(index, {})[backend] = tuple(names.splitlines())
        return found

    def keepable(self, first: int, end: int) -> dict[int, KeptCase]:
        """The graphs of tests of which passes were read, by index."""
        query = "SELECT idx, graph FROM keepable WHERE idx >= ? AND idx < ?"
        found = {}
        for index, data in self._db.execute(query, [first, end]):
            with making_sense(FILE):
                text = zlib.decompressobj().decompress(data, MAX_TEXT_BYTES)
            found[index] = loads(KeptCase, text)
        return found

    def drop_graphs(self, first: int, end: int, but: Collection[int]) -> None:
        """Forgets the graphs of tests that are not worth keeping."""
        query = "SELECT idx FROM keepable WHERE idx >= ? AND idx < ?"
        gone = [row for row in self._db.execute(query, [first, end]) if row[0] not in but]
        with self._transaction():
            self._db.executemany("DELETE FROM keepable WHERE idx = ?", gone)
