"""The tables of a campaign's file."""

SCHEMA = 11
FILE = "campaign.sqlite"
LOCK = "campaign.lock"
FOLDERS = FINDINGS, SUSPECTS, DUPLICATES = "findings", "suspects", "duplicates"
"""Where the folders of findings are, below the campaign's."""

TABLES = """
CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT NOT NULL) STRICT;
CREATE TABLE sessions (id INTEGER PRIMARY KEY, started REAL NOT NULL, seconds REAL NOT NULL,
    workers INTEGER NOT NULL, sut TEXT NOT NULL) STRICT;
CREATE TABLE epochs (id INTEGER PRIMARY KEY, refused TEXT NOT NULL, reasons TEXT NOT NULL,
    avoided TEXT NOT NULL) STRICT;
CREATE TABLE probes (key TEXT NOT NULL, instance INTEGER NOT NULL, backend TEXT NOT NULL,
    before INTEGER NOT NULL, answers TEXT NOT NULL, PRIMARY KEY (key, instance, backend))
    WITHOUT ROWID, STRICT;
CREATE TABLE tests (idx INTEGER PRIMARY KEY, status TEXT NOT NULL, epoch INTEGER NOT NULL,
    at REAL NOT NULL, outcomes TEXT NOT NULL, seconds TEXT NOT NULL, comparable REAL,
    digest TEXT NOT NULL, exporter TEXT NOT NULL, variations TEXT NOT NULL,
    items TEXT NOT NULL, features TEXT) STRICT;
CREATE TABLE findings (signature TEXT PRIMARY KEY, test TEXT NOT NULL,
    kind TEXT NOT NULL, stage TEXT NOT NULL, backend TEXT NOT NULL, level TEXT NOT NULL,
    title TEXT NOT NULL, folder TEXT NOT NULL, found_at REAL NOT NULL, party TEXT NOT NULL,
    place INTEGER NOT NULL, size INTEGER NOT NULL, suspicion TEXT NOT NULL,
    compiler TEXT NOT NULL) STRICT;
CREATE TABLE occurrences (signature TEXT NOT NULL, test TEXT NOT NULL, idx INTEGER,
    bucket TEXT NOT NULL, kind TEXT NOT NULL, levels TEXT NOT NULL, repeated INTEGER NOT NULL,
    tried INTEGER NOT NULL, title TEXT NOT NULL, PRIMARY KEY (signature, test))
    WITHOUT ROWID, STRICT;
CREATE TABLE hangs (test TEXT NOT NULL, idx INTEGER, backend TEXT NOT NULL, level TEXT NOT NULL,
    stage TEXT NOT NULL, seconds REAL NOT NULL, epoch INTEGER NOT NULL, signature TEXT NOT NULL,
    exporter TEXT NOT NULL, items TEXT NOT NULL, late INTEGER NOT NULL, status TEXT NOT NULL,
    PRIMARY KEY (test, backend)) WITHOUT ROWID, STRICT;
CREATE TABLE reductions (signature TEXT PRIMARY KEY, row TEXT, suspected TEXT) STRICT;
CREATE TABLE events (id INTEGER PRIMARY KEY, at REAL NOT NULL, test TEXT NOT NULL,
    kind TEXT NOT NULL, backend TEXT NOT NULL, stage TEXT NOT NULL, signal TEXT NOT NULL,
    message TEXT NOT NULL, details TEXT NOT NULL) STRICT;
CREATE INDEX tests_by_occurrence ON occurrences (idx);
"""
