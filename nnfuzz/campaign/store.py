"""What a campaign knows, in one SQLite file that survives `kill -9` at any moment.

One transaction per test, in WAL mode: whatever `record` has returned from is kept. A finding's
folder is written before its row, so that a row never names a folder that is not there. The groups
of tables are rooms of their own (nnfuzz.campaign.tables); what ties them together is here.
"""

from __future__ import annotations

import contextlib
import heapq
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from itertools import chain, islice
from typing import Any

from nnfuzz.campaign.clusters import Clusters
from nnfuzz.campaign.guidance import Seen
from nnfuzz.campaign.order import by_value
from nnfuzz.campaign.rows import EventRow, FindingRow, Observed, Record, TestRow, merged
from nnfuzz.campaign.tables.database import StoreError, dumps, end_of, loads
from nnfuzz.campaign.tables.errors import Errors
from nnfuzz.campaign.tables.packed import Row
from nnfuzz.campaign.tables.repairs import Repairs
from nnfuzz.campaign.tables.schema import FILE, LOCK
from nnfuzz.campaign.tables.sessions import Sessions
from nnfuzz.campaign.tables.watched import Watched
from nnfuzz.ir.features import Features
from nnfuzz.report.page_figures import TestLine
from nnfuzz.testcase.test_id import Numbered, Probe, parse_id
from nnfuzz.writing import as_json

Outcomes = dict[str, dict[str, str | dict[str, str | bool]]]
"""Backend -> level -> what `brief` of nnfuzz.campaign.recorder makes of an outcome."""
MOST_FAULTS = 2
"""Of one test, after which no session tries it again."""
__all__ = ["FILE", "Store", "StoreError"]


