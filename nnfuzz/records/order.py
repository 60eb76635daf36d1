"""The one order in which findings are listed: at the end of a campaign, in summary and report."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from nnfuzz.backend.outcome import OutcomeKind
from nnfuzz.records.rows import FindingRow
from nnfuzz.triage.title import without_boilerplate

_WORTH = (
    (OutcomeKind.MISMATCH,),
    (OutcomeKind.CRASH,),
    (OutcomeKind.TIMEOUT,),
    (OutcomeKind.EXCEPTION,),
    (OutcomeKind.DISPUTED,),
    (OutcomeKind.ACCEPTED,),
)
_UNREDUCED = 1 << 30  # nodes: behind all that were reduced
_ERRORS = (OutcomeKind.EXCEPTION, OutcomeKind.CRASH)


def by_value(findings: Iterable[FindingRow]) -> list[FindingRow]:
    """What an engineer can act on first: what is reduced, and of that wrong results, then crashes,
    timeouts, exceptions, results of which nobody knows who is right, invalid models that are
    accepted; then the rest in the same order, but for wrong results, which come last. Of one kind
    the most frequent come first, then the smallest models. Titles of errors lose what most of their
    compiler's have in common.
    """
    return sorted(_plain(list(findings)), key=_value)


def _plain(rows: list[FindingRow]) -> list[FindingRow]:
    said: dict[str, dict[str, str]] = {}
    for row in rows:
        if row.kind in _ERRORS:
            said.setdefault(row.compiler, {})[row.title] = row.title
    for titles in said.values():
        titles |= zip(titles, without_boilerplate(list(titles)))
    return [
        replace(row, title=said.get(row.compiler, {}).get(row.title, row.title)) for row in rows
    ]


def _value(row: FindingRow) -> tuple[bool, int, int, int, int, str]:
    kinds = (i for i, kinds in enumerate(_WORTH) if row.kind in kinds)
    worth = next(kinds, len(_WORTH))
    if row.kind == OutcomeKind.MISMATCH and not row.grouping.nodes:
        worth = len(_WORTH)  # reduction may show that it is one of the others
    size = row.grouping.nodes[1] if row.grouping.nodes else _UNREDUCED
    return not row.grouping.nodes, worth, -row.occurrences, size, row.size, row.signature
