"""Which passes changed the models of a sample of the tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nnfuzz.store.database import Table, end_of


class Passes(Table):
    """Passes by test and backend."""

    def add(self, index: int, passes: Mapping[str, Collection[str]]) -> None:
        """Keeps which passes changed a test's model, by backend."""
        for backend, names in passes.items():
            self._db.put("passes", idx=index, backend=backend, names=tuple(names))

    def rows(self, first: int = 0, end: int | None = None) -> dict[int, dict[str, tuple[str, ...]]]:
        """Returns index -> backend -> names of passes, from `first` to below `end`."""
        query = "SELECT idx, backend, names FROM passes WHERE idx >= ? AND idx < ?"
        found: dict[int, dict[str, tuple[str, ...]]] = {}
        for index, backend, names in self._db.execute(query, first, end_of(end)):
            found.setdefault(index, {})[backend] = tuple(names.splitlines())
        return found
