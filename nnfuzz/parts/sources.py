"""The parts that a merged campaign consists of: their names, and figures that only they know."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import fields

from nnfuzz.base.reading import Unreadable
from nnfuzz.base.writing import as_json
from nnfuzz.store.sessions import HOST
from nnfuzz.store.store import Store
from nnfuzz.store.summary import OwnFigures, PartFigures, Summary, read_summary

SOURCES = "sources"
"""Key in the meta table of a merged campaign: figures of each part, by its name."""


_NUMBERS = tuple(f.name for f in fields(OwnFigures) if f.type in ("int", "float"))


def sources_of(part: Store) -> dict[str, PartFigures]:
    """Returns the figures of a part, or of those that it consists of, by name."""
    sources = part.meta_as(dict[str, PartFigures], SOURCES, {})
    return sources if part.meta(SOURCES) is not None else {name_of(part): figures_of(part)}


def name_of(part: Store) -> str:
    """Returns a name that stays the same wherever the campaign lies and however far it goes on."""
    config = part.config()
    text = json.dumps([config.get("seed"), config.get("shard"), part.sessions.began()])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def figures_of(part: Store, tests: int | None = None) -> PartFigures:
    """Returns the figures that only the summary of a part has. tests: their number, if known."""
    try:
        summary = read_summary(part.folder)
    except Unreadable:
        summary = Summary()
    return PartFigures(
        **vars(summary.own()),
        shard=str(part.config().get("shard", "")),
        tests=part.tests.count() if tests is None else tests,
        host=str(part.meta(HOST, "")),
        seen=part.sessions.last_active(),
    )


def added(parts: Iterable[PartFigures]) -> OwnFigures:
    """Returns the sums of the parts' figures; CPU times per test are left out."""
    sums, hangs, standstills = Counter[str](), Counter[str](), Counter[str]()
    for part in parts:
        hangs.update(part.hangs_of_survey)
        standstills.update(part.standstills)
        sums.update({name: getattr(part, name) for name in _NUMBERS})
    return OwnFigures(**sums, hangs_of_survey=hangs, standstills=standstills)  # type: ignore[arg-type]


def newest(first: PartFigures, second: PartFigures) -> PartFigures:
    """Returns of the figures of one part those after more tests."""
    return max(first, second, key=_size)


def _size(part: PartFigures) -> tuple[int, str]:
    return part.tests, json.dumps(as_json(part), sort_keys=True)
