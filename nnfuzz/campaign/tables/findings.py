"""What has failed in a campaign, how often, and what came of reducing it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from nnfuzz.campaign.rows import FindingRow, FlakyRow, Occurrence, ReductionRow
from nnfuzz.campaign.tables.database import Database, dumps, loads
from nnfuzz.testcase.test_id import TestId, parse_id
from nnfuzz.writing import as_json


class Findings(Database):
    """Findings, their occurrences and repetitions, and reductions, by signature."""

    def signatures(self) -> list[FindingRow]:
        """One row per signature with its count, in order of discovery, reduced or not."""
        query = """
            SELECT f.signature, f.test, f.kind, f.stage, f.backend, f.level, f.title, f.folder,
                   f.found_at, f.party, count(o.test), f.place, f.size, f.complaint,
                   f.compiler
            FROM findings f LEFT JOIN occurrences o
                ON o.signature = f.signature AND o.bucket = 'finding'
            GROUP BY f.signature ORDER BY f.found_at, f.signature"""
        levels, rows = self._by_levels(), _shared(self._db.execute(query))
        return [
            FindingRow(  # type: ignore[misc]
                signature,
                parse_id(test),
                *row,
                occurrences=occurrences,
                by_levels=levels.get(signature, {}),
                place=place,
                size=size,
                complaint=complaint,
                compiler=compiler,
            )
            for signature, test, *row, occurrences, place, size, complaint, compiler in rows
        ]

    def _by_levels(self) -> dict[str, dict[str, int]]:
        """Signature -> levels that failed -> how often."""
        query = """
            SELECT r.signature, r.levels, count(*) FROM repeats r JOIN occurrences o
                USING (signature, test) WHERE o.bucket = 'finding'
            GROUP BY r.signature, r.levels ORDER BY count(*) DESC, r.levels"""
        table: dict[str, dict[str, int]] = {}
        for signature, levels, count in self._db.execute(query):
            table.setdefault(signature, {})[levels] = count
        return table

    def flaky(self) -> list[FlakyRow]:
        """The failures that did not repeat, the most frequent first."""
        query = """
            SELECT o.signature, max(r.title), count(*), sum(r.repeated), sum(r.tried)
            FROM occurrences o JOIN repeats r USING (signature, test)
            WHERE o.bucket = 'flaky' GROUP BY o.signature ORDER BY count(*) DESC, o.signature"""
        return [FlakyRow(*row) for row in self._db.execute(query)]

    def first_tests(self) -> dict[str, int]:
        """Signature -> lowest index of a test with it that was confirmed, wanted or not."""
        query = """
            SELECT signature, min(idx) FROM occurrences
            WHERE bucket != 'flaky' AND idx IS NOT NULL GROUP BY signature"""
        return dict(self._db.execute(query).fetchall())

    def failures_of_probes(self) -> dict[TestId, dict[str, str]]:
        """Probe -> signature -> "BACKEND KIND STAGE" of what failed in it."""
        query = """
            SELECT test, signature, kind FROM occurrences
            WHERE bucket != 'flaky' AND idx IS NULL ORDER BY test, signature"""
        found: dict[TestId, dict[str, str]] = {}
        for test, signature, kind in self._db.execute(query):
            found.setdefault(parse_id(test), {})[signature] = kind
        return found

    def occurred(self) -> Iterator[tuple[str, TestId, str, str]]:
        """Signature, test, "BACKEND KIND STAGE" and levels ("O0,O3") of each occurrence."""
        query = """
            SELECT signature, test, kind, coalesce(levels, '')
            FROM occurrences LEFT JOIN repeats USING (signature, test) ORDER BY test, signature"""
        for signature, test, kind, levels in self._db.execute(query):
            yield signature, parse_id(test), kind, levels

    def rename(
        self,
        moved: Mapping[tuple[str, TestId], str],
        findings: Mapping[str, tuple[str, str, str]],
    ) -> list[str]:
        """Gives occurrences and findings other signatures, all or none.

        moved: signature and test -> new signature. findings: signature -> new one, title and
        complaint. Of findings that have the same signature now one stays, a reduced one if there is
        any, then the first; the folders of the others are returned.
        """
        reductions, suspects = self.reductions(), self.suspects()
        rows: dict[str, list[FindingRow]] = {}
        for row in self.signatures():
            new, title, complaint = findings.get(
                row.signature, (row.signature, row.title, row.complaint)
            )
            rows.setdefault(new, []).append(replace(row, title=title, complaint=complaint))
        with self._transaction():
            self._move_occurrences(moved)
            for table in ("findings", "reductions", "suspects"):
                self._db.execute(f"DELETE FROM {table}")
            gone = []
            for new, alike in rows.items():
                alike.sort(key=lambda row: (row.signature not in reductions, row.place))
                kept, *others = alike
                gone += [row.folder for row in others]
                self._add_finding(replace(kept, signature=new))
                if kept.signature in reductions:
                    self.add_reduction(replace(reductions[kept.signature], signature=new))
                elif kept.signature in suspects:
                    self.suspect(new, suspects[kept.signature])
            query = "UPDATE avoided SET signature = ? WHERE signature = ?"
            self._db.executemany(query, [(new, old) for old, (new, *_) in findings.items()])
        return gone

    def _move_occurrences(self, moved: Mapping[tuple[str, TestId], str]) -> None:
        for table in ("occurrences", "repeats"):
            found = []
            for (old, test), new in moved.items():
                where = f"FROM {table} WHERE signature = ? AND test = ?"
                for _, *rest in self._db.execute(f"SELECT * {where}", [old, str(test)]):
                    found.append([new, *rest])
                self._db.execute(f"DELETE {where}", [old, str(test)])
            marks = ", ".join("?" * len(found[0])) if found else ""
            self._db.executemany(f"INSERT OR REPLACE INTO {table} VALUES ({marks})", found)

    def signatures_in(self, bucket: str) -> set[str]:
        """The signatures that were seen in a bucket."""
        query = "SELECT DISTINCT signature FROM occurrences WHERE bucket = ?"
        return {row[0] for row in self._db.execute(query, [bucket])}

    def buckets(self) -> dict[str, int]:
        """Occurrences by bucket."""
        query = "SELECT bucket, count(*) FROM occurrences GROUP BY bucket"
        return dict(self._db.execute(query).fetchall())

    def _add_finding(self, finding: FindingRow) -> None:
        f = finding
        self._db.execute(
            "INSERT OR REPLACE INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                f.signature,
                str(f.test),
                f.kind,
                f.stage,
                f.backend,
                f.level,
                f.title,
                f.folder,
                f.found_at,
                f.party,
                f.place,
                f.size,
                f.complaint,
                f.compiler,
            ],
        )

    def _add_occurrence(self, seen: Occurrence) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO occurrences VALUES (?, ?, ?, ?, ?)",
            [seen.signature, str(seen.test), seen.test.index, seen.bucket, seen.kind],
        )
        if seen.levels or seen.tried:
            self._add_repeats(seen)

    def _add_repeats(self, seen: Occurrence) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO repeats VALUES (?, ?, ?, ?, ?, ?)",
            [
                seen.signature,
                str(seen.test),
                seen.levels,
                seen.repeated,
                seen.tried,
                seen.title,
            ],
        )

    def turn_known(self, signature: str) -> None:
        """A finding that is to be ignored after all: only its occurrences stay, as known ones."""
        with self._transaction():
            self._db.execute("DELETE FROM findings WHERE signature = ?", [signature])
            query = "UPDATE occurrences SET bucket = 'known' WHERE signature = ? AND bucket = ?"
            self._db.execute(query, [signature, "finding"])

    def move_finding(self, signature: str, folder: str) -> None:
        """Notes that the folder of a signature lies elsewhere in the campaign."""
        self._db.execute("UPDATE findings SET folder = ? WHERE signature = ?", [folder, signature])

    def add_reduction(self, row: ReductionRow) -> None:
        """Keeps what came of reducing a finding, instead of an earlier attempt."""
        query = "INSERT OR REPLACE INTO reductions VALUES (?, ?)"
        self._db.execute(query, [row.signature, dumps(as_json(row))])

    def reductions(self) -> dict[str, ReductionRow]:
        """What came of each reduction, by signature."""
        query = "SELECT signature, row FROM reductions ORDER BY signature"
        return {s: loads(ReductionRow, row) for s, row in self._db.execute(query)}

    def suspect(self, signature: str, refined: str) -> None:
        """Notes that the model of a signature contains the pattern of a reduced finding."""
        query = "INSERT OR REPLACE INTO suspects VALUES (?, ?)"
        self._db.execute(query, [signature, refined])

    def acquit(self, signature: str) -> None:
        """A suspect is none any more."""
        self._db.execute("DELETE FROM suspects WHERE signature = ?", (signature,))

    def given_up(self) -> set[str]:
        """Signatures whose reduction came to nothing."""
        query = "SELECT signature FROM reductions WHERE json_extract(row, '$.reason') != ''"
        return {row[0] for row in self._db.execute(query)}

    def folders(self) -> tuple[str, ...]:
        """Of all signatures, below the campaign's, in order of discovery."""
        query = "SELECT folder FROM findings ORDER BY found_at, signature"
        return tuple(row[0] for row in self._db.execute(query))

    def suspects(self) -> dict[str, str]:
        """Signature -> refined signature that it may be of."""
        return dict(self._db.execute("SELECT signature, refined FROM suspects"))


def _shared(rows: Iterable[tuple[Any, ...]]) -> Iterator[tuple[Any, ...]]:
    """The same rows, with each text in memory once."""
    known: dict[Any, Any] = {}
    for row in rows:
        yield tuple(known.setdefault(v, v) if isinstance(v, str) else v for v in row)
