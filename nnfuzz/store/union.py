"""Takes over the rows of another campaign's file.

Of two rows for one thing the lesser one stays, by its columns in order, so that it does not matter
which of them came first. A test is there once, with all that belongs to it: the first recorded one.
Rows that are taken already (`Taken`) are not read again, so that the cost grows with the new rows
only.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from nnfuzz.store.campaign_tests import OF_TESTS
from nnfuzz.store.columns import dumps
from nnfuzz.store.database import Database
from nnfuzz.store.packed import PackedTest, Packs
from nnfuzz.store.restraints import Restraints
from nnfuzz.store.schema import FILE

EPOCH_BYTES = 6
"""Bytes of the SHA-256 that names an epoch by its settings: SQLite's integers have eight."""
EVENT_DIGITS = 15
_TEMPORARY = ("epoch_of", "taken", "tests_of_part", "taken_of_part")
_KEYED = {
    "probes": (("key", "instance", "backend"), ("before", "answers")),
    "occurrences": (("signature", "test"), ("bucket", "kind", "idx")),
    "repeats": (("signature", "test"), ("levels", "repeated", "tried", "title")),
    "hangs": (
        ("test", "backend"),
        tuple("level stage seconds epoch signature exporter items late status idx".split()),
    ),
}
"""Table -> its key and its other columns; the first of these decide which row stays."""
_NEW_OCCURRENCES = """(SELECT * FROM part.occurrences WHERE idx IS NULL
    OR idx IN (SELECT idx FROM temp.tests_of_part)
    OR idx IN (SELECT idx FROM part.hangs WHERE idx IS NOT NULL))"""
"""The rows of new tests, of probes, and of hangs, which are decided late."""


class DifferentTests(Exception):
    """Two files have different test cases of one index."""

    def __init__(self, index: int) -> None:
        super().__init__(f"different test cases of index {index}")
        self.index = index


