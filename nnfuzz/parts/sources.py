"""The parts that a merged campaign consists of: their names, and figures that only they know."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from nnfuzz.base.reading import Unreadable, read
from nnfuzz.base.untrusted import read_json
from nnfuzz.store.sessions import HOST
from nnfuzz.store.store import Store
from nnfuzz.upkeep.post_reduction import SUMMARY

SOURCES = "sources"
"""In the meta table of what was put together: figures of each part, by its name."""
ADDED = (
    *("full_checks", "full_check_finds", "reduce_seconds", "reduce_seconds_after_campaign"),
    "reduce_seconds_missing",
)
"""Figures of a summary that are sums over parts, and stand nowhere else."""
Figures = dict[str, Any]


def sources_of(part: Store) -> dict[str, Figures]:
    """Of a part itself, or of those that it consists of."""
    told = part.meta(SOURCES)
    return {name_of(part): figures_of(part)} if told is None else read(dict[str, Figures], told)


def name_of(part: Store) -> str:
    """The same wherever the campaign lies, and however far it has gone on."""
    config = part.config()
    text = json.dumps([config.get("seed"), config.get("shard"), part.sessions.began()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def figures_of(part: Store, tests: int | None = None) -> Figures:
    """What the summary of a part says, and nothing else does. tests: their number, if known."""
    try:
        told = read(dict[str, Any], read_json(part.folder / SUMMARY))
    except Unreadable:
        told = {}
    count = part.tests.count() if tests is None else tests
    about = {"shard": part.config().get("shard", ""), "tests": count}
    figures = {name: told.get(name, 0) for name in ADDED}
    hangs = told.get("hangs_of_survey", {})
    where = {"host": part.meta(HOST, ""), "seen": part.sessions.seen_last()}
    cpu = told.get("cpu_ms", {})
    standstills = told.get("standstills", {})
    more = {"hangs_of_survey": hangs, "standstills": standstills, "cpu_ms": cpu}
    return {**about, **figures, **where, **more}


def newest(first: Figures, second: Figures) -> Figures:
    """Of the figures of one part, those after more tests."""
    return max(first, second, key=_size)


def _size(figures: Mapping[str, Any]) -> tuple[int, str]:
    return int(figures.get("tests", 0)), json.dumps(figures, sort_keys=True)
