"""The signatures of failures that count as findings, each with the first test that showed it."""

from __future__ import annotations

import sys
from dataclasses import replace

from nnfuzz.records.rows import FindingRow, ReductionRow
from nnfuzz.store.database import Database, Table
from nnfuzz.store.occurrences import Occurrences
from nnfuzz.store.reductions import ReductionTable
from nnfuzz.testcase.identity import Probe, parse_id


class Signatures(Table):
    """One row per signature, reduced or not."""

    def __init__(self, db: Database, occurrences: Occurrences, reductions: ReductionTable) -> None:
        super().__init__(db)
        self._occurrences, self._reductions = occurrences, reductions

    def add(self, finding: FindingRow) -> None:
        """Keeps a finding in place of the one with its signature."""
        self._db.put("findings", finding)

    def rows(self) -> list[FindingRow]:
        """Returns one row per signature with its count, in order of discovery."""
        query = """
            SELECT f.signature, f.test, f.kind, f.stage, f.backend, f.level, f.title, f.folder,
                   f.found_at, f.party, count(o.test) AS occurrences, f.place, f.size, f.suspicion,
                   f.compiler
            FROM findings f LEFT JOIN occurrences o
                ON o.signature = f.signature AND o.bucket = 'finding'
            GROUP BY f.signature ORDER BY f.found_at, f.signature"""
        levels = self._occurrences.by_levels()
        rows = self._db.records(FindingRow, query)
        return [replace(row, by_levels=levels.get(row.signature, {})) for row in rows]

    def folders(self) -> tuple[str, ...]:
        """Returns the folders of all signatures below the campaign's, in order of discovery."""
        query = "SELECT folder FROM findings ORDER BY found_at, signature"
        return tuple(row[0] for row in self._db.execute(query))

    def items(self) -> dict[str, tuple[str, ...]]:
        """Returns for each signature the operator signatures and edges of the first model that
        showed it. Each text is one object: a set for each signature takes eight times the memory.
        """
        query, by_signature = "SELECT items FROM tests WHERE idx = ?", {}
        for signature, text in self._db.execute("SELECT signature, test FROM findings"):
            test = parse_id(text)
            if isinstance(test, Probe):
                items = str(test.key.signature)
            else:
                items = (self._db.execute(query, test.index).fetchone() or ("",))[0]
            by_signature[signature] = tuple(map(sys.intern, items.splitlines()))
        return by_signature

    def take(self, row: FindingRow, reduction: ReductionRow | None, cause: str) -> None:
        """Keeps the finding of another campaign with all that belongs to it, in place of any older
        row of its signature. cause: that it is suspected of; "" for none.
        """
        with self._db.transaction():
            self.add(row)
            self._reductions.forget(row.signature)
            if reduction is not None:
                self._reductions.add(reduction)
            if cause:
                self._reductions.suspect(row.signature, cause)

    def forget(self, signature: str) -> None:
        """Removes a finding and the result of its reduction; its occurrences stay."""
        with self._db.transaction():
            self._db.execute("DELETE FROM findings WHERE signature = ?", signature)
            self._reductions.forget(signature)

    def turn_known(self, signature: str) -> None:
        """Removes a finding that is to be ignored; its occurrences are those of a known failure."""
        with self._db.transaction():
            self._db.execute("DELETE FROM findings WHERE signature = ?", signature)
            self._occurrences.turn_known(signature)

    def move(self, signature: str, folder: str) -> None:
        """Notes that the folder of a signature lies elsewhere in the campaign."""
        self._db.execute("UPDATE findings SET folder = ? WHERE signature = ?", folder, signature)

    def date(self, signature: str, found_at: float) -> None:
        """Notes that a finding was discovered at a time, unless it was earlier already."""
        query = "UPDATE findings SET found_at = min(found_at, ?) WHERE signature = ?"
        self._db.execute(query, found_at, signature)