class Store(Sessions, Repairs, Errors, Watched):
    """The open file of a campaign: its tests, and all that is known beside them."""

    def record(self, record: Record) -> None:
        """Adds everything that belongs to one test, or nothing."""
        with self._transaction():
            self._insert(record, self.moment())
            self.touch()

    def _insert(self, record: Record, now: float) -> None:
        if record.test:
            self._add_test(record.test, now)
        for finding in record.findings:
            self._add_finding(finding)
        for seen in record.occurrences:
            self._add_occurrence(seen)
        for event in record.events:
            self._add_event(event, now)
        for settled in record.hangs:
            self._settle_hang(*settled)

    def _add_test(self, test: TestRow, now: float) -> None:
        seconds = {phase: round(value, 6) for phase, value in test.seconds.items()}
        self._db.execute(
            "INSERT OR REPLACE INTO tests VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                test.index,
                test.status,
                test.epoch,
                now,
                dumps(test.outcomes),
                dumps(seconds),
                test.comparable,
                test.digest,
                test.exporter,
                "\n".join(test.items),
            ],
        )
        self._add_errors(test.index, test.errors)
        self._add_passes(test.index, test.passes, test.keepable)
        if test.features:
            self._db.execute(
                "INSERT OR REPLACE INTO features VALUES (?, ?)",
                [test.index, dumps(as_json(test.features))],
            )

        if test.motifs:
            self._db.execute(
                "INSERT OR REPLACE INTO motifs VALUES (?, ?)", [test.index, " ".join(test.motifs)]
            )

    def _add_event(self, event: EventRow, now: float) -> None:
        e = event
        self._db.execute(
            "INSERT INTO events (at, test, kind, backend, stage, signal, message, details) "
            "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            [now, str(e.test), e.kind, e.backend, e.stage, e.signal, e.message, e.details],
        )

    def forget_faults(self, seed: int) -> tuple[list[int], list[int]]:
        """Removes the tests that a fault of nnfuzz left without a result, so that they are made
        again; one that had a fault twice stays as it is. Returns the indexes of both, sorted.
        """
        query = """
            SELECT idx, (SELECT count(*) FROM events
                WHERE test = ? || idx AND kind IN ('fault', 'retried'))
            FROM tests WHERE status = 'fault' ORDER BY idx"""
        of_seed = str(Numbered(seed, 0)).removesuffix("0")
        faults = dict(self._db.execute(query, [of_seed]).fetchall())
        again = [index for index, count in faults.items() if count < MOST_FAULTS]
        query = "UPDATE events SET kind = 'retried' WHERE kind = 'fault' AND test = ?"
        self._db.executemany(query, [(f"{of_seed}{index}",) for index in again])
        if again:
            self.forget_tests(again)
        return again, sorted(faults.keys() - again)

    def tests(self) -> Iterator[TestRow]:
        """All rows by index."""
        query = """
            SELECT idx, status, epoch, outcomes, seconds, comparable, digest, exporter, items,
                coalesce(names, '')
            FROM tests LEFT JOIN motifs USING (idx) ORDER BY idx"""

        def made(row: Row) -> tuple[Any, ...]:
            return *row[:3], *row[4:], ""

        rows = self.with_packed(self._db.execute(query), 0, None, made)
        for index, status, epoch, outcomes, seconds, *rest in rows:
            comparable, digest, exporter, items, motifs = rest
            yield TestRow(
                index,
                status,
                epoch,
                _outcomes(outcomes),
                loads(dict[str, float], seconds),
                comparable,
                motifs=tuple(motifs.split()),
                digest=digest,
                exporter=exporter,
                items=tuple(items.splitlines()),
            )

    def observed(self, first: int, end: int) -> list[Observed]:
        """What there is to learn from the tests from an index to another one, which is excluded."""
        query = """
            SELECT idx, signature, kind FROM occurrences
            WHERE idx >= ? AND idx < ? AND bucket != 'flaky'
            ORDER BY idx, signature"""
        failures: dict[int, dict[str, str]] = {}
        for index, signature, kind in self._db.execute(query, [first, end]):
            failures.setdefault(index, {})[signature] = kind
        query = """
            SELECT idx, epoch, status, exporter, items, outcomes FROM tests
            WHERE idx >= ? AND idx < ? ORDER BY idx"""

        def made(row: Row) -> tuple[Any, ...]:
            return row.idx, row.epoch, row.status, row.exporter, row.items, row.outcomes

        rows = self._db.execute(query, [first, end])
        found = {
            index: Observed(
                index,
                epoch,
                status,
                exporter,
                tuple(items.splitlines()),
                {name: _kinds(levels) for name, levels in _outcomes(outcomes).items()},
                failures.get(index, {}),
            )
            for index, epoch, status, exporter, items, outcomes in self.with_packed(
                rows, first, end, made
            )
        }
        found |= self._late_hangs(first, end)
        return [found[index] for index in sorted(found)]

    def seen(self, first: int, end: int) -> list[Seen]:
        """What guidance learns from the tests from an index to another one, which is excluded.

        Tests that looked like hangs tell nothing, since nobody waits for them.
        """
        late = {row.test.index for row in self.hangs() if row.late}
        passes, graphs = self.passes(first, end), self.keepable(first, end)
        query = """
            SELECT idx, graph, exporter, items, coalesce(names, '')
            FROM tests JOIN features USING (idx) LEFT JOIN motifs USING (idx)
            WHERE idx >= ? AND idx < ? AND status = 'run' ORDER BY idx"""
        return [
            Seen(
                index,
                loads(Features, graph),
                tuple(motifs.split()),
                passes.get(index),
                exporter,
                kept=graphs.get(index),
                items=tuple(items.splitlines()),
            )
            for index, graph, exporter, items, motifs in self._db.execute(query, [first, end])
            if index not in late
        ]

    def findings(self) -> list[FindingRow]:
        """All unique findings in the order of nnfuzz.campaign.order.

        Those that reduction has shown to be the same are one, and those that are not reduced and
        look alike (nnfuzz.campaign.clusters).
        """
        rows, reductions = self.signatures(), self.reductions()
        clusters = Clusters.of(rows, self.ever_avoided(), self.items_of_findings())
        return by_value(clusters.together(merged(rows, reductions, self.suspects()), reductions))

    def items_of_findings(self) -> dict[str, tuple[str, ...]]:
        """Signature -> operator signatures and edges of the first model that showed it. Each text
        is there once: a set for each signature takes eight times the memory.
        """
        query, found = "SELECT items FROM tests WHERE idx = ?", {}
        for signature, text in self._db.execute("SELECT signature, test FROM findings"):
            test = parse_id(text)
            if isinstance(test, Probe):
                told = test.signature
            else:
                told = (self._db.execute(query, [test.index]).fetchone() or ("",))[0]
            found[signature] = tuple(map(sys.intern, told.splitlines()))
        return found

    def lines(
        self, first: int = 0, end: int | None = None, most: int = -1
    ) -> Iterator[tuple[int, TestLine]]:
        """Index and line of each test, by index, from one to another, which is excluded."""
        query = """
            SELECT idx, at, status, outcomes, graph, (SELECT json_group_object(backend, names)
                FROM passes WHERE passes.idx = tests.idx)
            FROM tests LEFT JOIN features USING (idx)
            WHERE idx >= ? AND idx < ? ORDER BY idx LIMIT ?"""
        clock, last = self.clock(), end_of(end)

        def made(row: Row) -> tuple[Any, ...]:
            return row.idx, row.at, row.status, row.outcomes, None, "{}"

        rows = self.with_packed(self._db.execute(query, [first, last, most]), first, end, made)
        for index, at, status, told, graph, passes in islice(rows, None if most < 0 else most):
            changed = loads(dict[str, str], passes).items()
            yield (
                index,
                TestLine(
                    clock(at),
                    status,
                    _outcomes(told),
                    loads(Features, graph) if graph else None,
                    {backend: names.splitlines() for backend, names in changed},
                ),
            )

    def done(self) -> Iterator[int]:
        """The indexes that need no more work, the lowest first."""
        rows = (index for (index,) in self._db.execute("SELECT idx FROM tests ORDER BY idx"))
        return heapq.merge(rows, chain.from_iterable(self.packed_indexes()))

    def tests_in(self, first: int = 0, end: int | None = None) -> int:
        """How many of the indexes from one to another one, which is excluded, need no more work."""
        query = "SELECT count(*) FROM tests WHERE idx >= ? AND idx < ?"
        count = int(self._db.execute(query, [first, end_of(end)]).fetchone()[0])
        return count + sum(map(len, self.packed_indexes(first, end)))

    def features(self, latest: int | None = None) -> Iterator[tuple[int, Features]]:
        """Index and features of every graph that was kept, by index; or of the latest ones."""
        query = "SELECT idx, graph FROM features ORDER BY idx"
        if latest is not None:
            query = f"SELECT * FROM ({query} DESC LIMIT {int(latest)}) ORDER BY idx"
        for index, text in self._db.execute(query):
            yield index, loads(Features, text)

    def events(self) -> list[EventRow]:
        query = """
            SELECT test, kind, backend, stage, signal, message, details FROM events
            ORDER BY at, id"""
        return [EventRow(parse_id(test), *row) for test, *row in self._db.execute(query)]

    def event_counts(self) -> dict[str, int]:
        """Events by kind."""
        return dict(self._db.execute("SELECT kind, count(*) FROM events GROUP BY kind").fetchall())

    def discard(self) -> None:
        """Closes and removes a campaign in which nothing has happened; does nothing to others."""
        unused = not self.tests_in() and not self.findings() and not self.events()
        self.close()
        if unused:
            for path in self.folder.glob(f"{FILE}*"):
                path.unlink()
            (self.folder / LOCK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty: other files are the user's
                self.folder.rmdir()


@lru_cache(1024)
def _outcomes(text: str) -> Outcomes:
    """Those of most tests are the same text; nobody changes what this returns."""
    return loads(Outcomes, text)


def _kinds(levels: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    """(kind, message) of what nnfuzz.campaign.recorder.brief has made of outcomes."""
    return tuple(
        (told, "") if isinstance(told, str) else (told["kind"], told.get("message", ""))
        for told in levels.values()
    )
