"""Which passes changed the models of a sample of the tests, and graphs that may be kept for it."""

from __future__ import annotations

import zlib
from collections.abc import Collection, Mapping

from nnfuzz.base.untrusted import MAX_TEXT_BYTES, making_sense
from nnfuzz.base.writing import as_json
from nnfuzz.generate.emphasis import KeptCase
from nnfuzz.store.columns import dumps, loads
from nnfuzz.store.database import Table, end_of
from nnfuzz.store.schema import FILE


class Passes(Table):
    """Passes by test and backend; graphs by test, until it is known which ones are kept."""

    def add(
        self, index: int, passes: Mapping[str, Collection[str]], keepable: KeptCase | None
    ) -> None:
        """Keeps which passes changed a test's model, by backend, and its graph."""
        for backend, names in passes.items():
            self._db.put("passes", idx=index, backend=backend, names=tuple(names))
        if keepable is not None:
            written = dumps({**as_json(keepable), "index": index}).encode()
            self._db.put("keepable", idx=index, graph=zlib.compress(written))

    def rows(self, first: int = 0, end: int | None = None) -> dict[int, dict[str, tuple[str, ...]]]:
        """Returns index -> backend -> names of passes, from `first` to below `end`."""
        query = "SELECT idx, backend, names FROM passes WHERE idx >= ? AND idx < ?"
        found: dict[int, dict[str, tuple[str, ...]]] = {}
        for index, backend, names in self._db.execute(query, first, end_of(end)):
            found.setdefault(index, {})[backend] = tuple(names.splitlines())
        return found

    def graphs(self, first: int, end: int) -> dict[int, KeptCase]:
        """Returns the graphs of the tests with recorded passes, by index. Raises: Unreadable."""
        query = "SELECT idx, graph FROM keepable WHERE idx >= ? AND idx < ?"
        found = {}
        for index, data in self._db.execute(query, first, end):
            with making_sense(FILE):
                text = zlib.decompressobj().decompress(data, MAX_TEXT_BYTES)
            found[index] = loads(KeptCase, text)
        return found

    def drop_graphs(self, first: int, end: int, but: Collection[int]) -> None:
        """Forgets the graphs of tests from `first` to below `end`, except those at `but`."""
        query = "SELECT idx FROM keepable WHERE idx >= ? AND idx < ?"
        gone = [index for (index,) in self._db.execute(query, first, end) if index not in but]
        with self._db.transaction():
            self._db.delete("keepable", "idx", gone)
