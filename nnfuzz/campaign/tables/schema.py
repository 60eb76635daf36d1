"""The tables of a campaign's file."""

SCHEMA = 4
FILE = "campaign.sqlite"
LOCK = "campaign.lock"

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL);
CREATE TABLE sessions (id INTEGER PRIMARY KEY, started REAL NOT NULL, seconds REAL NOT NULL,
    workers INTEGER NOT NULL, sut TEXT NOT NULL);
CREATE TABLE epochs (id INTEGER PRIMARY KEY, refused TEXT NOT NULL, reasons TEXT NOT NULL);
CREATE TABLE avoided (epoch INTEGER NOT NULL, item TEXT NOT NULL, signature TEXT NOT NULL,
    why TEXT NOT NULL, share REAL NOT NULL, PRIMARY KEY (epoch, item)) WITHOUT ROWID;
CREATE TABLE probes (key TEXT NOT NULL, instance INTEGER NOT NULL, backend TEXT NOT NULL,
    before INTEGER NOT NULL, answers TEXT NOT NULL, PRIMARY KEY (key, instance, backend))
    WITHOUT ROWID;
CREATE TABLE tests (idx INTEGER PRIMARY KEY, status TEXT NOT NULL, epoch INTEGER NOT NULL,
    at REAL NOT NULL, outcomes TEXT NOT NULL, seconds TEXT NOT NULL, comparable REAL,
    digest TEXT NOT NULL, exporter TEXT NOT NULL, items TEXT NOT NULL);
CREATE TABLE features (idx INTEGER PRIMARY KEY, graph TEXT NOT NULL);
CREATE TABLE motifs (idx INTEGER PRIMARY KEY, names TEXT NOT NULL);
CREATE TABLE texts (digest BLOB PRIMARY KEY, text BLOB NOT NULL) WITHOUT ROWID;
CREATE TABLE errors (idx INTEGER NOT NULL, backend TEXT NOT NULL, level TEXT NOT NULL,
    digest BLOB NOT NULL, PRIMARY KEY (idx, backend, level)) WITHOUT ROWID;
CREATE TABLE findings (signature TEXT PRIMARY KEY, test TEXT NOT NULL,
    kind TEXT NOT NULL, stage TEXT NOT NULL, backend TEXT NOT NULL, level TEXT NOT NULL,
    title TEXT NOT NULL, folder TEXT NOT NULL, found_at REAL NOT NULL, party TEXT NOT NULL,
    place INTEGER NOT NULL, size INTEGER NOT NULL, complaint TEXT NOT NULL,
    compiler TEXT NOT NULL);
CREATE TABLE occurrences (signature TEXT NOT NULL, test TEXT NOT NULL, idx INTEGER,
    bucket TEXT NOT NULL, kind TEXT NOT NULL, PRIMARY KEY (signature, test)) WITHOUT ROWID;
CREATE TABLE repeats (signature TEXT NOT NULL, test TEXT NOT NULL, levels TEXT NOT NULL,
    repeated INTEGER NOT NULL, tried INTEGER NOT NULL, title TEXT NOT NULL,
    PRIMARY KEY (signature, test)) WITHOUT ROWID;
CREATE TABLE hangs (test TEXT NOT NULL, idx INTEGER, backend TEXT NOT NULL, level TEXT NOT NULL,
    stage TEXT NOT NULL, seconds REAL NOT NULL, epoch INTEGER NOT NULL, signature TEXT NOT NULL,
    exporter TEXT NOT NULL, items TEXT NOT NULL, late INTEGER NOT NULL, status TEXT NOT NULL,
    PRIMARY KEY (test, backend)) WITHOUT ROWID;
CREATE TABLE reductions (signature TEXT PRIMARY KEY, row TEXT NOT NULL);
CREATE TABLE suspects (signature TEXT PRIMARY KEY, refined TEXT NOT NULL);
CREATE TABLE events (id INTEGER PRIMARY KEY, at REAL NOT NULL, test TEXT NOT NULL,
    kind TEXT NOT NULL, backend TEXT NOT NULL, stage TEXT NOT NULL, signal TEXT NOT NULL,
    message TEXT NOT NULL, details TEXT NOT NULL);
CREATE INDEX tests_by_occurrence ON occurrences (idx);
"""
