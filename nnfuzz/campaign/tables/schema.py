"""The tables of a campaign's file."""

SCHEMA = 1
FILE = "campaign.sqlite"
LOCK = "campaign.lock"

TABLES = """
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
LATER = {
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
