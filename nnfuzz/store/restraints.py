"""Under which refusals and restraints the tests of each epoch were made."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from nnfuzz.records.rows import AvoidedRow
from nnfuzz.store.columns import dumps, loads
from nnfuzz.store.database import Table


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
        with self._db.transaction():
            self._db.put(
                "epochs",
                id=number,
                refused=dumps(sorted(refused)),
                reasons=dumps(dict(reasons)),
            )
            self._db.execute("DELETE FROM avoided WHERE epoch = ?", number)
            for row in avoided:
                self._db.put("avoided", row, epoch=number)

    def row_of(self, epoch: int) -> int:
        """Returns the number of the row that holds for an epoch; -1 if none does."""
        query = "SELECT coalesce(max(id), -1) FROM epochs WHERE id <= ?"
        return int(self._db.value(query, epoch))

    def last(self) -> int:
        """Returns the newest epoch with a configuration of its own; -1 if there is none."""
        return int(self._db.value("SELECT coalesce(max(id), -1) FROM epochs"))

    def avoided_in(self, epoch: int) -> list[AvoidedRow]:
        """Returns the avoided items of an epoch."""
        query = "SELECT item, signature, why, share FROM avoided WHERE epoch = ? ORDER BY item"
        return list(self._db.records(AvoidedRow, query, self.row_of(epoch)))

    def ever_avoided(self) -> list[AvoidedRow]:
        """Returns everything that was avoided in some epoch, each item once."""
        query = """
            SELECT item, signature, why, share FROM avoided GROUP BY item
            ORDER BY min(epoch), item"""
        return list(self._db.records(AvoidedRow, query))

    def settings_in(self, epoch: int) -> dict[str, object]:
        """Returns the fields of CaseConfig that an epoch sets."""
        avoided = tuple(row.item for row in self.avoided_in(epoch))
        return {"refused": self.refused_in(epoch), "avoid": avoided}

    def refused_in(self, epoch: int) -> tuple[str, ...]:
        """Returns the refused signatures of an epoch."""
        query = "SELECT refused FROM epochs WHERE id = ?"
        row = self._db.execute(query, self.row_of(epoch)).fetchone()
        return loads(tuple[str, ...], row[0]) if row else ()

    def reasons(self) -> dict[str, str]:
        """Returns why each signature was refused, over all epochs."""
        by_signature: dict[str, str] = {}
        for (text,) in self._db.execute("SELECT reasons FROM epochs ORDER BY id"):
            by_signature.update(loads(dict[str, str], text))
        return by_signature
