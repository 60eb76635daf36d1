"""Takes over what another campaign's file holds.

Of two rows for one thing the lesser one stays, by its columns in order, so that it does not matter
which of them came first. A test is there once, with all that belongs to it: the first recorded one.
What is known to be taken already (`Taken`) is not read again, so that it costs what is new.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from nnfuzz.records.rows import FindingRow, ReductionRow
from nnfuzz.store.database import dumps
from nnfuzz.store.findings import Findings
from nnfuzz.store.hangs import Hangs
from nnfuzz.store.packed import Packed, Row
from nnfuzz.store.restraints import Restraints
from nnfuzz.store.schema import FILE

EPOCH_BYTES = 6
"""Of SHA-256, which names an epoch by what holds in it: SQLite's integers have eight."""
EVENT_DIGITS = 15
_OF_TESTS = ("tests", "features", "motifs", "errors", "passes")
_KEYED = {
    "probes": (("key", "instance", "backend"), ("before", "answers")),
    "occurrences": (("signature", "test"), ("bucket", "kind", "idx")),
    "repeats": (("signature", "test"), ("levels", "repeated", "tried", "title")),
}
"""Table -> its key and its other columns, the first of which decide which row stays."""
LEFT_OUT = ("keepable",)
"""Tables that only a campaign that goes on needs."""
_HANG = "level stage seconds epoch signature exporter items late status idx".split()


_NEW_OCCURRENCES = """(SELECT * FROM part.occurrences WHERE idx IS NULL
    OR idx IN (SELECT idx FROM temp.tests_of_part)
    OR idx IN (SELECT idx FROM part.hangs WHERE idx IS NOT NULL))"""
"""Those of tests that are new, of probes, and of hangs, which are decided late."""


class DifferentTests(Exception):
    """Two files have different test cases of one index."""

    def __init__(self, index: int) -> None:
        super().__init__(f"different test cases of index {index}")
        self.index = index


@dataclass(frozen=True)
class Taken:
    """What somebody has of a campaign's file already.

    The tests below an index and some later ones, `tests` in all; events and epochs up to a number;
    digests of what probes have said, and of the rows and reductions of findings, by signature.
    rules: of triage, by which occurrences are named.
    """

    below: int = 0
    later: tuple[int, ...] = ()
    tests: int = 0
    event: int = 0
    epoch: int = -1
    probes: str = ""
    rules: str = ""
    findings: dict[str, str] = field(default_factory=dict)


NOTHING = Taken()


