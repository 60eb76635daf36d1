"""Rows that belong to nothing or cannot be read, and the statements that remove them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from nnfuzz.base.reading import Unreadable
from nnfuzz.ir.features import Features
from nnfuzz.store.campaign_tests import outcomes_of
from nnfuzz.store.columns import loads
from nnfuzz.store.database import Database

_NO_TEST = "idx NOT IN (SELECT idx FROM tests)"
_NO_PACK = "NOT EXISTS (SELECT 1 FROM packed WHERE idx BETWEEN first AND last)"
_STRAYS = {
    "graph without its test": ("features", _NO_TEST),
    "list of motifs without its test": ("motifs", _NO_TEST),
    "list of passes without its test": ("passes", _NO_TEST),
    "error without its test": ("errors", f"{_NO_TEST} AND {_NO_PACK}"),
    "error without its text": ("errors", "digest NOT IN (SELECT digest FROM texts)"),
    "restraint without its epoch": ("avoided", "epoch NOT IN (SELECT id FROM epochs)"),
    "suspect without its finding": (
        "suspects",
        "signature NOT IN (SELECT signature FROM findings)",
    ),
    "repetition without its occurrence": (
        "repeats",
        "(signature, test) NOT IN (SELECT signature, test FROM occurrences)",
    ),
}
"""By name of the kind of row: table and condition."""


def strays(db: Database) -> Iterator[tuple[str, int, Callable[[], object]]]:
    """Yields the rows that belong to nothing: their kind, their number, and how to remove them."""
    for name, (table, condition) in _STRAYS.items():
        where = f"FROM {table} WHERE {condition}"
        count = db.value(f"SELECT count(*) {where}")
        if count:
            yield name, count, partial(db.execute, f"DELETE {where}")


def unreadable_tests(db: Database) -> list[int]:
    """Returns the indexes of tests whose rows cannot be read."""
    query = """
        SELECT idx, outcomes, seconds, graph
        FROM tests LEFT JOIN features USING (idx) ORDER BY idx"""
    found = []
    for index, outcomes, seconds, graph in db.execute(query):
        try:
            outcomes_of(outcomes)
            loads(dict[str, float], seconds)
            if graph is not None:
                loads(Features, graph)
        except Unreadable:
            found.append(index)
    return found


def unrestrained_tests(db: Database) -> list[int]:
    """Returns the indexes of tests whose epoch is not known, in a merged campaign, where epochs are
    named by their settings.
    """
    query = "SELECT idx FROM tests WHERE epoch NOT IN (SELECT id FROM epochs) ORDER BY idx"
    return [row[0] for row in db.execute(query)]
