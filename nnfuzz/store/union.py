"""Takes over the rows of another campaign's file.

Of two rows for one thing the lesser one stays, by its columns in order, so that it does not matter
which of them came first. A test is there once, with all that belongs to it: the first recorded one.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from nnfuzz.store.campaign_tests import OF_TESTS
from nnfuzz.store.columns import dumps
from nnfuzz.store.database import Database
from nnfuzz.store.restraints import Restraints
from nnfuzz.store.schema import FILE

EPOCH_BYTES = 6
"""Bytes of the SHA-256 that names an epoch by its settings: SQLite's integers have eight."""
EVENT_DIGITS = 15
_TEMPORARY = ("epoch_of", "taken")
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


class DifferentTests(Exception):
    """Two files have different test cases of one index."""

    def __init__(self, index: int) -> None:
        super().__init__(f"different test cases of index {index}")
        self.index = index


def add_rows(target: Database, part: Database) -> None:
    """Adds everything of a part to another file but findings and settings, all or nothing.

    Raises: DifferentTests.
    """
    target.execute("ATTACH DATABASE ? AS part", str(part.folder / FILE))
    try:
        with target.transaction():
            _Addition(target, part).run()
    finally:
        for table in _TEMPORARY:
            target.execute(f"DROP TABLE IF EXISTS temp.{table}")
        target.execute("DETACH DATABASE part")


class _Addition:
    """One part on its way into another file, in one transaction."""

    def __init__(self, target: Database, part: Database) -> None:
        self._db, self._restraints = target, Restraints(part)

    def run(self) -> None:
        self._name_epochs()
        self._add_tests()
        for table in ("occurrences", "repeats", "probes"):
            self._add_least(table, f"part.{table}")
        self._add_least("hangs", "part.hangs JOIN temp.epoch_of ON old = epoch")
        self._add_reductions()
        self._add_sessions()
        self._add_events()

    def _name_epochs(self) -> None:
        """Adds the settings of the part's epochs; the temporary table epoch_of has their names."""
        self._db.execute("CREATE TEMP TABLE epoch_of (old INTEGER PRIMARY KEY, new INTEGER)")
        query = """
            SELECT epoch FROM part.tests UNION SELECT epoch FROM part.hangs
            UNION SELECT id FROM part.epochs"""
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
            "CREATE TEMP TABLE taken AS SELECT p.idx FROM part.tests p "
            "LEFT JOIN main.tests m USING (idx) WHERE m.idx IS NULL "
            "OR (p.status = 'fault', p.at, p.outcomes, p.seconds) "
            "< (m.status = 'fault', m.at, m.outcomes, m.seconds)"
        )
        query = """
            SELECT idx FROM part.tests p JOIN main.tests m USING (idx)
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
                rows = "part.tests JOIN temp.epoch_of ON old = epoch"
            self._db.execute(f"INSERT INTO main.{table} SELECT {columns} FROM {rows} {where}")

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
            self._db.execute("INSERT OR IGNORE INTO main.reductions VALUES (?, ?)", *row)

    def _add_events(self) -> None:
        """Adds events, numbered by their content, so that their order does not matter.

        A fault after which the test was tried again replaces the same one of an earlier copy.
        """
        columns = "at, test, kind, backend, stage, signal, message, details"
        for row in self._db.execute(f"SELECT {columns} FROM part.events").fetchall():
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
