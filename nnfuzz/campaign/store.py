"""What a campaign knows, in one SQLite file that survives `kill -9` at any moment.

One transaction per test, in WAL mode: whatever `record` has returned from is kept. A finding's
folder is written before its row, so that a row never names a folder that is not there.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from nnfuzz.campaign.rows import (
    AvoidedRow,
    EventRow,
    FindingRow,
    FlakyRow,
    Occurrence,
    Record,
    ReductionRow,
    TestRow,
    merged,
)
from nnfuzz.ir.features import Features

SCHEMA = 1
FILE = "campaign.sqlite"
LOCK = "campaign.lock"

_TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE sessions (id INTEGER PRIMARY KEY, started REAL NOT NULL, seconds REAL NOT NULL,
    workers INTEGER NOT NULL, sut TEXT NOT NULL);
CREATE TABLE epochs (id INTEGER PRIMARY KEY, hash TEXT NOT NULL, refused TEXT NOT NULL,
    reasons TEXT NOT NULL);
CREATE TABLE tests (idx INTEGER PRIMARY KEY, status TEXT NOT NULL, epoch INTEGER NOT NULL,
    at REAL NOT NULL, outcomes TEXT NOT NULL, seconds TEXT NOT NULL, comparable REAL);
CREATE TABLE findings (signature TEXT PRIMARY KEY, first_index INTEGER NOT NULL,
    kind TEXT NOT NULL, stage TEXT NOT NULL, backend TEXT NOT NULL, level TEXT NOT NULL,
    title TEXT NOT NULL, origin TEXT NOT NULL, folder TEXT NOT NULL, found_at REAL NOT NULL,
    party TEXT NOT NULL);
CREATE TABLE occurrences (signature TEXT NOT NULL, idx INTEGER NOT NULL, origin TEXT NOT NULL,
    bucket TEXT NOT NULL, PRIMARY KEY (signature, idx, origin)) WITHOUT ROWID;
CREATE TABLE events (id INTEGER PRIMARY KEY, at REAL NOT NULL, idx INTEGER NOT NULL,
    kind TEXT NOT NULL, backend TEXT NOT NULL, stage TEXT NOT NULL, signal TEXT NOT NULL,
    message TEXT NOT NULL, details TEXT NOT NULL);
"""
_LATER = {
    "features": "(idx INTEGER PRIMARY KEY, graph TEXT NOT NULL)",
    "motifs": "(idx INTEGER PRIMARY KEY, names TEXT NOT NULL)",
    "repeats": """(signature TEXT NOT NULL, idx INTEGER NOT NULL, origin TEXT NOT NULL,
        levels TEXT NOT NULL, repeated INTEGER NOT NULL, tried INTEGER NOT NULL,
        title TEXT NOT NULL, PRIMARY KEY (signature, idx, origin)) WITHOUT ROWID""",
    "reductions": """(signature TEXT PRIMARY KEY, refined TEXT NOT NULL, title TEXT NOT NULL,
        pattern TEXT NOT NULL, graph TEXT NOT NULL, before INTEGER NOT NULL,
        after INTEGER NOT NULL, seconds REAL NOT NULL, reason TEXT NOT NULL)""",
    "suspects": "(signature TEXT PRIMARY KEY, refined TEXT NOT NULL)",
    "explained": "(signature TEXT PRIMARY KEY)",
    "avoided": """(epoch INTEGER NOT NULL, item TEXT NOT NULL, signature TEXT NOT NULL,
        why TEXT NOT NULL, share REAL NOT NULL, PRIMARY KEY (epoch, item)) WITHOUT ROWID""",
}
"""Not among the tables, since campaigns of schema 1 were made without them."""


class StoreError(RuntimeError):
    """The campaign's file is missing, in use, or of another version; the message names the fix."""


