"""Under which refusals and restraints the tests of a campaign were made."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from nnfuzz.campaign.rows import AvoidedRow
from nnfuzz.campaign.tables.database import Database


class Restraints(Database):
    """An epoch is a configuration of test cases; every test names its own."""

    def add_epoch(
        self,
        refused: Iterable[str],
        reasons: dict[str, str],
        avoided: Iterable[AvoidedRow] = (),
    ) -> int:
        """Records the refusals under which tests from now on are generated; returns its id.

        reasons: of the refusals that are new in it. avoided: all that is avoided in it.
        """
        refused, avoided = sorted(refused), list(avoided)
        names = [*refused, *sorted(row.item for row in avoided)]
        digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
        with self._transaction():
            cursor = self._db.execute(
                "INSERT INTO epochs (hash, refused, reasons) VALUES (?, ?, ?)",
                [digest, json.dumps(refused), json.dumps(reasons)],
            )
            epoch = int(cursor.lastrowid or 0)
            self._db.executemany(
                "INSERT INTO avoided VALUES (?, ?, ?, ?, ?)",
                [(epoch, row.item, row.signature, row.why, row.share) for row in avoided],
            )
        return epoch

    def avoided_in(self, epoch: int) -> list[AvoidedRow]:
        """What was avoided in an epoch, by item; nothing for an unknown one."""
        query = "SELECT item, signature, why, share FROM avoided WHERE epoch = ? ORDER BY item"
        return [AvoidedRow(*row) for row in self._rows("avoided", query, [epoch])]

    def ever_avoided(self) -> list[AvoidedRow]:
        """Everything that was avoided in some epoch, each item once."""
        query = """
            SELECT item, signature, why, share FROM avoided GROUP BY item
            ORDER BY min(epoch), item"""
        return [AvoidedRow(*row) for row in self._rows("avoided", query)]

    def last_epoch(self) -> tuple[int, list[str]] | None:
        """Id and refused signatures of the newest epoch."""
        query = "SELECT id, refused FROM epochs ORDER BY id DESC LIMIT 1"
        row = self._db.execute(query).fetchone()
        return (row[0], json.loads(row[1])) if row else None

    def restraints_in(self, epoch: int) -> dict[str, list[str]]:
        """The fields of CaseConfig that an epoch sets."""
        avoided = [row.item for row in self.avoided_in(epoch)]
        return {"refused": list(self.refused_in(epoch)), "avoid": avoided}

    def refused_in(self, epoch: int) -> tuple[str, ...]:
        """The refused signatures of an epoch; none for an unknown one."""
        row = self._db.execute("SELECT refused FROM epochs WHERE id = ?", [epoch]).fetchone()
        return tuple(json.loads(row[0])) if row else ()

    def reasons(self) -> dict[str, str]:
        """Refused signature -> why, over all epochs."""
        found: dict[str, str] = {}
        for (text,) in self._db.execute("SELECT reasons FROM epochs ORDER BY id"):
            found.update(json.loads(text))
        return found
