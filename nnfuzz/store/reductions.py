"""The results of reductions, and the findings suspected of having the cause of a reduced one."""

from __future__ import annotations

from nnfuzz.base.writing import as_json
from nnfuzz.records.rows import ReductionRow
from nnfuzz.store.columns import dumps, loads
from nnfuzz.store.database import Table


class ReductionTable(Table):
    """Reductions and suspicions by the signature of the finding."""

    def add(self, row: ReductionRow) -> None:
        """Keeps the result of reducing a finding, in place of an earlier one."""
        self._db.put("reductions", row, row=dumps(as_json(row)))

    def rows(self) -> dict[str, ReductionRow]:
        """Returns the result of each reduction, by signature."""
        query = "SELECT signature, row FROM reductions ORDER BY signature"
        return {s: loads(ReductionRow, row) for s, row in self._db.execute(query)}

    def given_up(self) -> set[str]:
        """Returns the signatures whose reduction came to nothing."""
        query = "SELECT signature FROM reductions WHERE json_extract(row, '$.reason') != ''"
        return {row[0] for row in self._db.execute(query)}

    def suspect(self, signature: str, cause: str) -> None:
        """Notes that the model of a signature contains the pattern of a reduced finding."""
        self._db.put("suspects", signature=signature, cause=cause)

    def acquit(self, signature: str) -> None:
        """Notes that a signature is suspected no longer."""
        self._db.execute("DELETE FROM suspects WHERE signature = ?", signature)

    def suspects(self) -> dict[str, str]:
        """Returns the cause that each suspect may have, by signature."""
        return dict(self._db.execute("SELECT signature, cause FROM suspects").fetchall())

    def forget(self, signature: str) -> None:
        """Removes the reduction and the suspicion of a signature."""
        for table in ("reductions", "suspects"):
            self._db.execute(f"DELETE FROM {table} WHERE signature = ?", signature)
