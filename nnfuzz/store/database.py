"""The file of a campaign: its lock, its transactions, and the settings in it."""

from __future__ import annotations

import contextlib
import dataclasses
import fcntl
import json
import os
import sqlite3
import stat
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping
from enum import Enum
from functools import cache, lru_cache, partial
from itertools import chain
from pathlib import Path
from typing import IO, Any, Self, TypeVar

from nnfuzz.base.reading import MOST, JsonObject, Unreadable, read
from nnfuzz.base.untrusted import below, parsed_json
from nnfuzz.base.writing import as_json

SCHEMA = 14
FILE = "campaign.sqlite"
LOCK = "campaign.lock"
_DRAFT = "campaign.new"
RESCUED = "campaign.rescued.sqlite"
"""The rows of a campaign whose file was lost while it ran."""
FOLDERS = FINDINGS, SUSPECTS, DUPLICATES = "findings", "suspects", "duplicates"
"""Where the folders of findings are, below the campaign's."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE epochs (id INTEGER PRIMARY KEY, refused TEXT NOT NULL, reasons TEXT NOT NULL,
    avoided TEXT NOT NULL) STRICT;
CREATE TABLE tests (idx INTEGER PRIMARY KEY, status TEXT NOT NULL, epoch INTEGER NOT NULL,
    at REAL NOT NULL, outcomes TEXT NOT NULL, seconds TEXT NOT NULL,
    digest TEXT NOT NULL, exporter TEXT NOT NULL, variations TEXT NOT NULL,
    items TEXT NOT NULL, failures TEXT NOT NULL, features TEXT NOT NULL) STRICT;
CREATE TABLE findings (signature TEXT PRIMARY KEY, test TEXT NOT NULL,
    kind TEXT NOT NULL, stage TEXT NOT NULL, backend TEXT NOT NULL, level TEXT NOT NULL,
    title TEXT NOT NULL, folder TEXT NOT NULL, found_at REAL NOT NULL, party TEXT NOT NULL,
    size INTEGER NOT NULL, suspicion TEXT NOT NULL,
    severity TEXT NOT NULL, compiler TEXT NOT NULL, reduction TEXT, suspected TEXT,
    known INTEGER NOT NULL) STRICT;
CREATE TABLE occurrences (signature TEXT NOT NULL, test TEXT NOT NULL, idx INTEGER,
    bucket TEXT NOT NULL, kind TEXT NOT NULL, levels TEXT NOT NULL, repeated INTEGER NOT NULL,
    tried INTEGER NOT NULL, title TEXT NOT NULL, PRIMARY KEY (signature, test))
    WITHOUT ROWID, STRICT;
CREATE TABLE hangs (test TEXT NOT NULL, backend TEXT NOT NULL, level TEXT NOT NULL,
    stage TEXT NOT NULL, seconds REAL NOT NULL, signature TEXT NOT NULL, status TEXT NOT NULL,
    PRIMARY KEY (test, backend)) WITHOUT ROWID, STRICT;
CREATE TABLE events (id INTEGER PRIMARY KEY, at REAL NOT NULL, test TEXT NOT NULL,
    kind TEXT NOT NULL, backend TEXT NOT NULL, stage TEXT NOT NULL, signal TEXT NOT NULL,
    message TEXT NOT NULL, details TEXT NOT NULL) STRICT;
"""


R = TypeVar("R")
SqlValue = str | int | float | bytes | None
LINE = "\n"
"""The separator of the texts of a tuple, which is one column."""


def loads(kind: type[R], text: str | bytes) -> R:
    """Reads the JSON of a column as a type. Raises: Unreadable."""
    return read(kind, parsed_json(text, FILE))


def dumps(value: object) -> str:
    """Writes JSON without blanks."""
    return json.dumps(value, separators=(",", ":"))


def column(value: object) -> SqlValue:
    """Returns the content of a column for a value: texts of a tuple are lines, and a value that is
    neither a text nor a number is JSON.
    """
    if isinstance(value, Enum):
        return column(value.value)
    if value is None or isinstance(value, str | int | float | bytes):
        return value
    if isinstance(value, tuple):
        return LINE.join(value)
    written = as_json(value)
    return written if isinstance(written, str) else dumps(written)


def records(
    kind: Callable[..., R], names: Iterable[str], rows: Iterable[tuple[object, ...]]
) -> Iterator[R]:
    """Makes a record of each row. Equal texts are one object, which saves most of the memory.

    names: of the columns in order, which are fields of the record. Raises: Unreadable.
    """
    readers = _readers(kind)
    columns = [(name, readers[name]) for name in names]
    texts: dict[str, str] = {}
    for row in rows:
        fields = {}
        for (name, reader), value in zip(columns, row, strict=True):
            own = texts.setdefault(value, value) if isinstance(value, str) else value
            fields[name] = reader(own) if reader else own
        yield kind(**fields)


