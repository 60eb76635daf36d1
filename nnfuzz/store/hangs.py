"""Runs that look like hangs: what is known of each until the time limit has decided."""

from __future__ import annotations

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.rows import HangRow, HangStatus, Observed
from nnfuzz.store.database import Database
from nnfuzz.testcase.identity import TestId, parse_id


class Hangs(Database):
    """One row per test and backend, from the moment at which its run is suspected."""

    def add_hang(self, row: HangRow) -> None:
        """Keeps it at once; a row of an earlier session stays, and may become a late one."""
        self._db.execute(
            "INSERT INTO hangs VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) "
            "ON CONFLICT DO UPDATE SET late = max(late, excluded.late)",
            [
                str(row.test),
                row.test.index,
                row.backend,
                row.level,
                row.stage,
                row.seconds,
                row.epoch,
                row.signature,
                row.exporter,
                "\n".join(row.items),
                row.late,
                row.status,
            ],
        )

    def hangs(self) -> list[HangRow]:
        """All of them, by index."""
        query = """
            SELECT test, epoch, backend, level, stage, seconds, signature, exporter, items, late,
                   status
            FROM hangs ORDER BY idx, test, backend"""
        return [
            HangRow(  # type: ignore[call-arg]
                parse_id(test),
                *told,
                tuple(items.splitlines()),
                bool(late),
                HangStatus(status),
            )
            for test, *told, items, late, status in self._db.execute(query)
        ]

    def unconfirmed(self) -> list[HangRow]:
        """Those of which nothing has come yet."""
        return [row for row in self.hangs() if row.status is HangStatus.UNCONFIRMED]

    def _settle_hang(self, test: TestId, backend: str, status: HangStatus) -> None:
        query = "UPDATE hangs SET status = ? WHERE test = ? AND backend = ?"
        self._db.execute(query, [status, str(test), backend])

    def _late_hangs(self, first: int, end: int) -> dict[int, Observed]:
        """What the tests teach that epochs do not wait for, by index: that they hang.

        It is the same before and after the time limit has decided, and in every later session.
        """
        found: dict[int, Observed] = {}
        for row in self.hangs():
            index = row.test.index
            if row.late and index is not None and first <= index < end:
                told = dict(found[index].failures) if index in found else {}
                told[row.signature] = f"{row.backend} {OutcomeKind.TIMEOUT} {row.stage}"
                found[index] = Observed(index, row.epoch, "run", row.exporter, row.items, {}, told)
        return found
