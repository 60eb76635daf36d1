"""The readable rows of a damaged file of a campaign."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from nnfuzz.store.database import DAMAGE, StoreError
from nnfuzz.store.schema import SCHEMA, TABLES


def damage(path: Path) -> str:
    """The first damage of a file's pages, rows and indexes; "" for none."""
    try:
        with contextlib.closing(sqlite3.connect(path)) as db:
            problems = [row[0] for row in db.execute("PRAGMA integrity_check(1)")]
    except DAMAGE as error:
        problems = [str(error)]
    return "" if problems == ["ok"] else str(problems[0]).splitlines()[-1]


def rescue(path: Path, into: Path) -> None:
    """Writes a whole file with all rows of a damaged one that can be read.

    Tables are read from both ends, as far as that goes. Raises: StoreError if not even the settings
    of the campaign are there.
    """
    try:
        _copy(path, into)
    except (sqlite3.Error, UnicodeDecodeError) as error:
        raise StoreError(f"{path} cannot be repaired: {error}") from error


def _copy(path: Path, into: Path) -> None:
    with (
        contextlib.closing(sqlite3.connect(path, isolation_level=None)) as old,
        contextlib.closing(sqlite3.connect(into, isolation_level=None)) as new,
    ):
        old.text_factory = lambda data: data.decode(errors="replace")
        new.executescript(TABLES)
        new.execute(f"PRAGMA user_version = {SCHEMA}")
        new.execute("BEGIN")
        tables = "SELECT name FROM sqlite_master WHERE type = 'table'"
        for (table,) in new.execute(tables).fetchall():
            columns = new.execute(f"PRAGMA table_info({table})").fetchall()
            # Tables without row numbers are in the order of their keys.
            keys = [name for _, name, *_, key in sorted(columns, key=lambda c: c[-1]) if key]
            query = f"INSERT OR IGNORE INTO {table} VALUES ({', '.join('?' * len(columns))})"
            names = ", ".join(name for _, name, *_ in columns)  # an older schema has more
            for row in _readable(old, table, names, keys):
                with contextlib.suppress(sqlite3.Error):  # of another type than the column
                    new.execute(query, row)
        new.execute("COMMIT")
        if not new.execute("SELECT 1 FROM meta WHERE key = 'config'").fetchone():
            raise StoreError(f"of {path} not even the settings of the campaign can be read")


def _readable(
    db: sqlite3.Connection, table: str, columns: str, keys: list[str]
) -> Iterator[tuple[object, ...]]:
    """The rows up to the first damaged page, from both ends; some may come twice."""
    for direction in ("ASC", "DESC"):
        order = ", ".join(f"{key} {direction}" for key in keys)
        try:
            yield from db.execute(f"SELECT {columns} FROM {table} NOT INDEXED ORDER BY {order}")
        except DAMAGE:
            continue
        return