@cache
def _readers(kind: Any) -> dict[str, Callable[[object], object] | None]:
    """How the column of each field is read; None where the record has the column's own value."""
    hints = typing.get_type_hints(kind)
    return {field.name: _reader(hints[field.name]) for field in dataclasses.fields(kind)}


def _reader(kind: Any) -> Callable[[Any], Any] | None:
    if kind in (str, int, float, float | None):
        return None
    if kind is bool:
        return bool
    if kind == tuple[str, ...]:
        return _lines
    if typing.get_origin(kind) in (dict, Mapping):
        return lru_cache(1024)(partial(loads, kind))  # most tests have the same outcomes
    return partial(read, kind)


def _lines(text: str) -> tuple[str, ...]:
    return tuple(text.splitlines())


T = TypeVar("T")


DAMAGE = (sqlite3.DatabaseError, UnicodeDecodeError)
"""Errors that reading a damaged file raises: SQLite may quote bytes of it that are no text."""


class StoreError(Unreadable):
    """The campaign's file is missing, in use, damaged or of another version; the message says how
    to go on.
    """


_IMPOSSIBLE = "SELECT count(*) FROM findings WHERE NOT found_at BETWEEN -:most AND :most"
"""Counts findings with times out of range, since these are read whole."""


class Database:
    """An open file: one process writes, any number may read meanwhile.

    A change is kept for good with the next `flush`, or when the file is closed. The process itself
    reads it before.
    """

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO[str] | None = None):
        self.folder = folder
        self.connection = connection
        self._lock = lock
        self._written: os.stat_result | None = None
        """The file as this process has left it; None if it is only read."""
        self._is_lost = False

    @classmethod
    def create(cls, folder: Path, config: Mapping[str, object]) -> Self:
        """Makes the folder and the file. Leftovers of a process that was killed while it did so
        are replaced.

        Raises: StoreError if a campaign or something else is there already, or nothing can be
        written there; then nothing is left behind.
        """
        path = folder / FILE
        if folder.exists() and not folder.is_dir():
            raise StoreError(f"{folder} is not a folder: choose another --out")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            if not path.exists() and {*folder.iterdir()} - {*_own_files(folder)}:
                raise StoreError(
                    f"{folder} holds other files, which a campaign would mix with its own: "
                    "choose another --out"
                )
            with hold(folder):
                if path.exists():
                    raise StoreError(
                        f"{folder} holds a campaign already: add --resume to go on with it, "
                        "or choose another --out"
                    )
                try:
                    _write(path, config)
                except BaseException:
                    remove(folder)
                    raise
        except (OSError, sqlite3.OperationalError) as error:
            reason = getattr(error, "strerror", None) or error
            raise StoreError(f"{folder} cannot be written: {reason}") from error
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path, write: bool = True) -> Self:
        """A writer has a whole file; a reader gets the readable part, and changes no file.

        Raises: StoreError if there is none, another process writes, or versions differ.
        """
        path = folder / FILE
        if not os.path.lexists(path):
            raise StoreError(f"{folder} holds no campaign: there is no {FILE}")
        _check_files(folder)
        lock = hold(folder) if write else None
        uri = path.absolute().as_uri() + ("" if write else _reading(folder))
        db = sqlite3.connect(uri, isolation_level=None, timeout=10.0, uri=True)
        db.text_factory = lambda data: data.decode(errors="replace")
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
            version = self.connection.execute("PRAGMA user_version").fetchone()[0]
            tables = _tables(self.connection)
        except sqlite3.OperationalError as error:
            raise StoreError(f"{path} cannot be opened ({error}): is the disk full?") from error
        except DAMAGE as error:
            raise StoreError(f"{path} is not the file of a campaign ({error})") from error
        if version != SCHEMA:
            raise StoreError(
                f"{path} has schema {version}; this nnfuzz reads {SCHEMA}: use the version "
                "that made it, or start a new campaign"
            )
        if tables != _own_tables():  # views and triggers are programs
            raise StoreError(f"{path} is damaged: it has not the tables of a campaign")
        impossible = 0
        with contextlib.suppress(*DAMAGE):  # damaged pages: other code reports them
            impossible = self.connection.execute(_IMPOSSIBLE, {"most": MOST}).fetchone()[0]
        if impossible:
            raise StoreError(f"{path} is damaged: it has times that no clock shows")
        if write:
            self._check_whole()
            self.connection.execute("PRAGMA journal_mode = WAL")
            self.connection.execute("PRAGMA synchronous = NORMAL")
            self._written = path.stat()

    def _check_whole(self) -> None:
        """Pages, types, and that the folders that are moved and deleted are the campaign's.

        Raises: StoreError.
        """
        path = self.folder / FILE
        if damage := _damage(self.connection):
            raise StoreError(
                f"{path} is damaged ({damage}): nnfuzz report shows the readable part; start a new "
                "campaign"
            )
        folders = self.execute("SELECT folder FROM findings").fetchall()
        for name in [*FOLDERS, *(row[0] for row in folders)]:
            place = below(self.folder, name)
            if place.is_symlink() or Path(name).parts[0] not in FOLDERS:
                raise StoreError(f"{path} names the folder {name!r}, which no campaign has")

    def close(self) -> None:
        """Keeps all changes, and lets another process write; idempotent."""
        try:
            if self._lock and not self._lock.closed:
                self.flush()
        finally:
            self.connection.close()
            if self._is_lost:  # else SQLite would take the logs for those of the rescued file
                for end in ("-wal", "-shm"):
                    (self.folder / f"{FILE}{end}").unlink(missing_ok=True)
            if self._lock:
                self._lock.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def config(self) -> JsonObject:
        """Returns the written form of the campaign's CampaignConfig."""
        return self.meta("config")

    def meta(self, key: str, default: object = None) -> Any:
        """Returns a setting as JSON values. Raises: Unreadable."""
        row = self.execute("SELECT value FROM meta WHERE key = ?", key).fetchone()
        return parsed_json(row[0], self.folder / FILE) if row else default

    def meta_as(self, kind: type[T], key: str, default: T) -> T:
        """Returns a setting of a type. Raises: Unreadable."""
        value = self.meta(key)
        return default if value is None else read(kind, value)

    def set_meta(self, key: str, value: object) -> None:
        """Keeps a setting, which JSON can hold."""
        self.put("meta", key=key, value=json.dumps(value))

    # -- rows ---------------------------------------------------------------------------------

    def execute(self, query: str, *values: SqlValue) -> sqlite3.Cursor:
        """Runs one statement and begins no transaction. values: of its question marks, in order."""
        return self.connection.execute(query, values)

    def change(self, query: str, *values: SqlValue) -> None:
        """Runs one statement that writes. values: of its question marks, in order."""
        if not self.connection.in_transaction:
            if self._lock is None:
                raise sqlite3.OperationalError("the file is open for reading alone: readonly")
            self.connection.execute("BEGIN")
        self.connection.execute(query, values)

    def flush(self) -> None:
        """Keeps all changes for good, whatever happens to the process.

        Raises: StoreError, once, if somebody has deleted, replaced, cut off or damaged the file
        meanwhile.
        """
        lost = self._lost() if self._written and not self._is_lost else ""
        if self.connection.in_transaction:
            self.connection.execute("COMMIT")
        if lost:
            self._is_lost = True
            raise StoreError(f"{self.folder / FILE} {lost} while the campaign ran: {self._saved()}")
        with contextlib.suppress(OSError):
            self._written = self._written and (self.folder / FILE).stat()

    def _lost(self) -> str:
        """What others have done to the file on the disk; "" if they left it alone or whole. This
        process changes the file by a COMMIT only.
        """
        before, path = self._written, self.folder / FILE
        assert before
        try:
            now = path.stat()
        except OSError:
            return "was deleted"
        if (now.st_dev, now.st_ino) != (before.st_dev, before.st_ino):
            return "was replaced"
        if now.st_size < before.st_size:
            return "was cut off"
        if now.st_mtime_ns == before.st_mtime_ns:
            return ""
        uri = f"{path.absolute().as_uri()}?mode=ro"  # our own connection has old pages in memory
        with contextlib.closing(sqlite3.connect(uri, uri=True)) as db:
            return "was damaged" if _damage(db) else ""

    def _saved(self) -> str:
        """Writes what this process still has of the file beside it; returns what to do then."""
        place = self.folder / RESCUED
        with contextlib.suppress(*DAMAGE), contextlib.closing(sqlite3.connect(place)) as db:
            self.connection.backup(db)
            if not _damage(db):
                return f"its rows are in {place}; --resume goes on once that has the file's name"
        place.unlink(missing_ok=True)
        return "its rows are lost, the folders of its findings are whole"

    def value(self, query: str, *values: SqlValue) -> Any:
        """Returns the one value of a query that has one."""
        return self.execute(query, *values).fetchone()[0]

    def records(self, kind: type[T], query: str, *values: SqlValue) -> Iterator[T]:
        """Yields the rows of a query as records. The columns are named like the fields."""
        cursor = self.execute(query, *values)
        return records(kind, [name for name, *_ in cursor.description], cursor)

    def put(self, table: str, record: object = None, conflict: str = "", /, **own: object) -> None:
        """Adds a row, in place of one with the same key unless `conflict` is another SQL clause.

        A column is the entry of `own` under its name, or else the field of the record.
        """
        row = [column(own[c] if c in own else getattr(record, c)) for c in columns_of(table)]
        how = "" if conflict else "OR REPLACE "
        marks = ", ".join("?" * len(row))
        self.change(f"INSERT {how}INTO {table} VALUES ({marks}) {conflict}", *row)

    @contextlib.contextmanager
    def transaction(self) -> Iterator[None]:
        """Makes all changes of the block, or else none."""
        self.change("SAVEPOINT block")
        try:
            yield
        except BaseException:
            self.connection.execute("ROLLBACK TO block")
            raise
        finally:
            self.connection.execute("RELEASE block")