class Union(Findings, Hangs, Restraints, Packed):
    """A file that rows of others are added to."""

    def digests(self) -> Iterator[tuple[int, str]]:
        """Index and digest of every test."""
        rows = self._db.execute("SELECT idx, digest FROM tests ORDER BY idx")
        yield from self.with_packed(rows, 0, None, lambda row: (row.idx, row.digest))

    def indexes_from(self, first: int) -> set[int]:
        """The indexes from one on that need no more work."""
        rows = self._db.execute("SELECT idx FROM tests WHERE idx >= ?", [first])
        return {row[0] for row in rows}.union(*self.packed_indexes(first))

    def last_event(self) -> int:
        """The number of the newest one; 0 if there is none, or if they have no order."""
        return int(self._db.execute("SELECT coalesce(max(id), 0) FROM events").fetchone()[0])

    def digest_of_probes(self) -> str:
        """Of all that probes have said."""
        return _digest(self._db.execute("SELECT * FROM probes ORDER BY key, instance, backend"))

    def began(self) -> float:
        """When the first session did, in seconds of Unix time; 0 if there was none."""
        return float(
            self._db.execute("SELECT coalesce(min(started), 0) FROM sessions").fetchone()[0]
        )

    def add_rows_of(self, part: Union, taken: Taken = NOTHING) -> None:
        """Everything but findings and the settings, all or nothing. taken: of the part, before.

        Raises: DifferentTests.
        """
        self._db.execute("ATTACH DATABASE ? AS part", [str(part.folder / FILE)])
        try:
            with self._transaction():
                self._unpack(part, taken)
                self._name_epochs(part, taken)
                self._add_tests()
                for table in ("occurrences", "repeats"):
                    key, rest = _KEYED[table]
                    rows = _NEW_OCCURRENCES
                    if table == "repeats":
                        rows = f"part.repeats JOIN {rows} USING (signature, test)"
                    self._add_least(table, key, rest, ", ".join((*key, *rest)), rows)
                if part.digest_of_probes() != taken.probes:
                    key, rest = _KEYED["probes"]
                    self._add_least("probes", key, rest, ", ".join((*key, *rest)), "part.probes")
                told = ", ".join("new" if name == "epoch" else name for name in _HANG)
                hangs = "part.hangs JOIN temp.epoch_of ON old = epoch"
                self._add_least(
                    "hangs", ("test", "backend"), _HANG, f"test, backend, {told}", hangs
                )
                self._add_reductions(taken)
                self._add_sessions()
                self._add_events(taken)
        finally:
            self._db.execute("DROP TABLE IF EXISTS temp.epoch_of")
            self._db.execute("DROP TABLE IF EXISTS temp.taken")
            self._db.execute("DROP TABLE IF EXISTS temp.tests_of_part")
            self._db.execute("DROP TABLE IF EXISTS temp.taken_of_part")
            self._db.execute("DETACH DATABASE part")

    def forget_tests(self, indexes: Iterable[int]) -> None:
        """Removes the rows of tests, and what belongs to them alone."""
        with self._transaction():
            rows = [(index,) for index in indexes]
            for table in _OF_TESTS:
                self._db.executemany(f"DELETE FROM {table} WHERE idx = ?", rows)
            self._db.execute("DELETE FROM texts WHERE digest NOT IN (SELECT digest FROM errors)")

    def take_finding(self, row: FindingRow, reduction: ReductionRow | None, refined: str) -> None:
        """In place of what there was of its signature. refined: what it is suspected to be of."""
        with self._transaction():
            self._add_finding(row)
            for table in ("reductions", "suspects"):
                self._db.execute(f"DELETE FROM {table} WHERE signature = ?", [row.signature])
            if reduction is not None:
                self.add_reduction(reduction)
            if refined:
                self.suspect(row.signature, refined)

    def date_finding(self, signature: str, found_at: float) -> None:
        """Notes that it was found earlier."""
        query = "UPDATE findings SET found_at = min(found_at, ?) WHERE signature = ?"
        self._db.execute(query, [found_at, signature])

    def _unpack(self, part: Union, taken: Taken) -> None:
        """The tests of the part that are not taken, in a temporary table."""
        known = [(index,) for index in taken.later]
        self._db.execute("CREATE TEMP TABLE taken_of_part (idx INTEGER PRIMARY KEY)")
        self._db.executemany("INSERT INTO taken_of_part VALUES (?)", known)
        self._db.execute(
            "CREATE TEMP TABLE tests_of_part AS SELECT * FROM part.tests "
            "WHERE idx >= ? AND idx NOT IN (SELECT idx FROM taken_of_part)",
            [taken.below],
        )
        self._db.execute("CREATE UNIQUE INDEX temp.of_part ON tests_of_part (idx)")
        marks, later = ", ".join("?" * len(Row._fields)), {*taken.later}
        query = f"INSERT OR IGNORE INTO tests_of_part VALUES ({marks})"
        packed = (row for row in part.packed_rows(taken.below) if row.idx not in later)
        self._db.executemany(query, packed)

    def _name_epochs(self, part: Union, taken: Taken) -> None:
        """Adds what holds in the part's epochs; the temporary table epoch_of has their names."""
        self._db.execute("CREATE TEMP TABLE epoch_of (old INTEGER PRIMARY KEY, new INTEGER)")
        query = f"""
            SELECT epoch FROM tests_of_part UNION SELECT epoch FROM part.hangs
            UNION SELECT id FROM part.epochs WHERE id > {int(taken.epoch)}"""
        for (epoch,) in self._db.execute(query).fetchall():
            row = part._row(epoch)
            found = "SELECT refused, reasons, emphasis FROM part.epochs WHERE id = ?"
            held = self._db.execute(found, [row]).fetchone() or ("[]", "{}", "{}")
            query_ = "SELECT item, signature, why, share FROM part.avoided WHERE epoch = ?"
            avoided = self._db.execute(f"{query_} ORDER BY item", [row]).fetchall()
            told = dumps([*held, avoided]).encode()
            name = int.from_bytes(hashlib.sha256(told).digest()[:EPOCH_BYTES], "big")
            self._db.execute("INSERT OR IGNORE INTO epochs VALUES (?, ?, ?, ?)", [name, *held])
            self._db.executemany(
                "INSERT OR IGNORE INTO avoided VALUES (?, ?, ?, ?, ?)",
                [(name, *entry) for entry in avoided],
            )
            self._db.execute("INSERT INTO epoch_of VALUES (?, ?)", [epoch, name])

    def _add_tests(self) -> None:
        self._db.execute(
            "CREATE TEMP TABLE taken AS SELECT p.idx FROM tests_of_part p "
            "LEFT JOIN main.tests m USING (idx) WHERE m.idx IS NULL "
            "OR (p.at, p.outcomes, p.seconds) < (m.at, m.outcomes, m.seconds)"
        )
        query = """
            SELECT idx FROM tests_of_part p JOIN main.tests m USING (idx)
            WHERE p.digest != m.digest ORDER BY idx"""
        if different := self._db.execute(query).fetchone():
            raise DifferentTests(different[0])
        for table in _OF_TESTS:
            where = "WHERE idx IN (SELECT idx FROM temp.taken)"
            self._db.execute(f"DELETE FROM main.{table} {where}")
            columns, rows = "*", f"part.{table}"
            if table == "tests":
                columns = "idx, status, new, at, outcomes, seconds, comparable, digest, exporter"
                columns += ", items"
                rows = "tests_of_part JOIN temp.epoch_of ON old = epoch"
            self._db.execute(f"INSERT INTO main.{table} SELECT {columns} FROM {rows} {where}")
        self._db.execute("""
            INSERT OR IGNORE INTO main.texts SELECT * FROM part.texts WHERE digest IN
                (SELECT digest FROM part.errors WHERE idx IN (SELECT idx FROM temp.taken))""")

    def _add_least(
        self, table: str, key: Sequence[str], rest: Sequence[str], columns: str, rows: str
    ) -> None:
        """Adds rows; of two with the same key the one with the lesser other columns stays, which
        for hangs is a decided one.
        """
        compared = [name for name in rest if name != "idx"]
        own, new = ([f"{place}.{name}" for name in compared] for place in (table, "excluded"))
        if table == "hangs":
            own.insert(0, f"{table}.status = 'unconfirmed'")
            new.insert(0, "excluded.status = 'unconfirmed'")
        changes = ", ".join(f"{name} = excluded.{name}" for name in rest)
        self._db.execute(
            f"INSERT INTO main.{table} ({', '.join((*key, *rest))}) SELECT {columns} FROM {rows} "
            f"WHERE true ON CONFLICT ({', '.join(key)}) DO UPDATE SET {changes} "
            f"WHERE (0, {', '.join(new)}) < (0, {', '.join(own)})"
        )

    def _add_sessions(self) -> None:
        """By when they began; of one that was copied while it went on, the longer one."""
        columns = "started, seconds, workers, sut"
        found: dict[float, tuple[float, int, str]] = {}
        for place in ("main", "part"):
            for started, *rest in self._db.execute(f"SELECT {columns} FROM {place}.sessions"):
                found[started] = max(found.get(started, (-1.0, 0, "")), tuple(rest))
        self._db.execute("DELETE FROM main.sessions")
        query = f"INSERT INTO main.sessions ({columns}) VALUES (?, ?, ?, ?)"
        self._db.executemany(query, [(began, *rest) for began, rest in sorted(found.items())])

    def _add_reductions(self, taken: Taken) -> None:
        """Those without a finding."""
        query = """
            SELECT signature, row FROM part.reductions WHERE signature NOT IN
                (SELECT signature FROM main.findings UNION SELECT signature FROM part.findings)"""
        found = self._db.execute(query).fetchall()
        new = [told for told in found if taken.findings.get(told[0]) != _digest([told])]
        self._db.executemany("INSERT OR IGNORE INTO main.reductions VALUES (?, ?)", new)

    def lone_reductions(self) -> dict[str, str]:
        """Digests of those without a finding, by signature."""
        query = """
            SELECT signature, row FROM reductions
            WHERE signature NOT IN (SELECT signature FROM findings)"""
        return {told[0]: _digest([told]) for told in self._db.execute(query)}

    def _add_events(self, taken: Taken) -> None:
        """They are numbered by what they say, so that their order does not matter."""
        columns = "at, test, kind, backend, stage, signal, message, details"
        query = f"SELECT {columns} FROM part.events WHERE id > ?"
        rows = self._db.execute(query, [taken.event]).fetchall()
        marks = ", ".join("?" * 9)
        self._db.executemany(
            f"INSERT OR IGNORE INTO main.events (id, {columns}) VALUES ({marks})",
            [(int(_digest([row])[:EVENT_DIGITS], 16), *row) for row in rows],
        )


def _digest(rows: Iterable[Sequence[object]]) -> str:
    """Of SHA-256, in hexadecimal digits."""
    told = hashlib.sha256()
    for row in rows:
        told.update(dumps(row).encode())
    return told.hexdigest()
