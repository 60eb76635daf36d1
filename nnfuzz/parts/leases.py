"""Leases of a cluster: which node tests which range of indexes, kept in one small SQLite file.

A lent range is a row until its tests and findings are published. So the file holds only work in
progress, and every index below `frontier` is either in exactly one row or published. A node that
sends no report for TERM seconds loses its ranges to the next node that asks. A test is a function
of its index, so it does not matter which node runs it, or how often, and a late report still
counts.

Time is a parameter, and the time of the last report is not stored: a process that opens the file
again gives every node a whole term. A killed process loses no answer that it has given. A power
cut may lose the latest answers, but also ends the sessions that received them; their ranges are
lent again. So no answer waits for the disk, which would limit the coordinator to a hundred reports
a second.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from nnfuzz.records.lending import Lease, Lent, NodeReport, range_size
from nnfuzz.records.schedule import LONGEST, begins, epoch_of

TERM = 60.0
"""Seconds without a report after which a node's ranges are lent to other nodes."""
CHECKS = 20
"""Searches for silent nodes in one term."""
PACE, LEAST_PACE = 0.01, 0.2
"""Seconds between two reports of a node: PACE times the number of nodes, and at least LEAST_PACE.
"""
_TABLES = """
CREATE TABLE IF NOT EXISTS facts (name TEXT PRIMARY KEY, value ANY NOT NULL) STRICT;
CREATE TABLE IF NOT EXISTS ranges (first INTEGER PRIMARY KEY, end INTEGER NOT NULL, holder TEXT,
    ran INTEGER NOT NULL DEFAULT 0, told INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE INDEX IF NOT EXISTS held ON ranges (holder);
CREATE INDEX IF NOT EXISTS untold ON ranges (first) WHERE NOT told;
CREATE TABLE IF NOT EXISTS reductions (signature TEXT PRIMARY KEY, cluster TEXT NOT NULL,
    holder TEXT NOT NULL, done INTEGER NOT NULL DEFAULT 0) STRICT;
CREATE TABLE IF NOT EXISTS findings (signature TEXT PRIMARY KEY, title TEXT NOT NULL) STRICT;
CREATE INDEX IF NOT EXISTS reducing ON reductions (cluster) WHERE NOT done;
"""