class Table:
    """Some tables of an open file, which hold one kind of thing."""

    def __init__(self, db: Database) -> None:
        self._db = db


@cache
def columns_of(table: str) -> tuple[str, ...]:
    """The names of a table's columns, in order."""
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        return tuple(name for _, name, *_ in db.execute(f"PRAGMA table_info({table})"))


def _write(path: Path, config: Mapping[str, object]) -> None:
    """The file of a new campaign; one by that name is complete."""
    draft = path.with_name(_DRAFT)
    for leftover in path.parent.glob(f"{_DRAFT}*"):
        leftover.unlink()
    db = sqlite3.connect(draft)
    try:
        db.execute("PRAGMA journal_mode = WAL")  # so that no journal is ever beside the file
        db.executescript(TABLES)
        db.execute("INSERT INTO meta VALUES ('config', ?)", [json.dumps(config)])
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        db.commit()
        db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()  # close() would fail in silence
    finally:
        db.close()
    os.replace(draft, path)


def _own_files(folder: Path) -> Iterator[Path]:
    """The files of a campaign's database, its draft and its lock."""
    return chain(*(folder.glob(f"{name}*") for name in (FILE, _DRAFT, LOCK)))


def remove(folder: Path) -> None:
    """Removes the database of a campaign, and its folder unless the user has put files there."""
    with contextlib.suppress(OSError):
        for path in _own_files(folder):
            path.unlink()
        folder.rmdir()


