"""The file of a campaign: who may open it, transactions, and the settings in it."""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any, Self

from nnfuzz.campaign.tables.schema import FILE, LOCK, SCHEMA, TABLES


class StoreError(RuntimeError):
    """The campaign's file is missing, in use, or of another version; the message names the fix."""


class Database:
    """An open file: one process writes, any number may read meanwhile."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None = None):
        self.folder = folder
        self._db = connection
        self._lock = lock

    @classmethod
    def create(cls, folder: Path, config: dict[str, Any]) -> Self:
        """Makes the folder and the file.

        Raises: StoreError if a campaign or something else is there already, or nothing can be
        written there.
        """
        path = folder / FILE
        if path.exists():
            raise StoreError(
                f"{folder} holds a campaign already: add --resume to go on with it, "
                "or choose another --out"
            )
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder} is not a folder: choose another --out")
        if folder.exists() and any(folder.iterdir()):
            raise StoreError(
                f"{folder} holds other files, which a campaign would mix with its own: "
                "choose another --out"
            )
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _write(path, config)
        except (OSError, sqlite3.OperationalError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"{folder} cannot be written: {reason}") from error
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path, write: bool = True) -> Self:
        """Raises: StoreError if there is none, another process writes, or versions differ."""
        path = folder / FILE
        if not path.is_file():
            raise StoreError(f"{folder} holds no campaign: there is no {FILE}")
        lock = _lock(folder) if write else None
        db = sqlite3.connect(path, isolation_level=None, timeout=10.0)
        store = cls(folder, db, lock)
        try:
            store._prepare(write)
        except BaseException:
            store.close()
            raise
        return store

    def _prepare(self, write: bool) -> None:
        path = self.folder / FILE
        try:
            version = self._db.execute("PRAGMA user_version").fetchone()[0]
            if write:
                self._db.execute("PRAGMA journal_mode = WAL")
                self._db.execute("PRAGMA synchronous = NORMAL")
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path} is not the file of a campaign ({error})") from error
        if version != SCHEMA:
            raise StoreError(
                f"{path} has schema {version}; this nnfuzz reads {SCHEMA}: use the version "
                "that made it, or start a new campaign"
            )

    def close(self) -> None:
        """Idempotent; lets another process write."""
        self._db.close()
        if self._lock:
            self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def config(self) -> dict[str, Any]:
        return self.meta("config")

    def meta(self, key: str, default: Any = None) -> Any:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchone()
        return json.loads(row[0]) if row else default

    def set_meta(self, key: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [key, json.dumps(value)])

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")


def _write(path: Path, config: dict[str, Any]) -> None:
    """The file of a new campaign; one by that name is complete."""
    draft = path.with_suffix(".new")
    draft.unlink(missing_ok=True)
    db = sqlite3.connect(draft)
    try:
        db.executescript(TABLES)
        db.execute("INSERT INTO meta VALUES ('config', ?)", [json.dumps(config)])
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        db.commit()
    finally:
        db.close()
    os.replace(draft, path)


def _lock(folder: Path) -> IO[str]:
    """Held until it is closed or the process ends in whatever way."""
    lock = (folder / LOCK).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StoreError(f"the campaign in {folder} is running in another process") from None
    return lock


def dumps(value: Any) -> str:
    """JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))