class Leases:
    """Lends ranges of indexes to nodes.

    limit: the first index that is not tested; None for no end. term: see TERM. longest: number of
    tests in the longest epoch. closed: whether the time is over, so that nothing more is lent.
    """

    closed = False

    def __init__(
        self,
        path: Path | str,
        limit: int | None = None,
        term: float = TERM,
        longest: int = LONGEST,
    ) -> None:
        """Opens the file or makes it. Raises: sqlite3.Error."""
        self._limit = limit
        self._term = term
        self._longest = longest
        self._reported: dict[str, float] = {}
        """Time of each node's last report."""
        self._next_check = -math.inf  # when silent nodes are looked for again
        self._db = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
        self._db.execute("PRAGMA journal_mode = WAL")
        self._db.execute("PRAGMA synchronous = NORMAL")
        self._db.executescript(_TABLES)
        query = """
            SELECT holder FROM ranges WHERE holder IS NOT NULL
            UNION SELECT holder FROM reductions WHERE NOT done
            UNION SELECT value FROM facts WHERE name = 'leader' AND value != ''"""
        self._silent = [row[0] for row in self._db.execute(query)]

    def close(self) -> None:
        self._db.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- questions ---------------------------------------------------------------------------

    @property
    def frontier(self) -> int:
        """The first index that was never lent."""
        return int(self._fact("frontier", 0))

    @property
    def begun(self) -> int:
        """The last decided epoch; -1 before the first."""
        return int(self._fact("begun", -1))

    @property
    def observed(self) -> int:
        """The observations of all tests below this index are published."""
        lowest = self._db.execute("SELECT min(first) FROM ranges WHERE NOT told").fetchone()[0]
        return self.frontier if lowest is None else int(lowest)

    @property
    def kept(self) -> int:
        """Number of published tests."""
        query = "SELECT coalesce(sum(end - first), 0) FROM ranges"
        return self.frontier - int(self._db.execute(query).fetchone()[0])

    @property
    def over(self) -> bool:
        """Whether nothing is left to do."""
        if self.closed or self._limit is None or self.frontier < self._limit:
            return self.closed
        return self._db.execute("SELECT 1 FROM ranges LIMIT 1").fetchone() is None

    @property
    def spent(self) -> float:
        """Seconds that the campaign has run, in all sessions."""
        return float(self._fact("spent", 0.0))

    def spend(self, seconds: float) -> None:
        """Records how long the campaign has run, in steps of a second."""
        if seconds >= self.spent + 1:
            self._set("spent", seconds)

    def findings(self) -> dict[str, str]:
        """Titles by signature, in the order of discovery and before merging."""
        return dict(self._db.execute("SELECT signature, title FROM findings ORDER BY rowid"))

    def nodes(self) -> list[str]:
        """Names of the nodes that have reported within the term."""
        return sorted(self._reported)

    def held(self, node: str) -> tuple[Lease, ...]:
        query = "SELECT first, end, ran FROM ranges WHERE holder = ? ORDER BY first"
        rows = self._db.execute(query, [node])
        return tuple(Lease(first, end, bool(ran)) for first, end, ran in rows)

    def sync(self, report: NodeReport, now: float) -> Lent:
        """Records the report of a node, and lends it the tests that it asks for if there are any.

        now: seconds of a monotonic clock. Raises: sqlite3.Error; then nothing was recorded.
        """
        node = report.node
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._expire(now)
            self._reported[node] = now
            self._record(report)
            leads = self._leads(report)
            if report.leaves:
                self._lose(node)
            else:
                self._lend(node, report.wants)
            mine, taken = self._claim(node, report.claims)
            lent = Lent(
                self.held(node),
                leads,
                self.begun,
                self.observed,
                tuple(mine),
                tuple(taken),
                self.over,
                max(LEAST_PACE, PACE * len(self._reported)),
            )
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk may have ended it already
                self._db.execute("ROLLBACK")
            raise
        return lent

    def lose(self, node: str) -> None:
        """Frees the ranges of a lost node."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._lose(node)

    # -- in a transaction ---------------------------------------------------------------------

    def _record(self, report: NodeReport) -> None:
        """Records a report. It counts even if the node has lost its ranges since."""
        ran, kept = ([(first,) for first in firsts] for firsts in (report.ran, report.kept))
        self._db.executemany("UPDATE ranges SET told = 1 WHERE first = ?", ran)
        own = [(first, report.node) for first in report.ran]
        self._db.executemany("UPDATE ranges SET ran = 1 WHERE first = ? AND holder = ?", own)
        self._db.executemany("DELETE FROM ranges WHERE first = ? AND told", kept)
        if report.begun > self.begun:
            self._set("begun", report.begun)
        self._db.executemany("INSERT OR IGNORE INTO findings VALUES (?, ?)", report.found)
        done = [(signature, report.node) for signature in report.reduced]
        self._db.executemany(
            "UPDATE reductions SET done = 1 WHERE signature = ? AND holder = ?", done
        )

    def _leads(self, report: NodeReport) -> bool:
        leader = self._fact("leader", "")
        if not leader and not report.leaves:
            self._set("leader", leader := report.node)
        return bool(leader == report.node)

    def _lend(self, node: str, wanted: int) -> None:
        have = sum(len(lease) for lease in self.held(node) if not lease.ran)
        while have < wanted and not self.closed and (lease := self._free()):
            self._db.execute(
                "INSERT INTO ranges (first, end, holder) VALUES (?, ?, ?) "
                "ON CONFLICT DO UPDATE SET holder = excluded.holder, ran = 0",
                [lease.first, lease.end, node],
            )
            self._set("frontier", max(self.frontier, lease.end))
            have += len(lease)

    def _free(self) -> Lease | None:
        """A range that a node has lost, or else the next new range of a decided epoch, if any."""
        lost = "SELECT first, end FROM ranges WHERE holder IS NULL ORDER BY first LIMIT 1"
        for first, end in self._db.execute(lost):
            return Lease(first, end)
        first = self.frontier
        end = begins(self.begun + 1, self._longest)
        if self._limit is not None:
            end = min(end, self._limit)
        if first >= end:
            return None
        epoch = epoch_of(first, self._longest)
        after = begins(epoch + 1, self._longest)
        length = after - begins(epoch, self._longest)
        size = range_size(length, len(self._reported))
        return Lease(first, min(first + size, after, end))

    def _claim(self, node: str, claims: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
        """The claimed signatures that this node reduces, and those that another one has reduced.

        One finding of a cluster is reduced at a time, since its pattern may explain the others.
        """
        mine, taken = [], []
        for signature, cluster in claims:
            query = "SELECT holder, done FROM reductions WHERE signature = ?"
            holder, done = self._db.execute(query, [signature]).fetchone() or ("", 0)
            if not holder and not self._is_reduced(cluster):
                row = [signature, cluster, node]
                self._db.execute("INSERT INTO reductions VALUES (?, ?, ?, 0)", row)
                holder = node
            if holder == node and not done:
                mine.append(signature)
            elif done and holder != node:
                taken.append(signature)
        return mine, taken

    def _is_reduced(self, cluster: str) -> bool:
        """Whether a finding of the cluster is being reduced."""
        query = "SELECT 1 FROM reductions WHERE cluster = ? AND NOT done"
        return self._db.execute(query, [cluster]).fetchone() is not None

    def _expire(self, now: float) -> None:
        if now < self._next_check:
            return
        self._next_check = now + self._term / CHECKS
        for node in self._silent:
            self._reported.setdefault(node, now)
        self._silent = []
        for node in [node for node, last in self._reported.items() if now - last > self._term]:
            self._lose(node)

    def _lose(self, node: str) -> None:
        self._reported.pop(node, None)
        self._db.execute("UPDATE ranges SET holder = NULL, ran = 0 WHERE holder = ?", [node])
        self._db.execute("DELETE FROM reductions WHERE holder = ? AND NOT done", [node])
        if self._fact("leader", "") == node:
            self._set("leader", "")

    def _fact(self, name: str, default: object) -> Any:
        row = self._db.execute("SELECT value FROM facts WHERE name = ?", [name]).fetchone()
        return row[0] if row else default

    def _set(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", [name, value])