class Store:
    """The open file of a campaign: one process writes, any number may read meanwhile."""

    def __init__(self, folder: Path, connection: sqlite3.Connection, lock: IO | None = None):
        self.folder = folder
        self._db = connection
        self._lock = lock
        self._began = time.monotonic()
        self._ended: float | None = None
        self._session: int | None = None
        self._workers = 1
        self._sut: Callable[[], dict[str, float]] = dict

    @classmethod
    def create(cls, folder: Path, config: dict[str, Any]) -> Store:
        """Makes the folder and the file. Raises: StoreError if a campaign is there already."""
        path = folder / FILE
        if path.exists():
            raise StoreError(
                f"{folder} holds a campaign already: add --resume to go on with it, "
                "or choose another --out"
            )
        folder.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(".new")
        draft.unlink(missing_ok=True)
        db = sqlite3.connect(draft)
        db.executescript(_TABLES)
        db.execute("INSERT INTO meta VALUES ('config', ?)", [json.dumps(config)])
        db.execute(f"PRAGMA user_version = {SCHEMA}")
        db.commit()
        db.close()
        os.replace(draft, path)  # a file by that name is complete
        return cls.open(folder)

    @classmethod
    def open(cls, folder: Path, write: bool = True) -> Store:
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
                for name, columns in _LATER.items():
                    self._db.execute(f"CREATE TABLE IF NOT EXISTS {name} {columns}")
        except sqlite3.DatabaseError as error:
            raise StoreError(f"{path} is not the file of a campaign ({error})") from error
        if version != SCHEMA:
            raise StoreError(
                f"{path} has schema {version}; this nnfuzz reads {SCHEMA}: use the version "
                "that made it, or start a new campaign"
            )

    # -- the campaign as a whole --------------------------------------------------------------

    def config(self) -> dict[str, Any]:
        return self.meta("config")

    def meta(self, key: str, default: Any = None) -> Any:
        row = self._db.execute("SELECT value FROM meta WHERE key = ?", [key]).fetchone()
        return json.loads(row[0]) if row else default

    def set_meta(self, key: str, value: Any) -> None:
        self._db.execute("INSERT OR REPLACE INTO meta VALUES (?, ?)", [key, json.dumps(value)])

    def begin_session(self) -> None:
        """Starts the clock of a session; its time is kept with every record."""
        self._began, self._ended = time.monotonic(), None
        cursor = self._db.execute(
            "INSERT INTO sessions (started, seconds, workers, sut) VALUES (?, 0, 1, '{}')",
            [time.time()],
        )
        self._session = cursor.lastrowid

    def account(self, workers: int, sut: Callable[[], dict[str, float]]) -> None:
        """From now on, the session's time in compilers is kept as well.

        workers: per backend. sut: tells the seconds by backend.
        """
        self._workers, self._sut = workers, sut

    def seconds_before(self) -> float:
        """Wall seconds of all earlier sessions, as far as they were recorded."""
        query = "SELECT coalesce(sum(seconds), 0) FROM sessions WHERE id IS NOT ?"
        return self._db.execute(query, [self._session]).fetchone()[0]

    def session_seconds(self) -> float:
        """Wall seconds from begin_session to stop_clock."""
        return (self._ended or time.monotonic()) - self._began

    def stop_clock(self) -> None:
        """What comes now is no longer the campaign's time: reducing what it has found."""
        self._ended = self._ended or time.monotonic()

    def sut_shares(self) -> dict[str, float]:
        """Seconds inside each compiler / (wall seconds x workers), over all sessions."""
        lanes, busy = 0.0, Counter[str]()
        for seconds, workers, sut in self._db.execute("SELECT seconds, workers, sut FROM sessions"):
            lanes += seconds * workers
            busy.update(json.loads(sut))
        return {backend: spent / lanes for backend, spent in busy.items()} if lanes else {}

    def touch(self) -> None:
        """Keeps the time of the session."""
        self._db.execute(
            "UPDATE sessions SET seconds = ?, workers = ?, sut = ? WHERE id = ?",
            [self.session_seconds(), self._workers, _dumps(self._sut()), self._session],
        )

    # -- epochs -------------------------------------------------------------------------------

    def add_epoch(
        self,
        refused: Iterable[str],
        reasons: dict[str, str],
        avoided: Iterable[AvoidedRow] = (),
    ) -> int:
        """Records the refusals under which tests from now on are generated; returns its id.

        reasons: of the refusals that are new in it. avoided: all that is avoided in it.
        """
        refused, avoided = sorted(refused), list(avoided)
        names = [*refused, *sorted(row.item for row in avoided)]
        digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:12]
        with self._transaction():
            cursor = self._db.execute(
                "INSERT INTO epochs (hash, refused, reasons) VALUES (?, ?, ?)",
                [digest, json.dumps(refused), json.dumps(reasons)],
            )
            epoch = int(cursor.lastrowid or 0)
            self._db.executemany(
                "INSERT INTO avoided VALUES (?, ?, ?, ?, ?)",
                [(epoch, row.item, row.signature, row.why, row.share) for row in avoided],
            )
        return epoch

    def avoided_in(self, epoch: int) -> list[AvoidedRow]:
        """What was avoided in an epoch, by item; nothing for an unknown one."""
        query = "SELECT item, signature, why, share FROM avoided WHERE epoch = ? ORDER BY item"
        return [AvoidedRow(*row) for row in self._rows("avoided", query, [epoch])]

    def ever_avoided(self) -> list[AvoidedRow]:
        """Everything that was avoided in some epoch, each item once."""
        query = """
            SELECT item, signature, why, share FROM avoided GROUP BY item
            ORDER BY min(epoch), item"""
        return [AvoidedRow(*row) for row in self._rows("avoided", query)]

    def last_epoch(self) -> tuple[int, list[str]] | None:
        """Id and refused signatures of the newest epoch."""
        query = "SELECT id, refused FROM epochs ORDER BY id DESC LIMIT 1"
        row = self._db.execute(query).fetchone()
        return (row[0], json.loads(row[1])) if row else None

    def restraints_in(self, epoch: int) -> dict[str, list[str]]:
        """The fields of CaseConfig that an epoch sets."""
        avoided = [row.item for row in self.avoided_in(epoch)]
        return {"refused": list(self.refused_in(epoch)), "avoid": avoided}

    def refused_in(self, epoch: int) -> tuple[str, ...]:
        """The refused signatures of an epoch; none for an unknown one."""
        row = self._db.execute("SELECT refused FROM epochs WHERE id = ?", [epoch]).fetchone()
        return tuple(json.loads(row[0])) if row else ()

    def reasons(self) -> dict[str, str]:
        """Refused signature -> why, over all epochs."""
        found: dict[str, str] = {}
        for (text,) in self._db.execute("SELECT reasons FROM epochs ORDER BY id"):
            found.update(json.loads(text))
        return found

    # -- tests --------------------------------------------------------------------------------

    def record(self, record: Record) -> None:
        """Adds everything that belongs to one test, or nothing."""
        with self._transaction():
            self._insert(record, time.time())
            self.touch()

    @contextlib.contextmanager
    def _transaction(self) -> Iterator[None]:
        self._db.execute("BEGIN")
        try:
            yield
        except BaseException:
            self._db.execute("ROLLBACK")
            raise
        self._db.execute("COMMIT")

    def _rows(self, table: str, query: str, values: Sequence[Any] = ()) -> Iterable[Any]:
        """The result of a query; nothing if the campaign is older than the table."""
        known = "SELECT 1 FROM sqlite_master WHERE type = 'table' AND name = ?"
        if not self._db.execute(known, [table]).fetchone():
            return ()
        return self._db.execute(query, values)

    def _insert(self, record: Record, now: float) -> None:
        if record.test:
            self._add_test(record.test, now)
        for finding in record.findings:
            self._add_finding(finding)
        for seen in record.occurrences:
            self._db.execute(
                "INSERT OR REPLACE INTO occurrences VALUES (?, ?, ?, ?)",
                [seen.signature, seen.index, seen.origin, seen.bucket],
            )
            if seen.levels or seen.tried:
                self._add_repeats(seen)
        for e in record.events:
            self._db.execute(
                "INSERT INTO events (at, idx, kind, backend, stage, signal, message, details) "
                "VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
                [now, e.index, e.kind, e.backend, e.stage, e.signal, e.message, e.details],
            )

    def _add_test(self, test: TestRow, now: float) -> None:
        seconds = {phase: round(value, 6) for phase, value in test.seconds.items()}
        self._db.execute(
            "INSERT OR REPLACE INTO tests VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                test.index,
                test.status,
                test.epoch,
                now,
                _dumps(test.outcomes),
                _dumps(seconds),
                test.comparable,
            ],
        )
        if test.features:
            self._db.execute(
                "INSERT OR REPLACE INTO features VALUES (?, ?)",
                [test.index, _dumps(test.features.to_json())],
            )

        if test.motifs:
            self._db.execute(
                "INSERT OR REPLACE INTO motifs VALUES (?, ?)", [test.index, " ".join(test.motifs)]
            )

    def _add_repeats(self, seen: Occurrence) -> None:
        self._db.execute(
            "INSERT OR REPLACE INTO repeats VALUES (?, ?, ?, ?, ?, ?, ?)",
            [
                seen.signature,
                seen.index,
                seen.origin,
                seen.levels,
                seen.repeated,
                seen.tried,
                seen.title,
            ],
        )

    def _add_finding(self, finding: FindingRow) -> None:
        f = finding
        self._db.execute(
            "INSERT OR REPLACE INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
            [
                f.signature,
                f.first_index,
                f.kind,
                f.stage,
                f.backend,
                f.level,
                f.title,
                f.origin,
                f.folder,
                f.found_at,
                f.party,
            ],
        )

    def findings(self) -> list[FindingRow]:
        """All unique findings with their counts, in order of discovery.

        Those that reduction has shown to be the same are one (nnfuzz.campaign.rows.merged).
        """
        return merged(self.signatures(), self.reductions(), self.suspects())

    def signatures(self) -> list[FindingRow]:
        """The same with one row per signature, whatever reduction has shown."""
        query = """
            SELECT f.signature, f.first_index, f.kind, f.stage, f.backend, f.level, f.title,
                   f.folder, f.origin, f.found_at, f.party, count(o.idx)
            FROM findings f LEFT JOIN occurrences o
                ON o.signature = f.signature AND o.bucket = 'finding'
            GROUP BY f.signature ORDER BY f.found_at, f.signature"""
        levels = self._by_levels()
        rows = [FindingRow(*row) for row in self._db.execute(query)]
        return [replace(row, by_levels=levels.get(row.signature, {})) for row in rows]

    def _by_levels(self) -> dict[str, dict[str, int]]:
        """Signature -> levels that failed -> how often."""
        query = """
            SELECT r.signature, r.levels, count(*) FROM repeats r JOIN occurrences o
                USING (signature, idx, origin) WHERE o.bucket = 'finding'
            GROUP BY r.signature, r.levels ORDER BY count(*) DESC, r.levels"""
        table: dict[str, dict[str, int]] = {}
        for signature, levels, count in self._rows("repeats", query):
            table.setdefault(signature, {})[levels] = count
        return table

    def flaky(self) -> list[FlakyRow]:
        """The failures that did not repeat, the most frequent first."""
        query = """
            SELECT o.signature, max(r.title), count(*), sum(r.repeated), sum(r.tried)
            FROM occurrences o JOIN repeats r USING (signature, idx, origin)
            WHERE o.bucket = 'flaky' GROUP BY o.signature ORDER BY count(*) DESC, o.signature"""
        return [FlakyRow(*row) for row in self._rows("repeats", query)]

    def where(self, signature: str) -> list[int]:
        """The indexes of tests in which a finding occurred."""
        query = "SELECT idx FROM occurrences WHERE signature = ? AND bucket = 'finding'"
        return [row[0] for row in self._db.execute(query, [signature]) if row[0] >= 0]

    # -- reduction ----------------------------------------------------------------------------

    def add_reduction(self, row: ReductionRow) -> None:
        """Keeps what came of reducing a finding, instead of an earlier attempt."""
        values = [
            row.signature,
            row.refined,
            row.title,
            row.pattern,
            json.dumps(row.graph),
            row.before,
            row.after,
            row.seconds,
            row.reason,
        ]
        self._db.execute(
            "INSERT OR REPLACE INTO reductions VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", values
        )
        if row.explained:
            self._db.execute("INSERT OR REPLACE INTO explained VALUES (?)", [row.signature])
        else:
            self._db.execute("DELETE FROM explained WHERE signature = ?", [row.signature])

    def suspect(self, signature: str, refined: str) -> None:
        """Notes that the model of a signature contains the pattern of a reduced finding."""
        query = "INSERT OR REPLACE INTO suspects VALUES (?, ?)"
        self._db.execute(query, [signature, refined])

    def suspects(self) -> dict[str, str]:
        """Signature -> refined signature that it may be of."""
        return dict(self._rows("suspects", "SELECT signature, refined FROM suspects"))

    def reductions(self) -> dict[str, ReductionRow]:
        """What came of each reduction, by signature."""
        query = """
            SELECT signature, refined, title, pattern, graph, before, after, seconds, reason
            FROM reductions ORDER BY signature"""
        explained = {row[0] for row in self._rows("explained", "SELECT signature FROM explained")}
        found = {}
        for signature, refined, title, pattern, graph, *rest in self._rows("reductions", query):
            told = (signature, refined, title, pattern, json.loads(graph), *rest)
            found[signature] = ReductionRow(*told, signature in explained)
        return found

    def turn_known(self, signature: str) -> None:
        """A finding that is to be ignored after all: only its occurrences stay, as known ones."""
        with self._transaction():
            self._db.execute("DELETE FROM findings WHERE signature = ?", [signature])
            query = "UPDATE occurrences SET bucket = 'known' WHERE signature = ? AND bucket = ?"
            self._db.execute(query, [signature, "finding"])

    def move_finding(self, signature: str, folder: str) -> None:
        """Notes that the folder of a signature lies elsewhere in the campaign."""
        self._db.execute("UPDATE findings SET folder = ? WHERE signature = ?", [folder, signature])

    # -- reading ------------------------------------------------------------------------------

    def signatures_in(self, bucket: str) -> set[str]:
        """The signatures that were seen in a bucket."""
        query = "SELECT DISTINCT signature FROM occurrences WHERE bucket = ?"
        return {row[0] for row in self._db.execute(query, [bucket])}

    def buckets(self) -> dict[str, int]:
        """Occurrences by bucket."""
        query = "SELECT bucket, count(*) FROM occurrences GROUP BY bucket"
        return dict(self._db.execute(query).fetchall())

    def events(self) -> list[EventRow]:
        query = "SELECT idx, kind, backend, stage, signal, message, details FROM events ORDER BY id"
        return [EventRow(*row) for row in self._db.execute(query)]

    def tests(self) -> Iterator[TestRow]:
        """All rows by index."""
        query = "SELECT idx, status, epoch, outcomes, seconds, comparable FROM tests ORDER BY idx"
        motifs = dict(self._rows("motifs", "SELECT idx, names FROM motifs"))
        for index, status, epoch, outcomes, seconds, comparable in self._db.execute(query):
            yield TestRow(
                index,
                status,
                epoch,
                json.loads(outcomes),
                json.loads(seconds),
                comparable,
                motifs=tuple(motifs.get(index, "").split()),
            )

    def features(self, latest: int | None = None) -> Iterator[tuple[int, Features]]:
        """Index and features of every graph that was kept, by index; or of the latest ones."""
        query = "SELECT idx, graph FROM features ORDER BY idx"
        if latest is not None:
            query = f"SELECT * FROM ({query} DESC LIMIT {int(latest)}) ORDER BY idx"
        for index, text in self._rows("features", query):
            yield index, Features.from_json(json.loads(text))

    def elapsed(self) -> dict[int, float]:
        """Index -> seconds of campaign time, over all sessions, at which it was recorded."""
        query = "SELECT started, seconds FROM sessions ORDER BY id"
        sessions, before = [], 0.0
        for started, seconds in self._db.execute(query):
            sessions.append((started, before))
            before += seconds
        times = {}
        for index, at in self._db.execute("SELECT idx, at FROM tests"):
            started, earlier = max((s for s in sessions if s[0] <= at), default=(at, 0.0))
            times[index] = earlier + at - started
        return times

    def done(self) -> set[int]:
        """The indexes that need no more work."""
        return {row[0] for row in self._db.execute("SELECT idx FROM tests")}

    def discard(self) -> None:
        """Closes and removes a campaign in which nothing has happened; does nothing to others."""
        unused = not self.done() and not self.findings() and not self.events()
        self.close()
        if unused:
            for path in self.folder.glob(f"{FILE}*"):
                path.unlink()
            (self.folder / LOCK).unlink(missing_ok=True)
            with contextlib.suppress(OSError):  # not empty: other files are the user's
                self.folder.rmdir()

    def close(self) -> None:
        """Idempotent; lets another process write."""
        self._db.close()
        if self._lock:
            self._lock.close()

    def __enter__(self) -> Store:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _lock(folder: Path) -> IO:
    """Held until it is closed or the process ends in whatever way."""
    lock = (folder / LOCK).open("w")
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        lock.close()
        raise StoreError(f"the campaign in {folder} is running in another process") from None
    return lock


def _dumps(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