def hold(folder: Path) -> IO[str]:
    """The lock of a campaign, held until it is closed or the process ends in any way.

    Raises: StoreError if another process holds it.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
    try:
        lock = open(os.open(folder / LOCK, flags, 0o644), "w")  # noqa: SIM115 (held)
    except OSError as error:
        raise StoreError(f"{folder / LOCK} cannot be opened: {error.strerror}") from error
    if not stat.S_ISREG(os.fstat(lock.fileno()).st_mode):
        lock.close()
        raise StoreError(f"{folder / LOCK} is no regular file")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StoreError(f"the campaign in {folder} is running in another process") from None
    return lock


def _check_files(folder: Path) -> None:
    """SQLite would follow links, wait for pipes, and delete what a foreign journal names.

    Raises: StoreError.
    """
    for name in (FILE, f"{FILE}-wal", f"{FILE}-shm", f"{FILE}-journal"):
        path = folder / name
        if name.endswith("-journal") and os.path.lexists(path):
            raise StoreError(f"{path} is of no campaign: remove it")
        if os.path.lexists(path) and not stat.S_ISREG(path.lstat().st_mode):
            raise StoreError(f"{path} is no regular file")


def _reading(folder: Path) -> str:
    """How SQLite opens the file for reading only: it would make a log and its index otherwise, and
    take over that of a campaign that was killed. Without a log, nobody writes.
    """
    if not (folder / f"{FILE}-wal").exists():
        return "?mode=ro&immutable=1"
    index = (folder / f"{FILE}-shm").exists()  # else the log cannot be read without making one
    return f"?mode=ro&readonly_shm={int(index)}"


def _damage(db: sqlite3.Connection) -> str:
    """What is wrong with the pages of a file and the types in it; "" if nothing is."""
    try:
        (answer, *_) = (row[0] for row in db.execute("PRAGMA quick_check(1)"))
    except DAMAGE as error:
        answer = str(error)
    return "" if answer == "ok" else answer.splitlines()[-1]


def _tables(db: sqlite3.Connection) -> set[tuple[str, str, str]]:
    """Tables, indexes, views and triggers with their definitions."""
    return set(db.execute("SELECT type, name, coalesce(sql, '') FROM sqlite_master"))


@cache
def _own_tables() -> frozenset[tuple[str, str, str]]:
    with contextlib.closing(sqlite3.connect(":memory:")) as db:
        db.executescript(TABLES)
        return frozenset(_tables(db))


def end_of(index: int | None) -> int:
    """An index that is excluded; one above all others for None."""
    return 1 << 62 if index is None else index