@dataclass(frozen=True)
class Taken:
    """The rows of a campaign's file that a copy of it has already.

    The tests below an index and some later ones, `tests` in all; events and epochs up to a number;
    digests of the probes' answers, and of the rows and reductions of findings, by signature.
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


def digest_of_probes(db: Database) -> str:
    """Returns a digest of all answers to probes."""
    return _digest(db.execute("SELECT * FROM probes ORDER BY key, instance, backend"))


def digests_without_finding(db: Database) -> dict[str, str]:
    """Returns a digest of each reduction that belongs to no finding, by signature."""
    query = """
        SELECT signature, row FROM reductions
        WHERE signature NOT IN (SELECT signature FROM findings)"""
    return {row[0]: _digest([row]) for row in db.execute(query)}


def add_rows(target: Database, part: Database, taken: Taken = NOTHING) -> None:
    """Adds everything of a part to another file but findings and settings, all or nothing.

    taken: the state of the part that was merged before. Raises: DifferentTests.
    """
    target.execute("ATTACH DATABASE ? AS part", str(part.folder / FILE))
    try:
        with target.transaction():
            _Addition(target, part, taken).run()
    finally:
        for table in _TEMPORARY:
            target.execute(f"DROP TABLE IF EXISTS temp.{table}")
        target.execute("DETACH DATABASE part")


class _Addition:
    """One part on its way into another file, in one transaction."""

    def __init__(self, target: Database, part: Database, taken: Taken) -> None:
        self._db, self._taken, self._part = target, taken, part
        self._packs, self._restraints = Packs(part), Restraints(part)

    def run(self) -> None:
        self._unpack()
        self._name_epochs()
        self._add_tests()
        self._add_least("occurrences", _NEW_OCCURRENCES)
        self._add_least("repeats", f"part.repeats JOIN {_NEW_OCCURRENCES} USING (signature, test)")
        if digest_of_probes(self._part) != self._taken.probes:
            self._add_least("probes", "part.probes")
        self._add_least("hangs", "part.hangs JOIN temp.epoch_of ON old = epoch")
        self._add_reductions()
        self._add_sessions()
        self._add_events()

    def _unpack(self) -> None:
        """Puts the tests of the part that were not taken before into a temporary table."""
        later = {*self._taken.later}
        self._db.execute("CREATE TEMP TABLE taken_of_part (idx INTEGER PRIMARY KEY)")
        known = [(index,) for index in later]
        self._db.connection.executemany("INSERT INTO taken_of_part VALUES (?)", known)
        self._db.execute(
            "CREATE TEMP TABLE tests_of_part AS SELECT * FROM part.tests "
            "WHERE idx >= ? AND idx NOT IN (SELECT idx FROM taken_of_part)",
            self._taken.below,
        )
        self._db.execute("CREATE UNIQUE INDEX temp.of_part ON tests_of_part (idx)")
        places = ", ".join("?" * len(PackedTest._fields))
        query = f"INSERT OR IGNORE INTO tests_of_part VALUES ({places})"
        packed = (row for row in self._packs.rows(self._taken.below) if row.idx not in later)
        self._db.connection.executemany(query, packed)

    def _name_epochs(self) -> None:
        """Adds the settings of the part's epochs; the temporary table epoch_of has their names."""
        self._db.execute("CREATE TEMP TABLE epoch_of (old INTEGER PRIMARY KEY, new INTEGER)")
        query = f"""
            SELECT epoch FROM tests_of_part UNION SELECT epoch FROM part.hangs
            UNION SELECT id FROM part.epochs WHERE id > {int(self._taken.epoch)}"""
        for (epoch,) in self._db.execute(query).fetchall():
            row = self._restraints.row_of(epoch)
            query = "SELECT refused, reasons FROM part.epochs WHERE id = ?"
            held = self._db.execute(query, row).fetchone() or ("[]", "{}")
            query = "SELECT item, signature, why, share FROM part.avoided WHERE epoch = ?"
            avoided = self._db.execute(f"{query} ORDER BY item", row).fetchall()
            text = dumps([*held, avoided]).encode()
            name = int.from_bytes(hashlib.sha256(text).digest()[:EPOCH_BYTES], "big")
            # The name stands for the content, so a row of this name is the same one.
            self._db.put_all("epochs", [(name, *held)])
            self._db.put_all("avoided", [(name, *entry) for entry in avoided])
            self._db.execute("INSERT INTO epoch_of VALUES (?, ?)", epoch, name)

    def _add_tests(self) -> None:
        self._db.execute(
            "CREATE TEMP TABLE taken AS SELECT p.idx FROM tests_of_part p "
            "LEFT JOIN main.tests m USING (idx) WHERE m.idx IS NULL "
            "OR (p.status = 'fault', p.at, p.outcomes, p.seconds) "
            "< (m.status = 'fault', m.at, m.outcomes, m.seconds)"
        )
        query = """
            SELECT idx FROM tests_of_part p JOIN main.tests m USING (idx)
            WHERE p.digest != m.digest AND 'fault' NOT IN (p.status, m.status) ORDER BY idx"""
        if different := self._db.execute(query).fetchone():
            raise DifferentTests(different[0])
        for table in OF_TESTS:
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

    def _add_least(self, table: str, rows: str) -> None:
        """Adds rows; of two with the same key the one with the lesser other columns stays, which
        for hangs is a decided one.
        """
        key, rest = _KEYED[table]
        columns = ", ".join((*key, *rest))
        if table == "hangs":
            columns = columns.replace("epoch", "new")
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
        """Adds sessions by the time when they began; the longer one if one was copied while it went
        on.
        """
        columns = "started, seconds, workers, sut"
        sessions: dict[float, tuple[float, int, str]] = {}
        for place in ("main", "part"):
            for started, *rest in self._db.execute(f"SELECT {columns} FROM {place}.sessions"):
                sessions[started] = max(sessions.get(started, (-1.0, 0, "")), tuple(rest))
        self._db.execute("DELETE FROM main.sessions")
        query = f"INSERT INTO main.sessions ({columns}) VALUES (?, ?, ?, ?)"
        for began, rest in sorted(sessions.items()):
            self._db.execute(query, began, *rest)

    def _add_reductions(self) -> None:
        """Adds the reductions that belong to no finding."""
        query = """
            SELECT signature, row FROM part.reductions WHERE signature NOT IN
                (SELECT signature FROM main.findings UNION SELECT signature FROM part.findings)"""
        for row in self._db.execute(query).fetchall():
            if self._taken.findings.get(row[0]) != _digest([row]):
                self._db.execute("INSERT OR IGNORE INTO main.reductions VALUES (?, ?)", *row)

    def _add_events(self) -> None:
        """Adds events, numbered by their content, so that their order does not matter.

        A fault after which the test was tried again replaces the same one of an earlier copy.
        """
        columns = "at, test, kind, backend, stage, signal, message, details"
        query = f"SELECT {columns} FROM part.events WHERE id > ?"
        for row in self._db.execute(query, self._taken.event).fetchall():
            self._db.put_all("events", [(int(_digest([row])[:EVENT_DIGITS], 16), *row)])
        self._db.execute("""
            DELETE FROM main.events AS fault WHERE kind = 'fault' AND EXISTS (SELECT 1
                FROM main.events WHERE kind = 'retried' AND at = fault.at AND test = fault.test)""")


def _digest(rows: Iterable[Sequence[object]]) -> str:
    """SHA-256 of some rows, in hexadecimal digits."""
    digest = hashlib.sha256()
    for row in rows:
        digest.update(dumps(row).encode())
    return digest.hexdigest()
