"""Which passes changed the models of a sample of the tests."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from nnfuzz.store.database import Table


class Passes(Table):
    """Passes by test and backend."""

    def add(self, index: int, passes: Mapping[str, Collection[str]]) -> None:
        """Keeps which passes changed a test's model, by backend."""
        for backend, names in passes.items():
            self._db.put("passes", idx=index, backend=backend, names=tuple(names))

    def rows(self) -> dict[int, dict[str, tuple[str, ...]]]:
        """Returns index -> backend -> names of passes."""
        by_index: dict[int, dict[str, tuple[str, ...]]] = {}
        for index, backend, names in self._db.execute("SELECT idx, backend, names FROM passes"):
            by_index.setdefault(index, {})[backend] = tuple(names.splitlines())
        return by_index
