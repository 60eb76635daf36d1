"""Who tests which indexes: ranges that are lent to nodes, in one small SQLite file.

A range that was lent is a row until its rows and findings are published; so the file stays as small
as what is under way, and every index below `frontier` is in exactly one row or kept. A node that is
silent for too long loses its ranges, which the next one that asks gets: a test is a function of its
index, so it does not matter who ran it, nor how often. What a node says late is true all the same.

Time is a parameter, and what was heard when is not stored: whoever opens the file again gives every
node the whole term anew. No kill loses an answer that was given. A power cut may lose the last
ones, with every session that has got them: what they lent is then lent once more. So nothing waits
for the disk, which would answer a hundred reports a second.
"""

from __future__ import annotations

import math
import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any, Self

from nnfuzz.campaign.lending import Lease, Lent, Report
from nnfuzz.campaign.schedule import LONGEST, begins, epoch_of

TERM = 60.0
"""Seconds of silence after which a node's ranges are lent to others; nodes report every few."""
LOOKS = 20
"""For silent nodes, in a term."""
PACE, LEAST_PACE = 0.01, 0.2
"""Seconds between reports, for each node, and at least: 100 reports a second of nodes that wait."""
LEAST, MOST = 4, 1024
"""Tests in a range, but for the end of an epoch: half a minute of work of two cores at most, and a
few reports."""
SHARES = 2
"""Ranges per epoch and node, so that the last ones end at about the same time."""
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
    """limit: of the indexes; None for no end. term: see TERM. longest: epoch. closed: whether
    nothing more is lent, since the time is over.
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
        self._heard: dict[str, float] = {}
        self._looks = -math.inf  # when it is looked for silent nodes again
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

    # -- what is asked ------------------------------------------------------------------------

    @property
    def frontier(self) -> int:
        """The first index that was never lent."""
        return int(self._fact("frontier", 0))

    @property
    def begun(self) -> int:
        """The last epoch that is decided; -1 before the first one is."""
        return int(self._fact("begun", -1))

    @property
    def told(self) -> int:
        """The index below which it can be read what tests have shown."""
        found = self._db.execute("SELECT min(first) FROM ranges WHERE NOT told").fetchone()[0]
        return self.frontier if found is None else int(found)

    @property
    def kept(self) -> int:
        """How many tests are published."""
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
        """Takes how long it has run by now, to the second."""
        if seconds >= self.spent + 1:
            self._set("spent", seconds)

    def findings(self) -> dict[str, str]:
        """Titles by signature, in the order of their discovery; nothing is merged yet."""
        return dict(self._db.execute("SELECT signature, title FROM findings ORDER BY rowid"))

    def nodes(self) -> list[str]:
        """Those that were heard within the term."""
        return sorted(self._heard)

    def held(self, node: str) -> tuple[Lease, ...]:
        query = "SELECT first, end, ran FROM ranges WHERE holder = ? ORDER BY first"
        rows = self._db.execute(query, [node])
        return tuple(Lease(first, end, bool(ran)) for first, end, ran in rows)

    def sync(self, report: Report, now: float) -> Lent:
        """Takes what a node says and lends it what it wants, as far as there is something.

        now: seconds of a clock that does not go back. Raises: sqlite3.Error; nothing is taken then.
        """
        node = report.node
        self._db.execute("BEGIN IMMEDIATE")
        try:
            self._expire(now)
            self._heard[node] = now
            self._take(report)
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
                self.told,
                tuple(mine),
                tuple(taken),
                self.over,
                max(LEAST_PACE, PACE * len(self._heard)),
            )
            self._db.execute("COMMIT")
        except BaseException:
            if self._db.in_transaction:  # a full disk may have ended it already
                self._db.execute("ROLLBACK")
            raise
        return lent

    def lose(self, node: str) -> None:
        """Lends what a node holds to others: it is known to be gone, or said so itself."""
        with self._db:
            self._db.execute("BEGIN IMMEDIATE")
            self._lose(node)

    # -- in a transaction ---------------------------------------------------------------------

    def _take(self, report: Report) -> None:
        """What holds whoever says it, and however late: it is there for all to read."""
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

    def _leads(self, report: Report) -> bool:
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
        """What somebody has lost, else the next range of the epochs that are decided."""
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
        size = max(LEAST, min(MOST, length // (SHARES * max(1, len(self._heard)))))
        return Lease(first, min(first + size, after, end))

    def _claim(self, node: str, claims: Iterable[tuple[str, str]]) -> tuple[list[str], list[str]]:
        """Of one cluster one is reduced at a time: then it turns out what else it explains."""
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
        """Whether somebody is at it."""
        query = "SELECT 1 FROM reductions WHERE cluster = ? AND NOT done"
        return self._db.execute(query, [cluster]).fetchone() is not None

    def _expire(self, now: float) -> None:
        if now < self._looks:
            return
        self._looks = now + self._term / LOOKS
        for node in self._silent:
            self._heard.setdefault(node, now)
        self._silent = []
        for node in [node for node, heard in self._heard.items() if now - heard > self._term]:
            self._lose(node)

    def _lose(self, node: str) -> None:
        self._heard.pop(node, None)
        self._db.execute("UPDATE ranges SET holder = NULL, ran = 0 WHERE holder = ?", [node])
        self._db.execute("DELETE FROM reductions WHERE holder = ? AND NOT done", [node])
        if self._fact("leader", "") == node:
            self._set("leader", "")

    def _fact(self, name: str, default: Any) -> Any:
        found = self._db.execute("SELECT value FROM facts WHERE name = ?", [name]).fetchone()
        return found[0] if found else default

    def _set(self, name: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO facts VALUES (?, ?)", [name, value])
